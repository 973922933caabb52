"""Test the files that an installation on Windows writes, and that the package works without Unix modules."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from callosum.errors import ConfigError
from callosum.hosts import native
from callosum.hosts.install import plan_install
from callosum.hosts.native import windows
from callosum.hosts.refusal import GUARDED, refusal
from callosum.hosts.remote import RemoteServer, remote_of
from callosum.hosts.setup import InstallTarget
from callosum.settings import Settings

STATE = Path("/srv/callosum")


def configuration(**changes: str) -> list[str]:
    server = RemoteServer(url="https://gate.example.com:8443/team", token_file="/srv/token", seconds=2.5)
    made = windows.configuration(
        STATE, STATE / "remote" / "codex", changes.get("host", "codex"), server, "via=x", patience=10, limit=18
    )
    return made.decode().splitlines()


def test_configuration_names_the_server_and_no_secret() -> None:
    lines = dict(line.split(" ", 1) for line in configuration()[1:])
    assert lines["host"] == "gate.example.com"
    assert lines["port"] == "8443"
    assert lines["secure"] == "1"
    assert lines["target"] == "/team/hooks/codex?via=x&timeoutMs=2500"
    assert (lines["milliseconds"], lines["patience"], lines["limit"]) == ("2500", "10000", "18")
    assert lines["before"] == "PreToolUse"
    assert lines["token"] == "/srv/token"
    refusal = json.loads(lines["refuse-4"])["hookSpecificOutput"]
    assert "@TOOL@ may have tier 4" in refusal["permissionDecisionReason"]


@pytest.mark.parametrize("host", ["claude-code", "codex", "gemini"])
def test_refusal_equals_that_of_the_offline_path(host: str) -> None:
    lines = dict(line.split(" ", 1) for line in configuration(host=host)[1:])
    said = lines["refuse-3"].replace("@TOOL@", "message")
    assert said.encode() == refusal(host, 3, "message", "https://gate.example.com:8443/team")


def test_guarded_words_have_short_names_too() -> None:
    words = windows.guarded(Path("C:/Users/ann/agent-state"))
    assert set(GUARDED) <= set(words)
    assert {"claude~", "codex~", "gemini~", "opencl~", "agent-~"} <= set(words)
    assert all(word == word.lower() and word for word in words)


def test_state_folder_that_is_not_ascii_guards_everything() -> None:
    assert windows.guarded(Path("/srv/Ärger")) == [""]


def test_table_lines_have_the_highest_tier_of_a_call() -> None:
    made = windows.tiers({"Read": 0, "Bash": 0, "a b": 2, "two\nlines": 0, "": 0}).decode()
    assert made == "callosum-tiers 1\n3 Bash\n0 Read\n2 a b\n"


def test_shell_lines_refuse_if_the_client_fails() -> None:
    codex = windows.closed("C:\\state\\callosum-hook-codex.exe", "codex", asks=True)
    assert codex.startswith("C:\\state\\callosum-hook-codex.exe codex || (echo ")
    assert codex.endswith("& exit 2)")
    assert '"' not in codex, "Codex would escape it in a way that cmd does not read"
    gemini = windows.closed("C:\\O'Hara\\callosum-hook-gemini.exe", "gemini", asks=True)
    assert "& 'C:\\O''Hara\\callosum-hook-gemini.exe' gemini" in gemini
    assert gemini.endswith("exit 2")
    for host in ("codex", "gemini"):
        assert "exit 0" in windows.closed("C:\\x.exe", host, asks=False)
    with pytest.raises(ConfigError, match="--state"):
        windows.closed("C:\\Users\\Ann Lee\\callosum-hook-codex.exe", "codex", asks=True)


@pytest.mark.parametrize("host", ["claude-code", "codex", "gemini"])
def test_no_local_gate_is_installed_on_windows(host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "is_here", lambda: True)
    with pytest.raises(ConfigError, match="there is no local gate on Windows"):
        plan_install(host, Settings(state=tmp_path / "state"), InstallTarget(home=tmp_path, environ={}))


def test_certificates_are_the_systems_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token, cert = tmp_path / "token", tmp_path / "cert"
    token.write_text("secret")
    token.chmod(0o600)
    cert.write_text("")
    monkeypatch.setattr(windows, "is_here", lambda: True)
    with pytest.raises(ConfigError, match="certutil"):
        remote_of("https://gate.example.com", token, cert)


def test_pure_wheel_has_no_client_to_check_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    monkeypatch.setattr(windows, "is_here", lambda: True)
    monkeypatch.setattr(native, "client_path", lambda: None)
    with pytest.raises(ConfigError, match="no hook client"):
        remote_of("https://gate.example.com", token, None)


_WITHOUT = """
import os, select, socket, sys
for name in ("fcntl", "termios", "tty", "pty", "pwd", "grp", "resource"):
    sys.modules[name] = None
del os.uname, os.geteuid, os.getuid, os.posix_spawn, os.fork, os.O_NOFOLLOW, os.O_NONBLOCK, os.O_CLOEXEC
del select.poll, socket.AF_UNIX
from callosum.client import CallosumClient
from callosum.hosts import install, offline, remote
from callosum.hosts.checkup import examine
from callosum.cli import install as command
from callosum.spool import Spool
assert not Spool(sys.argv[1]).add(b"{}") and not Spool(sys.argv[1]).waiting() and not Spool(sys.argv[1]).take(print)
with CallosumClient("http://127.0.0.1:9", deadline=0.2) as client:
    try:
        client.health()
    except Exception as error:
        print(type(error).__name__)
"""


def test_client_and_installation_load_without_unix_modules(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "GateUnavailable\n"), done
