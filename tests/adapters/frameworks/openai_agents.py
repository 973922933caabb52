"""The OpenAI Agents SDK, with its own scripted model."""

from typing import Any

from tests.adapters.harness import Framework, Job, Nested, RunResult, Tool


class OpenAIAgents(Framework):
    name = "OpenAI Agents SDK"
    module = "openai_agents"
    extra = "openai-agents"
    imports = "agents"
    main = True
    writes = "`gate_agent(agent, gate)`, or `install(gate)` for every agent of the process"
    conversation = "`RunConfig(group_id=...)`, else the trace or the run"
    nested = "the calling session's group, or its own"
    refusal = "the sentence is the tool's output"
    question = "with `session=` the call is one that `needs_approval`"
    unseen = "hosted tools, handoffs"
    modes = ("async", "streamed")
    answers = {"session": lambda: "chat"}

    def _agent(self, job: Job) -> Any:
        from agents import Agent, set_tracing_disabled
        from agents.testing import ScriptedModel, assistant_message, function_call

        from callosum.adapters.openai_agents import gate_agent

        set_tracing_disabled(True)
        turns = [[function_call(one.tool, dict(one.args), call_id=one.id) for one in turn] for turn in job.turns]
        model = ScriptedModel([*turns, [assistant_message("done")]])
        tools = [self._nested(tool, job) if isinstance(tool, Nested) else _tool(tool, job) for tool in job.tools]
        agent = Agent(name="agent", model=model, tools=tools)
        return agent if job.gate is None else gate_agent(agent, job.gate, **job.options)

    def _nested(self, nested: Nested, job: Job) -> Any:
        inner = self._agent(Job(job.gate, nested.turns, nested.tools, options=job.options, awaited=job.awaited))
        return inner.as_tool(nested.name, "Let the helper do it.")

    async def _run(self, job: Job, *, streamed: bool) -> RunResult:
        from agents import RunConfig, Runner

        config = RunConfig(group_id=job.conversation)
        if job.paused is not None:
            agent, state = job.paused
            for question in state.get_interruptions():
                state.approve(question) if job.answer else state.reject(question)
        else:
            agent, state = self._agent(job), "go"
        if streamed:
            result: Any = Runner.run_streamed(agent, state, run_config=config)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, state, run_config=config)
        items = [item for item in agent.model.calls[-1].input if isinstance(item, dict)]
        read = {item["call_id"]: str(item["output"]) for item in items if item.get("type") == "function_call_output"}
        return RunResult(read, paused=(agent, result.to_state()) if result.interruptions else None)

    async def arun(self, job: Job) -> RunResult:
        return await self._run(job, streamed=False)

    async def stream(self, job: Job) -> RunResult:
        return await self._run(job, streamed=True)


def _tool(tool: Tool, job: Job) -> Any:
    from agents import RunContextWrapper, function_tool

    if tool.inject:

        @function_tool
        def send_email(context: RunContextWrapper[Any], to: str, body: str) -> str:
            """Send an e-mail."""
            tool.injected.append(context)
            return str(tool.function(to, body))

        return send_email
    return function_tool(tool.made(awaited=job.awaited))


FRAMEWORK = OpenAIAgents()
