"""``guard()`` and ``gated()``: run a tool under the gate, in the process that runs the tool.

::

    with guard(gate, Call("mira", "send_mail", {"to": "alice@example.com"})):
        send(...)                      # runs only if the gate allows it; its outcome is reported

    @guard(gate, instance="mira")      # the same around a function, sync or async
    def send_mail(to: str, text: str) -> None: ...

    with confirming(decision.id):      # a person has read the warning of a pause: now it may run
        send_mail("alice@example.com", "Hello")

    tool = gated(send_mail, gate=gate, instance="mira", blocked=lambda decision: decision.warning)

While the tool runs its lease is renewed, and it is tied to this process: if the process dies the
lease ends with it. An exception of the tool decides the outcome: a timeout or a lost connection is
``unknown`` (it may have happened), anything else is ``failed``. Only a guard raises a verdict (``Blocked``).

A function has no place for a warning, so a guard pauses where there is one. A program that calls again has read
nothing: its retry confirms no pause. ``gated`` is for functions that a model calls: its later turn confirms.
"""

from __future__ import annotations

import contextvars
import functools
import heapq
import inspect
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

import msgspec
from msgspec.structs import replace

from callosum.errors import Blocked, Expired, GateUnavailable, Repeated, StoreUnavailable
from callosum.gate import Gate, Standby
from callosum.model import DEFAULT_NAMESPACE, Call, Decision, Outcome, Report, State, Verdict
from callosum.operations import AsyncMethods
from callosum.policy.answer import over
from callosum.process import own_session, this_process
from callosum.rules.ruleset import WHOLE

logger = logging.getLogger("callosum")

P = ParamSpec("P")
R = TypeVar("R")

Name = str | Callable[[], str | None] | None
"""A name, or a function that returns it at each call (a context variable's ``get``)."""

UNNAMED: Final = "agent"
"""Instance of a guarded call that names none. The session, which is the process, keeps two programs apart."""
RENEW_AT: Final = 3
"""A lease is renewed after this fraction of its time."""
_LOST: Final = (
    "timeout connectionreset connectionlost connectionaborted connectionclosed connectionerror networkerror "
    "remoteprotocolerror chunkedencoding incompleteread brokenpipe disconnect"
).split()
"""Exception class names that network libraries use when they do not know how a request ended."""
_CHAIN: Final = 16
"""Maximum number of causes of an exception that are followed."""


_confirmed: contextvars.ContextVar[int] = contextvars.ContextVar("callosum_confirmed", default=0)


@contextmanager
def confirming(id: int) -> Iterator[None]:
    """Confirm the decision ``id``: guarded functions in the block run over the conflicts that it has shown.

    Use it once somebody has read ``Blocked.decision.warning``. It lifts no block, and nothing that is newer.
    """
    token = _confirmed.set(id)
    try:
        yield
    finally:
        _confirmed.reset(token)


_PLAIN: Final[tuple[tuple[type, Callable[[Any], Any]], ...]] = (
    (str, str),
    (int, int),
    (float, float),
    (os.PathLike, os.fspath),
    (Mapping, dict),
)
"""Converters to plain JSON, for subclasses of these types."""


