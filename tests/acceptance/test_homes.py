"""``~``, ``$HOME`` and ``~user`` mean a folder: what is spelled so meets the absolute path, through every way in."""

import getpass
import json
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from callosum.client import CallosumClient
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.hosts.script import script_of
from callosum.model import Call, Decision
from callosum.retrospect.recorded_calls import call_of
from callosum.rulebook import Rulebook
from callosum.settings import Settings
from callosum.sockets import socket_path
from callosum.worktree import located
from tests.acceptance.test_hooks import Hook
from tests.acceptance.test_stdio import child
from tests.support.mcpwrap import text_of, wrapped
from tests.support.previous import Previous
from tests.support.serving import Server, serving

HOME = "/home/x"
SPELLINGS = [
    {"command": "echo z > ~/notes.md"}, {"command": "echo z > $HOME/notes.md"},
    {"command": 'echo z > "${HOME}/notes.md"'}, {"command": "cd && echo z > notes.md"},
    {"command": "cd ~/work/.. && echo z > notes.md"}, {"command": "echo z > ~/../x/notes.md"},
    {"file_path": "~/notes.md", "content": "z"}, {"file_path": "$HOME/notes.md", "content": "z"},
    {"path": "~/./notes.md", "content": "z"},
]  # fmt: skip


def call(params: dict[str, Any], who: str = "b", **more: Any) -> Call:
    tool = "Bash" if "command" in params else "Write" if "file_path" in params else "write_file"
    return Call(who, tool, params, pause=True, **more)


def write(path: str, who: str = "a") -> Call:
    return Call(who, "Write", {"file_path": path, "content": "what a wrote"})


def decision_on_second(ask: Callable[[Call], Decision], first: Call, second: Call) -> Decision:
    """The answer to the second call while the first runs: what is over, and left no file, is in nobody's way."""
    assert ask(first).proceed
    return ask(second)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOME", HOME)
    return HOME


@pytest.mark.parametrize("params", SPELLINGS, ids=lambda params: next(iter(params.values())))
def test_each_spelling_of_a_home_meets_the_absolute_path(home: str, tmp_path: Path, params: dict[str, Any]) -> None:
    absolute = write(f"{home}/notes.md")
    for number, (one, other) in enumerate(((absolute, call(params)), (call(params), absolute))):
        with LocalGate(tmp_path / str(number)) as gate:
            first, second = replace(one, instance="first"), replace(other, instance="second")
            decision = decision_on_second(gate.intercept, first, second)
            assert f"file:{home}/notes.md" in decision.context_keys
            assert decision.conflicts


def test_other_files_of_a_home_are_left_alone(home: str, tmp_path: Path) -> None:
    others = ["~/other.md", "./~/notes.md", "~nobody-here/notes.md", "/home/y/notes.md"]
    with LocalGate(tmp_path / "state") as gate:
        for number, path in enumerate(others):
            second = call({"file_path": path, "content": "z"}, f"b{number}", cwd="/w")
            assert not decision_on_second(gate.intercept, write(f"{home}/notes.md", f"a{number}"), second).conflicts


def test_home_of_another_user_is_looked_up_on_this_machine(home: str, tmp_path: Path) -> None:
    user = getpass.getuser()
    where = pwd.getpwnam(user).pw_dir
    for params in ({"command": f"echo z > ~{user}/notes.md"}, {"file_path": f"~{user}/notes.md", "content": "z"}):
        with LocalGate(tmp_path / next(iter(params))) as gate:
            assert decision_on_second(gate.intercept, write(f"{where}/notes.md"), call(params)).conflicts
            entry = gate.entries(limit=10)[-1]
            assert entry.body["home"] == home
            assert entry.body["homes"] == {user: where}
            again = call_of(entry)
            assert again is not None
            assert (again.home, again.homes) == (home, {user: where})


def test_client_sends_its_home_to_the_server(home: str, server: Server) -> None:
    with CallosumClient(server.address) as client:
        decision = decision_on_second(client.intercept, write(f"{home}/notes.md"), call(SPELLINGS[0]))
    assert [one.key for one in decision.conflicts] == [f"file:{home}/notes.md"]


def test_server_uses_no_home_of_its_own_for_a_client_that_sends_none(server: Server) -> None:
    body = {"instance": "c", "tool": "Bash", "params": {"command": "echo z > ~/plain.md"}, "cwd": "/w"}
    assert server.post("/intercept", body)["contextKeys"] == ["file:~/plain.md"]
    body |= {"instance": "d", "home": "/home/d"}
    assert server.post("/intercept", body)["contextKeys"][0] == "file:/home/d/plain.md"


def test_hook_sends_the_home_of_its_host(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state, "--socket", socket_path(state)):  # whose own home is another one
        hook = Hook(state, environ={"HOME": HOME})
        assert hook.before("A", "Write", {"file_path": f"{HOME}/notes.md", "content": "a"}, "A1").denied == ""
        assert f"file:{HOME}/notes.md" in hook.before("B", "Bash", SPELLINGS[0]).denied


