"""What only LlamaIndex has: workflows with handoffs, agents that write their calls, tools that wait, and memories."""

# no `from __future__ import annotations`: the framework reads the annotations of tools

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import Document
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

from callosum import Call
from callosum.adapters.llama_index import install
from callosum.model import Outcome
from tests.adapters.behaviours import Bench, mail
from tests.adapters.frameworks.llama_index import FRAMEWORK, _memory, _model, _tool, ran
from tests.adapters.harness import Job, RunResult, Scripted

pytestmark = [pytest.mark.filterwarnings(one) for one in FRAMEWORK.warnings]


@pytest.fixture
def gated(bench: Bench) -> Iterator[Bench]:
    uninstall = install(bench.gate, instance="mira")
    yield bench
    uninstall()


def agent_of(name: str, *turns: list[Scripted], tools: list[Any]) -> FunctionAgent:
    return FunctionAgent(name=name, description=name, tools=tools, llm=_model(turns), streaming=False)


def run(workflow: Any, session: str = "chat") -> RunResult:
    async def whole() -> RunResult:
        return await ran(workflow.run(user_msg="go", memory=_memory(session)))

    return asyncio.run(whole())


def test_agents_of_a_workflow_share_its_session_and_a_handoff_is_no_action(gated: Bench) -> None:
    tool = _tool(gated.mail(), Job(None, [], []))
    handoff = Scripted("handoff", "h1", {"to_agent": "writer", "reason": "mail"})
    first = agent_of("reader", [mail("c1", "one", "b@example.com")], [handoff], tools=[tool])
    second = agent_of("writer", [mail("c2", "two")], tools=[tool])
    ran = run(AgentWorkflow(agents=[first, second], root_agent="reader"))
    assert ran.error is None
    assert (ran.read["c1"], ran.read["c2"]) == ("sent one", "sent two")
    assert [(entry.tool, entry.session) for entry in gated.entries()] == [("send_email", "mira/chat")] * 2


def test_a_refused_call_of_a_tool_that_returns_directly_does_not_end_the_run(gated: Bench) -> None:
    gated.gate.intercept(Call("other", "send_email", {"to": "a@example.com", "body": "yes"}, session="chat"))
    tool = FunctionTool.from_defaults(gated.mail().function, return_direct=True)
    ran = run(agent_of("agent", [mail("c1", "no")], [mail("c2", "no")], tools=[tool]))
    assert "[Callosum]" in ran.read["c1"]
    assert ran.read["c2"] == "sent no"


def test_an_agent_that_writes_its_calls_confirms_by_writing_one_again(gated: Bench) -> None:
    gated.gate.intercept(Call("other", "send_email", {"to": "a@example.com", "body": "yes"}, session="chat"))
    call = 'Thought: go\nAction: send_email\nAction Input: {"to": "a@example.com", "body": "no"}'
    texts = iter([call, call, "Thought: done\nAnswer: done"])
    read: list[Any] = []

    def says(messages: Any, **_: Any) -> ChatMessage:
        read[:] = messages
        return ChatMessage(role="assistant", content=next(texts))

    llm = MockFunctionCallingLLM(response_generator=says, is_chat_model=True)
    ran = run(ReActAgent(tools=[_tool(gated.mail(), Job(None, [], []))], llm=llm, streaming=False))
    assert ran.error is None
    assert gated.did == ["no"]
    refusal, result = ran.read.values()
    assert gated.entries()[1].body["warning"] in refusal
    assert result == "sent no"
    assert any(refusal in (message.content or "") for message in read)


def test_a_call_id_that_comes_again_in_a_later_turn_or_run_is_another_call(gated: Bench) -> None:
    tool = _tool(gated.mail(), Job(None, [], []))
    for _ in range(2):
        assert run(agent_of("agent", [mail("c1", "hi")], [mail("c1", "hi")], tools=[tool])).error is None
    assert gated.did == ["hi"] * 4


async def test_a_tool_that_waits_for_a_person_is_cancelled_and_runs_when_its_step_does_again(gated: Bench) -> None:
    async def send_email(ctx: Context, to: str, body: str) -> str:
        """Send an e-mail."""
        answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="really?"))
        gated.did.append(body)
        return f"{answer.response}: sent {body}"

    agent = agent_of("agent", [mail("c1", "hi")], tools=[send_email])
    handler = agent.run(user_msg="go", memory=_memory("chat"))
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response="yes"))
    assert str((await handler).tool_calls[0].tool_output) == "yes: sent hi"
    assert gated.did == ["hi"]
    assert gated.outcomes() == [Outcome.CANCELLED, Outcome.DONE]


async def test_an_answer_to_another_question_lets_nothing_run(bench: Bench) -> None:
    uninstall = install(bench.gate, instance="mira", host_approvals=True)
    agent = agent_of("agent", [Scripted("deploy", "c1", {"host": "prod"})], tools=[bench.deploy().function])
    handler = agent.run(user_msg="go", memory=_memory("chat"))
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response="yes", call="another"))
            handler.ctx.send_event(HumanResponseEvent(response="yes"))
            handler.ctx.send_event(HumanResponseEvent(response="no", call=event.call))
    refused = (await handler).tool_calls[0].tool_output
    uninstall()
    assert bench.did == []
    assert refused.is_error
    assert "[Callosum]" in refused.content


def test_a_result_that_is_no_plain_data_is_journalled_and_handed_on(gated: Bench) -> None:
    def send_email(to: str, body: str) -> Document:
        """Send an e-mail."""
        return Document(text=f"sent {body}")

    ran = run(agent_of("agent", [mail("c1", "hi")], tools=[send_email]))
    assert ran.error is None
    assert ran.read["c1"] == "sent hi"
    assert gated.outcomes() == [Outcome.DONE]


async def test_a_memory_without_a_key_of_its_own_is_no_session(gated: Bench) -> None:
    tool = _tool(gated.mail(), Job(None, [], []))
    await agent_of("agent", [mail("c1", "hi")], tools=[tool]).run(
        user_msg="go", memory=ChatMemoryBuffer.from_defaults()
    )
    (entry,) = gated.entries()
    assert entry.session not in ("mira/chat_history", "mira/")
