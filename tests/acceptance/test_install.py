"""Test ``callosum install`` and ``uninstall`` as a new user runs them, in a home with settings of others."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from callosum.cli import install as install_cli
from callosum.client.fallback import load_table
from callosum.gate import LocalGate
from callosum.hosts.install import TARGETS
from callosum.hosts.native import client_path
from callosum.hosts.refusal import BEFORE
from callosum.model import Call
from callosum.server.listeners import running
from tests.acceptance.command import at_terminal, environment, run
from tests.support import hooks
from tests.support.world import InstanceGate

SETTINGS = {
    "claude-code": ".claude/settings.json", "codex": ".codex/hooks.json", "gemini": ".gemini/settings.json",
    "openclaw": ".openclaw/openclaw.json",
}  # fmt: skip
FOREIGN = {
    "claude-code": '{\n    "model": "opus",\n    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]}\n}',
    "codex": '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "lint"}]}]}}\n',
    "gemini": '{\n\t"security": {"auth": {"selectedType": "gemini-api-key"}}\n}\n',
    "openclaw": '{"gateway": {"port": 18989}, "plugins": {"allow": ["memory"], "entries": {"memory": {"enabled": true}}}}',
}


class Home:
    """A user's home with a state folder in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run(self.state, *words, env={"HOME": str(self.folder)})

    def path(self, host: str) -> Path:
        return self.folder / SETTINGS[host]

    def write(self, host: str, content: str) -> Path:
        path = self.path(host)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("host", SETTINGS)
def test_uninstall_restores_the_original_settings(home: Home, host: str) -> None:
    path = home.write(host, FOREIGN[host])
    dry = home.run("install", host, "--dry-run")
    assert (dry.returncode, path.read_text()) == (0, FOREIGN[host]), dry
    assert f"+++ {path}" in dry.stdout
    assert not home.state.exists(), "showing writes nothing at all"

    done = home.run("install", host, "--yes")
    assert (done.returncode, "Done." in done.stdout) == (0, True), done
    written = json.loads(path.read_text())
    assert "callosum" in str(written)
    for name, value in json.loads(FOREIGN[host]).items():
        if name not in ("hooks", "plugins"):
            assert written[name] == value
    assert home.state.stat().st_mode & 0o777 == 0o700
    assert load_table(home.state / "fallback.json")["Read"] == 0, "the first call of all can be judged without a gate"
    assert hooks.installed(home.state).exists() is (host != "openclaw")

    again = home.run("install", host, "--yes")
    assert (again.returncode, again.stdout.startswith("Nothing to do")) == (0, True), again
    out = home.run("uninstall", host, "--yes")
    assert (out.returncode, path.read_text()) == (0, FOREIGN[host]), out
    assert home.run("uninstall", host, "--yes").stdout.startswith("Nothing to do")


class Entries:
    """Run the hooks in a host's settings as the host does: those of an event whose matcher fits the tool."""

    def __init__(self, home: Home, host: str) -> None:
        self.home, self.host = home, host
        self.hooks = json.loads(home.path(host).read_text())["hooks"]

    def tell(self, event: str, session: str, tool: str, **fields: Any) -> str:
        payload = {"hook_event_name": event, "session_id": session, "cwd": "/repo", "prompt_id": "p1", **fields}
        answers = ""
        for group in self.hooks.get(event, ()):
            matcher = group.get("matcher", "*")
            for hook in group["hooks"] if matcher in ("", "*") or re.search(matcher, tool) else ():
                command = [hook["command"], *hook["args"]] if "args" in hook else ["/bin/sh", "-c", hook["command"]]
                done = subprocess.run(
                    command, input=json.dumps({**payload, "tool_name": tool}), env=environment(self.home.state),
                    capture_output=True, text=True, timeout=60, check=True,
                )  # fmt: skip
                answers += done.stdout
        return answers


@pytest.fixture
def local_gate_ends(home: Home) -> Iterator[None]:
    """Stop the gate that the first hook of a home starts."""
    yield
    for server in running(home.state):
        with suppress(ProcessLookupError):
            os.kill(server.process.pid, signal.SIGTERM)


