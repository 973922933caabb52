"""LlamaIndex, with its own mock of a model that calls tools."""

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.adapters.harness import Framework, Job, Nested, RunResult, Scripted, Tool
from tests.adapters.installing import installed


class LlamaIndex(Framework):
    name = "LlamaIndex"
    module = "llama_index"
    extra = "llama-index"
    imports = "llama_index.core"
    writes = "`install(gate)` for every agent and workflow of the process, over a seam that is not official"
    conversation = "the run's memory: `Memory(session_id=...)`, else a `chat_store_key` of its own; else the process"
    nested = "its own memory's, as a child of the calling session; else the calling session"
    refusal = "a `ToolOutput` with `is_error`; its `raw_output` has the conflicts"
    question = "an `InputRequiredEvent`; a `HumanResponseEvent` with the same `call` and the response `yes` is the yes"
    unseen = (
        "tools that a program calls itself (`tool.call`, `llm.predict_and_call`), handoffs, the code that a "
        "`CodeActAgent`'s code does, agents with a `_call_tool` of their own"
    )
    modes = ("async", "streamed")
    structured = True
    warnings = (
        "ignore::DeprecationWarning",  # its own, with a newer pydantic
        "ignore:Skipping serialization of known unserializable key",  # a program keeps the memory itself
    )

    def _agent(self, job: Job) -> Any:
        from llama_index.core.agent.workflow import FunctionAgent

        tools = [_nested(self, one, job) if isinstance(one, Nested) else _tool(one, job) for one in job.tools]
        return FunctionAgent(name="agent", description="Does it.", tools=tools, llm=_model(job.turns), streaming=False)

    async def arun(self, job: Job) -> RunResult:
        return await self._ran(job, self._agent(job))

    async def stream(self, job: Job) -> RunResult:
        agent = self._agent(job)
        agent.streaming = True
        return await self._ran(job, agent)

    async def _ran(self, job: Job, agent: Any) -> RunResult:
        from llama_index.core.workflow import Context, HumanResponseEvent

        with installed(self.module, job, conversation=False):
            if job.paused is None:
                handler = agent.run(user_msg="go", memory=_memory(job.conversation))
            else:
                agent.llm = _model([])
                context = Context.from_dict(agent, job.paused["context"])
                await context.store.set("memory", _memory(job.conversation))
                handler = agent.run(ctx=context)
                response = "yes" if job.answer else "no"
                handler.ctx.send_event(HumanResponseEvent(response=response, call=job.paused["call"]))
            return await ran(handler)


async def ran(handler: Any) -> RunResult:
    """Follow a run to its end, or to a question."""
    from llama_index.core.agent.workflow import ToolCallResult
    from llama_index.core.workflow import InputRequiredEvent

    came = RunResult()
    try:
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                came.paused = {"context": handler.ctx.to_dict(), "call": event.call}
                await handler.cancel_run()
                break
            if isinstance(event, ToolCallResult):
                came.read[event.tool_id] = event.tool_output.content
                came.conflicts[event.tool_id] = event.tool_output.raw_output
        await handler
    except asyncio.CancelledError:
        await handler.cancel_run()
        raise
    except Exception as error:
        if came.paused is None:
            came.error = error
    return came


def _memory(session: str) -> Any:
    from llama_index.core.memory import ChatMemoryBuffer

    return ChatMemoryBuffer.from_defaults(chat_store_key=session, token_limit=40_000)


def _model(turns: Sequence[Sequence[Scripted]]) -> Any:
    from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
    from llama_index.core.llms.mock import MockFunctionCallingLLM

    waiting = iter(turns)

    def says(_messages: Any, **_: Any) -> Any:
        calls = [
            ToolCallBlock(tool_call_id=one.id, tool_name=one.tool, tool_kwargs=dict(one.args))
            for one in next(waiting, ())
        ]
        return ChatMessage(role="assistant", **({"blocks": calls} if calls else {"content": "done"}))

    return MockFunctionCallingLLM(response_generator=says, is_chat_model=True)


def _tool(tool: Tool, job: Job) -> Any:
    from llama_index.core.tools import FunctionTool
    from llama_index.core.workflow import Context

    if tool.inject:

        def send_email(ctx: Context, to: str, body: str) -> str:
            """Send an e-mail."""
            tool.injected.append(ctx)
            return str(tool.function(to, body))

        return FunctionTool.from_defaults(send_email)
    made = tool.made(awaited=job.awaited)
    return FunctionTool.from_defaults(**{"async_fn" if job.awaited else "fn": made})


def _nested(framework: LlamaIndex, nested: Nested, job: Job) -> Any:
    """A tool that runs another agent: the form that LlamaIndex's docs show."""
    from llama_index.core.tools import FunctionTool

    inner = framework._agent(Job(None, nested.turns, nested.tools, awaited=job.awaited))

    async def ask(input: str) -> str:
        """Let the helper do it."""
        return str(await inner.run(user_msg=input))

    return FunctionTool.from_defaults(async_fn=ask, name=nested.name)


FRAMEWORK = LlamaIndex()
