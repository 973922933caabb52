"""The part that all framework adapters share: identify the session, describe the call, apply the gate's answer.

An adapter implements an ``Attempt``: what its framework knows about a call, and how the framework expresses an answer.
``Adapter.run`` (or ``arun``) takes the call through the gate. ``begin`` and ``end`` are its two halves, for a framework
that runs the tool itself and has a hook before and after it. ``callosum.guard`` surrounds the tool: it renews the lease
and reports the outcome, and without a gate it blocks tiers 3 and 4.

The entry points of an adapter take ``**options: Unpack[Options]`` and pass them to ``Adapter``, after
``host_approvals`` if the framework can ask a person. If one place in the framework covers every agent of the process,
the module has::

    def install(gate: Gate, **options: Unpack[Options]) -> Callable[[], None]: ...

It gates that place, replaces the gate of an earlier ``install``, and returns a function that removes its own gate
(which does nothing once another ``install`` has replaced that gate). ``callosum.adapters.install`` calls it.

Nothing here imports a framework.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, Self, TypedDict, TypeVar, Unpack

from msgspec import Struct
from msgspec.structs import replace

from callosum.errors import Blocked, CallosumError, Repeated
from callosum.gate import Gate
from callosum.guards import UNNAMED, AsyncGate, check_gate, guard, json_values, outcome_of_error, result_of_error
from callosum.model import DEFAULT_NAMESPACE, Call, Conflict, Decision, Outcome, State, Verdict
from callosum.policy.lifecycle import HOST
from callosum.process import own_session, this_process

logger = logging.getLogger("callosum")

K = TypeVar("K")
M = TypeVar("M")
R = TypeVar("R")
V = TypeVar("V")

_Enter = Callable[[guard], Awaitable[guard]]
_Do = Callable[[Callable[[], Any]], Awaitable[Any]]

Session = str | Callable[[], str | None] | None
"""Name of a session, or a function that returns it for each call."""


class Options(TypedDict, total=False):
    """Options that every adapter takes besides its gate.

    ``instance`` is the agent (default ``agent``). ``session`` is the name of the session or a function that returns it.
    Without it the session is the framework's thread or conversation, otherwise the session of the surrounding call,
    otherwise the process. ``namespace`` names the group of sessions that see each other. ``wait`` is the number of
    seconds that a call waits in the queue for keys that others hold.
    """

    instance: str
    session: Session
    namespace: str
    wait: float


_KEPT: Final = 256
"""Number of results kept for calls that are repeated, and of refusals kept for calls that confirm them."""
_LONGEST_ID: Final = 200
"""Maximum length of a call's identity, in characters."""
_LOOKED_BACK: Final = 80
"""Number of a conversation's newest messages that are searched."""
_MARK: Final = "[Callosum]"
"""Start of every sentence of the gate."""
_HINTS: Final = {
    "readOnlyHint": "read_only_hint",
    "destructiveHint": "destructive_hint",
    "idempotentHint": "idempotent_hint",
    "openWorldHint": "open_world_hint",
}


class _Acting:
    """The call that surrounds this code: the parent of what a nested agent does.

    A framework may end a call in another context than the one in which it began, so an ended call is marked and not
    removed.
    """

    __slots__ = ("around", "instance", "over", "run", "session")

    def __init__(self, call: Call, around: _Acting | None) -> None:
        self.instance, self.session, self.run, self.around = call.instance, call.session or "", call.run, around
        self.over = False


_acting: ContextVar[_Acting | None] = ContextVar("callosum_acting", default=None)


def _around() -> _Acting | None:
    acting = _acting.get()
    while acting is not None and acting.over:
        acting = acting.around
    return acting


def is_within_a_call() -> bool:
    """Return True if this code runs inside a gated call, as a nested agent does."""
    return _around() is not None


