"""The stream, the command and the daily log agree about the same call: real server, processes and files."""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from callosum.brain import Brain
from callosum.corpus.daily_log import FOLDER
from callosum.gate import LocalGate
from callosum.model import Call
from callosum.stores.memory import MemoryStore
from tests.acceptance.command import at_terminal, environment, run
from tests.support.serving import Server, serving, until

Told = tuple[str, dict[str, Any]]
NAMES = ("callId", "taskId", "attempt")
PATIENCE = 30.0


@pytest.fixture
def state(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.mkdir(mode=0o700)
    rules = [{"name": "pay", "tier": 4, "tool": "pay", "verdict": "ask"}]
    (made / "tiers.json").write_text(json.dumps({"rules": rules}))
    return made


def streamed(server: Server, types: str = "*", last: str = "1.0") -> Iterator[Told]:
    """Yield the events of the stream from the beginning of the journal on, without end."""
    connection = http.client.HTTPConnection(*server.host_and_port, timeout=PATIENCE)
    with closing(connection):
        connection.request("GET", f"/events?types={types}", headers={"Last-Event-ID": last})
        answer = connection.getresponse()
        assert answer.status == 200
        fields: dict[str, str] = {}
        while line := answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                yield fields["event"], json.loads(fields["data"])
                fields = {}
            else:
                fields = {}


def take_first(told: Iterator[Told], count: int) -> list[Told]:
    """Return the first ``count`` events."""
    return [next(told) for _ in range(count)]


def events_printed(state: Path, *words: str) -> list[Told]:
    """Return the output of ``callosum events --json``."""
    found = run(state, "events", "--json", "--last", "0", *words)
    assert found.returncode == 0, found.stderr
    return [(one["type"], one["payload"]) for one in map(json.loads, found.stdout.splitlines())]


def logged(state: Path) -> list[Told]:
    """Return the lines of the daily log."""
    lines = [
        line.split(" | ", 2)
        for file in sorted((state / FOLDER).glob("*.log.md"))
        for line in file.read_text().splitlines()
        if " | " in line
    ]
    return [(name, json.loads(payload)) for _, name, payload in lines]


def of_calls(told: Iterable[Told]) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of calls without their time: ``at`` is the first field of a line of the log."""
    found = [(name, payload) for name, payload in told if name.startswith(("tool.", "safety.", "lease."))]
    return sorted(
        ((name, {key: value for key, value in payload.items() if key != "at"}) for name, payload in found),
        key=lambda one: (one[1]["id"], one[0]),
    )


def call(server: Server, call_id: str, attempt: int = 1) -> int:
    body = {
        "instance": "mira",
        "session": "inbox",
        "tool": "send_email",
        "params": {"to": f"{call_id}@example.com", "body": "On it"},
        "callId": call_id,
        "taskId": "TASK-42",
        "attempt": attempt,
    }
    return int(server.post("/intercept", body)["id"])


def report_done(server: Server, id: int, **how: Any) -> None:
    assert server.post("/complete", {"instance": "mira", "session": "inbox", "id": id, **how})["ok"]


def test_stream_command_and_log_name_the_call_the_task_and_the_attempt(state: Path) -> None:
    with serving(state) as server:
        report_done(server, call(server, "c-1"), result="sent")
        report_done(server, call(server, "c-2", attempt=2), result={"error": "refused"})
        stream = take_first(streamed(server, "tool.*,safety.*,lease.*"), 10)
        command = events_printed(state, "tool.*", "safety.*", "lease.*")
        until(lambda: len(of_calls(logged(state))) == 10, PATIENCE)
    log = logged(state)
    assert of_calls(stream) == of_calls(command) == of_calls(log)
    named = [(name, *(payload.get(field) for field in NAMES)) for name, payload in stream]
    assert named == [
        ("tool.called", "c-1", "TASK-42", None),
        ("safety.allowed", "c-1", None, None),
        ("lease.taken", "c-1", None, None),
        ("tool.completed", "c-1", "TASK-42", None),
        ("lease.released", "c-1", None, None),
        ("tool.called", "c-2", "TASK-42", None),
        ("safety.allowed", "c-2", None, None),
        ("lease.taken", "c-2", None, None),
        ("tool.failed", "c-2", "TASK-42", 2),
        ("lease.released", "c-2", None, None),
    ]


def test_report_names_its_call_even_if_another_server_allowed_it(state: Path) -> None:
    with serving(state) as server:
        id = call(server, "c-1", attempt=3)
    with serving(state) as server:
        report_done(server, id, outcome="failed")
        asked = streamed(server, "tool.failed")
        ((_, payload),) = take_first(asked, 1)
        ((_, said),) = events_printed(state, "tool.failed")
        until(lambda: any(name == "tool.failed" for name, _ in logged(state)), PATIENCE)
        followed = streamed(server, "tool.failed", f"{id}.1")  # behind the entry that named the call
        ((_, again),) = take_first(followed, 1)
    ((_, line),) = [one for one in logged(state) if one[0] == "tool.failed"]
    for found in (payload, said, line, again):
        assert [found.get(field) for field in NAMES] == ["c-1", "TASK-42", 3]


def test_a_persons_answer_names_the_call(state: Path) -> None:
    with serving(state) as server:
        body = {"instance": "mira", "tool": "pay", "params": {"to": "globex"}, "callId": "c-9"}
        id = server.post("/intercept", body)["id"]
        found = at_terminal(state, "approve", str(id))
        assert found.code == 0, found.text
        lines = [payload for name, payload in logged(state) if name == "safety.approved"]
        assert [payload["callId"] for payload in lines] == ["c-9"], "the command's own gate wrote it before it ended"
        *_, (name, payload) = take_first(streamed(server, "tool.called,safety.*"), 3)
        assert (name, payload["callId"]) == ("safety.approved", "c-9")
        ((_, said),) = events_printed(state, "safety.approved")
        assert said["callId"] == "c-9"


def test_an_input_is_received_before_it_is_classified(state: Path) -> None:
    said = {"type": "input.received", "content": "Delete the old branch", "channelId": "cli", "conversationId": "c"}
    with serving(state) as server:
        for number in range(3):
            server.post("/events", {**said, "instance": "mira", "conversationId": f"c{number}"})
        names = [name for name, _ in take_first(streamed(server, "input.*", "0-0"), 6)]
        until(lambda: sum(name.startswith("input.") for name, _ in logged(state)) == 6, PATIENCE)
        command = [name for name, _ in events_printed(state, "input.*")]
    expected = ["input.received", "input.classified"] * 3
    assert names == expected
    assert command == expected
    assert [name for name, _ in logged(state) if name.startswith("input.")] == expected


EMBEDDED = """
import os, sys
from callosum import Call, LocalGate
gate = LocalGate(sys.argv[1])
def act(name):
    decision = gate.intercept(Call("mira", "send_email", {"to": f"{name}@example.com", "body": "On it"}, call_id=name))
    gate.complete("mira", id=decision.id, result="sent")
act("parent")
if "fork" in sys.argv:
    child = os.fork()
    if not child:
        act("child")
        gate.close()
        os._exit(0)
    os.waitpid(child, 0)
if "close" in sys.argv:
    gate.close()
"""
OF_ONE_CALL = ["lease.released", "lease.taken", "safety.allowed", "tool.called", "tool.completed"]


def embedded(state: Path, *words: str, **environ: str) -> None:
    """Run a process with a gate of its own and no server."""
    command = [sys.executable, "-W", "error", "-c", EMBEDDED, str(state), *words]
    done = subprocess.run(
        command, check=False, env=environment(state, **environ), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [(), ("close",)], ids=["ends", "closes"])
def test_calls_of_an_embedded_gate_are_in_the_daily_log(state: Path, words: tuple[str, ...]) -> None:
    embedded(state, *words)
    log = of_calls(logged(state))
    assert [name for name, _ in log] == OF_ONE_CALL
    assert {payload["callId"] for _, payload in log} == {"parent"}
    assert log == of_calls(events_printed(state))


def test_forked_child_logs_only_its_own_calls(state: Path) -> None:
    embedded(state, "fork")
    names = [(payload["callId"], name) for name, payload in logged(state)]
    assert sorted(names) == [(who, name) for who in ("child", "parent") for name in OF_ONE_CALL]


def test_without_the_daily_log_an_embedded_gate_writes_none(state: Path) -> None:
    embedded(state, CALLOSUM_CORPUS_LOG="false")
    assert not (state / FOLDER).exists()


def test_a_server_logs_a_call_once(state: Path) -> None:
    with serving(state) as server:
        report_done(server, call(server, "c-1"), result="sent")
        embedded(state)
    names = [(payload["callId"], name) for name, payload in logged(state) if "callId" in payload]
    assert sorted(names) == [(who, name) for who in ("c-1", "parent") for name in OF_ONE_CALL]


def test_brain_writes_the_daily_log_while_it_is_open(state: Path) -> None:
    with LocalGate(state) as gate:
        gate.intercept(Call("mira", "Read", {"path": "/a"}, call_id="before"))
        with Brain(gate):
            gate.intercept(Call("mira", "Read", {"path": "/a"}, call_id="within"))
        gate.intercept(Call("mira", "Read", {"path": "/a"}, call_id="after"))
    assert [payload["callId"] for name, payload in logged(state) if name == "tool.called"] == [
        "before",
        "within",
        "after",
    ]


def test_a_gate_in_memory_leaves_no_log(state: Path) -> None:
    with LocalGate(state, store=MemoryStore()) as gate:
        gate.intercept(Call("mira", "Read", {"path": "/a"}))
    assert not (state / FOLDER).exists()
