"""Ways to call a handler: at once, in its own thread, on an event loop, or only once."""

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
"""Most levels of events that answer events."""
MAX_WAITING: Final = 10_000
"""Most events that wait for one handler. Beyond it the oldest are dropped, and that is reported."""
_REST: Final = 5.0
"""Seconds without work after which a handler's thread ends."""
_TIMED: Final = 64
"""Number of calls for which a handler is timed after an ``emit`` of several handlers was slow."""


class Nesting(threading.local):
    """How deep this thread is in nested emits, how many there were, and when it last blamed a handler."""

    depth = 0
    count = 0
    blamed = 0.0


_DEPTHS: Final[WeakKeyDictionary[asyncio.Task[None], int]] = WeakKeyDictionary()
"""The nesting depth of tasks that run coroutine functions."""


class Subscription:
    """A handler, the events it wants, and how it is called.

    ``names``: it is called with the dotted name and the event. ``home``: the loop in which a coroutine function was
    subscribed; ``own_loop`` provides one otherwise. ``lane``: its thread, if it has one. ``inline``: it never gets one.
    ``ahead``: it is called before handlers without it. ``finish`` ends a subscription to a single event. ``strikes``:
    how often it was slow.
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
        """The handler's name, as reports show it."""
        return name_of(self.handler)

    def wants(self, kind: type[CorpusEvent]) -> bool:
        """Return True if events of this class are for this handler."""
        what = self.what
        if isinstance(what, str):
            return what in ("*", kind.dotted) or (what.endswith(".*") and kind.dotted.startswith(what[:-1]))
        return issubclass(kind, what)

    def call_for(self, kind: type[CorpusEvent]) -> EventCall:
        """Return the call that ``emit`` makes for an event of this class."""
        return CallOnce(self) if self.finish is not None else self.way(kind)

    def way(self, kind: type[CorpusEvent]) -> EventCall:
        """Return the thread, the loop queue, or the handler itself."""
        return self.lane or (self.scheduled if self.asynchronous else self.direct(kind))

    def direct(self, kind: type[CorpusEvent]) -> EventCall:
        """Return the handler itself, with the dotted name bound if it wants that."""
        return partial(self.handler, kind.dotted) if self.names else self.handler

    def failed(self, event: CorpusEvent, error: BaseException) -> None:
        """Report that the handler raised."""
        self.faults.report("handler", self.name, "no error", f"{event.dotted}: {error!r}", error)

    def begin_anew(self) -> None:
        """Reset in a forked child: no threads exist, and waiting events belong to the parent."""
        self.scheduled = LoopQueue(self)
        self.lane = HandlerThread(self) if self.lane is not None else None

    def idle(self) -> bool:
        """Return True if it has handled everything it was given."""
        return not (self.scheduled.events or self.scheduled.busy) and (
            self.lane is None or not (self.lane.events or self.lane.busy)
        )

    def flush(self, seconds: float) -> bool:
        """Wait until it has handled everything it was given; return False if that takes longer than ``seconds``."""
        return self.scheduled.flush(seconds) and (self.lane is None or self.lane.flush(seconds))


class CallOnce:
    """Call a handler for the first event only."""

    __slots__ = ("subscription",)

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription

    def __call__(self, event: CorpusEvent) -> None:
        subscription = self.subscription
        if subscription.finish is not None and subscription.finish(subscription):
            subscription.way(event.__class__)(event)
            if subscription.lane is not None:
                subscription.lane.end()


