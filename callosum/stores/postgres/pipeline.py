"""Send statements together: libpq's pipeline, driven directly.

A step must need few round trips and little work for each statement. So all statements between two waits leave in one
packet, parameters and rows are binary, and every statement is prepared once for each connection. Psycopg's own
pipeline flushes after each statement and looks up the type of each parameter; the layer below it (``psycopg.pq``, and
its transformer for the rows) does neither.
"""

from __future__ import annotations

import select
import struct
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

Params = Sequence[Any]

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


class Pipeline(psycopg.Connection[Any]):
    """A connection that sends statements together. Call ``enter`` first and ``give_up`` at the end.

    After an error the server undoes everything sent up to the next wait, and the transaction that stays open can only
    be rolled back.
    """

    pool: ConnectionPool[Pipeline]
    """Where the connection came from."""
    prepared: set[bytes] | None
    """Statements that are prepared; None if nothing is, because a pooler may switch the server after a transaction."""
    preamble: tuple[str, Params] | None
    """First statement of each transaction."""
    patience = STALL
    """Seconds that one answer may take."""

    def wire(self, *, prepares: bool = True, preamble: tuple[str, Params] | None = None) -> None:
        """Prepare the connection for pipelines."""
        self.prepared = set() if prepares else None
        self.preamble = preamble
        self._rows = Transformer.from_context(self)
        self._poll = select.poll()
        self._sent: deque[PendingResult | bytes | None] = deque()

    def enter(self, seconds: float) -> None:
        """Switch to pipeline mode, and wait for each answer at most ``seconds`` from now on."""
        self.patience = max(_LEAST, min(STALL, seconds))
        self._sent.clear()
        self.pgconn.enter_pipeline_mode()

    def give_up(self) -> bool:
        """Roll back what is not committed and leave pipeline mode; return True if the connection can be used again."""
        try:
            while self._sent:
                try:
                    self._settle()
                except psycopg.Error as error:
                    if error.sqlstate is None or self.pgconn.status == _BAD:
                        return False
                    # statements sent before the error have failed too
            if self.pgconn.transaction_status != pq.TransactionStatus.IDLE:
                self.send("rollback")
                self.sync()
            self.pgconn.exit_pipeline_mode()
        except psycopg.Error:
            return False
        return self.pgconn.transaction_status == pq.TransactionStatus.IDLE

    def begin(self) -> None:
        """Send the beginning of a transaction."""
        self.send("begin")
        if self.preamble is not None:
            self.send(*self.preamble)

    def send(self, query: str, params: Params = ()) -> PendingResult:
        """Send a statement; its rows are available after ``sync``. Parameters are ``$1``, ``$2`` and so on."""
        name, text = _statements.get(query) or _statements.setdefault(
            query, (b"callosum_%d" % next(_numbers), query.encode())
        )
        values, formats = _sendable(params) if params else (None, None)
        if self.prepared is None:
            self.pgconn.send_query_params(text, values, None, formats, _BINARY)
        else:
            if name not in self.prepared:
                self.pgconn.send_prepare(name, text)
                self._sent.append(name)
                self.prepared.add(name)
            self.pgconn.send_query_prepared(name, values, formats, _BINARY)
        answer = PendingResult(self)
        self._sent.append(answer)
        return answer

    def fetch(self, query: str, params: Params = ()) -> list[tuple[Any, ...]]:
        """Send a statement and wait for its rows: one round trip."""
        return self.send(query, params).fetchall()

    def sync(self) -> None:
        """Wait for everything sent so far; raise the first error."""
        self._flush()
        self._settle()

    def _flush(self) -> None:
        """Send the buffer, and read meanwhile so that the two sides never wait for each other."""
        self.pgconn.pipeline_sync()
        self._sent.append(None)
        while self.pgconn.flush():
            if self._wait(select.POLLIN | select.POLLOUT) & select.POLLIN:
                self.pgconn.consume_input()

    def _settle(self) -> None:
        """Read the answers up to the next sync."""
        error: psycopg.Error | None = None
        if None not in self._sent:
            self._flush()
        while True:
            awaited = self._sent[0]
            result = self._result()
            if result is None or (awaited is None and result.status != _SYNC):
                raise self._broken(error)
            self._sent.popleft()
            if awaited is None:
                break
            if result.status not in _OK:
                if isinstance(awaited, bytes) and self.prepared is not None:
                    self.prepared.discard(awaited)
                if error is None and result.status != _ABORTED:
                    error = error_from_result(result, encoding="utf-8")
                if self.pgconn.status == _BAD:
                    raise self._broken(error)
            elif isinstance(awaited, PendingResult):
                awaited.rows = []
                if result.status == _TUPLES:
                    self._rows.set_pgresult(result, format=_BINARY)
                    awaited.rows = self._rows.load_rows(0, result.ntuples, tuple)
            if self._result() is not None:
                raise self._broken(error)
        if error is not None:
            raise error

    def _result(self) -> pq.abc.PGresult | None:
        """Return the next result, None after the last one of a statement."""
        while self.pgconn.is_busy():
            self._wait(select.POLLIN)
            self.pgconn.consume_input()
        return self.pgconn.get_result()

    def _wait(self, events: int) -> int:
        self._poll.register(self.pgconn.socket, events)
        ready = self._poll.poll(self.patience * 1000)
        if not ready:
            self.close()
            raise psycopg.OperationalError(f"the server has not answered for {self.patience:.1f} s")
        return ready[0][1]

    def _broken(self, error: psycopg.Error | None) -> psycopg.Error:
        if error is not None and error.sqlstate:
            return error
        return psycopg.OperationalError(self.pgconn.get_error_message().strip() or "the connection is lost")


class PendingResult:
    """The result of one statement. Its rows are available once the pipeline was synced."""

    __slots__ = ("_pipeline", "rows")

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.rows: list[tuple[Any, ...]] | None = None

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows; sync the pipeline first if that was not done yet."""
        if self.rows is None:
            self._pipeline.sync()
        return self.rows or []


# --- Statements -------------------------------------------------------------------------------------

_statements: dict[str, tuple[bytes, bytes]] = {}
_numbers = count()


def _sendable(params: Params) -> tuple[list[bytes | None], list[int]]:
    """Return the encoded parameters and their formats.

    Numbers are sent as text, so that the server reads them as the type it needs; other values are sent in binary.
    """
    values: list[bytes | None] = []
    formats: list[int] = []
    for value in params:
        kind = type(value)
        if kind is bytes:
            values.append(value)
        elif kind is str:
            values.append(value.encode())
        elif kind is list:
            values.append(_ARRAYS[type(value[0])](value) if value else b"{}")
        else:
            values.append(None if value is None else b"%d" % value)
        formats.append(int(kind is bytes or kind is str or (kind is list and bool(value))))
    return values, formats


_LENGTH: Final = struct.Struct(">i").pack
_BIG: Final = struct.Struct(">iq").pack
_HEAD: Final = struct.Struct(">iiiii").pack


def _array(oid: int, item: Callable[[Any], bytes]) -> Callable[[Sequence[Any]], bytes]:
    """Return an array encoder. ``oid``: type of the items. ``item``: returns an item's length and bytes."""
    return lambda values: _HEAD(1, 0, oid, len(values), 1) + b"".join(map(item, values))


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _LENGTH(len(encoded)) + encoded


_ARRAYS: Final = {
    str: _array(25, _text),
    int: _array(20, lambda value: _BIG(8, value)),
    bool: _array(16, lambda value: b"\0\0\0\1\1" if value else b"\0\0\0\1\0"),
    bytes: _array(17, lambda value: _LENGTH(len(value)) + value),
}
