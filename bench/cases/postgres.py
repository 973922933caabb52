"""A gated tier-3 call on PostgreSQL beside two single-row transactions by psycopg, and how many round trips it takes.

The server is private, on the disk that the folder is on, with its own default durability; both speak through the
same Unix socket. Behind a proxy that adds delay, round trips are counted, and the workers are threads of several
processes.
"""

from __future__ import annotations

import multiprocessing
import statistics
import threading
import time
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from bench import calls
from bench.filling import fill
from bench.harness import Case, Operation, Report, side_by_side
from bench.wire import far_away
from callosum import Call, LocalGate
from callosum.stores.postgres import PostgresStore
from tests.support.postgres import ABSENT, binaries, server

PROCESSES, THREADS = 4, 8
WORKERS = PROCESSES * THREADS
SECONDS, PAIRS = 2.0, 3
WARM = 5
"""Calls that each worker makes before they count: connections are opened, statements prepared."""
DELAY = 0.002
"""In seconds, each way."""
SMALL_ROWS, LARGE_ROWS = 1_000, 1_000_000


def two_transactions(conninfo: str) -> tuple[psycopg.Connection, Operation]:
    """One row inserted, then changed: each in a transaction of its own."""
    connection = psycopg.connect(conninfo, prepare_threshold=0)
    with connection.transaction():
        connection.execute("create table if not exists plain(id bigint primary key, body text, state text)")
    numbers = count(time.time_ns())

    def operation(_: int) -> None:
        id = next(numbers)
        with connection.transaction():
            connection.execute("insert into plain values(%s, %s, 'open')", (id, "x" * 200))
        with connection.transaction():
            connection.execute("update plain set state = 'done' where id = %s", (id,))

    return connection, operation


def rate(url: str, folder: Path, processes: int, threads: int) -> float:
    """Gated tier-3 calls a second by so many workers, each on a key of its own."""
    context = multiprocessing.get_context("spawn")
    start, done = context.Barrier(processes), context.SimpleQueue()
    workers = [
        context.Process(target=_work, args=(url, folder / f"p{number}", f"p{number}", threads, start, done))
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    calls_a_second: float = sum(done.get() for _ in workers)
    for worker in workers:
        worker.join()
    return calls_a_second


def _work(url: str, folder: Path, name: str, threads: int, start: Any, done: Any) -> None:
    """One process: calls by its threads, all at once, after each has made some."""
    counts = [0] * threads
    with LocalGate(settings=calls.settings(folder, rotate=False), store=PostgresStore(url)) as gate:

        def work(number: int) -> None:
            for _ in range(WARM):
                one_call(gate, f"{name}-{number}")
            together.wait()
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                one_call(gate, f"{name}-{number}")
                counts[number] += 1

        together = threading.Barrier(threads, start.wait)
        pool = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for thread in pool:
            thread.start()
        for thread in pool:
            thread.join()
    done.put(sum(counts) / SECONDS)


_ids = count(time.time_ns())


def one_call(gate: LocalGate, who: str) -> None:
    id = f"{who}-{next(_ids)}"
    params = {"action": "send", "target": "andy", "replyTo": f"thread-{who}", "message": f"number {id}"}
    gate.complete(who, id=gate.intercept(Call(who, "message", params, call_id=id)).id)


def run(folder: Path, rounds: int) -> Report:
    """Measure everything in the same rounds."""
    report = Report("postgres")
    if binaries() is None:
        report.missing.append(ABSENT)
        return report
    with ExitStack() as stack:
        own = stack.enter_context(server(on_disk=True))

        def gate_on(url: str, name: str) -> LocalGate:
            settings = calls.settings(folder / name, rotate=False)
            return stack.enter_context(LocalGate(settings=settings, store=PostgresStore(url)))

        connection, plain = two_transactions(own.conninfo)
        stack.callback(connection.close)
        cases = [
            Case("tier 3", calls.gated(gate_on(own.url("near"), "near"), calls.reply), 30),
            Case("two transactions", plain, 30),
        ]
        for rows in (SMALL_ROWS, LARGE_ROWS):
            url = own.url(f"rows{rows}")
            with closing(PostgresStore(url)) as store:
                fill(store, rows, 10_000, 1_000)
            with psycopg.connect(own.conninfo, autocommit=True) as maintenance:
                maintenance.execute(f"vacuum analyze rows{rows}.journal")
                maintenance.execute(f"vacuum analyze rows{rows}.record")
                maintenance.execute("checkpoint")
            cases.append(Case(f"{rows} rows", calls.gated(gate_on(url, f"rows{rows}"), calls.reply), 30))
        found = side_by_side(cases, rounds)
        for name, measured in found.items():
            report.add(f"{name}, median", measured.median, "us")
        over = found["tier 3"].over(found["two transactions"])
        report.add("tier 3 / two single-row transactions", over, at_most=2.5)
        flat = found[f"{LARGE_ROWS} rows"].over(found[f"{SMALL_ROWS} rows"])
        report.add("a million journal rows / a thousand", flat, at_most=1.25)

        (place := folder / "far").mkdir()
        name = ".s.PGSQL.5432"
        wire = stack.enter_context(far_away(own.folder / name, place / name, DELAY))
        url = f"postgresql://callosum@/postgres?host={place}&schema=far&pool={THREADS}"
        far = gate_on(url, "one")
        for _ in range(WARM):
            one_call(far, "w0")
        before = wire.trips
        for _ in range(20):
            one_call(far, "w0")
        report.add("round trips of a tier-3 call and its report", (wire.trips - before) / 20, at_most=2)
        pairs = [
            (rate(url, folder / f"alone{pair}", 1, 1), rate(url, folder / f"together{pair}", PROCESSES, THREADS))
            for pair in range(PAIRS)
        ]
        report.add("one worker, 2 ms away", statistics.median(alone for alone, _ in pairs), "calls/s")
        over = statistics.median(together / alone for alone, together in pairs)
        report.add(f"{WORKERS} workers / one, {DELAY * 1000:g} ms away", over, at_least=10)
    return report
