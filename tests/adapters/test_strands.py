"""What only Strands Agents has: interventions beside the gate, interrupts of tools, direct calls and background tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands.interventions")

from strands import Agent, ToolContext, tool
from strands.background_tasks import BackgroundTasksConfig
from strands.interventions import Deny, InterventionHandler, Proceed

from callosum.adapters.strands import CallosumIntervention
from callosum.model import Outcome
from tests.adapters.behaviours import Bench, mail
from tests.adapters.frameworks.strands import FRAMEWORK, _model, _tool
from tests.adapters.harness import Job, Scripted


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(FRAMEWORK, "sync", tmp_path)
    with made.gate:
        yield made


def agent(*turns: list[Scripted], tools: list[Any], **options: Any) -> Agent:
    return Agent(_model(Job(None, turns, [])), tools=tools, callback_handler=None, **options)


def results(agent: Agent) -> dict[str, str]:
    blocks = [
        block["toolResult"] for message in agent.messages for block in message["content"] if "toolResult" in block
    ]
    return {block["toolUseId"]: "\n".join(str(part.get("text", part)) for part in block["content"]) for block in blocks}


def test_a_call_that_another_intervention_denies_is_cancelled(bench: Bench) -> None:
    class Strict(InterventionHandler):
        name = "strict"

        def before_tool_call(self, event: Any, **_: Any) -> Deny:
            return Deny("no")

    tools = [_tool(bench.mail(), Job(None, [], []))]
    made = agent([mail("c1", "hi")], tools=tools, interventions=[CallosumIntervention(bench.gate), Strict()])
    made("go")
    assert results(made) == {"c1": "DENIED: no"}
    assert bench.outcomes() == [Outcome.CANCELLED]
    made = agent([mail("c1", "hi")], tools=tools, interventions=[Strict(), CallosumIntervention(bench.gate)])
    made("go")
    assert len(bench.entries()) == 1  # where another one has denied, the gate is not asked
    assert not bench.did


def test_a_tool_that_interrupts_runs_again_and_counts_once(bench: Bench) -> None:
    @tool(context=True)
    def send_email(to: str, body: str, tool_context: ToolContext) -> str:
        """Send an e-mail."""
        answer = tool_context.interrupt("sure", reason="Sure?")
        bench.did.append(body)
        return f"sent {answer}"

    made = agent([mail("c1", "hi")], tools=[send_email], interventions=[CallosumIntervention(bench.gate)])
    (asked,) = made("go").interrupts
    assert bench.outcomes() == [Outcome.CANCELLED]
    made([{"interruptResponse": {"interruptId": asked.id, "response": "yes"}}])
    assert results(made) == {"c1": "sent yes"}
    assert bench.outcomes() == [Outcome.CANCELLED, Outcome.DONE]
    assert bench.did == ["hi"]


def test_a_direct_call_of_a_tool_is_gated(bench: Bench) -> None:
    tools = [_tool(bench.mail(), Job(None, [], []))]
    first = agent(tools=tools, interventions=[CallosumIntervention(bench.gate)])
    first.tool.send_email(to="a@example.com", body="hi")
    made = agent(tools=tools, interventions=[CallosumIntervention(bench.gate)])
    refused = made.tool.send_email(to="a@example.com", body="no")
    assert "[Callosum]" in refused["content"][0]["text"]
    assert [entry.body["params"] for entry in bench.entries()] == [
        {"to": "a@example.com", "body": body} for body in ("hi", "no")
    ]
    assert bench.did == ["hi"]


def test_a_background_task_is_open_until_it_has_ended(bench: Bench) -> None:
    go = asyncio.Event()
    outcomes: list[Any] = []

    @tool
    async def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        await go.wait()
        return f"sent {body}"

    class Watch(InterventionHandler):
        name = "watch"

        def before_model_call(self, event: Any, **_: Any) -> Proceed:
            if results(event.agent):  # the task has begun, and the model reads so
                outcomes.append(bench.outcomes())
                go.set()
            return Proceed()

    made = agent(
        [mail("c1", "hi")],
        tools=[send_email],
        interventions=[Watch(), CallosumIntervention(bench.gate)],
        background_tasks=BackgroundTasksConfig(always=["send_email"]),
    )
    asyncio.run(made.invoke_async("go"))
    assert outcomes[0] == []
    assert bench.outcomes() == [Outcome.DONE]


def test_a_reworded_call_runs_with_what_a_person_approved(bench: Bench) -> None:
    @tool
    def deploy(host: str, note: str) -> str:
        """Deploy to a host."""
        return f"deployed {note}"

    class Person(InterventionHandler):
        name = "person"

        def before_tool_call(self, event: Any, **_: Any) -> Proceed:
            for entry in bench.entries():
                bench.gate.approve(entry.action, by="ann")
            return Proceed()

    calls = [Scripted("deploy", f"c{turn}", {"host": "prod", "note": f"version {turn}"}) for turn in (1, 2)]
    interventions = [Person(), CallosumIntervention(bench.gate)]
    made = agent([calls[0]], [calls[1]], tools=[deploy], interventions=interventions)
    made("go")
    assert results(made)["c1"].startswith("DENIED: [Callosum]")
    assert results(made)["c2"] == "deployed version 1"
    asked = [
        block["toolUse"]["input"] for message in made.messages for block in message["content"] if "toolUse" in block
    ]
    assert asked == [call.args for call in calls]  # the model's message is unchanged
