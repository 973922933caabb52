"""The bus: parts of one process tell one another what happened, as typed events.

::

    corpus = Corpus()
    off = corpus.on(ToolCompleted, lambda event: print(event.name, event.duration))
    corpus.on("safety.*", lambda type, event: print(type, event.tool_name))     # also "*", all events

    @corpus.on("task.failed")
    async def tell(event: TaskFailed) -> None: ...

    corpus.emit(ToolCompleted("github_prs", output="3 open", duration=1204.0))
    corpus.emit("tool.completed", {"name": "github_prs", "output": "3 open", "duration": 1204.0})   # the same
    off()

``emit`` calls the handlers one after another, in the order of their subscription (those that are ``ahead`` first), and
returns when they have.
What one handler does harms neither the others nor the emitter:

* One that raises is reported, and the next is called.
* One that was slower than ``SLOW`` seconds twice, or than ``STUCK`` once, is reported and from then on called in a
  thread of its own, in order. While one blocks for longer than ``STUCK``, the handlers of what other threads emit get
  threads too, and that is reported: only the ``emit`` that met it waits.
* A coroutine function is scheduled on the loop in which it was subscribed, else on the one that runs where the
  event is emitted, else on one that the bus keeps in a thread. Its failure is reported.
* Subscribing and unsubscribing take effect with the next ``emit``: one under way ends as it began.
* Emitting from a handler is an ``emit`` like any other. Deeper than ``DEPTH``, also through threads and loops, or more
  than ``NESTED`` events below one, are not emitted but reported: somebody answers himself without end.

To report is to log and to emit ``health.warning`` with the handler's name, for one handler and one fault at most
every ``REPORT_EVERY`` seconds.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic, perf_counter, time
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload
from weakref import WeakSet

from callosum.corpus.events import CATALOGUE, CorpusEvent, named, unknown
from callosum.corpus.fault_reports import FaultReporter
from callosum.corpus.handlers import (
    DEPTH,
    CallOnce,
    EventCall,
    HandlerThread,
    LoopQueue,
    LoopThread,
    Nesting,
    Subscription,
    TimedCall,
    name_of,
)
from callosum.errors import ConfigError

SLOW: Final = 0.1
"""A handler that takes longer twice gets a thread of its own, in seconds. Once may be the machine's fault."""
STUCK: Final = 1.0
"""A handler that takes longer gets a thread at once, in seconds."""
NESTED: Final = 10_000

E = TypeVar("E", bound=CorpusEvent)
F = TypeVar("F", bound=Callable[..., object])
R = TypeVar("R")
Handler = Callable[[E], object]
Off = Callable[[], None]
"""Unsubscribes. May be called more than once."""


