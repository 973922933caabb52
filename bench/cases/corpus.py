"""The bus and its daily log: the cost of an event for its emitter, and events written to disk in a second."""

from __future__ import annotations

import gc
import multiprocessing
import os
import statistics
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import psutil

from bench.harness import Case, Operation, Report, percentile, side_by_side
from bench.peers import Missing, installed
from callosum.corpus.bus import Corpus
from callosum.corpus.daily_log import DailyLog
from callosum.corpus.events import ToolCompleted

SECONDS = 5.0
TIMED = 1_000_000
TARGET = 200_000
RUNS = 3
SIZE = 10_000_000_000
"""Most bytes of the log: more than can be written here, so that no line is dropped because the file is full."""
LOOP = range(1000)
BLOCKS = 20
VERSIONS = ("pyee", "blinker", "psygnal")

A = TypeVar("A")


@dataclass(frozen=True)
class Sustained:
    """What one process did on one core.

    ``rate`` in events a second; ``busy`` is the same by the processor time of the process, which does not count what
    others took of the core. ``growth`` is that of the resident set from the first third to the last, in MB.
    """

    rate: float
    busy: float
    lost: int
    growth: float


@dataclass(frozen=True)
class Timed:
    """Microseconds of one emit."""

    p50: float
    p99: float
    p999: float


def alone() -> None:
    """One core for everything: the emitter, and the thread that redacts and writes."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def lines_in(folder: Path) -> int:
    """Lines of events: all but each file's head."""
    return sum(file.read_bytes().count(b"\n") - 2 for file in folder.iterdir())


def sustain(folder: Path, secrets: int, out: Connection) -> None:
    """Emit as fast as it goes; the clock stops when everything is on the disk. Every so many-th has a secret."""
    alone()
    me = psutil.Process()
    corpus = Corpus()
    log = DailyLog(corpus, folder, size=SIZE)
    emit, count, sizes = corpus.emit, 0, []
    began, used = time.perf_counter(), time.process_time()
    for third in (1, 2, 3):
        while time.perf_counter() < began + third * SECONDS / 3:
            for number in range(1000):
                output = "password=hunter22" if secrets and number % secrets == 0 else "3 open"
                emit(ToolCompleted("github_prs", output=output, duration=1204.0))
            count += 1000
        sizes.append(me.memory_info().rss / 1e6)
    log.close()
    taken, busy = time.perf_counter() - began, time.process_time() - used
    out.send(Sustained(count / taken, count / busy, count - lines_in(folder), sizes[-1] - sizes[0]))


def timed(folder: Path, out: Connection) -> None:
    """Emit as fast as it goes, with a look at the clock before and after; the microseconds of each emit."""
    alone()
    corpus = Corpus()
    taken = array("d", bytes(8 * TIMED))
    emit, clock = corpus.emit, time.perf_counter
    with DailyLog(corpus, folder):
        for number in range(TIMED):
            event = ToolCompleted("github_prs", output="3 open", duration=1204.0)
            began = clock()
            emit(event)
            taken[number] = clock() - began
    out.send(Timed(*(percentile(taken, share) * 1e6 for share in (0.5, 0.99, 0.999))))


def log_lines(report: Report, folder: Path, rounds: int) -> None:
    """The daily log, each time in a process of its own."""
    context = multiprocessing.get_context("spawn")

    def ask(name: str, kind: type[A], target: Callable[..., None], *args: object) -> A:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=target, args=(folder / name, *args, there), daemon=True)
        process.start()
        there.close()
        answer = here.recv()
        process.join()
        for file in (folder / name).iterdir():
            file.unlink()
        if not isinstance(answer, kind):
            raise TypeError(f"{name}: expected {kind.__name__}, got {answer!r}")
        return answer

    runs = [ask(f"sustain-{turn}", Sustained, sustain, 0) for turn in range(min(rounds, RUNS))]
    note = f"one core, {SECONDS:g} s, until all is on the disk; median of {len(runs)}"
    what = "with the daily log: "
    report.add(what + "events", statistics.median(one.rate for one in runs), "/s", at_least=TARGET, note=note)
    busy = statistics.median(one.busy for one in runs)
    report.add(what + "events, by its own processor time", busy, "/s", note="what others took of the core left out")
    report.add(what + "events lost", sum(one.lost for one in runs), "", at_most=0)
    report.add(what + "memory, last third - first", max(one.growth for one in runs), "MB", at_most=8)
    found = ask("timed", Timed, timed)
    report.add(what + "emit, p50", found.p50, "us")
    report.add(what + "emit, p99", found.p99, "us", at_most=50)
    report.add(what + "emit, p99.9", found.p999, "us")
    mixed = ask("secrets", Sustained, sustain, 100)
    report.add(what + "events, a secret in every hundredth", mixed.rate, "/s", note=f"{mixed.lost} lost")


