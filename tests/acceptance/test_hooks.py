"""The hook of a host with command hooks, as a host starts it, with a gate that lives, dies and lies.

Every test drives the native client; those in ``BOTH`` and ``OF_THE_SCRIPT`` drive the script too, or it alone.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from operator import methodcaller
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from callosum.errors import StoreUnavailable
from callosum.gate import LocalGate
from callosum.hosts import native, script
from callosum.hosts.native import client_path
from callosum.hosts.offline import START_SECONDS
from callosum.hosts.refusal import BEFORE, refusal
from callosum.hosts.script import REPORT
from callosum.model import Event
from callosum.programs import HOSTS
from callosum.settings import Settings
from callosum.sockets import socket_path
from tests.acceptance.command import run
from tests.support import hooks
from tests.support.cpu import HANG
from tests.support.serving import hosted, launch, serving, until
from tests.support.standing import impostor

Payload = dict[str, Any]
MAIL = {"to": "bob@example.com", "subject": "Lunch", "body": "Shall we meet at noon on Friday for lunch?"}


class Said(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def denied(self) -> str:
        """Return why the call may not run, or "" if it may."""
        if not self.out:
            return ""
        said = json.loads(self.out)
        if "decision" in said:
            return str(said["reason"]) if said["decision"] in ("deny", "block") else ""
        hook = said["hookSpecificOutput"]
        return str(hook["permissionDecisionReason"]) if hook.get("permissionDecision") == "deny" else ""


class Hook:
    """Drive the hook in a state folder as the installer writes it."""

    kind = hooks.KINDS[0]

    def __init__(self, state: Path, host: str = "claude-code", environ: Mapping[str, str] | None = None) -> None:
        self.state, self.host = state, host
        self.environ = {**os.environ, **(environ or {})}
        state.mkdir(parents=True, exist_ok=True)
        self.script = hooks.written(state, self.kind)

    def uses(self, folder: Path, **programs: str) -> None:
        """Make the script run other programs than the recorded ones, given by their text; "" for a missing one."""
        folder.mkdir()
        text = self.script.read_text()
        for name, content in programs.items():
            if content:
                (folder / name).write_text(content)
                (folder / name).chmod(0o700)
            text = text.replace(str(shutil.which(name)), str(folder / name))
        self.script.write_text(text)

    def send(self, payload: bytes | Payload) -> Said:
        sent = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        done = subprocess.run(
            [self.script, self.host], input=sent, capture_output=True, env=self.environ, timeout=60, check=False
        )
        return Said(done.returncode, done.stdout, done.stderr.decode())

    def before(self, session: str, tool: str, params: Payload, id: str | None = None) -> Said:
        return self.send(event(BEFORE[self.host], session, tool, params, id or f"{session}-{time.monotonic_ns()}"))


def event(name: str, session: str, tool: str = "", params: Payload | None = None, id: str = "", **more: Any) -> Payload:
    made: Payload = {"hook_event_name": name, "session_id": session, "cwd": "/repo", "prompt_id": "p1", **more}
    if tool:
        made |= {"tool_name": tool, "tool_input": params, "tool_use_id": id}
    return made


BOTH = frozenset((
    "test_two_sessions_on_one_file_conflict", "test_payload_of_five_megabytes_is_decided_by_the_gate",
    "test_malformed_response_on_the_socket_counts_as_no_answer", "test_hook_gives_up_a_gate_that_stops_responding", "test_reports_are_not_waited_for_and_arrive",
    "test_hook_starts_a_missing_gate_that_decides_the_call", "test_malformed_payload_is_refused",
    "test_spooled_record_names_the_session_and_contains_no_secret", "test_death_of_a_host_leaves_an_unknown_action",
    "test_without_python_and_gate_nothing_runs_and_the_message_says_what_to_do",
    "test_hook_starts_no_python_while_the_gate_answers", "test_32_b6_unclean_payload_is_judged_by_the_gate",
    "test_32_b6_refusal_of_the_gate_is_told_with_its_reason_and_reads_go_on", "test_32_b6_event_whose_pipe_stays_open_is_judged",
))  # fmt: skip
"""Names of the tests that also run the script."""
OF_THE_SCRIPT = frozenset((
    "test_python_asks_if_curl_cannot", "test_python_rejects_half_an_answer", "test_python_asks_without_curl",
))  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.definition.originalname
    kinds = ["script"] if name in OF_THE_SCRIPT else hooks.KINDS if name in BOTH else hooks.KINDS[:1]
    metafunc.parametrize("kind", kinds, indirect=True)


@pytest.fixture(autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hook, "kind", request.param)


def test_native_client_is_available_for_the_tests() -> None:
    if client_path() is None:
        pytest.skip("the native hook client is NOT tested, only the script: `make native` builds it")


@pytest.fixture
def gate(state: Path) -> Iterator[Path]:
    """Yield the same with a gate running on the hook's socket."""
    with serving(state, "--socket", socket_path(state)):
        yield state


