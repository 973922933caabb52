"""AGENT-HOOKS-0.1: ``CallosumInterceptor`` for any host that implements the contract (``agent-hooks-sdk``).

::

    emitter.register(CallosumInterceptor(gate))
    middleware = [create_agent_hooks_middleware([CallosumInterceptor(gate)])]  # of Agent Framework

Register it last: a call that another interceptor denies is then never opened. The session is the contract's
(``session.id``). The gate's answer to a tool call becomes a verdict:

============== =====================================================================
the gate       the verdict at ``pre_tool_call``
============== =====================================================================
allow          allow
warn           allow, with the warning
confirm, block a plain deny, whose message is the sentence
ask            the same; with ``host_approvals`` a deny that a resolver may lift
other params   transform
============== =====================================================================

The SDK's records cut messages at 256 bytes, and Agent Framework passes only these to the model. Your own host can get
the whole sentence from ``told``.

At every other point the verdict is allow. ``post_tool_call`` reports how a call ended. A call that the gate did not
open, because a resolver lifted the deny or the host only evaluates, is journalled as a call that ran without the gate.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Protocol, Unpack

from agent_hooks import ALLOW, AgentContext, Decision, Evidence, InterceptionPoint, Transform, Verdict
from msgspec import json
from msgspec.structs import replace

from callosum.adapters.core import (
    Adapter,
    Attempt,
    FrameworkCall,
    KeptResult,
    Options,
    Refused,
    RunningCall,
    identity_of,
)
from callosum.errors import CallosumError
from callosum.gate import Gate, LocalGate, Standby
from callosum.guards import outcome_of_error
from callosum.model import Outcome
from callosum.redact import summarise

logger = logging.getLogger("callosum")

_MOST_SESSIONS = 1000
"""Number of sessions that are remembered. Beyond it the one whose last event is oldest is dropped."""
_MOST_CALLS = 80
"""Number of a session's newest calls that are remembered."""
_UNSURE = re.compile(r"time[d]?[ -]?out|cancel|connection ?(reset|lost|aborted|closed|error)|disconnect", re.IGNORECASE)
"""Words in an error that leave it open whether the tool has acted."""


class Bus(Protocol):
    """Takes events by their names, as ``callosum.corpus.bus.Corpus`` does."""

    def emit(self, event: str, payload: Mapping[str, Any]) -> None: ...


class CallosumInterceptor:
    """Decides tool calls by the gate, and reports how they ended. Use one per event loop.

    The options are those of ``callosum.adapters.core.Options``; keep ``wait`` well below the host's time limit for an
    interceptor. ``host_approvals`` says that the host's resolver may lift the gate's questions; the gate needs the same
    setting. ``corpus`` receives what the host says about inputs and models; without it a ``CallosumClient`` sends that
    to its server.
    """

    def __init__(
        self, gate: Gate, *, host_approvals: bool = False, corpus: Bus | None = None, **options: Unpack[Options]
    ) -> None:
        self._adapter = Adapter(gate, **options)
        self._host_approvals, self._corpus = host_approvals, corpus
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    async def intercept(self, context: AgentContext) -> Verdict:
        """Return the verdict on one point of an agent's run."""
        session = await self._session(context["session"]["id"])
        point = InterceptionPoint(context["interception_point"])
        if point is InterceptionPoint.PRE_TOOL_CALL:
            return await self._before(session, context)
        if point is InterceptionPoint.POST_TOOL_CALL:
            await self._after(session, context)
        elif point is InterceptionPoint.PRE_MODEL_CALL:
            session.read, session.turn = tuple(session.made), str(context["sequence"])
        elif point is InterceptionPoint.AGENT_SHUTDOWN:
            await self._settle(self._sessions.pop(session.id))
        if point in _TOLD:
            await asyncio.to_thread(self._tell, session, context, point)
        return ALLOW

    def told(self, session: str, call_id: str) -> str | None:
        """Return the whole sentence that refused a call, None if the call was not refused.

        The call is named by the ids of its session and the call itself.
        """
        known = self._sessions.get(session)
        return known.told.get(call_id) if known is not None else None

    async def _session(self, id: str) -> _Session:
        session = self._sessions.setdefault(id, _Session(id))
        self._sessions.move_to_end(id)
        while len(self._sessions) > _MOST_SESSIONS:
            await self._settle(self._sessions.popitem(last=False)[1])
        return session

    async def _before(self, session: _Session, context: AgentContext) -> Verdict:
        call = context["tool_call"]
        seen = session.seen(call)
        begun = await self._adapter.abegin(_ToolCall(seen))
        session.made.append(identity_of(seen.turn, seen.call_id) or "")
        del session.made[:-_MOST_CALLS]
        if not isinstance(begun, RunningCall):
            verdict = _repeated(begun) if isinstance(begun, KeptResult) else self._refusal(begun)
            session.told[call["id"]] = str(verdict.message)
            while len(session.told) > _MOST_CALLS:
                session.told.popitem(last=False)
            return verdict
        older = session.running.pop(call["id"], None)
        session.running[call["id"]] = begun
        if older is not None:  # the host reuses the id, so it will not report the older call
            await older.afail(asyncio.CancelledError())
        if begun.params is not None:
            return Verdict(Decision.TRANSFORM, transform=Transform("$target", dict(begun.params)))
        return Verdict.warn(reason="callosum:warn", message=begun.warning) if begun.warning else ALLOW

    def _refusal(self, no: Refused) -> Verdict:
        decision = no.decision
        return Verdict(
            Decision.DENY,
            reason=f"callosum:{decision.verdict if decision is not None else 'unavailable'}",
            message=no.sentence,
            approval={} if no.asks and self._host_approvals else None,
            evidence=None if decision is None else Evidence(verification_pointers={"callosum": str(decision.id)}),
        )

    async def _after(self, session: _Session, context: AgentContext) -> None:
        call, result = context["tool_call"], context["tool_result"]
        running = session.running.pop(call["id"], None)
        error = _error_of(result["value"]) if result.get("is_error") else None
        if running is None:
            await asyncio.to_thread(self._enter, session.seen(call), error)
        elif error is not None:
            await running.afail(error)
        else:
            await running.aend(result["value"])

    def _enter(self, seen: FrameworkCall, error: Exception | None) -> None:
        """Enter a call that ran although the gate did not open it, as another call than the refused one."""
        gate, call = self._adapter.gate, self._adapter.call_of(seen)
        if not isinstance(gate, Standby):
            logger.warning("%s ran although the gate did not open it, and this gate cannot enter it", seen.tool)
            return
        outcome = Outcome.DONE if error is None else outcome_of_error(error)
        gate.remember_late(replace(call, call_id=f"{call.call_id}:unopened"), outcome)

    async def _settle(self, session: _Session) -> None:
        """End calls that were never reported, because the host aborted them or another interceptor denied them."""
        for running in session.running.values():
            await running.afail(asyncio.CancelledError())

    def _tell(self, session: _Session, context: AgentContext, point: InterceptionPoint) -> None:
        """Pass on an event that is not a tool call. Its errors affect no decision."""
        try:
            actor = self._adapter.call_of(session.seen({"name": point.value, "args": {}}))
            gate, event = self._adapter.gate, _event_of(context, point)
            if point.value in _EDGES and isinstance(gate, LocalGate):
                what, details = _EDGES[point.value]
                gate.heard(actor.instance, what, context[details], session=actor.session, namespace=actor.namespace)
            if event is not None:
                name, told = event
                told = {**told, "instance": actor.actor, "namespace": actor.namespace}
                if self._corpus is not None:
                    self._corpus.emit(name, told)
                elif hasattr(gate, "emit"):
                    gate.emit({"type": name, **told})
        except CallosumError as error:
            logger.warning("%s could not be told: %s", point.value, error)
        except Exception:  # an exception here would become the host's verdict on its input or model
            logger.exception("%s could not be told", point.value)