class FrameworkCall(Struct, frozen=True, kw_only=True):
    """A call as its framework describes it.

    ``params`` are those the model supplied, without what the framework injects. ``call_id`` is the framework's id, and
    ``turn`` is what the call belongs to (an assistant message, a checkpoint), because ids may recur within one session.
    ``read`` holds the identities of earlier calls whose results the model has read, None if the framework does not know
    them; ``texts`` holds what the model has read, where calls have no ids. ``thread`` is the user-facing conversation.
    ``instance`` is the agent, if the framework knows it and the adapter's options do not. ``meta`` is passed on to the
    journal. ``agent`` is the id of a sub-agent within the conversation: it acts in its own session, whose parent is
    the conversation's session. ``rewrite`` is False if the framework cannot run the call with other params.
    """

    tool: str
    params: Mapping[str, Any]
    call_id: str | None = None
    turn: str = ""
    read: tuple[str, ...] | None = None
    texts: Sequence[str] | None = None
    thread: str | None = None
    run: str | None = None
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] | None = None
    instance: str | None = None
    meta: Mapping[str, Any] | None = None
    agent: str | None = None
    rewrite: bool = True


def identity_of(turn: str, call_id: str | None) -> str | None:
    """Return the identity by which a repeated call is recognised; None if the framework gives no id."""
    return f"{turn}:{call_id}"[-_LONGEST_ID:] if turn and call_id else call_id


def turn_of(
    messages: Sequence[M], calls_of: Callable[[M], tuple[str, Sequence[str]]], call_id: str | None
) -> tuple[str, tuple[str, ...] | None]:
    """Return the id of the message in which the model made the call, and the earlier calls, whose results it has read.

    ``messages`` are those of a conversation, newest last. ``calls_of`` returns a message's id and the ids of the calls
    in it. If no message contains the call, nothing is known of it.
    """
    turn: str | None = None
    read: list[str] = []
    for message in messages[: -_LOOKED_BACK - 1 : -1]:
        own, calls = calls_of(message)
        if turn is not None:
            read += [identity_of(own, call) or "" for call in calls]
        elif call_id in calls:
            turn = own
    return ("", None) if turn is None else (turn, tuple(read))


def hints_of(annotations: Any) -> Mapping[str, bool] | None:
    """Return the hints of an MCP tool by their names in the protocol; None if it has none.

    Each hint is an attribute under its own name or, in newer versions of the SDK, in snake case.
    """
    found = {name: getattr(annotations, name, getattr(annotations, snake, None)) for name, snake in _HINTS.items()}
    return {name: bool(value) for name, value in found.items() if value is not None} or None


class Refused(Struct, frozen=True):
    """A refusal: the ``sentence`` for the model, and the ``decision``, None if no gate made one."""

    sentence: str
    call: Call
    decision: Decision | None = None

    @property
    def asks(self) -> bool:
        """Return True if a person must decide."""
        return self.decision is not None and self.decision.verdict is Verdict.ASK

    @property
    def retry_after(self) -> float | None:
        """Return the seconds after which the same call may succeed by itself; None if time alone does not help."""
        return self.decision.retry_after if self.decision is not None else None

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Return the conflicts, for frameworks that have a place for data beside the text."""
        return self.decision.conflicts if self.decision is not None else ()

    def said(self, attempt: Attempt[R]) -> R:
        """Return the refusal as the result that the model reads."""
        return attempt.refused(self)


class KeptResult(Struct, Generic[R], frozen=True):
    """The result of a call that has run and is now repeated."""

    result: R

    def said(self, _attempt: Attempt[R]) -> R:
        """Return the kept result as the result that the model reads."""
        return self.result


class Noted:
    """Records what a tool raises at the place where it is raised.

    Some frameworks turn an exception into text before an adapter sees it. Used as a context manager, it surrounds each
    run of the tool. A framework that runs the tool again within one call gets the earlier error instead of a second
    run: above tier 0, if that error leaves it open whether the tool has acted. With ``once`` any error does.
    """

    def __init__(self, *, once: bool = False) -> None:
        self.error: BaseException | None = None
        self.ran = False
        self.tier = 1
        self._once, self._depth = once, 0

    def __enter__(self) -> Self:
        error = None if self._depth or self.tier == 0 else self.error
        if error is not None and (self._once or outcome_of_error(error) is Outcome.UNKNOWN):
            raise error
        self.ran = True
        self._depth += 1  # a tool's own ``run`` may call that of its base class
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._depth -= 1
        self.error = error


class Attempt(Generic[R]):
    """One call of a framework. Each adapter has a subclass that describes the call and expresses the gate's answers.

    ``R`` is the type that the framework takes as the result of a tool.
    """

    interrupts: ClassVar[tuple[type[BaseException], ...]] = ()
    """Exceptions that the framework raises out of a tool that it will run again from the beginning."""
    handoffs: ClassVar[tuple[type[BaseException], ...]] = ()
    """Exceptions that the framework raises out of a tool whose work continues elsewhere, with an unreported end."""
    noted: Noted | None = None
    """What the tool raises, if the framework turns that into its result."""

    def seen(self) -> FrameworkCall:
        """Return the call as the gate should see it."""
        raise NotImplementedError

    def refused(self, no: Refused) -> R:
        """Return the refusal as the result that the model reads."""
        raise NotImplementedError

    def warned(self, result: R, sentence: str) -> R:
        """Return the result with the warning after it."""
        raise NotImplementedError

    def said(self, result: R) -> Any:
        """Return what the journal keeps of a result."""
        return result

    def failed(self, _result: R) -> bool:
        """Return True if the framework has turned an error of the tool into this result."""
        return False

    def raised(self) -> BaseException | None:
        """Return what the tool raised, if the framework has turned that into its result."""
        return None if self.noted is None else self.noted.error

    def asked(self, _no: Refused) -> bool | None:
        """Ask a person by the framework's own means; None if it has none or must not use them."""
        return None


