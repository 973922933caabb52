"""Connections to the database, the URL that names it, and what an error means."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from msgspec import Struct
from psycopg import sql
from psycopg_pool import ConnectionPool, PoolTimeout

from callosum.errors import ConfigError, StoreError, StoreUnavailable
from callosum.stores.postgres.schema import migrate

SCHEMA_NAME: Final = "callosum"
POOL: Final = 16
"""How many connections a process holds at most, unless the URL says ``?pool=``."""
PATIENCE: Final = 15.0
"""For how many seconds a call tries to reach the database before it gives up."""
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,40}\Z")
# What a client that stalls may keep others waiting, and what a lost network may keep it waiting.
_SESSION: Final = (
    "select set_config('idle_in_transaction_session_timeout', '10s', false), "
    "set_config('lock_timeout', '30s', false), set_config('search_path', %s, false), "
    # Every statement goes by keys through an index, whatever the tables' statistics are just now.
    "set_config('plan_cache_mode', 'force_generic_plan', false), set_config('jit', 'off', false), "
    "set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false), "
    "set_config('enable_mergejoin', 'off', false)"
)
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
Cursor = psycopg.Cursor[Any]


class Address(Struct, frozen=True):
    """Where the tables are: libpq's own connection string, and what Callosum reads out of the URL itself."""

    conninfo: str
    schema: str = SCHEMA_NAME
    pool: int = POOL

    @property
    def place(self) -> str:
        """How it is named to a person: without a password."""
        parts = psycopg.conninfo.conninfo_to_dict(self.conninfo)
        parts = {name: parts[name] for name in ("host", "port", "dbname", "user") if parts.get(name)}
        return " ".join(f"{name}={value}" for name, value in parts.items()) + f" schema={self.schema}"


def address_of(url: str) -> Address:
    """Reads a ``postgresql://`` URL. All of libpq's parameters may stand in it, ``schema`` and ``pool`` beside them.

    Raises ``ConfigError``.
    """
    address, _, query = url.partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    own = {name: value for name, value in given if name in ("schema", "pool")}
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
    return Address(conninfo, schema, int(pool))


class Line:
    """One connection inside a pipeline: statements go out together and are waited for together."""

    __slots__ = ("_connection", "_pipeline")

    def __init__(self, connection: psycopg.Connection, pipeline: psycopg.Pipeline) -> None:
        self._connection = connection
        self._pipeline = pipeline

    def send(self, query: str, params: Mapping[str, Any] | Sequence[Any] | None = None) -> Cursor:
        """Sends a statement; its rows are there after ``sync``."""
        return self._connection.cursor(binary=True).execute(query, params)

    def fetch(self, query: str, params: Mapping[str, Any] | Sequence[Any] | None = None) -> list[Any]:
        """Sends a statement and waits for its rows: a round trip."""
        return self.send(query, params).fetchall()

    def sync(self) -> None:
        """Waits for everything sent so far."""
        self._pipeline.sync()


class Connections:
    """The pool of one process. After a fork the child makes its own and leaves its parent's alone."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._pool: ConnectionPool | None = None
        self._lock = threading.Lock()
        self._pid = 0
        self._left: list[ConnectionPool] = []

    def _get(self) -> ConnectionPool:
        pool = self._pool
        if pool is not None and self._pid == os.getpid():
            return pool
        if self._pid != os.getpid():
            self._lock = threading.Lock()  # the parent's may have been held by a thread that is not here
        with self._lock:
            if self._pool is not None and self._pid != os.getpid():
                self._left.append(self._pool)  # collected, it would close the parent's sockets
                self._pool = None
            if self._pool is None:
                self._pool = self._open()
                self._pid = os.getpid()
            return self._pool

    def _open(self) -> ConnectionPool:
        with explained(self.address), self.alone() as connection:
            migrate(connection, self.address.schema)
        pool = ConnectionPool(
            self.address.conninfo,
            kwargs={**_network(self.address.conninfo), "autocommit": True, "prepare_threshold": 0},
            min_size=1,
            max_size=self.address.pool,
            timeout=PATIENCE,
            configure=self._configure,
            name="callosum",
            open=False,
        )
        pool.open()
        return pool

    def _configure(self, connection: psycopg.Connection) -> None:
        connection.execute(_SESSION, (self.address.schema,), prepare=False)

    @contextmanager
    def alone(self) -> Iterator[psycopg.Connection]:
        """A connection outside the pool."""
        info = self.address.conninfo
        with psycopg.connect(info, autocommit=True, prepare_threshold=None, **_network(info)) as connection:
            connection.execute("set lock_timeout = '30s'")
            connection.execute(
                sql.SQL("set search_path to {}").format(sql.Identifier(self.address.schema)), prepare=False
            )
            yield connection

    @contextmanager
    def line(self) -> Iterator[Line]:
        """A pipeline on a connection; its end waits for what was sent last, and raises what became of it.

        A connection on which anything went wrong is not used again.
        """
        pool = self._get()
        connection = pool.getconn()
        try:
            with connection.pipeline() as pipeline:
                yield Line(connection, pipeline)
        except BaseException:
            # Which statements of a broken pipeline the server has prepared is not known.
            connection.close()
            raise
        finally:
            pool.putconn(connection)

    def read(self, query: str, params: Mapping[str, Any] | Sequence[Any] | None = None) -> list[Any]:
        """The rows of one statement, outside any transaction."""
        pool = self._get()
        connection = pool.getconn()
        try:
            return connection.cursor(binary=True).execute(query, params).fetchall()
        except BaseException:
            connection.close()
            raise
        finally:
            pool.putconn(connection)

    def purge(self) -> None:
        """Drops connections that are dead, after one was found so."""
        if self._pool is not None and self._pid == os.getpid():
            self._pool.check()

    def stats(self) -> dict[str, int]:
        """The pool's figures."""
        return self._pool.get_stats() if self._pool is not None else {}

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
        return (error.diag.constraint_name or "") == "journal_pkey"
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
