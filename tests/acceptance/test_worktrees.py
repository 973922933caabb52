"""Test sessions in several worktrees of one repository, with real git.

Files are separate; refs, stash and remotes are shared.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callosum import worktree
from callosum.client import CallosumClient
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.model import Call, Decision, Worktree
from callosum.retrospect.recorded_calls import call_of
from callosum.worktree import located, worktree_of
from tests.support.serving import serving

Ask = Callable[[Call], Decision]


def git(folder: Path, *words: str) -> None:
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, *words], cwd=folder, env=quiet, check=True, capture_output=True, timeout=60)


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    worktree._known.clear()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with a commit, and worktrees of it in two folders with unrelated names."""
    assert shutil.which("git"), "these tests need git"
    main = tmp_path / "shop"
    main.mkdir()
    git(main, "init", "-b", "main")
    (main / "src").mkdir()
    (main / "src" / "app.py").write_text("x = 1\n")
    git(main, "add", "-A")
    git(main, "commit", "-m", "first")
    git(main, "worktree", "add", "-b", "one", str(tmp_path / "one"))
    git(main, "worktree", "add", "-b", "two", str(tmp_path / "elsewhere" / "two"))
    return main


def test_worktree_of_a_folder_is_found(repository: Path, tmp_path: Path) -> None:
    name = str(Path(os.path.realpath(repository)))
    one, two = tmp_path / "one", tmp_path / "elsewhere" / "two"
    assert worktree_of(str(repository)) == Worktree(str(repository), name)
    assert worktree_of(str(repository / "src")) == Worktree(str(repository), name)
    assert worktree_of(str(one / "src")) == Worktree(str(one), name)
    assert worktree_of(f"{two}/src/..") == Worktree(str(two), name)
    assert worktree_of(str(tmp_path)) is None
    assert worktree_of("src") is None
    assert worktree_of(f"{tmp_path}/a\0b") is None


def test_bare_repository_submodule_and_link_are_found(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--bare", str(repository), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", str(tmp_path / "of-bare"), "main")
    found = worktree_of(str(tmp_path / "of-bare"))
    assert found == Worktree(str(tmp_path / "of-bare"), os.path.realpath(tmp_path / "bare.git"))
    git(repository, "submodule", "add", str(tmp_path / "bare.git"), "lib")
    found = worktree_of(str(repository / "lib"))
    assert found == Worktree(str(repository / "lib"), os.path.realpath(repository / ".git" / "modules" / "lib"))
    (tmp_path / "link").symlink_to(tmp_path / "one")
    found = worktree_of(str(tmp_path / "link" / "src"))
    assert found == Worktree(str(tmp_path / "link"), os.path.realpath(repository))


@pytest.mark.parametrize("content", [b"", b"gitdir:", b"gitdir: a\nb", b"gitdir: \0", b"\xff\xfe", b"x" * 100_000])
def test_malformed_git_file_gives_no_worktree(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)
    assert worktree_of(str(tmp_path)) is None


def test_folder_is_read_again_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert worktree_of(str(tmp_path)) is None
    git(tmp_path, "init")
    assert worktree_of(str(tmp_path)) is None  # the cached result counts for a while
    monkeypatch.setattr(worktree, "KEPT", 0.0)
    worktree._known.clear()
    assert worktree_of(str(tmp_path)) == Worktree(str(tmp_path), os.path.realpath(tmp_path))
    shutil.rmtree(tmp_path / ".git")
    assert worktree_of(str(tmp_path)) is None


def test_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worktree, "_MOST", 8)
    for number in range(100):
        worktree_of(f"/nowhere/{number}")
        assert len(worktree._known) <= 8


def test_worktree_reported_by_the_host_is_kept(tmp_path: Path) -> None:
    said = Call("a", "Bash", cwd=str(tmp_path), worktree=Worktree("/r", "/r"))
    assert located(said) is said
    bare = Call("a", "Bash")
    assert located(bare) is bare