@pytest.mark.parametrize("odd", ["/home/ann & bob", "relative", "", '/x"; touch /tmp/y; "', "/home/a%20b", "/home/é"])
def test_hook_sends_no_home_that_its_query_could_not_hold(tmp_path: Path, odd: str) -> None:
    state = tmp_path / "state"
    with serving(state, "--socket", socket_path(state)):
        hook = Hook(state, environ={"HOME": odd})
        said = hook.before("B", "Bash", SPELLINGS[0])
        assert (said.code, said.out) == (0, b"")


def test_hook_script_runs_in_a_plain_shell(tmp_path: Path) -> None:
    script = tmp_path / "hook"
    script.write_text(script_of(Settings(state=tmp_path)))
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0


def test_gate_over_standard_input_knows_the_home(home: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    with child(state, HOME=home) as gate:
        first = {"instance": "a", "tool": "Write", "params": {"file_path": f"{home}/notes.md", "content": "a"}}
        gate.ask("intercept", **first)
        answer = gate.ask("intercept", instance="b", tool="Bash", params=SPELLINGS[0], pause=True)
    assert answer["conflicts"][0]["key"] == f"file:{home}/notes.md"


def test_wrapped_server_of_a_command_knows_the_home(server: Server, tmp_path: Path) -> None:
    environ = {"CALLOSUM_URL": server.address, "CALLOSUM_NAMESPACE": "wrapped", "HOME": HOME}
    params = {"path": "~/notes.md", "content": "z"}
    server.post(
        "/intercept",
        {"instance": "a", "namespace": "wrapped", "tool": "Write", "params": {"file_path": f"{HOME}/notes.md"}},
    )
    with wrapped(tmp_path / "state", "--name", "files", "--instance", "b", "--session", "s", environ=environ) as client:
        assert f"file:{HOME}/notes.md" in text_of(client.call("write_file", params))


def test_home_is_added_only_to_calls_that_mention_one(home: str) -> None:
    assert located(Call("a", "Read", {"file_path": "/x/y"})).home is None
    assert located(Call("a", "Write", {"file_path": "/x", "content": "~" * 5000})).home is None
    assert located(Call("a", "Bash", {"command": "ls ~"})).home == home
    assert located(Call("a", "Bash", {"command": "ls ~"}, home="/said")).home == "/said"
    assert located(Call("a", "call_tool", {"arguments": {"path": "~/x"}})).home == home


@pytest.mark.parametrize("home", ["relative", "", "/h\n"])
def test_home_that_is_no_path_is_not_sent(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setenv("HOME", home)
    found = located(Call("a", "Bash", {"command": "ls ~"})).home
    assert found is None or Path(found).is_absolute()


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ({"home": ""}, "home"),
        ({"home": 5}, "home"),
        ({"home": "/" + "x" * 5000}, "home"),
        ({"home": "/h\n"}, "home"),
        ({"homes": {"u": ""}}, "homes.u"),
        ({"homes": {"": "/h"}}, "homes"),
        ({"homes": ["/h"]}, "homes"),
        ({"homes": {str(number): "/h" for number in range(100)}}, "homes"),
        ({"worktrees": {"/a": {"root": "", "repository": "/a"}}}, "worktrees./a.root"),
        ({"worktrees": {"": None}}, "worktrees"),
    ],
)
def test_invalid_home_or_folder_is_refused_with_its_field(server: Server, said: Any, at: str) -> None:
    answer = server.ask("POST", "/intercept", {"instance": "c", "tool": "Bash", "params": {"command": "ls ~"}, **said})
    assert (answer.status, answer.body["at"]) == (400, at)


def test_embedded_gate_refuses_a_home_that_is_no_text(tmp_path: Path) -> None:
    with LocalGate(tmp_path / "state") as gate, pytest.raises(ConfigError) as error:
        gate.intercept(Call("c", "Bash", {"command": "ls"}, home=5))  # type: ignore[arg-type]
    assert error.value.at == "home"


def test_secret_in_a_home_is_in_no_key_and_no_journal(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4" * 5
    with LocalGate(tmp_path / "state") as gate:
        asked = Call("c", "Bash", {"command": "echo z > ~/notes.md"}, home=f"/home/{secret}")
        assert secret not in json.dumps(gate.intercept(asked).context_keys)
        assert secret not in repr(gate.entries(limit=10))


def test_keys_spelled_by_the_previous_version_are_written_too(previous: Previous) -> None:
    calls: list[dict[str, Any]] = [
        {"tool": "Bash" if "command" in one else "Write", "params": one, "cwd": "/w"}
        for one in (*SPELLINGS[:5], {"file_path": "~/notes.md"}, {"command": "rm -r ~/build"})
    ]
    rules = Rulebook(None, secret=b"s" * 32).current()
    for asked, (names, _) in zip(calls, previous.classify(calls), strict=True):
        now = [key.name for key in rules.classify(Call("mira", home=HOME, **asked)).keys]
        assert set(names) <= set(now), asked
        assert now[0].startswith(f"file:{HOME}/")
