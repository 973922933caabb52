"""The OpenAI Agents SDK under the gate, with the SDK's own scripted model."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from callosum import LocalGate
from callosum.errors import ConfigError
from callosum.model import Entry, Event, Outcome
from callosum.settings import Settings

pytest.importorskip("agents")

from agents import (
    Agent,
    ApplyPatchTool,
    LocalShellTool,
    RunConfig,
    RunContextWrapper,
    Runner,
    ShellTool,
    function_tool,
    set_trace_processors,
    set_tracing_disabled,
    trace,
)
from agents.editor import ApplyPatchOperation
from agents.testing import ScriptedModel, assistant_message, function_call

from callosum.adapters.core import Adapter
from callosum.adapters.openai_agents import _gated, _Turn, gate_agent, install

set_tracing_disabled(True)

RULES = """{"rules": [
  {"name": "deploy", "tool": "deploy", "tier": 3, "verdict": "ask", "contextKey": "host:{params.host}"}]}"""


class GatedTool:
    """A gate, and a tool that records what it sent."""

    def __init__(self, folder: Path) -> None:
        (folder / "tiers.json").write_text(RULES)
        self.gate = LocalGate(settings=Settings(state=folder, host_approvals=True))
        self.ran: list[str] = []

        @function_tool
        def send_email(context: RunContextWrapper[Any], to: str, body: str) -> str:
            """Send an e-mail."""
            self.ran.append(body)
            return f"sent {body}"

        self.send_email = send_email

    def entries(self, event: Event = Event.INTERCEPT) -> list[Entry]:
        return [entry for entry in self.gate.entries() if entry.event is event]


def mail(id: str, body: str) -> Any:
    return function_call("send_email", {"to": "a@example.com", "body": body}, call_id=id)


def script(*turns: list[Any]) -> ScriptedModel:
    return ScriptedModel([*turns, [assistant_message("done")]])


def read(model: ScriptedModel) -> dict[str, str]:
    """What the model read of its calls, by their ids."""
    items = [item for item in model.calls[-1].input if isinstance(item, dict)]
    return {item["call_id"]: str(item["output"]) for item in items if item.get("type") == "function_call_output"}


def run(agent: Any, group: str | None = "chat", *, streamed: bool = False) -> Any:
    async def whole() -> Any:
        config = RunConfig(group_id=group)
        if not streamed:
            return await Runner.run(agent, "go", run_config=config)
        result = Runner.run_streamed(agent, "go", run_config=config)
        async for _ in result.stream_events():
            pass
        return result

    return asyncio.run(whole())


def test_install_gates_existing_agents_and_can_be_undone(desk: GatedTool) -> None:
    agent = Agent(name="a", model=script([mail("c1", "hi")]), tools=[desk.send_email])
    again = install(desk.gate)
    uninstall = install(desk.gate)
    run(agent)
    assert len(desk.entries()) == 1
    again()  # that one was replaced: nothing happens
    run(Agent(name="b", model=script([mail("c2", "ho")]), tools=[desk.send_email]))
    assert len(desk.entries()) == 2
    uninstall()
    run(Agent(name="c", model=script([mail("c3", "he")]), tools=[desk.send_email]))
    assert len(desk.entries()) == 2


@pytest.mark.parametrize(
    ("traced", "around", "sessions"),
    [
        (False, None, 2),
        (True, None, 2),
        (True, {}, 1),  # a workflow of two runs
        (True, {"group_id": "chat"}, 1),
        (False, {"group_id": "chat"}, 2),  # the SDK does not tell the group of a trace that is not made
    ],
)
def test_runs_without_a_group_are_sessions_by_their_traces(
    desk: GatedTool, traced: bool, around: dict[str, str] | None, sessions: int
) -> None:
    set_trace_processors([])
    set_tracing_disabled(not traced)
    with nullcontext() if around is None else trace("desk", **around):
        for id in ("c1", "c2"):
            run(gate_agent(Agent(name="a", model=script([mail(id, id)]), tools=[desk.send_email]), desk.gate), None)
    set_tracing_disabled(True)
    named = {entry.session for entry in desk.entries()}
    assert len(named) == sessions
    assert (named == {"agent/chat"}) is (traced and around == {"group_id": "chat"})


def test_agent_that_takes_over_by_handoff_is_gated_too(desk: GatedTool) -> None:
    model = script([mail("c1", "hi")])
    other = Agent(name="other", model=model, tools=[desk.send_email])
    first = Agent(
        name="first", model=ScriptedModel([[function_call("transfer_to_other", {}, call_id="h1")]]), handoffs=[other]
    )
    other.handoffs = [first]
    run(gate_agent(first, desk.gate))
    assert read(model)["c1"] == "sent hi"
    assert len(desk.entries()) == 1


@pytest.mark.parametrize(
    ("error", "outcome"), [(ValueError("no such user"), Outcome.FAILED), (TimeoutError("no answer"), Outcome.UNKNOWN)]
)
def test_error_with_a_custom_message_of_the_tool_has_its_outcome(
    desk: GatedTool, error: Exception, outcome: Outcome
) -> None:
    def words(_context: Any, _error: Exception) -> str:
        return "try later"

    @function_tool(failure_error_function=words)
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        raise error

    model = script([mail("c1", "hi")])
    run(gate_agent(Agent(name="a", model=model, tools=[send_email]), desk.gate))
    assert read(model)["c1"] == "try later"
    assert [entry.outcome for entry in desk.entries(Event.COMPLETE)] == [outcome]


def test_approvals_of_the_sdk_need_a_session(desk: GatedTool) -> None:
    with pytest.raises(ConfigError, match="session"):
        install(desk.gate, host_approvals=True)


def test_shells_and_patches_that_run_here_are_gated(desk: GatedTool) -> None:
    """Driven as the SDK drives them: their calls are no function calls."""
    turn = _Turn(Adapter(desk.gate, session="chat"))
    made: list[str] = []

    class Editor:
        def create_file(self, operation: ApplyPatchOperation) -> str:
            made.append(operation.path)
            return "created"

        update_file = delete_file = create_file

    async def shell(request: Any) -> str:
        made.append(str(request.data.action))
        return "ran"

    patch: Any = _gated(ApplyPatchTool(Editor()), turn)
    assert asyncio.run(patch.editor.create_file(ApplyPatchOperation("create_file", "/repo/a.py", "+x"))) == "created"

    class Request:
        ctx_wrapper = None

        def __init__(self, **action: Any) -> None:
            self.data = type("Data", (), {"call_id": None, "action": type("Action", (), action)})

    force = "git -C /repo push --force"
    for tool, action in (
        (ShellTool(shell), {"commands": [force]}),
        (LocalShellTool(shell), {"command": force.split()}),
    ):
        gated: Any = _gated(tool, turn)
        assert asyncio.run(gated.executor(Request(**action))) == "ran"
        other: Any = _gated(tool, _Turn(Adapter(desk.gate, session=f"other-{tool.name}")))
        assert "[Callosum]" in asyncio.run(other.executor(Request(**action)))
    first = next(iter(desk.entries()))
    assert (first.tool, first.tier) == ("create_file", 1)
    assert len(made) == 3
