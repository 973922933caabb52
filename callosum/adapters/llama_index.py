"""LlamaIndex: ``install`` for every agent and ``AgentWorkflow`` of the process.

::

    install(gate)

LlamaIndex has no hook for tools. So this replaces ``_call_tool``, through which agents and workflows run them, and
``_init_context``, which begins a run. They are not official extension points; each version is tested.

The session is the ``session_id`` of the run's ``Memory``, or a buffer's ``chat_store_key``, unless it is the default. A
refusal is a ``ToolOutput`` with ``is_error``: only the sentence. ``raw_output`` has the conflicts.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeAlias, Unpack

import msgspec
from llama_index.core.agent.workflow import AgentWorkflow, ToolCall
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.agent.workflow.multi_agent_workflow import handoff
from llama_index.core.base.llms.types import TextBlock
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY
from llama_index.core.tools import AsyncBaseTool, ToolOutput
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent
from workflows.runtime.types.results import StepWorkerStateContextVar, WaitingForEvent

from callosum.adapters._seams import put, untouched
from callosum.adapters.core import Adapter, Attempt, FrameworkCall, KeptResult, Options, Refused, RunningCall
from callosum.gate import Gate

CallTool: TypeAlias = Callable[[Any, Context, AsyncBaseTool, dict[str, Any]], Awaitable[ToolOutput]]

_RUN: Final = "callosum_run"
"""Key of a run's id in its context. It outlives a pause, even in another process."""
_READ: Final = 80
"""Messages of the memory that are looked back over."""
_AGREED: Final = ("y", "yes", "true")


def install(gate: Gate, *, host_approvals: bool = False, **options: Unpack[Options]) -> Callable[[], None]:
    """Put the gate around every tool of this process's agents and workflows. Return a function that removes it.

    Another call replaces the gate. ``options`` are those of ``callosum.adapters.core.Options``. With ``host_approvals``
    a call that a person must decide is an ``InputRequiredEvent`` of the run, which waits for a ``HumanResponseEvent``
    with the same ``call``; the ``response`` "yes" lets it run. The gate needs the same setting, otherwise the call is
    refused.
    """
    adapter = Adapter(gate, **options)
    seams: dict[tuple[Any, str], Any] = {}
    for kind in (BaseWorkflowAgent, AgentWorkflow):  # each runs tools by functions of its own
        call_tool, init_context = untouched(kind, "_call_tool"), untouched(kind, "_init_context")
        call_tool, init_context = _seams(adapter, call_tool, init_context, asks=host_approvals)
        seams |= {(kind, "_call_tool"): call_tool, (kind, "_init_context"): init_context}
    return put(seams)


def _seams(
    adapter: Adapter, run_tool: CallTool, init: Callable[..., Awaitable[None]], *, asks: bool
) -> tuple[CallTool, Callable[..., Awaitable[None]]]:
    async def call_tool(self: Any, ctx: Context, tool: AsyncBaseTool, tool_input: dict[str, Any]) -> ToolOutput:
        if getattr(tool, "async_fn", None) is handoff:  # only names the agent that continues
            return await run_tool(self, ctx, tool, tool_input)
        attempt = _Call(await _seen(ctx, tool, tool_input))
        begun = await adapter.abegin(attempt)
        if asks and isinstance(begun, Refused) and begun.asks and attempt.identity is not None:
            begun = await _asked(ctx, adapter, attempt, begun)
        if not isinstance(begun, RunningCall):
            return begun.said(attempt)
        async with begun:
            result = await run_tool(self, ctx, tool, tool_input if begun.params is None else dict(begun.params))
            attempt.error = result.exception
            return begun.finished(result)

    async def init_context(self: Any, ctx: Context, *args: Any, **kwargs: Any) -> None:
        await init(self, ctx, *args, **kwargs)
        await ctx.store.set(_RUN, uuid.uuid4().hex)

    return call_tool, init_context


