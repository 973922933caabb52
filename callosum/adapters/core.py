"""What the adapters of all frameworks share: who acts, what a call is, and what becomes of the gate's answer.

An adapter says what its framework tells of a call, and how an answer is said in it: that is an ``Attempt``.
``Adapter.run`` (or ``arun``) takes it through the gate. Around the tool stands ``callosum.guard``: the lease is
renewed, the outcome reported, and without a gate tiers 3 and 4 do not run.

What an adapter offers takes ``**options: Unpack[Options]`` and hands them to ``Adapter``, after ``host_approvals``
where its framework can ask a person. Where the framework has a seam that covers every agent of the process, the module
has::

    def install(gate: Gate, **options: Unpack[Options]) -> Callable[[], None]: ...

which gates that seam, replaces the gate of an earlier ``install``, and returns the function that takes its own gate
away (it does nothing once another ``install`` has replaced that gate). ``callosum.adapters.install`` calls it.

Nothing here imports a framework.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, TypedDict, TypeVar, Unpack

from msgspec import Struct
from msgspec.structs import replace

from callosum.errors import Blocked, CallosumError, Repeated
from callosum.gate import Gate
from callosum.guards import UNNAMED, AsyncGate, guard
from callosum.model import DEFAULT_NAMESPACE, Call, Conflict, Decision, Outcome, State, Verdict
from callosum.policy.settle import HOST
from callosum.process import own_session

logger = logging.getLogger("callosum")

K = TypeVar("K")
R = TypeVar("R")
V = TypeVar("V")

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
_acting: ContextVar[tuple[str, str] | None] = ContextVar("callosum_acting", default=None)
"""Instance and session of the call around this code: the parent of what a nested agent does."""


class Seen(Struct, frozen=True, kw_only=True):
    """A call as its framework tells of it.

    ``params`` are what the model gave, without what the framework injects. ``call_id`` is the framework's, and ``turn``
    what it belongs to (an assistant message, a checkpoint): ids may come again within one session. ``read`` are the
    identities of earlier calls whose results the model has read, None where the framework does not tell. ``thread`` is
    the user-facing conversation.
    """

    tool: str
    params: Mapping[str, Any]
    call_id: str | None = None
    turn: str = ""
    read: tuple[str, ...] | None = None
    thread: str | None = None
    run: str | None = None
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] | None = None


def identity_of(turn: str, call_id: str | None) -> str | None:
    """Return what makes a call the same call when it comes again; None where the framework gives no id."""
    return f"{turn}:{call_id}"[-_LONGEST_ID:] if turn and call_id else call_id


class Refused(Struct, frozen=True):
    """Why a call does not run: the ``sentence`` for the model, and the ``decision``, None where no gate made one."""

    sentence: str
    decision: Decision | None = None

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """What is in the way, for frameworks that have a place for data beside the text."""
        return self.decision.conflicts if self.decision is not None else ()


class Attempt(Generic[R]):
    """One call of a framework. A subclass an adapter says what is seen of it and how the gate's answers are said.

    ``R`` is what the framework takes for the result of a tool.
    """

    interrupts: ClassVar[tuple[type[BaseException], ...]] = ()
    """What the framework raises out of a tool that it will run again from its beginning."""

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

    def asked(self, _no: Refused) -> bool | None:
        """Put a question to a person by the framework's own means; None where it has none, or is not to be used."""
        return None


