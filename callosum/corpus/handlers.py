"""How a handler is called: at once, in a thread of its own, on an event loop, or just one more time."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from inspect import iscoroutinefunction, unwrap
from typing import Any, Final

from callosum.corpus.events import CorpusEvent
from callosum.corpus.faults import Faults

Call = Callable[[CorpusEvent], object]

MAX_WAITING: Final = 10_000
"""Most events that wait for one handler; of more the oldest are dropped, and that is reported."""
_REST: Final = 5.0
"""A handler's thread ends when there has been nothing to do for so many seconds."""
_TIMED: Final = 64
"""How often a handler is timed after an ``emit`` of several was slow."""


class Subscription:
    """Who wants what, and how it is called.

    ``names``: it is called with the dotted name and the event. ``home``: the loop in which a coroutine function was
    subscribed; ``own_loop`` gives one to those that have none. ``lane``: its thread, if it has one; ``inline``: it gets
    none. ``finish`` ends the subscription of who wants one event. ``strikes``: how often it was slow.
    """

    def __init__(
        self,
        what: type[CorpusEvent] | str,
        handler: Callable[..., Any],
        faults: Faults,
        own_loop: Callable[[], asyncio.AbstractEventLoop],
        finish: Callable[[Subscription], bool] | None = None,
    ) -> None:
        self.what = what
        self.handler = handler
        self.faults = faults
        self.own_loop = own_loop
        self.finish = finish
        self.names = isinstance(what, str) and what.endswith("*")
        self.asynchronous = _is_async(handler)
        self.home = _running_loop() if self.asynchronous else None
        self.scheduled = Scheduled(self)
        self.lane: Lane | None = None
        self.inline = False
        self.strikes = 0

    @property
    def name(self) -> str:
        """The handler's name, as a report tells it."""
        return name_of(self.handler)

    def wants(self, kind: type[CorpusEvent]) -> bool:
        """Whether events of this class are for it."""
        what = self.what
        if isinstance(what, str):
            return what in ("*", kind.dotted) or (what.endswith(".*") and kind.dotted.startswith(what[:-1]))
        return issubclass(kind, what)

    def call_for(self, kind: type[CorpusEvent]) -> Call:
        """What ``emit`` calls for an event of this class."""
        return Once(self) if self.finish is not None else self.way(kind)

    def way(self, kind: type[CorpusEvent]) -> Call:
        """The thread, the loop, or the handler itself."""
        return self.lane or (self.scheduled if self.asynchronous else self.direct(kind))

    def direct(self, kind: type[CorpusEvent]) -> Call:
        """The handler itself with nothing in between, and the dotted name where it wants that."""
        return partial(self.handler, kind.dotted) if self.names else self.handler

    def failed(self, event: CorpusEvent, error: BaseException) -> None:
        """Reports that the handler raised."""
        self.faults.report("handler", self.name, "no error", f"{event.dotted}: {error!r}", error)

    def idle(self) -> bool:
        """Whether it is done with all that it was given."""
        return not (self.scheduled.events or self.scheduled.busy) and (
            self.lane is None or not (self.lane.events or self.lane.busy)
        )

    def flush(self, seconds: float) -> bool:
        """Waits until what it was given is done; False if that takes longer."""
        return self.scheduled.flush(seconds) and (self.lane is None or self.lane.flush(seconds))


class Once:
    """Calls a handler the first time alone."""

    __slots__ = ("one",)

    def __init__(self, one: Subscription) -> None:
        self.one = one

    def __call__(self, event: CorpusEvent) -> None:
        one = self.one
        if one.finish is not None and one.finish(one):
            one.way(event.__class__)(event)
            if one.lane is not None:
                one.lane.end()


class Timed:
    """Calls a handler and tells if it was slow; ``finished`` is called when that was done often enough."""

    __slots__ = ("call", "clock", "finished", "left", "limit", "slow")

    def __init__(
        self,
        call: Call,
        clock: Callable[[], float],
        limit: float,
        slow: Callable[[Call, float], None],
        finished: Callable[[], None],
    ) -> None:
        self.call = call
        self.clock = clock
        self.limit = limit
        self.slow = slow
        self.finished = finished
        self.left = _TIMED

    def __call__(self, event: CorpusEvent) -> None:
        began = self.clock()
        try:
            self.call(event)
        finally:
            took = self.clock() - began
            self.left -= 1
            if took > self.limit:
                self.slow(self.call, took)
            if not self.left:
                self.finished()


