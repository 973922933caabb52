"""Check ``callosum doctor`` for hosts: ok if they ask the gate, wrong if one does not, and reported to listeners."""

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from callosum.client import CallosumClient
from callosum.corpus.events import HealthCritical
from callosum.gate import LocalGate
from callosum.hosts.checkup import examine, watch
from callosum.model import Event
from callosum.settings import Settings
from callosum.sockets import socket_path
from tests.acceptance.command import run
from tests.support import hooks
from tests.support.serving import end_gates, hosted, serving, until

SCRIPTED = ("claude-code", "codex", "gemini")
SETTINGS = {
    "claude-code": ".claude/settings.json", "codex": ".codex/hooks.json", "gemini": ".gemini/settings.json",
    "openclaw": ".openclaw/openclaw.json",
}  # fmt: skip
Finding = dict[str, Any]


class Home:
    """A user's home with hosts set up in it, and a search path without this machine's hosts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.env = {"HOME": str(folder), "PATH": f"{self.bin}:/usr/bin:/bin"}

    def install(self, *words: str) -> None:
        done = run(self.state, "install", *words, "--yes", env=self.env)
        assert done.returncode == 0, done
        if words[0] == "codex":  # the result of the user's review
            (self.folder / ".codex" / "config.toml").write_text(
                f'[hooks.state."{self.path("codex")}:pre_tool_use:0:0"]\ntrusted_hash = "sha256:0"\n'
            )

    def path(self, host: str) -> Path:
        return self.folder / SETTINGS[host]

    def program(self, name: str, says: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (self.bin / name).chmod(0o700)

    def doctor(self) -> tuple[int, dict[str, Finding]]:
        """Return the exit code, and the findings by check."""
        done = run(self.state, "doctor", "--json", env=self.env)
        assert done.stdout, done
        return done.returncode, {found["check"]: found for found in json.loads(done.stdout)["findings"]}

    def wrong(self) -> dict[str, Finding]:
        code, found = self.doctor()
        wrong = {check: one for check, one in found.items() if one["level"] == "wrong"}
        assert code == bool(wrong)
        return wrong

    def hook(self, host: str, payload: dict[str, Any]) -> bytes:
        words = [str(hooks.installed(self.state)), host]
        return subprocess.run(words, input=json.dumps(payload).encode(), capture_output=True, check=True).stdout

    def told(self) -> list[dict[str, Any]]:
        """Return the ``health.critical`` events in the daily log."""
        text = "".join(path.read_text() for path in (self.state / "brain" / "corpus").glob("*.md"))
        return [json.loads(line.split(" | ", 2)[2]) for line in text.splitlines() if " | health.critical | " in line]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Yield a home. If a hook starts a gate, end it afterwards."""
    made = Home(tmp_path)
    yield made
    end_gates(made.state)


@pytest.fixture
def gated(home: Home) -> Iterator[Home]:
    """Yield the home with a gate running on the socket that the hooks use."""
    with serving(home.state, "--socket", socket_path(home.state)):
        yield home


@contextmanager
def listening(place: str | tuple[str, int], answer: bytes = b"") -> Iterator[int]:
    """Accept connections and answer with ``answer``. Yield the port."""
    family = socket.AF_UNIX if isinstance(place, str) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(place)
        server.listen(16)

        def run() -> None:
            with suppress(OSError):
                while True:
                    channel, _ = server.accept()
                    with channel, suppress(OSError):
                        channel.recv(65536)
                        channel.sendall(answer)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield 0 if isinstance(place, str) else server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def test_host_that_is_not_there_is_not_named_and_one_that_was_never_set_up_is_only_mentioned(home: Home) -> None:
    code, found = home.doctor()
    assert code == 0
    assert not [check for check in found if check.startswith((*SETTINGS, "mcp", "gate"))]
    home.program("gemini", "0.61.0")
    code, found = home.doctor()
    assert (code, found["gemini entries"]["level"]) == (0, "advice")
    assert found["gemini entries"]["advice"] == "callosum install gemini"


