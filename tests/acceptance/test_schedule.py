"""Two processes keep the schedule over one state folder: pages are reported once, and one process may be killed.

Run as a program this file is one of them: ``python test_schedule.py STATE``. It prints emitted events, and reads ``send
WHO TEXT`` and ``quit`` from its standard input.
"""

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callosum.corpus.bus import Corpus
from callosum.gate import LocalGate
from callosum.model import SECOND, Call
from callosum.pages.dates import day_of, monday_of, start_of, week_of
from callosum.regions.episodes import Hippocampus
from callosum.regions.scheduler import Brainstem, ScheduledJob
from callosum.settings import Settings
from callosum.stores.sqlite import SqliteStore
from callosum.testing import ManualClock
from tests.acceptance.command import run

ROOT = Path(__file__).resolve().parents[2]
JOBS = [ScheduledJob(name, every=0.05) for name in ("sweep", "retention", "episodes", "digest", "topics")]
_SAYING = threading.Lock()
WAIT = 60.0
"""What is waited for comes within a second or two; so long until a test fails, in seconds."""


def serve(state: Path) -> None:
    with (
        LocalGate(settings=Settings(state=state)) as gate,
        Corpus() as corpus,
        Hippocampus(corpus, store=gate.store, state=state),
    ):
        corpus.on("*", say)
        with Brainstem(corpus, gate=gate, state=state, jobs=JOBS, watch=[state / "tiers.json"]):
            for line in sys.stdin:
                word, *rest = line.rstrip("\n").split(" ", 2)
                if word == "quit":
                    break
                send(gate, *rest)
                say("sent", rest[1])
    say("closed", None)


def say(type: str, what: object) -> None:
    with _SAYING:
        sys.stdout.buffer.write(msgspec.json.encode([type, what]) + b"\n")
        sys.stdout.buffer.flush()


def send(gate: LocalGate, who: str, text: str) -> None:
    params = {"action": "send", "target": "#general", "message": text}
    decision = gate.intercept(Call(who, "message", params))
    gate.complete(who, id=decision.id)


