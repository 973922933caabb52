"""The bus: components of one process publish typed events, and others subscribe to them.

``emit`` calls the handlers one after another, in the order of their subscription (``ahead`` handlers first), and
returns when all have run. Handlers should be quick, because the emitter waits for them; slow work belongs to a thread
of its own or to a reader of the journal. A decision of the gate never waits: its events are emitted in another thread.

* A handler that raises is reported, and the next one is called.
* A coroutine function is scheduled on the loop in which it was subscribed, else on the loop that is running where the
  event is emitted, else on a loop that the bus keeps in a thread. Its calls may overlap; its errors are reported.
* Subscribing and unsubscribing take effect with the next ``emit``; an ``emit`` in progress keeps its handlers.
* A handler may emit. Events nested deeper than ``DEPTH``, also across loops, or more than ``NESTED`` events below one
  event, are not emitted but reported: handlers are answering each other without end.

A report is a log line and a ``health.warning`` with the handler's name, at most one for the same handler and fault
every ``REPORT_EVERY`` seconds. docs/corpus.md has examples.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextvars import ContextVar
from functools import partial
from inspect import iscoroutinefunction, unwrap
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar, overload
from weakref import WeakSet

from callosum.corpus.events import CATALOGUE, CorpusEvent, named, unknown
from callosum.corpus.fault_reports import FaultReporter
from callosum.errors import ConfigError

DEPTH: Final = 32
"""Most levels of events that answer events."""
NESTED: Final = 10_000
"""Most events that answer one event."""

E = TypeVar("E", bound=CorpusEvent)
F = TypeVar("F", bound=Callable[..., object])
R = TypeVar("R")
Handler = Callable[[E], object]
Off = Callable[[], None]
"""A function that unsubscribes. It may be called more than once."""
_Call = Callable[[CorpusEvent], object]

_scheduled_depth: ContextVar[int] = ContextVar("callosum_scheduled_depth", default=0)
"""How deep the coroutine that runs here is in events that answer events."""


class _Nesting(threading.local):
    """How deep this thread is in nested emits, and how many there were below the outermost one."""

    depth = 0
    count = 0


class Corpus:
    """A bus. Its methods may be called from any thread and from handlers."""

    def __init__(self) -> None:
        self._subscriptions: list[_Subscription] = []
        self._plans: dict[type[CorpusEvent], tuple[tuple[_Call, _Subscription], ...]] = {}
        """The calls to make for each event class. Discarded as a whole when subscriptions change."""
        self._guard = threading.RLock()
        self.journalled: CorpusEvent | None = None
        """The event that ``emit_journalled`` was last called with."""
        self._inside: CorpusEvent | None = None
        """The event that some thread is emitting. A hint, read and written without a lock."""
        self._nesting = _Nesting()
        self._faults = FaultReporter(self._tell)
        self._scheduled: dict[Future[None], asyncio.AbstractEventLoop] = {}
        """The calls of coroutine functions that have not ended, with their loops."""
        self._loop: tuple[threading.Thread, asyncio.AbstractEventLoop, asyncio.Event] | None = None
        """The thread and loop that the bus keeps for coroutine functions, and what ends them."""
        self._closed = False
        _ALL.add(self)

    # --- subscribing ---------------------------------------------------------------------------------

    @overload
    def on(self, what: type[E], handler: Handler[E], *, ahead: bool = False) -> Off: ...
    @overload
    def on(self, what: str, handler: Callable[..., object], *, ahead: bool = False) -> Off: ...
    @overload
    def on(self, what: type[E]) -> Callable[[Callable[[E], R]], Callable[[E], R]]: ...
    @overload
    def on(self, what: str) -> Callable[[F], F]: ...
    def on(self, what: Any, handler: Any = None, *, ahead: bool = False) -> Any:
        """Subscribe ``handler`` to events; return the function that unsubscribes.

        Without a handler, return a decorator. ``what`` is an event class (``CorpusEvent`` means all), a dotted name, or
        a pattern: ``"tool.*"``, ``"*"``. A handler for a pattern is called with the dotted name and the event, any
        other handler with the event alone. ``ahead``: call before handlers without it. Use it for handlers that record:
        an event that another handler emits in response then arrives after the event that caused it.

        Raises ``ConfigError`` at ``what`` for a name that matches no event, with the closest name.
        """
        if handler is None:
            return partial(self._decorate, what)
        if not callable(handler):
            raise TypeError(f"expected a function to call, got {type(handler).__name__}")
        home = _running_loop() if _is_async(handler) else None
        subscription = _Subscription(_checked(what), handler, ahead, _is_async(handler), home)
        with self._guard:
            if self._closed:
                raise RuntimeError("the corpus is closed")
            index = sum(other.ahead for other in self._subscriptions) if ahead else len(self._subscriptions)
            self._subscriptions.insert(index, subscription)
            self._plans = {}
        return partial(self._unsubscribe, subscription)

    def _decorate(self, what: Any, handler: F) -> F:
        self.on(what, handler)
        return handler

    def off(self, what: type[CorpusEvent] | str, handler: Callable[..., object] | None = None) -> int:
        """End ``handler``'s subscriptions to exactly this ``what``; return how many ended.

        Without a handler, all subscriptions to ``what`` end.
        """
        with self._guard:
            before = len(self._subscriptions)
            self._subscriptions = [
                subscription
                for subscription in self._subscriptions
                if subscription.what != what or handler not in (None, subscription.handler)
            ]
            self._plans = {}
            return before - len(self._subscriptions)

    def _unsubscribe(self, subscription: _Subscription) -> None:
        with self._guard:
            self._subscriptions = [other for other in self._subscriptions if other is not subscription]
            self._plans = {}

    def handlers(self, kind: type[CorpusEvent]) -> int:
        """Return the number of handlers for an event class."""
        return sum(subscription.wants(kind) for subscription in tuple(self._subscriptions))

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
            self._emit_nested(event)
            return
        try:
            self._inside = event
            for call, subscription in self._plans.get(event.__class__) or self._plan(event):
                try:
                    call(event)
                except Exception as error:  # noqa: BLE001 - every error is reported
                    self._failed(subscription, event, error)
        finally:
            self._inside = None

    def _emit_nested(self, event: CorpusEvent) -> None:
        """Emit as ``emit`` does, and count how deep the event is nested."""
        nesting = self._nesting
        if nesting.depth >= DEPTH or nesting.count >= NESTED:
            self._report_recursion(event)
            return
        nesting.depth += 1
        nesting.count += 1
        try:
            for call, subscription in self._plans.get(event.__class__) or self._plan(event):
                try:
                    call(event)
                except Exception as error:  # noqa: BLE001
                    self._failed(subscription, event, error)
        finally:
            nesting.depth -= 1
            if not nesting.depth:
                nesting.count = 0

    def emit_journalled(self, event: CorpusEvent) -> None:
        """Emit an event that was made from a journal entry, as ``emit`` does.

        The journal holds no secret, so a handler need not search the event for one. While the handlers run,
        ``journalled`` is the event, unless another thread emits meanwhile. Exceptions of handlers are not passed on.
        Raises ``TypeError`` if ``event`` is not an event.
        """
        self.journalled = event
        self.emit(event)

    def _plan(self, event: CorpusEvent) -> tuple[tuple[_Call, _Subscription], ...]:
        """Work out the calls for events of this class, and remember them."""
        if not isinstance(event, CorpusEvent):
            raise TypeError(f"expected an event of the corpus, got {type(event).__name__}")
        kind = event.__class__
        with self._guard:
            plan = self._plans[kind] = tuple(
                (partial(self._schedule, one) if one.asynchronous else one.call_for(kind), one)
                for one in self._subscriptions
                if one.wants(kind)
            ) or ((_NOBODY.handler, _NOBODY),)
        return plan

    # --- coroutine functions -------------------------------------------------------------------------

    def _schedule(self, subscription: _Subscription, event: CorpusEvent) -> None:
        """Schedule the call of a coroutine function. Raises ``RuntimeError`` if its loop is closed."""
        depth = max(self._nesting.depth, _scheduled_depth.get()) + 1
        if depth > DEPTH:
            self._report_recursion(event)
            return
        loop = subscription.home or _running_loop() or self._own_loop()
        call = self._run(subscription, event, depth)
        try:
            future = asyncio.run_coroutine_threadsafe(call, loop)
        except RuntimeError:
            call.close()
            raise RuntimeError("it was subscribed in an event loop that is closed") from None
        self._scheduled[future] = loop
        future.add_done_callback(lambda done: self._scheduled.pop(done, None))

    async def _run(self, subscription: _Subscription, event: CorpusEvent, depth: int) -> None:
        _scheduled_depth.set(depth)
        try:
            await subscription.call_for(event.__class__)(event)
        except Exception as error:  # noqa: BLE001 - every error is reported
            self._failed(subscription, event, error)

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop that the bus keeps in a thread; start it on first use."""
        with self._guard:
            if self._closed:
                raise RuntimeError("the corpus is closed")
            if self._loop is None:
                started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
                work = _until_stopped(started)
                thread = threading.Thread(target=asyncio.run, args=(work,), name="corpus loop", daemon=True)
                thread.start()
                self._loop = (thread, *started.result())
            return self._loop[1]

    # --- ending --------------------------------------------------------------------------------------

    def flush(self, seconds: float = 5.0) -> bool:
        """Wait until coroutine functions have handled everything emitted before; other handlers have already.

        Returns False if that takes longer than ``seconds``. On an event loop call it in a thread
        (``asyncio.to_thread``): it waits for handlers of that loop too.
        """
        running = [future for future, loop in tuple(self._scheduled.items()) if not loop.is_closed()]
        return not wait(running, seconds).not_done

    def close(self, seconds: float = 5.0) -> None:
        """Flush, then end all subscriptions and the bus's own loop. Idempotent."""
        self.flush(seconds)
        with self._guard:
            self._closed = True
            self._subscriptions, self._plans = [], {}
            own, self._loop = self._loop, None
        if own is not None:
            thread, loop, stop = own
            loop.call_soon_threadsafe(stop.set)
            thread.join(5)

    def begin_anew(self) -> None:
        """Reset in a forked child: no threads exist there, and calls that are scheduled belong to the parent."""
        self._guard = threading.RLock()
        self._faults = FaultReporter(self._tell)
        self._inside = None
        self._nesting = _Nesting()
        self._scheduled = {}
        self._loop = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- faults --------------------------------------------------------------------------------------

    def _failed(self, subscription: _Subscription, event: CorpusEvent, error: Exception) -> None:
        self._faults.report("handler", subscription.name, "no error", f"{event.dotted}: {error!r}", error)

    def _report_recursion(self, event: CorpusEvent) -> None:
        limits = f"{DEPTH} deep, {NESTED} in all"
        self._faults.report("recursion", event.dotted, limits, "handlers answer each other without end")

    def _tell(self, warning: CorpusEvent) -> None:
        """Emit a report, however deep the fault is nested."""
        nesting = self._nesting
        depth, count = nesting.depth, nesting.count
        nesting.depth = nesting.count = 0
        try:
            self._emit_nested(warning)
        finally:
            nesting.depth, nesting.count = depth, count


