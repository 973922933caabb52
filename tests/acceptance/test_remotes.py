"""A fetch reads the remote: after it a session is not notified again of earlier pushes of other sessions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callosum.gate import LocalGate
from callosum.model import Call, Decision, Mode, Verdict, Worktree
from callosum.policy.checkouts import remote_of
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore
from callosum.testing import ManualClock

REPO = "/srv/app"
FORCE = "git push --force origin main"
LOOKS = ["git fetch", "git fetch origin main", "git pull --rebase", "git ls-remote origin", "git remote update"]


class Team:
    """Sessions in one repository, behind one gate whose clock moves by ten seconds with each call."""

    def __init__(self, gate: LocalGate, clock: ManualClock) -> None:
        self.gate, self.clock = gate, clock

    def ask(self, who: str, command: str, **more: Any) -> Decision:
        self.clock.advance(10)
        return self.gate.intercept(Call(who, "Bash", {"command": command}, **{"cwd": REPO, "pause": True, **more}))

    def runs(self, who: str, command: str, outcome: str = "done", **more: Any) -> Decision:
        decision = self.ask(who, command, **more)
        assert decision.proceed, decision.warning
        self.clock.advance(1)
        self.gate.complete(who, id=decision.id, outcome=outcome)
        return decision


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    with LocalGate(settings=Settings(state=tmp_path / "state"), store=store, sleep=clock.sleep) as gate:
        yield Team(gate, clock)


@pytest.mark.parametrize("look", LOOKS)
def test_blocked_force_push_is_allowed_after_a_read_of_the_remote(team: Team, look: str) -> None:
    team.runs("a", FORCE)
    blocked = team.ask("b", FORCE)
    assert (blocked.tier, blocked.verdict) == (4, Verdict.BLOCK)
    assert not team.ask("b", FORCE).proceed, "asking again is no look"
    team.runs("b", look)
    assert team.ask("b", FORCE).verdict is Verdict.ALLOW


def test_read_before_the_other_push_was_finished_does_not_lift_the_block(team: Team) -> None:
    team.runs("b", "git fetch")
    running = team.ask("a", FORCE)
    team.runs("b", "git fetch")
    assert [one.kind.value for one in team.ask("b", FORCE).conflicts][-1] == "held"
    team.gate.complete("a", id=running.id, outcome="done")
    assert team.ask("b", FORCE).verdict is Verdict.BLOCK, "what was fetched was not yet what a pushed"
    team.runs("b", "git fetch")
    assert team.ask("b", FORCE).proceed


@pytest.mark.parametrize(
    ("who", "look", "outcome", "push"),
    [
        *(("b", look, "done", FORCE) for look in ("git fetch fork", "git fetch origin dev", "git -C /srv/other fetch")),
        *(("b", look, "done", FORCE) for look in ("git status", "git log")),
        ("c", "git fetch", "done", FORCE),  # another session
        ("b", "git fetch", "failed", FORCE),
        ("b", "ls", "done", f"git fetch && {FORCE}"),  # the line continues before the session sees the result
    ],
)
def test_read_that_shows_the_session_no_push_does_not_lift_the_block(
    team: Team, who: str, look: str, outcome: str, push: str
) -> None:
    team.runs("a", FORCE)
    team.runs(who, look, outcome=outcome)
    assert team.ask("b", push).verdict is Verdict.BLOCK


def test_no_read_lifts_the_block_of_an_unknown_force_push(team: Team) -> None:
    team.runs("a", FORCE, outcome="unknown")
    team.runs("b", "git fetch")
    assert [one.kind.value for one in team.ask("b", FORCE).conflicts] == ["unknown"]


@pytest.mark.parametrize(
    "line",
    [
        "git pull --rebase && git push", "git pull --rebase origin main && git push origin main",
        "git fetch && git rebase origin/main && git push", "git pull --rebase; git push",
        "git pull --rebase && npm test && git push origin HEAD",
    ],
)  # fmt: skip
@pytest.mark.parametrize("theirs", ["git push", "git push origin main"])
def test_pull_and_push_in_one_line_are_not_paused_by_anothers_push(team: Team, line: str, theirs: str) -> None:
    for space in ("b", "c"):
        team.runs(space, "git fetch" if space == "b" else "ls", namespace=space)
        team.runs("a", theirs, namespace=space)
    for who in ("b", "c"):  # one session that had read before, and one that has never read
        decision = team.ask(who, line, namespace=who)
        assert decision.verdict is Verdict.ALLOW


@pytest.mark.parametrize("push", ["git push", "git push origin main", "git push -u origin HEAD"])
@pytest.mark.parametrize("look", [*LOOKS[:1], *LOOKS[2:]])
def test_push_is_paused_unless_the_remote_was_read(team: Team, look: str, push: str) -> None:
    team.runs("b", look)
    team.runs("a", "git push origin main")
    assert team.ask("b", push).verdict is Verdict.CONFIRM
    team.runs("b", look)
    assert team.ask("b", push).verdict is Verdict.ALLOW


def test_own_push_does_not_count_as_a_read_of_later_pushes(team: Team) -> None:
    team.runs("b", "git pull --rebase && git push")
    team.runs("a", "git fetch && git push")
    assert [one.kind.value for one in team.ask("b", "git push").conflicts] == ["stale"]
    assert team.ask("b", FORCE).verdict is Verdict.BLOCK


def test_reads_from_two_worktrees_are_of_one_remote_and_count_for_their_own_session(team: Team) -> None:
    one: dict[str, Any] = {"cwd": "/wt/one", "worktree": Worktree("/wt/one", REPO)}
    two: dict[str, Any] = {"cwd": "/wt/two", "worktree": Worktree("/wt/two", REPO)}
    team.runs("a", "git push origin shared", **one)
    assert team.ask("b", "git push origin shared", **two).verdict is Verdict.CONFIRM
    team.runs("b", "git fetch", **two)
    assert team.ask("b", "git push origin shared", **two).verdict is Verdict.ALLOW
    team.runs("b", "git push", **two)
    assert team.ask("a", "git push", **one).verdict is Verdict.ALLOW, "two worktrees are never on one branch"


def test_two_pushes_after_a_pull_are_distinguished_from_a_force_push(team: Team) -> None:
    running = team.ask("a", FORCE)
    assert team.ask("b", "git pull --rebase && git push origin main").verdict is Verdict.BLOCK
    team.gate.complete("a", id=running.id, outcome="done")
    team.runs("b", "git pull --rebase && git push origin main")
    assert team.ask("a", FORCE).verdict is Verdict.BLOCK, "b pushed after a's last look"


def test_branch_name_with_a_slash_belongs_to_its_remote(team: Team) -> None:
    team.runs("a", "git push --force origin topic/one")
    assert not team.ask("b", "git push --force origin topic/one").proceed
    team.runs("b", "git fetch")
    assert team.ask("b", "git push --force origin topic/one").proceed


@pytest.mark.parametrize(
    ("key", "remote"),
    [
        ("git:/r|remote:origin/main", "git:/r|remote:origin"),
        ("git:/r|remote:origin/topic/one", "git:/r|remote:origin"),
        ("git:/r|remote:origin/", "git:/r|remote:origin"),
        ("git:/r|remote:origin", ""),
        ("git:/r|remote:https://example.com/a/b/main", "git:/r|remote:https://example.com/a/b"),
        ("git:/r|remote:git@example.com:a/b/main", "git:/r|remote:git@example.com:a/b"),
        ("git:/r|remote:../other/main", "git:/r|remote:../other"),
        ("git:/r|remotes", ""),
        ("doc:x|remote:origin/main", ""),
        ("git:/r|HEAD", ""),
    ],
)
def test_remote_of_a_branch(key: str, remote: str) -> None:
    assert remote_of(key) == remote


def test_read_marks_of_a_remote_are_on_a_key_that_causes_no_conflict(team: Team) -> None:
    """Two sessions that push to two branches share only the key of their reads, to which each appends."""
    team.runs("a", "git push origin one")
    assert team.ask("b", "git push --force origin two").verdict is Verdict.ALLOW
    entry = team.gate.entries(limit=1)[0]
    assert [(key.name, key.mode) for key in entry.keys][-1] == (f"git:{REPO}|remote:origin", Mode.APPEND)