@pytest.mark.parametrize("host", list(BEFORE))
def test_two_sessions_on_one_file_conflict(gate: Path, host: str) -> None:
    hook = Hook(gate, host)
    read, write = ("read_file", "write_file") if host == "gemini" else ("Read", "Write")
    after = "AfterTool" if host == "gemini" else "PostToolUse"
    path = {"file_path": "/repo/a.py"}
    for session, tool, params in (("A", read, path), ("B", write, {**path, "content": "b"})):
        assert hook.before(session, tool, params, f"{session}1") == Said(0, b"", "")
        assert hook.send(event(after, session, tool, params, f"{session}1", tool_response="ok")) == Said(0, b"", "")
    stopped = hook.before("A", write, {**path, "content": "a"})
    assert stopped.code == 0
    assert f'{host}/B changed "file:/repo/a.py"' in stopped.denied
    assert hook.before("C", read, path) == Said(0, b"", ""), "reading is nobody's conflict"


def test_hook_starts_no_python_while_the_gate_answers(state: Path, tmp_path: Path) -> None:
    """Every Python that the hook could start is replaced by a program that leaves a mark."""
    traps = tmp_path / "traps"
    traps.mkdir()
    for name in ("python", "python3"):
        (traps / name).write_text(f"#!/bin/sh\ntouch {traps}/started\n")
        (traps / name).chmod(0o700)
    hook = Hook(state, environ={"PATH": f"{traps}{os.pathsep}{os.environ['PATH']}"})
    offline = "offline {}\n" if Hook.kind == "native" else "{} -I -S"
    hooks.edit(hook.script, offline.format(sys.executable), offline.format(traps / "python"))
    params = {"file_path": __file__, "content": "1"}
    with serving(state, "--socket", socket_path(state)):
        assert hook.before("A", "Write", params, "a1") == Said(0, b"", "")
        assert hook.send(event("PostToolUse", "A", "Write", params, "a1", tool_response="ok")) == Said(0, b"", "")
        assert "claude-code/A" in hook.before("B", "Write", {**params, "content": "2"}).denied
        assert not (traps / "started").exists()
    hook.before("A", "Write", params)
    assert (traps / "started").exists(), "the control: without the gate the hook does start it"


def test_report_closes_the_action_and_batch_closes_denied_calls(gate: Path) -> None:
    hook = Hook(gate)
    mail = "mcp__mail__send_email"
    assert not hook.before("A", mail, MAIL, "a1").denied
    assert "claude-code/A" in hook.before("B", mail, MAIL).denied
    hook.send(
        event(
            "PostToolBatch",
            "A",
            tool_calls=[{"tool_use_id": "a1", "tool_name": mail, "tool_response": "It needs approval."}],
        )
    )
    assert not hook.before("C", mail, MAIL).denied, "a call that its host denied never happened"


