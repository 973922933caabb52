"""A host of AGENT-HOOKS-0.1, made of the SDK's own emitter and context builder."""

import asyncio
from typing import Any

from tests.adapters.harness import Framework, Job, Nested, RunResult, Scripted, Tool


class AgentHooks(Framework):
    name = "AGENT-HOOKS 0.1"
    module = "agent_hooks"
    extra = "agent-hooks-sdk"
    imports = "agent_hooks"
    writes = (
        "`emitter.register(CallosumInterceptor(gate))`; in Agent Framework "
        "`middleware=[create_agent_hooks_middleware([CallosumInterceptor(gate)])]`"
    )
    conversation = "`session.id`; Agent Framework makes one up for each run unless the emitter is the program's own"
    nested = "its own; the contract does not say which call runs it"
    refusal = "a deny, whose message is the sentence"
    question = "a deny that the host's resolver may lift"
    unseen = "what the host does not emit"
    modes = ("async",)
    cannot = {
        "streaming": "The contract has no points within a stream; a host holds it back until the verdict.",
        "ask and resume": "The host's resolver answers while the call waits: there is no pause to resume from.",
        "injected arguments": "A host emits what the model gave: nothing is injected where an interceptor could see it.",
    }
    notes = {
        "deny": "The SDK's records cut the sentence at 256 bytes; `CallosumInterceptor.told` has the whole of it.",
        "nested agent": "With a `session=` of its own the inner agent meets the outer call; give both the same.",
    }

    async def arun(self, job: Job) -> RunResult:
        host = _Host(job)
        reason = "cancelled"
        try:
            await host.run()
            reason = "completed"
        finally:
            await host.emitter.emit_unchecked(host.builder.agent_shutdown(reason=reason))
        return host.ran


class _Host:
    """One run of an agent, whose calls of a turn run at the same time."""

    def __init__(self, job: Job) -> None:
        from agent_hooks import AgentContextBuilder, InterceptionEmitter

        from callosum.adapters.agent_hooks import CallosumInterceptor

        self.job, self.ran = job, RunResult()
        self.emitter = InterceptionEmitter()
        self.builder = AgentContextBuilder(agent_id="agent", framework="tests", session_id=job.conversation)
        if job.gate is not None:
            self.gated = CallosumInterceptor(job.gate, **job.options)
            self.emitter.register(self.gated)

    async def run(self) -> None:
        build, emit = self.builder, self.emitter.emit
        await emit(build.agent_startup(tools_registered=[tool.name for tool in self.job.tools]))
        await emit(build.input(content="go"))
        for turn in [*self.job.turns, ()]:
            await emit(build.pre_model_call(model_id="script", messages=[]))
            calls = [{"id": one.id, "name": one.tool, "args": dict(one.args)} for one in turn]
            said = None if turn else "done"
            await emit(build.post_model_call(model_id="script", content=said, tool_calls=calls, finish_reason="stop"))
            results = await asyncio.gather(*(self._call(one) for one in turn))
            self.ran.read |= dict(zip([one.id for one in turn], results, strict=True))
        await emit(build.output(content="done"))

    async def _call(self, call: Scripted) -> str:
        from agent_hooks import InterceptionBlocked

        build, emit = self.builder, self.emitter.emit
        told: dict[str, Any] = {"call_id": call.id, "name": call.tool}
        try:
            args = (await emit(build.pre_tool_call(args=dict(call.args), **told))).target
        except InterceptionBlocked:
            return str(self.gated.told(self.job.conversation, call.id))
        tool = next(tool for tool in self.job.tools if tool.name == call.tool)
        try:
            value = await self._tool(tool)(**args)
        except Exception as error:
            value = f"{type(error).__name__}: {error}"
            await emit(build.post_tool_call(args=args, value=value, is_error=True, **told))
        else:
            await emit(build.post_tool_call(args=args, value=value, **told))
        return str(value)

    def _tool(self, tool: Tool | Nested) -> Any:
        if isinstance(tool, Tool):
            return tool.made(awaited=True)
        options = {**self.job.options, "session": self.job.conversation}
        inner = Job(self.job.gate, tool.turns, tool.tools, conversation="inner", options=options)

        async def ask(input: str) -> str:
            return str((await FRAMEWORK.arun(inner)).read)

        return ask


FRAMEWORK = AgentHooks()