def test_removed_entry_turns_the_check_from_ok_to_wrong(home: Home) -> None:
    for host in SCRIPTED:
        home.install(host)
    code, found = home.doctor()
    assert code == 0, found
    for host in SCRIPTED:
        assert found[f"{host} entries"]["level"] == "ok"
        assert found[f"{host} canary"]["says"] == "a call that must be refused was refused", (
            "no gate ran: it was started"
        )
        assert found[f"{host} heard"]["says"] == "no hook was called yet", "what doctor sends does not count"
    assert home.told() == []
    for host in SCRIPTED:
        kept = home.path(host).read_text()
        home.path(host).write_text("{}")
        wrong = home.wrong()
        assert wrong[f"{host} entries"]["advice"] == f"callosum install {host}"
        until(lambda host=host: any(one["resource"] == f"host:{host}" for one in home.told()))
        home.path(host).write_text(kept)
    assert home.wrong() == {}


def test_server_reports_a_host_that_no_longer_asks(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "EVERY", 0.0)
    home.install("claude-code")
    told: list[HealthCritical] = []
    with LocalGate(settings=Settings(state=home.state)) as gate:
        looked = threading.Event()
        standing = examine.standing

        def seen(*given: Any) -> Iterator[Any]:
            yield from standing(*given)
            looked.set()

        monkeypatch.setattr(examine, "standing", seen)
        with hosted(gate, home.state, lambda corpus: corpus.on(HealthCritical)(told.append)):
            assert looked.wait(20)
            assert told == []
            kept = home.path("claude-code").read_text()
            home.path("claude-code").write_text("{}")
            until(lambda: told)
            looked.clear()
            assert looked.wait(20)
            home.path("claude-code").write_text(kept)
    assert [(one.resource, "PreToolUse" in str(one.value)) for one in told] == [("host:claude-code", True)], "once"


def test_persistent_problem_is_reported_again_after_an_hour(home: Home) -> None:
    home.install("codex")
    home.path("codex").unlink()
    clock = iter((0.0, 10.0, 61.0, 122.0, 3600.0, 3662.0, 3723.0))
    looking = watch.EntryWatch(Settings(state=home.state), lambda: next(clock))
    assert [len(looking.look()) for _ in range(6)] == [0, 1, 0, 0, 1, 0]


def test_changed_entry_is_as_wrong_as_a_missing_one(gated: Home) -> None:
    gated.install("claude-code")
    path = gated.path("claude-code")
    path.write_text(path.read_text().replace('"onFailure": "block"', '"onFailure": "allow"'))
    mark = gated.folder / "ran"
    path.write_text(path.read_text().replace("/callosum-hook", f"/callosum-hook; touch {mark};"))
    code, found = gated.doctor()
    assert (code, found["claude-code entries"]["level"]) == (1, "wrong")
    assert "PreToolUse, PostToolUse" in found["claude-code entries"]["says"]
    assert "claude-code canary" not in found
    assert not mark.exists(), "what somebody else wrote there is not started"
    shown = run(gated.state, "doctor", env=gated.env)
    assert shown.returncode == 1
    assert "✗ claude-code entries" in shown.stdout
    assert "callosum install claude-code" in shown.stdout
    assert shown.stdout.rstrip().endswith("wrong.")


def test_listener_of_a_server_receives_the_report(gated: Home) -> None:
    gated.install("gemini")
    gated.path("gemini").unlink()
    with CallosumClient(f"unix:{socket_path(gated.state)}") as client, client.events("health.critical") as events:
        assert set(gated.wrong()) == {"gemini entries"}
        enough = threading.Timer(30, events.close)
        enough.start()
        event = next(iter(events))
        enough.cancel()
    assert event.type == "health.critical"
    assert event.data["resource"] == "host:gemini"
    assert str(gated.path("gemini")) in event.data["value"]
    assert len(until(gated.told)) == 1, "told by the server alone, once"


def test_hooks_that_are_switched_off_or_without_a_review_are_wrong(gated: Home) -> None:
    gated.install("codex")
    (gated.folder / ".codex" / "config.toml").write_text("[features]\nhooks = false\n")
    wrong = gated.wrong()
    assert "hooks = false" in wrong["codex switch"]["says"]
    assert "Only you can" in wrong["codex trust"]["advice"]


