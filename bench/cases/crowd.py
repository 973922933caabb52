"""Eight processes on one file: how long a call takes, and whether everybody gets a turn."""

from __future__ import annotations

import multiprocessing
import queue
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import TypeAlias

from bench import calls
from bench.harness import Operation, Report, percentile
from bench.peers import RECORD
from callosum import LocalGate

PROCESSES = 8
SECONDS = 10.0
THINK = 0.005


Out: TypeAlias = "Queue[list[float]]"


def meeting(folder: Path, number: int, think: float, start: Barrier, out: Out) -> None:
    """One session of the gate: replies in threads that all share, so that each call meets seven others' acts."""
    with LocalGate(settings=calls.settings(folder)) as gate:
        out.put(live(calls.gated(gate, calls.reply, instance=f"session-{number}"), number, think, start))


def apart(folder: Path, number: int, think: float, start: Barrier, out: Out) -> None:
    """One session of the gate: replies in threads of its own; only the file is shared."""

    def make(count: int) -> tuple[str, dict[str, object]]:
        tool, params = calls.reply(count)
        return tool, {**params, "replyTo": f"{number}-{params['replyTo']}"}

    with LocalGate(settings=calls.settings(folder)) as gate:
        out.put(live(calls.gated(gate, make, instance=f"session-{number}"), number, think, start))


def bare(folder: Path, number: int, think: float, start: Barrier, out: Out) -> None:
    """The least that is as durable: one insert a time into the same SQLite file."""
    with closing(sqlite3.connect(folder / "bare.db", isolation_level=None, timeout=30)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute("create table if not exists journal(seq integer primary key, body blob)")

        def operation(count: int) -> None:
            connection.execute("begin immediate")
            connection.execute("insert into journal(body) values(?)", (RECORD[:1000],))
            connection.execute("commit")

        out.put(live(operation, number, think, start))


def live(operation: Operation, number: int, think: float, start: Barrier) -> list[float]:
    """Act for a while, with a pause of ``think`` seconds between; the milliseconds of each act."""
    taken: list[float] = []
    count = number * 1_000_000
    start.wait()
    ends = time.perf_counter() + SECONDS
    while (began := time.perf_counter()) < ends:
        operation(count)
        taken.append((time.perf_counter() - began) * 1000)
        count += 1
        if think:
            time.sleep(think)
    return taken


def crowd(folder: Path, think: float, member: Callable[..., None]) -> list[list[float]]:
    """The milliseconds of each act, for each process. Raises RuntimeError if one of them failed."""
    folder.mkdir()
    context = multiprocessing.get_context("spawn")
    start, out = context.Barrier(PROCESSES), context.Queue()
    processes = [
        context.Process(target=member, args=(folder, number, think, start, out), daemon=True)
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    found: list[list[float]] = []
    while len(found) < PROCESSES:
        try:
            found.append(out.get(timeout=1))
        except queue.Empty:
            if any(process.exitcode for process in processes):
                raise RuntimeError("a session process failed; what it said stands above") from None
    for process in processes:
        process.join()
    return found


def run(folder: Path, rounds: int) -> Report:
    """With pauses, on shared keys and on everybody's own; without pauses; and the bare file."""
    report = Report("crowd")
    cases = (
        ("5 ms between calls", THINK, meeting),
        ("5 ms between calls, own keys", THINK, apart),
        ("no pause", 0.0, meeting),
    )
    for place, (name, think, member) in enumerate(cases):
        found = crowd(folder / str(place), think, member)
        every = [taken for process in found for taken in process]
        fairness = min(map(len, found)) / max(map(len, found))
        calm = think > 0
        report.add(f"{name}: calls a second", len(every) / SECONDS, "/s")
        report.add(f"{name}: p50", percentile(every, 0.5), "ms")
        report.add(f"{name}: p99", percentile(every, 0.99), "ms", at_most=10 if calm else None)
        report.add(f"{name}: p99.9", percentile(every, 0.999), "ms", at_most=None if calm else 100)
        report.add(f"{name}: longest", max(every), "ms")
        report.add(f"{name}: slowest / fastest process", fairness, at_least=0.8 if calm else 0.5)
    every = [taken for process in crowd(folder / "bare", THINK, bare) for taken in process]
    note = "SQLite's own way of waiting, one insert and sync"
    report.add("bare SQLite, 5 ms between inserts: p50", percentile(every, 0.5), "ms", note=note)
    report.add("bare SQLite, 5 ms between inserts: p99", percentile(every, 0.99), "ms")
    report.add("bare SQLite, 5 ms between inserts: longest", max(every), "ms")
    return report
