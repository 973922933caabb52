"""Measures the service times that the simulation needs, with real servers on this machine. Some two minutes.

Processor times are told by the processes' own accounts, so that what else this machine does matters little; waits for
the disk and the runs that the simulation is held against are times of the clock, and want a quiet machine.
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.load import Load
from bench.peers import version_of
from bench.scale.backends import started, versions
from bench.scale.blocks import Course, Patience
from bench.scale.engine import engine
from bench.scale.loaded import blocks, refused, server_runs, two_servers
from bench.scale.measured import Engine, Figure, Measured, Run, quantiles
from bench.scale.sizes import leases, memory, sizes
from bench.scale.workers import postgres_runs, redis_runs, scripts
from bench.serving import callosum

Say = Callable[[str], None]


def measure(say: Say, patience: Patience) -> Measured:
    """Everything. Raises ``Absent`` where PostgreSQL or Redis is not installed."""
    engines: dict[str, Engine] = {}
    runs: list[Run] = []
    held: dict[str, Figure] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="callosum-scale-")))
        sync = _syncs(folder)
        backends = stack.enter_context(started(folder))
        load = stack.enter_context(Load())
        for backend in backends:
            say(f"{backend.name}: a server under load")
            place = folder / backend.name
            place.mkdir()
            options = ("--store", backend.url) if backend.url else ()
            with callosum(place / "served", *options) as served:
                course = Course(load, backend.name, served, backend.cpu)
                loaded = blocks(course, patience)
                runs += server_runs(backend.name, course, loaded)
                held |= sizes(backend, place / "served", backends.server)
            if backend.url:
                say(f"{backend.name}: two servers")
                runs.append(two_servers(backend, place, options, patience))
            say(f"{backend.name}: a gate alone")
            engines[backend.name] = engine(backend, place, loaded, patience)
        say("a server's refusals, waiters, readers of the stream")
        with callosum(folder / "waited-for") as served:
            turned_away = refused(served)
            of_server = memory(served)
        say("postgres: workers, near and far; one key")
        runs += postgres_runs(backends.postgres, folder, patience)
        say("redis: ten hot keys")
        runs += redis_runs(backends.redis, folder, backends.server, patience)
        told = scripts(backends.redis, folder, backends.server)
        say("bytes of live leases")
        of_server |= leases((backends.postgres, backends.redis), folder)
        return Measured(_about(), engines, sync, turned_away, told, held, of_server, runs)


def _about() -> dict[str, str]:
    names = ("uvicorn", "starlette", "msgspec", "uvloop", "psycopg", "redis", "simpy")
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "processors": str(os.cpu_count()),
        "sqlite": sqlite3.sqlite_version,
        "servers": versions(),
        "libraries": ", ".join(map(version_of, names)),
    }


def _syncs(folder: Path) -> list[float]:
    """One append of 8 KiB and ``fdatasync``, again and again."""
    taken = []
    with (folder / "synced").open("ab", buffering=0) as file:
        for _ in range(600):
            file.write(b"x" * 8192)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    return quantiles(taken)
