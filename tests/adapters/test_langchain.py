"""``CallosumMiddleware`` in real LangChain agents and LangGraph graphs, with LangChain's own fake chat model."""

from __future__ import annotations

import gc
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import calls
from bench.cases import adapters as seams
from callosum import Call, LocalGate
from callosum.errors import ConfigError
from callosum.model import Entry, Event, Outcome, Verdict
from callosum.settings import Settings

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from pydantic import Field

from callosum.adapters.langchain import CallosumMiddleware
from tests.support.opcodes import counting

RULES = """{"rules": [
  {"name": "deploy", "tool": "deploy", "tier": 3, "verdict": "ask", "contextKey": "host:{params.host}"},
  {"name": "wipe", "tool": "wipe", "tier": 4, "contextKey": "host:{params.host}"}]}"""
ASK: dict[str, Any] = {"configurable": {"thread_id": "chat"}}


class Script(GenericFakeChatModel):
    """A model that follows a script, whatever its tools, and records what it read."""

    read: list[list[Any]] = Field(default_factory=list)

    def bind_tools(self, tools: Any, **_: Any) -> Script:
        return self

    def _generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> Any:
        self.read.append(list(messages))
        return super()._generate(messages, *args, **kwargs)


class GatedTool:
    """A gate, and tools that count how often they ran."""

    def __init__(self, folder: Path) -> None:
        (folder / "tiers.json").write_text(RULES)
        self.gate = LocalGate(settings=Settings(state=folder, host_approvals=True))
        self.ran: list[str] = []

    def mail(self, to: str, body: str) -> str:
        """Send an e-mail."""
        self.ran.append(body)
        return f"sent {body}"

    def tool(self, name: str = "send_email", function: Any = None) -> StructuredTool:
        return StructuredTool.from_function(function or self.mail, name=name)

    def entries(self, event: Event = Event.INTERCEPT) -> list[Entry]:
        return [entry for entry in self.gate.entries() if entry.event is event]


def call(name: str, id: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id}


def mail(id: str, body: str) -> dict[str, Any]:
    return call("send_email", id, to="a@example.com", body=body)


def script(*turns: list[dict[str, Any]]) -> Script:
    return Script(messages=iter([*(AIMessage("", tool_calls=turn) for turn in turns), AIMessage("done")]), read=[])


def results(model: Script) -> dict[str, ToolMessage]:
    """What the model read of its calls, by their ids."""
    return {message.tool_call_id: message for message in model.read[-1] if isinstance(message, ToolMessage)}


class Slotted:
    """A graph's state without a ``__dict__``."""

    __slots__ = ("messages",)


@pytest.mark.parametrize("state", [None, Slotted(), object(), {}, []])
def test_a_state_without_messages_is_no_obstacle(desk: GatedTool, state: Any) -> None:
    request = ToolCallRequest(mail("c1", "hi"), desk.tool(), state, None)
    sent = ToolMessage("sent hi", tool_call_id="c1")
    assert CallosumMiddleware(desk.gate).wrap_tool_call(request, lambda _: sent) is sent


def test_a_tools_schema_is_made_once_and_kept_no_longer_than_the_tool(desk: GatedTool) -> None:
    middleware, tool = CallosumMiddleware(desk.gate), desk.tool()
    assert middleware.schema_of(tool) is middleware.schema_of(tool)
    del tool
    gc.collect()
    assert not middleware._schemas


@pytest.mark.parametrize(
    ("error", "outcome"), [(ValueError("no such user"), Outcome.FAILED), (TimeoutError("no answer"), Outcome.UNKNOWN)]
)
def test_an_error_that_a_tool_node_makes_a_message_of_has_its_outcome(
    desk: GatedTool, error: Exception, outcome: Outcome
) -> None:
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        raise error

    model = script([mail("c1", "hi")])
    wrappers = CallosumMiddleware(desk.gate).wrappers()
    made = graph(desk, model, [StructuredTool.from_function(send_email)], handle_tool_errors=True, **wrappers)
    made.invoke({"messages": [HumanMessage("go")]}, ASK)
    assert results(model)["c1"].status == "error"
    assert [entry.outcome for entry in desk.entries(Event.COMPLETE)] == [outcome]


