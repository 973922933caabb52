"""Gates without a server, as wholes: workers far and near, hot keys; and what Redis says of its scripts."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
from msgspec.structs import replace as changed

from bench import calls
from bench.scale.backends import POOL, Backend
from bench.scale.blocks import Done, Patience, Work, crowd, gate_on, spent
from bench.scale.loaded import ROUNDS
from bench.scale.measured import Figure, Run
from callosum import Call
from callosum.stores.postgres.connections import address_of
from tests.support.redis_server import RedisServer

WORKERS: Final = 32
DELAY: Final = 0.002
"""What the relay adds each way, in seconds."""
HOT: Final = 10
HOT_WORKERS: Final = 8


def postgres_runs(backend: Backend, folder: Path, patience: Patience) -> list[Run]:
    runs = []
    base = Work(f"{backend.url}&pool={POOL}", folder / "workers", WORKERS, own=True)
    near = patience.calmest(lambda: crowd([base], backend.cpu), lambda done: done.others)
    name = f"postgres: {WORKERS} workers of one process, a key each, tier 3"
    runs.append(_run(Run(name, "postgres", "gate", WORKERS, 3, WORKERS), near))
    with backend.far(DELAY) as (url, between):
        rtt = _round_trip(url) - _round_trip(backend.url)
        work = replace(base, url=url)
        far = patience.calmest(
            lambda: crowd([work], backend.cpu, lambda: spent(between.process)), lambda done: done.others
        )
    name = f"postgres: the same, {rtt * 1000:.1f} ms away"
    runs.append(_run(Run(name, "postgres", "gate", WORKERS, 3, WORKERS, rtt=rtt), far))
    for make, tier in (("reply", 3), ("post", 2)):
        works = [
            Work(backend.url, folder / f"hot-{place}", 2, make, keys=1, seconds=2.0, place=place) for place in range(3)
        ]
        found = patience.calmest(partial(crowd, works, backend.cpu), lambda done: done.others)
        name = f"postgres: one hot key, 3 processes of 2 workers, tier {tier}"
        runs.append(_run(Run(name, "postgres", "gate", 6, tier, 1, processes=3), found))
    return runs


def _round_trip(url: str) -> float:
    """The median time of ``select 1``, in seconds."""
    taken = []
    with psycopg.connect(address_of(url).conninfo, autocommit=True) as connection:
        for _ in range(60):
            began = time.perf_counter()
            connection.execute("select 1")
            taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def redis_runs(backend: Backend, folder: Path, redis: RedisServer, patience: Patience) -> list[Run]:
    base = Work(f"{redis.address}?prefix=hot", folder / "hot", HOT_WORKERS, "post", keys=HOT)
    found = patience.calmest(lambda: crowd([base], backend.cpu), lambda done: done.others)
    runs = [_run(Run(f"redis: {HOT} hot keys, {HOT_WORKERS} workers", "redis", "gate", HOT_WORKERS, 2, HOT), found)]
    half = found.rate / 2
    open_loop = replace(base, rate=half)
    slow = patience.calmest(lambda: crowd([open_loop], backend.cpu), lambda done: done.others)
    name = f"redis: {HOT} hot keys at half of that, open loop"
    runs.append(_run(Run(name, "redis", "gate", HOT_WORKERS, 2, HOT, rate=half), slow))
    return runs


def _run(run: Run, done: Done) -> Run:
    return changed(run, calls=done.rate, p50=done.p50, p99=done.p99, others=done.others, loader=done.between)


def scripts(backend: Backend, folder: Path, redis: RedisServer) -> dict[str, Figure]:
    """Redis's own account of the time of its scripts, a tier 3 decision and a report: seconds of its one thread."""
    found: dict[str, list[float]] = {"decision": [], "report": []}
    with gate_on(backend.url, folder / "scripts") as gate, redis.client() as client:
        for turn in range(ROUNDS):
            ids = []
            for what, rounds in found.items():
                client.config_resetstat()
                if what == "decision":
                    for number in range(40):
                        tool, params = calls.reply(turn * 100 + number)
                        ids.append(gate.intercept(Call("scripted", tool, params)).id)
                else:
                    for id in ids:
                        gate.complete("scripted", id=id)
                stats = client.info("commandstats")
                used = sum(stats[name]["usec"] for name in ("cmdstat_evalsha", "cmdstat_eval") if name in stats)
                rounds.append(used / 40 / 1e6)
    return {f"redis: scripts of a {what}": Figure.of(values) for what, values in found.items()}