@pytest.mark.parametrize("host", BEFORE)
@pytest.mark.usefixtures("local_gate_ends")
def test_sessions_of_an_installed_host_are_warned_about_each_other(home: Home, host: str) -> None:
    """Nothing but the command was run: the settings as installed start the gate, and carry calls and reports."""
    done = home.run("install", host, "--yes")
    assert done.returncode == 0, done
    entries = Entries(home, host)
    before, after = BEFORE[host], "AfterTool" if host == "gemini" else "PostToolUse"
    read, write = ("read_file", "write_file") if host == "gemini" else ("Read", "Write")
    for session, tool in (("A", read), ("B", write)):
        fields = {"tool_input": {"file_path": "/repo/a.py", "content": session}, "tool_use_id": f"{session}1"}
        assert entries.tell(before, session, tool, **fields) == ""
        assert entries.tell(after, session, tool, **fields, tool_response="ok") == ""
    stale = {"tool_input": {"file_path": "/repo/a.py", "content": "2"}, "tool_use_id": "A2"}
    warned = entries.tell(before, "A", write, **stale)
    assert f"[Callosum] Conflict: {host}/B " in warned
    assert "file:/repo/a.py" in warned


def test_install_asks_at_a_terminal_and_follows_the_answer(home: Home) -> None:
    env = {"HOME": str(home.folder)}
    no = at_terminal(home.state, "install", "codex", keys=(("Write this?", "n\n"),), env=env)
    assert (no.code, "Nothing was written." in no.text, home.path("codex").exists()) == (1, True, False), no
    yes = at_terminal(home.state, "install", "codex", keys=(("Write this?", "y\n"),), env=env)
    assert (yes.code, home.path("codex").exists()) == (0, True), yes
    assert "/hooks" in yes.text, "only the user can review them, and is told how"


def test_install_without_a_terminal_writes_nothing(home: Home) -> None:
    done = home.run("install", "gemini")
    assert (done.returncode, "Say --yes." in done.stderr, home.path("gemini").exists()) == (1, True, False), done


def test_project_settings_are_changed_on_request(home: Home) -> None:
    project = home.folder / "repo"
    project.mkdir()
    home.run("install", "claude-code", "--project", str(project), "--yes")
    path = project / ".claude" / "settings.json"
    assert ("callosum-hook" in path.read_text(), home.path("claude-code").exists()) == (True, False)
    home.run("uninstall", "claude-code", "--yes")
    assert not path.exists(), "it is found again without being named"


def test_over_http_some_events_stay_commands(home: Home) -> None:
    home.path("claude-code").parent.mkdir(parents=True, exist_ok=True)
    home.path("claude-code").write_text("{}")
    shown = home.run("install", "claude-code", "--http", "http://127.0.0.1:7700/", "--yes").stdout
    hooks = json.loads(home.path("claude-code").read_text())["hooks"]
    asked = hooks["PreToolUse"][0]["hooks"][0]
    assert (asked["type"], asked["onFailure"]) == ("http", "block")
    assert asked["url"] == "http://127.0.0.1:7700/hooks/claude-code?via=callosum-hook"
    assert home.path("claude-code").stat().st_mode & 0o777 == 0o600, "it holds the machine's own token"
    assert '"Authorization": ' in shown
    assert asked["headers"]["Authorization"].removeprefix("Bearer ") not in shown
    assert {hooks[event][0]["hooks"][0]["type"] for event in ("SessionStart", "ConfigChange")} == {"command"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("claude",), "did you mean claude-code?"),
        (("emacs",), "known are claude-code, codex, gemini, openclaw, mcp"),
        (("gemini", "--http", "http://127.0.0.1:7700"), "gemini has no HTTP hooks"),
        (("claude-code", "--http", "7700"), "expected the address of a server"),
        (("openclaw", "--project", "."), "no settings of projects"),
        (("codex", "x.json", "--project", "."), "name one of them"),
        (("mcp",), "name the settings file: callosum install mcp FILE"),
        (("mcp", "none.json"), "there are no MCP servers in it"),
    ],
)
def test_impossible_options_are_refused_with_a_reason(home: Home, words: tuple[str, ...], says: str) -> None:
    done = home.run("install", *words, "--yes")
    assert (done.returncode, says in done.stderr) == (2, True), done
    assert not home.state.exists()