def json_values(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return params as JSON holds them: a path as text, an enum as its value, a model as its fields. Bytes stay.

    So a key is the same whatever type a program passes.
    """
    try:
        plain: Mapping[str, Any] = msgspec.to_builtins(
            params, builtin_types=(bytes, bytearray, memoryview), str_keys=True, enc_hook=_json_value
        )
    except Exception:  # noqa: BLE001 - a cycle, or whatever an object of the caller's raises
        return params
    return plain


def _json_value(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # pydantic
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    return next((plain(value) for kind, plain in _PLAIN if isinstance(value, kind)), f"<{type(value).__name__}>")


def outcome_of_error(error: BaseException) -> Outcome:
    """Return the outcome that an exception of a tool means: ``failed`` only if it is a definite refusal.

    Timeouts, cut connections, cancellation and the end of the process leave it open whether the action
    happened: ``unknown``; so does an error that was raised from one of these. A refused connection never
    reached the other side: ``failed``.
    """
    link: object = error
    for _ in range(_CHAIN):
        if not isinstance(link, BaseException):
            break
        if _is_lost(link):
            return Outcome.FAILED if _was_refused(link) else Outcome.UNKNOWN
        link = link.__cause__ or vars(link).get("reason")  # urllib wraps the error in ``reason``
    return Outcome.FAILED


def result_of_error(error: BaseException) -> dict[str, str]:
    """Return what the journal stores of an exception of a tool."""
    return {"error": f"{type(error).__name__}: {error}"[:1000]}


def _names(error: BaseException) -> str:
    return "".join(kind.__name__.lower() for kind in type(error).__mro__)


def _is_lost(error: BaseException) -> bool:
    if not isinstance(error, Exception) or isinstance(error, TimeoutError | ConnectionError):
        return True
    names = _names(error)
    return any(word in names for word in _LOST)


def _was_refused(error: BaseException) -> bool:
    """Return True if a lost connection was never made, according to the errors that caused it."""
    if "timeout" in _names(error):
        return False
    link: BaseException | None = error
    for _ in range(_CHAIN):
        if link is None:
            break
        if isinstance(link, ConnectionRefusedError) or type(link).__name__ == "gaierror":
            return True
        link = link.__cause__ or link.__context__
    return False


class guard:  # noqa: N801 - used like a function: `with guard(...)`, `@guard(...)`
    """Runs a block or a function under the gate; raises ``Blocked`` if the verdict is no.

    As a context manager (sync or async) it takes a ``call``; ``decision`` then holds the decision. Set ``result`` to
    what is to be journalled, and ``outcome`` to how the call ended if no exception shows it. As a decorator it takes
    ``instance`` and the other names of the actor; the tool is the function's name and its params are the arguments.
    Without a ``session`` (or if it is empty) the process is the session: its pid and start time, so that two runs of a
    program are two actors. ``tool_timeout`` is the tool's own limit in seconds: the lease lasts at least as long, and
    nothing is stopped after it.

    A conflict that would warn pauses the call, and a retry confirms nothing: ``confirm`` (of a block) takes the id of
    the decision whose warning was read, and ``confirming`` does it for a function. With ``confirm`` None a model makes
    the call and confirms by a later one. ``pause=False`` is for a program that shows warnings itself: a call that runs
    with one is passed to ``warned`` before it runs (in a worker thread, if the guard is async), or logged. An exception
    of ``warned`` keeps the call from running.

    A call whose ``call_id`` was used before and whose action is over raises ``Repeated`` (a ``Blocked``), except what
    is harmless to repeat. One that still runs raises a ``Blocked`` that is ``retryable``.

    A function that takes a path and a text (``write_file(path, content)``) can run with another text: if another
    session has changed the file since this one read it, the gate merges the two (docs/merging.md). A block runs merged
    if its call sets ``rewrite``, and then uses ``params``.

    If the store is unreachable, calls of tiers 0 to 2 run and are journalled once it is back; tiers 3
    and 4 raise ``GateUnavailable`` without running.
    """

    def __init__(
        self,
        gate: Gate,
        call: Call | None = None,
        *,
        instance: Name = None,
        session: Name = None,
        run: Name = None,
        namespace: str = DEFAULT_NAMESPACE,
        tool: str | None = None,
        description: str | None = None,
        pause: bool = True,
        wait: float = 0,
        tool_timeout: float | None = None,
        confirm: int | None = 0,
        blocked: Callable[[Decision], Any] | None = None,
        warned: Callable[[Decision], object] | None = None,
    ) -> None:
        check_gate(gate)
        if (call is None) == (instance is None):
            raise TypeError("guard() takes either a call (for a block) or an instance (for a function)")
        if call is not None and not isinstance(call, Call):
            raise TypeError(f"guard() expected a Call, got {_shown(call)}")
        self._gate = gate
        self._call = call
        self._pause = pause
        self._confirm = confirm
        self._warned = warned
        if call is None:
            self._who = (instance, session, run)
            self._template = Call(
                UNNAMED, tool or UNNAMED, namespace=namespace, description=description, wait=wait, timeout=tool_timeout
            )
            self._tool = tool
            self._blocked = blocked
        self._turn = threading.Lock()
        self._entered = self._left = False
        self._params = call.params if call is not None else {}
        self.decision: Decision | None = None
        self.result: Any = None
        self.outcome: Outcome | None = None

    @property
    def params(self) -> Mapping[str, Any]:
        """Return the params to run the tool with: the call's own, or those with another's changes merged in.

        The gate merges only into a call with ``rewrite``, whose block must use these.
        """
        if self._call is None:
            raise TypeError("guard() has params only while it runs a block")
        replaced = self.decision.params if self.decision is not None else None
        return self._params if replaced is None else replaced

    # --- Block ---

    def __enter__(self) -> Self:
        if self._call is None:
            raise TypeError("guard() needs a call to run a block")
        call = self._call
        self._call = call = replace(
            call,
            params=json_values(call.params),
            host=call.host or this_process(),
            session=call.session or own_session(),
            pause=call.pause or self._pause,
            after=self._confirm or _confirmed.get() if call.after is None and self._confirm is not None else call.after,
            dispatch=call.dispatch or (os.urandom(8).hex() if call.call_id else None),
        )
        self.decision = decision = _ask(self._gate, call)
        if decision.repeated and decision.tier and decision.state in (State.DONE, State.UNKNOWN):
            raise Repeated(over(decision, decision.state) if decision.proceed else decision)  # as an older gate answers
        if decision.verdict is Verdict.CONFIRM and self._confirm is not None:
            how = f"once this was read, `with callosum.confirming({decision.id})` does"
            warning = f"{decision.warning} A program's retry confirms nothing: {how}."
            decision = replace(decision, warning=warning)
        if not decision.proceed:
            raise Blocked(decision)
        if self.decision.lease is not None:
            _renewer.add(self._gate, call, self.decision)
        if self.decision.warning is not None:
            self._warn(call, self.decision)
        return self

    def _warn(self, call: Call, decision: Decision) -> None:
        if self._warned is None:
            logger.warning("%s of %s runs with a warning: %s", call.tool, call.actor, decision.warning)
            return
        try:
            self._warned(decision)
        except BaseException:
            self._give_up()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        decision, call = self.decision, self._call
        if decision is None or call is None:
            return
        outcome = self.outcome or (Outcome.DONE if error is None else outcome_of_error(error))
        result = self.result if error is None else result_of_error(error)
        report = _report(self._gate, call, decision, outcome, result)
        if report is not None and report.warning is not None:
            try:  # the tool has run, so nothing can stop it any more
                self._warn(call, replace(decision, warning=report.warning))
            except Exception:
                logger.exception("the warning about %s could not be handed on", call.tool)

    async def __aenter__(self) -> Self:
        import asyncio

        try:
            return await asyncio.to_thread(self._enter)
        except asyncio.CancelledError:
            # The thread continues its request: the later of the two gives back what the gate has opened.
            with self._turn:
                self._left = True
                entered = self._entered
            if entered:
                asyncio.get_running_loop().run_in_executor(None, self._give_up)
            raise

    def _enter(self) -> Self:
        self.__enter__()
        with self._turn:
            self._entered = True
            left = self._left
        if left:
            self._give_up()
        return self

    def _give_up(self) -> None:
        """Report that the block never ran."""
        if self.decision is not None and self._call is not None:
            _report(self._gate, self._call, self.decision, Outcome.CANCELLED, None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio

        # Shielded, and not a task: a cancelled tool is reported even if the loop ends and cancels all its tasks.
        leaving = functools.partial(contextvars.copy_context().run, self.__exit__, kind, error, trace)
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, leaving))

    # --- Function ---

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        if self._call is not None:
            raise TypeError("guard() around a function needs an instance")
        instance, session, run = self._who
        _check_function(function)
        fixed, named = (), {}
        if isinstance(function, functools.partial):  # its arguments are the call's too
            fixed, named, function = function.args, function.keywords, function.func
        signature = inspect.signature(function)
        injected = _injected(signature)
        template = replace(
            self._template,
            tool=self._tool or _name_of(function),
            description=self._template.description or (inspect.getdoc(function) or None),
            rewrite=_writes_files(signature),
        )

        def guarded(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> guard:
            call = replace(
                template,
                instance=_value(instance) or UNNAMED,
                session=_value(session) or None,
                run=_value(run) or None,
                params=_params(signature, injected, args, kwargs),
            )
            return guard(self._gate, call, pause=self._pause, confirm=self._confirm, warned=self._warned)

        if _is_async(function):

            @functools.wraps(function)
            async def asynchronous(*args: Any, **kwargs: Any) -> Any:
                args, kwargs = (*fixed, *args), {**named, **kwargs}
                try:
                    async with guarded(args, kwargs) as running:
                        args, kwargs = _rewritten(running.decision, signature, args, kwargs)
                        running.result = await function(*args, **kwargs)  # type: ignore[misc]
                        return running.result
                except Blocked as no:
                    return self._refused(no)

            return asynchronous  # type: ignore[return-value]

        @functools.wraps(function)
        def synchronous(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = (*fixed, *args), {**named, **kwargs}
            try:
                with guarded(args, kwargs) as running:
                    args, kwargs = _rewritten(running.decision, signature, args, kwargs)
                    running.result = function(*args, **kwargs)
                    return running.result
            except Blocked as no:
                return self._refused(no)

        return synchronous

    def _refused(self, no: Blocked) -> Any:
        if self._blocked is None:
            raise no
        return self._blocked(no.decision)


def check_gate(gate: object) -> None:
    """Raise ``TypeError`` for what is no gate, and for one that must be awaited."""
    if isinstance(gate, AsyncMethods):
        inner = "client" if hasattr(gate, "client") else "gate"
        raise TypeError(
            f"expected a blocking gate, got an {type(gate).__name__}: pass its .{inner} (guards use threads)"
        )
    if isinstance(gate, type) or not callable(getattr(gate, "intercept", None)):
        raise TypeError(f"expected a gate, such as LocalGate() or CallosumClient(), got {_shown(gate)}")


def _check_function(function: object) -> None:
    """Raise ``TypeError`` for what a guard cannot surround."""
    if isinstance(function, type):
        raise TypeError(f"expected a function, got {_shown(function)}: put the gate around its methods")
    if not callable(function):
        how = "put the gate around the function that a tool runs, and make the tool of gated(function, ...)"
        raise TypeError(f"expected a function, got {_shown(function)}: {how}")
    inner = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        how = "it would count as done before its first line runs. Use `with guard(gate, Call(...)):` inside it"
        raise TypeError(f"expected a function, got the generator {_name_of(function)}: {how}")


def _shown(value: object) -> str:
    kind = value if isinstance(value, type) else type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    return f"the class {name}" if kind is value else f"one of type {name}"


def gated(
    tool: Callable[P, R],
    *,
    gate: Gate,
    instance: Name,
    session: Name = None,
    run: Name = None,
    namespace: str = DEFAULT_NAMESPACE,
    name: str | None = None,
    pause: bool = True,
    wait: float = 0,
    tool_timeout: float | None = None,
    blocked: Callable[[Decision], Any] | None = None,
    warned: Callable[[Decision], object] | None = None,
) -> Callable[P, R]:
    """Return ``tool``, which a model calls, with the gate around it; sync stays sync, async stays async.

    ``name`` is the tool's name for the rules (default: the function's). ``blocked`` turns a "no" into the
    tool's return value (for frameworks that pass the text to the model); without it ``Blocked`` is
    raised. A warning pauses the call, and the model confirms it by calling again in a later turn. With ``pause=False``
    the call runs, and ``warned`` gets the decision (default: it is logged). ``wait`` and ``tool_timeout``, the tool's
    own limit, are in seconds.
    """
    around = guard(
        gate,
        instance=instance,
        session=session,
        run=run,
        namespace=namespace,
        tool=name,
        pause=pause,
        wait=wait,
        tool_timeout=tool_timeout,
        confirm=None,
        blocked=blocked,
        warned=warned,
    )
    return around(tool)


class AsyncGate(AsyncMethods):
    """The async interface of any gate: the same methods, each run in a worker thread.

    A decision is one short transaction, but it may wait for other processes or in the queue of a key, and the event
    loop must not wait.
    """

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.gate = gate

    async def _run(self, method: Callable[[], R]) -> R:
        import asyncio

        return await asyncio.to_thread(method)


# --- Requests and reports ---


def _ask(gate: Gate, call: Call) -> Decision:
    try:
        return gate.intercept(call)
    except (StoreUnavailable, Expired) as error:
        if isinstance(gate, Standby):
            return gate.fallback(call, error)
        raise GateUnavailable(f"the gate is unreachable: {error}") from error


def _report(gate: Gate, call: Call, decision: Decision, outcome: Outcome, result: Any) -> Report | None:
    if decision.lease is not None:
        _renewer.drop(decision.id)
    if decision.fallback:
        if isinstance(gate, Standby):
            gate.remember_late(call, outcome)
        return None
    try:
        said = {"id": decision.id, "result": result, "outcome": outcome}
        return gate.complete(call.instance, session=call.session, namespace=call.namespace, **said)
    except (StoreUnavailable, GateUnavailable) as error:
        # The tool has run. Its lease ends by itself and the next session is shown "unknown", which is safe.
        logger.warning("the outcome of %s could not be reported: %s", call.tool, error)
        return None


class _Renewer:
    """One thread that renews all leases of this process's guards, started with the first of them."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Drop all leases: at the start, and in a forked child, because the parent renews what it holds."""
        self._wake = threading.Condition()
        self._due: list[tuple[float, int]] = []
        self._held: dict[int, tuple[Gate, Call, float]] = {}
        self._thread: threading.Thread | None = None

    def add(self, gate: Gate, call: Call, decision: Decision) -> None:
        lease = decision.lease
        if lease is None:
            return
        ttl = max(0.1, lease.ttl)
        with self._wake:
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._run, name="callosum-renewer", daemon=True)
                thread.start()  # may fail, so it runs first: otherwise a lease would be kept that nothing removes
                self._thread = thread
            self._held[decision.id] = (gate, call, ttl)
            first = time.monotonic() + ttl / RENEW_AT
            heapq.heappush(self._due, (first, decision.id))
            if self._due[0][1] == decision.id:
                self._wake.notify()

    def drop(self, id: int) -> None:
        with self._wake:
            self._held.pop(id, None)

    def _run(self) -> None:
        while True:
            with self._wake:
                while self._due and self._due[0][1] not in self._held:
                    heapq.heappop(self._due)
                if not self._due:
                    self._wake.wait()
                    continue
                left = self._due[0][0] - time.monotonic()
                if left > 0:
                    self._wake.wait(left)
                    continue
                _, id = heapq.heappop(self._due)
                gate, call, ttl = self._held[id]
                heapq.heappush(self._due, (time.monotonic() + ttl / RENEW_AT, id))
            try:
                report = gate.renew(call.instance, id, session=call.session, namespace=call.namespace)
                if not report.ok:
                    self.drop(id)
            except Exception:
                logger.warning("lease %s could not be renewed", id, exc_info=True)