class Waiting:
    """What was given to a handler and is not done yet, in order."""

    def __init__(self, one: Subscription) -> None:
        self.one = one
        self.change = threading.Condition()
        self.events: deque[CorpusEvent] = deque()
        self.busy = False

    def add(self, event: CorpusEvent) -> bool:
        """Takes an event, with ``change`` held; whether an older one had to go."""
        self.events.append(event)
        if len(self.events) <= MAX_WAITING:
            return False
        self.events.popleft()
        return True

    def next(self) -> CorpusEvent:
        """Gives out the oldest event, with ``change`` held."""
        self.busy = True
        return self.events.popleft()

    def done(self) -> None:
        """The event that was given out is done with."""
        with self.change:
            self.busy = False
            self.change.notify_all()

    def call(self, event: CorpusEvent) -> Any:
        """Calls the handler; returns what it returns, None if it raised."""
        try:
            return self.one.direct(event.__class__)(event)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
            self.one.failed(event, error)
            return None

    def lost(self) -> None:
        """Reports that it cannot keep up."""
        self.one.faults.report(
            "handler", self.one.name, f"{MAX_WAITING} events", "it cannot keep up: the oldest events are dropped"
        )

    def flush(self, seconds: float) -> bool:
        """Waits until everything that was given is done."""
        with self.change:
            return self.change.wait_for(lambda: not (self.events or self.busy), seconds)


class Lane(Waiting):
    """A thread for one handler, while there is something to do for it."""

    def __init__(self, one: Subscription) -> None:
        super().__init__(one)
        self.thread: threading.Thread | None = None
        self.ended = False

    def __call__(self, event: CorpusEvent) -> None:
        with self.change:
            lost = self.add(event)
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name=f"corpus {self.one.name}"[:60], daemon=True)
                self.thread.start()
            else:
                self.change.notify_all()
        if lost:
            self.lost()

    def end(self) -> None:
        """Ends the thread once it has done what it was given."""
        with self.change:
            self.ended = True
            self.change.notify_all()

    def _run(self) -> None:
        while True:
            with self.change:
                self.change.wait_for(lambda: self.events or self.ended, _REST)
                if not self.events:
                    self.thread = None
                    return
                event = self.next()
            self.call(event)
            self.done()


class Scheduled(Waiting):
    """Runs a coroutine function on the loop where it belongs, one event after another."""

    def __init__(self, one: Subscription) -> None:
        super().__init__(one)
        self.awake = False
        self.task: asyncio.Task[None] | None = None

    def __call__(self, event: CorpusEvent) -> None:
        loop = self.one.home or _running_loop() or self.one.own_loop()
        with self.change:
            lost = self.add(event)
            wakes, self.awake = not self.awake, True
        if lost:
            self.lost()
        if wakes:
            try:
                loop.call_soon_threadsafe(self._start, loop)
            except RuntimeError as closed:
                self._give_up()
                raise RuntimeError("it was subscribed in an event loop that is closed") from closed

    def flush(self, seconds: float) -> bool:
        """Waits until everything that was given is done; what was given to a loop that is closed never will be."""
        if self.awake and self.one.home is not None and self.one.home.is_closed():
            self._give_up()
        return super().flush(seconds)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self.task = loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while True:
                with self.change:
                    if not self.events:
                        self.awake = False
                        return
                    event = self.next()
                await self._await(event)
                self.done()
        except BaseException:
            self._give_up()
            raise

    async def _await(self, event: CorpusEvent) -> None:
        answer = self.call(event)
        try:
            if answer is not None:
                await answer
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
            self.one.failed(event, error)

    def _give_up(self) -> None:
        with self.change:
            self.awake = self.busy = False
            self.events.clear()
            self.change.notify_all()


class OwnLoop:
    """An event loop in a thread, for coroutine functions that have no loop of their own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="corpus loop", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Cancels what still runs there, and ends it."""
        self.loop.call_soon_threadsafe(self._cancel)
        self._thread.join(5)
        if not self._thread.is_alive():
            self.loop.close()

    def _cancel(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            asyncio.gather(*tasks, return_exceptions=True).add_done_callback(lambda _: self.loop.stop())
        else:
            self.loop.stop()


def name_of(handler: Callable[..., Any]) -> str:
    """Where a function comes from: its module and its qualified name."""
    inner = handler.func if isinstance(handler, partial) else handler
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return f"{getattr(inner, '__module__', None) or '?'}.{name}"[:200]


def _is_async(handler: Callable[..., Any]) -> bool:
    inner = unwrap(handler.func if isinstance(handler, partial) else handler)
    return iscoroutinefunction(inner) or iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
