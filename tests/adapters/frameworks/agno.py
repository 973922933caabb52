"""Agno with a scripted model."""

import json
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

from tests.adapters.harness import Framework, Job, Nested, RunResult, Tool
from tests.adapters.installing import installed


class Agno(Framework):
    name = "Agno"
    module = "agno"
    extra = "agno"
    imports = "agno.agent"
    writes = "`install(gate)` for every agent and team of the process, over a seam that is not official"
    conversation = "`session_id` of the run, else one of the agent object"
    nested = "its own, as a child of the calling session; a team's members share the team's"
    refusal = "the sentence is the tool's error"
    question = "the sentence says how"
    unseen = "tools that run elsewhere (`external_execution`), tools that run at the provider"
    concurrent = ("async", "streamed")
    cannot = {"ask and resume": "Agno knows before a call whether its tool needs a confirmation, by the tool alone."}
    notes = {"parallel": "Agno runs the tools of a sync run one by one."}

    def _agent(self, job: Job) -> Any:
        os.environ["AGNO_TELEMETRY"] = "false"
        from agno.agent import Agent

        tools = [self._nested(one, job) if isinstance(one, Nested) else _tool(one, job) for one in job.tools]
        return Agent(name="agent", model=_model(job), tools=tools, telemetry=False)

    def _nested(self, nested: Nested, job: Job) -> Any:
        """A tool that runs another agent: Agno has teams, and no other form of it for agents."""
        from agno.tools import Function

        inner = self._agent(Job(None, nested.turns, nested.tools, awaited=job.awaited))

        def ask(input: str) -> str:
            """Let the helper do it."""
            return str(inner.run(input).content)

        async def ask_later(input: str) -> str:
            """Let the helper do it."""
            return str((await inner.arun(input)).content)

        return Function.from_callable(ask_later if job.awaited else ask, name=nested.name)

    def run(self, job: Job) -> RunResult:
        agent = self._agent(job)
        with installed(self.module, job, conversation=False):
            agent.run("go", session_id=job.conversation)
        return _ran(agent)

    async def arun(self, job: Job) -> RunResult:
        agent = self._agent(job)
        with installed(self.module, job, conversation=False):
            await agent.arun("go", session_id=job.conversation)
        return _ran(agent)

    async def stream(self, job: Job) -> RunResult:
        agent = self._agent(job)
        with installed(self.module, job, conversation=False):
            async for _ in agent.arun("go", session_id=job.conversation, stream=True):
                pass
        return _ran(agent)


def _model(job: Job) -> Any:
    from agno.models.base import Model
    from agno.models.response import ModelResponse

    turns = iter(job.turns)

    class Script(Model):
        read: list[Any] = []

        def invoke(self, messages: list[Any], **_: Any) -> Any:
            self.read[:] = messages
            calls = [
                {"id": one.id, "type": "function", "function": {"name": one.tool, "arguments": json.dumps(one.args)}}
                for one in next(turns, ())
            ]
            return ModelResponse(role="assistant", tool_calls=calls) if calls else ModelResponse(content="done")

        async def ainvoke(self, messages: list[Any], **_: Any) -> Any:
            return self.invoke(messages)

        def invoke_stream(self, messages: list[Any], **_: Any) -> Iterator[Any]:
            yield self.invoke(messages)

        async def ainvoke_stream(self, messages: list[Any], **_: Any) -> AsyncIterator[Any]:
            yield self.invoke(messages)

        def _parse_provider_response(self, response: Any, **_: Any) -> Any:
            return response

        def _parse_provider_response_delta(self, response: Any) -> Any:
            return response

    return Script(id="script", name="script", provider="script")


def _tool(tool: Tool, job: Job) -> Any:
    from agno.run import RunContext

    if tool.inject:

        def send_email(to: str, body: str, run_context: RunContext) -> str:
            """Send an e-mail."""
            tool.injected.append(run_context)
            return str(tool.function(to, body))

        return send_email
    return tool.made(awaited=job.awaited)


def _ran(agent: Any) -> RunResult:
    return RunResult(
        {message.tool_call_id: str(message.content) for message in agent.model.read if message.role == "tool"}
    )


FRAMEWORK = Agno()
