"""Behaviour of pydantic-ai under the gate that the matrix does not cover."""

# no `from __future__ import annotations`: the framework reads the annotations of tools

from pathlib import Path
from typing import Any

import anyio
import pytest

from callosum import CallosumClient, LocalGate
from callosum.model import Entry, Event, Outcome
from callosum.settings import Settings

pytest.importorskip("pydantic_ai.capabilities")

from pydantic import BaseModel
from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, ToolReturn
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from callosum.adapters.pydantic_ai import CallosumCapability, install


class GatedTool:
    """A gate, and a tool that records what it sent."""

    def __init__(self, folder: Path) -> None:
        self.gate = LocalGate(settings=Settings(state=folder, host_approvals=True))
        self.did: list[str] = []

    def send_email(self, to: str, body: str) -> str:
        """Send an e-mail."""
        self.did.append(body)
        return f"sent {body}"

    def entries(self, event: Event = Event.INTERCEPT) -> list[Entry]:
        return [entry for entry in self.gate.entries() if entry.event is event]


def call(tool: str, id: str, **args: Any) -> ToolCallPart:
    return ToolCallPart(tool, args, id)


def mail(id: str, body: str) -> ToolCallPart:
    return call("send_email", id, to="a@example.com", body=body)


def script(*turns: list[ToolCallPart]) -> FunctionModel:
    said = iter(turns)
    return FunctionModel(lambda _messages, _info: ModelResponse(parts=next(said, None) or [TextPart("done")]))


async def run(agent: Any, conversation: str = "chat", **options: Any) -> dict[str, ToolReturnPart]:
    """What the model read of its calls, by their ids."""
    result = await agent.run("go", conversation_id=conversation, **options)
    parts = [part for message in result.all_messages() for part in message.parts]
    return {part.tool_call_id: part for part in parts if isinstance(part, ToolReturnPart)}


async def test_an_agent_and_its_run_that_both_have_the_capability_are_gated_once(desk: GatedTool) -> None:
    capability = CallosumCapability(desk.gate, instance="mira")
    agent = Agent(script([mail("c1", "hi")]), tools=[desk.send_email], capabilities=[capability, capability])
    read = await run(agent, capabilities=[CallosumCapability(desk.gate, instance="doug")])
    assert read["c1"].content == "sent hi"
    assert [entry.session for entry in desk.entries()] == ["doug/chat"]


async def test_install_gates_later_agents_and_can_be_undone(desk: GatedTool) -> None:
    again = install(desk.gate, instance="first")
    uninstall = install(desk.gate, instance="mira")
    again()  # that one was replaced: nothing happens
    await run(Agent(script([mail("c1", "one")]), tools=[desk.send_email]))
    own = CallosumCapability(desk.gate, instance="own")
    await run(Agent(script([mail("c2", "two")]), tools=[desk.send_email], capabilities=[own]), "other")
    uninstall()
    await run(Agent(script([mail("c3", "three")]), tools=[desk.send_email]), "free")
    assert [entry.session for entry in desk.entries()] == ["mira/chat", "own/other"]


async def test_a_refusal_is_a_failed_result_and_takes_no_retry(desk: GatedTool) -> None:
    capabilities = [CallosumCapability(desk.gate, instance="mira")]
    await run(Agent(script([mail("c1", "yes")]), tools=[desk.send_email], capabilities=capabilities))
    turn = [mail(f"c{place}", "no") for place in range(3)]
    agent = Agent(script(turn), tools=[desk.send_email], capabilities=capabilities, retries=0)
    read = await run(agent, "heartbeat")
    assert {part.outcome for part in read.values()} == {"failed"}
    assert desk.did == ["yes"]


def test_a_tool_that_the_framework_times_out_is_unknown(desk: GatedTool) -> None:
    async def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        await anyio.sleep_forever()
        return "unreachable"

    capabilities = [CallosumCapability(desk.gate)]
    agent = Agent(script([mail("c1", "hi")]), tools=[send_email], capabilities=capabilities, tool_timeout=0.05)
    anyio.run(run, agent)
    assert [entry.outcome for entry in desk.entries(Event.COMPLETE)] == [Outcome.UNKNOWN]


def test_work_that_another_program_finishes_is_unknown(desk: GatedTool) -> None:
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        raise CallDeferred

    capabilities = [CallosumCapability(desk.gate)]
    output: Any = [str, DeferredToolRequests]
    anyio.run(run, Agent(script([mail("c1", "hi")]), output_type=output, tools=[send_email], capabilities=capabilities))
    assert [entry.outcome for entry in desk.entries(Event.COMPLETE)] == [Outcome.UNKNOWN]


async def test_the_gate_sees_the_fields_of_a_single_parameter_that_is_a_model(desk: GatedTool) -> None:
    class Letter(BaseModel):
        to: str
        body: str

    def send_email(letter: Letter) -> ToolReturn[str]:
        """Send an e-mail."""
        return ToolReturn(f"sent {letter.body}", metadata={"at": 1})

    agent = Agent(script([mail("c1", "hi")]), tools=[send_email], capabilities=[CallosumCapability(desk.gate)])
    assert (await run(agent))["c1"].content == "sent hi"
    assert desk.entries()[0].body["params"] == {"to": "a@example.com", "body": "hi"}


def test_an_agent_made_from_a_spec_is_gated(desk: GatedTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLOSUM_STATE", str(tmp_path / "spec"))
    spec = {"model": "test", "capabilities": [{"CallosumCapability": {"instance": "mira", "host_approvals": True}}]}
    agent = Agent.from_spec(spec, custom_capability_types=[CallosumCapability])
    (made,) = (one for one in agent.root_capability.capabilities if isinstance(one, CallosumCapability))
    assert isinstance(made.gate, LocalGate)
    assert made.gate.settings.state == tmp_path / "spec"
    assert made.options == {"instance": "mira"}
    assert made.host_approvals
    made.gate.close()
    elsewhere = CallosumCapability.from_spec("http://127.0.0.1:9")
    assert isinstance(elsewhere.gate, CallosumClient)
    elsewhere.gate.close()
