"""Google ADK with a scripted model."""

from collections.abc import AsyncIterator
from typing import Any

from tests.adapters.harness import Framework, Job, Nested, RunResult, Tool

_CONFIRMATION = "adk_request_confirmation"


class GoogleADK(Framework):
    name = "Google ADK"
    module = "google_adk"
    extra = "google-adk"
    imports = "google.adk"
    writes = "`App(..., plugins=[CallosumPlugin(gate)])`, or `install(gate)` for every runner made after it"
    conversation = "`session.id`"
    nested = "the calling session: ADK gives an `AgentTool` a new one for each call"
    refusal = 'the tool\'s response is `{"error": sentence}`'
    question = "the run ends with a call of `adk_request_confirmation`; `confirmed: true` is the yes"
    unseen = "tools that run in the model (`google_search`, code execution), live sessions' streaming tools"
    concurrent = ("async", "streamed")
    warnings = ("ignore:The `plugins` argument is deprecated:DeprecationWarning",)  # of AgentTool's own runner
    notes = {
        "parallel": "ADK runs tools that are plain functions one by one.",
        "tool raises": "The error is raised out of the run, as without the gate.",
    }

    def _agent(self, job: Job) -> Any:
        from google.adk.agents import LlmAgent

        tools = [self._nested(tool, job) if isinstance(tool, Nested) else _tool(tool, job) for tool in job.tools]
        return LlmAgent(name="agent", model=_model(job), tools=tools)

    def _nested(self, nested: Nested, job: Job) -> Any:
        from google.adk.tools import AgentTool

        inner = self._agent(Job(job.gate, nested.turns, nested.tools, options=job.options, awaited=job.awaited))
        inner.name, inner.description = nested.name, "Let the helper do it."
        return AgentTool(inner)

    def _runner(self, job: Job) -> tuple[Any, dict[str, Any]]:
        """Return the runner and its arguments."""
        from google.adk.apps import App
        from google.adk.runners import InMemoryRunner
        from google.genai import types

        from callosum.adapters.google_adk import CallosumPlugin

        if job.paused is not None:
            runner, question = job.paused
            answer = types.FunctionResponse(id=question, name=_CONFIRMATION, response={"confirmed": job.answer})
            part = types.Part(function_response=answer)
        else:
            plugins = [] if job.gate is None else [CallosumPlugin(job.gate, **job.options)]
            runner = InMemoryRunner(app=App(name="desk", root_agent=self._agent(job), plugins=plugins))
            runner.auto_create_session = True
            part = types.Part(text="go")
        message = types.Content(role="user", parts=[part])
        return runner, {"user_id": "ann", "session_id": job.conversation, "new_message": message}

    def run(self, job: Job) -> RunResult:
        runner, given = self._runner(job)
        events: list[Any] = []
        try:
            events += runner.run(**given)
        except Exception as raised:
            return _ran(runner, events, raised)
        return _ran(runner, events)

    async def arun(self, job: Job) -> RunResult:
        return await self._events(job)

    async def stream(self, job: Job) -> RunResult:
        from google.adk.agents.run_config import RunConfig, StreamingMode

        return await self._events(job, run_config=RunConfig(streaming_mode=StreamingMode.SSE))

    async def _events(self, job: Job, **options: Any) -> RunResult:
        runner, given = self._runner(job)
        events: list[Any] = []
        try:
            events.extend([event async for event in runner.run_async(**given, **options)])
        except Exception as raised:
            return _ran(runner, events, raised)
        return _ran(runner, events)


def _model(job: Job) -> Any:
    from google.adk.models import BaseLlm, LlmResponse
    from google.genai import types

    turns = iter(job.turns)

    class Script(BaseLlm):
        async def generate_content_async(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
            calls = [
                types.Part(function_call=types.FunctionCall(id=call.id, name=call.tool, args=dict(call.args)))
                for call in next(turns, ())
            ]
            yield LlmResponse(content=types.Content(role="model", parts=calls or [types.Part(text="done")]))

    return Script(model="script")


def _tool(tool: Tool, job: Job) -> Any:
    from google.adk.tools import FunctionTool, ToolContext

    if tool.inject:

        def send_email(to: str, body: str, tool_context: ToolContext) -> str:
            """Send an e-mail."""
            tool.injected.append(tool_context)
            return str(tool.function(to, body))

        return FunctionTool(send_email)
    return FunctionTool(tool.made(awaited=job.awaited))


def _ran(runner: Any, events: list[Any], error: Exception | None = None) -> RunResult:
    answers = [answer for event in events for answer in event.get_function_responses()]
    questions = [call.id for event in events for call in event.get_function_calls() if call.name == _CONFIRMATION]
    read = {
        answer.id: str(answer.response.get("result", answer.response.get("error", answer.response)))
        for answer in answers
    }
    return RunResult(read, error=error, paused=(runner, questions[0]) if questions else None)


FRAMEWORK = GoogleADK()