def test_host_too_old_for_the_fail_closed_form_is_wrong(gated: Home) -> None:
    gated.install("claude-code")
    gated.program("claude", "2.1.197 (Claude Code)")
    assert set(wrong := gated.wrong()) == {"claude-code version"}
    assert "before 2.1.295" in wrong["claude-code version"]["says"]


def test_missing_or_changed_script_is_wrong(gated: Home) -> None:
    gated.install("gemini")
    script = hooks.installed(gated.state)
    content = script.read_bytes()
    script.unlink()  # a running program cannot be overwritten
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o700)
    wrong = gated.wrong()
    assert set(wrong) == {"gemini script", "gemini canary"}
    assert wrong["gemini canary"]["says"] == "a call that must be refused was let through: it let the call pass"
    script.write_bytes(content)
    script.chmod(0o600)
    assert "cannot be started" in gated.wrong()["gemini script"]["says"]
    script.unlink()
    assert "is missing" in gated.wrong()["gemini script"]["says"]


def test_process_that_listens_in_place_of_the_gate_is_wrong(home: Home) -> None:
    home.install("gemini")
    with listening(socket_path(home.state), b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"):
        wrong = home.wrong()
    assert "refused, but not by the gate" in wrong["gemini canary"]["says"]
    assert "server.log" in wrong["gemini canary"]["advice"]


def test_gate_that_only_observes_is_reported_and_locks_nobody_out(home: Home) -> None:
    settings = home.folder / ".config" / "callosum" / "callosum.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('mode = "observe"')
    node = shutil.which("node")
    hosts = ("claude-code", "codex", "gemini", *(["openclaw"] if node else []))
    if node:
        (home.bin / "node").symlink_to(node)
    for host in hosts:
        home.install(host)
    code, found = home.doctor()
    for host in hosts:
        says = found[f"{host} canary"]
        assert (says["level"], "only observes" in says["says"]) == ("advice", True), says
    with LocalGate(settings=Settings(state=home.state)) as gate:
        ended = [entry.outcome for entry in gate.entries() if entry.event is Event.COMPLETE]
        assert (code, ended, gate.status().locks) == (0, ["cancelled"] * len(hosts), ()), (
            "no lease makes a person an agent"
        )


def test_http_server_is_wrong_only_while_it_is_down(home: Home) -> None:
    with listening(("127.0.0.1", 0)) as port:
        pass
    home.install("claude-code", "--http", f"http://127.0.0.1:{port}")
    wrong = home.wrong()
    assert set(wrong) == {"claude-code canary"}, "an HTTP entry is as it should be"
    assert "no answer from" in wrong["claude-code canary"]["says"]
    assert "no tool runs" in wrong["claude-code canary"]["advice"]
    with serving(home.state) as server:
        home.install("claude-code", "--http", server.address)
        assert home.wrong() == {}


def transcript(home: Home, *ids: str) -> None:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    lines = []
    for id in ids:
        asked = {"content": [{"type": "tool_use", "id": id, "name": "Bash", "input": {}}]}
        lines.append({"type": "assistant", "sessionId": "s1", "timestamp": now, "message": asked})
        answered = {"content": [{"type": "tool_result", "tool_use_id": id, "content": "done"}]}
        lines.append({"type": "user", "sessionId": "s1", "timestamp": now, "message": answered})
    path = home.folder / ".claude" / "projects" / "-repo" / "s1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_call_without_a_decision_is_named(gated: Home) -> None:
    gated.install("claude-code")
    asked = {"hook_event_name": "PreToolUse", "session_id": "s1", "cwd": "/", "tool_name": "Bash"}
    gated.hook("claude-code", {**asked, "tool_input": {"command": "true"}, "tool_use_id": "toolu_gated"})
    transcript(gated, "toolu_gated")
    code, found = gated.doctor()
    assert code == 0
    assert "1 call since" in found["claude-code transcripts"]["says"]
    shutil.rmtree(gated.folder / ".claude" / "projects")
    transcript(gated, "toolu_gated", "toolu_bare")
    wrong = gated.wrong()["claude-code transcripts"]["says"]
    assert "1 of 2 calls" in wrong
    assert "Bash toolu_bare of session s1 at 20" in wrong
    assert "toolu_gated" not in wrong


def test_last_hook_event_is_shown(gated: Home) -> None:
    gated.install("codex")
    gated.hook("codex", {"hook_event_name": "SessionStart", "session_id": "s1", "cwd": "/"})
    until((gated.state / "heard.json").exists)
    says = gated.doctor()[1]["codex heard"]["says"]
    assert says.startswith("SessionStart ")
    assert "never asked about a call yet" in says


def test_openclaw_plugin_is_checked(gated: Home) -> None:
    gated.install("openclaw")
    node = shutil.which("node")
    if node is not None:
        (gated.bin / "node").symlink_to(node)
    code, found = gated.doctor()
    assert code == 0, found
    if node is not None:
        assert found["openclaw canary"]["says"] == "a call that must be refused was refused"
    assert found["openclaw heartbeat"]["says"] == "its gateway is not running"
    assert "openclaw agent exec" in found["openclaw around"]["says"], "what goes around it is said"
    path = gated.path("openclaw")
    path.write_text(path.read_text().replace('"enabled": true', '"enabled": false'))
    assert "enabled is not true" in gated.wrong()["openclaw entries"]["says"]


def test_gateway_with_a_silent_plugin_is_wrong(gated: Home) -> None:
    with listening(("127.0.0.1", 0)) as port:
        path = gated.path("openclaw")
        path.parent.mkdir()
        path.write_text(json.dumps({"gateway": {"port": port}}))
        gated.install("openclaw")
        assert "silent all the time" in gated.wrong()["openclaw heartbeat"]["says"]
        with CallosumClient(f"unix:{socket_path(gated.state)}") as client:
            client.emit({"type": "health.ok", "instance": "openclaw/openclaw:1", "metrics": {"everySeconds": 30}})
        until((gated.state / "heard.json").exists)
        assert gated.wrong() == {}
        heard = {"hooks": {}, "instances": {"openclaw": time.time() - 200}}
        (gated.state / "heard.json").write_text(json.dumps(heard))
        assert "silent for 3 min" in gated.wrong()["openclaw heartbeat"]["says"]


def test_mcp_server_added_after_the_installation_is_wrong(home: Home) -> None:
    path = home.folder / "mcp.json"
    path.write_text('{"mcpServers": {"files": {"command": "npx"}}}')
    home.install("mcp", str(path))
    home.install("gemini")
    assert "MCP calls of Gemini CLI are decided by the hook" in home.doctor()[1]["mcp entries"]["says"]
    servers = json.loads(path.read_text())
    path.write_text(json.dumps({"mcpServers": {**servers["mcpServers"], "mail": {"command": "mail-server"}}}))
    wrong = home.wrong()["mcp entries"]
    assert "mail" in wrong["says"]
    assert wrong["advice"] == f"callosum install mcp {path}"


def test_mcp_servers_that_cannot_start_are_wrong(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.folder / "mcp.json"
    path.write_text(
        '{"mcpServers": {"files": {"url": "http://127.0.0.1:1/mcp"}, "gate": {"command": "callosum", "args": ["mcp"]}}}'
    )
    home.program("callosum", "")
    missing = "import sys; sys.modules['urllib3'] = sys.modules['mcp'] = None; import callosum.cli; callosum.cli.main()"
    without = (sys.executable, "-c", missing)
    before = path.read_text()
    refused = run(home.state, "install", "mcp", str(path), "--yes", env=home.env, program=without)
    assert (refused.returncode, path.read_text()) == (2, before), refused
    assert "server files: urllib3 is not installed" in refused.stderr
    assert "pip install 'callosum-protocol[mcp]'" in refused.stderr
    home.install("mcp", str(path))
    assert home.wrong() == {}
    found = json.loads(run(home.state, "doctor", "--json", env=home.env, program=without).stdout)["findings"]
    wrong = [one["says"] for one in found if one["check"] == "mcp programs"]
    assert wrong == [f"server files in {path} cannot be started: urllib3 is not installed"]
    servers = json.loads(path.read_text())
    servers["mcpServers"]["files"]["command"] = "/gone/python"
    path.write_text(json.dumps(servers))
    assert "there is no program /gone/python" in home.wrong()["mcp programs"]["says"]
