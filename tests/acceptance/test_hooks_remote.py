"""Test hooks that ask a shared server over TLS with a token: real scripts, real curl, a real server."""

import json
import os
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from callosum.client import CallosumClient
from callosum.errors import ConfigError
from callosum.hosts.install import plan_install
from callosum.hosts.remote import remote_of
from callosum.hosts.setup import InstallTarget
from callosum.server.tokens import FILE as TOKENS
from callosum.server.tokens import Tokens
from callosum.settings import Settings
from callosum.sockets import socket_path
from tests.acceptance.command import run
from tests.support.certificates import certificate_in
from tests.support.serving import serving, until

MAIL = {"to": "bob@example.com", "subject": "Lunch", "body": "Shall we meet at noon on Friday for lunch?"}
MAILS = "mcp__mail__send_email"


class Team(NamedTuple):
    """A server's URL, its state folder, its options and its certificate."""

    url: str
    state: Path
    options: tuple[str, ...]
    cert: Path


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate_in(tmp_path_factory.mktemp("tls"))


def team_in(folder: Path, certificate: tuple[Path, Path]) -> Team:
    cert, key = certificate
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("--port", str(port), "--tls-cert", str(cert), "--tls-key", str(key))
    return Team(f"https://localhost:{port}", folder / "server", options, cert)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]) -> Iterator[Team]:
    team = team_in(tmp_path_factory.mktemp("team"), certificate)
    with serving(team.state, *team.options):
        yield team


def _takes_the_token(client: CallosumClient) -> bool:
    """Return True if the server accepts the token. It rereads its tokens only now and then."""
    try:
        client.health()
    except ConfigError:
        return False
    return True


