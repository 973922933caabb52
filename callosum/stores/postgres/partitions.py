"""Divide the journal into partitions by time, so that deleted entries free their disk space at once.

The last partition has no end and is empty: it is created ahead. When its time draws near it gets an end, and the next
one is created. A partition covers twice as much time as the whole journal did when it got its end, at least a day. So
there are few of them however old or busy a store is: each makes every statement a little slower.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import psycopg
from msgspec import Struct
from psycopg import sql

from callosum.model import DAY
from callosum.stores.postgres.schema import VERSION
from callosum.stores.postgres.statements import PARTS

_LEAST: Final = DAY
"""Minimum time that a partition covers, in microseconds."""
_TIMES: Final = 2
"""Time that a partition covers otherwise, as a multiple of the time that the whole journal covers."""
_AHEAD: Final = 4
"""The last partition gets its end when it begins in less than this fraction (1/4) of a partition's time."""
_MOST: Final = 8
"""Maximum number of partitions; entries that must stay can keep an old one from being dropped."""
_PATIENCE: Final = "2s"
"""Time for which creating or dropping a partition may block transactions before it is left to the next round."""

_BOUNDS: Final = re.compile(r"FROM \((?:MINVALUE|'(-?\d+)')\) TO \((?:MAXVALUE|'(-?\d+)')\)")
_END: Final = 2**63 - 1
_NOT_NOW: Final = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.UndefinedTable,
    psycopg.errors.InsufficientPrivilege,
)
"""Another server does or did the same, or this role may not: then the partitions stay as they are."""


class Partition(Struct, frozen=True, order=True):
    """A table with the entries from ``low`` (inclusive) to ``high`` (exclusive), in microseconds."""

    low: int
    high: int
    name: str


def partitions_of(rows: Iterable[Sequence[Any]]) -> list[Partition]:
    """Return the partitions in the rows of the statement ``PARTS``, oldest first."""
    partitions = []
    for name, bounds in rows:
        bound = _BOUNDS.search(bounds or "")
        if bound is not None:
            low, high = bound.groups()
            partitions.append(Partition(int(low) if low else -_END, int(high) if high else _END, name))
    return sorted(partitions)


def next_end(parts: Sequence[Partition], first: int, now: int) -> int | None:
    """Return where the last partition must end, None if it is too early. ``first``: the oldest entry's moment."""
    if not parts or len(parts) >= _MOST or parts[-1].high != _END:
        return None
    span = max(_LEAST, _TIMES * (now - first))
    if parts[-1].low > now + span // _AHEAD:
        return None
    return max(now, parts[-1].low) + span


def extend(connection: psycopg.Connection, last: Partition, end: int) -> bool:
    """End the last partition and create the next one. Return False if another server does or has done so.

    ``last``: the last partition at the time when ``end`` was computed.
    """

    def work() -> bool:
        if partitions_of(connection.execute(PARTS).fetchall())[-1] != last:
            return False
        table = sql.Identifier(last.name)
        low = sql.SQL("minvalue") if last.low == -_END else sql.Literal(last.low)
        for statement in (
            "alter table journal detach partition {table}",
            "alter table journal attach partition {table} for values from ({low}) to ({end})",
            "create table {new} partition of journal for values from ({end}) to (maxvalue) with (fillfactor = 90)",
        ):
            new = sql.Identifier(f"journal_{end}")
            connection.execute(sql.SQL(statement).format(table=table, low=low, end=sql.Literal(end), new=new))
        return True

    return _alone(connection, work)


def drop(connection: psycopg.Connection, part: Partition) -> bool:
    """Drop a partition if it is empty."""
    table = sql.Identifier(part.name)

    def work() -> bool:
        connection.execute("lock table journal in access exclusive mode")
        row = connection.execute(sql.SQL("select exists(select 1 from {})").format(table)).fetchone()
        if row is None or row[0]:
            return False
        connection.execute(sql.SQL("drop table {}").format(table))
        return True

    return _alone(connection, work)


def _alone(connection: psycopg.Connection, work: Callable[[], bool]) -> bool:
    """Run ``work`` in a transaction, on one server at a time, without blocking others for long."""
    try:
        with connection.transaction():
            connection.execute("select set_config('lock_timeout', %s, true)", (_PATIENCE,))
            connection.execute(f"{VERSION} for update nowait")
            return work()
    except _NOT_NOW:
        return False
