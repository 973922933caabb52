"""Send statements together: libpq's pipeline, driven directly.

A step must need few round trips and little work for each statement. So all statements between two waits leave in one
packet, parameters and rows are binary, and every statement is prepared once for each connection. Psycopg's own
pipeline flushes after each statement and looks up the type of each parameter; the layer below it (``psycopg.pq``, and
its transformer for the rows) does neither.
"""

from __future__ import annotations

import re
import select
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

Params = Mapping[str, Any] | Sequence[Any] | None

_LEAST: Final = 0.1
"""Minimum number of seconds that the last try gets."""
STALL: Final = 8.0
"""Seconds without an answer after which a connection counts as lost; longer than ``lock_timeout``."""
_OK: Final = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)
_SYNC: Final = pq.ExecStatus.PIPELINE_SYNC
_ABORTED: Final = pq.ExecStatus.PIPELINE_ABORTED
_TUPLES: Final = pq.ExecStatus.TUPLES_OK
_BINARY: Final = pq.Format.BINARY
_BAD: Final = pq.ConnStatus.BAD


class PipelineConnection(psycopg.Connection[Any]):
    """A connection that knows which statements it has prepared. ``preamble``: first statement of each transaction."""

    prepared: set[bytes] | None
    """None: nothing is prepared, because a pooler may switch the server connection after each transaction."""
    preamble: tuple[str, Params] | None

    def wire(self, *, prepares: bool = True, preamble: tuple[str, Params] | None = None) -> None:
        """Prepare the connection for pipelines."""
        self.prepared = set() if prepares else None
        self.preamble = preamble
        self._rows = Transformer.from_context(self)
        self._poll = select.poll()

    patience = STALL
    """Seconds that one answer may take."""

    def limit(self, seconds: float) -> None:
        """Wait for each answer at most ``seconds`` from now on."""
        self.patience = max(_LEAST, min(STALL, seconds))

    # --- Used by Pipeline ---

    def flush(self) -> None:
        """Send the buffer, and read meanwhile so that the two sides never wait for each other."""
        pgconn = self.pgconn
        while pgconn.flush():
            if self._wait(select.POLLIN | select.POLLOUT) & select.POLLIN:
                pgconn.consume_input()

    def result(self) -> pq.abc.PGresult | None:
        """Return the next result, None after the last one of a statement."""
        pgconn = self.pgconn
        while pgconn.is_busy():
            self._wait(select.POLLIN)
            pgconn.consume_input()
        return pgconn.get_result()

    def rows(self, result: pq.abc.PGresult) -> list[tuple[Any, ...]]:
        """Return a result's rows."""
        self._rows.set_pgresult(result, format=_BINARY)
        return self._rows.load_rows(0, result.ntuples, tuple)

    def _wait(self, events: int) -> int:
        self._poll.register(self.pgconn.socket, events)
        ready = self._poll.poll(self.patience * 1000)
        if not ready:
            self.close()
            raise psycopg.OperationalError(f"the server has not answered for {self.patience:.1f} s")
        return ready[0][1]


class PendingResult:
    """The result of one statement. Its rows are available once the pipeline was synced."""

    __slots__ = ("_pipeline", "_rows")

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._rows: list[tuple[Any, ...]] | None = None

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows; sync the pipeline first if that was not done yet."""
        if self._rows is None:
            self._pipeline.sync()
        return self._rows or []

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the first row, None if there is none."""
        rows = self.fetchall()
        return rows[0] if rows else None