class Machine:
    """One machine of the team with its own home and token. Each test has its own namespace."""

    def __init__(self, folder: Path, team: Team, instance: str | None = None) -> None:
        self.team, self.state, self.home = team, folder / "state", folder
        folder.mkdir()
        self.namespace = folder.parent.name
        self.name = f"{folder.name}-{self.namespace}"[:60]
        self.token = Tokens(team.state / TOKENS).add(self.name, instance=instance)
        self.token_file = folder / "token"
        self.token_file.write_text(f"{self.token}\n")
        self.token_file.chmod(0o600)
        self.environ = {**os.environ, "HOME": str(folder)}
        with CallosumClient(team.url, token=self.token, cafile=team.cert, deadline=10) as client:
            until(partial(_takes_the_token, client))

    def callosum(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run(self.state, *words, env={"HOME": str(self.home)})

    def install(self, *more: str, host: str = "claude-code") -> subprocess.CompletedProcess[str]:
        words = ("--url", self.team.url, "--token-file", str(self.token_file), "--cacert", str(self.team.cert))
        return self.callosum("install", host, "--yes", "--namespace", self.namespace, *words, *more)

    def tell(
        self, event: str, session: str = "A", tool: str = "", params: Any = None, id: str = "", **more: Any
    ) -> str:
        """Return the answer of an event's entry, called as Claude Code calls it."""
        settings = json.loads((self.home / ".claude" / "settings.json").read_text())
        hook = settings["hooks"][event][0]["hooks"][0]
        payload = {"hook_event_name": event, "session_id": session, "cwd": "/repo", "prompt_id": "p1", **more}
        if tool:
            payload |= {"tool_name": tool, "tool_input": params, "tool_use_id": id or f"{tool}-{time.monotonic_ns()}"}
        done = subprocess.run(
            [hook["command"], *hook["args"]],
            input=json.dumps(payload), env=self.environ, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return done.stdout

    def doctor(self) -> dict[str, tuple[str, str]]:
        found = json.loads(self.callosum("doctor", "--json", "--namespace", self.namespace).stdout)["findings"]
        return {one["check"]: (one["level"], one["says"]) for one in found}

    def journal(self) -> list[dict[str, Any]]:
        """Return the server's journal entries of this namespace, oldest first."""
        words = ("journal", "--last", "0", "--json", "--namespace", self.namespace)
        return [json.loads(line) for line in run(self.team.state, *words).stdout.splitlines()]


@pytest.fixture
def ann(tmp_path: Path, served: Team) -> Machine:
    made = Machine(tmp_path / "ann", served)
    done = made.install()
    assert done.returncode == 0, done
    return made


def test_two_machines_sending_one_mail_conflict(tmp_path: Path, ann: Machine) -> None:
    bob = Machine(tmp_path / "bob", ann.team)
    assert bob.install().returncode == 0
    assert ann.tell("PreToolUse", "A", MAILS, MAIL, "a1") == ""
    refused = bob.tell("PreToolUse", "B", MAILS, MAIL, "b1")
    assert json.loads(refused)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "claude-code/A" in refused
    ann.tell("PostToolUse", "A", MAILS, MAIL, "a1", tool_response="sent")
    ann.tell("PreToolUse", "A", "Read", {"file_path": "/repo/a.py"}, "a2")
    batch = [{"tool_use_id": "a2", "tool_name": "Read", "tool_response": "one"}]
    ann.tell("PostToolBatch", "A", tool_calls=batch)  # nobody waits for it
    ended = [("claude-code/A", MAILS, "done"), ("claude-code/A", "Read", "done")]
    until(
        lambda: (
            [
                (entry["session"], entry["tool"], entry["outcome"])
                for entry in ann.journal()
                if entry["event"] == "complete"
            ]
            == ended
        )
    )
    assert not list(ann.state.glob("gate.db*")), "no gate of its own"
    assert not Path(socket_path(ann.state)).exists()


def test_token_appears_in_no_process_list(tmp_path: Path, ann: Machine) -> None:
    curl, seen = shutil.which("curl"), tmp_path / "seen"
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "curl").write_text(f'#!/bin/sh\n(printf "%s\\n" "$@"; env) >> {seen}\nexec {curl} "$@"\n')
    (tools / "curl").chmod(0o755)
    script = ann.state / "callosum-hook-claude-code"
    script.write_text(script.read_text().replace(str(curl), str(tools / "curl")))
    ann.tell("PreToolUse", "A", "Read", {"file_path": "/repo/a.py"})
    assert [entry["tool"] for entry in ann.journal()] == ["Read"]
    assert ann.team.url in seen.read_text()
    assert ann.token not in seen.read_text()
    for path in (ann.state / "callosum-hook-claude-code", ann.state / "remote" / "claude-code" / "remote.json"):
        assert ann.token not in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_file_of_this_machine_is_inspected_on_this_machine(ann: Machine) -> None:
    """The server cannot see the file, and reads no path that another machine names."""
    local = ann.home / "settings.local.json"
    local.write_text('{"model": "opus"}')
    assert ann.tell("ConfigChange", "A", source="local_settings", file_path=str(local)) == ""
    local.write_text('{"disableAllHooks": true}')
    assert (
        json.loads(ann.tell("ConfigChange", "A", source="local_settings", file_path=str(local)))["decision"] == "block"
    )
    own = ann.home / ".claude" / "settings.json"
    kept = json.loads(own.read_text())
    own.write_text("{}")
    settings = kept["hooks"]["ConfigChange"][0]["hooks"][0]
    asked = {"hook_event_name": "ConfigChange", "session_id": "A", "cwd": "/repo", "file_path": str(own)}
    done = subprocess.run(
        [settings["command"], *settings["args"]], input=json.dumps(asked), env=ann.environ, capture_output=True,
        text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "remove the gate's hooks" in done.stdout
    assert not [entry for entry in ann.journal() if entry["event"] == "host"]


def test_revoked_token_blocks_risky_calls(ann: Machine) -> None:
    assert ann.tell("PreToolUse", "A", MAILS, MAIL) == ""
    Tokens(ann.team.state / TOKENS).remove(ann.name)
    until(lambda: ann.tell("PreToolUse", "A", MAILS, {**MAIL, "to": f"{time.monotonic_ns()}@example.com"}))
    refused = ann.tell("PreToolUse", "A", MAILS, {**MAIL, "to": "carol@example.com"})
    assert "The gate refused to judge" in refused
    assert "this token is not in force" in refused
    assert ann.tell("PreToolUse", "A", "Read", {"file_path": "/repo/a.py"}) == ""
    level, says = ann.doctor()["claude-code server"]
    assert level == "wrong"
    assert "token" in says


def test_calls_during_an_outage_of_the_server_are_spooled(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    team = team_in(tmp_path, certificate)
    with serving(team.state, *team.options):
        ann = Machine(tmp_path / "ann", team)
        assert ann.install().returncode == 0
        found = ann.doctor()
        assert found["claude-code entries"][0] == found["claude-code canary"][0] == "ok"
        assert found["claude-code server"] == ("ok", f"{team.url} answers and takes the token")
        assert "gate" not in found
    assert ann.tell("PreToolUse", "A", "Read", {"file_path": "/repo/a.py"}) == ""
    assert "The gate is unreachable" in ann.tell("PreToolUse", "A", MAILS, MAIL)
    assert not Path(socket_path(ann.state)).exists(), "no other gate is started in its place"
    found = ann.doctor()
    assert found["claude-code server"][0] == found["claude-code canary"][0] == "wrong"
    with serving(team.state, *team.options):
        ann.tell("UserPromptSubmit", "A", prompt="Go on")
        late = until(lambda: [entry for entry in ann.journal() if entry["event"] == "late"])
        assert [(entry["session"], entry["tool"]) for entry in late] == [("claude-code/A", "Read")]


def test_server_learns_of_spooled_calls_before_it_decides_the_next_event(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    team = team_in(tmp_path, certificate)
    push = {"command": "git push --force origin main"}
    with serving(team.state, *team.options):
        ann = Machine(tmp_path / "ann", team)
        assert ann.install().returncode == 0
        assert ann.tell("PreToolUse", "A", "Bash", push, "a1") == ""
        assert ann.tell("PreToolUse", "B", "Read", {"file_path": "/repo/a.py"}) == ""
    assert ann.tell("PreToolUse", "A", "Write", {"file_path": "/repo/a.py", "content": "1"}) == ""
    ann.tell("PostToolUse", "A", "Bash", push, "a1", tool_response={"stdout": "ok"})
    spool = ann.state / "remote" / "claude-code" / "late.jsonl"
    until(lambda: spool.exists() and '"report"' in spool.read_text())
    with serving(team.state, *team.options):
        stopped = ann.tell("PreToolUse", "B", "Write", {"file_path": "/repo/a.py", "content": "2"})
        assert "claude-code/A is changing" in stopped, stopped
        assert not spool.exists()
        pushes = [entry for entry in ann.journal() if entry["tool"] == "Bash"]
        assert [entry.get("outcome") for entry in pushes] == [None, "done"]
        (late,) = [entry for entry in ann.journal() if entry["event"] == "late"]
        assert late["keys"] == [["file:/repo/a.py", "write"]]


def test_token_for_one_instance_requires_its_name(tmp_path: Path, served: Team) -> None:
    mira = Machine(tmp_path / "mira", served, instance="mira")
    refused = mira.install()
    assert refused.returncode == 2, refused
    assert "another instance" in refused.stderr
    assert not (mira.home / ".claude").exists(), "nothing was written"
    (mira.home / "callosum.toml").write_text('instance = "mira"\n')
    done = mira.install("--config", str(mira.home / "callosum.toml"))
    assert done.returncode == 0, done
    mira.tell("PreToolUse", "A", "Read", {"file_path": "/repo/a.py"})
    assert [entry["session"] for entry in mira.journal()] == ["mira/A"]


def test_invalid_options_are_refused_before_anything_is_written(tmp_path: Path, served: Team) -> None:
    ann = Machine(tmp_path / "ann", served)
    settings, here = Settings(state=ann.state), InstallTarget(home=ann.home, environ={})
    token, cert = ann.token_file, served.cert

    def says(url: str, token: Path | None = token, cert: Path | None = cert, host: str = "claude-code") -> str:
        with pytest.raises(ConfigError) as refused:
            plan_install(host, settings, replace(here, remote=remote_of(url, token, cert)))
        return str(refused.value)

    assert "use https" in says("http://gate.example.com")
    assert "name the file" in says(served.url, token=None)
    assert "certificate" in says(served.url, cert=None)
    assert "file not found" in says(served.url, cert=ann.home / "none")
    assert '"mode": "remote"' in says(served.url, host="openclaw")
    assert "is unreachable" in says("https://localhost:9")
    with pytest.raises(ConfigError, match="--url"):
        plan_install("claude-code", settings, replace(here, url="https://gate.example.com"))
    ann.token_file.chmod(0o644)
    assert "chmod 600" in says(served.url)
    ann.token_file.chmod(0o600)
    ann.token_file.write_text("cal_ann_wrong")
    assert "token" in says(served.url)
    refused = ann.callosum("install", "claude-code", "--yes", "--token-file", str(ann.token_file))
    assert (refused.returncode, "name it with --url" in refused.stderr) == (2, True), refused
    assert not (ann.home / ".claude").exists()


def test_installing_without_url_returns_to_the_local_gate(ann: Machine) -> None:
    assert ann.callosum("install", "claude-code", "--yes").returncode == 0
    settings = (ann.home / ".claude" / "settings.json").read_text()
    assert "callosum-hook-claude-code" not in settings
    assert "callosum-hook" in settings
    assert ann.install(host="codex").returncode == 0, "each host asks where it was told to"
    assert "callosum-hook-codex" in (ann.home / ".codex" / "hooks.json").read_text()