class _Call(Attempt[ToolOutput]):
    interrupts: ClassVar[tuple[type[BaseException], ...]] = (WaitingForEvent,)

    def __init__(self, what: FrameworkCall) -> None:
        self._what = what
        self.error: BaseException | None = None

    @property
    def identity(self) -> str | None:
        """Return what identifies the call when its step runs again; None if nothing does."""
        return f"{self._what.turn}:{self._what.call_id}" if self._what.call_id else None

    def seen(self) -> FrameworkCall:
        return self._what

    def refused(self, no: Refused) -> ToolOutput:
        return ToolOutput(
            content=no.sentence,
            tool_name=self._what.tool,
            raw_input=dict(self._what.params),
            raw_output=msgspec.to_builtins(no.conflicts) or no.sentence,
            is_error=True,
        )

    def warned(self, result: ToolOutput, sentence: str) -> ToolOutput:
        blocks = list(result.blocks)
        if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
            blocks = [TextBlock(text=f"{blocks[0].text}\n\n{sentence}")]
        else:
            blocks.append(TextBlock(text=sentence))
        return result.model_copy(update={"blocks": blocks})

    def said(self, result: ToolOutput) -> Any:
        return result.raw_output

    def failed(self, _result: ToolOutput) -> bool:
        return bool(_result.is_error)

    def raised(self) -> BaseException | None:
        return self.error


async def _asked(
    ctx: Context, adapter: Adapter, attempt: _Call, no: Refused
) -> RunningCall[ToolOutput] | Refused | KeptResult[ToolOutput]:
    """Send the question as an event of the run. The first time, the step ends here; it runs again later."""
    call = attempt.identity
    question = InputRequiredEvent(prefix=no.sentence, call=call, tool=no.call.tool, args=dict(no.call.params))
    response = await ctx.wait_for_event(
        HumanResponseEvent,
        waiter_event=question,
        waiter_id=f"callosum:{call}",
        requirements={"call": call},
        timeout=None,
    )
    agreed = str(response.get("response", "")).strip().lower() in _AGREED
    return await adapter.aanswer(attempt, no, agreed=agreed)


async def _seen(ctx: Context, tool: AsyncBaseTool, tool_input: Mapping[str, Any]) -> FrameworkCall:
    run, turn = await ctx.store.get(_RUN, default=None), await ctx.store.get("num_iterations", default=0)
    memory = await ctx.store.get("memory", default=None)
    schema = None
    with suppress(Exception):  # a schema that cannot be written as JSON is of no use
        schema = tool.metadata.get_parameters_dict()
    return FrameworkCall(
        tool=tool.metadata.get_name(),
        params=dict(tool_input),
        call_id=_call_id(tool_input) if run is not None else None,  # of itself an id may come again
        turn=f"{run}:{turn}" if run is not None else "",
        texts=await _read(ctx, memory),
        thread=_thread(memory),
        description=tool.metadata.description,
        schema=schema,
    )


def _call_id(tool_input: Mapping[str, Any]) -> str | None:
    """Return the id of the call that the current step was begun with."""
    with suppress(LookupError):
        event = StepWorkerStateContextVar.get().event
        if isinstance(event, ToolCall) and event.tool_kwargs is tool_input:
            return str(event.tool_id)
    return None


def _thread(memory: Any) -> str | None:
    session = getattr(memory, "session_id", None)
    key = getattr(memory, "chat_store_key", None)
    return session or (key if key != DEFAULT_CHAT_STORE_KEY else None)


async def _read(ctx: Context, memory: Any) -> Sequence[str]:
    """Return what the model has read: the results of this run's earlier calls, and what memory has of other runs."""
    results = await ctx.store.get("current_tool_calls", default=[])
    messages = await memory.aget_all() if memory is not None else []
    return [*(str(one.content or "") for one in messages[-_READ:]), *(one.tool_output.content for one in results)]