# --- emitting, beside other buses ---


def handlers(count: int) -> list[Callable[[object], None]]:
    """Handlers that do nothing: each another function, for some buses keep one but once."""

    def make() -> Callable[[object], None]:
        def take(_: object) -> None:
            pass

        return take

    return [make() for _ in range(count)]


def calling(count: int) -> Operation:
    """Plain calls, with one dict made for each: what a bus adds to."""
    first, *others = handlers(count)

    def one(_: int) -> None:
        for _ in LOOP:
            first({"name": "github_prs", "output": "3 open", "duration": 1204.0, "taskId": "TASK-42"})

    def several(_: int) -> None:
        for _ in LOOP:
            payload = {"name": "github_prs", "output": "3 open", "duration": 1204.0, "taskId": "TASK-42"}
            first(payload)
            for take in others:
                take(payload)

    return several if others else one


def with_corpus(count: int) -> Operation:
    corpus = Corpus()
    for take in handlers(count):
        corpus.on(ToolCompleted, take)

    def operation(_: int) -> None:
        emit = corpus.emit
        for _ in LOOP:
            emit(ToolCompleted("github_prs", output="3 open", duration=1204.0, task_id="TASK-42"))

    return operation


def with_older(count: int) -> Operation:
    """Emit events whose ``at`` is an hour old, as the events of a journal are."""
    corpus = Corpus()
    for take in handlers(count):
        corpus.on(ToolCompleted, take)
    at = time.time() - 3600

    def operation(_: int) -> None:
        emit = corpus.emit
        for _ in LOOP:
            emit(ToolCompleted("github_prs", output="3 open", duration=1204.0, task_id="TASK-42", at=at))

    return operation


def with_pyee(count: int) -> Operation:
    bus = installed("pyee").EventEmitter()
    for take in handlers(count):
        bus.on("tool.completed", take)

    def operation(_: int) -> None:
        emit = bus.emit
        for _ in LOOP:
            emit(
                "tool.completed",
                {"name": "github_prs", "output": "3 open", "duration": 1204.0, "taskId": "TASK-42"},
            )

    return operation


def with_blinker(count: int) -> Operation:
    signal = installed("blinker").Signal()
    kept = handlers(count)
    for take in kept:
        signal.connect(take, weak=False)

    def operation(_: int) -> None:
        send = signal.send
        for _ in LOOP:
            send({"name": "github_prs", "output": "3 open", "duration": 1204.0, "taskId": "TASK-42"})

    return operation


def with_psygnal(count: int) -> Operation:
    signal = installed("psygnal").SignalInstance((dict,))
    for take in handlers(count):
        signal.connect(take)

    def operation(_: int) -> None:
        emit = signal.emit
        for _ in LOOP:
            emit({"name": "github_prs", "output": "3 open", "duration": 1204.0, "taskId": "TASK-42"})

    return operation


PEERS: dict[str, Callable[[int], Operation]] = {
    "pyee": with_pyee,
    "blinker": with_blinker,
    "psygnal": with_psygnal,
}


def emit_lines(report: Report, rounds: int) -> None:
    """An event made and emitted, beside a dict made and sent by each of the others."""
    for count in (1, 10):
        cases = [
            Case("corpus", with_corpus(count), BLOCKS),
            Case("older", with_older(count), BLOCKS),
            Case("call", calling(count), BLOCKS),
        ]
        for name, make in PEERS.items():
            try:
                cases.append(Case(name, make(count), BLOCKS))
            except Missing as fault:
                report.missing.append(str(fault))
        gc.disable()  # what is measured makes no cycles; the collector would come to one of them by chance
        try:
            found = side_by_side(cases, rounds)
        finally:
            gc.enable()
        words = "one handler" if count == 1 else "ten handlers"
        mine = found["corpus"]
        report.add(f"emit to {words}", mine.median * 1000 / len(LOOP), "ns", note="the event's making included")
        most = 3.0 if count == 1 else None
        report.add(f"emit to {words} / plain call with a dict", mine.over(found["call"]), "x", at_most=most)
        for name in [name for name in PEERS if name in found]:
            report.add(f"emit to {words} / {name}", mine.over(found[name]), "x", at_most=1.0)
            report.add(f"emit an older event to {words} / {name}", found["older"].over(found[name]), "x", at_most=1.0)


def run(folder: Path, rounds: int) -> Report:
    """The bus beside others, and the daily log."""
    report = Report("corpus")
    emit_lines(report, rounds)
    log_lines(report, folder, rounds)
    return report
