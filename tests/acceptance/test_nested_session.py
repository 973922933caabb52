"""A long session alone in three nested repositories: it has no conflict and gets no notification."""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from callosum.gate import LocalGate
from callosum.model import Call, Verdict
from callosum.rulebook import Rulebook
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore
from callosum.testing import ManualClock
from tests.acceptance.test_worktrees import git

RECORDED: Final = Path(__file__).parent / "nested_session.jsonl"
"""One call a line: folder, tool, params and outcome, in order. ``@`` is the outermost folder."""
STEPS: Final = 200


class Step(NamedTuple):
    cwd: str
    tool: str
    params: dict[str, Any]
    outcome: str


def steps(root: str) -> list[Step]:
    lines = RECORDED.read_text().replace("@", root).splitlines()
    return [Step(*json.loads(line)) for line in lines]


def repositories(root: Path) -> None:
    """``site`` holds ``site/api``, a repository of its own, which holds the submodule ``site/api/schema``."""
    for name in ("site", "site/api", "schema.src"):
        (root / name).mkdir(parents=True)
        git(root / name, "init", "-b", "main")
        (root / name / "README.md").write_text("x\n")
        git(root / name, "add", "README.md")
        git(root / name, "commit", "-m", "first")
    git(root / "site" / "api", "submodule", "add", str(root / "schema.src"), "schema")


def test_session_of_two_hundred_steps_over_three_nested_repositories_gets_no_conflict(tmp_path: Path) -> None:
    repositories(tmp_path)
    clock = ManualClock()
    gate = LocalGate(
        settings=Settings(state=tmp_path / "state"),
        store=MemoryStore(clock=clock),
        rules=Rulebook(None),
        sleep=clock.sleep,
    )
    recorded = steps(str(tmp_path))
    assert len(recorded) == STEPS
    keys: set[str] = set()
    with gate:
        for number, step in enumerate(recorded, 1):
            clock.advance(11)
            call = Call("dev", step.tool, step.params, session="s", cwd=step.cwd, call_id=f"call-{number}", pause=True)
            decision = gate.intercept(call)
            alarm = f"step {number}: {step.tool} {step.params}: {decision.warning}"
            assert decision.verdict is Verdict.ALLOW, alarm
            assert not decision.conflicts, alarm
            clock.advance(2)
            gate.complete("dev", id=decision.id, session="s", outcome=step.outcome)
            keys |= set(decision.context_keys)
    for name in ("site", "site/api", "site/api/schema"):
        assert f"git:{tmp_path / name}|HEAD" in keys, f"{name} is a repository of its own"
    assert {step.tool for step in recorded} >= {"Bash", "Read", "Edit", "Write", "Grep"}
    said = "\n".join(step.params.get("command", "") for step in recorded)
    for word in ("git pull", "git push", "git rebase", "pytest", "git submodule"):
        assert word in said