def test_switched_off_plugins_are_not_switched_on(home: Home) -> None:
    home.write("openclaw", '{"plugins": {"enabled": false}}')
    done = home.run("install", "openclaw", "--yes")
    assert (done.returncode, "plugins are switched off" in done.stderr) == (2, True), done


def test_unusable_rules_are_reported_before_anything_is_set_up(home: Home) -> None:
    home.state.mkdir(mode=0o700)
    (home.state / "tiers.json").write_text("{")
    done = home.run("install", "codex", "--yes")
    assert (done.returncode, "tiers.json" in done.stderr, home.path("codex").exists()) == (2, True, False), done


def test_mcp_servers_are_wrapped_and_restored(home: Home) -> None:
    servers: dict[str, Any] = {
        "files": {"command": "npx", "args": ["-y", "server-files", "/srv"]},
        "old": {"type": "sse", "url": "http://127.0.0.1:1/sse"},
        "socket": {"type": "ws", "url": "ws://127.0.0.1:1/"},
    }
    path = home.folder / "mcp.json"
    path.write_text(before := json.dumps({"mcpServers": servers}))
    done = home.run("install", "mcp", str(path), "--yes")
    assert done.returncode == 0, done
    assert "socket stays without the gate: its type is not known: ws." in done.stdout
    assert f"CALLOSUM_STATE={home.state}" in done.stdout, "a state folder of one's own is the host's business"
    made = json.loads(path.read_text())["mcpServers"]
    assert "old stays without the gate: it speaks the HTTP+SSE transport of 2024" in " ".join(done.stdout.split())
    assert (made["socket"], made["old"]) == (servers["socket"], servers["old"])
    command = [made["files"]["command"], *made["files"]["args"]]
    assert command[-6:] == ["files", "--", "npx", "-y", "server-files", "/srv"]
    started = subprocess.run(  # the host's command exists from whichever folder it starts
        [*command[: command.index("mcp")], "--version"],
        env={**environment(home.state), "PATH": "/usr/bin:/bin"}, cwd="/", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert started.stdout.startswith("callosum ")
    assert home.run("uninstall", "mcp", "--yes").returncode == 0
    assert path.read_text() == before


def test_files_are_readable_by_the_user_alone(home: Home) -> None:
    home.run("install", "claude-code", "--yes")
    modes = {path.name: path.stat().st_mode & 0o777 for path in home.state.iterdir()}
    native = {"callosum-hook-native": 0o700, "callosum-hook-native.conf": 0o600}
    assert modes == {
        **(native if client_path() else {"callosum-hook": 0o700}),
        "installed.json": 0o600,
        "fallback.json": 0o600,
        "machine.token": 0o600,
    }
    assert home.path("claude-code").stat().st_mode & 0o777 == 0o600


def test_summary_precedes_the_diff(home: Home) -> None:
    path = home.write("claude-code", FOREIGN["claude-code"])
    lines = home.run("install", "claude-code", "--dry-run").stdout.splitlines()
    difference = lines.index(f"--- {path}")
    added = sum(line.startswith("+") for line in lines) - 1
    assert 1 <= difference <= 3
    assert lines[0].startswith(f"{path}: changes, {added} lines in, ")
    assert "hooks.PreToolUse" in lines[0]
    assert home.run("install", "gemini", "--dry-run").stdout.startswith(f"{home.path('gemini')}: is created, ")


@pytest.mark.parametrize("host", SETTINGS)
def test_settings_with_comments_are_refused_with_the_entries_to_add(home: Home, host: str) -> None:
    plain = json.loads(FOREIGN[host])
    commented = (
        "// mine: https://example.com\n" + FOREIGN[host].rstrip().removesuffix("}") + ', /* "x": 1 */ "u": "a//b",\n}'
    )
    path = home.write(host, commented)
    done = home.run("install", host, "--yes")
    assert (done.returncode, path.read_text()) == (2, commented), done
    assert "by hand" in done.stderr
    entries = json.loads(done.stdout[done.stdout.index("{") :])
    path.write_text(FOREIGN[host])
    assert home.run("install", host, "--yes").returncode == 0
    expected = json.loads(path.read_text())
    for name, value in entries.items():
        assert all(expected[name][key] == one for key, one in value.items())
        plain[name] = {**plain.get(name, {}), **value}
    assert plain == expected, "what it names is all there is to add"


def test_host_names_are_completed_by_the_shell(home: Home) -> None:
    for command in ("install", "uninstall"):
        words = {"COMP_WORDS": f"callosum {command} c", "COMP_CWORD": "2", "_CALLOSUM_COMPLETE": "complete_bash"}
        assert run(home.state, env=words).stdout.split() == ["claude-code", "codex"]
    assert install_cli._HOSTS == TARGETS


def test_install_observe_stops_nothing_and_report_shows_what_would_have_been_stopped(home: Home) -> None:
    env = {"HOME": str(home.folder)}
    refused = at_terminal(home.state, "install", "codex", "--observe", "--yes", env=env | {"CLAUDECODE": "1"})
    assert (refused.code, home.path("codex").exists()) == (4, False), refused
    assert home.run("report").returncode == 1
    done = at_terminal(home.state, "install", "codex", "--observe", "--yes", env=env)
    assert (done.code, "only observes until" in done.text, home.path("codex").exists()) == (0, True, True), done
    assert "observing only until" in home.run("status").stdout
    with InstanceGate(home.state) as gate:
        for number in range(20):
            gate.intercept(Call("doug", "read", {"path": f"/doc/{number}"}))
        for who, text in (("mira", "yes, I will come"), ("doug", "no, I cannot")):
            params = {"action": "send", "target": "andy", "replyTo": "m1", "message": text}
            assert gate.intercept(Call(who, "message", params, pause=True)).proceed
        gate.lock("mira", "file:/srv/app/x", tier=4)
        assert gate.intercept(Call("doug", "Bash", {"command": "rm -rf /srv/app"}, cwd="/home")).proceed
        canary = Call("codex", "Bash", {"command": "callosum off"}, session="callosum-doctor")
        assert gate.intercept(canary).proceed, "32 B.3: the report leaves it out"
    shown = home.run("report").stdout
    assert "Of 23 calls, 1 would have been paused, 1 blocked; here they are." in shown
    for word in ("The gate only observes until", "thread:andy:m1", "file:/srv/app/", "mira held it"):
        assert word in shown, shown
    found = json.loads(home.run("report", "--json").stdout)
    assert (found["calls"], found["wouldHavePaused"], found["wouldHaveBlocked"], found["paused"]) == (23, 1, 1, 0)
    assert [(one["session"], one["verdict"], one["observed"]) for one in found["listed"]] == [
        ("doug", "block", True),
        ("doug", "confirm", True),
    ]
    assert home.run("report", "--since", "2099-01-01").returncode == 1


def test_report_counts_stopped_calls_apart_from_would_be_stopped_calls(home: Home) -> None:
    home.state.mkdir(mode=0o700)
    with LocalGate(home.state) as gate:
        gate.lock("mira", "file:/srv/app/x", tier=4)
        assert not gate.intercept(Call("doug", "Bash", {"command": "rm -rf /srv/app"}, cwd="/home")).proceed
    shown = home.run("report").stdout
    assert "Of 1 calls, 0 were paused, 1 blocked; here it is." in shown
    assert "would have been paused" not in shown


def test_observe_applies_only_to_the_local_gate(home: Home) -> None:
    done = home.run("install", "claude-code", "--http", "http://127.0.0.1:7700", "--observe", "--yes")
    assert (done.returncode, "--observe: " in done.stderr) == (2, True), done