def test_prompt_brings_the_brief_and_settles_interrupted_calls(gate: Path) -> None:
    hook = Hook(gate)
    assert not hook.before("A", "mcp__mail__send_email", MAIL, "a1").denied
    told = json.loads(hook.send(event("UserPromptSubmit", "B", prompt="Write to bob@example.com")).out)
    assert "bob@example.com" in told["hookSpecificOutput"]["additionalContext"]
    hook.send(event("UserPromptSubmit", "A", prompt="Something else"))
    assert "never reported" in hook.before("B", "mcp__mail__send_email", MAIL).denied
    journal = run(gate, "journal", "--json").stdout
    ended = [entry for entry in map(json.loads, journal.splitlines()) if entry["event"] == "complete"]
    assert [(entry["session"], entry["outcome"]) for entry in ended] == [("claude-code/A", "unknown")]


def test_settlement_during_a_store_outage_is_journalled_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    with LocalGate(settings=Settings(state=state)) as gate:
        away = threading.Event()
        attempt = gate.store.attempt  # type: ignore[attr-defined]

        def attempted(requests: Any) -> Any:
            if away.is_set():
                raise StoreUnavailable("the store is away")
            return attempt(requests)

        monkeypatch.setattr(gate.store, "attempt", attempted)

        def outcomes() -> list[tuple[str, str]]:
            return [(entry.session, str(entry.outcome)) for entry in gate.entries() if entry.event == Event.COMPLETE]

        with hosted(gate, state) as address:

            def post(payload: Payload) -> int:
                connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
                connection.request("POST", "/hooks/claude-code", json.dumps(payload))
                with closing(connection):
                    return connection.getresponse().status

            for session in ("A", "B", "C"):
                mail = {**MAIL, "to": f"{session}@example.com", "body": f"What is there to do for {session}?"}
                assert post(event("PreToolUse", session, "mcp__mail__send_email", mail, "a1")) == 200
            away.set()
            done = event("PostToolUse", "A", "mcp__mail__send_email", {**MAIL, "to": "A@example.com"}, "a1")
            assert post({**done, "tool_response": "sent"}) == 503
            denied = [{"tool_use_id": "a1", "tool_response": "It needs approval."}]
            assert post(event("PostToolBatch", "B", tool_calls=denied)) == 200
            assert post(event("Stop", "C")) == 200
            assert outcomes() == []
            away.clear()
            until(lambda: len(outcomes()) == 3)
            assert sorted(outcomes()) == [
                ("claude-code/A", "done"),
                ("claude-code/B", "cancelled"),
                ("claude-code/C", "unknown"),
            ]


def test_death_of_a_host_leaves_an_unknown_action(gate: Path) -> None:
    hook = Hook(gate)
    payload = event("PreToolUse", "A", "mcp__mail__send_email", MAIL, "a1")
    host = "import subprocess, sys; subprocess.run(sys.argv[2:], input=sys.argv[1].encode(), check=True)"
    subprocess.run(
        [sys.executable, "-c", host, json.dumps(payload), hook.script, "claude-code"], check=True, timeout=60
    )
    assert "never reported" in hook.before("B", "mcp__mail__send_email", MAIL).denied
    alive = hook.before("C", "mcp__mail__send_email", {**MAIL, "to": "carol@example.com"})
    assert not alive.denied
    again = hook.before("D", "mcp__mail__send_email", {**MAIL, "to": "carol@example.com"}).denied
    assert again, "this process lives, and so the call is under way"
    assert "never reported" not in again


def test_unknown_event_passes_and_is_journalled(gate: Path) -> None:
    hook = Hook(gate)
    assert hook.send(event("MoonRise", "A", phase="full", extra={"deep": [1]})) == Said(0, b"", "")
    journal = run(gate, "journal").stdout
    assert "MoonRise" in journal


def test_payload_of_five_megabytes_is_decided_by_the_gate(gate: Path) -> None:
    hook = Hook(gate)
    path = "/repo/large.bin"
    assert hook.before("A", "Write", {"file_path": path, "content": "x" * 5_000_000}) == Said(0, b"", "")
    assert "large.bin" in hook.before("B", "Write", {"file_path": path, "content": "y" * 5_000_000}).denied