_renewer = _Renewer()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renewer.begin_anew)


# --- Functions ---


def _rewritten(decision: Decision | None, signature: inspect.Signature, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments to run a function with: texts that the gate replaced, and otherwise the function's own."""
    if decision is None or decision.params is None:
        return args, kwargs
    bound = signature.bind(*args, **kwargs)
    for name, value in decision.params.items():
        if isinstance(value, str) and isinstance(bound.arguments.get(name), str):
            bound.arguments[name] = value
    return bound.args, bound.kwargs


def _writes_files(signature: inspect.Signature) -> bool:
    """Return True if a function takes a path and a text, so that the text can be replaced by a merged one."""
    names = [name.lower() for name, one in signature.parameters.items() if one.kind not in _OPEN_ENDED]
    return any("path" in name or "file" in name for name in names) and any(name in WHOLE for name in names)


_OPEN_ENDED: Final = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def _is_async(function: Callable[..., Any]) -> bool:
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004


def _name_of(function: Callable[..., Any]) -> str:
    inner = function.func if isinstance(function, functools.partial) else function
    name = getattr(inner, "__name__", None)
    return name if isinstance(name, str) else type(inner).__name__


def _value(name: Name) -> str | None:
    return name() if callable(name) else name


_INJECTED: Final = re.compile(
    r"\b(RunContext|RunContextWrapper|ToolContext|ToolRuntime|InvocationContext|CallbackContext|RunnableConfig"
    r"|Injected\w+|(fastmcp|mcp)\.[\w.]*Context)\b"
)
"""Annotations of arguments that a framework fills in and the model never sees: pydantic-ai, OpenAI Agents, LangChain,
Google ADK, MCP.
"""


def _injected(signature: inspect.Signature) -> frozenset[str]:
    """Return the names of the arguments that the framework injects, by their annotations; they are not params."""
    return frozenset(
        name
        for name, one in signature.parameters.items()
        if one.annotation is not inspect.Parameter.empty
        and _INJECTED.search(one.annotation if isinstance(one.annotation, str) else repr(one.annotation))
    )


def _params(
    signature: inspect.Signature, injected: frozenset[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments by name; ``self`` and injected arguments are left out, ``**kwargs`` are spread."""
    bound = signature.bind(*args, **kwargs)
    params: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            params.update(value)
        elif name not in ("self", "cls") and name not in injected:
            params[name] = value
    return params
