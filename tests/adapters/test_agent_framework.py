"""Behaviour of Microsoft Agent Framework under the gate that the matrix does not cover."""

# no `from __future__ import annotations`: the framework reads the annotations of tools

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from callosum import LocalGate
from callosum.model import Entry, Event, Outcome
from callosum.settings import Settings
from tests.adapters.harness import Job, Scripted

pytest.importorskip("agent_framework")

from agent_framework import (
    Agent,
    AgentSession,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    MiddlewareTermination,
    tool,
)

from callosum.adapters.agent_framework import CallosumMiddleware, install
from tests.adapters.frameworks.agent_framework import _client, _read

MAIL = {"to": "a@example.com", "body": "hi"}


class GatedTool:
    """A gate, and a tool that records what it sent."""

    def __init__(self, folder: Path) -> None:
        self.gate = LocalGate(settings=Settings(state=folder, host_approvals=True))
        self.did: list[str] = []
        self.seen: list[Any] = []

    def agent(self, *turns: Sequence[str], before: Any = None, **options: Any) -> Agent[Any]:
        """Return an agent whose model makes calls with these ids."""

        @tool
        def send_email(to: str, body: str) -> str:
            """Send an e-mail."""
            if before is not None:
                before()
            self.did.append(body)
            return f"sent {body}"

        calls = [[Scripted("send_email", id, MAIL) for id in turn] for turn in turns]
        client = _client(Job(None, calls, []), self.seen)
        return Agent(client=client, tools=[send_email], **options)

    def run(self, agent: Agent[Any], session: str = "chat", **options: Any) -> dict[str, str]:
        """Run the agent; return the text that its model read for its calls."""
        asyncio.run(agent.run("go", session=AgentSession(session_id=session), **options))
        return _read(self.seen)

    def entries(self, event: Event = Event.INTERCEPT) -> list[Entry]:
        return [entry for entry in self.gate.entries() if entry.event is event]

    def outcomes(self) -> list[Outcome | None]:
        return [entry.outcome for entry in self.entries(Event.COMPLETE)]


def test_calls_that_run_one_after_the_other_in_one_turn_do_not_confirm_each_other(desk: GatedTool) -> None:
    middleware = [CallosumMiddleware(desk.gate, instance="mira")]
    desk.run(desk.agent(["c1"], middleware=middleware))
    agent = desk.agent(["c1", "c2"], ["c3"], middleware=middleware)
    agent.client.function_invocation_configuration["allow_concurrent_invocation"] = False
    read = desk.run(agent, "heartbeat")
    assert "[Callosum]" in read["c1"]
    assert "[Callosum]" in read["c2"]
    assert read["c3"] == "sent hi"


def test_an_agent_and_its_run_that_both_have_the_middleware_are_gated_once(desk: GatedTool) -> None:
    agent = desk.agent(["c1"], middleware=[CallosumMiddleware(desk.gate, instance="mira")])
    desk.run(agent, middleware=[CallosumMiddleware(desk.gate, instance="doug")])
    assert len(desk.entries()) == 1


def test_install_gates_later_agents_and_can_be_undone(desk: GatedTool) -> None:
    again = install(desk.gate, instance="first")
    uninstall = install(desk.gate, instance="mira")
    again()  # that one was replaced: nothing happens
    desk.run(desk.agent(["c1"]))
    desk.run(desk.agent(["c2"], middleware=[CallosumMiddleware(desk.gate, instance="own")]), "other")
    desk.run(desk.agent(["c2"], middleware=CallosumMiddleware(desk.gate, instance="bare")), "third")
    uninstall()
    desk.run(desk.agent(["c3"]), "free")
    assert [entry.session for entry in desk.entries()] == ["mira/chat", "own/other", "bare/third"]


def test_a_tool_that_ends_the_run_is_done(desk: GatedTool) -> None:
    def end() -> None:
        raise MiddlewareTermination(result="the last word")

    desk.run(desk.agent(["c1"], before=end, middleware=[CallosumMiddleware(desk.gate)]))
    assert desk.outcomes() == [Outcome.DONE]


def test_a_call_for_which_another_middleware_wants_an_approval_has_not_run(desk: GatedTool) -> None:
    class Approve(FunctionMiddleware):
        async def process(self, context: FunctionInvocationContext, call_next: Any) -> None:
            id = context.metadata["function_call_occurrence_id"]
            call = Content.from_function_call("c1", "send_email", arguments=MAIL, id=id)
            context.result = Content.from_function_approval_request(id, call)

    desk.run(desk.agent(["c1"], middleware=[CallosumMiddleware(desk.gate), Approve()]))
    assert desk.did == []
    assert desk.outcomes() == [Outcome.CANCELLED]


def test_a_run_without_a_session_acts_as_this_process(desk: GatedTool) -> None:
    agent = desk.agent(["c1"], middleware=[CallosumMiddleware(desk.gate)])
    asyncio.run(agent.run("go"))
    assert _read(desk.seen) == {"c1": "sent hi"}


def test_the_frameworks_own_hooks_carry_the_interceptor(desk: GatedTool) -> None:
    pytest.importorskip("agent_hooks")
    from agent_framework import create_agent_hooks_middleware  # noqa: PLC0415

    from callosum.adapters.agent_hooks import CallosumInterceptor  # noqa: PLC0415

    def hooked(session: str) -> Any:
        interceptor = CallosumInterceptor(desk.gate, instance="mira", session=session)
        return create_agent_hooks_middleware([interceptor])

    assert desk.run(desk.agent(["c1"], middleware=[hooked("chat")])) == {"c1": "sent hi"}
    read = desk.run(desk.agent(["c1"], ["c2"], middleware=[hooked("heartbeat")]))
    assert "callosum:confirm" in read["c1"]
    assert "mira/chat" in read["c1"]
    assert read["c2"] == "sent hi"
    assert desk.did == ["hi", "hi"]
    assert desk.outcomes() == [Outcome.DONE, Outcome.DONE]
