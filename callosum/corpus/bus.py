"""The bus: components of one process publish typed events, and others subscribe to them.

::

    corpus = Corpus()
    off = corpus.on(ToolCompleted, lambda event: print(event.name, event.duration))
    corpus.on("safety.*", lambda type, event: print(type, event.tool_name))     # also "*", all events

    @corpus.on("task.failed")
    async def tell(event: TaskFailed) -> None: ...

    corpus.emit(ToolCompleted("github_prs", output="3 open", duration=1204.0))
    corpus.emit("tool.completed", {"name": "github_prs", "output": "3 open", "duration": 1204.0})   # the same
    off()

``emit`` calls the handlers one after another, in the order of their subscription (``ahead`` handlers first), and
returns when all have run. A faulty handler harms neither the others nor the emitter:

* A handler that raises is reported, and the next one is called.
* A handler that takes longer than ``SLOW`` seconds twice, or than ``STUCK`` seconds once, is reported and from then on
  runs in its own thread, in order. While a handler blocks longer than ``STUCK``, handlers of events that other threads
  emit get their own threads too, and that is reported: only the ``emit`` that hit the block waits.
* A coroutine function runs on the loop in which it was subscribed, else on the loop that is running where the event is
  emitted, else on a loop that the bus keeps in a thread. Its errors are reported.
* Subscribing and unsubscribing take effect with the next ``emit``; an ``emit`` in progress keeps its handlers.
* A handler may emit. Events nested deeper than ``DEPTH``, also across threads and loops, or more than ``NESTED`` events
  below one event, are not emitted but reported: handlers are answering each other without end.

A report is a log line and a ``health.warning`` with the handler's name, at most one for the same handler and fault
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
"""Seconds after which a call counts as slow. A second slow call gives the handler its own thread."""
STUCK: Final = 1.0
"""Seconds after which a handler gets its own thread at once."""
NESTED: Final = 10_000

E = TypeVar("E", bound=CorpusEvent)
F = TypeVar("F", bound=Callable[..., object])
R = TypeVar("R")
Handler = Callable[[E], object]
Off = Callable[[], None]
"""A function that unsubscribes. It may be called more than once."""


class Corpus:
    """A bus. Its methods may be called from any thread and from handlers.

    ``slow`` is in seconds; ``clock`` (in seconds, any origin) is for tests.
    """

    def __init__(self, *, slow: float = SLOW, clock: Callable[[], float] = perf_counter) -> None:
        self._slow = slow
        self._clock = clock
        self._subscriptions: list[Subscription] = []
        self._leaving: list[Subscription] = []
        """Subscriptions that have ended and may still be working on earlier events."""
        self._plans: dict[type[CorpusEvent], tuple[EventCall, ...]] = {}
        """The calls to make for each event class. Discarded as a whole when subscriptions change."""
        self._guard = threading.RLock()
        self.journalled: CorpusEvent | None = None
        """The event that ``emit_journalled`` was last called with."""
        self._inside: CorpusEvent | None = None
        """The event that some thread is emitting. A hint, read and written without a lock."""
        self._aged: frozenset[type[CorpusEvent]] = frozenset()
        """Event classes whose emits are timed, because one of their events arrived long after its ``at``."""
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
        """Subscribe ``handler`` to events; return the function that unsubscribes.

        Without a handler, return a decorator. ``what`` is an event class (``CorpusEvent`` means all), a dotted name, or
        a pattern: ``"tool.*"``, ``"*"``. A handler for a pattern is called with the dotted name and the event, any
        other handler with the event alone. ``deferred``: always run in its own thread, for handlers that do slow work.
        ``inline``: never move to a thread, for handlers that keep up by themselves and must not lose events. ``ahead``:
        call before handlers without it. Use it for handlers that record: an event that another handler emits in
        response then arrives after the event that caused it.

        Raises ``ConfigError`` at ``what`` for a name that matches no event, with the closest name.
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
        """Subscribe as ``on`` does, for the next event only. Two threads that emit at once call the handler once."""
        if handler is None:
            return partial(self._decorate, what, deferred=deferred, once=True)
        return self._subscribe(what, handler, deferred=deferred, once=True)

    def off(self, what: type[CorpusEvent] | str, handler: Callable[..., object] | None = None) -> int:
        """End ``handler``'s subscriptions to exactly this ``what``; return how many ended.

        Without a handler, all subscriptions to ``what`` end.
        """
        with self._guard:
            gone = [
                subscription
                for subscription in self._subscriptions
                if subscription.what == what and handler in (None, subscription.handler)
            ]
            for subscription in gone:
                self._unsubscribe(subscription)
        return len(gone)

    def scope(self) -> SubscriptionScope:
        """Return a scope: subscriptions that end together.

        ::

            with corpus.scope() as turn:
                turn.on(ToolCalled, calls.append)
                ...  # however the block ends, the handler is no longer called
        """
        return SubscriptionScope(self)

    def handlers(self, kind: type[CorpusEvent]) -> int:
        """Return the number of handlers for an event class."""
        return sum(1 for subscription in tuple(self._subscriptions) if subscription.wants(kind))

    # --- emitting ------------------------------------------------------------------------------------

    @overload
    def emit(self, event: CorpusEvent) -> None: ...
    @overload
    def emit(self, event: str, payload: Mapping[str, Any]) -> None: ...
    def emit(self, event: Any, payload: Mapping[str, Any] | None = None) -> None:
        """Call the handlers of an event: an object of its class, or its dotted name with its payload.

        ``payload`` holds the fields as the wire spells them and JSON represents them::

            corpus.emit("tool.called", {"name": "shell_exec", "args": {"command": "ls -la"}, "taskId": "TASK-42"})

        Exceptions of handlers are not passed on. Raises ``TypeError`` if ``event`` is not an event; ``ConfigError`` at
        ``type`` for an unknown name, else at the payload field that is wrong, missing or unknown.
        """
        if payload is not None:
            event = named(event, payload)
        if self._inside is not None:  # a handler of this thread is emitting, or another thread is
            self._emit_carefully(event)
            return
        began = self._clock() if self._aged and event.__class__ in self._aged else None
        try:
            self._inside = event
            for call in self._plans.get(event.__class__) or self._plan(event):
                try:
                    call(event)
                except Exception as error:  # noqa: BLE001 - every error is reported
                    self._failed(call, event, error)
        finally:
            self._inside = None
        if began is not None:
            if self._clock() - began > self._slow:
                self._suspect(event.__class__)
            return
        try:
            if time() - event.at > self._slow:  # the emit was slow, or the event is old: time the next ones
                self._aged |= {event.__class__}
        except TypeError:  # `at` is not a number: no reason to fail the emitter
            pass

    def emit_journalled(self, event: CorpusEvent) -> None:
        """Emit an event that was made from a journal entry, as ``emit`` does.

        The journal holds no secret, so a handler need not search the event for one. While the handlers run,
        ``journalled`` is the event, unless another thread emits meanwhile. Exceptions of handlers are not passed on.
        Raises ``TypeError`` if ``event`` is not an event.
        """
        self.journalled = event
        self.emit(event)

    def _emit_carefully(self, event: CorpusEvent) -> None:
        """Emit as ``emit`` does, and check the nesting depth and whether another thread is stuck."""
        nesting = self._nesting
        if nesting.depth >= DEPTH or nesting.count >= NESTED:
            self._faults.report(
                "recursion", event.dotted, f"{DEPTH} deep, {NESTED} in all", "handlers answer each other without end"
            )
            return
        nesting.depth += 1
        nesting.count += 1
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
                if took > self._slow and nesting.blamed < began:
                    self._strike(event.__class__, call, took)
        finally:
            if first:
                self._inside = None
            nesting.depth -= 1
            if not nesting.depth:
                nesting.count = 0

    # --- ending --------------------------------------------------------------------------------------

    def flush(self, seconds: float = 5.0) -> bool:
        """Wait until deferred, slow and async handlers have handled everything emitted before.

        Returns False if that takes longer than ``seconds``. Do not call it from an event loop whose own handlers it
        would wait for: use ``settle``.
        """
        ends = monotonic() + seconds
        with self._guard:
            everybody = (*self._subscriptions, *self._leaving)
        done = [subscription for subscription in everybody if subscription.flush(max(0.0, ends - monotonic()))]
        with self._guard:
            self._leaving = [subscription for subscription in self._leaving if subscription not in done]
        return len(done) == len(everybody)

    async def settle(self, seconds: float = 5.0) -> bool:
        """Flush without blocking the event loop."""
        return await asyncio.to_thread(self.flush, seconds)

    def close(self, seconds: float = 5.0) -> None:
        """Flush, then end all subscriptions and their threads. Idempotent."""
        self.flush(seconds)
        with self._guard:
            self._closed = True
            for subscription in tuple(self._subscriptions):
                self._unsubscribe(subscription)
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
        subscription = Subscription(
            _checked(what), handler, self._faults, self._own_loop, self._nesting, self._finish if once else None
        )
        subscription.inline = inline
        subscription.ahead = ahead
        with self._guard:
            if self._closed:
                raise RuntimeError("the corpus is closed")
            if deferred and not subscription.asynchronous:
                subscription.lane = HandlerThread(subscription)
            index = sum(other.ahead for other in self._subscriptions) if ahead else len(self._subscriptions)
            self._subscriptions.insert(index, subscription)
            self._plans = {}
        return partial(self._unsubscribe, subscription)

    def _unsubscribe(self, subscription: Subscription) -> None:
        if self._finish(subscription) and subscription.lane is not None:
            subscription.lane.end()

    def _finish(self, subscription: Subscription) -> bool:
        """End a subscription; return True if this call ended it."""
        with self._guard:
            if subscription not in self._subscriptions:
                return False
            self._subscriptions.remove(subscription)
            self._plans = {}
            self._leaving = [leaving for leaving in self._leaving if not leaving.idle()]
            if subscription.finish is not None or not subscription.idle():
                self._leaving.append(subscription)
        return True

    def begin_anew(self) -> None:
        """Reset in a forked child.

        No ``emit`` is in progress there, no threads exist, and waiting events belong to the parent.
        """
        self._guard = threading.RLock()
        self._faults = FaultReporter(self._tell)
        self._inside = None
        self._loop = None
        self._leaving = []
        self._plans = {}
        for subscription in self._subscriptions:
            subscription.faults = self._faults
            subscription.begin_anew()

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop that the bus keeps in a thread; start it on first use."""
        with self._guard:
            if self._closed:
                raise RuntimeError("the corpus is closed")
            if self._loop is None:
                self._loop = LoopThread()
            return self._loop.loop

    def _plan(self, event: CorpusEvent) -> tuple[EventCall, ...]:
        """Work out the calls for events of this class, and remember them."""
        if not isinstance(event, CorpusEvent):
            raise TypeError(f"expected an event of the corpus, got {type(event).__name__}")
        kind = event.__class__
        with self._guard:
            plan = tuple(
                subscription.call_for(kind) for subscription in self._subscriptions if subscription.wants(kind)
            )
            plan = self._plans[kind] = plan or _NOBODY
        return plan

    def _owner(self, call: EventCall, kind: type[CorpusEvent]) -> Subscription | None:
        """Return the subscription that a call belongs to, for events of this class; None if it has ended."""
        while isinstance(call, TimedCall):
            call = call.call
        if isinstance(call, HandlerThread | LoopQueue | CallOnce):
            return call.subscription
        for subscription in tuple(self._subscriptions):
            if subscription.wants(kind) and (
                subscription.handler is call or (isinstance(call, partial) and subscription.handler is call.func)
            ):
                return subscription
        return None

    # --- inside: faults ------------------------------------------------------------------------------

    def _failed(self, call: EventCall, event: CorpusEvent, error: BaseException) -> None:
        """Report that a handler raised."""
        subscription = self._owner(call, event.__class__)
        name = subscription.name if subscription is not None else name_of(call)
        self._faults.report("handler", name, "no error", f"{event.dotted}: {error!r}", error)

    def _tell(self, warning: CorpusEvent) -> None:
        """Emit a report, however deep the fault is nested."""
        nesting = self._nesting
        depth, count = nesting.depth, nesting.count
        nesting.depth = nesting.count = 0
        try:
            self._emit_carefully(warning)
        finally:
            nesting.depth, nesting.count = depth, count

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
        """Count a slow call; the second one gives the handler its own thread."""
        self._nesting.blamed = self._clock()
        subscription = self._owner(call, kind)
        if subscription is None or subscription.inline or subscription.lane is not None or subscription.asynchronous:
            return
        subscription.strikes += 1
        if subscription.strikes >= 2 or took > STUCK:
            self._lane_of(subscription)
            limit, why = f"{self._slow * 1000:.0f} ms", f"it took {took * 1000:.0f} ms, and gets a thread of its own"
            self._faults.report("handler", subscription.name, limit, why)

    def _others_are_stuck(self) -> bool:
        """Return True if another thread has been in the same ``emit`` for longer than ``STUCK`` seconds."""
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
        """Return the call in the handler's own thread, in case this handler is the stuck one."""
        subscription = self._owner(call, kind)
        return (
            call
            if subscription is None or subscription.inline or subscription.asynchronous
            else self._lane_of(subscription)
        )

    def _lane_of(self, subscription: Subscription) -> HandlerThread:
        with self._guard:
            if subscription.lane is None:
                subscription.lane = HandlerThread(subscription)
                self._plans = {}
            return subscription.lane


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
        """Subscribe as ``Corpus.on`` does, until the scope ends."""
        off = self._corpus.on(what, handler, deferred=deferred)
        self._offs.append(off)
        return off

    @overload
    def once(self, what: type[E], handler: Handler[E], *, deferred: bool = False) -> Off: ...
    @overload
    def once(self, what: str, handler: Callable[..., object], *, deferred: bool = False) -> Off: ...
    def once(self, what: Any, handler: Any, *, deferred: bool = False) -> Off:
        """Subscribe as ``Corpus.once`` does, until the scope ends."""
        off = self._corpus.once(what, handler, deferred=deferred)
        self._offs.append(off)
        return off

    def close(self) -> None:
        """End all its subscriptions. Idempotent."""
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
    """Return True if this thread is inside the ``emit`` of this event, further up its stack."""
    frame = sys._getframe(1).f_back  # noqa: SLF001 - called rarely; any other way would slow down every emit
    while frame is not None:
        if (
            frame.f_code in (Corpus.emit.__code__, Corpus._emit_carefully.__code__)  # noqa: SLF001
            and frame.f_locals.get("event") is event
        ):
            return True
        frame = frame.f_back
    return False


def _nobody(_: CorpusEvent) -> None:
    """Stand in where an event has no handler, so that this is remembered too."""


_NOBODY: Final = (_nobody,)


def _checked(what: Any) -> type[CorpusEvent] | str:
    """Return ``what`` if it names an event; raise ``ConfigError`` otherwise."""
    if isinstance(what, type) and issubclass(what, CorpusEvent):
        return what
    if not isinstance(what, str):
        raise ConfigError(f"expected a class of events, a dotted name or a pattern, got {what!r:.100}", at="what")
    start = what[:-1] if what.endswith(".*") else None
    if what != "*" and not any(name == what or (start and name.startswith(start)) for name in CATALOGUE):
        families = sorted({f"{name.partition('.')[0]}.*" for name in CATALOGUE})
        raise ConfigError(unknown(what, [*CATALOGUE, *families]), at="what")
    return what
