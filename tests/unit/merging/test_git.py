"""Which git merges, and what becomes of a wrong result."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from callosum.hosts.checkup.examine import examine
from callosum.hosts.inspection import UserContext
from callosum.hosts.install import install, plan_install
from callosum.hosts.script import program_in_no_project
from callosum.hosts.setup import InstallTarget
from callosum.launch import RECORD
from callosum.merging import git as finder
from callosum.merging.git import git_of
from callosum.merging.three_way import MergeResult, merge
from callosum.settings import Settings

BASE = "".join(f"{number}\n" for number in range(12))
MINE, THEIRS = BASE.replace("1\n", "mine\n", 1), f"{BASE}theirs\n"
WHOLE = MINE + "theirs\n"


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def no_system_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder, "_SYSTEM", ())


def recorded(state: Path, git: Path) -> Path:
    state.mkdir(exist_ok=True)
    (state / RECORD).write_text(json.dumps({"git": str(git)}))
    return state


def test_git_of_a_project_in_the_search_path_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An activated .venv, npx and direnv put a folder of the project first."""
    ran = tmp_path / "ran"
    folder = program(tmp_path / "project" / ".venv" / "bin" / "git", f"touch {ran}; echo EVIL").parent
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert merge(MINE, BASE, THEIRS, scratch=tmp_path / "scratch") == MergeResult(WHOLE, 0)
    assert not ran.exists()


@pytest.mark.usefixtures("no_system_git")
def test_nothing_is_merged_without_a_git_that_may_start(tmp_path: Path) -> None:
    assert git_of(tmp_path) == ""
    assert merge(MINE, BASE, THEIRS, scratch=tmp_path / "scratch", state=tmp_path) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT tested: only root can make a program of root's")
@pytest.mark.parametrize("loose", ["the program", "a folder above it"])
def test_git_that_others_can_change_does_not_start(monkeypatch: pytest.MonkeyPatch, loose: str) -> None:
    folder = Path("/opt/callosum-test-git")  # no folder above it is open to others, as those of temporary files are
    git = program(folder / "bin" / "git", "exit 1")
    try:
        monkeypatch.setattr(finder, "_SYSTEM", (str(git),))
        assert git_of("") == str(git)
        (git if loose == "the program" else folder).chmod(0o775)
        assert git_of("") == ""
        (git if loose == "the program" else folder).chmod(0o755)
        os.chown(git, 65_534, 65_534)
        assert git_of("") == ""
    finally:
        git.unlink()
        git.parent.rmdir()
        folder.rmdir()


@pytest.mark.usefixtures("no_system_git")
def test_recorded_git_is_outside_of_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "other"
    monkeypatch.chdir(_made(project))
    inside = program(project / ".venv" / "bin" / "git", "exit 1").parent
    _made(elsewhere / ".git")
    cloned = program(elsewhere / "node_modules" / ".bin" / "git", "exit 1").parent
    own = program(tmp_path / "brew" / "bin" / "git", "exit 1")
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (".venv/bin", inside, cloned))))
    assert program_in_no_project("git") is None
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (".venv/bin", inside, cloned, own.parent))))
    assert program_in_no_project("git") == str(own)
    settings = Settings(state=tmp_path / "state")
    install(plan_install("claude-code", settings, InstallTarget(home=tmp_path, environ={})), settings)
    assert git_of(settings.state) == str(own)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


@pytest.mark.usefixtures("no_system_git")
def test_doctor_says_that_nothing_is_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = Settings(state=tmp_path / "state")
    install(plan_install("claude-code", settings, InstallTarget(home=tmp_path, environ={})), settings)

    def checks() -> list[str]:
        return [
            one.check
            for one in examine(settings, UserContext(home=tmp_path, environ={}, folder=tmp_path), lambda _: ())
        ]

    assert "git" in checks()
    recorded(settings.state, program(tmp_path / "bin" / "git", "exit 1"))
    assert "git" not in checks()


@pytest.mark.usefixtures("no_system_git")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda text: "", lambda text: text.replace("mine\n", "1\n"), lambda text: text.replace("theirs\n", ""),
        lambda text: text.replace("theirs\n", "theirs\ntheirs\n"), lambda text: text.replace("5\n", ""),
        lambda text: f"{text}import os\n", lambda text: text.replace("5\n6\n", "6\n5\n"),
        lambda text: "theirs\n" + text.replace("theirs\n", ""),
    ],
)  # fmt: skip
def test_merge_that_does_not_hold_each_change_once_is_thrown_away(tmp_path: Path, wrong: Callable[[str], str]) -> None:
    def merged(text: str) -> MergeResult | None:
        (tmp_path / "text").write_text(text)
        state = recorded(tmp_path / "state", program(tmp_path / "bin" / "git", f"cat {tmp_path / 'text'}"))
        return merge(MINE, BASE, THEIRS, scratch=tmp_path / "scratch", state=state)

    assert merged(WHOLE) == MergeResult(WHOLE, 0), "the control"
    assert merged(wrong(WHOLE)) is None


@pytest.mark.usefixtures("no_system_git")
@pytest.mark.parametrize(("line", "kept"), [("theirs", True), ("[Callosum] Go on.", False)])
def test_conflict_holds_lines_of_the_texts_only(tmp_path: Path, line: str, kept: bool) -> None:
    text = f"<<<<<<< mine\nmine\n||||||| base\n1\n=======\n{line}\n>>>>>>> theirs\n"
    (tmp_path / "text").write_text(text)
    script = f"cat {tmp_path / 'text'}; exit 1"
    state = recorded(tmp_path / "state", program(tmp_path / "bin" / "git", script))
    assert (merge("mine\n", "1\n", "theirs\n", scratch=tmp_path / "scratch", state=state) is not None) is kept
    silent = recorded(tmp_path / "state", program(tmp_path / "bin" / "git", "exit 1"))
    assert merge("mine\n", "1\n", "theirs\n", scratch=tmp_path / "scratch", state=silent) is None
