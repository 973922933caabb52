"""What the adapters of all frameworks share: who acts, what a call is, and what becomes of the gate's answer.

An adapter says what its framework tells of a call, and how an answer is said in it: that is an ``Attempt``.
``Adapter.run`` (or ``arun``) takes it through the gate; ``begin`` and ``end`` are its halves, for a framework that
runs the tool itself and has a hook before and one after it. Around the tool is ``callosum.guard``: it renews the lease
and reports the outcome, and without a gate tiers 3 and 4 do not run.

What an adapter offers takes ``**options: Unpack[Options]`` and hands them to ``Adapter``, after ``host_approvals``
where its framework can ask a person. Where the framework has a seam that covers every agent of the process, the module
has::

    def install(gate: Gate, **options: Unpack[Options]) -> Callable[[], None]: ...

which gates that seam, replaces the gate of an earlier ``install``, and returns the function that takes its own gate
away (it does nothing once another ``install`` has replaced that gate). ``callosum.adapters.install`` calls it.

Nothing here imports a framework.
"""

from __future__ import annotations

import asyncio
import logging
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
from callosum.guards import UNNAMED, AsyncGate, guard, outcome_of_error, result_of_error
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
"""A session's name, or a function that is asked for it at each call."""


class Options(TypedDict, total=False):
    """What every adapter takes beside its gate.

    ``instance`` is the agent (default ``agent``). ``session`` names the session or is asked for it; without it the
    framework's thread or conversation is the session, else the session of the call that this one is made in, else the
    process. ``namespace`` is who shares a memory. ``wait`` is how many seconds a call waits in line for what others
    hold.
    """

    instance: str
    session: Session
    namespace: str
    wait: float


_KEPT: Final = 256
"""Results that an adapter keeps for calls that come again, and refusals for calls that confirm them."""
_LONGEST_ID: Final = 200
_LOOKED_BACK: Final = 80
"""How many messages of a conversation are looked back over."""
_MARK: Final = "[Callosum]"
"""How every sentence begins."""
_HINTS: Final = {
    "readOnlyHint": "read_only_hint",
    "destructiveHint": "destructive_hint",
    "idempotentHint": "idempotent_hint",
    "openWorldHint": "open_world_hint",
}


class _Acting:
    """The call around this code: the parent of what a nested agent does.

    A framework may end a call in another context than where it began, so a call that is over is marked, not taken away.
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


class Seen(Struct, frozen=True, kw_only=True):
    """A call as its framework tells of it.

    ``params`` are what the model gave, without what the framework injects. ``call_id`` is the framework's, and ``turn``
    what it belongs to (an assistant message, a checkpoint): ids may come again within one session. ``read`` are the
    identities of earlier calls whose results the model has read, None where the framework does not tell; ``texts`` is
    what it has read, where calls have no ids. ``thread`` is the user-facing conversation. ``instance`` is who acts,
    where the framework tells and the adapter was told nothing; ``meta`` is handed on for the journal.
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


def identity_of(turn: str, call_id: str | None) -> str | None:
    """Return what makes a call the same call when it comes again; None where the framework gives no id."""
    return f"{turn}:{call_id}"[-_LONGEST_ID:] if turn and call_id else call_id


