"""The gate over Redis: a gated call beside a bare ``Lock`` on the same server, ten hot keys, and a long journal."""

from __future__ import annotations

import contextlib
import queue
import random
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bench import calls, peers
from bench.filling import fill
from bench.harness import Case, Operation, Report, percentile, side_by_side
from callosum import Call, LocalGate
from callosum.stores.redis import RedisStore

HOT = 10
WORKERS = 8
SECONDS = 4.0


def run(folder: Path, rounds: int) -> Report:
    """Measure on a server that syncs every write, and on one that keeps nothing."""
    report = Report("redis")
    for name, durable in (("appendfsync always", True), ("no log", False)):
        own = folder / ("durable" if durable else "bare")
        own.mkdir()
        try:
            with server(own, durable=durable) as port:
                _pair(report, own, port, name, rounds, durable=durable)
                if durable:
                    _hot(report, own, port)
                else:
                    _flat(report, own, port, rounds)
        except peers.Missing as fault:
            report.missing.append(str(fault))
    return report


def _pair(report: Report, folder: Path, port: int, name: str, rounds: int, *, durable: bool) -> None:
    store = RedisStore(f"redis://127.0.0.1:{port}/0?durability={'full' if durable else 'server'}")
    with LocalGate(settings=calls.settings(folder / "gate"), store=store) as gate, _lock(port) as lock:
        cases = [
            Case("Lock", lock, 100),
            Case("tier 2", calls.gated(gate, calls.post), 60),
            Case("tier 3", calls.gated(gate, calls.reply), 60),
        ]
        found = side_by_side(cases, rounds)
        trips = {case.name: _trips(port, case, 10_000) for case in cases[1:]}
    for case, measured in found.items():
        report.add(f"{name}: {case}, median", measured.median, "us")
        if case != "Lock":
            report.add(f"{name}: {case}, round trips a call", trips[case])
    for case in ("tier 2", "tier 3"):
        target = 2.0 if durable and case == "tier 3" else None
        report.add(f"{name}: {case} / Lock acquire + release", found[case].over(found["Lock"]), at_most=target)


def _trips(port: int, case: Case, start: int) -> float:
    """How many scripts the server runs for one call: each is one round trip."""
    with peers.installed("redis").Redis(port=port) as client:
        before = client.info("commandstats")["cmdstat_evalsha"]["calls"]
        for count in range(start, start + 100):
            case.operation(count)
        return float(client.info("commandstats")["cmdstat_evalsha"]["calls"] - before) / 100


def _flat(report: Report, folder: Path, port: int, rounds: int) -> None:
    """One call in a journal of a million rows, over 100,000 keys, beside one in a journal of a thousand."""
    cases = []
    with contextlib.ExitStack() as stack:
        for rows, keys in ((1_000, 1_000), (1_000_000, 100_000)):
            prefix = f"flat{rows}"
            store = RedisStore(f"redis://127.0.0.1:{port}/0?durability=server&prefix={prefix}")
            gate = LocalGate(settings=calls.settings(folder / prefix, rotate=False), store=store)
            stack.callback(gate.close)
            fill(store, rows, keys, time.time_ns() // 1_000 - 172_800_000_000)
            cases.append(Case(f"{rows:,} rows", calls.gated(gate, calls.reply), 60))
        few, many = side_by_side(cases, rounds).values()
    report.add("tier 3 after 1,000 rows, median", few.median, "us")
    report.add("tier 3 after 1,000,000 rows / 1,000 rows", many.over(few), at_most=1.25)


def _hot(report: Report, folder: Path, port: int) -> None:
    """Calls of many sessions on ten keys: how many can be done, and how long one takes at half of that."""
    store = RedisStore(f"redis://127.0.0.1:{port}/0?prefix=hot")
    with LocalGate(settings=calls.settings(folder / "hot"), store=store) as gate:
        done = _worked(gate, None)
        rate = len(done) / SECONDS
        before, taken = store.engine.overtaken, _worked(gate, rate / 2)
    report.add("ten hot keys: calls at saturation", rate, "/s")
    report.add("ten hot keys at half of that: p99", percentile(taken, 0.99) * 1000, "ms", at_most=50)
    report.add("ten hot keys at half of that: longest", max(taken) * 1000, "ms", at_most=1000)
    again = store.engine.overtaken - before
    report.add("ten hot keys at half of that: retries a call", again / len(taken), at_most=3)


def _worked(gate: LocalGate, rate: float | None) -> list[float]:
    """How long calls took, in seconds, from the moment each was due; without a rate each follows the one before."""
    due: queue.SimpleQueue[float | None] = queue.SimpleQueue()
    taken: list[float] = []
    end = time.monotonic() + SECONDS

    def work(place: int) -> None:
        chance = random.Random(place)
        while True:
            began = due.get() if rate is not None else time.monotonic()
            if began is None or began > end:
                return
            key = chance.randrange(HOT)
            call = Call(f"s{place}", "message", {"action": "send", "target": f"t{key}", "message": "On it"})
            decision = gate.intercept(call)
            if decision.proceed:
                gate.complete(f"s{place}", id=decision.id)
            taken.append(time.monotonic() - began)

    workers = [threading.Thread(target=work, args=(place,)) for place in range(WORKERS)]
    for worker in workers:
        worker.start()
    if rate is not None:
        chance = random.Random(1)
        at = time.monotonic()
        while at < end:
            time.sleep(max(0.0, at - time.monotonic()))
            due.put(at)
            at += chance.expovariate(rate)
        for _ in workers:
            due.put(None)
    for worker in workers:
        worker.join()
    return taken


@contextlib.contextmanager
def _lock(port: int) -> Iterator[Operation]:
    redis = peers.installed("redis")
    with redis.Redis(port=port) as client:
        lock = client.lock("peer", timeout=300)

        def operation(_: int) -> None:
            lock.acquire()
            lock.release()

        yield operation


@contextlib.contextmanager
def server(folder: Path, *, durable: bool) -> Iterator[int]:
    """A Redis server on a free port of the loopback; stopped in the end."""
    binary = shutil.which("redis-server")
    if binary is None:
        raise peers.Missing("redis-server is not installed")
    redis = peers.installed("redis")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    log = ["--appendonly", "yes", "--appendfsync", "always"] if durable else ["--appendonly", "no"]
    command = [binary, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", "", *log]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        with redis.Redis(port=port) as client:
            deadline = time.monotonic() + 20
            while True:
                try:
                    client.ping()
                    break
                except redis.exceptions.ConnectionError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)
        yield port
    finally:
        server.terminate()
        server.wait(20)
