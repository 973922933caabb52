"""Hypothalamus: the rules of the first version with their thresholds, and the measurements."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callosum.cli import health
from callosum.corpus.bus import Corpus
from callosum.corpus.events import (
    ContextBuilt,
    ContextTrimmed,
    CorpusEvent,
    HealthCritical,
    HealthOk,
    HealthWarning,
    LlmError,
    LlmResponse,
    ParsedCall,
    ResourceLowContext,
    SchedulerTick,
    ToolCalled,
    ToolFailed,
    ToolParsed,
)
from callosum.errors import StoreUnavailable
from callosum.gate import LocalGate
from callosum.model import Call
from callosum.regions import machine
from callosum.regions.health import REMIND, Hypothalamus
from callosum.regions.machine import DiskSpace, disk_now
from callosum.stores.memory import MemoryStore

ERROR = LlmError("anthropic", "529", True)
TICK = SchedulerTick("health", "every 30 s")
GOOD = DiskSpace(10, 100)


class Bench:
    """A region whose surroundings are all set by hand."""

    def __init__(self, folder: Path, store: Any = None) -> None:
        self.corpus = Corpus()
        self.told: list[CorpusEvent] = []
        self.memory = GOOD
        self.disk: DiskSpace | OSError = DiskSpace(10**9, 10**10)
        self.now = 1000.0
        self.region = Hypothalamus(
            self.corpus,
            store=store or MemoryStore(),
            state=folder,
            now=lambda: self.now,
            memory=lambda: self.memory,
            disk=self._disk,
        )
        for what in ("health.*", "resource.*"):
            self.corpus.on(what, lambda type, event: self.told.append(event))

    def _disk(self, folder: Path) -> DiskSpace:
        if isinstance(self.disk, OSError):
            raise self.disk
        return self.disk

    def emit(self, *events: CorpusEvent) -> list[tuple[str, dict[str, Any]]]:
        """Emit events; return the resulting events without their common fields."""
        self.told.clear()
        for event in events:
            self.corpus.emit(event)
        return [_shown(event) for event in self.told if event not in events]

    def check(self) -> list[tuple[str, dict[str, Any]]]:
        self.told.clear()
        self.region.check()
        return [_shown(event) for event in self.told]

    def kinds(self) -> list[str]:
        return [name for name, _ in self.check()]


def _shown(event: CorpusEvent) -> tuple[str, dict[str, Any]]:
    common = CorpusEvent.__struct_fields__
    return event.dotted, {name: getattr(event, name) for name in event.__struct_fields__ if name not in common}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.corpus.close()


def test_more_than_five_model_errors_in_a_row_are_a_warning(bench: Bench) -> None:
    assert bench.emit(*[ERROR] * 5) == []
    assert bench.emit(ERROR) == [("health.warning", {"resource": "llm", "value": 6, "threshold": 5})]
    assert bench.emit(ERROR) == [("health.warning", {"resource": "llm", "value": 7, "threshold": 5})]


def test_an_answer_resets_the_count(bench: Bench) -> None:
    bench.emit(*[ERROR] * 6, LlmResponse("anthropic", "claude", 342))
    assert bench.emit(*[ERROR] * 5) == []


@pytest.mark.parametrize(("tokens", "told"), [(180_000, False), (180_001, True)])
def test_a_context_of_more_than_180000_tokens_is_low(bench: Bench, tokens: int, told: bool) -> None:
    low = [("resource.low.context", {"used": tokens, "max": 200_000})]
    assert bench.emit(ContextBuilt(tokens, 12)) == (low if told else [])


def answered(context: int, window: int | None = None, session: str = "mira") -> LlmResponse:
    return LlmResponse("anthropic", "claude", context + 5, context, window, instance=session)


@pytest.mark.parametrize(("window", "most", "of"), [(None, 180_000, 200_000), (258_400, 232_560, 258_400)])
def test_session_that_fills_nine_tenths_of_its_context_is_reported_once(
    bench: Bench, window: int | None, most: int, of: int
) -> None:
    low = ("resource.low.context", {"used": most + 1, "max": of})
    assert bench.emit(answered(most, window)) == []
    assert bench.emit(answered(most + 1, window), answered(most + 2, window)) == [low]
    assert bench.emit(answered(most + 1, window, "doug")) == [low], "once for each session"
    bench.now += REMIND
    assert bench.emit(answered(most + 1, window)) == [low], "a reminder"


def test_context_that_was_trimmed_and_fills_again_is_reported_again(bench: Bench) -> None:
    full, trimmed = answered(190_000), ContextTrimmed(190_000, 20_000, 40, instance="mira")
    assert len(bench.emit(full, trimmed, full)) == 2
    assert bench.emit(LlmResponse("openai", "gpt", 900_000, instance="mira")) == [], "it does not say how long it was"


@pytest.mark.parametrize(("attempt", "told"), [(1, False), (2, False), (3, True), (4, True)])
def test_a_tool_that_fails_for_the_third_time_is_a_warning(bench: Bench, attempt: int, told: bool) -> None:
    warning = [("health.warning", {"resource": "tool", "value": "fetch", "threshold": "max retries exceeded"})]
    assert bench.emit(ToolFailed("fetch", "503", attempt)) == (warning if told else [])


def test_events_name_the_session_they_concern(bench: Bench) -> None:
    bench.emit(ContextBuilt(190_000, 3, instance="mira/chat", namespace="work"))
    (event,) = bench.told
    assert isinstance(event, ResourceLowContext)
    assert (event.instance, event.namespace) == ("mira/chat", "work")


def test_closed_region_emits_nothing(bench: Bench) -> None:
    bench.region.close()
    bench.region.close()
    assert bench.emit(*[ERROR] * 9, ContextBuilt(190_000, 1), TICK) == []


def test_health_ok_has_the_measurements(bench: Bench) -> None:
    bench.emit(*[ERROR] * 2)
    ((name, payload),) = bench.check()
    assert name == "health.ok"
    assert payload["metrics"]["memoryUsedBytes"] == 10
    assert payload["metrics"]["diskFreeBytes"] == 9 * 10**9
    assert payload["metrics"]["modelErrorsInARow"] == 2
    assert payload["metrics"]["storeMilliseconds"] >= 0


def test_tick_of_the_schedule_runs_the_check(bench: Bench) -> None:
    bench.emit(TICK, SchedulerTick("index", "every 60 s"))
    assert [event.dotted for event in bench.told] == ["health.ok"]


def test_low_memory_and_disk_are_reported(bench: Bench) -> None:
    bench.memory = DiskSpace(90, 100)
    assert bench.check() == [("resource.low.memory", {"used": 90, "max": 100})]
    bench.memory, bench.disk = GOOD, DiskSpace(95 * 10**9, 100 * 10**9)
    assert bench.check() == [("resource.low.disk", {"used": 95 * 10**9, "max": 100 * 10**9})]
    bench.disk = DiskSpace(10**9, 10**9 + 1000)
    assert bench.check()[0] == ("health.critical", {"resource": "disk", "value": 1000, "threshold": 64_000_000})
    assert isinstance(bench.told[0], HealthCritical)


def test_read_only_disk_is_not_reported_as_full(bench: Bench) -> None:
    bench.disk = OSError(errno.EROFS, "Read-only file system")
    told = ("health.critical", {"resource": "disk", "value": "Read-only file system", "threshold": "writable"})
    assert bench.check() == [told]


def test_free_space_of_a_read_only_disk_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk_now(tmp_path).total > 0
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result((*real[:8], os.ST_RDONLY, real[9])))
    with pytest.raises(OSError, match="Read-only file system"):
        disk_now(tmp_path / "deeper")


def test_unreadable_disk_is_reported(bench: Bench) -> None:
    bench.disk = OSError(5, "Input/output error")
    assert bench.check() == [
        ("health.warning", {"resource": "disk", "value": "Input/output error", "threshold": "readable"})
    ]


def test_lasting_problem_is_reported_at_the_beginning_and_regularly(bench: Bench) -> None:
    bench.memory = DiskSpace(95, 100)
    assert bench.kinds() == ["resource.low.memory"]
    assert bench.kinds() == []
    bench.now += REMIND
    assert bench.kinds() == ["resource.low.memory"]
    bench.memory = GOOD
    assert bench.kinds() == ["health.ok"]
    bench.memory = DiskSpace(95, 100)
    assert bench.kinds() == ["resource.low.memory"], "it began anew"


def test_unreachable_store_is_critical(tmp_path: Path) -> None:
    class Away(MemoryStore):
        def now(self) -> int:
            raise StoreUnavailable("database is locked")

    bench = Bench(tmp_path, Away())
    assert bench.check() == [
        ("health.critical", {"resource": "store", "value": "database is locked", "threshold": "reachable"})
    ]
    bench.corpus.close()


def test_slow_store_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("callosum.regions.health.time.perf_counter", lambda: clock[0])

    class Slow(MemoryStore):
        def now(self) -> int:
            clock[0] += 0.3
            return 1

    bench = Bench(tmp_path, Slow())
    assert bench.check() == [("health.warning", {"resource": "store", "value": "300 ms", "threshold": "250 ms"})]
    bench.corpus.close()


def test_the_real_machine_can_be_measured(tmp_path: Path) -> None:
    with Corpus() as corpus:
        region = Hypothalamus(corpus, store=MemoryStore(), state=tmp_path / "not" / "there" / "yet")
        metrics = region.check()
    assert int(metrics["memoryUsedBytes"]) > 1_000_000
    assert int(metrics["diskFreeBytes"]) > 0


def _parsed(*names: str, at: float, host: str = "mira", namespace: str | None = None) -> ToolParsed:
    calls = tuple(ParsedCall(name, {}, f"id-{name}") for name in names)
    return ToolParsed(calls, at=at, instance=host, namespace=namespace)


NAMELESS = ToolParsed(tuple(ParsedCall(name) for name in "abc"), at=1000, instance="mira")


def test_a_host_whose_calls_do_not_reach_the_gate_is_critical(bench: Bench) -> None:
    bench.emit(_parsed("a", "b", "c", at=1000, namespace="work"))
    assert bench.kinds() == ["health.ok"], "they may still come"
    bench.now = 1100
    assert bench.check() == [
        (
            "health.critical",
            {"resource": "host:mira", "value": "3 calls of its model did not reach the gate", "threshold": 3},
        )
    ]
    assert (bench.told[0].namespace, bench.told[0].instance) == ("work", "mira")


@pytest.mark.parametrize(
    ("called", "told"),
    [
        (ToolCalled("c", {}, instance="mira", call_id="id-c"), "health.ok"),
        (ToolCalled("c", {}, instance="mira/chat", call_id="id-c"), "health.ok"),
        (ToolCalled("c", {}, instance="mira"), "health.ok"),
        (ToolCalled("c", {}, instance="doug", call_id="id-c"), "health.critical"),
        (ToolCalled("c", {}, instance="mira", namespace="home"), "health.critical"),
    ],
)
@pytest.mark.parametrize("parsed", [_parsed("a", "b", "c", at=1000), NAMELESS], ids=["with ids", "without"])
def test_a_call_that_reaches_the_gate_shows_that_the_hooks_work(
    bench: Bench, parsed: ToolParsed, called: ToolCalled, told: str
) -> None:
    """A person may have cancelled the earlier calls. Calls without an id are known by their name."""
    bench.emit(parsed, called)
    bench.now = 1100
    assert bench.kinds() == [told]


def test_two_heartbeats_at_once_do_not_shorten_the_interval(bench: Bench) -> None:
    bench.emit(HealthOk({}, instance="gateway"), HealthOk({}, instance="gateway"))
    bench.now += 29
    assert bench.kinds() == ["health.ok"]


def test_repeated_report_of_a_call_counts_once(bench: Bench) -> None:
    bench.emit(_parsed("a", "a", "a", "a", "a", at=1000))
    bench.emit(ToolCalled("a", {}, instance="mira"))
    assert len(bench.region._parsed[None, "mira"]) == 4


def test_calls_that_another_process_decided_are_in_the_journal(tmp_path: Path) -> None:
    with LocalGate(tmp_path) as gate:
        gate.intercept(Call("mira", "read_file", {"path": "/a"}, session="chat"))
        bench = Bench(tmp_path, gate.store)
        bench.emit(ToolParsed(tuple(ParsedCall(name) for name in "abc"), instance="mira", namespace="default"))
        bench.now = 1100
        assert bench.kinds() == ["health.ok"]
        bench.emit(ToolParsed(tuple(ParsedCall(name) for name in "abc"), instance="doug", namespace="default"))
        bench.now = 1200
        assert bench.kinds() == ["health.critical"]
        bench.corpus.close()


def test_old_unreached_calls_are_forgotten(bench: Bench) -> None:
    bench.emit(_parsed("a", "b", "c", at=1000))
    bench.now = 1100
    assert bench.kinds() == ["health.critical"]
    bench.now = 1000 + 20 * 60 + 1
    assert bench.kinds() == ["health.ok"]


def test_one_session_s_answers_do_not_hide_another_s_errors(bench: Bench) -> None:
    failing = LlmError("anthropic", "529", True, instance="mira")
    for _ in range(5):
        bench.emit(failing, LlmResponse("anthropic", "claude", 1, instance="doug"))
    assert [name for name, _ in bench.emit(failing)] == ["health.warning"]


def _beat(pid: int | None, host: str = "gateway", hostname: str | None = None) -> HealthOk:
    known: dict[str, int | str] = {} if pid is None else {"pid": pid, "hostname": hostname or socket.gethostname()}
    return HealthOk({"everySeconds": 30, **known}, instance=host)


def test_a_host_that_lives_and_stops_its_heartbeat_is_critical(bench: Bench) -> None:
    bench.emit(_beat(os.getpid()))
    bench.now += 90
    assert bench.kinds() == ["health.ok"]
    bench.now += 1
    assert bench.check() == [
        (
            "health.critical",
            {"resource": "host:gateway", "value": "silent for 91 s", "threshold": "a sign of life every 30 s"},
        )
    ]
    bench.emit(_beat(os.getpid()))
    assert bench.kinds() == ["health.ok"]


def test_a_host_that_has_ended_is_not_silent(bench: Bench) -> None:
    host = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    bench.emit(_beat(host.pid))
    host.communicate(b"\n")
    bench.now += 1000
    assert bench.kinds() == ["health.ok"]


def test_state_of_a_host_on_another_machine_is_unknown(bench: Bench) -> None:
    """It is reported once, because it may just have ended."""
    for beat in (_beat(None), _beat(1, hostname="elsewhere")):
        bench.emit(beat)
        bench.now += 1000
        assert bench.kinds() == ["health.warning"]
        assert isinstance(bench.told[0], HealthWarning)
        bench.now += 1000
        assert bench.kinds() == ["health.ok"]


def test_interval_of_a_heartbeat_without_one_is_measured(bench: Bench) -> None:
    for at in (1000.0, 1010.0):
        bench.now = at
        bench.emit(HealthOk({}, at=5 * at, instance="gateway"))  # its own clock does not matter
    bench.now = 1039
    assert bench.kinds() == ["health.ok"]
    bench.now = 1041
    assert bench.kinds() == ["health.warning"]


def test_many_hosts_take_bounded_memory(bench: Bench) -> None:
    for number in range(3000):
        bench.emit(HealthOk({}, instance=f"host-{number}"), _parsed("a", at=1000, host=f"host-{number}"))
    assert len(bench.region._beats) == 1000
    assert len(bench.region._parsed) == 1000
    bench.emit(*[_parsed(*map(str, range(100)), at=1000) for _ in range(30)])
    assert len(bench.region._parsed[None, "mira"]) == 1000


@pytest.mark.parametrize(("kind", "level"), [("nfs4", "advice"), ("fuse.sshfs", "advice"), ("ext4", "ok")])
def test_doctor_warns_of_a_state_folder_on_a_network_file_system(
    tmp_path: Path, kind: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path.stat().st_dev
    place = tmp_path / "mountinfo"
    place.write_text(f"36 27 {os.major(device)}:{os.minor(device)} / /home rw - {kind} server:/home rw\n")
    monkeypatch.setattr(machine, "MOUNTS", place)
    (found,) = health._folder(tmp_path)
    assert (found.level, f"network file system ({kind})" in found.says) == (level, level == "advice")