def turn_of(
    messages: Sequence[M], calls_of: Callable[[M], tuple[str, Sequence[str]]], call_id: str | None
) -> tuple[str, tuple[str, ...] | None]:
    """Return the id of the message in which the model made the call, and the calls before it, which it has read of.

    ``messages`` are a conversation's, newest last; ``calls_of`` says a message's id and the ids of the calls in it.
    Of a call that is in no message, nothing is known.
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
    """Return the hints of an MCP tool by their names in the protocol; None where it has none.

    Each hint is an attribute under its own name or, in newer versions of the SDK, in snake case.
    """
    found = {name: getattr(annotations, name, getattr(annotations, snake, None)) for name, snake in _HINTS.items()}
    return {name: bool(value) for name, value in found.items() if value is not None} or None


class Refused(Struct, frozen=True):
    """Why a call does not run: the ``sentence`` for the model, and the ``decision``, None where no gate made one."""

    sentence: str
    call: Call
    decision: Decision | None = None

    @property
    def asks(self) -> bool:
        """Whether a person must decide."""
        return self.decision is not None and self.decision.verdict is Verdict.ASK

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """What is in the way, for frameworks that have a place for data beside the text."""
        return self.decision.conflicts if self.decision is not None else ()

    def said(self, attempt: Attempt[R]) -> R:
        """Return it as the result that the model reads."""
        return attempt.refused(self)


class Kept(Struct, Generic[R], frozen=True):
    """What a call returned that was carried out and comes again."""

    result: R

    def said(self, _attempt: Attempt[R]) -> R:
        """Return it as the result that the model reads."""
        return self.result


class Noted:
    """What a tool raises, noted where it is raised: some frameworks make a text of it before an adapter sees it.

    As a context manager it goes around each run of the tool. Where a framework runs the tool again within one call, a
    run that succeeds counts, and otherwise the error that leaves it open whether the tool has acted.
    """

    __slots__ = ("error", "ran")

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.ran = False

    def __enter__(self) -> Self:
        self.ran = True
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            self.error = None
        elif self.error is None or outcome_of_error(self.error) is not Outcome.UNKNOWN:
            self.error = error


class Attempt(Generic[R]):
    """One call of a framework. A subclass an adapter says what is seen of it and how the gate's answers are said.

    ``R`` is what the framework takes for the result of a tool.
    """

    interrupts: ClassVar[tuple[type[BaseException], ...]] = ()
    """What the framework raises out of a tool that it will run again from its beginning."""
    handoffs: ClassVar[tuple[type[BaseException], ...]] = ()
    """What the framework raises out of a tool whose work continues elsewhere, and whose end nobody reports here."""

    def seen(self) -> Seen:
        """Return the call as the gate is to see it."""
        raise NotImplementedError

    def refused(self, no: Refused) -> R:
        """Return the refusal as the result that the model reads."""
        raise NotImplementedError

    def warned(self, result: R, sentence: str) -> R:
        """Return the result with the warning behind it."""
        raise NotImplementedError

    def said(self, result: R) -> Any:
        """Return what the journal keeps of a result."""
        return result

    def failed(self, _result: R) -> bool:
        """Whether the framework has made an error of the tool into this result."""
        return False

    def raised(self) -> BaseException | None:
        """Return what the tool raised, where the framework has made its result of that (``Noted``)."""
        return None

    def asked(self, _no: Refused) -> bool | None:
        """Put a question to a person by the framework's own means; None where it has none, or is not to be used."""
        return None


class Adapter:
    """One program's calls on their way through ``gate``; ``options`` are those of ``Options``."""

    def __init__(self, gate: Gate, **options: Unpack[Options]) -> None:
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
        self._guard = threading.Lock()

    def call_of(self, seen: Seen) -> Call:
        """Return the call that the gate is asked about.

        It pauses: the model reads most warnings in place of a result, and confirms by calling again.
        """
        around = _around()
        own = self._session() if callable(self._session) else self._session
        session = own or seen.thread or (around.session if around is not None else own_session())
        instance = self._instance or seen.instance or UNNAMED
        within = around is not None and (around.instance, around.session) == (instance, session)
        return Call(
            instance,
            seen.tool,
            seen.params,
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
            parent=f"{around.instance}/{around.session}" if around is not None and not within else None,
            rewrite=True,
            meta=seen.meta,
            host=this_process(),
        )

    def run(self, attempt: Attempt[R], tool: Callable[[Mapping[str, Any] | None], R]) -> R:
        """Return what ``tool`` returns where the gate lets it run, else the refusal.

        ``tool`` is given the params that a person approved in place of the call's own, else None. What it raises is
        raised. A call that comes again and was carried out returns what it returned then, or where that is no longer
        known a refusal that says so.
        """
        running = self.begin(attempt)
        if not isinstance(running, Running):
            return running.said(attempt)
        with running:
            return running.finished(tool(running.params))

    async def arun(self, attempt: Attempt[R], tool: Callable[[Mapping[str, Any] | None], Awaitable[R]]) -> R:
        """As ``run``, for a tool that is awaited."""
        running = await self.abegin(attempt)
        if not isinstance(running, Running):
            return running.said(attempt)
        async with running:
            return running.finished(await tool(running.params))

    def begin(self, attempt: Attempt[R]) -> Running[R] | Refused | Kept[R]:
        """Ask the gate about a call: the first half of ``run``, for a framework that runs the tool itself.

        A call that runs must be ended: by ``end`` with its result, or by ``fail`` with what the tool raised.
        """
        return _at_once(self._begun(attempt, _enter_in_this_thread, _in_this_thread))

    async def abegin(self, attempt: Attempt[R]) -> Running[R] | Refused | Kept[R]:
        """As ``begin``; the event loop does not wait for the gate."""
        return await self._begun(attempt, guard.__aenter__, asyncio.to_thread)

    def answer(self, attempt: Attempt[R], no: Refused, *, agreed: bool) -> Running[R] | Refused | Kept[R]:
        """Enter a person's answer to a question, and ask the gate about its call once more."""
        return _at_once(self._entered(attempt, self._answered(no, agreed=agreed), _enter_in_this_thread))

    async def aanswer(self, attempt: Attempt[R], no: Refused, *, agreed: bool) -> Running[R] | Refused | Kept[R]:
        """As ``answer``; the event loop does not wait for the gate."""
        call = await asyncio.to_thread(partial(self._answered, no, agreed=agreed))
        return await self._entered(attempt, call, guard.__aenter__)

    async def _begun(self, attempt: Attempt[R], enter: _Enter, do: _Do) -> Running[R] | Refused | Kept[R]:
        begun = await self._entered(attempt, self.call_of(attempt.seen()), enter)
        if not isinstance(begun, Refused) or not begun.asks:
            return begun
        agreed = attempt.asked(begun)
        if agreed is None:
            return begun
        call = await do(partial(self._answered, begun, agreed=agreed))
        return await self._entered(attempt, call, enter)

    async def _entered(self, attempt: Attempt[R], call: Call, enter: _Enter) -> Running[R] | Refused | Kept[R]:
        try:
            return Running(self, attempt, await enter(guard(self.gate, call, warned=_later)), call)
        except CallosumError as no:
            return self._refused(call, no)

    async def verdict(self, seen: Seen) -> Verdict | None:
        """Return what the gate says of a call before its framework runs it; None where no gate can be asked.

        The call is decided with it: ``arun`` gets the same answer.
        """
        try:
            decision = await AsyncGate(self.gate).intercept(self.call_of(seen))
        except CallosumError:
            return None
        return decision.verdict

    def _newest(self, seen: Seen, session: str) -> int | None:
        """The newest refusal that the model has read of; 0 for none, None where the framework does not tell."""
        with self._guard:
            if seen.read is not None:
                return max((self._told.get((session, one), 0) for one in seen.read), default=0)
            if seen.texts is None:
                return None
            texts = [text for text in seen.texts if _MARK in text]
            own = ((said, id) for (whose, said), id in self._said.items() if whose == session)
            return max((id for said, id in own if any(said in text for text in texts)), default=0)

    def _answered(self, no: Refused, *, agreed: bool) -> Call:
        """Enter a person's answer; return the call to ask the gate for once more."""
        if no.decision is None:
            raise ValueError("no gate has asked")
        answer = self.gate.approve if agreed else self.gate.deny
        answer(no.decision.id, by="host", channel=HOST, namespace=self._namespace)
        return replace(no.call, call_id=f"{no.call.call_id or no.decision.id}:answered")

    def _refused(self, call: Call, no: CallosumError) -> Refused | Kept[Any]:
        decision = no.decision if isinstance(no, Blocked) else None
        if decision is not None:
            with self._guard:
                if isinstance(no, Repeated) and decision.state is State.DONE and decision.id in self._kept:
                    return Kept(self._kept[decision.id])
                session = call.session or ""
                if call.call_id is not None:
                    _put(self._told, (session, call.call_id), decision.id)
                _put(self._said, (session, str(no)), decision.id)
        return Refused(str(no) if decision is not None else f"{_MARK} {no}", call, decision)

    def keep(self, decision: Decision, result: Any) -> None:
        """Keep what a call returned, for when it comes again."""
        if decision.tier:
            with self._guard:
                _put(self._kept, decision.id, result)


