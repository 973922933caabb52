"""Pool connections to the database, parse its URL, and translate its errors."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from msgspec import Struct
from psycopg import sql
from psycopg_pool import ConnectionPool, PoolTimeout

from callosum.errors import ConfigError, StoreError, StoreUnavailable
from callosum.stores.base import Pool
from callosum.stores.postgres.pipeline import Params, Pipeline
from callosum.stores.postgres.schema import found, migrate

SCHEMA_NAME: Final = "callosum"
POOL: Final = 16
"""Maximum number of connections of a process, unless the URL sets ``?pool=``."""
PATIENCE: Final = 15.0
"""Seconds for which a call tries to reach the database."""
_LEAST: Final = 0.1
"""Minimum number of seconds that the last try gets."""
_OWN: Final = ("schema", "pool", "pooler", "direct")
_PURGE: Final = 1.0
"""Seconds after a purge for which new connections are not purged again."""
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,40}\Z")
LOCK_TIMEOUT: Final = "5s"
"""Time that a step waits for a row before it starts again; the server is then known to be reachable."""
# How long a stalled client may block others, and settings that make every plan use indexes.
_SETTINGS: Final[Mapping[str, str]] = {
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": LOCK_TIMEOUT,
    # Every statement finds its rows through an index, whatever the current statistics of the tables say.
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "enable_material": "off",
    "enable_memoize": "off",
}


def _set(local: str) -> str:
    settings = ", ".join(f"set_config('{name}', '{value}', {local})" for name, value in _SETTINGS.items())
    return f"select {settings}, set_config('search_path', %s, {local})"


_FOR_SESSION: Final = _set("false")
_FOR_TRANSACTION: Final = _set("true")
_PROBE: Final = "callosum.probe"
_NETWORK: Final[Mapping[str, Any]] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "callosum",
}
_AGAIN: Final = frozenset({"40001", "40P01", "55P03"})
_GONE: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "53300"})

T = TypeVar("T")


class Address(Struct, frozen=True):
    """Where the tables are: libpq's connection string, and the URL parameters of Callosum.

    ``direct``: connection string that bypasses a pooler which shares connections between transactions; empty if there
    is no such pooler.
    """

    conninfo: str
    schema: str = SCHEMA_NAME
    pool: int = POOL
    direct: str = ""

    @property
    def place(self) -> str:
        """Return the address for messages, without the password."""
        parts = psycopg.conninfo.conninfo_to_dict(self.conninfo)
        parts = {name: parts[name] for name in ("host", "port", "dbname", "user") if parts.get(name)}
        return " ".join(f"{name}={value}" for name, value in parts.items()) + f" schema={self.schema}"


def address_of(url: str) -> Address:
    """Parse a ``postgresql://`` URL. It may contain all of libpq's parameters and Callosum's own (``_OWN``).

    Raises ``ConfigError``.
    """
    address, _, query = url.partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    own = {name: value for name, value in given if name in _OWN}
    rest = urlencode([(name, value) for name, value in given if name not in own], quote_via=quote)
    conninfo = f"{address}?{rest}" if rest else address
    schema = own.get("schema", SCHEMA_NAME)
    if not _NAME.match(schema):
        raise ConfigError("expected lower-case letters, digits and underscores", at="store: schema")
    pool = own.get("pool", str(POOL))
    if not pool.isdecimal() or not 1 <= int(pool) <= 1000:
        raise ConfigError("expected a number from 1 to 1000", at="store: pool")
    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        raise ConfigError(str(error).strip(), at="store") from None
    return Address(conninfo, schema, int(pool), _direct(conninfo, own))


def _direct(conninfo: str, own: Mapping[str, str]) -> str:
    """Return the connection string that bypasses a pooler; empty unless it pools by transaction."""
    pooler, place = own.get("pooler", "session"), own.get("direct", "")
    if pooler not in ("session", "transaction"):
        raise ConfigError("expected session or transaction", at="store: pooler")
    if (pooler == "transaction") != bool(place):
        raise ConfigError("pooler=transaction and direct=host:port belong together", at="store: direct")
    if not place:
        return ""
    host, _, port = place.rpartition(":")
    if not (host and port.isdecimal()):
        raise ConfigError("expected host:port, the database's own", at="store: direct")
    return psycopg.conninfo.make_conninfo(conninfo, host=host.strip("[]"), port=port)


class _Operation(threading.local):
    """A thread's running operation. ``until``: its deadline by the monotonic clock, 0 for none."""

    until = 0.0