class Corpus:
    """A bus. Its methods may be called from any thread and from handlers.

    ``slow`` is in seconds; ``clock`` (in seconds, any origin) is for tests.
    """

    def __init__(self, *, slow: float = SLOW, clock: Callable[[], float] = perf_counter) -> None:
        self._slow = slow
        self._clock = clock
        self._subscriptions: list[Subscription] = []
        self._leaving: list[Subscription] = []
        """Those that have ended and may still be at what they were given."""
        self._plans: dict[type[CorpusEvent], tuple[EventCall, ...]] = {}
        """What is called for an event. Thrown away whole when the subscriptions change."""
        self._guard = threading.RLock()
        self._inside: CorpusEvent | None = None
        """What some thread emits just now. A hint: it is set and read without a lock."""
        self._aged: frozenset[type[CorpusEvent]] = frozenset()
        """Classes whose emits the clock times, because an event of theirs came long after its ``at``."""
        self._watched: tuple[CorpusEvent | None, float] = (None, 0.0)
        self._nesting = Nesting()
        self._faults = FaultReporter(self._tell)
        self._loop: LoopThread | None = None
        self._closed = False
        _ALL.add(self)

    # --- subscribing ---------------------------------------------------------------------------------

    @overload
    def on(
        self, what: type[E], handler: Handler[E], *, deferred: bool = False, inline: bool = False, ahead: bool = False
    ) -> Off: ...
    @overload
    def on(
        self,
        what: str,
        handler: Callable[..., object],
        *,
        deferred: bool = False,
        inline: bool = False,
        ahead: bool = False,
    ) -> Off: ...
    @overload
    def on(self, what: type[E], *, deferred: bool = False) -> Callable[[Callable[[E], R]], Callable[[E], R]]: ...
    @overload
    def on(self, what: str, *, deferred: bool = False) -> Callable[[F], F]: ...
    def on(
        self, what: Any, handler: Any = None, *, deferred: bool = False, inline: bool = False, ahead: bool = False
    ) -> Any:
        """Has ``handler`` called for events; returns the function that ends it. Without a handler: a decorator.

        ``what`` is a class of events (``CorpusEvent`` means all), a dotted name, or a pattern: ``"tool.*"``,
        ``"*"``. A handler for a pattern is called with the dotted name and the event, any other with the event.
        ``deferred``: always in a thread of its own, for handlers that do slow work. ``inline``: never, however slow
        it seems, for those that keep up by themselves and may lose nothing. ``ahead``: called before the handlers that
        are not, for those that record: what a handler emits in answer to an event comes to them after that event.

        Raises ``ConfigError`` at ``what`` for a name that stands for no event, with one that is near.
        """
        if handler is None:
            return partial(self._decorate, what, deferred=deferred, once=False)
        return self._subscribe(what, handler, deferred=deferred, inline=inline, once=False, ahead=ahead)

    @overload
    def once(self, what: type[E], handler: Handler[E], *, deferred: bool = False) -> Off: ...
    @overload
    def once(self, what: str, handler: Callable[..., object], *, deferred: bool = False) -> Off: ...
    @overload
    def once(self, what: type[E], *, deferred: bool = False) -> Callable[[Callable[[E], R]], Callable[[E], R]]: ...
    @overload
    def once(self, what: str, *, deferred: bool = False) -> Callable[[F], F]: ...
    def once(self, what: Any, handler: Any = None, *, deferred: bool = False) -> Any:
        """As ``on``, for the next event alone; two threads that emit at once call it once."""
        if handler is None:
            return partial(self._decorate, what, deferred=deferred, once=True)
        return self._subscribe(what, handler, deferred=deferred, once=True)

    def off(self, what: type[CorpusEvent] | str, handler: Callable[..., object] | None = None) -> int:
        """Ends ``handler``'s subscriptions to just this ``what``, without a handler all to it; returns how many."""
        with self._guard:
            gone = [one for one in self._subscriptions if one.what == what and handler in (None, one.handler)]
            for one in gone:
                self._unsubscribe(one)
        return len(gone)

    def scope(self) -> SubscriptionScope:
        """Returns a place for subscriptions that end together.

        ::

            with corpus.scope() as turn:
                turn.on(ToolCalled, calls.append)
                ...  # however the block ends, the handler is called no more
        """
        return SubscriptionScope(self)

    def handlers(self, kind: type[CorpusEvent]) -> int:
        """How many handlers an event of this class has."""
        return sum(1 for one in tuple(self._subscriptions) if one.wants(kind))

    # --- emitting ------------------------------------------------------------------------------------

    @overload
    def emit(self, event: CorpusEvent) -> None: ...
    @overload
    def emit(self, event: str, payload: Mapping[str, Any]) -> None: ...
    def emit(self, event: Any, payload: Mapping[str, Any] | None = None) -> None:
        """Call the handlers of an event: an object of its class, or its dotted name with its payload.

        ``payload`` has the fields in the spelling of the wire, as JSON would hold them::

            corpus.emit("tool.called", {"name": "shell_exec", "args": {"command": "ls -la"}, "taskId": "TASK-42"})

        Raises nothing that a handler raises. Raises ``TypeError`` for what is no event; ``ConfigError`` at ``type`` for
        a name that stands for no event, else at the field of the payload that is wrong, missing or unknown.
        """
        if payload is not None:
            event = named(event, payload)
        if self._inside is not None:  # this thread, from within a handler, or another one
            self._emit_carefully(event)
            return
        began = self._clock() if self._aged and event.__class__ in self._aged else None
        try:
            self._inside = event
            for call in self._plans.get(event.__class__) or self._plan(event):
                try:
                    call(event)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
                    self._failed(call, event, error)
        finally:
            self._inside = None
        if began is not None:
            if self._clock() - began > self._slow:
                self._suspect(event.__class__)
            return
        try:
            if time() - event.at > self._slow:  # the emit was slow, or the event is an old one: the next ones are timed
                self._aged |= {event.__class__}
        except TypeError:  # `at` holds no number: no reason for the emitter to fail
            pass

    def _emit_carefully(self, event: CorpusEvent) -> None:
        """As ``emit``, where it matters how deep this thread is and whether others are stuck."""
        here = self._nesting
        if here.depth >= DEPTH or here.count >= NESTED:
            self._faults.report("recursion", event.dotted, f"{DEPTH} deep, {NESTED} in all", "it answers itself")
            return
        here.depth += 1
        here.count += 1
        first = self._inside is None
        try:
            if first:
                self._inside = event
            stuck = self._others_are_stuck()
            for call in self._plans.get(event.__class__) or self._plan(event):
                began = self._clock()
                try:
                    (self._beside(call, event.__class__) if stuck else call)(event)
                except Exception as error:  # noqa: BLE001
                    self._failed(call, event, error)
                took = self._clock() - began
                if took > self._slow and here.blamed < began:
                    self._strike(event.__class__, call, took)
        finally:
            if first:
                self._inside = None
            here.depth -= 1
            if not here.depth:
                here.count = 0

    # --- ending --------------------------------------------------------------------------------------

    def flush(self, seconds: float = 5.0) -> bool:
        """Waits until deferred, slow and async handlers have had everything emitted before; False if that takes longer.

        Not to be called from an event loop whose own handlers it would wait for: see ``settle``.
        """
        ends = monotonic() + seconds
        with self._guard:
            everybody = (*self._subscriptions, *self._leaving)
        done = [one for one in everybody if one.flush(max(0.0, ends - monotonic()))]
        with self._guard:
            self._leaving = [one for one in self._leaving if one not in done]
        return len(done) == len(everybody)

    async def settle(self, seconds: float = 5.0) -> bool:
        """``flush`` for who runs on an event loop."""
        return await asyncio.to_thread(self.flush, seconds)

    def close(self, seconds: float = 5.0) -> None:
        """Flushes, and ends all subscriptions and the threads that served them. Idempotent."""
        self.flush(seconds)
        with self._guard:
            self._closed = True
            for one in tuple(self._subscriptions):
                self._unsubscribe(one)
            self._leaving = []
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside: subscriptions -----------------------------------------------------------------------

    def _decorate(self, what: Any, handler: F, *, deferred: bool, once: bool) -> F:
        self._subscribe(what, handler, deferred=deferred, once=once)
        return handler

    def _subscribe(
        self,
        what: Any,
        handler: Callable[..., object],
        *,
        deferred: bool,
        once: bool,
        inline: bool = False,
        ahead: bool = False,
    ) -> Off:
        if not callable(handler):
            raise TypeError(f"expected a function to call, got {type(handler).__name__}")
        one = Subscription(
            _checked(what), handler, self._faults, self._own_loop, self._nesting, self._finish if once else None
        )
        one.inline = inline
        one.ahead = ahead
        with self._guard:
            if self._closed:
                raise RuntimeError("the corpus is closed")
            if deferred and not one.asynchronous:
                one.lane = HandlerThread(one)
            place = sum(other.ahead for other in self._subscriptions) if ahead else len(self._subscriptions)
            self._subscriptions.insert(place, one)
            self._plans = {}
        return partial(self._unsubscribe, one)

    def _unsubscribe(self, one: Subscription) -> None:
        if self._finish(one) and one.lane is not None:
            one.lane.end()

    def _finish(self, one: Subscription) -> bool:
        """Ends a subscription; whether this very call did."""
        with self._guard:
            if one not in self._subscriptions:
                return False
            self._subscriptions.remove(one)
            self._plans = {}
            self._leaving = [left for left in self._leaving if not left.idle()]
            if one.finish is not None or not one.idle():
                self._leaving.append(one)
        return True

    def begin_anew(self) -> None:
        """In a forked child: nobody is in ``emit``, there are no threads, and what waited is the parent's."""
        self._guard = threading.RLock()
        self._faults = FaultReporter(self._tell)
        self._inside = None
        self._loop = None
        self._leaving = []
        self._plans = {}
        for one in self._subscriptions:
            one.faults = self._faults
            one.begin_anew()

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the bus keeps in a thread, started when it is first needed."""
        with self._guard:
            if self._closed:
                raise RuntimeError("the corpus is closed")
            if self._loop is None:
                self._loop = LoopThread()
            return self._loop.loop

    def _plan(self, event: CorpusEvent) -> tuple[EventCall, ...]:
        """Works out what is called for events of this class, and remembers it."""
        if not isinstance(event, CorpusEvent):
            raise TypeError(f"expected an event of the corpus, got {type(event).__name__}")
        kind = event.__class__
        with self._guard:
            plan = tuple(one.call_for(kind) for one in self._subscriptions if one.wants(kind))
            plan = self._plans[kind] = plan or _NOBODY
        return plan

    def _owner(self, call: EventCall, kind: type[CorpusEvent]) -> Subscription | None:
        """Whose call it is, for events of this class; None if that subscription has ended."""
        while isinstance(call, TimedCall):
            call = call.call
        if isinstance(call, HandlerThread | LoopQueue | CallOnce):
            return call.one
        for one in tuple(self._subscriptions):
            if one.wants(kind) and (one.handler is call or (isinstance(call, partial) and one.handler is call.func)):
                return one
        return None

    # --- inside: faults ------------------------------------------------------------------------------

    def _failed(self, call: EventCall, event: CorpusEvent, error: BaseException) -> None:
        """A handler raised."""
        one = self._owner(call, event.__class__)
        name = one.name if one is not None else name_of(call)
        self._faults.report("handler", name, "no error", f"{event.dotted}: {error!r}", error)

    def _tell(self, warning: CorpusEvent) -> None:
        """Emits what is reported, however deep the fault is."""
        here = self._nesting
        depth, count = here.depth, here.count
        here.depth = here.count = 0
        try:
            self._emit_carefully(warning)
        finally:
            here.depth, here.count = depth, count

    def _suspect(self, kind: type[CorpusEvent]) -> None:
        """Time each handler of the class for a while, because an emit was slow."""
        with self._guard:
            plan = self._plans.get(kind, ())
            inline = [call for call in plan if not isinstance(call, HandlerThread | LoopQueue | TimedCall | CallOnce)]
            if inline:
                strike = partial(self._strike, kind)
                self._plans[kind] = tuple(
                    TimedCall(call, self._clock, self._slow, strike, self._forget) if call in inline else call
                    for call in plan
                )

    def _forget(self) -> None:
        self._plans = {}

    def _strike(self, kind: type[CorpusEvent], call: EventCall, took: float) -> None:
        """A handler was slow; the second time it gets a thread."""
        self._nesting.blamed = self._clock()
        one = self._owner(call, kind)
        if one is None or one.inline or one.lane is not None or one.asynchronous:
            return
        one.strikes += 1
        if one.strikes >= 2 or took > STUCK:
            self._lane_of(one)
            limit, why = f"{self._slow * 1000:.0f} ms", f"it took {took * 1000:.0f} ms, and gets a thread of its own"
            self._faults.report("handler", one.name, limit, why)

    def _others_are_stuck(self) -> bool:
        """Whether another thread has been in one ``emit`` since somebody first saw it there, long ago."""
        inside, (watched, since) = self._inside, self._watched
        if inside is None:
            return False
        if inside is not watched:
            self._watched = (inside, self._clock())
            return False
        if self._clock() - since <= STUCK or _emits_here(inside):
            return False
        self._faults.report("handler", inside.dotted, f"{STUCK:.0f} s", "one of its handlers does not return")
        return True

    def _beside(self, call: EventCall, kind: type[CorpusEvent]) -> EventCall:
        """The handler's own thread, in case it is the one that is stuck."""
        one = self._owner(call, kind)
        return call if one is None or one.inline or one.asynchronous else self._lane_of(one)

    def _lane_of(self, one: Subscription) -> HandlerThread:
        with self._guard:
            if one.lane is None:
                one.lane = HandlerThread(one)
                self._plans = {}
            return one.lane