class TimedCall:
    """Call a handler and report slow calls; call ``finished`` when it has been timed often enough."""

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
    """The events that a handler was given and has not handled, in order."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.change = threading.Condition()
        self.events: deque[tuple[CorpusEvent, int]] = deque()
        """Each event with its nesting depth."""
        self.busy = False

    def add(self, event: CorpusEvent, depth: int) -> bool:
        """Add an event, with ``change`` held; return True if an older event was dropped for it."""
        self.events.append((event, depth))
        if len(self.events) <= MAX_WAITING:
            return False
        self.events.popleft()
        return True

    def next(self) -> tuple[CorpusEvent, int]:
        """Take the oldest event, with ``change`` held."""
        self.busy = True
        return self.events.popleft()

    def deeper(self, event: CorpusEvent) -> int:
        """Return the nesting depth of an event given to this handler; 0, with a report, if it is too deep."""
        depth = _depth_here(self.subscription.nesting) + 1
        if depth <= DEPTH:
            return depth
        self.subscription.faults.report(
            "recursion", event.dotted, f"{DEPTH} deep", "handlers answer each other without end"
        )
        return 0

    def done(self) -> None:
        """Mark the event that was taken as handled."""
        with self.change:
            self.busy = False
            self.change.notify_all()

    def call(self, event: CorpusEvent) -> Any:
        """Call the handler; return its result, or None if it raised."""
        try:
            return self.subscription.direct(event.__class__)(event)
        except BaseException as error:  # noqa: BLE001 - in its own thread nobody else would see the error
            self.subscription.failed(event, error)
            return None

    def lost(self) -> None:
        """Report that the handler cannot keep up."""
        self.subscription.faults.report(
            "handler",
            self.subscription.name,
            f"{MAX_WAITING} events",
            "it cannot keep up: the oldest events are dropped",
        )

    def flush(self, seconds: float) -> bool:
        """Wait until everything that was given is handled."""
        with self.change:
            return self.change.wait_for(lambda: not (self.events or self.busy), seconds)


class HandlerThread(HandlerQueue):
    """A thread for one handler. It exists while there is work for it."""

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        self.thread: threading.Thread | None = None
        self.ended = False

    def __call__(self, event: CorpusEvent) -> None:
        depth = self.deeper(event)
        if not depth:
            return
        with self.change:
            lost = self.add(event, depth)
            if self.thread is None:
                thread = threading.Thread(target=self._run, name=f"corpus {self.subscription.name}"[:60], daemon=True)
                thread.start()  # may raise: the process is ending, or has too many threads
                self.thread = thread
            else:
                self.change.notify_all()
        if lost:
            self.lost()

    def end(self) -> None:
        """End the thread once it has handled what it was given."""
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
                event, self.subscription.nesting.depth = self.next()
            try:
                self.call(event)
            finally:
                self.done()


class LoopQueue(HandlerQueue):
    """Run a coroutine function on its loop, one event after another."""

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        self.awake = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self.task: asyncio.Task[None] | None = None

    def __call__(self, event: CorpusEvent) -> None:
        depth = self.deeper(event)
        if not depth:
            return
        self._check_loop()
        loop = self.subscription.home or _running_loop() or self.subscription.own_loop()
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
        """Wait until everything that was given is handled; do not wait for a closed loop or the caller's own."""
        self._check_loop()
        return super().flush(0 if self.loop is not None and self.loop is _running_loop() else seconds)

    def _check_loop(self) -> None:
        """Drop events given to a loop that has been closed since."""
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
        except Exception as error:  # noqa: BLE001 - every error is reported
            self.subscription.failed(event, error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Drop the waiting events if the task was cancelled, perhaps before it began: its loop is ending."""
        if task.cancelled() or task.exception() is not None:
            self._give_up()

    def _give_up(self) -> None:
        with self.change:
            count = len(self.events)
            self.awake = self.busy = False
            self.events.clear()
            self.change.notify_all()
        if count:
            self.subscription.faults.report(
                "handler", self.subscription.name, "an open loop", f"its loop has ended: {count} events are lost"
            )


class LoopThread:
    """An event loop in a thread, for coroutine functions without a loop of their own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="corpus loop", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Cancel the tasks that still run on the loop, and end it."""
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
    """Return the nesting depth of this code: in this thread, or in this task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return max(nesting.depth, _DEPTHS.get(task, 0) if task is not None else 0)


def name_of(handler: Callable[..., Any]) -> str:
    """Return the module and qualified name of a function."""
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