_EDGES: Mapping[str, tuple[str, str]] = {
    "agent_startup": ("SessionStart", "agent_init"),
    "agent_shutdown": ("SessionEnd", "summary"),
}
"""How the journal names the points at which a session begins and ends, and where the context says more."""
_TOLD = frozenset(
    (
        InterceptionPoint.AGENT_STARTUP,
        InterceptionPoint.AGENT_SHUTDOWN,
        InterceptionPoint.INPUT,
        InterceptionPoint.POST_MODEL_CALL,
    )
)
"""The points that are reported to the gate or the corpus."""


class _Session:
    """One session of a host: its calls that were made, that run and that were refused, and those the model has read."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.turn = ""
        self.made: list[str] = []
        self.read: tuple[str, ...] | None = None
        self.running: dict[str, RunningCall[Any]] = {}
        self.told: OrderedDict[str, str] = OrderedDict()

    def seen(self, call: Mapping[str, Any]) -> FrameworkCall:
        """Return a call as the gate should see it."""
        return FrameworkCall(
            tool=call["name"],
            params=call["args"],
            call_id=call.get("id"),
            turn=self.turn,
            read=self.read,
            thread=self.id,
        )


class _ToolCall(Attempt[Any]):
    def __init__(self, seen: FrameworkCall) -> None:
        self._seen = seen

    def seen(self) -> FrameworkCall:
        return self._seen

    def warned(self, result: Any, _sentence: str) -> Any:
        return result  # the verdict already carried the warning


def _repeated(kept: KeptResult[Any]) -> Verdict:
    said = f"[Callosum] This very call was carried out before and does not run again. It returned: {kept.result}"
    return Verdict.deny(reason="callosum:repeated", message=said)


def _error_of(value: Any) -> Exception:
    text = value if isinstance(value, str) else str(value)
    return TimeoutError(text) if _UNSURE.search(text[:2000]) else RuntimeError(text)


def _event_of(context: AgentContext, point: InterceptionPoint) -> tuple[str, dict[str, Any]] | None:
    """Return the corpus event of a point, in the names of the wire; None for most points."""
    if point is InterceptionPoint.INPUT:
        framework, session = context["agent"]["framework"], context["session"]["id"]
        said = _kept(context["input"]["content"])
        return "input.received", {"content": said, "channelId": framework, "conversationId": session}
    if point is not InterceptionPoint.POST_MODEL_CALL:
        return None
    model, response = context["model"], context["response"]
    provider = model.get("vendor") or "unknown"
    if response["finish_reason"] == "error":
        return "llm.error", {"provider": provider, "error": _kept(response["content"]), "willRetry": False}
    usage = context.get("usage") or {}
    read, written = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    told = {"provider": provider, "model": model["id"], "tokens": read + written}
    return "llm.response", {**told, "context": read} if read else told


def _kept(content: Any) -> str:
    """Return content as text that may be stored: shortened, without secrets."""
    text = content if isinstance(content, str) else json.encode(content, enc_hook=str).decode()
    return str(summarise({"text": text})["text"])