class PostgresConnections:
    """The connection pool of one process. After a fork the child opens its own and leaves its parent's alone."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._pool: ConnectionPool[Pipeline] | None = None
        self._lock = threading.Lock()
        self._pid = 0
        self._busy = 0
        self._purged = 0.0
        self._operation = _Operation()
        self.opened = 0
        """Number of connections opened so far; each may lead to another server."""
        self._left: list[ConnectionPool[Pipeline]] = []

    def _get(self) -> ConnectionPool[Pipeline]:
        pool = self._pool
        if pool is not None and self._pid == os.getpid():
            return pool
        if self._pid != os.getpid():
            self._lock = threading.Lock()  # a thread of the parent may have held the lock
            self._busy = 0
        with self._lock:
            if self._pool is not None and self._pid != os.getpid():
                self._left.append(self._pool)  # garbage collection would close the parent's sockets
                self._pool = None
            if self._pool is None:
                self._pool = self._open()
                self._pid = os.getpid()
            return self._pool

    def _open(self) -> ConnectionPool[Pipeline]:
        with explained(self.address), self.alone() as connection:
            migrate(connection, self.address.schema)
            if not self.address.direct:
                self._refuse_shared(connection)
        pool = ConnectionPool(
            self.address.conninfo,
            connection_class=Pipeline,
            kwargs={**_network(self.address.conninfo), "autocommit": True, "client_encoding": "utf8"},
            min_size=1,
            max_size=self.address.pool,
            timeout=PATIENCE,
            configure=self._configure,
            name="callosum",
            open=False,
        )
        pool.open()
        return pool

    def _configure(self, connection: Pipeline) -> None:
        self.opened += 1
        if self.address.direct:
            connection.wire(prepares=False, preamble=(_FOR_TRANSACTION.replace("%s", "$1"), (self.address.schema,)))
        else:
            connection.wire()
            connection.execute(_FOR_SESSION, (self.address.schema,), prepare=False)

    def _refuse_shared(self, connection: psycopg.Connection) -> None:
        """Raise ``ConfigError`` if a setting of one connection reaches another: then a pooler shares connections."""
        backend = connection.execute("select pg_backend_pid()", prepare=False).fetchone()
        if backend is not None and backend[0] == connection.info.backend_pid:
            return  # there is no pooler
        connection.execute("select set_config(%s, 'shared', false)", (_PROBE,), prepare=False)
        with self.alone() as other:
            shared = other.execute("select current_setting(%s, true)", (_PROBE,), prepare=False).fetchone()
        connection.execute("select set_config(%s, '', false)", (_PROBE,), prepare=False)
        if shared is not None and shared[0] == "shared":
            raise ConfigError(
                "the pooler shares its connections between transactions: add ?pooler=transaction&direct=host:port (the "
                "database's own address) to the URL of the store, or let it pool by session",
                at="store",
            )

    @contextmanager
    def alone(self) -> Iterator[psycopg.Connection]:
        """Open a connection outside the pool, directly to the database."""
        info = self.address.direct or self.address.conninfo
        with psycopg.connect(info, autocommit=True, prepare_threshold=None, **_network(info)) as connection:
            connection.execute(f"set lock_timeout = '{LOCK_TIMEOUT}'")
            connection.execute(
                sql.SQL("set search_path to {}").format(sql.Identifier(self.address.schema)), prepare=False
            )
            yield connection

    def take(self) -> Pipeline:
        """Open a pipeline on a pooled connection. It ends with ``give``."""
        pool = self._get()
        try:
            connection = pool.getconn(max(_LEAST, self.remaining()))
        except PoolTimeout as error:
            if self._busy < self.address.pool:
                raise  # the pool has room, so the database is unreachable
            raise StoreUnavailable(
                f"PostgreSQL at {self.address.place}: for {pool.timeout:g} s all connections of this process were in "
                f"use: allow more of them by ?pool= in the store's URL (it is {self.address.pool})"
            ) from error
        connection.pool = pool
        with self._lock:
            self._busy += 1
        try:
            connection.enter(self.remaining())
        except BaseException:
            connection.close()
            self.give(connection)
            raise
        return connection

    def give(self, connection: Pipeline) -> None:
        """Return a connection to its pool. It is used again only if it could be rolled back."""
        if not connection.give_up():
            connection.close()
        with self._lock:
            self._busy -= 1
        connection.pool.putconn(connection)

    @contextmanager
    def pipeline(self) -> Iterator[Pipeline]:
        """Lend a connection."""
        pipeline = self.take()
        try:
            yield pipeline
        finally:
            self.give(pipeline)

    def begin(self) -> None:
        """Set the deadline of this thread's operation, which begins now."""
        self._operation.until = time.monotonic() + PATIENCE

    def remaining(self) -> float:
        """Return the seconds left for this thread's operation."""
        return self._operation.until - time.monotonic()

    def retried(self, work: Callable[[], T]) -> T:
        """Run ``work`` until it meets no fault that passes, as long as this thread's operation may take."""
        pause = 0.01
        while True:
            try:
                return work()
            except (psycopg.Error, PoolTimeout) as error:
                if is_connection_lost(error):
                    self.purge()  # also before giving up, for the next caller
                elif not is_retryable(error):
                    raise explain(error, self.address) from error
                if pause > self.remaining():
                    raise explain(error, self.address) from error
            time.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - it only spreads retries
            pause = min(pause * 2, 0.5)

    def read(self, query: str, params: Params = ()) -> list[Any]:
        """Return the rows of one statement in a transaction of its own. Faults that pass are waited for."""
        self.begin()
        return self.retried(lambda: self.ask(query, params))

    def ask(self, query: str, params: Params = ()) -> list[Any]:
        """Return the rows of one statement in a transaction of its own."""
        with self.pipeline() as pipeline:
            if not self.address.direct:
                return pipeline.fetch(query, params)
            pipeline.begin()
            answer = pipeline.send(query, params)
            pipeline.send("commit")
            return answer.fetchall()

    def purge(self) -> None:
        """Replace the idle connections after one was found dead: the cause has usually killed others too.

        The connections are not tested first, because one that hangs would not answer.
        """
        now = time.monotonic()
        if self._pool is not None and self._pid == os.getpid() and now - self._purged > _PURGE:
            self._purged = now
            self._pool.drain()

    def state(self) -> Pool:
        """Return figures on the pool."""
        pool = self._pool
        stats = pool.get_stats() if pool is not None and self._pid == os.getpid() else {}
        return Pool(
            limit=self.address.pool,
            open=stats.get("pool_size", 0),
            idle=stats.get("pool_available", 0),
            waiting=stats.get("requests_waiting", 0),
            waits=stats.get("requests_queued", 0),
            timeouts=stats.get("requests_errors", 0),
            lost=stats.get("connections_lost", 0) + stats.get("returns_bad", 0),
        )

    def close(self) -> None:
        """Close all connections of this process."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is None:
            return
        if self._pid == os.getpid():
            pool.close()
        else:
            self._left.append(pool)


def _network(conninfo: str) -> dict[str, Any]:
    """Return the network settings that the URL does not set itself."""
    given = psycopg.conninfo.conninfo_to_dict(conninfo)
    return {name: value for name, value in _NETWORK.items() if name not in given}


def is_retryable(error: Exception) -> bool:
    """Return True if another transaction caused the error (a deadlock, a moment used twice), so a retry helps."""
    if isinstance(error, psycopg.errors.UniqueViolation):
        return (error.diag.table_name or "").startswith("journal")  # or one of its partitions
    return getattr(error, "sqlstate", None) in _AGAIN


def is_connection_lost(error: Exception) -> bool:
    """Return True if the connection was lost or none was available."""
    if isinstance(error, PoolTimeout):
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate
    return state is None or state[:2] == "08" or state in _GONE


def explain(error: Exception, address: Address) -> StoreError:
    """Return the store's error for an error of the database."""
    text = " ".join(str(error).split())
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return StoreError(f"{address.place} does not hold Callosum's tables any more: {text}")
    return StoreUnavailable(f"PostgreSQL at {address.place}: {text}")


@contextmanager
def explained(address: Address) -> Iterator[None]:
    """Raise the driver's errors as errors of the store."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise explain(error, address) from error


def version_of(url: str) -> int | None:
    """Return the version of the tables, None if there are none yet. Raises ``StoreError`` if they cannot be used."""
    address = address_of(url)
    with explained(address), PostgresConnections(address).alone() as connection:
        return found(connection, address.schema)
