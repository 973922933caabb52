"""Every event of the catalogue is emitted in a real run, and events arrive at the other end."""

import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from callosum.brain import Brain
from callosum.corpus.bus import Corpus
from callosum.corpus.events import CATALOGUE, CorpusEvent
from callosum.errors import Blocked
from callosum.gate import LocalGate
from callosum.model import Call
from callosum.regions.execution import Task
from callosum.settings import load
from tests.support.serving import Server, hosted, serving, until
from tests.support.weeks import two_weeks

DAY = 86_400
HEALTHY = '[health]\nmemory = 1\ndisk = 1\nfree = "0B"\n'
ILL = '[health]\nmemory = 0\ndisk = 0\nfree = "100000000GB"\n'
LINE = re.compile(r"(\d\d:\d\d:\d\d) \| ([a-z]+(?:\.[A-Za-z]+)+) \| (\{.*\})")


def logged(state: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return all lines of the daily log; each must have the right form."""
    found = []
    for path in sorted((state / "brain" / "corpus").glob("*.log.md")):
        head, empty, *lines = path.read_text("utf-8").splitlines()
        assert (head, empty) == (f"## {path.name.removesuffix('.log.md')}", "")
        for line in lines:
            match = LINE.fullmatch(line)
            assert match, line
            found.append((match[2], json.loads(match[3])))
    return found


def missing(seen: set[str]) -> list[str]:
    """Return the events of the catalogue that nothing emitted."""
    return [name for name in CATALOGUE if name not in seen]


def send(instance: str, text: str, **more: Any) -> Call:
    return Call(instance, "message", {"action": "send", "target": "#general", "message": text}, **more)


def reply(instance: str, thread: int, text: str, **more: Any) -> Call:
    params = {"action": "send", "target": "andy", "replyTo": f"m-{thread}", "message": text}
    return Call(instance, "message", params, **more)


def report(server: Server, *events: dict[str, Any]) -> None:
    assert server.post("/events", list(events)) == {"accepted": len(events)}


def run_tasks(brain: Brain) -> None:
    motor = brain.motor
    assert motor is not None

    def twice(task: Task) -> str:
        with task.step("one"):
            pass
        if task.attempt == 1:
            raise ValueError("not yet")
        return "done"

    def never(task: Task) -> None:
        raise ValueError("no")

    motor.run(Call("mira", "save_note", {"path": "/a"}), twice, backoff=0)
    with pytest.raises(ValueError, match="no"):
        motor.run(Call("mira", "save_note", {"path": "/a"}), never, attempts=3, backoff=0)
    with pytest.raises(Blocked):
        motor.run(Call("mira", "exec", {"command": "callosum approve 7"}), lambda task: None)


def confirm_again_and_again(gate: LocalGate) -> None:
    """Cause pauses that the agent confirms every time, so that they should not be repeated."""
    for number in range(8):
        other = gate.intercept(reply("doug", number, f"the {number}th news about something else entirely, from doug"))
        gate.complete("doug", id=other.id)
        mine = reply("mira", number, f"my own answer number {number}, which is quite another", pause=True)
        paused = gate.intercept(mine)
        assert not paused.proceed, paused
        again = reply("mira", number, f"my own answer number {number}, in other words", pause=True, after=paused.id)
        allowed = gate.intercept(again)
        assert allowed.proceed, allowed
        gate.complete("mira", id=allowed.id)


def test_every_event_of_the_catalogue_comes_out_of_a_real_run(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    two_weeks(state)
    (tmp_path / "ok.toml").write_text(HEALTHY)
    (tmp_path / "ill.toml").write_text(ILL)
    rules = state / "tiers.json"
    rules.write_text(json.dumps({"rules": [{"name": "ask-first", "tool": "ask_first", "tier": 3, "verdict": "ask"}]}))

    # a server, with hosts that report to it
    with serving(state, "--config", str(tmp_path / "ok.toml")) as server:
        report(
            server,
            {"type": "input.received", "content": "Send the report to Andy", "channelId": "c", "conversationId": "1"},
            {"type": "llm.response", "provider": "anthropic", "model": "claude-sonnet", "tokens": 342},
            {"type": "llm.token", "delta": "Hel", "instance": "mira"},
            {"type": "context.built", "tokens": 180_001, "sections": 12},
        )
        report(server, *[{"type": "llm.error", "provider": "p", "error": "529", "willRetry": True}] * 6)
        assert "ada" in server.get("/brief?instance=zoe&key=channel:%23general")["text"]
        assert server.get("/brief?instance=zoe&key=channel:%23general&budget=60")["trimmed"] > 0

    # a program with a brain of its own, on the same state folder
    for config in ("ok.toml", "ill.toml"):
        settings = load({"state": state, "config": tmp_path / config})
        with LocalGate(settings=settings) as gate, Brain(gate) as brain:
            brainstem = brain.brainstem
            assert brainstem is not None
            brainstem.run_job("health")
            if config == "ill.toml":
                break
            changed = threading.Event()
            brain.corpus.on("watcher.changed", lambda event, changed=changed: changed.set())
            brain.start()
            brain.parsed(Call("mira", "look", {"on": "plan"}, call_id="toolu_9"))
            run_tasks(brain)
            confirm_again_and_again(gate)
            gate.lock("doug", "file:notes", ttl=1)
            expired = threading.Event()
            brain.corpus.on("lease.expired", lambda event, expired=expired: expired.set())
            until(lambda gate=gate, expired=expired: gate.sweep() or expired.is_set())
            asked = gate.intercept(Call("mira", "ask_first", {"what": "one"}))
            assert gate.approve(asked.id, by="anna", channel="console").ok
            asked = gate.intercept(Call("mira", "ask_first", {"what": "two"}))
            assert gate.deny(asked.id, by="anna", channel="console").ok
            for job in ("sweep", "retention", "episodes", "index", "digest", "topics"):
                assert brainstem.run_job(job)
            rules.write_text(json.dumps({"rules": []}))
            assert changed.wait(20)
            assert brain.flush(20)
    events = logged(state)
    assert missing({name for name, _ in events}) == []
    assert missing({name for name, _ in events} - {"memory.promoted"}) == ["memory.promoted"], "it can fail"


@contextmanager
def listening(server: Server, types: str) -> Iterator[Callable[[], tuple[str, dict[str, Any]]]]:
    """Follow a server's stream; each call waits for the next event."""
    connection = http.client.HTTPConnection(*server.host_and_port, timeout=20)
    connection.request("GET", f"/events?types={types}")
    answer = connection.getresponse()
    assert answer.status == 200

    def next_event() -> tuple[str, dict[str, Any]]:
        name = ""
        while True:
            line = answer.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: ") and name:
                payload = json.loads(line.removeprefix("data: "))
                common = ("at", "instance", "namespace", "callId", "id", "cause")
                return name, {key: value for key, value in payload.items() if key not in common}

    try:
        yield next_event
    finally:
        answer.close()
        connection.close()


def test_a_new_event_is_logged_and_streamed_with_no_further_wiring(tmp_path: Path) -> None:
    state = tmp_path / "state"
    try:

        class WeatherChanged(CorpusEvent, frozen=True):
            """The weather has changed between rain and dry."""

            dotted = "weather.changed"
            region = "test"

            sky: str

        found: list[Corpus] = []
        with LocalGate(state) as gate, hosted(gate, state, found.append) as address:
            server = Server(None, state, address, tmp_path / "log")  # type: ignore[arg-type]
            with listening(server, "weather.*") as told:
                found[0].emit(WeatherChanged("grey", instance="mira"))
                assert told() == ("weather.changed", {"sky": "grey"})
        assert ("weather.changed", {"sky": "grey", "instance": "mira"}) in logged(state)
    finally:
        CATALOGUE.pop("weather.changed", None)


def test_regions_that_are_switched_off_emit_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state"
    settings = load(
        {"state": state, "corpus_log": False, "regions_off": "safety,context,episodes,search,scheduler,learning"}
    )
    with LocalGate(settings=settings) as gate, Brain(gate) as brain:
        seen: list[str] = []
        brain.corpus.on("*", lambda type, event: seen.append(type))
        gate.intercept(send("mira", "hello"))
        brain.start()
        assert brain.brief("mira").text == ""
        assert brain.flush()
    assert seen == ["tool.called"]
    assert not (state / "brain").exists()


def test_a_handler_that_fails_or_blocks_holds_up_no_decision(tmp_path: Path) -> None:
    release = threading.Event()
    with LocalGate(tmp_path) as gate, Brain(gate) as brain:
        brain.corpus.on("tool.called", lambda event: 1 / 0)
        brain.corpus.on("safety.allowed", lambda event: release.wait(30))
        for number in range(20):
            assert gate.intercept(send("mira", f"message number {number}")).proceed
        release.set()
        assert brain.flush(30)
    assert until(lambda: [name for name, _ in logged(tmp_path)].count("tool.called") == 20)


def test_decisions_are_emitted_in_order(tmp_path: Path) -> None:
    with LocalGate(tmp_path) as gate, Brain(gate) as brain:
        seen: list[str] = []
        brain.corpus.on(CorpusEvent, lambda event: seen.append(event.dotted))
        for number in range(200):
            decision = gate.intercept(Call("mira", "read_file", {"path": f"/{number}"}))
            gate.complete("mira", id=decision.id)
        assert brain.flush(20)
    assert seen == ["tool.called", "safety.allowed", "tool.completed"] * 200


def test_gate_without_its_closed_brain_works_as_before(tmp_path: Path) -> None:
    with LocalGate(tmp_path) as gate:
        brain = Brain(gate)
        brain.close()
        brain.close()
        assert gate.operations.observers == ()
        assert brain.start() is brain
        assert gate.intercept(send("mira", "hello")).proceed
    assert not [thread for thread in threading.enumerate() if thread.name == "callosum-corpus"]


def test_two_brains_on_one_gate_do_not_get_in_each_other_s_way(tmp_path: Path) -> None:
    with LocalGate(tmp_path) as gate:
        first, second = Brain(gate), Brain(gate)
        seen: list[str] = []
        second.corpus.on("tool.*", lambda type, event: seen.append(type))
        first.close()
        gate.intercept(Call("mira", "read_file", {"path": "/a"}))
        assert second.flush()
        second.close()
        assert seen == ["tool.called"]
        assert gate.operations.observers == ()


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise ValueError"])
def test_log_holds_all_journalled_calls_when_the_process_ends(tmp_path: Path, end: str) -> None:
    """The brain is not closed."""
    script = f"""
import sys
from callosum import Call, LocalGate
from callosum.brain import Brain
gate = LocalGate({str(tmp_path)!r})
brain = Brain(gate)
for number in range(30):
    gate.intercept(Call("mira", "read_file", {{"path": f"/{{number}}"}}))
{end}
"""
    subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert [name for name, _ in logged(tmp_path)].count("tool.called") == 30


def test_forked_child_emits_events_of_its_own_calls(tmp_path: Path) -> None:
    script = f"""
import os, sys
from callosum import Call, LocalGate
from callosum.brain import Brain
gate = LocalGate({str(tmp_path)!r})
brain = Brain(gate)
gate.intercept(Call("parent", "read_file", {{"path": "/p"}}))
pid = os.fork()
if pid == 0:
    for number in range(10):
        gate.intercept(Call("child", "read_file", {{"path": f"/{{number}}"}}))
    assert brain.flush(20)
    brain.close()
    os._exit(0)
os.waitpid(pid, 0)
brain.close()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    called = [payload["instance"].partition("/") for name, payload in logged(tmp_path) if name == "tool.called"]
    assert sorted(instance for instance, _, _ in called) == ["child"] * 10 + ["parent"]
    assert len({session for _, _, session in called}) == 2


def test_a_handler_may_close_the_brain(tmp_path: Path) -> None:
    with LocalGate(tmp_path) as gate:
        brain = Brain(gate)
        closed = threading.Event()

        def leave(event: CorpusEvent) -> None:
            brain.close()
            closed.set()

        brain.corpus.on("tool.called", leave)
        gate.intercept(Call("mira", "read_file", {"path": "/a"}))
        assert closed.wait(30)
        assert gate.operations.observers == ()


def test_large_report_of_a_host_is_emitted_whole(tmp_path: Path) -> None:
    """A large report is read outside the event loop; all its events must be emitted."""
    with serving(tmp_path / "state") as server:
        events = [{"type": "llm.token", "delta": "x" * 100, "instance": "mira"}] * 999
        report(
            server, *events, {"type": "llm.response", "provider": "p", "model": "m", "tokens": 1, "instance": "mira"}
        )
        assert server.post("/intercept", {"instance": "mira", "tool": "read_file", "params": {"path": "/a"}})["proceed"]
    names = [name for name, _ in logged(tmp_path / "state")]
    assert names.count("llm.response") == 1
    assert "llm.token" in names
