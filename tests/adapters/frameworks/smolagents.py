"""smolagents with a scripted model."""

import inspect
from typing import Any

from tests.adapters.harness import Framework, Job, Nested, RunResult, Tool
from tests.adapters.installing import installed

_END = "end"


class Smolagents(Framework):
    name = "smolagents"
    module = "smolagents"
    extra = "smolagents"
    imports = "smolagents"
    writes = "`install(gate)` for every agent of the process, over a seam that is not official"
    conversation = "none: `session=`, else the process"
    nested = "the calling session"
    refusal = "the sentence is the tool's result; in a `CodeAgent` it is raised into the code"
    question = "the sentence says how"
    unseen = "the code that a `CodeAgent` writes, remote executors, tools with a `__call__` of their own"
    modes = ("sync", "streamed")
    async_tools = False
    cannot = {
        "ask and resume": "smolagents cannot pause a run.",
        "cancelled": "smolagents has no run that can be cancelled: `agent.interrupt()` lets a running tool end.",
        "injected arguments": "smolagents injects none.",
    }
    notes = {
        "parallel": "The result of a tool that raises hides those of the other calls of its turn, as without the gate."
    }

    def _agent(self, turns: Any, tools: Any) -> Any:
        from smolagents import ToolCallingAgent

        made = [_tool(one) for one in tools if isinstance(one, Tool)]
        managed = [self._nested(one) for one in tools if isinstance(one, Nested)]
        return ToolCallingAgent(tools=made, model=_model(turns), managed_agents=managed, verbosity_level=0)

    def _nested(self, nested: Nested) -> Any:
        agent = self._agent(nested.turns, nested.tools)
        agent.name, agent.description = nested.name, "Does it."
        return agent

    def run(self, job: Job) -> RunResult:
        agent = self._agent(job.turns, job.tools)
        with installed(self.module, job):
            agent.run("go")
        return _ran(agent)

    async def stream(self, job: Job) -> RunResult:
        agent = self._agent(job.turns, job.tools)
        with installed(self.module, job):
            for _ in agent.run("go", stream=True):
                pass
        return _ran(agent)


def _call(name: str, id: str, args: dict[str, Any]) -> Any:
    from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

    if name == "ask_helper":
        args = {"task": args["input"]}
    return ChatMessageToolCall(id=id, type="function", function=ChatMessageToolCallFunction(name=name, arguments=args))


def _model(turns: Any) -> Any:
    from smolagents.models import ChatMessage, MessageRole, Model

    waiting = iter(turns)

    class Script(Model):
        def generate(self, *_: Any, **__: Any) -> Any:
            calls = [_call(one.tool, one.id, dict(one.args)) for one in next(waiting, ())]
            end = [_call("final_answer", _END, {"answer": "done"})]
            return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=calls or end)

    return Script(model_id="script")


def _tool(made: Tool) -> Any:
    from smolagents import tool

    function = made.function
    arguments = "".join(f"\n        {name}: what it says" for name in inspect.signature(function).parameters)
    function.__doc__ = f"{(function.__doc__ or '').partition(chr(10))[0]}\n\n    Args:{arguments}\n    "
    return tool(function)


def _ran(agent: Any) -> RunResult:
    """What the model read: smolagents has one text for all calls of a step, in the order of their ids."""
    read: dict[str, str] = {}
    for step in agent.memory.steps:
        made = getattr(getattr(step, "model_output_message", None), "tool_calls", None) or ()
        calls = sorted(call.id for call in made if call.id != _END)
        if len(calls) == 1:
            read[calls[0]] = step.observations or str(step.error)
        elif calls:
            read.update(zip(calls, (step.observations or "").split("\n"), strict=False))
    return RunResult(read)


FRAMEWORK = Smolagents()
