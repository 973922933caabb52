"""The OpenAI Agents SDK under the gate, with the SDK's own scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callosum import CallosumClient, LocalGate
from callosum.errors import ConfigError
from callosum.model import Entry, Event, Outcome, Verdict
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
    set_tracing_disabled,
)
from agents.editor import ApplyPatchOperation
from agents.testing import ScriptedModel, assistant_message, function_call

from callosum.adapters.core import Adapter
from callosum.adapters.openai_agents import _gated, _Turn, gate_agent, install

set_tracing_disabled(True)

RULES = """{"rules": [
  {"name": "deploy", "tool": "deploy", "tier": 3, "verdict": "ask", "contextKey": "host:{params.host}"},
  {"name": "sub", "tool": "ask_helper", "tier": 3, "contextKey": "email:a@example.com"}]}"""


class Desk:
    """A gate, and a tool that keeps what it sent."""

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


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    with made.gate:
        yield made


def mail(id: str, body: str) -> Any:
    return function_call("send_email", {"to": "a@example.com", "body": body}, call_id=id)


def script(*turns: list[Any]) -> ScriptedModel:
    return ScriptedModel([*turns, [assistant_message("done")]])


def read(model: ScriptedModel) -> dict[str, str]:
    """What the model read of its calls, by their ids."""
    items = [item for item in model.calls[-1].input if isinstance(item, dict)]
    return {item["call_id"]: str(item["output"]) for item in items if item.get("type") == "function_call_output"}


def run(agent: Any, group: str = "chat", *, streamed: bool = False) -> Any:
    async def whole() -> Any:
        config = RunConfig(group_id=group)
        if not streamed:
            return await Runner.run(agent, "go", run_config=config)
        result = Runner.run_streamed(agent, "go", run_config=config)
        async for _ in result.stream_events():
            pass
        return result

    return asyncio.run(whole())


@pytest.mark.parametrize("streamed", [False, True])
def test_two_groups_meet_and_the_model_reads_why_and_confirms_by_repeating(desk: Desk, *, streamed: bool) -> None:
    model = script([mail("c1", "Friday works")])
    run(
        gate_agent(Agent(name="a", model=model, tools=[desk.send_email]), desk.gate, instance="mira"), streamed=streamed
    )
    assert read(model) == {"c1": "sent Friday works"}
    model = script([mail("c1", "no"), mail("c2", "no")], [mail("c3", "no")])
    agent = gate_agent(Agent(name="a", model=model, tools=[desk.send_email]), desk.gate, instance="mira")
    run(agent, "heartbeat", streamed=streamed)
    told = read(model)
    assert "mira/chat acted on" in told["c1"]
    assert "mira/chat acted on" in told["c2"]  # two equal calls of one turn do not confirm each other
    assert told["c3"] == "sent no"
    assert desk.entries()[0].body["params"] == {"to": "a@example.com", "body": "Friday works"}  # without the context


def test_install_gates_agents_that_were_there_before_and_can_be_taken_back(desk: Desk) -> None:
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


def test_whom_an_agent_hands_off_to_is_gated_too(desk: Desk) -> None:
    model = script([mail("c1", "hi")])
    other = Agent(name="other", model=model, tools=[desk.send_email])
    first = Agent(
        name="first", model=ScriptedModel([[function_call("transfer_to_other", {}, call_id="h1")]]), handoffs=[other]
    )
    other.handoffs = [first]
    run(gate_agent(first, desk.gate))
    assert read(model)["c1"] == "sent hi"
    assert len(desk.entries()) == 1


def test_an_agent_as_a_tool_is_not_in_the_way_of_what_it_does(desk: Desk) -> None:
    inner = Agent(name="inner", model=script([mail("i1", "from the helper")]), tools=[desk.send_email])
    model = script([function_call("ask_helper", {"input": "mail"}, call_id="c1")])
    outer = Agent(name="outer", model=model, tools=[inner.as_tool("ask_helper", "Let the helper do it.")])
    uninstall = install(desk.gate)
    run(outer)
    uninstall()
    assert [(entry.tool, entry.session, entry.verdict) for entry in desk.entries()] == [
        ("ask_helper", "agent/chat", Verdict.ALLOW),
        ("send_email", "agent/chat", Verdict.ALLOW),
    ]
    assert desk.ran == ["from the helper"]


def test_what_a_tool_raised_is_a_failure_though_the_sdk_made_a_text_of_it(desk: Desk) -> None:
    @function_tool
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        raise ValueError("no such user")

    model = script([mail("c1", "hi")])
    run(gate_agent(Agent(name="a", model=model, tools=[send_email]), desk.gate))
    assert [entry.outcome for entry in desk.entries(Event.COMPLETE)] == [Outcome.FAILED]


def test_without_a_gate_what_is_grave_does_not_run(tmp_path: Path) -> None:
    ran = []

    @function_tool
    def wipe_disk(host: str) -> str:
        """Delete all data of a host, for good."""
        ran.append(host)
        return "gone"

    @function_tool
    def read_file(path: str) -> str:
        """Read a file."""
        return f"content of {path}"

    model = script(
        [
            function_call("read_file", {"path": "/a"}, call_id="c1"),
            function_call("wipe_disk", {"host": "h"}, call_id="c2"),
        ]
    )
    with CallosumClient("http://127.0.0.1:9", state=tmp_path, deadline=0.2) as gate:
        run(gate_agent(Agent(name="a", model=model, tools=[read_file, wipe_disk]), gate))
    assert read(model)["c1"] == "content of /a"
    assert "[Callosum]" in read(model)["c2"]
    assert not ran


@pytest.mark.parametrize("agrees", [True, False])
def test_a_question_is_an_approval_of_the_sdk_and_goes_through_the_gate(desk: Desk, *, agrees: bool) -> None:
    @function_tool
    def deploy(host: str) -> str:
        """Deploy."""
        desk.ran.append(host)
        return "deployed"

    model = script([function_call("deploy", {"host": "prod"}, call_id="c1"), mail("c2", "hi")])
    agent = gate_agent(
        Agent(name="a", model=model, tools=[deploy, desk.send_email]), desk.gate, session="chat", host_approvals=True
    )

    async def whole() -> None:
        result = await Runner.run(agent, "go", run_config=RunConfig(group_id="chat"))
        (question,) = result.interruptions
        state = result.to_state()
        state.approve(question) if agrees else state.reject(question)
        await Runner.run(agent, state, run_config=RunConfig(group_id="chat"))

    asyncio.run(whole())
    assert sorted(desk.ran) == ["hi", "prod"][: 1 + agrees]
    assert read(model)["c2"] == "sent hi"
    assert [entry.body["channel"] for entry in desk.entries(Event.APPROVE)] == ["host"] * agrees


def test_approvals_of_the_sdk_need_a_session(desk: Desk) -> None:
    with pytest.raises(ConfigError, match="session"):
        install(desk.gate, host_approvals=True)


def test_shells_and_patches_that_run_here_are_gated(desk: Desk) -> None:
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