class Running(Generic[R]):
    """A call that the gate lets run. ``params`` replace the call's own; None leaves them.

    As a context manager it ends with its block.
    """

    def __init__(self, adapter: Adapter, attempt: Attempt[R], running: guard, call: Call) -> None:
        self._adapter, self._attempt, self._guard = adapter, attempt, running
        self.params = running.decision.params if running.decision is not None else None
        self._acting = _Acting(call, _around())
        _acting.set(self._acting)

    @property
    def warning(self) -> str | None:
        """The warning about the call, for the model."""
        decision = self._guard.decision
        return decision.warning if decision is not None and decision.verdict is Verdict.WARN else None

    def finished(self, result: R) -> R:
        """Return the result as the model reads it: with the warning behind it, if there is one."""
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
        """End the call with what its tool returned; return what the model reads."""
        with self:
            return self.finished(result)

    async def aend(self, result: R) -> R:
        """As ``end``; the event loop does not wait for the gate."""
        async with self:
            return self.finished(result)

    def cancel(self) -> None:
        """End the call, whose tool never ran."""
        self._guard.outcome = Outcome.CANCELLED
        self.__exit__(None, None, None)

    def fail(self, error: BaseException) -> None:
        """End the call with what its tool raised."""
        self.__exit__(type(error), error, None)

    async def afail(self, error: BaseException) -> None:
        """As ``fail``; the event loop does not wait for the gate."""
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
    """Keep one more; the oldest goes."""
    kept[name] = value
    while len(kept) > _KEPT:
        kept.popitem(last=False)


async def _in_this_thread(work: Callable[[], R]) -> R:
    return work()


async def _enter_in_this_thread(running: guard) -> guard:
    return running.__enter__()


def _at_once(work: Coroutine[Any, Any, R]) -> R:
    """Return what a coroutine returns that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as over:
        returned: R = over.value
        return returned
    raise RuntimeError("the coroutine waits")


def _later(decision: Decision) -> None:
    """A warning stands behind the result, for the model; what is for people alone is logged."""
    if decision.verdict is not Verdict.WARN:
        logger.info("%s", decision.warning)