class Process:
    """One of the processes and its output."""

    def __init__(self, state: Path) -> None:
        self.child = subprocess.Popen(
            [sys.executable, __file__, str(state)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.said: list[tuple[str, Any]] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def until(self, what: Callable[[str, Any], object]) -> Any:
        """Read the output until it has the wanted line."""
        ends = time.monotonic() + WAIT
        while (line := self._lines.get(timeout=max(0.01, ends - time.monotonic()))) is not None:
            type, payload = msgspec.json.decode(line)
            self.said.append((type, payload))
            if what(type, payload):
                return payload
        raise AssertionError(f"it ended: {self.said[-5:]}")

    def ticks(self, job: str, count: int) -> None:
        """Read the output until a job has run ``count`` more times."""
        for _ in range(count):
            self.until(lambda type, payload: type == "scheduler.tick" and payload["jobName"] == job)

    def tell(self, line: str) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(f"{line}\n")
        self.child.stdin.flush()

    def end(self) -> None:
        if self.child.poll() is None:
            self.tell("quit")
        assert self.child.wait(WAIT) == 0
        self._reader.join(WAIT)
        while (line := self._lines.get_nowait()) is not None:
            self.said.append(tuple(msgspec.json.decode(line)))

    def kill(self) -> None:
        self.child.kill()
        self.child.wait(WAIT)

    def told(self, type: str) -> list[Any]:
        return [payload for said, payload in self.said if said == type]


@contextmanager
def processes(state: Path, count: int) -> Iterator[list[Process]]:
    running = [Process(state) for _ in range(count)]
    try:
        yield running
    finally:
        for one in running:
            one.kill()
            for pipe in (one.child.stdin, one.child.stdout):
                assert pipe is not None
                pipe.close()


@pytest.fixture
def today(monkeypatch: pytest.MonkeyPatch) -> Iterator[date]:
    """Return today's date in a zone where it is about noon, so that the day does not end during a test."""
    monkeypatch.setenv("TZ", f"NOON{time.gmtime().tm_hour - 12:+d}")
    time.tzset()
    yield day_of(time.time_ns() // 1000)
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def state(tmp_path: Path, today: date) -> Path:
    """Return a state folder with a history: a week ago, and a key to which three sessions returned recently."""
    clock = ManualClock(tick=1000)
    with LocalGate(settings=Settings(state=tmp_path), store=SqliteStore(tmp_path / "gate.db", clock=clock)) as gate:
        clock.now = start_of(monday_of(today) - timedelta(days=7)) + 9 * 3600 * SECOND
        send(gate, "mira", "last week")
        for back, who in ((3, "mira"), (2, "doug"), (1, "anna")):
            clock.now = max(clock.now, start_of(today - timedelta(days=back)) + 9 * 3600 * SECOND)
            send(gate, who, f"{back} days ago")
    return tmp_path


def test_two_processes_report_each_page_once(state: Path, today: date) -> None:
    with processes(state, 2) as both:
        for one in both:
            one.ticks("digest", 5)
            one.ticks("topics", 5)
        for number in range(5):
            for who, one in zip(("mira", "doug"), both, strict=True):
                one.tell(f"send {who} message {number}")
                one.until(lambda type, _: type == "sent")
        for one in both:
            one.ticks("episodes", 4)
            one.end()
        said = [event for one in both for event in one.said]
    week = week_of(monday_of(today) - timedelta(days=7))
    assert [payload["week"] for type, payload in said if type == "memory.consolidated"] == [week]
    assert [payload["topic"] for type, payload in said if type == "memory.promoted"] == ["channel:#general"]
    assert not [payload for type, payload in said if type == "health.warning"]
    brain = state / "brain"
    page = (brain / "episodes" / f"{today}.md").read_text()
    assert page.startswith(f"# {today}")
    assert "2 sessions, 10 calls, 0 held back" in page
    assert (brain / "digests" / f"{week}.md").read_text().startswith(f"# {week}")
    (topic,) = (brain / "topics").iterdir()
    assert topic.read_text().startswith("# `channel:#general`\n")
    assert not list(brain.rglob("*.part"))


def test_kill_of_one_process_does_not_stop_the_other(state: Path, today: date) -> None:
    with processes(state, 2) as (dying, other):
        for number in range(40):
            dying.tell(f"send mira message {number}")
        dying.until(lambda type, payload: type == "sent" and payload == "message 20")
        dying.kill()
        other.tell("send doug after it")
        other.until(lambda type, _: type == "sent")
        other.ticks("episodes", 2)
        other.end()
    assert any(type == "memory.saved" and str(today) in str(payload["path"]) for type, payload in other.said)
    page = (state / "brain" / "episodes" / f"{today}.md").read_text()
    assert "## `doug/pid-" in page
    assert "## `mira/pid-" in page
    assert page.endswith("\n")


def test_the_log_of_a_server_in_the_background_does_not_feed_on_itself(tmp_path: Path) -> None:
    """The log is in the folder that the server watches: logging a change there would be a change."""
    state = tmp_path / "state"
    began = run(state, "serve", "--background", "--port", "0")
    try:
        assert began.returncode == 0, began.stdout + began.stderr
        log, sizes = state / "server.log", set()
        with LocalGate(settings=Settings(state=state)) as gate:
            for number in range(3):  # each writes to the folder, and a command takes a third of a second
                send(gate, "mira", f"hello {number}")
                assert run(state, "journal", "-n", "1").returncode == 0
                sizes.add(log.stat().st_size)
        assert len(sizes) == 1, log.read_text()[-2000:]
    finally:
        assert run(state, "stop").returncode == 0


def test_each_process_applies_new_rules_at_once_and_reports_broken_ones(state: Path) -> None:
    rules = state / "tiers.json"
    with processes(state, 2) as both:
        for one in both:
            one.ticks("sweep", 1)
        rules.write_text('{"rules": [{"name": "all", "tool": "message", "tier": 7}]}')
        for one in both:
            told = one.until(lambda type, _: type == "watcher.changed")
            assert (told["path"], told["changeType"]) == (str(rules), "created")
            warning = one.until(lambda type, told: type == "health.warning" and told["resource"] == "rules")
            assert "rules[0].tier" in str(warning["value"])
        draft = state / "draft"
        draft.write_text('{"rules": [{"name": "all", "tool": "message", "verdict": "block", "tier": 2}]}')
        draft.replace(rules)
        for one in both:
            one.until(lambda type, payload: type == "watcher.changed" and payload["changeType"] == "changed")
            one.end()
            assert [told["resource"] for told in one.told("health.warning")].count("rules") == 1


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