class Adapter:
    """Takes the calls of one program through ``gate``. ``options`` are those of ``Options``."""

    def __init__(self, gate: Gate, **options: Unpack[Options]) -> None:
        check_gate(gate)
        self.gate = gate
        self._instance = options.get("instance")
        self._session = options.get("session")
        self._namespace = options.get("namespace", DEFAULT_NAMESPACE)
        self._wait = options.get("wait", 0)
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._told: OrderedDict[tuple[str, str], int] = OrderedDict()
        """The decisions that refused calls, by session and the calls' identities."""
        self._said: OrderedDict[tuple[str, str], int] = OrderedDict()
        """The decisions that refused calls, by session and their sentences."""
        self._dispatches: OrderedDict[tuple[str, str], str] = OrderedDict()
        """The dispatches of calls that were decided before their frameworks run them, by session and identity."""
        self._guard = threading.Lock()

    def call_of(self, seen: FrameworkCall) -> Call:
        """Return the call to ask the gate about.

        It pauses: the model reads most warnings in place of a result, and confirms by repeating the call.
        """
        around = _around()
        own = self._session() if callable(self._session) else self._session
        session = own or seen.thread or (around.session if around is not None else own_session())
        instance = self._instance or seen.instance or UNNAMED
        parent = None
        if seen.agent:
            session, parent = f"{session}:{seen.agent}", f"{instance}/{session}"
        within = around is not None and (around.instance, around.session) == (instance, session)
        if around is not None and not within and parent is None:
            parent = f"{around.instance}/{around.session}"
        return Call(
            instance,
            seen.tool,
            json_values(seen.params),
            session=session,
            namespace=self._namespace,
            call_id=identity_of(seen.turn, seen.call_id),
            after=self._newest(seen, session),
            pause=True,
            wait=self._wait,
            description=seen.description,
            schema=seen.schema,
            annotations=seen.annotations,
            run=around.run if around is not None and within else seen.run,
            parent=parent,
            rewrite=seen.rewrite,
            meta=seen.meta,
            host=this_process(),
        )

    def run(self, attempt: Attempt[R], tool: Callable[[Mapping[str, Any] | None], R]) -> R:
        """Return what ``tool`` returns if the gate lets it run, otherwise the refusal.

        ``tool`` receives the params that a person approved in place of the call's own, or None. Its exceptions are
        raised. A repeat of a call that has run returns the same result, or a refusal that says so if the result is no
        longer kept.
        """
        running = self.begin(attempt)
        if not isinstance(running, RunningCall):
            return running.said(attempt)
        with running:
            return running.finished(tool(running.params))

    async def arun(self, attempt: Attempt[R], tool: Callable[[Mapping[str, Any] | None], Awaitable[R]]) -> R:
        """Do the same as ``run``, for a tool that is awaited."""
        running = await self.abegin(attempt)
        if not isinstance(running, RunningCall):
            return running.said(attempt)
        async with running:
            return running.finished(await tool(running.params))

    def begin(self, attempt: Attempt[R]) -> RunningCall[R] | Refused | KeptResult[R]:
        """Ask the gate about a call: the first half of ``run``, for a framework that runs the tool itself.

        A call that runs must be ended: with ``end`` and its result, or with ``fail`` and what the tool raised.
        """
        return _at_once(self._begun(attempt, _enter_in_this_thread, _in_this_thread))

    async def abegin(self, attempt: Attempt[R]) -> RunningCall[R] | Refused | KeptResult[R]:
        """Do the same as ``begin`` without blocking the event loop."""
        return await self._begun(attempt, guard.__aenter__, asyncio.to_thread)

    def answer(self, attempt: Attempt[R], no: Refused, *, agreed: bool) -> RunningCall[R] | Refused | KeptResult[R]:
        """Record a person's answer to a question, and ask the gate about its call again."""
        return _at_once(self._entered(attempt, self._answered(no, agreed=agreed), _enter_in_this_thread))

    async def aanswer(
        self, attempt: Attempt[R], no: Refused, *, agreed: bool
    ) -> RunningCall[R] | Refused | KeptResult[R]:
        """As ``answer``; the event loop does not wait for the gate."""
        call = await asyncio.to_thread(partial(self._answered, no, agreed=agreed))
        return await self._entered(attempt, call, guard.__aenter__)

    async def _begun(self, attempt: Attempt[R], enter: _Enter, do: _Do) -> RunningCall[R] | Refused | KeptResult[R]:
        call = self.call_of(attempt.seen())
        with self._guard:
            known = self._dispatches.pop((call.session or "", call.call_id or ""), None)
        begun = await self._entered(attempt, replace(call, dispatch=known), enter)
        if not isinstance(begun, Refused) or not begun.asks:
            return begun
        agreed = attempt.asked(begun)
        if agreed is None:
            return begun
        call = await do(partial(self._answered, begun, agreed=agreed))
        return await self._entered(attempt, call, enter)

    async def _entered(
        self, attempt: Attempt[R], call: Call, enter: _Enter
    ) -> RunningCall[R] | Refused | KeptResult[R]:
        try:
            running = guard(self.gate, call, confirm=None, warned=_later)
            return RunningCall(self, attempt, await enter(running), call)
        except CallosumError as no:
            return self._refused(call, no)

    async def verdict(self, seen: FrameworkCall) -> Verdict | None:
        """Return the gate's verdict on a call before its framework runs it; None if no gate is reachable.

        This decides the call: ``arun`` gets the same answer.
        """
        call = self.call_of(seen)
        if call.call_id:
            dispatch = os.urandom(8).hex()
            call = replace(call, dispatch=dispatch)
            with self._guard:
                _put(self._dispatches, (call.session or "", call.call_id or ""), dispatch)
        try:
            decision = await AsyncGate(self.gate).intercept(call)
        except CallosumError:
            return None
        return decision.verdict

    def _newest(self, seen: FrameworkCall, session: str) -> int | None:
        """Return the newest refusal that the model has read; 0 for none, None if the framework does not know."""
        with self._guard:
            if seen.read is not None:
                return max((self._told.get((session, one), 0) for one in seen.read), default=0)
            if seen.texts is None:
                return None
            texts = [text for text in seen.texts if _MARK in text]
            own = ((said, id) for (whose, said), id in self._said.items() if whose == session)
            return max((id for said, id in own if any(said in text for text in texts)), default=0)

    def _answered(self, no: Refused, *, agreed: bool) -> Call:
        """Record a person's answer. Return the call to ask the gate about again."""
        if no.decision is None:
            raise ValueError("no gate has asked")
        answer = self.gate.approve if agreed else self.gate.deny
        answer(no.decision.id, by="host", channel=HOST, namespace=self._namespace)
        return replace(no.call, call_id=f"{no.call.call_id or no.decision.id}:answered")

    def _refused(self, call: Call, no: CallosumError) -> Refused | KeptResult[Any]:
        decision = no.decision if isinstance(no, Blocked) else None
        if decision is not None:
            with self._guard:
                if isinstance(no, Repeated) and decision.state is State.DONE and decision.id in self._kept:
                    return KeptResult(self._kept[decision.id])
                session = call.session or ""
                if call.call_id is not None:
                    _put(self._told, (session, call.call_id), decision.id)
                _put(self._said, (session, str(no)), decision.id)
        return Refused(str(no) if decision is not None else f"{_MARK} {no}", call, decision)

    def keep(self, decision: Decision, result: Any) -> None:
        """Keep what a call returned, for its repeats."""
        if decision.tier:
            with self._guard:
                _put(self._kept, decision.id, result)


