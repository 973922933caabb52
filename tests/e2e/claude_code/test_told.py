"""Test the corpus events of a real Claude Code: every event, and the rules of health that need them."""

import json
import signal

import pytest

from callosum.corpus.events import CATALOGUE
from tests.e2e.claude_code.conftest import ClaudeMachine, bash
from tests.e2e.models import ToolUse
from tests.e2e.told import answer, brief_cut, claimed, come, keep_house, logged_events
from tests.support.serving import until
from tests.support.weeks import two_weeks

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
PATIENCE = 60.0
ASKED = {"name": "ask-first", "tool": "Bash", "commandPattern": "^deploy", "tier": 3, "verdict": "ask"}


def mail(number: int, text: str) -> ToolUse:
    return bash(f"printf 'To: bob{number}@example.com\\nSubject: {text}\\n\\n{text}, is it?' | himalaya message send")


def agent(name: str) -> ToolUse:
    return ToolUse("Agent", {"description": "look", "prompt": f"Do [[{name}]].", "subagent_type": "general-purpose"})


def test_every_event_comes_out_of_real_sessions(desk: ClaudeMachine) -> None:
    desk.state.mkdir(exist_ok=True)
    two_weeks(desk.state)
    (desk.state / "tiers.json").write_text(json.dumps({"rules": [ASKED]}))
    desk.mailer()
    model = desk.model
    tools = ("Bash", "Read", "Write", "Edit", "Agent")

    # calls that run, fail and require approval; a person's prompts
    desk.run(model.script("asks", [bash("echo a"), bash("echo b")], [bash("exit 3")], [bash("deploy one")]))
    answer(desk.state, agrees=True)
    desk.run(model.script("again", [bash("deploy two")]))
    answer(desk.state, agrees=False)

    # work that outlasts its call
    model.script("kid", [bash("echo inner")])
    late = bash("exit 4", run_in_background=True)
    desk.run(model.script("runs", [agent("kid")], [late], [bash("sleep 2")]), *tools)
    left = desk.start(model.script("leaves", [bash("sleep 300", run_in_background=True)]), *tools)
    model.wait("leaves", 1)
    left.send_signal(signal.SIGINT)
    left.communicate(timeout=PATIENCE)

    # two sessions that conflict again and again, where each pause is confirmed
    desk.run(model.script("first", *[[mail(number, f"Lunch on day {number}")] for number in range(6)]))
    second = [
        [one]
        for number in range(6)
        for one in (mail(number, f"Budget {number}, a draft"), bash("sleep 1.5"), mail(number, f"Budget {number}"))
    ]
    desk.run(model.script("second", *second))

    # a model that fails repeatedly, a context that is nearly full, and a compaction
    model.failing = 7
    desk.run(model.script("fails", [bash("echo a")]))
    model.sizes["full"] = 185_000
    desk.run(model.script("full"))
    model.sizes.clear()
    desk.words = ("-c",)
    desk.run("/compact")
    desk.words = ()

    # the same command fails a third time; the rules change; the home is kept
    desk.run(model.script("stuck", *[[bash("cat nowhere")]] * 3))
    (desk.state / "tiers.json").write_text(json.dumps({"rules": []}))
    until(lambda: logged_events(desk.state, "watcher.changed"), PATIENCE)
    brief_cut(desk.state)
    keep_house(desk.state)

    wanted = {name for name, cell in claimed("Claude Code").items() if not cell.startswith("no")}
    assert wanted == {*CATALOGUE}
    come(desk.state, wanted)

    # the three rules of health, with a real host
    warned = [(one["resource"], one["value"]) for _, one in logged_events(desk.state, "health.warning")]
    assert ("llm", 6) in warned
    assert ("tool", "Bash") in warned
    assert {"used": 185_000, "max": 200_000}.items() <= logged_events(desk.state, "resource.low.context")[0][1].items()

    # events from transcripts name their source and session
    for _, payload in logged_events(desk.state, "llm.response", "llm.error"):
        assert payload["source"] == "transcript"
        assert payload["instance"].startswith("claude-code/")
    (created, *_) = (one for _, one in logged_events(desk.state, "task.created") if one["toolName"] == "Agent")
    steps = [one for _, one in logged_events(desk.state, "task.stepCompleted")]
    assert [(one["taskId"], one["step"]) for one in steps] == [(created["taskId"], "Bash")]
