"""CrewAI with a scripted model."""

import asyncio
import json
import os
from typing import Any

from tests.adapters.harness import Framework, Job, Nested, RunResult, Tool
from tests.adapters.installing import installed


class CrewAI(Framework):
    name = "CrewAI"
    module = "crewai"
    extra = "crewai"
    imports = "crewai.hooks"
    heavy = True
    writes = "`install(gate)` for every agent of the process"
    conversation = "none: `session=`, else the process"
    nested = "the calling session"
    refusal = "the sentence is the tool's result"
    question = "asked at the terminal (`request_human_input`) while the run waits"
    unseen = "tools called by a program itself, code execution, tools that run at the provider"
    async_tools = False
    warnings = ("ignore::DeprecationWarning",)  # CrewAI's own, with a newer pydantic
    cannot = {
        "ask and resume": "The run does not pause: the question is asked at the terminal.",
        "cancelled": "Tools run in threads, which nothing cancels: a call ends when its tool does.",
        "injected arguments": "CrewAI injects none.",
    }
    notes = {
        "confirm": "An agent that runs without a crew (`agent.kickoff`) does not tell what its model has read: a second must "
        "pass between the two calls."
    }

    def _crew(self, job: Job, **options: Any) -> Any:
        os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false", OTEL_SDK_DISABLED="true")
        from crewai import Agent, Crew, Task

        tools = [self._nested(tool, job) if isinstance(tool, Nested) else _tool(tool) for tool in job.tools]
        agent = Agent(role="agent", goal="goal", backstory="none", llm=_model(job), tools=tools, cache=False)
        task = Task(description="go", expected_output="done", agent=agent)
        return Crew(agents=[agent], tasks=[task], **options)

    def _nested(self, nested: Nested, job: Job) -> Any:
        """A tool that runs another crew: CrewAI has no other form of it."""
        from crewai.tools import tool

        def ask(input: str) -> str:
            """Let the helper do it."""
            return str(self._crew(Job(None, nested.turns, nested.tools)).kickoff().raw)

        return tool(nested.name)(ask)

    def run(self, job: Job) -> RunResult:
        crew = self._crew(job)
        with installed(self.module, job):
            crew.kickoff()
        return _ran(crew)

    async def arun(self, job: Job) -> RunResult:
        crew = self._crew(job)
        with installed(self.module, job):
            await crew.akickoff()
        return _ran(crew)

    async def stream(self, job: Job) -> RunResult:
        crew = self._crew(job, stream=True)
        with installed(self.module, job):
            async for _ in await crew.akickoff():
                pass
        return _ran(crew)


def _model(job: Job) -> Any:
    from crewai import BaseLLM

    turns = iter(job.turns)

    class Script(BaseLLM):
        read: list[Any] = []

        def supports_function_calling(self) -> bool:
            return True

        def call(self, messages: Any, *_: Any, **__: Any) -> Any:
            self.read[:] = messages
            calls = [
                {"id": one.id, "type": "function", "function": {"name": one.tool, "arguments": json.dumps(one.args)}}
                for one in next(turns, ())
            ]
            return calls or "done"

        async def acall(self, *args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(self.call, *args, **kwargs)

    return Script(model="script")


def _tool(made: Tool) -> Any:
    from crewai.tools import tool

    return tool(made.name)(made.function)


def _ran(crew: Any) -> RunResult:
    read = [message for message in crew.agents[0].llm.read if message["role"] == "tool"]
    return RunResult({message["tool_call_id"]: message["content"] for message in read})


FRAMEWORK = CrewAI()
