"""Strands Agents: ``CallosumIntervention`` for one agent, ``install`` for every agent of the process.

::

    agent = Agent(tools=[send_email], interventions=[CallosumIntervention(gate)])

The session is the agent's own (``agent.session_id``): that of its session manager, otherwise of the agent object, which
holds one conversation. A refusal is the tool's result of status ``error``. Strands puts ``GUIDANCE:`` and the name of
the intervention before a sentence that the model can answer by repeating the call, and ``DENIED:`` before others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, Unpack
from weakref import WeakSet

from strands import Agent
from strands.hooks import AfterInvocationEvent, AfterToolCallEvent, AfterToolsEvent, BeforeToolCallEvent
from strands.interventions import Confirm, Deny, Guide, InterventionHandler, Proceed, Transform
from strands.interventions.actions import default_evaluate

from callosum.adapters._seams import add_to_new
from callosum.adapters.core import (
    Adapter,
    Attempt,
    FrameworkCall,
    KeptResult,
    Options,
    Refused,
    RunningCall,
    hints_of,
    turn_of,
)
from callosum.gate import Gate
from callosum.model import Verdict

Result: TypeAlias = dict[str, Any]
Action: TypeAlias = Proceed | Deny | Guide | Confirm | Transform

_ANSWERS = "structured_output"
"""Type of the tools by which a model gives its final answer in a fixed structure."""


class CallosumIntervention(InterventionHandler):  # type: ignore[misc]  # the framework is not looked into
    """Puts the gate around every tool of an agent: parallel, streamed, background and direct calls.

    Put it last: the gate then decides on the input that other interventions have produced. ``options`` are those of
    ``callosum.adapters.core.Options``. With ``host_approvals`` a call that a person must decide interrupts the agent
    (``Confirm``). The gate needs the same setting, otherwise the call is refused.
    """

    name = "callosum"
    on_error: Literal["deny"] = "deny"

    def __init__(self, gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> None:
        self._adapter = Adapter(gate, **options)
        self._host_approvals = host_approvals
        self._calls: dict[tuple[int, str], RunningCall[Result] | KeptResult[Result]] = {}
        """What the end of a call needs, by the agent and the call's id."""
        self._background: set[tuple[int, str]] = set()
        self._heard: WeakSet[Any] = WeakSet()

    async def before_tool_call(self, event: BeforeToolCallEvent, **_: Any) -> Action:
        """Ask the gate about one call."""
        if event.cancel_tool or getattr(event.selected_tool, "tool_type", "") == _ANSWERS:
            return Proceed()
        self._hear(event.agent)
        attempt = _ToolCall(event)
        return self._action(event, attempt, await self._adapter.abegin(attempt))

    async def after_tool_call(self, event: AfterToolCallEvent, **_: Any) -> Proceed | Transform:
        """Report how one call ended."""
        name = _name(event)
        self._background.discard(name)
        begun = self._calls.pop(name, None)
        if begun is None:
            return Proceed()
        if isinstance(begun, KeptResult):
            return _becomes({**begun.result, "toolUseId": event.tool_use["toolUseId"]})
        if event.cancel_message is not None:  # another intervention or hook cancelled it
            await asyncio.to_thread(begun.cancel)
        elif event.exception is not None:
            await begun.afail(event.exception)
        elif event.result.get("cancelled"):
            await begun.afail(asyncio.CancelledError())
        else:
            result = await begun.aend(event.result)
            if result is not event.result:
                return _becomes(result)
        return Proceed()

    def _action(
        self, event: BeforeToolCallEvent, attempt: _ToolCall, begun: RunningCall[Result] | Refused | KeptResult[Result]
    ) -> Action:
        if isinstance(begun, Refused):
            if begun.asks and self._host_approvals:
                return Confirm(begun.sentence, evaluate=self._evaluate(event, attempt, begun))
            verdict = begun.decision.verdict if begun.decision is not None else None
            return Guide(begun.sentence) if verdict is Verdict.CONFIRM else Deny(begun.sentence)
        self._calls[_name(event)] = begun
        if isinstance(begun, KeptResult):
            return Deny("[Callosum] already done")  # replaces the tool; its result becomes the kept one
        if begun.params is None:
            return Proceed()
        use = {**event.tool_use, "input": dict(begun.params)}
        return Transform(apply=lambda before: setattr(before, "tool_use", use))

    def _evaluate(self, event: BeforeToolCallEvent, attempt: _ToolCall, asked: Refused) -> Callable[[Any], bool]:
        def evaluate(response: Any) -> bool:
            """Record a person's answer with the gate, which decides on it.

            Return a response if the answer does not suffice.
            """
            agreed: bool = default_evaluate(response)
            action = self._action(event, attempt, self._adapter.answer(attempt, asked, agreed=agreed))
            match action:
                case Transform():
                    action.apply(event)
                case Deny() | Confirm() if agreed:
                    event.cancel_tool = f"DENIED: {getattr(action, 'reason', None) or getattr(action, 'prompt', '')}"
                case Guide() if agreed:
                    event.cancel_tool = f"GUIDANCE: {action.feedback}"
                case _:
                    pass
            return agreed

        return evaluate

    def _hear(self, agent: Any) -> None:
        """Listen for the end of an agent's tools and runs: an interrupted or cancelled call has no end of its own."""
        if agent not in self._heard:
            self._heard.add(agent)
            agent.hooks.add_callback(AfterToolsEvent, self._after_tools)
            agent.hooks.add_callback(AfterInvocationEvent, self._after_invocation)

    async def _after_tools(self, event: AfterToolsEvent) -> None:
        """Treat a call that has a result while it still runs as a background task."""
        results = {block["toolResult"]["toolUseId"] for block in event.message["content"] if "toolResult" in block}
        self._background |= {name for name in list(self._calls) if name[0] == id(event.agent) and name[1] in results}

    async def _after_invocation(self, event: AfterInvocationEvent) -> None:
        interrupted = event.result is not None and event.result.stop_reason == "interrupt"
        for name in [name for name in list(self._calls) if name[0] == id(event.agent) and name not in self._background]:
            begun = self._calls.pop(name)
            if not isinstance(begun, RunningCall):
                continue
            if interrupted:  # the tool runs again from its beginning
                await asyncio.to_thread(begun.cancel)
            else:
                await begun.afail(asyncio.CancelledError())


