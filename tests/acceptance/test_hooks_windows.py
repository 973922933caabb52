"""Test hooks on Windows: the real client under Wine asks a real shared server over TLS with a token."""

import json
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from callosum.client.fallback import load_table
from callosum.hosts import native
from callosum.hosts.install import install, plan_install
from callosum.hosts.native import windows
from callosum.hosts.remote import RemoteServer, folder_of, greet, tend
from callosum.hosts.setup import InstallTarget
from callosum.server.tokens import FILE as TOKENS
from callosum.server.tokens import Tokens
from callosum.settings import Settings
from tests.acceptance.test_hooks_remote import MAIL, MAILS, Machine, Team, certificate, served, team_in
from tests.support.cpu import HANG
from tests.support.serving import serving, until
from tests.support.wine import IS_HERE, WHY_NOT, Wine

__all__ = ["certificate", "served"]
pytestmark = [pytest.mark.skipif(not IS_HERE, reason=WHY_NOT), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]) -> Iterator[Wine]:
    made = Wine(tmp_path_factory.mktemp("wine"))
    made.trust(certificate[0])
    yield made
    made.end()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the client as the wheel for Windows contains it."""
    from release.client import build  # noqa: PLC0415 - it needs the compiler

    return build("windows-x86_64", tmp_path_factory.mktemp("client"))


class WindowsMachine(Machine):
    """One machine of the team, whose hook is the client for Windows."""

    def __init__(self, folder: Path, team: Team, wine: Wine, built: Path, patched: pytest.MonkeyPatch) -> None:
        super().__init__(folder, team)
        self.wine, self.patched = wine, patched
        patched.setattr(native, "client_path", lambda: built)
        token_fault = windows.token_fault
        runs_in_wine = folder / "runs-in-wine"
        runs_in_wine.write_text(f'#!/bin/sh\ncd / && WINEPREFIX={wine.environ["WINEPREFIX"]} exec wine {built} "$@"\n')
        runs_in_wine.chmod(0o700)
        patched.setattr(windows, "token_fault", lambda _, token: token_fault(runs_in_wine, token))
        self.settings = Settings(state=self.state, namespace=self.namespace)
        self.remote = RemoteServer(url=team.url, token_file=str(self.token_file))

    @contextmanager
    def windows(self) -> Iterator[None]:
        """Make the installation treat this machine as Windows, except for the certificate, which is given."""
        with self.patched.context() as patched:
            patched.setattr(windows, "is_here", lambda: True)
            patched.setenv("SSL_CERT_FILE", str(self.team.cert))
            yield

    def set_up(self, host: str = "claude-code") -> dict[str, Any]:
        """Install the hooks of a host and return its entries."""
        with self.windows():
            plan = plan_install(host, self.settings, InstallTarget(home=self.home, environ={}, remote=self.remote))
            install(plan, self.settings)
        (change,) = plan.changes
        found: dict[str, Any] = json.loads(change.path.read_bytes())["hooks"]
        return found

    def ask(self, payload: Any, *words: str) -> subprocess.CompletedProcess[bytes]:
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        return self.wine.run(self.state / "callosum-hook-claude-code.exe", *(words or ("claude-code",)), input=body)

    def tell(
        self, event: str, session: str = "A", tool: str = "", params: Any = None, id: str = "", **more: Any
    ) -> str:
        payload = {"hook_event_name": event, "session_id": session, "cwd": "C:\\repo", "prompt_id": "p1", **more}
        if tool:
            payload |= {"tool_name": tool, "tool_input": params, "tool_use_id": id or f"{tool}-{time.monotonic_ns()}"}
        settings = json.loads((self.home / ".claude" / "settings.json").read_text())
        hook = settings["hooks"][event][0]["hooks"][0]
        done = self.wine.run(hook["command"], *hook["args"], input=json.dumps(payload).encode())
        assert done.returncode == 0, done
        return done.stdout.decode()


@pytest.fixture
def ann(tmp_path: Path, served: Team, wine: Wine, built: Path, monkeypatch: pytest.MonkeyPatch) -> WindowsMachine:
    made = WindowsMachine(tmp_path / "ann", served, wine, built, monkeypatch)
    made.set_up()
    return made


def test_two_sessions_sending_one_mail_conflict(ann: WindowsMachine) -> None:
    assert ann.tell("PreToolUse", "A", MAILS, MAIL, "a1") == ""
    refused = json.loads(ann.tell("PreToolUse", "B", MAILS, MAIL, "b1"))["hookSpecificOutput"]
    assert refused["permissionDecision"] == "deny"
    assert "claude-code/A" in refused["permissionDecisionReason"]
    ann.tell("PostToolUse", "A", MAILS, MAIL, "a1", tool_response="sent")
    ann.tell("PreToolUse", "A", "Read", {"file_path": "C:\\repo\\a.py"}, "a2")
    batch = [{"tool_use_id": "a2", "tool_name": "Read", "tool_response": "one"}]
    ann.tell("PostToolBatch", "A", tool_calls=batch)  # a separate process delivers it
    ended = [("claude-code/A", MAILS, "done"), ("claude-code/A", "Read", "done")]
    until(
        lambda: (
            [(one["session"], one["tool"], one["outcome"]) for one in ann.journal() if one["event"] == "complete"]
            == ended
        )
    )


def test_long_payload_reaches_the_server(ann: WindowsMachine) -> None:
    long = {"file_path": "C:\\repo\\a.py", "content": "x" * 1_000_000}
    assert ann.tell("PreToolUse", "A", "Write", long) == ""
    assert [entry["tool"] for entry in ann.journal()] == ["Write"]


def test_unreachable_server_lets_only_reads_pass(
    tmp_path: Path, certificate: tuple[Path, Path], wine: Wine, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = team_in(tmp_path, certificate)
    with serving(team.state, *team.options):
        ann = WindowsMachine(tmp_path / "ann", team, wine, built, monkeypatch)
        ann.set_up()
    assert ann.tell("PreToolUse", "A", "Read", {"file_path": "C:\\repo\\a.py"}) == ""
    assert ann.tell("Stop", "A") == ""
    for tool, params, tier in (
        (MAILS, MAIL, 3),
        ("Bash", {"command": "cat a.py"}, 4),
        ("Read", {"_tier": 4}, 4),
        ("Write", {"file_path": "C:\\Users\\ann\\.claude\\settings.json", "content": "{}"}, 3),
        ("Write", {"file_path": "C:\\Users\\ann\\CLAUDE~1\\settings.json", "content": "{}"}, 3),
    ):
        refused = json.loads(ann.tell("PreToolUse", "A", tool, params))["hookSpecificOutput"]
        assert refused["permissionDecision"] == "deny"
        reason = refused["permissionDecisionReason"]
        assert f"The gate is unreachable and {tool} may have tier {tier}" in reason
        assert team.url in reason
    assert ann.tell("PreToolUse", "A", "Write", {"file_path": "C:\\repo\\a.py", "content": "1"}) == ""


def test_server_with_an_untrusted_certificate_is_not_asked(
    tmp_path: Path, wine: Wine, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.certificates import certificate_in  # noqa: PLC0415

    team = team_in(tmp_path, certificate_in(tmp_path / "another"))
    with serving(team.state, *team.options):
        ann = WindowsMachine(tmp_path / "ann", team, wine, built, monkeypatch)
        ann.set_up()
        assert "The gate is unreachable" in ann.tell("PreToolUse", "A", MAILS, MAIL)
        assert ann.journal() == []


def test_token_readable_by_others_is_not_sent(ann: WindowsMachine) -> None:
    ann.token_file.chmod(0o644)
    assert "The gate is unreachable" in ann.tell("PreToolUse", "A", MAILS, MAIL)
    assert ann.journal() == []
    with ann.windows(), pytest.raises(Exception, match="others can read it"):
        greet(ann.remote, ann.settings, "claude-code")
    ann.token_file.chmod(0o600)
    assert ann.tell("PreToolUse", "A", MAILS, MAIL) == ""


def test_revoked_token_blocks_risky_calls(ann: WindowsMachine) -> None:
    Tokens(ann.team.state / TOKENS).remove(ann.name)
    refused = until(lambda: ann.tell("PreToolUse", "A", MAILS, {**MAIL, "to": f"{time.monotonic_ns()}@example.com"}))
    assert "The gate is unreachable" in refused


def test_hung_server_is_not_asked_for_a_while(ann: WindowsMachine) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        beside = ann.state / "callosum-hook-claude-code.exe.conf"
        text = beside.read_text()
        ours = [line for line in text.splitlines() if line.startswith("port ")]
        beside.write_text(text.replace(ours[0], f"port {port}"))
        began = time.monotonic()
        assert "The gate is unreachable" in ann.tell("PreToolUse", "A", MAILS, MAIL)
        assert 2.9 < time.monotonic() - began < HANG
        silent.accept()[0].close()
        silent.setblocking(False)
        assert "The gate is unreachable" in ann.tell("PreToolUse", "A", MAILS, MAIL)
        with pytest.raises(BlockingIOError):
            silent.accept()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"tool_name": "Read"', b"\xff"])
def test_unreadable_payload_does_not_run(ann: WindowsMachine, body: bytes) -> None:
    (ann.state / "callosum-hook-claude-code.exe.conf").write_bytes(b"broken")
    done = ann.ask(body)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"nothing runs" in done.stderr
    assert ann.ask({"hook_event_name": "Stop"}).returncode == 0
    assert ann.ask({"hook_event_name": "PreToolUse"}).returncode == 2


def test_file_of_this_machine_is_inspected_by_python(ann: WindowsMachine) -> None:
    """In two halves, for Wine waits for no program that is not one of Windows: the line, and what the client does with it."""
    beside = ann.state / "callosum-hook-claude-code.exe.conf"
    (line,) = [one for one in beside.read_text().splitlines() if one.startswith("here ")]
    local = ann.home / "settings.local.json"
    payload = {"hook_event_name": "ConfigChange", "session_id": "A", "cwd": "/", "file_path": str(local)}
    for settings, refused in (({"model": "opus"}, False), ({"disableAllHooks": True}, True)):
        local.write_text(json.dumps(settings))
        words = shlex.split(line)[1:]
        done = subprocess.run(words, input=json.dumps(payload).encode(), capture_output=True, timeout=60, check=True)
        assert (b"block" in done.stdout) == refused
    text = beside.read_text()
    ann.token_file.chmod(0o644)  # so the client itself, run as the started program, refuses what it reads
    program = f"{ann.state / 'callosum-hook-claude-code.exe'} claude-code"
    mail = {**payload, "hook_event_name": "PreToolUse", "tool_name": MAILS, "tool_input": MAIL}
    for does, code, said in ((program, 0, b"deny"), ("cmd.exe /C exit 1", 2, b""), ("none.exe", 2, b"")):
        beside.write_text(text.replace(line, f"here {does}"))
        done = ann.ask(mail, "claude-code", "here")
        assert done.returncode == code, done
        assert said in done.stdout


def test_client_gets_the_newest_table(ann: WindowsMachine) -> None:
    path = folder_of(ann.state, "claude-code") / windows.TIERS
    written = path.read_bytes()
    assert written == windows.tiers(load_table(path.with_name("fallback.json")))
    path.unlink()
    assert "The gate is unreachable" not in ann.tell("PreToolUse", "A", "Read", {"file_path": "a"})
    with ann.windows():
        tend(str(ann.state), "claude-code")
    assert path.read_bytes() == written


def test_settings_name_the_client_and_no_shell(ann: WindowsMachine) -> None:
    program = str(ann.state / "callosum-hook-claude-code.exe")
    settings = json.loads((ann.home / ".claude" / "settings.json").read_text())
    for groups in settings["hooks"].values():
        assert groups[0]["hooks"][0]["command"] == program
    codex = ann.set_up("codex")["PreToolUse"][0]["hooks"][0]["command"]
    assert codex.startswith(f"{ann.state / 'callosum-hook-codex.exe'} codex || (echo")
    done = ann.wine.run("cmd.exe", "/C", codex, input=b'{"hook_event_name": "PreToolUse"}')
    # Wine's cmd runs the part after `||` even after a success, so its exit code proves nothing here.
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    (ann.state / "callosum-hook-codex.exe").unlink()
    done = ann.wine.run("cmd.exe", "/C", codex, input=b"{}")
    assert done.returncode == 2
    assert b"the hook failed, so nothing runs (see callosum doctor)" in done.stderr