class Adapter:
    """One program's calls on their way through ``gate``; ``options`` are those of ``Options``."""

    def __init__(self, gate: Gate, **options: Unpack[Options]) -> None:
        self.gate = gate
        self._instance = options.get("instance", UNNAMED)
        self._session = options.get("session")
        self._namespace = options.get("namespace", DEFAULT_NAMESPACE)
        self._wait = options.get("wait", 0)
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._told: OrderedDict[str, int] = OrderedDict()
        """The decisions that refused calls, by the calls' identities."""
        self._guard = threading.Lock()

    def call_of(self, seen: Seen) -> Call:
        """Return the call that the gate is asked about.

        It pauses: the model reads most warnings in place of a result, and confirms by calling again.
        """
        around = _acting.get()
        own = self._session() if callable(self._session) else self._session
        session = own or seen.thread or (around[1] if around is not None else own_session())
        parent = f"{around[0]}/{around[1]}" if around not in (None, (self._instance, session)) else None
        return Call(
            self._instance,
            seen.tool,
            seen.params,
            session=session,
            namespace=self._namespace,
            call_id=identity_of(seen.turn, seen.call_id),
            after=self._newest(seen.read) if seen.read is not None else None,
            pause=True,
            wait=self._wait,
            description=seen.description,
            schema=seen.schema,
            annotations=seen.annotations,
            run=seen.run,
            parent=parent,
            rewrite=True,
        )

    def run(self, attempt: Attempt[R], tool: Callable[[Mapping[str, Any] | None], R]) -> R:
        """Return what ``tool`` returns where the gate lets it run, else the refusal.

        ``tool`` is given the params that a person approved in place of the call's own, else None. What it raises is
        raised. A call that comes again and was carried out returns what it returned then, or where that is no longer
        known a refusal that says so.
        """

        async def called(params: Mapping[str, Any] | None) -> R:
            return tool(params)

        return _at_once(self._passed(attempt, called, _InThisThread))

    async def arun(self, attempt: Attempt[R], tool: Callable[[Mapping[str, Any] | None], Awaitable[R]]) -> R:
        """As ``run``, for a tool that is awaited."""
        return await self._passed(attempt, tool, lambda running: running)

    async def _passed(
        self,
        attempt: Attempt[R],
        tool: Callable[[Mapping[str, Any] | None], Awaitable[R]],
        entered: Callable[[guard], AbstractAsyncContextManager[guard]],
    ) -> R:
        call = self.call_of(attempt.seen())
        async with AsyncExitStack() as stack:
            try:
                running = await stack.enter_async_context(entered(guard(self.gate, call, warned=_later)))
            except CallosumError as no:
                answered = self._answered(attempt, call, no)
                if answered is None:
                    return self._refused(attempt, call, no)
                try:
                    running = await stack.enter_async_context(entered(guard(self.gate, answered, warned=_later)))
                except CallosumError as still:
                    return self._refused(attempt, answered, still)
            acting = _acting.set((call.instance, call.session or ""))
            try:
                result = await tool(running.decision.params if running.decision is not None else None)
            except attempt.interrupts:
                running.outcome = Outcome.CANCELLED
                raise
            finally:
                _acting.reset(acting)
            return self._finished(attempt, running, result)

    async def verdict(self, seen: Seen) -> Verdict | None:
        """Return what the gate says of a call before its framework runs it; None where no gate can be asked.

        The call is decided with it: ``arun`` gets the same answer.
        """
        try:
            decision = await AsyncGate(self.gate).intercept(self.call_of(seen))
        except CallosumError:
            return None
        return decision.verdict

    def _newest(self, read: tuple[str, ...]) -> int:
        """The newest refusal that the model has read of; 0 for none."""
        with self._guard:
            return max((self._told[one] for one in read if one in self._told), default=0)

    def _answered(self, attempt: Attempt[R], call: Call, no: CallosumError) -> Call | None:
        """The call to ask the gate for once more, where the framework has brought a person's answer."""
        decision = no.decision if isinstance(no, Blocked) else None
        if decision is not None and decision.verdict is Verdict.ASK:
            agreed = attempt.asked(Refused(str(no), decision))
            if agreed is not None:
                answer = self.gate.approve if agreed else self.gate.deny
                answer(decision.id, by="host", channel=HOST, namespace=self._namespace)
                return replace(call, call_id=f"{call.call_id or decision.id}:answered")
        return None

    def _refused(self, attempt: Attempt[R], call: Call, no: CallosumError) -> R:
        decision = no.decision if isinstance(no, Blocked) else None
        if decision is not None:
            with self._guard:
                if isinstance(no, Repeated) and decision.state is State.DONE and decision.id in self._kept:
                    kept: R = self._kept[decision.id]
                    return kept
                if call.call_id is not None:
                    _put(self._told, call.call_id, decision.id)
        return attempt.refused(Refused(str(no) if decision is not None else f"[Callosum] {no}", decision))

    def _finished(self, attempt: Attempt[R], running: guard, result: R) -> R:
        running.result = attempt.said(result)
        if attempt.failed(result):
            running.outcome = Outcome.FAILED
        decision = running.decision
        if decision is None:
            return result
        if decision.warning and decision.verdict is Verdict.WARN:
            result = attempt.warned(result, decision.warning)
        if decision.tier:
            with self._guard:
                _put(self._kept, decision.id, result)
        return result


def _put(kept: OrderedDict[K, V], name: K, value: V) -> None:
    """Keep one more; the oldest goes."""
    kept[name] = value
    while len(kept) > _KEPT:
        kept.popitem(last=False)


class _InThisThread:
    """Enters and leaves a guard without a worker thread."""

    def __init__(self, running: guard) -> None:
        self._running = running

    async def __aenter__(self) -> guard:
        return self._running.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.__exit__(kind, error, trace)


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
