"""The spool with real processes: no report and no call gets lost while the gate is killed, stopped or unreachable."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from callosum import guard
from callosum.client import CallosumClient
from callosum.model import Call
from callosum.sockets import hung_path, socket_path
from tests.acceptance.test_hooks import Hook, Said, event, table
from tests.support.serving import Server, launch, until
from tests.support.standing import impostor

FORCE_PUSH = {"command": "git push --force origin main"}
SECRET = "sk-ant-api03-" + "A1b2C3d4" * 6


def started(state: Path) -> Server:
    return launch(state, "--socket", socket_path(state))


def wake(server: Server, state: Path) -> None:
    """Continue a stopped gate; the hooks ask it at once instead of after five seconds."""
    server.process.send_signal(signal.SIGCONT)
    Path(hung_path(socket_path(state))).unlink(missing_ok=True)


def entries(server: Server, *events: str) -> list[dict[str, Any]]:
    return [entry for entry in server.get("/journal")["entries"] if entry["event"] in events]


def outcomes(server: Server, tool: str) -> list[str]:
    return [entry["outcome"] for entry in entries(server, "complete", "lapse") if entry.get("tool") == tool]


def spooled(state: Path) -> list[dict[str, Any]]:
    path = state / "late.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_report_of_a_force_push_reaches_a_gate_that_was_down(state: Path, how: str) -> None:
    hook = Hook(state)
    server = started(state)
    try:
        assert hook.before("A", "Bash", FORCE_PUSH, "a1") == Said(0, b"", "")
        assert "tier 4" in hook.before("B", "Bash", FORCE_PUSH, "b1").denied.lower()
        server.process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        if how == "killed":
            server.process.wait(30)
            (state / "server.log").touch()  # as if a gate had just failed to start: the report starts none
        after = event("PostToolUse", "A", "Bash", FORCE_PUSH, "a1", tool_response={"stdout": "ok"})
        assert hook.send(after) == Said(0, b"", "")
        assert [record["kind"] for record in spooled(state)] == ["report"]
        if how == "killed":
            server = started(state)
        else:
            wake(server, state)
        said = until(lambda: hook.before("B", "Bash", FORCE_PUSH, "b2"))
        assert "unknown" not in said.denied
        assert "outcome" not in said.denied
        assert outcomes(server, "Bash") == ["done"]
        assert spooled(state) == []
        (push,) = [one for one in server.get("/status")["recentActions"] if one["instance"] == "claude-code/A"]
        assert push["state"] == "done"
    finally:
        server.kill()


def test_edit_made_during_an_outage_makes_the_next_overwrite_stale(state: Path) -> None:
    hook = Hook(state)
    table(state)
    path = {"file_path": "/repo/a.py"}
    server = started(state)
    try:
        assert hook.before("B", "Read", path, "b1") == Said(0, b"", "")
        server.process.send_signal(signal.SIGSTOP)
        assert hook.before("A", "Write", {**path, "content": f"KEY = '{SECRET}'"}, "a1") == Said(0, b"", "")
        assert SECRET not in (state / "late.jsonl").read_text()
        wake(server, state)
        stopped = until(lambda: hook.before("B", "Write", {**path, "content": "b"}).denied)
        assert '"file:/repo/a.py"' in stopped
        assert "claude-code/A" in stopped
        late, *_ = entries(server, "late")  # on a busy machine the second write may run without the gate at first
        assert late["keys"] == [["file:/repo/a.py", "write"]]
        assert late["tier"] == 1
    finally:
        server.kill()


def test_patch_made_during_an_outage_keeps_its_paths(state: Path) -> None:
    hook = Hook(state, "codex")
    (state / "fallback.json").write_text('{"tools": {"apply_patch": 1}}')
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n@@\n-one\n+two\n*** Add File: src/b.py\n+three\n*** End Patch\n"
    )
    with impostor(socket_path(state), lambda channel: channel.close()):
        assert hook.before("A", "apply_patch", {"command": patch}, "a1") == Said(0, b"", "")
    (record,) = spooled(state)
    assert {key for key, mode in record["found"]["keys"]} >= {"file:/repo/src/a.py", "file:/repo/src/b.py"}


def test_call_that_a_hook_gave_up_leaves_no_lease(state: Path) -> None:
    """The gate wakes up and decides a call that is no longer awaited; the cancellation settles it."""
    hook = Hook(state)
    table(state)
    server = started(state)
    try:
        assert hook.before("A", "Read", {"file_path": "/x"}, "a0") == Said(0, b"", "")
        server.process.send_signal(signal.SIGSTOP)
        assert "is unreachable" in hook.before("A", "mcp__mail__send_email", {"to": "bob@example.com"}, "a1").denied
        assert [(record["kind"], record["call"]["callId"]) for record in spooled(state)] == [("cancel", "a1")]
        wake(server, state)
        until(lambda: not spooled(state))
        until(lambda: not server.get("/status")["locks"])
        assert hook.before("A", "mcp__mail__send_email", {"to": "bob@example.com"}, "a2") == Said(0, b"", "")
        assert len(server.get("/status")["locks"]) == 1, "a repeat under another id is not cancelled"
    finally:
        server.kill()


@pytest.mark.parametrize("shared", [True, False], ids=["the gate's state folder", "a folder of the client's own"])
def test_report_of_a_guarded_call_outlives_the_gate(state: Path, tmp_path: Path, shared: bool) -> None:
    """The gate reads the spool of its own folder; the client sends that of another folder before its next call."""
    own = state if shared else tmp_path / "own"
    server = started(state)
    try:
        with CallosumClient(f"unix:{socket_path(state)}", deadline=20, state=own) as client:
            with guard(client, Call("mira", "Bash", FORCE_PUSH, cwd="/repo", call_id="p1")):
                server.kill()
                client.deadline = 0.2
            assert [record["kind"] for record in spooled(own)] == ["report"]
            server = started(state)
            client.deadline = 20
            client.intercept(Call("doug", "Read", {"file_path": "/x"}))
            until(lambda: not spooled(own))
            assert outcomes(server, "Bash") == ["done"]
    finally:
        server.kill()
