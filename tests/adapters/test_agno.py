"""What only Agno has: tools that yield, teams and runs that a program cancels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agno.agent")

from agno.agent import Agent
from agno.exceptions import RunCancelledException
from agno.team import Team
from agno.tools.function import Function, FunctionCall

from callosum.adapters.agno import install
from callosum.model import Outcome
from tests.adapters.behaviours import Bench, mail
from tests.adapters.frameworks.agno import FRAMEWORK, _model, _tool
from tests.adapters.harness import Job, Scripted


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(FRAMEWORK, "sync", tmp_path)
    with made.gate:
        uninstall = install(made.gate, instance="mira")
        yield made
        uninstall()


def call(function: Any) -> FunctionCall:
    made = Function.from_callable(function)
    made.process_entrypoint()
    return FunctionCall(function=made, arguments={"to": "a@example.com", "body": "hi"}, call_id="c1")


def test_a_tool_that_yields_is_running_until_its_results_are_taken(bench: Bench) -> None:
    def send_email(to: str, body: str) -> Iterator[str]:
        """Send an e-mail."""
        yield "sent "
        yield body

    result = call(send_email).execute()
    assert bench.entries()
    assert not bench.outcomes()
    assert "".join(result.result) == "sent hi"
    assert bench.outcomes() == [Outcome.DONE]


def test_call_of_a_cancelled_run_is_unknown(bench: Bench) -> None:
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        raise RunCancelledException

    with pytest.raises(RunCancelledException):
        call(send_email).execute()
    assert bench.outcomes() == [Outcome.UNKNOWN]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_member_of_a_team_acts_in_the_teams_session(bench: Bench) -> None:
    member = Agent(
        name="helper",
        id="helper",
        model=_model(Job(None, [[mail("i1", "from the helper")]], [])),
        tools=[_tool(bench.mail(), Job(None, [], []))],
        telemetry=False,
    )
    task = Scripted("delegate_task_to_member", "c1", {"member_id": "helper", "task": "mail"})
    team = Team(name="team", members=[member], model=_model(Job(None, [[task]], [])), telemetry=False)
    team.run("go", session_id="chat")
    assert bench.did == ["from the helper"]
    assert [(entry.tool, entry.session) for entry in bench.entries()] == [
        ("delegate_task_to_member", "mira/chat"),
        ("send_email", "mira/chat"),
    ]
    assert bench.outcomes() == [Outcome.DONE, Outcome.DONE]
