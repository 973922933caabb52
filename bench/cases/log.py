"""Whether the write-ahead log stays bounded while readers come and go."""

from __future__ import annotations

import multiprocessing
import random
import sqlite3
import time
from contextlib import closing
from multiprocessing.synchronize import Event
from pathlib import Path

from bench import calls
from bench.harness import Report
from callosum import LocalGate
from callosum.gate import DATABASE

SECONDS = 20.0
READERS = 3
LIMIT = 64.0
"""Megabytes: twice the size from which on the store empties its log."""


def reader(file: Path, seed: int, stop: Event) -> None:
    """Look at the file in one transaction after the other, each up to a quarter of a second long."""
    chance = random.Random(seed)
    while not stop.is_set():
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            connection.execute("begin")
            connection.execute("select max(seq) from journal").fetchone()
            stop.wait(chance.uniform(0.01, 0.25))
            connection.execute("rollback")


def run(folder: Path, rounds: int) -> Report:
    """Write as fast as one process can, beside readers that nearly always overlap."""
    report = Report("log")
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    with LocalGate(settings=calls.settings(folder)) as gate:
        operation = calls.gated(gate, calls.post)
        operation(0)
        file = folder / DATABASE
        log = file.with_name(file.name + "-wal")
        readers = [context.Process(target=reader, args=(file, seed, stop), daemon=True) for seed in range(READERS)]
        for process in readers:
            process.start()
        sizes: list[float] = []
        count = 0
        ends = time.perf_counter() + SECONDS
        while time.perf_counter() < ends:
            count += 1
            operation(count)
            if count % 50 == 0:
                sizes.append(log.stat().st_size / 1e6)
        stop.set()
        for process in readers:
            process.join()
    half = len(sizes) // 2
    note = f"{count:,} calls, {READERS} readers"
    report.add("largest in the first half", max(sizes[:half]), "MB", note=note)
    report.add("largest in the second half", max(sizes[half:]), "MB", at_most=LIMIT)
    return report
