"""Microsoft Agent Framework, with a chat client that follows a script."""

from collections.abc import AsyncIterator
from typing import Any

from tests.adapters.harness import Framework, Job, Nested, RunResult, Tool


class AgentFramework(Framework):
    name = "Agent Framework"
    module = "agent_framework"
    extra = "agent-framework"
    imports = "agent_framework"
    writes = "`Agent(..., middleware=[CallosumMiddleware(gate)])`, or `install(gate)` for every agent made from then on"
    conversation = "`AgentSession.session_id` of the run"
    nested = "its own, or with `propagate_session=True` the calling session"
    refusal = "the sentence is the tool's result"
    question = "a request for a function approval; an approval is the yes"
    unseen = "tools that run at the provider"
    modes = ("async", "streamed")
    notes = {"ask and resume": "A no is the framework's own result for the model; the gate's question lapses."}

    def _agent(self, job: Job) -> tuple[Any, list[Any]]:
        """Return the agent, and the list of messages that its model has read last."""
        from agent_framework import Agent

        from callosum.adapters.agent_framework import CallosumMiddleware

        seen: list[Any] = []
        agent = Agent(
            client=_client(job, seen),
            name="agent",
            tools=[self._nested(tool, job) if isinstance(tool, Nested) else _tool(tool, job) for tool in job.tools],
            middleware=[] if job.gate is None else [CallosumMiddleware(job.gate, **job.options)],
        )
        return agent, seen

    def _nested(self, nested: Nested, job: Job) -> Any:
        inner, _ = self._agent(Job(job.gate, nested.turns, nested.tools, options=job.options, awaited=job.awaited))
        return inner.as_tool(name=nested.name, arg_name="input")

    async def _run(self, job: Job, *, streamed: bool) -> RunResult:
        said: Any
        if job.paused is None:
            agent, seen = self._agent(job)
            session, said = agent.create_session(session_id=job.conversation), "go"
        else:
            agent, seen, session, asked = job.paused
            said = [one.to_function_approval_response(job.answer) for one in asked]
        try:
            if streamed:
                stream = agent.run(said, session=session, stream=True)
                async for _ in stream:
                    pass
                response = await stream.get_final_response()
            else:
                response = await agent.run(said, session=session)
        except Exception as error:
            return RunResult(_read(seen), error=error)
        asked = response.user_input_requests
        return RunResult(_read(seen), paused=(agent, seen, session, asked) if asked else None)

    async def arun(self, job: Job) -> RunResult:
        return await self._run(job, streamed=False)

    async def stream(self, job: Job) -> RunResult:
        return await self._run(job, streamed=True)


def _client(job: Job, seen: list[Any]) -> Any:
    from agent_framework import (
        BaseChatClient,
        ChatMiddlewareLayer,
        ChatResponse,
        ChatResponseUpdate,
        Content,
        FunctionInvocationLayer,
        Message,
    )

    turns = iter(job.turns)

    def contents(messages: Any) -> list[Any]:
        seen[:] = messages
        calls = [Content.from_function_call(one.id, one.tool, arguments=dict(one.args)) for one in next(turns, ())]
        return calls or [Content.from_text("done")]

    class Script(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
        def _inner_get_response(self, *, messages: Any, stream: bool, **_: Any) -> Any:
            async def whole() -> Any:
                return ChatResponse(messages=[Message(role="assistant", contents=contents(messages))])

            async def streamed() -> AsyncIterator[Any]:
                for one in contents(messages):
                    yield ChatResponseUpdate(role="assistant", contents=[one])

            return self._build_response_stream(streamed()) if stream else whole()

    return Script()


def _tool(tool: Tool, job: Job) -> Any:
    from agent_framework import FunctionInvocationContext
    from agent_framework import tool as made

    if tool.inject:

        def send_email(to: str, body: str, context: FunctionInvocationContext) -> str:
            """Send an e-mail."""
            tool.injected.append(context)
            return str(tool.function(to, body))

        return made(send_email)
    return made(tool.made(awaited=job.awaited))


def _read(seen: list[Any]) -> dict[str, str]:
    results = [one for message in seen for one in message.contents if one.type == "function_result"]
    return {one.call_id: str(one.result) for one in results}


FRAMEWORK = AgentFramework()
