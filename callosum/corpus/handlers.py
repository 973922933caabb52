"""How a handler is called: at once, in a thread of its own, on an event loop, or just one more time."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from inspect import iscoroutinefunction, unwrap
from typing import Any, Final
from weakref import WeakKeyDictionary

from callosum.corpus.events import CorpusEvent
from callosum.corpus.fault_reports import FaultReporter

EventCall = Callable[[CorpusEvent], object]

DEPTH: Final = 32
"""So deep may events answer one another."""
MAX_WAITING: Final = 10_000
"""Most events that wait for one handler; of more the oldest are dropped, and that is reported."""
_REST: Final = 5.0
"""A handler's thread ends when there has been nothing to do for so many seconds."""
_TIMED: Final = 64
"""How often a handler is timed after an ``emit`` of several was slow."""


class Nesting(threading.local):
    """How deep this thread is in emits within emits, how many there were, and when it blamed a handler."""

    depth = 0
    count = 0
    blamed = 0.0


_DEPTHS: Final[WeakKeyDictionary[asyncio.Task[None], int]] = WeakKeyDictionary()
"""The same for the tasks in which coroutine functions are called."""


class Subscription:
    """Who wants what, and how it is called.

    ``names``: it is called with the dotted name and the event. ``home``: the loop in which a coroutine function was
    subscribed; ``own_loop`` gives one to those that have none. ``lane``: its thread, if it has one; ``inline``: it gets
    none; ``ahead``: it is called before those that are not. ``finish`` ends the subscription of who wants one event.
    ``strikes``: how often it was slow.
    """

    def __init__(
        self,
        what: type[CorpusEvent] | str,
        handler: Callable[..., Any],
        faults: FaultReporter,
        own_loop: Callable[[], asyncio.AbstractEventLoop],
        nesting: Nesting,
        finish: Callable[[Subscription], bool] | None = None,
    ) -> None:
        self.what = what
        self.handler = handler
        self.faults = faults
        self.own_loop = own_loop
        self.nesting = nesting
        self.finish = finish
        self.names = isinstance(what, str) and what.endswith("*")
        self.asynchronous = _is_async(handler)
        self.home = _running_loop() if self.asynchronous else None
        self.scheduled = LoopQueue(self)
        self.lane: HandlerThread | None = None
        self.inline = False
        self.ahead = False
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

    def call_for(self, kind: type[CorpusEvent]) -> EventCall:
        """What ``emit`` calls for an event of this class."""
        return CallOnce(self) if self.finish is not None else self.way(kind)

    def way(self, kind: type[CorpusEvent]) -> EventCall:
        """The thread, the loop, or the handler itself."""
        return self.lane or (self.scheduled if self.asynchronous else self.direct(kind))

    def direct(self, kind: type[CorpusEvent]) -> EventCall:
        """The handler itself with nothing in between, and the dotted name where it wants that."""
        return partial(self.handler, kind.dotted) if self.names else self.handler

    def failed(self, event: CorpusEvent, error: BaseException) -> None:
        """Reports that the handler raised."""
        self.faults.report("handler", self.name, "no error", f"{event.dotted}: {error!r}", error)

    def begin_anew(self) -> None:
        """In a forked child: there are no threads, and what waited is the parent's."""
        self.scheduled = LoopQueue(self)
        self.lane = HandlerThread(self) if self.lane is not None else None

    def idle(self) -> bool:
        """Whether it is done with all that it was given."""
        return not (self.scheduled.events or self.scheduled.busy) and (
            self.lane is None or not (self.lane.events or self.lane.busy)
        )

    def flush(self, seconds: float) -> bool:
        """Waits until what it was given is done; False if that takes longer."""
        return self.scheduled.flush(seconds) and (self.lane is None or self.lane.flush(seconds))


class CallOnce:
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