class RunningCall(Generic[R]):
    """A call that the gate lets run. ``params`` replace the call's own; None leaves them.

    Used as a context manager, the call ends with the block.
    """

    def __init__(self, adapter: Adapter, attempt: Attempt[R], running: guard, call: Call) -> None:
        self._adapter, self._attempt, self._guard = adapter, attempt, running
        self.params = None
        if running.decision is not None:
            self.params = running.decision.params
            if attempt.noted is not None:
                attempt.noted.tier = running.decision.tier
        self._acting = _Acting(call, _around())
        _acting.set(self._acting)

    @property
    def warning(self) -> str | None:
        """Return the warning about the call, for the model."""
        decision = self._guard.decision
        return decision.warning if decision is not None and decision.verdict is Verdict.WARN else None

    def finished(self, result: R) -> R:
        """Return the result as the model reads it, with the warning after it if there is one."""
        running, attempt = self._guard, self._attempt
        error = attempt.raised()
        if error is not None:
            running.outcome, running.result = outcome_of_error(error), result_of_error(error)
        else:
            if attempt.failed(result):
                running.outcome = Outcome.FAILED
            try:
                running.result = attempt.said(result)
            except Exception:  # the tool has acted: what cannot be journalled makes no failure of it
                logger.exception("a tool's result cannot be journalled")
                running.result = {"type": type(result).__name__}
        decision = running.decision
        if decision is None:
            return result
        if self.warning:
            result = attempt.warned(result, self.warning)
        self._adapter.keep(decision, result)
        return result

    def end(self, result: R) -> R:
        """End the call with what its tool returned. Return what the model reads."""
        with self:
            return self.finished(result)

    async def aend(self, result: R) -> R:
        """Do the same as ``end`` without blocking the event loop."""
        async with self:
            return self.finished(result)

    def cancel(self) -> None:
        """End a call whose tool never ran."""
        self._guard.outcome = Outcome.CANCELLED
        self.__exit__(None, None, None)

    def fail(self, error: BaseException) -> None:
        """End the call with what its tool raised."""
        self.__exit__(type(error), error, None)

    async def afail(self, error: BaseException) -> None:
        """Do the same as ``fail`` without blocking the event loop."""
        await self.__aexit__(type(error), error, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(error)
        self._guard.__exit__(kind, error, trace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(error)
        await self._guard.__aexit__(kind, error, trace)

    def _leave(self, error: BaseException | None) -> None:
        self._acting.over = True
        if isinstance(error, self._attempt.interrupts):
            self._guard.outcome = Outcome.CANCELLED
        elif isinstance(error, self._attempt.handoffs):
            self._guard.outcome = Outcome.UNKNOWN


def _put(kept: OrderedDict[K, V], name: K, value: V) -> None:
    """Keep one more value and drop the oldest beyond ``_KEPT``."""
    kept[name] = value
    while len(kept) > _KEPT:
        kept.popitem(last=False)


async def _in_this_thread(work: Callable[[], R]) -> R:
    return work()


async def _enter_in_this_thread(running: guard) -> guard:
    return running.__enter__()


def _at_once(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine that waits for nothing, and return its value."""
    try:
        work.send(None)
    except StopIteration as over:
        returned: R = over.value
        return returned
    raise RuntimeError("the coroutine waits")


def _later(decision: Decision) -> None:
    """Log warnings that are only for people. The model reads its warning after the result."""
    if decision.verdict is not Verdict.WARN:
        logger.info("%s", decision.warning)
