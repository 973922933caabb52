"""pydantic-ai's agents, with its own function model."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from tests.adapters.harness import Framework, Job, Nested, RunResult, Tool


class PydanticAI(Framework):
    name = "pydantic-ai"
    module = "pydantic_ai"
    extra = "pydantic-ai"
    imports = "pydantic_ai.capabilities"
    writes = (
        "`Agent(..., capabilities=[CallosumCapability(gate)])`, or `install(gate)` for every agent made from then on"
    )
    conversation = "`conversation_id`, which the framework makes up for a run without one"
    nested = "its own conversation, as a child of the calling session"
    refusal = "a tool result whose outcome is `failed`; it takes nothing from the tool's retries"
    question = "the run ends with `DeferredToolRequests`, which must be among its output types; an approval is the yes"
    unseen = "output tools, tools that run at the provider, tools whose work is deferred to another program"
    notes = {
        "tool raises": "The error is raised out of the run, as without the gate.",
        "deny": 'To models without a mark for failed results the framework sends `{"error": "..."}`.',
        "ask and resume": "A no is the framework's own result for the model; the gate's question lapses.",
    }

    def _agent(self, job: Job) -> tuple[Any, list[Any]]:
        """Return the agent, and the list of messages that its model has read last."""
        from pydantic_ai import Agent, DeferredToolRequests
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import DeltaToolCall, FunctionModel

        from callosum.adapters.pydantic_ai import CallosumCapability

        turns = iter(job.turns)
        seen: list[Any] = []

        def answer(messages: list[Any], _info: Any) -> Any:
            seen[:] = messages
            calls = [ToolCallPart(one.tool, dict(one.args), one.id) for one in next(turns, ())]
            return ModelResponse(parts=calls or [TextPart("done")])

        async def streamed(messages: list[Any], _info: Any) -> AsyncIterator[Any]:
            seen[:] = messages
            calls = next(turns, ())
            for place, one in enumerate(calls):
                yield {place: DeltaToolCall(one.tool, json.dumps(one.args), tool_call_id=one.id)}
            if not calls:
                yield "done"

        agent = Agent(
            FunctionModel(answer, stream_function=streamed),
            name="agent",
            output_type=[str, DeferredToolRequests],
            tools=[self._nested(tool, job) if isinstance(tool, Nested) else _tool(tool, job) for tool in job.tools],
            capabilities=[] if job.gate is None else [CallosumCapability(job.gate, **job.options)],
        )
        return agent, seen

    def _nested(self, nested: Nested, job: Job) -> Any:
        """A tool that runs another agent: pydantic-ai has no other form of it."""
        from pydantic_ai import Tool as Made

        inner, _ = self._agent(Job(job.gate, nested.turns, nested.tools, options=job.options, awaited=job.awaited))

        async def ask(input: str) -> str:
            """Let the helper do it."""
            return str((await inner.run(input)).output)

        return Made(ask, name=nested.name)

    def _begin(self, job: Job) -> tuple[Any, list[Any], dict[str, Any]]:
        """Return the agent, the messages that its model read, and the arguments of its run."""
        if job.paused is None:
            agent, seen = self._agent(job)
            return agent, seen, {"user_prompt": "go", "conversation_id": job.conversation}
        agent, seen, result = job.paused
        answers = result.output.build_results(
            approvals={one.tool_call_id: job.answer for one in result.output.approvals}
        )
        history = result.all_messages()
        return agent, seen, {"message_history": history, "deferred_tool_results": answers}

    def run(self, job: Job) -> RunResult:
        agent, seen, given = self._begin(job)
        loop = asyncio.new_event_loop()  # the framework leaves a loop open that it makes itself
        asyncio.set_event_loop(loop)
        try:
            result = agent.run_sync(**given)
        except Exception as error:
            return _ran(agent, seen, None, error)
        finally:
            asyncio.set_event_loop(None)
            loop.close()
        return _ran(agent, seen, result)

    async def arun(self, job: Job) -> RunResult:
        agent, seen, given = self._begin(job)
        try:
            result = await agent.run(**given)
        except Exception as error:
            return _ran(agent, seen, None, error)
        return _ran(agent, seen, result)

    async def stream(self, job: Job) -> RunResult:
        agent, seen, given = self._begin(job)
        async with agent.run_stream(**given) as result:
            await result.get_output()
        return _ran(agent, seen, None)


def _tool(tool: Tool, job: Job) -> Any:
    from pydantic_ai import RunContext
    from pydantic_ai import Tool as Made

    if tool.inject:

        def send_email(context: RunContext[Any], to: str, body: str) -> str:
            """Send an e-mail."""
            tool.injected.append(context)
            return str(tool.function(to, body))

        return Made(send_email)
    return Made(tool.made(awaited=job.awaited))


def _ran(agent: Any, seen: list[Any], result: Any, error: Exception | None = None) -> RunResult:
    from pydantic_ai import DeferredToolRequests
    from pydantic_ai.messages import ToolReturnPart

    parts = [part for message in seen for part in message.parts if isinstance(part, ToolReturnPart)]
    paused = result is not None and isinstance(result.output, DeferredToolRequests)
    return RunResult(
        read={part.tool_call_id: part.model_response_str(wrap_if_error=False) for part in parts},
        error=error,
        paused=(agent, seen, result) if paused else None,
    )


FRAMEWORK = PydanticAI()