class SubscriptionScope:
    """Subscriptions that end with a ``with`` (or ``async with``) block, or with ``close``."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._offs: list[Off] = []

    @overload
    def on(self, what: type[E], handler: Handler[E], *, deferred: bool = False) -> Off: ...
    @overload
    def on(self, what: str, handler: Callable[..., object], *, deferred: bool = False) -> Off: ...
    def on(self, what: Any, handler: Any, *, deferred: bool = False) -> Off:
        """As ``Corpus.on``, until the scope ends."""
        off = self._corpus.on(what, handler, deferred=deferred)
        self._offs.append(off)
        return off

    @overload
    def once(self, what: type[E], handler: Handler[E], *, deferred: bool = False) -> Off: ...
    @overload
    def once(self, what: str, handler: Callable[..., object], *, deferred: bool = False) -> Off: ...
    def once(self, what: Any, handler: Any, *, deferred: bool = False) -> Off:
        """As ``Corpus.once``, until the scope ends."""
        off = self._corpus.once(what, handler, deferred=deferred)
        self._offs.append(off)
        return off

    def close(self) -> None:
        """Ends all of them. Idempotent."""
        while self._offs:
            self._offs.pop()()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_ALL: Final[WeakSet[Corpus]] = WeakSet()


def _forked() -> None:
    for corpus in tuple(_ALL):
        corpus.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _emits_here(event: CorpusEvent) -> bool:
    """Whether this thread is in the ``emit`` of this event, further up its stack."""
    frame = sys._getframe(1).f_back  # noqa: SLF001 - asked seldom, and every emit would pay for another way
    while frame is not None:
        if (
            frame.f_code in (Corpus.emit.__code__, Corpus._emit_carefully.__code__)  # noqa: SLF001
            and frame.f_locals.get("event") is event
        ):
            return True
        frame = frame.f_back
    return False


def _nobody(_: CorpusEvent) -> None:
    """Stands where an event has no handler, so that this is remembered too."""


_NOBODY: Final = (_nobody,)


def _checked(what: Any) -> type[CorpusEvent] | str:
    """Refuses what names no event."""
    if isinstance(what, type) and issubclass(what, CorpusEvent):
        return what
    if not isinstance(what, str):
        raise ConfigError(f"expected a class of events, a dotted name or a pattern, got {what!r:.100}", at="what")
    start = what[:-1] if what.endswith(".*") else None
    if what != "*" and not any(name == what or (start and name.startswith(start)) for name in CATALOGUE):
        families = sorted({f"{name.partition('.')[0]}.*" for name in CATALOGUE})
        raise ConfigError(unknown(what, [*CATALOGUE, *families]), at="what")
    return what
