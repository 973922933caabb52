"""pydantic-ai: ``CallosumCapability`` for one agent or one run, ``install`` for every agent made from then on.

::

    agent = Agent("openai:gpt-5", tools=[send_email], capabilities=[CallosumCapability(gate)])
    install(gate)

The session is the conversation (``conversation_id``). A refusal is a tool result whose outcome is ``failed`` and whose
text is the sentence; it uses none of the tool's retries. The gate does not see tools of the provider and output tools.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Unpack

from msgspec import to_builtins
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.capabilities.abstract import leaf_capabilities
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed, ToolRetryError
from pydantic_ai.messages import ModelResponse, ToolReturn
from pydantic_core import to_jsonable_python

from callosum.adapters._seams import add_to_new
from callosum.adapters.core import Adapter, Attempt, FrameworkCall, Options, Refused, turn_of
from callosum.gate import Gate, LocalGate


@dataclass(init=False)
class CallosumCapability(AbstractCapability[Any]):  # type: ignore[misc]  # the framework is not looked into
    """Puts the gate around every tool of an agent: sync and async, streaming and parallel calls.

    The options are those of ``callosum.adapters.core.Options``. With ``host_approvals`` a call that a person must
    decide is deferred as one that requires approval (``DeferredToolRequests``), and an approval is the yes. The gate
    needs the same setting, otherwise an approval raises ``ConfigError``.
    """

    gate: Gate
    host_approvals: bool
    options: Options
    id: str | None = "callosum"
    """Equal for every instance: if an agent and its run both have the capability, that of the run gates the calls."""

    def __init__(self, gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> None:
        self.gate, self.host_approvals, self.options = gate, host_approvals, options

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return the capability's name in the spec of an agent."""
        return "CallosumCapability"

    @classmethod
    def from_spec(
        cls, url: str | None = None, *, host_approvals: bool = False, **options: Unpack[Options]
    ) -> CallosumCapability:
        """Return the capability that a spec describes, with the gate at ``url`` or else one in the state folder."""
        if url is None:
            return cls(LocalGate(), host_approvals=host_approvals, **options)
        from callosum import CallosumClient  # noqa: PLC0415 - an embedded gate needs no client

        return cls(CallosumClient(url), host_approvals=host_approvals, **options)

    def get_ordering(self) -> CapabilityOrdering:
        """Return that this capability wraps all others: no other one runs for a call that the gate refuses."""
        return CapabilityOrdering(position="outermost")

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any], handler: Any) -> Any:
        """Run one call under the gate."""
        attempt = _ToolCall(self, ctx, call, tool_def, args)

        async def tool(params: Mapping[str, Any] | None) -> Any:
            try:
                return await handler(args if params is None else attempt.validated(params))
            except ToolRetryError as error:
                _name_timeout(error)
                raise

        return await self._adapter.arun(attempt, tool)

    @cached_property
    def _adapter(self) -> Adapter:
        return Adapter(self.gate, **self.options)


def install(gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> Callable[[], None]:
    """Add the capability to every agent made from now on. Return a function that stops this.

    An agent with its own capability keeps that one. Another call replaces the gate for agents made later. Options are
    those of ``CallosumCapability``.
    """
    capability = CallosumCapability(gate, host_approvals=host_approvals, **options)

    return add_to_new(Agent, "capabilities", capability, _has_gate, first=True)


def _has_gate(capability: Any) -> bool:
    """Return True if a capability contains the gate's. A function that makes one for each run is not inspected."""
    if not isinstance(capability, AbstractCapability):
        return False
    return any(isinstance(one, CallosumCapability) for one in leaf_capabilities(capability))


class _ToolCall(Attempt[Any]):
    interrupts: ClassVar[tuple[type[BaseException], ...]] = (ApprovalRequired,)
    handoffs: ClassVar[tuple[type[BaseException], ...]] = (CallDeferred,)

    def __init__(
        self, capability: CallosumCapability, ctx: Any, call: Any, tool_def: Any, args: dict[str, Any]
    ) -> None:
        self._capability, self._ctx, self._call, self._tool, self._args = capability, ctx, call, tool_def, args

    def seen(self) -> FrameworkCall:
        turn, read = turn_of(self._ctx.messages, _calls, self._call.tool_call_id)
        return FrameworkCall(
            tool=self._call.tool_name,
            params=self._params(),
            call_id=self._call.tool_call_id,
            turn=turn,
            read=read,
            thread=self._ctx.conversation_id,
            run=self._ctx.run_id,
            description=self._tool.description,
            schema=self._tool.parameters_json_schema,
            annotations=(self._tool.metadata or {}).get("annotations"),
        )

    def refused(self, no: Refused) -> Any:
        raise ToolFailed(no.sentence)

    def warned(self, result: Any, sentence: str) -> Any:
        if isinstance(result, str):
            return f"{result}\n\n{sentence}"
        if not isinstance(result, ToolReturn):
            return ToolReturn(result, content=sentence)
        content = [result.content] if isinstance(result.content, str) else [*(result.content or ())]
        return replace(result, content=[*content, sentence])

    def said(self, result: Any) -> Any:
        return _plain(result.return_value if isinstance(result, ToolReturn) else result)

    def asked(self, no: Refused) -> bool | None:
        if not self._capability.host_approvals:
            return None
        if self._ctx.tool_call_approved:
            return True
        raise ApprovalRequired({"callosum": no.sentence, "conflicts": to_builtins(no.conflicts)})

    def validated(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the validated arguments for these params."""
        tool = self._ctx.tool_manager.tools[self._call.tool_name]
        arguments: dict[str, Any] = tool.args_validator.validate_json(
            json.dumps(params), context=self._ctx.validation_context
        )
        return arguments

    def _params(self) -> Mapping[str, Any]:
        """Return the validated arguments by the names that the model gave them.

        If a function has a single parameter that is a model, the model sees the fields of that parameter.
        """
        params: dict[str, Any] = _plain(self._args)
        if len(params) == 1 and not self._call.args_as_dict().keys() <= params.keys():
            (only,) = params.values()
            return only if isinstance(only, dict) else params
        return params


def _plain(value: Any) -> Any:
    return to_jsonable_python(value, fallback=str, serialize_unknown=True)


def _name_timeout(error: ToolRetryError) -> None:
    """Restore the cause that the framework drops from a tool's timeout. It tells how the call ended."""
    retry = error.__cause__
    if isinstance(retry, ModelRetry) and retry.__cause__ is None and isinstance(retry.__context__, TimeoutError):
        retry.__cause__ = retry.__context__


def _calls(message: Any) -> tuple[str, list[str]]:
    if not isinstance(message, ModelResponse):
        return "", []
    return message.timestamp.isoformat(), [call.tool_call_id for call in message.tool_calls]