@pytest.mark.parametrize("make", [calls.read, calls.post, calls.reply])
def test_a_tool_call_costs_little_more_than_the_gates_own_pair(tmp_path: Path, make: calls.Make) -> None:
    def steps(operation: Callable[[int], object]) -> int:
        for count in range(20):  # what is known of the keys and the tool is known by then
            operation(count)
        found = []
        for count in range(20, 26):
            with counting() as taken:
                operation(count)
            found.append(taken[0])
        return min(found)

    with (
        LocalGate(settings=Settings(state=tmp_path / "pair")) as bare,
        LocalGate(settings=Settings(state=tmp_path / "gated")) as gate,
    ):
        ours, nothing = seams.through_langchain(gate, make)
        pair = steps(seams.pair(bare, make))
        added = steps(ours) - steps(nothing)
    assert pair < added < 1.3 * pair  # the adapter asks and reports, so it cannot cost less


def graph(desk: GatedTool, model: Script, tools: list[Any], **wrappers: Any) -> Any:
    """A graph with all calls of a message in one node, which runs again from its beginning after an interrupt."""
    built = StateGraph(MessagesState)
    built.add_node("agent", lambda state: {"messages": [model.invoke(state["messages"])]})
    built.add_node("tools", ToolNode(tools, **wrappers))
    built.add_edge(START, "agent")
    built.add_edge("tools", "agent")
    built.add_conditional_edges("agent", lambda state: "tools" if state["messages"][-1].tool_calls else "__end__")
    return built.compile(checkpointer=InMemorySaver())


def test_a_node_that_runs_again_after_an_interrupt_returns_the_first_result(desk: GatedTool) -> None:
    def confirm(question: str) -> str:
        """Ask the user."""
        return f"said {interrupt(question)}"

    model = script([mail("c1", "hi"), call("confirm", "c2", question="sure?")])
    wrappers = CallosumMiddleware(desk.gate).wrappers()
    made = graph(desk, model, [desk.tool(), StructuredTool.from_function(confirm)], **wrappers)
    assert "__interrupt__" in made.invoke({"messages": [HumanMessage("go")]}, ASK)
    made.invoke(Command(resume="yes"), ASK)
    assert [message.content for message in results(model).values()] == ["sent hi", "said yes"]
    assert desk.ran == ["hi"]


def test_the_example_of_a_replay_shows_the_mail_twice_without_the_gate_and_once_with_it(tmp_path: Path) -> None:
    main = runpy.run_path("examples/langgraph_replay.py")["main"]
    assert main(str(tmp_path)) == (["Friday works", "Friday works"], ["Friday works"])


@pytest.mark.parametrize("answer", [True, False])
def test_a_question_interrupts_the_graph_and_the_answer_goes_through_the_gate(desk: GatedTool, *, answer: bool) -> None:
    def deploy(host: str) -> str:
        """Deploy."""
        desk.ran.append(host)
        return "deployed"

    model = script([call("deploy", "c1", host="prod")])
    middleware = CallosumMiddleware(desk.gate, host_approvals=True)
    agent = create_agent(
        model, tools=[StructuredTool.from_function(deploy)], middleware=[middleware], checkpointer=InMemorySaver()
    )
    (asked,) = agent.invoke({"messages": [HumanMessage("go")]}, ASK)["__interrupt__"]
    assert asked.value["tool"] == "deploy"
    assert "[Callosum]" in asked.value["callosum"]
    assert not desk.ran
    agent.invoke(Command(resume=answer), ASK)
    assert desk.ran == ["prod"] * answer
    assert results(model)["c1"].status == ("success" if answer else "error")
    (entry,) = desk.entries(Event.APPROVE if answer else Event.DENY)
    assert (entry.body["by"], entry.body["channel"]) == ("host", "host")


def test_gate_without_the_setting_refuses_host_approvals(desk: GatedTool, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with LocalGate(settings=Settings(state=tmp_path / "other", rules=tmp_path / "tiers.json")) as gate:
        asked = gate.intercept(_call("deploy"))
        with pytest.raises(ConfigError, match="host_approvals"):
            gate.approve(asked.id, by="host", channel="host")


def test_host_approval_lifts_no_block(desk: GatedTool) -> None:
    assert desk.gate.intercept(_call("wipe", "other")).proceed
    blocked = desk.gate.intercept(_call("wipe"))
    assert blocked.verdict is Verdict.BLOCK
    assert not desk.gate.approve(blocked.id, by="host", channel="host").ok


def _call(tool: str, session: str = "chat") -> Call:
    return Call("mira", tool, {"host": "prod"}, session=session)