def story(ask: Ask, complete: Callable[..., Any], repository: Path, tmp_path: Path) -> None:
    """Check which actions of two sessions in separate worktrees conflict and which do not."""
    one, two = str(tmp_path / "one"), str(tmp_path / "elsewhere" / "two")

    def bash(who: str, command: str, cwd: str) -> Decision:
        decision = ask(Call(who, "Bash", {"command": command}, cwd=cwd, pause=True))
        if decision.proceed:
            assert complete(who, id=decision.id).ok
        return decision

    assert bash("a", "git stash", one).proceed
    assert bash("b", "git stash", f"{two}/src").proceed  # each removes its own
    told = bash("a", "git stash pop", f"{one}/src")
    assert (told.proceed, told.conflicts[0].key) == (False, f"git:{os.path.realpath(repository)}|stash")
    assert bash("a", "git commit -am mine", one).proceed
    assert bash("b", "git commit -am mine", two).proceed  # each has its own HEAD and index
    assert bash("a", "git push", one).proceed
    assert bash("b", "git push", two).proceed  # of another branch
    assert bash("a", "git push origin shared", one).proceed
    assert not bash("b", "git push origin shared", two).proceed
    assert bash("a", "touch src/app.py", one).proceed
    assert bash("b", "touch src/app.py", two).proceed
    assert bash("a", "alembic upgrade head", one).proceed
    assert not bash("b", "alembic upgrade head", two).proceed  # one database for both


def test_sessions_in_worktrees_of_one_repository_do_not_conflict(repository: Path, tmp_path: Path) -> None:
    with LocalGate(tmp_path / "state") as gate:
        story(gate.intercept, gate.complete, repository, tmp_path)
        entry = gate.entries(limit=1)[0]
        assert entry.body["worktree"] == {"root": str(tmp_path / "one"), "repository": os.path.realpath(repository)}
        again = call_of(entry)
        assert again is not None
        assert again.worktree == worktree_of(str(tmp_path / "one"))


def test_sessions_in_worktrees_do_not_conflict_through_a_server(repository: Path, tmp_path: Path) -> None:
    """The server reads no folder that a client names. The client, which has the disk, reports the contents."""
    with serving(tmp_path / "state") as server, CallosumClient(server.address) as client:
        story(client.intercept, client.complete, repository, tmp_path)
        call = {"instance": "c", "tool": "Bash", "params": {"command": "git stash drop"}, "cwd": str(tmp_path / "one")}
        assert server.ask("POST", "/intercept", call).body["contextKey"] == f"git:{tmp_path / 'one'}|stash"
        call["worktree"] = {"root": str(tmp_path / "one"), "repository": "/named"}
        call["instance"] = "d"
        assert server.ask("POST", "/intercept", call).body["contextKey"] == "git:/named|stash"


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ({"root": "", "repository": "/r"}, "worktree.root"),
        ({"root": "/r"}, "worktree.repository"),
        ({"root": "/r", "repository": 3}, "worktree.repository"),
        ({"root": "/r", "repository": "/" + "x" * 5000}, "worktree.repository"),
        ({"root": "/r\n", "repository": "/r"}, "worktree.root"),
        ("/r", "worktree"),
    ],
)
def test_malformed_worktree_is_refused_with_its_field(served: Any, said: Any, at: str) -> None:
    call = {"instance": "c", "tool": "Bash", "params": {"command": "ls"}, "cwd": "/r", "worktree": said}
    answer = served.ask("POST", "/intercept", call)
    assert (answer.status, answer.body["at"]) == (400, at)


def test_malformed_worktree_is_refused_by_the_embedded_gate(tmp_path: Path) -> None:
    with LocalGate(tmp_path / "state") as gate, pytest.raises(ConfigError, match="worktree") as error:
        gate.intercept(Call("c", "Bash", {"command": "ls"}, worktree="/r"))  # type: ignore[arg-type]
    assert error.value.at == "worktree"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving(tmp_path_factory.mktemp("served") / "state") as server:
        yield server
