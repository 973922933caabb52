"""What only Google ADK has: other plugins, isolated agents as tools and confirmations of a tool's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk.plugins")

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool, FunctionTool
from google.genai import types

from callosum.adapters.google_adk import CallosumPlugin, install
from callosum.model import Event, Outcome
from tests.adapters.behaviours import Bench, mail
from tests.adapters.frameworks.google_adk import _CONFIRMATION, FRAMEWORK, _model, _ran, _tool
from tests.adapters.harness import Job, RunResult, Scripted

pytestmark = [pytest.mark.filterwarnings(one) for one in FRAMEWORK.warnings]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(FRAMEWORK, "async", tmp_path)
    with made.gate:
        yield made


def agent(*turns: list[Scripted], tools: list[Any], name: str = "agent") -> LlmAgent:
    return LlmAgent(name=name, description=name, model=_model(Job(None, turns, [])), tools=tools)


def desk(agent: LlmAgent, *plugins: Any) -> InMemoryRunner:
    runner = InMemoryRunner(app=App(name="desk", root_agent=agent, plugins=list(plugins)))
    runner.auto_create_session = True
    return runner


def run(runner: InMemoryRunner, part: Any = None, session: str = "chat") -> RunResult:
    given = {
        "user_id": "ann",
        "session_id": session,
        "new_message": types.Content(role="user", parts=[part or types.Part(text="go")]),
    }

    async def whole() -> list[Any]:
        return [event async for event in runner.run_async(**given)]

    return _ran(runner, asyncio.run(whole()))


def answer(question: str, *, confirmed: bool) -> Any:
    said = types.FunctionResponse(id=question, name=_CONFIRMATION, response={"confirmed": confirmed})
    return types.Part(function_response=said)


@pytest.mark.parametrize("shares", [True, False])
def test_calls_of_an_agent_used_as_a_tool_are_gated_once_in_the_calling_session(bench: Bench, *, shares: bool) -> None:
    inner = agent([mail("i1", "one")], tools=[_tool(bench.mail(), Job(None, [], []))], name="ask_helper")
    calls = [[Scripted("ask_helper", "c1", {"request": "mail"})], [mail("c2", "two", "b@example.com")]]
    tools = [AgentTool(inner, include_plugins=shares), _tool(bench.mail(), Job(None, [], []))]
    uninstall = install(bench.gate, instance="mira")
    run(desk(agent(*calls, tools=tools)))
    uninstall()
    told = [(entry.tool, entry.session) for entry in bench.entries()]
    assert told == [("ask_helper", "mira/chat"), ("send_email", "mira/chat"), ("send_email", "mira/chat")]
    assert bench.did == ["one", "two"]


def test_a_call_that_another_plugin_answers_does_not_reach_the_gate(bench: Bench) -> None:
    class Cache(BasePlugin):
        async def before_tool_callback(self, **_: Any) -> dict[str, Any]:
            return {"result": "cached"}

    made = agent([mail("c1", "hi")], tools=[_tool(bench.mail(), Job(None, [], []))])
    assert run(desk(made, Cache(name="cache"), CallosumPlugin(bench.gate))).read == {"c1": "cached"}
    assert not bench.entries()


def test_a_confirmation_that_a_tool_asks_for_is_no_answer_to_the_gate(bench: Bench) -> None:
    def deploy(host: str) -> str:
        """Deploy to a host."""
        bench.did.append(host)
        return "deployed"

    def pay(amount: int) -> str:
        """Pay an invoice."""
        bench.did.append(str(amount))
        return "paid"

    tools = [FunctionTool(deploy, require_confirmation=True), FunctionTool(pay, require_confirmation=True)]
    calls = [[Scripted("pay", "c1", {"amount": 1})], [Scripted("deploy", "c2", {"host": "prod"})]]
    runner = desk(agent(*calls, tools=tools), CallosumPlugin(bench.gate, host_approvals=True))
    asked = run(runner)
    assert bench.outcomes() == [Outcome.FAILED]  # the tool's own question, before it ran
    asked = run(runner, answer(asked.paused[1], confirmed=True))
    assert bench.did == ["1"]
    assert not bench.entries(Event.APPROVE)
    assert asked.paused is not None
    assert run(runner, answer(asked.paused[1], confirmed=True)).read["c2"] == "deployed"
    assert len(bench.entries(Event.APPROVE)) == 1
