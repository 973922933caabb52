"""The stores that are measured: private servers of this machine, near and behind a relay."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psutil
import psycopg

from bench.scale.blocks import nothing, spent
from bench.scale.relay import Relay, relay
from tests.support.postgres import Server as Postgres
from tests.support.postgres import binaries
from tests.support.postgres import server as postgres_server
from tests.support.redis_server import RedisServer

POOL: Final = 36
"""Connections of a gate whose workers are not to wait for one."""
Far = Callable[[float], AbstractContextManager[tuple[str, Relay]]]


class Absent(Exception):
    """Something that is measured is not installed here."""


@dataclass(frozen=True)
class Backend:
    """A store that runs: its URL, what its own processes have taken so far, in seconds, and how many bytes it holds.

    ``far``: the URL of the same store behind a relay that adds so many seconds each way, and the relay.
    """

    name: str
    url: str
    cpu: Callable[[], float]
    stored: Callable[[], float]
    far: Far


@dataclass(frozen=True)
class Backends:
    """All of them."""

    sqlite: Backend
    postgres: Backend
    redis: Backend
    server: RedisServer

    def __iter__(self) -> Iterator[Backend]:
        return iter((self.sqlite, self.postgres, self.redis))


@contextmanager
def started(folder: Path) -> Iterator[Backends]:
    """Starts them on the disk that ``folder`` is on, and stops them. Raises ``Absent``."""
    if binaries() is None:
        raise Absent("PostgreSQL's binaries (initdb, postgres) are not here: install postgresql")
    if shutil.which("redis-server") is None:
        raise Absent("redis-server is not here: install redis-server")
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server(on_disk=True))
        place = folder / "redis-server"
        place.mkdir()
        redis = RedisServer(place)
        stack.callback(redis.stop)
        yield Backends(
            Backend("sqlite", "", nothing, nothing, _nowhere),
            Backend(
                "postgres",
                postgres.url("scale"),
                partial(spent, _process(postgres._process)),
                partial(_tables, postgres),
                partial(_far_postgres, postgres),
            ),
            Backend(
                "redis",
                f"{redis.address}?prefix=scale",
                partial(spent, _process(redis.process)),
                partial(_memory, redis),
                partial(_far_redis, redis),
            ),
            redis,
        )


def versions() -> str:
    """What PostgreSQL and Redis say that they are."""
    commands = [str((binaries() or Path()) / "postgres"), shutil.which("redis-server") or "redis-server"]
    said = [subprocess.run([one, "--version"], capture_output=True, text=True, check=True).stdout for one in commands]
    return f"PostgreSQL {said[0].split()[2]}, Redis {said[1].split('v=')[1].split()[0]}"


def _process(started: subprocess.Popen[bytes] | None) -> psutil.Process:
    if started is None:
        raise AssertionError("it does not run")
    return psutil.Process(started.pid)


def _tables(postgres: Postgres) -> float:
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        row = connection.execute(
            "select sum(pg_total_relation_size(c.oid)) from pg_class c join pg_namespace n on n.oid = c.relnamespace "
            "where n.nspname = 'scale' and c.relkind = 'r'"
        ).fetchone()
    return float(row[0]) if row else 0.0


def _memory(redis: RedisServer) -> float:
    with redis.client() as client:
        return float(client.info("memory")["used_memory"])


@contextmanager
def _nowhere(delay: float) -> Iterator[tuple[str, Relay]]:
    raise AssertionError("a file is near")
    yield


@contextmanager
def _far_postgres(postgres: Postgres, delay: float) -> Iterator[tuple[str, Relay]]:
    with tempfile.TemporaryDirectory(prefix="callosum-far-") as place:
        name = ".s.PGSQL.5432"
        with relay(f"{place}/{name}", str(postgres.folder / name), delay) as between:
            yield f"postgresql://callosum@/postgres?host={quote(place, safe='')}&schema=scale&pool={POOL}", between


@contextmanager
def _far_redis(redis: RedisServer, delay: float) -> Iterator[tuple[str, Relay]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with relay(("127.0.0.1", port), ("127.0.0.1", redis.port), delay) as between:
        yield f"redis://127.0.0.1:{port}/0?prefix=scale", between
