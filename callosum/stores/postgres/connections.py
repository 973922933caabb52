"""Connections to the database, the URL that names it, and what an error means."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from msgspec import Struct
from psycopg import sql
from psycopg_pool import ConnectionPool, PoolTimeout

from callosum.errors import ConfigError, StoreError, StoreUnavailable
from callosum.stores.base import Pool
from callosum.stores.postgres.pipeline import Params, Pipeline, PipelineConnection
from callosum.stores.postgres.schema import migrate

SCHEMA_NAME: Final = "callosum"
POOL: Final = 16
"""How many connections a process holds at most, unless the URL says ``?pool=``."""
PATIENCE: Final = 15.0
"""For how many seconds a call tries to reach the database before it gives up."""
_LEAST: Final = 0.1
"""Seconds that a last try gets, at the least."""
_OWN: Final = ("schema", "pool", "pooler", "direct")
_PURGE: Final = 1.0
"""For how many seconds after that fresh connections are believed to be good."""
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,40}\Z")
LOCK_TIMEOUT: Final = "5s"
"""A step that waits longer for a row begins anew: the server is then known to be there."""
# What a client that stalls may keep others waiting, and what a lost network may keep it waiting.
_SETTINGS: Final[Mapping[str, str]] = {
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": LOCK_TIMEOUT,
    # Every statement goes by keys through an index, whatever the tables' statistics are just now.
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

Row = Sequence[Any]


class Address(Struct, frozen=True):
    """Where the tables are: libpq's own connection string, and what Callosum reads out of the URL itself.

    ``direct``: the connection string past a pooler that shares its connections between transactions; empty where
    there is none.
    """

    conninfo: str
    schema: str = SCHEMA_NAME
    pool: int = POOL
    direct: str = ""

    @property
    def place(self) -> str:
        """How it is named to a person: without a password."""
        parts = psycopg.conninfo.conninfo_to_dict(self.conninfo)
        parts = {name: parts[name] for name in ("host", "port", "dbname", "user") if parts.get(name)}
        return " ".join(f"{name}={value}" for name, value in parts.items()) + f" schema={self.schema}"


def address_of(url: str) -> Address:
    """Reads a ``postgresql://`` URL. All of libpq's parameters may stand in it, Callosum's own (``_OWN``) beside them.

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
    """The way past a pooler, which only one that shares its connections between transactions needs."""
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
    """What a thread is doing: until when it may try, 0 for as long as each part of it takes."""

    until = 0.0