class Pipeline:
    """Send statements through a connection. Call ``enter`` first and ``leave`` at the end.

    After an error the server undoes everything sent up to the next wait, and the transaction that stays open can only
    be rolled back.
    """

    __slots__ = ("_connection", "_pgconn", "_sent")

    def __init__(self, connection: PipelineConnection) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._sent: deque[PendingResult | bytes | None] = deque()

    def enter(self) -> None:
        """Switch the connection to pipeline mode."""
        self._pgconn.enter_pipeline_mode()

    def leave(self) -> None:
        """Wait for the last statements, raise their first error, and leave pipeline mode."""
        if self._sent:
            self.sync()
        self._pgconn.exit_pipeline_mode()

    def give_up(self) -> bool:
        """Roll back a failed transaction; return True if the connection can be used again."""
        try:
            while self._sent:
                try:
                    self._settle()
                except psycopg.Error as error:
                    if error.sqlstate is None or self._pgconn.status == _BAD:
                        return False
                    # statements sent before the error have failed too
            if self._pgconn.transaction_status != pq.TransactionStatus.IDLE:
                self.send("rollback")
                self.sync()
            self._pgconn.exit_pipeline_mode()
        except psycopg.Error:
            return False
        return self._pgconn.transaction_status == pq.TransactionStatus.IDLE

    def begin(self) -> None:
        """Send the beginning of a transaction."""
        self.send("begin")
        if self._connection.preamble is not None:
            self.send(*self._connection.preamble)

    def send(self, query: str, params: Params = None) -> PendingResult:
        """Send a statement; its rows are available after ``sync``. Parameters are ``%s`` or ``%(name)s``."""
        statement = _statements.get(query) or _compiled(query)
        values, formats = statement.values(params) if statement.arrays else (None, None)
        prepared = self._connection.prepared
        if prepared is None:
            self._pgconn.send_query_params(statement.sql, values, None, formats, _BINARY)
        else:
            if statement.name not in prepared:
                self._pgconn.send_prepare(statement.name, statement.sql)
                self._sent.append(statement.name)
                prepared.add(statement.name)
            self._pgconn.send_query_prepared(statement.name, values, formats, _BINARY)
        answer = PendingResult(self)
        self._sent.append(answer)
        return answer

    def fetch(self, query: str, params: Params = None) -> list[tuple[Any, ...]]:
        """Send a statement and wait for its rows: one round trip."""
        answer = self.send(query, params)
        self.sync()
        return answer.fetchall()

    def sync(self) -> None:
        """Wait for everything sent so far; raise the first error."""
        self._pgconn.pipeline_sync()
        self._sent.append(None)
        self._connection.flush()
        self._settle()

    def _settle(self) -> None:
        """Read the answers up to the next sync."""
        error: psycopg.Error | None = None
        connection = self._connection
        if None not in self._sent:
            self._pgconn.pipeline_sync()
            self._sent.append(None)
            connection.flush()
        while True:
            awaited = self._sent[0]
            result = connection.result()
            if awaited is None:
                if result is None or result.status != _SYNC:
                    raise self._broken(error)
                self._sent.popleft()
                break
            if result is None:
                raise self._broken(error)
            self._sent.popleft()
            if result.status not in _OK:
                if isinstance(awaited, bytes) and connection.prepared is not None:
                    connection.prepared.discard(awaited)
                if error is None and result.status != _ABORTED:
                    error = error_from_result(result, encoding="utf-8")
                if self._pgconn.status == _BAD:
                    raise self._broken(error)
            elif isinstance(awaited, PendingResult):
                awaited._rows = connection.rows(result) if result.status == _TUPLES else []  # noqa: SLF001
            if connection.result() is not None:
                raise self._broken(error)
        if error is not None:
            raise error

    def _broken(self, error: psycopg.Error | None) -> psycopg.Error:
        if error is not None and error.sqlstate:
            return error
        return psycopg.OperationalError(self._pgconn.get_error_message().strip() or "the connection is lost")


# --- Statements -------------------------------------------------------------------------------------

Encoder = Callable[[Sequence[Any]], bytes]