class _Subscription(NamedTuple):
    """A handler and the events it wants. ``home`` is the loop in which a coroutine function was subscribed."""

    what: type[CorpusEvent] | str
    handler: Callable[..., Any]
    ahead: bool
    asynchronous: bool
    home: asyncio.AbstractEventLoop | None

    @property
    def name(self) -> str:
        """The module and qualified name of the handler, as reports show it."""
        inner = self.handler.func if isinstance(self.handler, partial) else self.handler
        name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
        return f"{getattr(inner, '__module__', None) or '?'}.{name}"[:200]

    def wants(self, kind: type[CorpusEvent]) -> bool:
        """Return True if events of this class are for this handler."""
        what = self.what
        if isinstance(what, str):
            return what in ("*", kind.dotted) or (what.endswith(".*") and kind.dotted.startswith(what[:-1]))
        return issubclass(kind, what)

    def call_for(self, kind: type[CorpusEvent]) -> Callable[[CorpusEvent], Any]:
        """Return the handler, with the dotted name bound if it is subscribed to a pattern."""
        by_pattern = isinstance(self.what, str) and self.what.endswith("*")
        return partial(self.handler, kind.dotted) if by_pattern else self.handler


_NOBODY: Final = _Subscription("*", lambda _: None, ahead=False, asynchronous=False, home=None)
"""Stands in where an event has no handler, so that this is remembered too."""


async def _until_stopped(started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    stop = asyncio.Event()
    started.set_result((asyncio.get_running_loop(), stop))
    await stop.wait()


def _is_async(handler: Callable[..., Any]) -> bool:
    inner = unwrap(handler.func if isinstance(handler, partial) else handler)
    return iscoroutinefunction(inner) or iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


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


_ALL: Final[WeakSet[Corpus]] = WeakSet()


def _forked() -> None:
    for corpus in tuple(_ALL):
        corpus.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