class PostgresConnections:
    """The pool of one process. After a fork the child makes its own and leaves its parent's alone."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._pool: ConnectionPool[PipelineConnection] | None = None
        self._lock = threading.Lock()
        self._pid = 0
        self._busy = 0
        self._purged = 0.0
        self._operation = _Operation()
        self.opened = 0
        """Number of connections that the pool made so far: each may be one to another server."""
        self._left: list[ConnectionPool[PipelineConnection]] = []

    def _get(self) -> ConnectionPool[PipelineConnection]:
        pool = self._pool
        if pool is not None and self._pid == os.getpid():
            return pool
        if self._pid != os.getpid():
            self._lock = threading.Lock()  # the parent's may have been held by a thread that is not here
            self._busy = 0
        with self._lock:
            if self._pool is not None and self._pid != os.getpid():
                self._left.append(self._pool)  # collected, it would close the parent's sockets
                self._pool = None
            if self._pool is None:
                self._pool = self._open()
                self._pid = os.getpid()
            return self._pool

    def _open(self) -> ConnectionPool[PipelineConnection]:
        with explained(self.address), self.alone() as connection:
            migrate(connection, self.address.schema)
            if not self.address.direct:
                self._refuse_shared(connection)
        pool = ConnectionPool(
            self.address.conninfo,
            connection_class=PipelineConnection,
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

    def _configure(self, connection: PipelineConnection) -> None:
        self.opened += 1
        if self.address.direct:
            connection.wire(prepares=False, preamble=(_FOR_TRANSACTION, (self.address.schema,)))
        else:
            connection.wire()
            connection.execute(_FOR_SESSION, (self.address.schema,), prepare=False)

    def _refuse_shared(self, connection: psycopg.Connection) -> None:
        """Raises ``ConfigError`` where what one connection sets reaches another: a pooler shares them."""
        backend = connection.execute("select pg_backend_pid()", prepare=False).fetchone()
        if backend is not None and backend[0] == connection.info.backend_pid:
            return  # nobody stands between
        connection.execute("select set_config(%s, 'shared', false)", (_PROBE,), prepare=False)
        with self.alone() as other:
            shared = other.execute("select current_setting(%s, true)", (_PROBE,), prepare=False).fetchone()
        connection.execute("select set_config(%s, '', false)", (_PROBE,), prepare=False)
        if shared is not None and shared[0] == "shared":
            raise ConfigError(
                "the pooler in front shares its connections between transactions: say so by ?pooler=transaction"
                "&direct=host:port (the database's own address), or let it pool by session",
                at="store",
            )

    @contextmanager
    def alone(self) -> Iterator[psycopg.Connection]:
        """A connection outside the pool, to the database itself."""
        info = self.address.direct or self.address.conninfo
        with psycopg.connect(info, autocommit=True, prepare_threshold=None, **_network(info)) as connection:
            connection.execute(f"set lock_timeout = '{LOCK_TIMEOUT}'")
            connection.execute(
                sql.SQL("set search_path to {}").format(sql.Identifier(self.address.schema)), prepare=False
            )
            yield connection

    @contextmanager
    def line(self) -> Iterator[Pipeline]:
        """A line on a connection; its end waits for what was sent last, and raises what became of it.

        A connection on which anything went wrong is used again only if it says that it can be.
        """
        pool = self._get()
        connection = self._taken(pool)
        with self._lock:
            self._busy += 1
        line = Pipeline(connection)
        connection.limit(self._remaining())
        try:
            line.enter()
            yield line
            line.leave()
        except Exception:
            if not line.give_up():
                connection.close()
            raise
        except BaseException:
            connection.close()
            raise
        finally:
            with self._lock:
                self._busy -= 1
            pool.putconn(connection)

    @contextmanager
    def bounded(self) -> Iterator[float]:
        """Give all that is done in the block one deadline, by the monotonic clock."""
        self._operation.until = time.monotonic() + PATIENCE
        try:
            yield self._operation.until
        finally:
            self._operation.until = 0.0

    def _remaining(self) -> float:
        """Seconds that this thread's operation may still take."""
        until = self._operation.until
        return until - time.monotonic() if until else PATIENCE

    def _taken(self, pool: ConnectionPool[PipelineConnection]) -> PipelineConnection:
        try:
            return pool.getconn(max(_LEAST, self._remaining()))
        except PoolTimeout as error:
            if self._busy < self.address.pool:
                raise  # there is room, but nobody to connect to
            raise StoreUnavailable(
                f"PostgreSQL at {self.address.place}: for {pool.timeout:g} s all connections of this process were in "
                f"use: allow more of them by ?pool= in the store's URL (it is {self.address.pool})"
            ) from error

    def read(self, query: str, params: Params = None) -> list[Any]:
        """The rows of one statement, outside any transaction."""
        with self.line() as line:
            if not self.address.direct:
                return line.fetch(query, params)
            line.begin()
            answer = line.send(query, params)
            line.send("commit")
            return answer.fetchall()

    def purge(self) -> None:
        """Replaces the idle connections after one was found dead: what killed it has mostly killed others too.

        None of them is asked, for one that hangs would not answer.
        """
        now = time.monotonic()
        if self._pool is not None and self._pid == os.getpid() and now - self._purged > _PURGE:
            self._purged = now
            self._pool.drain()

    def state(self) -> Pool:
        """The pool's figures."""
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
        """Closes all connections of this process."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is None:
            return
        if self._pid == os.getpid():
            pool.close()
        else:
            self._left.append(pool)


def _network(conninfo: str) -> dict[str, Any]:
    """What is said of the network where the URL does not."""
    given = psycopg.conninfo.conninfo_to_dict(conninfo)
    return {name: value for name, value in _NETWORK.items() if name not in given}


def to_repeat(error: Exception) -> bool:
    """Whether the transaction was ended for another's sake: a deadlock, a moment that was given twice."""
    if not isinstance(error, psycopg.Error):
        return False
    if isinstance(error, psycopg.errors.UniqueViolation):
        return (error.diag.table_name or "").startswith("journal")  # or one of its parts
    return error.sqlstate in _AGAIN


def lost(error: Exception) -> bool:
    """Whether the connection was lost, or none could be had."""
    if isinstance(error, PoolTimeout):
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate
    return state is None or state[:2] == "08" or state in _GONE


def explain(error: Exception, address: Address) -> StoreError:
    """What to tell of a database's error."""
    text = " ".join(str(error).split())
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return StoreError(f"{address.place} does not hold Callosum's tables any more: {text}")
    return StoreUnavailable(f"PostgreSQL at {address.place}: {text}")


@contextmanager
def explained(address: Address) -> Iterator[None]:
    """Turns the driver's errors into the store's."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise explain(error, address) from error
