"""What a gate holds in memory after a million calls."""

from __future__ import annotations

import multiprocessing
import shutil
import sqlite3
import time
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from bench import calls
from bench.cases import growth
from bench.harness import Report
from callosum import LocalGate
from callosum.gate import DATABASE

EARLY, LATE = 10_000, 1_000_000
SESSIONS = 500


def decide(folder: Path, out: Connection) -> None:
    """Decide calls; tell the memory (unique and resident set) after some and after all.

    The first half makes the journal that the group ``growth`` needs, which is put aside; the second
    half is of every kind and by many sessions.
    """
    me = psutil.Process()
    with LocalGate(settings=calls.settings(folder / "state", rotate=False)) as gate:
        fill = growth.past(gate, growth.LARGE_KEYS)
        makes = (calls.read, calls.write, calls.post, calls.write_deep)
        began = time.perf_counter()
        for count in range(LATE):
            if count == EARLY:
                out.send(me.memory_full_info()[:])
            if count == growth.LARGE_ROWS // 2:
                put_aside(folder)
            if count < growth.LARGE_ROWS // 2:
                fill(count)
            else:
                instance = f"session-{count // 16 % SESSIONS}"
                calls.gated(gate, makes[count % len(makes)], instance=instance)(count)
        taken = time.perf_counter() - began
        out.send(me.memory_full_info()[:])
    out.send((taken,))


def put_aside(folder: Path) -> None:
    """Copy the state as it is now."""
    (folder / "large").mkdir()
    shutil.copy(folder / "state" / "content.key", folder / "large")
    with (
        closing(sqlite3.connect(folder / "state" / DATABASE)) as state,
        closing(sqlite3.connect(folder / "large" / DATABASE)) as copy,
    ):
        state.backup(copy)
        copy.execute("pragma journal_mode = wal")


def run(folder: Path, rounds: int) -> Report:
    """In a process of its own, so that nothing else counts."""
    report = Report("memory")
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=decide, args=(folder, there), daemon=True)
    process.start()
    there.close()
    fields = psutil.Process().memory_full_info()._fields
    early, late = (dict(zip(fields, here.recv(), strict=True)) for _ in range(2))
    (taken,) = here.recv()
    process.join()
    for kind in ("uss", "rss"):
        first, last = early[kind] / 1e6, late[kind] / 1e6
        report.add(f"{kind.upper()} after {EARLY:,} calls", first, "MB")
        target = 20 if kind == "uss" else None
        note = f"{LATE / taken:,.0f} calls a second" if kind == "uss" else ""
        report.add(f"{kind.upper()} after {LATE:,} calls, more", last - first, "MB", at_most=target, note=note)
    return report
