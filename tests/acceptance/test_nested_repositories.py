"""The folder that a git command runs in decides whose repository it changes, wherever the session works.

With a real git: nested repositories, submodules, worktrees, a bare one, and projects in a plain folder.
"""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callosum import worktree
from callosum.client import CallosumClient
from callosum.gate import LocalGate
from callosum.model import Call, Worktree
from callosum.process import this_process
from callosum.retrospect.recorded_calls import call_of
from callosum.sockets import socket_path
from callosum.worktree import located, worktree_of
from tests.acceptance.test_hooks import Hook
from tests.acceptance.test_worktrees import git
from tests.support.cpu import slowness
from tests.support.serving import serving

FORCE = "git push --force"


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    worktree._known.clear()


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain folder with ``shop`` (which holds ``inner``, ``lib`` and ``src``), ``blog`` and ``bare.git``; ``tree``
    is another worktree of ``shop``."""
    folder = tmp_path_factory.mktemp("projects")
    for name in ("shop", "blog"):
        (folder / name / "src").mkdir(parents=True)
        git(folder / name, "init", "-b", "main")
        (folder / name / "src" / "app.py").write_text("x = 1\n")
        git(folder / name, "add", "-A")
        git(folder / name, "commit", "-m", "first")
    (folder / "plain").mkdir()
    git(folder, "clone", "--bare", "blog", "bare.git")
    git(folder / "shop", "worktree", "add", "-b", "other", str(folder / "tree"))
    git(folder / "shop", "submodule", "add", str(folder / "bare.git"), "lib")
    (folder / "shop" / "inner").mkdir()
    git(folder / "shop" / "inner", "init", "-b", "main")
    return folder


def keys(gate: LocalGate, command: str, cwd: Path | str, who: str = "a", **more: Any) -> tuple[str, ...]:
    return gate.explain(Call(who, "Bash", {"command": command}, cwd=str(cwd), **more))[1].context_keys


WAYS = [
    "cd shop && git push --force", "git -C shop push --force", "(cd shop; git push --force)",
    "pushd shop > /dev/null; git push --force; popd", "bash -c 'cd shop && git push --force'",
    'sh -c "git -C shop push --force"', "cd shop/src && git push --force",
    "cd blog && cd ../shop && git push --force", "D=shop; git -C $D push --force",
    "git -C blog -C ../shop push --force", "GIT_DIR=shop/.git git push --force",
    "git --git-dir=shop/.git push --force", "git --git-dir shop/.git --work-tree shop push --force",
    "env GIT_DIR=shop/.git git push --force", "export GIT_DIR=$PWD/shop/.git; git push --force",
    "GIT_DIR=shop/.git GIT_WORK_TREE=shop git push --force", "cd blog; cd -; cd shop; git push --force",
    "if cd shop; then git push --force; fi", "sudo -u bob git -C shop push --force",
    "timeout 60 git -C ./shop/src/.. push --force",
]  # fmt: skip


@pytest.mark.parametrize("command", WAYS)
def test_every_way_into_a_nested_repository_gives_the_key_of_that_repository(
    projects: Path, tmp_path: Path, command: str
) -> None:
    shop = projects / "shop"
    with LocalGate(tmp_path / "state") as gate:
        assert keys(gate, command, projects)[0] == keys(gate, FORCE, shop)[0] == f"git:{shop}|remote:origin/"


def test_force_pushes_of_one_repository_from_two_folders_are_not_both_run(projects: Path, tmp_path: Path) -> None:
    with LocalGate(tmp_path / "state") as gate:
        first = gate.intercept(Call("a", "Bash", {"command": "cd shop && git push --force"}, cwd=str(projects)))
        second = gate.intercept(Call("b", "Bash", {"command": FORCE}, cwd=str(projects / "shop" / "src")))
    assert (first.proceed, second.proceed) == (True, False)
    assert "held" in {one.kind.value for one in second.conflicts}


@pytest.mark.parametrize(
    ("command", "root"),
    [
        ("cd inner && git commit -am x", "shop/inner"),
        ("git -C lib commit -am x", "shop/lib"),
        ("git -C lib/sub/folder commit -am x", "shop/lib"),
        ("cd src && git commit -am x", "shop"),
        ("cd ../blog && git commit -am x", "blog"),
        ("cd ../tree/src && git commit -am x", "tree"),
        ("cd ../plain && git commit -am x", "plain"),
        ("cd inner && git status && cd .. && git commit -am x", "shop"),
        ("pushd inner; git status; popd; git commit -am x", "shop"),
        ("(cd inner && git status); git commit -am x", "shop"),
        ("GIT_DIR=inner/.git git status; git commit -am x", "shop"),
        ("git clone /srv/z new && cd new && git commit -am x", "shop/new"),
        ("mkdir fresh && cd fresh && git init && git commit -am x", "shop/fresh"),
    ],
)
def test_commit_has_the_key_of_the_repository_it_runs_in(
    projects: Path, tmp_path: Path, command: str, root: str
) -> None:
    with LocalGate(tmp_path / "state") as gate:
        found = keys(gate, command, projects / "shop")
    heads = [key for key in found if key.endswith("|HEAD")]
    assert f"git:{projects / root}|HEAD" == heads[0]


def test_submodule_shares_its_own_refs_and_not_those_of_its_superproject(projects: Path, tmp_path: Path) -> None:
    shop = projects / "shop"
    with LocalGate(tmp_path / "state") as gate:
        module = os.path.realpath(shop / ".git" / "modules" / "lib")
        assert keys(gate, "cd lib && git stash drop", shop)[0] == f"git:{module}|stash"
        assert keys(gate, "git stash drop", shop / "lib")[0] == f"git:{module}|stash"
        assert keys(gate, "git stash drop", shop)[0] == f"git:{os.path.realpath(shop)}|stash"
        each = gate.intercept(Call("a", "Bash", {"command": f"git submodule foreach '{FORCE}'"}, cwd=str(shop)))
        assert each.proceed
        for number, folder in enumerate(("lib", "inner")):
            met = gate.intercept(Call(f"b{number}", "Bash", {"command": FORCE}, cwd=str(shop / folder)))
            assert not met.proceed
        assert gate.intercept(Call("c", "Bash", {"command": FORCE}, cwd=str(shop))).proceed, "it is no submodule"


def test_worktree_below_another_folder_shares_the_stash_of_its_repository(projects: Path, tmp_path: Path) -> None:
    with LocalGate(tmp_path / "state") as gate:
        name = os.path.realpath(projects / "shop")
        assert keys(gate, "cd tree && git stash drop", projects)[0] == f"git:{name}|stash"
        assert keys(gate, "git -C tree commit -am x", projects)[0] == f"git:{projects / 'tree'}|HEAD"


def test_projects_below_a_plain_folder_do_not_collide(projects: Path, tmp_path: Path) -> None:
    acts = ("git commit -am x", "git stash", "git push --force", "git reset --hard", "git checkout -b y", "git add -A")
    with LocalGate(tmp_path / "state") as gate:
        for act in acts:
            for form in ("cd {} && {}", "(cd {} && {})", "pushd {}; {}; popd"):
                for who, repo in (("a", "shop"), ("b", "blog"), ("c", "plain")):
                    call = Call(who, "Bash", {"command": form.format(repo, act)}, cwd=str(projects), pause=True)
                    decision = gate.intercept(call)
                    assert decision.proceed, (call, decision.warning)
                    gate.complete(who, id=decision.id)


def test_git_tool_that_names_its_folder_uses_the_repository_there(projects: Path, tmp_path: Path) -> None:
    with LocalGate(tmp_path / "state") as gate:
        for place in ("shop/inner", str(projects / "shop" / "inner"), "shop/inner/"):
            asked = Call("a", "git_commit", {"repo_path": place, "message": "x"}, cwd=str(projects))
            assert gate.explain(asked)[1].context_keys[0] == f"git:{projects / 'shop' / 'inner'}|HEAD"
        asked = Call("a", "git_commit", {"repo_path": str(projects / "shop" / "src"), "message": "x"}, cwd="/w")
        assert gate.explain(asked)[1].context_keys[0] == f"git:{projects / 'shop'}|HEAD"


def test_command_whose_tool_names_its_folder_uses_the_repository_there(projects: Path, tmp_path: Path) -> None:
    with LocalGate(tmp_path / "state") as gate:
        asked = Call("a", "exec", {"command": FORCE, "workdir": "shop/src"}, cwd=str(projects))
        assert gate.explain(asked)[1].context_keys == (f"git:{projects / 'shop'}|remote:origin/",)


def test_client_inspects_folders_and_its_server_does_not(projects: Path, tmp_path: Path) -> None:
    command = {"command": "cd shop/src && git push --force"}
    with serving(tmp_path / "state") as server, CallosumClient(server.address) as client:
        asked = Call("a", "Bash", command, cwd=str(projects))
        assert client.intercept(asked).context_keys == (f"git:{projects / 'shop'}|remote:origin/",)
        said = {"instance": "b", "tool": "Bash", "params": command, "cwd": str(projects)}
        assert server.post("/intercept", said)["contextKeys"] == [f"git:{projects}|remote:origin/"]
        told = {f"{projects}/shop/src": {"root": "/told", "repository": "/told"}}
        said |= {"instance": "c", "worktrees": told}
        assert server.post("/intercept", said)["contextKeys"] == ["git:/told|remote:origin/"]


def test_server_inspects_folders_for_callers_on_its_own_socket_and_not_for_a_named_process(
    projects: Path, tmp_path: Path
) -> None:
    here = this_process()
    call: dict[str, Any] = {"tool": "Bash", "params": {"command": "cd shop/src && git push -f"}, "cwd": str(projects)}
    call |= {"instance": "mira", "host": [here.pid, here.started, here.machine]}
    for options, root in ((("--socket", str(tmp_path / "socket")), projects / "shop"), ((), projects)):
        with serving(tmp_path / f"state-{len(options)}", *options) as server:
            assert server.post("/intercept", call)["contextKeys"] == [f"git:{root}|remote:origin/"]


def test_gate_inspects_folders_for_a_hook(projects: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state, "--socket", socket_path(state)):
        hook = Hook(state)
        for session, cwd, command in (
            ("A", projects, "cd shop && git push -f"),
            ("B", projects / "shop", "git push -f"),
        ):
            payload = {"hook_event_name": "PreToolUse", "session_id": session, "cwd": str(cwd), "prompt_id": "p"}
            said = hook.send(
                {**payload, "tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": session}
            )
            assert (f"git:{projects / 'shop'}|remote:origin/" in said.denied) is (session == "B")


def test_repository_lookup_is_journalled_for_replays(projects: Path, tmp_path: Path) -> None:
    with LocalGate(tmp_path / "state") as gate:
        gate.intercept(
            Call("a", "Bash", {"command": "cd shop && git stash; cd ../plain; git stash"}, cwd=str(projects))
        )
        again = call_of(gate.entries(limit=1)[0])
    assert again is not None
    shop = Worktree(str(projects / "shop"), os.path.realpath(projects / "shop"))
    assert again.worktrees == {str(projects / "shop"): shop, str(projects / "plain"): None}


def test_command_line_that_stays_in_its_folder_needs_no_lookup(projects: Path) -> None:
    for command in ("git push --force", "npm test", "cd shop && ls", "echo cd; ls", "git commit -m 'cd x && git y'"):
        assert located(Call("a", "Bash", {"command": command}, cwd=str(projects))).worktrees is None


@pytest.mark.parametrize(
    "params",
    [
        {"command": "cd " + "a/" * 5000 + " && git push"},
        {"command": "cd \0 && git push"},
        {"command": "cd $(cat x) && git push"},
        {"command": ["cd", "x"]},
        {"command": {"cd": 1}},
        {"command": "cd x && git push; " * 3000},
        {"command": "GIT_DIR= git push; GIT_DIR=$X git push; git --git-dir"},
        {"command": "popd; popd; cd -; cd -; git push"},
        {"repo_path": "\0"},
    ],
    ids=lambda params: str(params)[:30],
)
def test_odd_folders_do_no_harm(projects: Path, tmp_path: Path, params: dict[str, Any]) -> None:
    with LocalGate(tmp_path / "state") as gate:
        for tool in ("Bash", "git_commit"):
            gate.intercept(Call("a", tool, params, cwd=str(projects)))


def test_lookups_for_one_command_line_are_bounded(projects: Path) -> None:
    line = "; ".join(f"(cd d{number} && git push)" for number in range(200))
    found = located(Call("a", "Bash", {"command": line}, cwd=str(projects))).worktrees
    assert found is not None
    assert len(found) == 16


def test_git_is_never_started(projects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a program is started in the folder of an agent")

    for name in ("subprocess.Popen", "os.system", "os.posix_spawn", "os.execv"):
        monkeypatch.setattr(name, refuse)
    with LocalGate(tmp_path / "state") as gate:
        assert keys(gate, "cd shop && git push -f", projects) == (f"git:{projects / 'shop'}|remote:origin/",)


@pytest.mark.parametrize("folder", ["bare.git", "bare.git/refs"])
def test_bare_repository_is_found(projects: Path, folder: str) -> None:
    real = os.path.realpath(projects / "bare.git")
    assert worktree_of(str(projects / folder)) == Worktree(str(projects / "bare.git"), real)


def test_lookup_of_a_cached_folder_is_cheap(projects: Path) -> None:
    """At most 80 us of processor time in the median, where a usual machine takes 20."""
    call = Call("a", "Bash", {"command": "cd shop && git pull --rebase && git push"}, cwd=str(projects))

    def median(work: Callable[[], object]) -> float:
        times = []
        for _ in range(2000):
            began = time.thread_time()
            work()
            times.append(time.thread_time() - began)
        return statistics.median(times) * 1e6

    assert located(call).worktrees
    assert median(lambda: located(call)) < 80 * slowness()


def test_checkout_of_a_pull_request_moves_the_head_of_the_repository_it_runs_in(projects: Path, tmp_path: Path) -> None:
    with LocalGate(tmp_path / "state") as gate:
        assert keys(gate, "cd shop/src && gh pr checkout 5", projects) == (f"git:{projects / 'shop'}|HEAD",)


def test_call_within_a_call_uses_the_repository_of_its_own_folder(projects: Path, tmp_path: Path) -> None:
    inner = {"name": "Bash", "arguments": {"command": "cd shop/src && git push --force"}}
    with LocalGate(tmp_path / "state") as gate:
        asked = Call("a", "call_tool", inner, cwd=str(projects))
        assert f"git:{projects / 'shop'}|remote:origin/" in gate.explain(asked)[1].context_keys