class _Statement(NamedTuple):
    """A parsed statement. ``names``: its parameters, None if they are positional. ``arrays``: encoders of arrays."""

    name: bytes
    sql: bytes
    names: tuple[str, ...] | None
    arrays: tuple[Encoder | None, ...]

    def values(self, params: Params) -> tuple[list[bytes | None], list[int]]:
        """Return the encoded parameters and their formats.

        Numbers are sent as text, so that the server reads them as the type it needs; other values are sent in binary.
        """
        if (type(params) is dict) != (self.names is not None) or params is None:
            raise psycopg.ProgrammingError("parameters are either named or in order")
        given = [params[name] for name in self.names] if self.names is not None else params  # type: ignore[call-overload]
        if len(given) != len(self.arrays):
            raise psycopg.ProgrammingError(f"{len(self.arrays)} parameters are expected, {len(given)} were given")
        values: list[bytes | None] = []
        formats: list[int] = []
        for array, value in zip(self.arrays, given, strict=True):
            kind = type(value)
            if value is None:
                values.append(None)
                formats.append(0)
            elif array is not None:
                values.append(array(value))
                formats.append(1)
            elif kind is str:
                values.append(value.encode())
                formats.append(1)
            elif kind is int:
                values.append(b"%d" % value)
                formats.append(0)
            elif kind is bytes:
                values.append(value)
                formats.append(1)
            else:
                encoded, format_ = _other(value)
                values.append(encoded)
                formats.append(format_)
        return values, formats


def _other(value: Any) -> tuple[bytes, int]:
    if isinstance(value, str):
        return value.encode(), 1
    if value is True or value is False:
        return (b"t" if value else b"f"), 0
    if isinstance(value, int):
        return b"%d" % value, 0
    if isinstance(value, list):
        kind = next((_KINDS.get(type(element)) for element in value if element is not None), None)
        return (_ARRAYS[kind](value), 1) if kind else (b"{%s}" % b",".join([b"NULL"] * len(value)), 0)
    raise psycopg.DataError(f"a statement cannot take a parameter of type {type(value).__name__}")


_LENGTH: Final = struct.Struct(">i").pack
_BIG: Final = struct.Struct(">iq").pack
_SMALL: Final = struct.Struct(">ii").pack
_HEAD: Final = struct.Struct(">iiiii").pack
_NULL: Final = _LENGTH(-1)


def _array(oid: int, item: Callable[[Any], bytes]) -> Encoder:
    """Return an array encoder. ``oid``: type of the items. ``item``: returns an item's length and bytes."""
    empty = struct.pack(">iii", 0, 0, oid)

    def encoder(value: Sequence[Any]) -> bytes:
        if not value:
            return empty
        items = [_NULL if element is None else item(element) for element in value]
        return _HEAD(1, int(_NULL in items), oid, len(items), 1) + b"".join(items)

    return encoder


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _LENGTH(len(encoded)) + encoded


_ARRAYS: Final = {
    "text[]": _array(25, _text),
    "bigint[]": _array(20, lambda value: _BIG(8, value)),
    "int[]": _array(23, lambda value: _SMALL(4, value)),
    "bytea[]": _array(17, lambda value: _LENGTH(len(value)) + value),
}
_KINDS: Final = {str: "text[]", int: "bigint[]", bytes: "bytea[]"}
"""Array type of a list if the statement does not state one."""
_PLACE: Final = re.compile(r"%(?:%|s|\((\w+)\)s)(?:::(\w+\[\]))?")
_statements: dict[str, _Statement] = {}
_numbers = count()


def _compiled(query: str) -> _Statement:
    """Parse a statement and number its placeholders; a repeated name is one parameter."""
    names: dict[str, int] = {}
    arrays: list[Encoder | None] = []
    lock_order = 0

    def number_placeholder(match: re.Match[str]) -> str:
        nonlocal lock_order
        if match[0] == "%%":
            return "%"
        encoder = _ARRAYS[match[2]] if match[2] else None
        name = match[1]
        if name is None:
            lock_order += 1
            arrays.append(encoder)
            number = lock_order
        elif name in names:
            number = names[name]
            if match[2]:
                arrays[number - 1] = encoder
        else:
            number = names[name] = len(names) + 1
            arrays.append(encoder)
        return f"${number}" + (f"::{match[2]}" if match[2] else "")

    sql = _PLACE.sub(number_placeholder, query)
    if names and lock_order:
        raise psycopg.ProgrammingError("parameters are either named or in order")
    statement = _Statement(
        b"callosum_%d" % next(_numbers), sql.encode(), tuple(names) if names else None, tuple(arrays)
    )
    return _statements.setdefault(query, statement)
