"""A gated tier-3 call on PostgreSQL beside two single-row transactions by psycopg, and how many round trips it takes.

The server is private, on the disk that the folder is on, with its own default durability; both speak through the
same Unix socket. Behind a proxy that adds delay only the round trips count: they are told by a call's time.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from heapq import heappop, heappush
from itertools import count
from pathlib import Path

import psycopg

from bench import calls
from bench.harness import Case, Operation, Report, side_by_side
from callosum import Call, LocalGate
from callosum.stores.postgres import PostgresStore
from tests.support.postgres import ABSENT, Server, binaries, server

WORKERS = 32
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


class Slow:
    """A proxy before a Unix socket that adds a delay each way, and counts how often the client waited for an answer."""

    def __init__(self, target: Path, path: Path, delay: float) -> None:
        self._target, self._delay = target, delay
        self.trips = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(128)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(str(self._target))
                last = ["down"]
                self._pump(client, upstream, "up", last)
                self._pump(upstream, client, "down", last)

    def _pump(self, source: socket.socket, target: socket.socket, way: str, last: list[str]) -> None:
        waiting: list[tuple[float, int, bytes]] = []
        change = threading.Condition()

        def read() -> None:
            for number in count():
                try:
                    data = source.recv(1 << 16)
                except OSError:
                    data = b""
                if way == "up" and data and last[0] == "down":
                    self.trips += 1
                if data:
                    last[0] = way
                with change:
                    heappush(waiting, (time.monotonic() + self._delay, number, data))
                    change.notify()
                if not data:
                    return

        def write() -> None:
            while True:
                with change:
                    change.wait_for(lambda: waiting)
                    at, _, data = heappop(waiting)
                time.sleep(max(0.0, at - time.monotonic()))
                try:
                    if not data:
                        target.shutdown(socket.SHUT_RDWR)
                        return
                    target.sendall(data)
                except OSError:
                    return

        for work in (read, write):
            threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        self._listener.close()


@contextmanager
def slow(own: Server, folder: Path) -> Iterator[tuple[str, Slow]]:
    """The URL of the server behind the proxy."""
    place = folder / "slow"
    place.mkdir()
    proxy = Slow(own.folder / ".s.PGSQL.5432", place / ".s.PGSQL.5432", DELAY)
    yield f"postgresql://callosum@/postgres?host={place}&schema=slow&pool={WORKERS + 4}", proxy
    proxy.close()


def rate(gate: LocalGate, workers: int, seconds: float) -> float:
    """Gated tier-3 calls a second by so many workers, each on a key of its own."""
    until = time.monotonic() + seconds
    done = [0] * workers

    def work(number: int) -> None:
        while time.monotonic() < until:
            done[number] += 1
            one_call(gate, f"w{number}", f"{number}-{done[number]}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / seconds


def one_call(gate: LocalGate, who: str, id: str) -> None:
    params = {"action": "send", "target": "andy", "replyTo": f"thread-{who}", "message": f"number {id}"}
    decision = gate.intercept(Call(who, "message", params, call_id=id))
    gate.complete(who, id=decision.id)


def fill(url: str, rows: int) -> None:
    """So many entries of long ago, in the form that the gate leaves them."""
    store = PostgresStore(url)
    store._read(
        "with j as (insert into journal(seq, token, event, namespace, session, tool, tier, verdict, action, key, keys, "
        "body, state, ended, expires, approved) select n * 1000, 1, 'intercept', 'default', 's' || n %% 5, 'message', "
        "2, 'allow', n * 1000, 'channel:' || n %% 10000, '[[\"channel:' || n %% 10000 || '\",\"write\",0]]', "
        "'{\"params\":\"' || repeat('x', 100) || '\"}', 'done', n * 1000 + 500, n * 1000 + 900, 0 "
        "from generate_series(1, %(rows)s) n returning 1), "
        "m as (insert into mark select 'channel:' || n, 's' || s, 0, 0, 0, null, 1000, 1000 "
        "from generate_series(0, least(%(rows)s, 10000) - 1) n cross join generate_series(0, 4) s "
        "on conflict do nothing returning 1) select count(*) from j",
        {"rows": rows},
    )
    store._read("select pg_stat_force_next_flush()")
    store.close()


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
            fill(url, rows)
            with psycopg.connect(own.conninfo, autocommit=True) as maintenance:
                maintenance.execute(f"vacuum analyze rows{rows}.journal")
                maintenance.execute(f"vacuum analyze rows{rows}.mark")
            cases.append(Case(f"{rows} rows", calls.gated(gate_on(url, f"rows{rows}"), calls.reply), 30))
        found = side_by_side(cases, rounds)
        for name, measured in found.items():
            report.add(f"{name}, median", measured.median, "us")
        over = found["tier 3"].over(found["two transactions"])
        report.add("tier 3 / two single-row transactions", over, at_most=2.5)
        flat = found[f"{LARGE_ROWS} rows"].over(found[f"{SMALL_ROWS} rows"])
        report.add("a million journal rows / a thousand", flat, at_most=1.25)

        url, proxy = stack.enter_context(slow(own, folder))
        far = gate_on(url, "far")
        for number in range(WORKERS):
            one_call(far, f"w{number}", f"first-{number}")
        before = proxy.trips
        for number in range(20):
            one_call(far, "w0", f"again-{number}")
        report.add("round trips of a tier-3 call and its report", (proxy.trips - before) / 20, at_most=3)
        alone = rate(far, 1, 3)
        report.add(f"{WORKERS} workers / one, {DELAY * 1000:g} ms away", rate(far, WORKERS, 3) / alone, at_least=10)
    return report
