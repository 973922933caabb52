"""What only CrewAI has: hooks that fail open, agents that write their calls as text, and questions at the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("crewai.hooks")

from crewai import Agent, BaseLLM, Crew, Task
from crewai.hooks import register_before_tool_call_hook, unregister_before_tool_call_hook
from crewai.tools import BaseTool, tool

from callosum import Call
from callosum.adapters.crewai import install
from callosum.guards import outcome_of_error
from callosum.model import Event, Outcome
from tests.adapters.behaviours import Bench, mail
from tests.adapters.frameworks.crewai import FRAMEWORK, _model
from tests.adapters.harness import Job, RunResult, Scripted

pytestmark = [pytest.mark.filterwarnings(one) for one in FRAMEWORK.warnings]


@pytest.fixture
def gated(bench: Bench) -> Iterator[Callable[..., RunResult]]:
    """Run an agent with the gate that ``install`` was given."""
    uninstall: list[Callable[[], None]] = []

    def run(*turns: list[Scripted], tools: Any = None, gate: Any = None, **options: Any) -> RunResult:
        uninstall.append(install(gate or bench.gate, **options))
        return FRAMEWORK.run(Job(None, turns, tools or [bench.mail()]))

    yield run
    for one in uninstall:
        one()


def test_a_fault_in_the_hook_keeps_the_tool_from_running(bench: Bench, gated: Callable[..., RunResult]) -> None:
    def broken() -> str:
        raise RuntimeError("no session")

    ran = gated([mail("c1", "hi")], session=broken)
    assert ran.read == {"c1": "[Callosum] The call was not run: the gate failed (RuntimeError)."}
    assert not bench.did


def test_a_call_that_another_hook_blocks_is_cancelled(bench: Bench) -> None:
    uninstall = install(bench.gate)

    def block(_context: Any) -> bool:
        return False

    register_before_tool_call_hook(block)
    ran = FRAMEWORK.run(Job(None, [[mail("c1", "hi")]], [bench.mail()]))
    unregister_before_tool_call_hook(block)
    uninstall()
    assert "blocked by hook" in ran.read["c1"]
    assert bench.outcomes() == [Outcome.CANCELLED]


@pytest.mark.parametrize("said", ["yes", ""])
def test_a_question_is_asked_at_the_terminal(
    bench: Bench, gated: Callable[..., RunResult], monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr("builtins.input", lambda: said)
    ran = gated([Scripted("deploy", "c1", {"host": "prod"})], tools=[bench.deploy()], host_approvals=True)
    assert bench.did == ["prod"] * bool(said)
    assert ("deployed prod" in ran.read["c1"]) == bool(said)
    (entry,) = bench.entries(Event.APPROVE if said else Event.DENY)
    assert entry.body["channel"] == "host"


def test_an_agent_that_writes_its_calls_as_text_is_gated(bench: Bench) -> None:
    bench.gate.intercept(_other())
    read = _read_by_text(bench, bench.mail().function, turns=2)
    assert "other/chat has an active action" in read
    assert "sent no" in read
    assert bench.did == ["no"]


@pytest.mark.parametrize("error", [TimeoutError("no answer"), RuntimeError("boom")])
def test_an_agent_that_writes_its_calls_as_text_runs_a_tool_that_raises_once(bench: Bench, error: Exception) -> None:
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        bench.did.append(body)
        raise error

    assert str(error) in _read_by_text(bench, send_email)
    assert bench.did == ["no"]
    assert bench.outcomes() == [outcome_of_error(error)]


def _read_by_text(bench: Bench, function: Callable[..., str], turns: int = 1) -> str:
    """Let an agent without tool calls of its own write the same call in each turn. Return what its model read."""
    call = 'Thought: mail\nAction: send_email\nAction Input: {"to": "a@example.com", "body": "no"}'
    said = iter([*[call] * turns, "Thought: ok\nFinal Answer: done"])
    read: list[str] = []

    class Script(BaseLLM):
        def supports_function_calling(self) -> bool:
            return False

        def call(self, messages: Any, *_: Any, **__: Any) -> str:
            read[:] = [str(message["content"]) for message in messages]
            return next(said)

    uninstall = install(bench.gate)
    made = Agent(role="agent", goal="goal", backstory="none", llm=Script(model="script"), tools=[tool(function)])
    Crew(agents=[made], tasks=[Task(description="go", expected_output="done", agent=made)]).kickoff()
    uninstall()
    return "\n".join(read)


def test_error_of_a_tool_class_with_its_own_run_is_seen_until_uninstall(bench: Bench) -> None:
    class SendEmail(BaseTool):
        name: str = "send_email"
        description: str = "Send an e-mail."

        def run(self, to: str, body: str) -> str:
            raise TimeoutError("no answer")

        def _run(self, to: str, body: str) -> str:
            return self.run(to, body)

    own = vars(SendEmail)["run"]
    first, second = install(bench.gate), install(bench.gate)
    first()  # it was replaced: nothing happens
    made = Agent(
        role="agent",
        goal="goal",
        backstory="none",
        llm=_model(Job(None, [[mail("c1", "hi")]], [])),
        tools=[SendEmail()],
    )
    Crew(agents=[made], tasks=[Task(description="go", expected_output="done", agent=made)]).kickoff()
    second()
    assert bench.outcomes() == [Outcome.UNKNOWN]
    assert vars(SendEmail)["run"] is own


def _other() -> Any:
    return Call("other", "send_email", {"to": "a@example.com", "body": "yes"}, session="chat")
