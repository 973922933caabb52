"""LangChain's agents, with its own fake chat model."""

import json
from collections.abc import Callable
from typing import Any

from tests.adapters.harness import Framework, Job, Nested, RunResult, Tool


class LangChain(Framework):
    name = "LangChain, LangGraph"
    module = "langchain"
    extra = "langchain"
    imports = "langchain.agents"
    main = True
    writes = (
        "`create_agent(..., middleware=[CallosumMiddleware(gate)])`, or "
        "`ToolNode(tools, **CallosumMiddleware(gate).wrappers())`"
    )
    conversation = "`configurable.thread_id`"
    nested = "its own thread if it has one, as a child of the calling session; else the calling session"
    refusal = "a `ToolMessage` of status `error`; its `artifact` has the conflicts"
    question = "the graph is interrupted; `Command(resume=True)` is the yes"
    unseen = "`tool.invoke()` called by a node, tools that run at the provider"
    structured = True
    notes = {"tool raises": "The error is raised out of the run, as without the gate."}

    def _agent(self, job: Job) -> tuple[Any, Any, Any]:
        """Return the agent, its input and the thread."""
        from langchain.agents import create_agent
        from langchain_core.messages import AIMessage, HumanMessage
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.types import Command

        from callosum.adapters.langchain import CallosumMiddleware

        if job.paused is not None:
            agent, config = job.paused
            return agent, Command(resume=job.answer), config
        turns = [
            AIMessage("", tool_calls=[{"name": one.tool, "args": dict(one.args), "id": one.id} for one in turn])
            for turn in job.turns
        ]
        model = _model([*turns, AIMessage("done")])
        tools = [self._nested(tool, job) if isinstance(tool, Nested) else _tool(tool, job) for tool in job.tools]
        middleware = [] if job.gate is None else [CallosumMiddleware(job.gate, **job.options)]
        agent = create_agent(model, tools=tools, middleware=middleware, checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": job.conversation}}
        return agent, {"messages": [HumanMessage("go")]}, config

    def _nested(self, nested: Nested, job: Job) -> Any:
        """A tool that invokes another agent: LangChain has no other form of it."""
        from langchain_core.messages import HumanMessage
        from langchain_core.tools import StructuredTool

        inner, _, _ = self._agent(Job(job.gate, nested.turns, nested.tools, options=job.options, awaited=job.awaited))
        thread = {"configurable": {"thread_id": f"{job.conversation}-helper"}}

        def ask(input: str) -> str:
            """Let the helper do it."""
            return str(inner.invoke({"messages": [HumanMessage(input)]}, thread)["messages"][-1].content)

        async def ask_later(input: str) -> str:
            """Let the helper do it."""
            return str((await inner.ainvoke({"messages": [HumanMessage(input)]}, thread))["messages"][-1].content)

        return StructuredTool.from_function(ask, ask_later, name=nested.name)

    def run(self, job: Job) -> RunResult:
        agent, given, config = self._agent(job)
        error = None
        try:
            agent.invoke(given, config)
        except Exception as raised:
            error = raised
        return _ran(agent, config, error)

    async def arun(self, job: Job) -> RunResult:
        agent, given, config = self._agent(job)
        error = None
        try:
            await agent.ainvoke(given, config)
        except Exception as raised:
            error = raised
        return _ran(agent, config, error)

    async def stream(self, job: Job) -> RunResult:
        agent, given, config = self._agent(job)
        async for _ in agent.astream(given, config, stream_mode=["messages", "updates"]):
            pass
        return _ran(agent, config, None)


def _model(messages: list[Any]) -> Any:
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessageChunk
    from langchain_core.messages.tool import tool_call_chunk
    from langchain_core.outputs import ChatGenerationChunk

    class Script(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> "Script":
            return self

        def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            said = next(self.messages)
            pieces = [
                tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=index)
                for index, call in enumerate(said.tool_calls)
            ]
            yield ChatGenerationChunk(message=AIMessageChunk(said.content, tool_call_chunks=pieces))

    return Script(messages=iter(messages))


def _tool(tool: Tool, job: Job) -> Any:
    from langchain.tools import ToolRuntime
    from langchain_core.tools import StructuredTool

    if tool.inject:

        def send_email(to: str, body: str, runtime: ToolRuntime) -> str:
            """Send an e-mail."""
            tool.injected.append(runtime)
            return str(tool.function(to, body))

        return StructuredTool.from_function(send_email)
    made: Callable[..., Any] = tool.made(awaited=job.awaited)
    return StructuredTool.from_function(**{"coroutine" if job.awaited else "func": made})


def _ran(agent: Any, config: Any, error: Exception | None) -> RunResult:
    from langchain_core.messages import ToolMessage

    state = agent.get_state(config)
    read = [message for message in state.values.get("messages", ()) if isinstance(message, ToolMessage)]
    return RunResult(
        read={message.tool_call_id: str(message.content) for message in read},
        conflicts={message.tool_call_id: message.artifact for message in read},
        error=error,
        paused=(agent, config) if state.interrupts else None,
    )


FRAMEWORK = LangChain()