class _ToolCall(Attempt[Result]):
    def __init__(self, event: BeforeToolCallEvent) -> None:
        self._event = event

    def seen(self) -> FrameworkCall:
        event = self._event
        use, tool, agent = event.tool_use, event.selected_tool, event.agent
        spec: Mapping[str, Any] = tool.tool_spec if tool is not None else {}
        params = use["input"] if isinstance(use["input"], Mapping) else {"input": use["input"]}
        turn, read = turn_of(agent.messages, _calls, use["toolUseId"])
        schema = spec.get("inputSchema", {})
        return FrameworkCall(
            tool=use["name"],
            params={name: value for name, value in params.items() if value is not agent},
            call_id=use["toolUseId"],
            turn=turn,
            read=read,
            thread=agent.session_id,
            run=None,
            description=spec.get("description"),
            schema=schema.get("json", schema) or None,
            annotations=hints_of(getattr(getattr(tool, "mcp_tool", None), "annotations", None)),
        )

    def warned(self, result: Result, sentence: str) -> Result:
        return {**result, "content": [*result["content"], {"text": sentence}]}

    def said(self, result: Result) -> Any:
        return result["content"]

    def failed(self, _result: Result) -> bool:
        return _result.get("status") == "error"


def install(gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> Callable[[], None]:
    """Put the gate around the tools of every agent made from now on. Return a function that removes it.

    An agent with its own ``CallosumIntervention`` keeps that one. Another call replaces the gate.
    """
    shared = CallosumIntervention(gate, host_approvals=host_approvals, **options)

    return add_to_new(Agent, "interventions", shared, lambda one: isinstance(one, CallosumIntervention))


def _name(event: Any) -> tuple[int, str]:
    return id(event.agent), event.tool_use["toolUseId"]


def _becomes(result: Result) -> Transform:
    return Transform(apply=lambda after: setattr(after, "result", result))


def _calls(message: Any) -> tuple[str, list[str]]:
    calls = [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]
    return message.get("tracking_id", ""), calls