def test_settings_change_that_removes_the_hooks_is_refused(gate: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.local.json"
    hook = Hook(gate)
    settings.write_text('{"model": "opus"}')
    assert hook.send(event("ConfigChange", "A", source="local_settings", file_path=str(settings))) == Said(0, b"", "")
    settings.write_text('{"disableAllHooks": true}')
    refused = hook.send(event("ConfigChange", "A", source="local_settings", file_path=str(settings)))
    assert "switch off all hooks" in refused.denied


def cautious(hook: Hook) -> None:
    """Check what holds whatever is wrong with the gate: reads continue and a mail is not sent."""
    assert hook.before("A", "Read", {"file_path": "/repo/a.py"}) == Said(0, b"", "")
    mail = hook.before("A", "mcp__mail__send_email", MAIL)
    assert mail.code == 0
    assert "[Callosum] The gate is unreachable" in mail.denied
    assert hook.send(event("PostToolUse", "A", "Read", {"file_path": "/repo/a.py"}, "x")) == Said(0, b"", "")
    assert hook.send(event("UserPromptSubmit", "A", prompt="go on")).code == 0


def half(channel: socket.socket, length: str) -> None:
    channel.recv(65536)
    channel.sendall(f'HTTP/1.1 200 OK\r\n{length}\r\n{{"hookSpecificOutput": {{"permi'.encode())
    channel.close()


def table(state: Path) -> None:
    (state / "fallback.json").write_text('{"tools": {"Read": 0, "Write": 1, "read_file": 0}}')


@pytest.mark.parametrize(
    "answer",
    [
        lambda channel: None,
        lambda channel: channel.close(),
        lambda channel: channel.sendall(b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n{}"),
        lambda channel: channel.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        lambda channel: channel.sendall(b"\x00\xff\x00garbage\r\n\r\n"),
        lambda channel: channel.sendall(b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"),
        lambda channel: channel.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        lambda channel: half(channel, "Content-Length: 500\r\n"),
        lambda channel: half(channel, ""),
    ],
    ids=["hangs", "closes", "500", "no JSON", "garbage", "elsewhere", "nothing", "half", "half of no length"],
)
def test_malformed_response_on_the_socket_counts_as_no_answer(
    state: Path, answer: Callable[[socket.socket], object]
) -> None:
    hook = Hook(state)
    table(state)
    with impostor(socket_path(state), answer):
        cautious(hook)


def test_32_a5_f9_7_answer_that_is_not_json_is_no_answer(state: Path) -> None:
    """A shell cannot check it, so the script is not asked."""
    hook = Hook(state)
    table(state)
    for wrong in (rb'{"k":"\u00"}', b'{"k":"\xff"}', b"{,:eE+-.}", b'{"k":1 2}', b'{"k":[}', b"{} x", b'{"k":tru}') * (
        client_path() is not None
    ):
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(wrong)}\r\n\r\n".encode()
        with impostor(socket_path(state), methodcaller("sendall", head + wrong)):
            said = hook.before("A", "mcp__mail__send_email", MAIL)
            assert "[Callosum] The gate is unreachable" in said.denied, wrong


def test_hook_gives_up_a_gate_that_stops_responding(state: Path) -> None:
    hook = Hook(state)
    server = launch(state, "--socket", socket_path(state))
    try:
        assert hook.before("A", "Write", {"file_path": "/repo/a.py", "content": "1"}) == Said(0, b"", "")
        server.process.send_signal(signal.SIGSTOP)
        cautious(hook)
        server.process.send_signal(signal.SIGCONT)
        until(lambda: hook.before("B", "mcp__mail__send_email", MAIL).denied == "")
        mails = [one for one in server.get("/journal")["entries"] if one.get("tool") == "mcp__mail__send_email"]
        opened = [one for one in mails if one["event"] != "refuse" and one["session"] == "claude-code/A"]
        assert not opened, "what was refused without the gate is not opened by it afterwards"
    finally:
        server.kill()


def test_gate_used_only_by_hooks_counts_their_decisions(gate: Path) -> None:
    hook = Hook(gate)
    for number in range(3):
        hook.before("A", "Read", {"file_path": f"/repo/{number}.py"})
    health = subprocess.run(
        ["curl", "-s", "--unix-socket", socket_path(gate), "http://localhost/health"],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    assert json.loads(health)["decisions"] == 3


def test_reports_are_not_waited_for_and_arrive(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "PATIENCE", 2 * int(HANG))
    monkeypatch.setattr(native, "LIMIT", 2 * int(HANG))
    hook = Hook(state)
    server = launch(state, "--socket", socket_path(state))
    try:
        assert not hook.before("A", "Read", {"file_path": "/repo/a.py"}, "a1").denied
        server.process.send_signal(signal.SIGSTOP)
        batch = [{"tool_use_id": "a1", "tool_name": "Read", "tool_response": "one"}]
        told = json.dumps(event("PostToolBatch", "A", tool_calls=batch)).encode()
        began = time.monotonic()
        done = subprocess.run(
            [hook.script, "claude-code", REPORT], input=told, capture_output=True, timeout=2 * HANG, check=True
        )
        assert (done.stdout, done.stderr) == (b"", b"")
        assert time.monotonic() - began < HANG, "a hook that waited would end after PATIENCE seconds"
        server.process.send_signal(signal.SIGCONT)
        until(lambda: any(one.get("outcome") == "done" for one in server.get("/journal")["entries"]))
    finally:
        server.kill()


def test_guard_names_what_it_protected_behind_a_link_and_behind_quotes(gate: Path, tmp_path: Path) -> None:
    hook = Hook(gate)
    (tmp_path / "notes").symlink_to(gate)
    for tool, params in (
        ("Bash", {"command": f"sudo env X=1 rm -rf '{gate.parent}'/{gate.name}"}),
        ("Bash", {"command": f"rm -f {tmp_path}/notes/gate.db"}),
        ("Write", {"file_path": f"{tmp_path}/notes/tiers.json", "content": "{}"}),
    ):
        assert "it would change Callosum's state folder" in hook.before("A", tool, params).denied
    assert '("callosum off")' in hook.before("A", "Bash", {"command": 'c"all"osum off'}).denied
    assert not hook.before("A", "Bash", {"command": f"ls {tmp_path}/notes"}).denied


def test_call_cannot_pass_for_a_report(gate: Path) -> None:
    hook = Hook(gate)
    forged = {"hook_event_name": "PostToolBatch", "report": "report", "command": "callosum off"}
    assert "self-guard" in hook.before("A", "Bash", forged).denied


def test_hook_starts_a_missing_gate_that_decides_the_call(state: Path) -> None:
    hook = Hook(state)
    assert hook.before("A", "mcp__mail__send_email", MAIL, "a1") == Said(0, b"", "")
    assert "bob@example.com" in hook.before("B", "mcp__mail__send_email", MAIL).denied
    assert (Path(socket_path(state)).stat().st_mode & 0o777) == 0o600


def test_stale_socket_does_not_prevent_a_start(state: Path) -> None:
    hook = Hook(state)
    server = launch(state, "--socket", socket_path(state))
    server.kill()
    assert Path(socket_path(state)).exists(), "it was left behind"
    assert hook.before("A", "mcp__mail__send_email", MAIL) == Said(0, b"", "")


def test_two_hosts_that_start_the_gate_at_once_share_one(state: Path) -> None:
    hooks = [Hook(state, host) for host in ("claude-code", "codex")]
    said: list[Said] = []
    threads = [
        threading.Thread(target=lambda hook=hook: said.append(hook.before("A", "mcp__mail__send_email", MAIL)))
        for hook in hooks
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(bool(one.denied) for one in said) == [False, True], "one mail, whoever asked first"
    assert len(list((state / "servers").glob("*"))) == 1


def test_calls_made_without_the_gate_are_journalled_afterwards(state: Path) -> None:
    hook = Hook(state)
    table(state)
    with impostor(socket_path(state), lambda channel: channel.close()):
        assert hook.before("A", "Write", {"file_path": "/repo/a.py", "content": "1"}, "a1") == Said(0, b"", "")
    noted = [json.loads(line) for line in (state / "late.jsonl").read_text().splitlines() if line]
    assert [(line["call"]["tool"], line["call"]["callId"], line["outcome"]) for line in noted] == [
        ("Write", "a1", "done")
    ]
    with serving(state, "--socket", socket_path(state)) as server:
        late = until(lambda: [one for one in server.get("/journal")["entries"] if one["event"] == "late"])
        until(lambda: not (state / "late.jsonl").exists())
    assert [(one["session"], one["tool"]) for one in late] == [("claude-code/A", "Write")]


def test_spooled_record_names_the_session_and_contains_no_secret(state: Path) -> None:
    hook = Hook(state)
    hooks.written(state, hook.kind, namespace="team a/b", instance="me & you")
    table(state)
    secret = "sk-ant-api03-" + "A1b2C3d4" * 6
    calls = {"Write": {"file_path": "/repo/.env", "content": f"KEY={secret}"}, "Bash": {"command": f"KEY={secret} ls"}}
    with impostor(socket_path(state), lambda channel: channel.close()):
        for tool, params in calls.items():
            payload = event("PreToolUse", "A", tool, params, f"{tool}1", agent_id="sub")
            assert hook.send(payload) == Said(0, b"", "")
    written = (state / "late.jsonl").read_text()
    assert secret not in written
    noted = [json.loads(line)["call"] for line in written.splitlines() if line]
    assert {(one["namespace"], one["instance"], one["session"]) for one in noted} == {("team a/b", "me & you", "A:sub")}
    assert noted[0]["params"]["file_path"] == "/repo/.env"


def test_spooled_record_that_the_gate_rejects_does_not_delay_others(state: Path) -> None:
    calls = [
        {"instance": "me", "tool": "Read", "callId": "a1", "cwd": 5},
        {"instance": "me", "tool": "Write", "callId": "a2"},
    ]
    state.mkdir()
    (state / "late.jsonl").write_text("".join(json.dumps({"call": call, "outcome": "done"}) + "\n" for call in calls))
    with serving(state, "--socket", socket_path(state)) as server:
        until(lambda: [one for one in server.get("/journal")["entries"] if one["event"] == "late"])
        until(lambda: not list(state.glob("late*.jsonl")))
        assert [one["tool"] for one in server.get("/journal")["entries"] if one["event"] == "late"] == ["Write"]


def test_files_of_the_gate_are_not_written_without_the_gate(state: Path) -> None:
    hook = Hook(state)
    table(state)
    with impostor(socket_path(state), lambda channel: channel.close()):
        for path in (hook.script, Path.home() / ".claude" / "settings.json"):
            assert "may have tier 4" in hook.before("A", "Write", {"file_path": str(path), "content": "{}"}).denied
        assert hook.before("A", "Write", {"file_path": "/repo/a.py", "content": "{}"}) == Said(0, b"", "")


def test_call_too_long_for_the_gate_cannot_write_the_files_of_the_gate(gate: Path) -> None:
    hook = Hook(gate)
    (gate / "fallback.json").write_text('{"tools": {"MultiEdit": 1}}')
    edits = [{"old_string": "a", "new_string": "b" * 5_000_000}]
    assert hook.before("A", "MultiEdit", {"file_path": str(hook.script), "edits": edits}).denied


def raw(session: str, tool: str, params: bytes, id: bytes = b"") -> bytes:
    """Return the payload of a call with params as they are written."""
    written = json.dumps(
        event("PreToolUse", session, tool, {"X": 0}, id.decode() or f"{session}-{time.monotonic_ns()}")
    )
    return written.encode().replace(b'{"X": 0}', params)


def test_32_b6_unclean_payload_is_judged_by_the_gate(gate: Path) -> None:
    hook = Hook(gate)
    path = b'{"file_path": "/repo/a.md"%b}'
    assert hook.send(raw("A", "Read", path % b"", b"a1")) == Said(0, b"", "")
    assert hook.send(event("PostToolUse", "A", "Read", {"file_path": "/repo/a.md"}, "a1", tool_response="ok")).code == 0
    lone = path % b', "content": "x \\ud83d y"'
    assert hook.send(raw("B", "Write", lone, b"b1")) == Said(0, b"", "")
    assert hook.send(raw("B", "Write", lone, b"b1").replace(b"PreToolUse", b"PostToolUse")).code == 0
    assert (
        'claude-code/B changed "file:/repo/a.md"' in hook.send(raw("A", "Write", lone.replace(b"d83d", b"d83e"))).denied
    ), "other bytes are other content"
    assert (
        "protects Callosum itself"
        in hook.send(raw("C", "Bash", b'{"command": "callosum off", "command": "ls"}')).denied
    )
    deep = b'{"to": "x", "note": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert hook.send(raw("C", "mcp__x__note", deep, b"c1")) == Said(0, b"", "")
    journal = map(json.loads, run(gate, "journal", "--json").stdout.splitlines())
    entries = {entry.get("body", {}).get("callId"): entry for entry in journal}
    assert (entries["b1"]["event"], entries["c1"]["tier"]) == ("intercept", 3)


def test_32_b6_refusal_of_the_gate_is_told_with_its_reason_and_reads_go_on(gate: Path) -> None:
    hook = Hook(gate)
    table(gate)
    nameless = event("PreToolUse", "A", "Write", {"file_path": "/repo/a.md", "content": ""}, "w1", session_id=7)
    said = hook.send(nameless).denied
    assert "The gate refused to judge Write, so it was not run: expected a text, got int (session_id)." in said
    assert hook.send({**nameless, "tool_name": "Read", "tool_use_id": "r1"}) == Said(0, b"", "")
    assert hook.before("B", "Read", {"file_path": "/repo/b.md"}) == Said(0, b"", "")
    late = [
        entry
        for entry in map(json.loads, run(gate, "journal", "--json").stdout.splitlines())
        if entry["event"] == "late"
    ]
    assert [(entry["tool"], entry["body"]["note"]) for entry in late] == [
        ("Read", "ran although the gate refused to judge it: expected a text, got int (session_id).")
    ]


def test_32_b6_event_whose_pipe_stays_open_is_judged(gate: Path) -> None:
    """A host that does not close the pipe of its hook gets its answer, long before it gives the hook up."""
    hook = Hook(gate)
    read, write = os.pipe()
    os.write(write, raw("C", "Bash", b'{"command": "callosum off"}') + b"\n")
    done = subprocess.run([hook.script, hook.host], stdin=read, capture_output=True, timeout=HANG, check=False)
    os.close(read)
    os.close(write)
    assert "protects Callosum itself" in Said(done.returncode, done.stdout, done.stderr.decode()).denied


def test_gate_that_cannot_start_does_not_block_reads(state: Path) -> None:
    hook = Hook(state)
    table(state)
    (state / "server.log").mkdir()  # the same as with a folder that cannot be written
    cautious(hook)


def test_gate_that_exits_at_once_is_not_awaited_or_started_by_each_event(state: Path) -> None:
    hook = Hook(state)
    table(state)
    (state / "tiers.json").write_text("{")
    began = time.monotonic()
    for _ in range(2):
        assert hook.before("A", "Write", {"file_path": "/repo/a.py", "content": "1"}) == Said(0, b"", "")
    assert time.monotonic() - began < 2 * START_SECONDS, "each of the two would wait for START_SECONDS"
    log = state / "server.log"
    until(lambda: "tiers.json" in log.read_text())
    os.utime(log, (time.time() + 60, time.time() + 60))  # the log was written just now
    for _ in range(3):
        assert hook.before("A", "Read", {"file_path": "/repo/a.py"}) == Said(0, b"", "")
    assert log.stat().st_mtime > time.time(), "nobody else wrote in it"


@pytest.mark.parametrize("code", [2, 4, 126])
def test_python_asks_if_curl_cannot(gate: Path, tmp_path: Path, code: int) -> None:
    hook = Hook(gate)
    hook.uses(tmp_path / "bin", curl=f"#!/bin/sh\nexit {code}\n")
    assert hook.before("A", "mcp__mail__send_email", MAIL, "a1") == Said(0, b"", "")


def test_python_rejects_half_an_answer(state: Path, tmp_path: Path) -> None:
    hook = Hook(state)
    hook.uses(tmp_path / "bin", curl="")
    table(state)

    def answer(channel: socket.socket) -> None:
        channel.recv(65536)
        channel.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"hookSpecificOutput": {"permi')
        channel.close()

    with impostor(socket_path(state), answer):
        cautious(hook)


def test_python_asks_without_curl(gate: Path, tmp_path: Path) -> None:
    hook = Hook(gate)
    hook.uses(tmp_path / "bin", curl="")
    assert hook.before("A", "mcp__mail__send_email", MAIL, "a1") == Said(0, b"", "")
    assert "bob@example.com" in hook.before("B", "mcp__mail__send_email", MAIL).denied


@pytest.mark.parametrize("host", list(BEFORE))
def test_without_python_and_gate_nothing_runs_and_the_message_says_what_to_do(state: Path, host: str) -> None:
    hook = Hook(state, host)
    hooks.edit(hook.script, sys.executable, "/nowhere/python")
    said = hook.before("A", "Read", {"file_path": "/repo/a.py"})
    assert said.code == 2
    assert said.out == b""
    assert f"callosum uninstall {host}" in said.err
    assert hook.send(event("SessionEnd", "A")).code == 0, "what is no call is not stopped"


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"\xff\xfe", b'{"hook_event_name": 7}', b"null"])
def test_malformed_payload_is_refused(gate: Path, payload: bytes) -> None:
    said = Hook(gate).send(payload)
    assert said.out == b""
    assert said.code == (0 if b"hook_event_name" in payload else 2), "nobody knows whether it was a call"
    assert "Traceback" not in said.err


def test_offline_path_imports_little(state: Path) -> None:
    hook = Hook(state)
    table(state)
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); bare = set(sys.modules);"
        "from callosum.hosts.offline import main; main(sys.argv[1:]);"
        "print(*sorted(set(sys.modules) - bare), file=sys.stderr)"
    )
    root = str(Path(__file__).parents[2])
    read = json.dumps(event("PreToolUse", "A", "mcp__mail__send_email", MAIL, "a1")).encode()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, root, hook.host, str(state), "", "/hooks/claude-code?pid=1", "28"],
        input=read, capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    loaded = set(done.stderr.decode().split())
    hosts = ("hosts", "hosts.offline", "hosts.hook_spool", "hosts.refusal")
    described = ("programs", "programs.program", *(host.__module__.removeprefix("callosum.") for host in HOSTS))
    modules = ("client", "client.fallback", *hosts, *described, "launch", "sockets", "spool", "unclean")
    allowed = {"callosum", *(f"callosum.{name}" for name in modules)}
    ours = {name for name in loaded if name.startswith("callosum")}
    assert ours == allowed
    heavy = {"logging", "typing", "subprocess", "msgspec", "pathlib", "asyncio", "http", "urllib", "threading"}
    assert not loaded & heavy


@pytest.mark.parametrize("host", list(BEFORE))
def test_refusal_has_the_same_form_with_and_without_the_gate(host: str) -> None:
    from callosum.hosts.adapters import adapter_of  # noqa: PLC0415 - beside what it is compared with
    from callosum.hosts.events import HookAnswer, HostIdentity  # noqa: PLC0415
    from callosum.model import Decision, Verdict  # noqa: PLC0415

    adapter = adapter_of(host)
    payload = event(BEFORE[host], "A", "Bash", {"command": "true"}, "a1")
    said = json.loads(refusal(host, 3, "Bash", "/state"))
    reason = said.get("reason") or said["hookSpecificOutput"]["permissionDecisionReason"]
    decision = Decision(False, 3, None, 1, Verdict.BLOCK, (), "", warning=reason)
    assert adapter.render(payload, HookAnswer(decision)) == said
    assert [type(told).__name__ for told in adapter.read(payload, HostIdentity(host))] == ["CallStarting"]
