"""Strands Agents with a scripted model."""

import json
from collections.abc import AsyncIterator
from tempfile import mkdtemp
from typing import Any

from tests.adapters.harness import Framework, Job, Nested, RunResult, Tool


class Strands(Framework):
    name = "Strands Agents"
    module = "strands"
    extra = "strands-agents"
    imports = "strands.interventions"
    writes = (
        "`Agent(..., interventions=[CallosumIntervention(gate)])`, or `install(gate)` for every agent made after it"
    )
    conversation = "`agent.session_id`: the session manager's, else one of the agent object"
    nested = "its own, as a child of the calling session"
    refusal = "a tool result of status `error`"
    question = "`Confirm`: the agent stops with an interrupt; the response `True` or `yes` is the yes"
    unseen = "tools that run at the provider"
    around = "GUIDANCE: [callosum] {sentence}"
    notes = {
        "deny": "`DENIED: ` is before a sentence that calling again does not answer, `CONFIRMATION_FAILED: ` before a no."
    }

    def _agent(self, job: Job) -> tuple[Any, Any]:
        """Return the agent and its input."""
        from strands.session import FileSessionManager

        if job.paused is not None:
            agent, interrupts = job.paused
            answers = [{"interruptResponse": {"interruptId": one.id, "response": job.answer}} for one in interrupts]
            return agent, answers
        manager = FileSessionManager(job.conversation, storage_dir=mkdtemp())
        return self._made(job, session_manager=manager), "go"

    def _made(self, job: Job, **options: Any) -> Any:
        from strands import Agent

        from callosum.adapters.strands import CallosumIntervention

        tools = [self._nested(tool, job) if isinstance(tool, Nested) else _tool(tool, job) for tool in job.tools]
        interventions = [] if job.gate is None else [CallosumIntervention(job.gate, **job.options)]
        return Agent(_model(job), tools=tools, interventions=interventions, callback_handler=None, **options)

    def _nested(self, nested: Nested, job: Job) -> Any:
        inner = self._made(Job(job.gate, nested.turns, nested.tools, options=job.options, awaited=job.awaited))
        return inner.as_tool(name=nested.name, description="Let the helper do it.")

    def run(self, job: Job) -> RunResult:
        agent, given = self._agent(job)
        return _ran(agent, agent(given))

    async def arun(self, job: Job) -> RunResult:
        agent, given = self._agent(job)
        return _ran(agent, await agent.invoke_async(given))

    async def stream(self, job: Job) -> RunResult:
        agent, given = self._agent(job)
        result = None
        async for event in agent.stream_async(given):
            result = event.get("result", result)
        return _ran(agent, result)


def _model(job: Job) -> Any:
    from strands.models import Model

    class Script(Model):
        def __init__(self) -> None:
            self.turns = iter(job.turns)

        def update_config(self, **_: Any) -> None: ...

        def get_config(self) -> dict[str, Any]:
            return {}

        async def structured_output(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
            raise NotImplementedError
            yield

        async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
            calls = next(self.turns, ())
            yield {"messageStart": {"role": "assistant"}}
            for call in calls:
                yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": call.id, "name": call.tool}}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(call.args)}}}}
                yield {"contentBlockStop": {}}
            if not calls:
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": "done"}}}
                yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}

    return Script()


def _tool(made: Tool, job: Job) -> Any:
    from strands import ToolContext, tool

    if made.inject:

        @tool(context=True)
        def send_email(to: str, body: str, tool_context: ToolContext) -> str:
            """Send an e-mail."""
            made.injected.append(tool_context)
            return str(made.function(to, body))

        return send_email
    return tool(made.made(awaited=job.awaited))


def _ran(agent: Any, result: Any) -> RunResult:
    blocks = [
        block["toolResult"] for message in agent.messages for block in message["content"] if "toolResult" in block
    ]
    return RunResult(
        read={block["toolUseId"]: block["content"][0]["text"] for block in blocks},
        paused=(agent, result.interrupts) if result.stop_reason == "interrupt" else None,
    )


FRAMEWORK = Strands()