class TimedCall:
    """Calls a handler and tells if it was slow; ``finished`` is called when that was done often enough."""

    __slots__ = ("call", "clock", "finished", "left", "limit", "slow")

    def __init__(
        self,
        call: EventCall,
        clock: Callable[[], float],
        limit: float,
        slow: Callable[[EventCall, float], None],
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


class HandlerQueue:
    """What was given to a handler and is not done yet, in order."""

    def __init__(self, one: Subscription) -> None:
        self.one = one
        self.change = threading.Condition()
        self.events: deque[tuple[CorpusEvent, int]] = deque()
        """Each with how deep it was emitted."""
        self.busy = False

    def add(self, event: CorpusEvent, depth: int) -> bool:
        """Takes an event, with ``change`` held; whether an older one had to go."""
        self.events.append((event, depth))
        if len(self.events) <= MAX_WAITING:
            return False
        self.events.popleft()
        return True

    def next(self) -> tuple[CorpusEvent, int]:
        """Gives out the oldest event, with ``change`` held."""
        self.busy = True
        return self.events.popleft()

    def deeper(self, event: CorpusEvent) -> int:
        """How deep the event is for who is given it here; 0, and a report, if that is too deep."""
        depth = _depth_here(self.one.nesting) + 1
        if depth <= DEPTH:
            return depth
        self.one.faults.report("recursion", event.dotted, f"{DEPTH} deep", "it answers itself")
        return 0

    def done(self) -> None:
        """The event that was given out is done with."""
        with self.change:
            self.busy = False
            self.change.notify_all()

    def call(self, event: CorpusEvent) -> Any:
        """Calls the handler; returns what it returns, None if it raised."""
        try:
            return self.one.direct(event.__class__)(event)
        except BaseException as error:  # noqa: BLE001 - in a thread of its own nobody else would hear of it
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


class HandlerThread(HandlerQueue):
    """A thread for one handler, while there is something to do for it."""

    def __init__(self, one: Subscription) -> None:
        super().__init__(one)
        self.thread: threading.Thread | None = None
        self.ended = False

    def __call__(self, event: CorpusEvent) -> None:
        depth = self.deeper(event)
        if not depth:
            return
        with self.change:
            lost = self.add(event, depth)
            if self.thread is None:
                thread = threading.Thread(target=self._run, name=f"corpus {self.one.name}"[:60], daemon=True)
                thread.start()  # may fail: the process is ending, or has too many
                self.thread = thread
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
                event, self.one.nesting.depth = self.next()
            try:
                self.call(event)
            finally:
                self.done()


class LoopQueue(HandlerQueue):
    """Runs a coroutine function on the loop where it belongs, one event after another."""

    def __init__(self, one: Subscription) -> None:
        super().__init__(one)
        self.awake = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self.task: asyncio.Task[None] | None = None

    def __call__(self, event: CorpusEvent) -> None:
        depth = self.deeper(event)
        if not depth:
            return
        self._check_loop()
        loop = self.one.home or _running_loop() or self.one.own_loop()
        with self.change:
            lost = self.add(event, depth)
            wakes, self.awake = not self.awake, True
            if wakes:
                self.loop = loop
        if lost:
            self.lost()
        if wakes:
            try:
                loop.call_soon_threadsafe(self._start, loop)
            except RuntimeError as closed:
                self._give_up()
                raise RuntimeError("it was subscribed in an event loop that is closed") from closed

    def flush(self, seconds: float) -> bool:
        """Waits until everything that was given is done; not for a loop that is closed, nor for the caller's own."""
        self._check_loop()
        return super().flush(0 if self.loop is not None and self.loop is _running_loop() else seconds)

    def _check_loop(self) -> None:
        """What was given to a loop that is closed meanwhile is not done any more."""
        if self.awake and self.loop is not None and self.loop.is_closed():
            self._give_up()

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self.task = loop.create_task(self._run())
        self.task.add_done_callback(self._ended)

    async def _run(self) -> None:
        while True:
            with self.change:
                if not self.events:
                    self.awake = False
                    return
                event, depth = self.next()
            if self.task is not None:
                _DEPTHS[self.task] = depth
            await self._await(event)
            self.done()

    async def _await(self, event: CorpusEvent) -> None:
        answer = self.call(event)
        try:
            if answer is not None:
                await answer
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
            self.one.failed(event, error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """It was cancelled, perhaps before it began: its loop is ending."""
        if task.cancelled() or task.exception() is not None:
            self._give_up()

    def _give_up(self) -> None:
        with self.change:
            count = len(self.events)
            self.awake = self.busy = False
            self.events.clear()
            self.change.notify_all()
        if count:
            self.one.faults.report(
                "handler", self.one.name, "an open loop", f"its loop has ended: {count} events are lost"
            )


class LoopThread:
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


def _depth_here(nesting: Nesting) -> int:
    """How deep in events that answer one another this code runs: in this thread, or in this task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return max(nesting.depth, _DEPTHS.get(task, 0) if task is not None else 0)


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
