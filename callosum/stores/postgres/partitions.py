"""The parts of the journal: partitions by time, so that what has left gives its room back at once.

The last part is open to the end of time and empty: it is made ahead. When its time draws near it gets an end, and
another is made behind it. A part covers twice as much time as the whole journal did then, a day at the least, so
there are few of them however old or busy a store is: each costs every statement a little.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import psycopg
from msgspec import Struct
from psycopg import sql

from callosum.model import DAY
from callosum.stores.postgres.statements import SQL

_LEAST: Final = DAY
"""How much time a part covers at the least."""
_TIMES: Final = 2
"""How many times as much as the whole journal a part covers otherwise."""
_AHEAD: Final = 4
"""The last part gets its end when less than this fraction of a part's time is left before it begins."""
_MOST: Final = 8
"""With so many parts there are no more: what cannot leave keeps an old one."""
_PATIENCE: Final = "2s"
"""How long making or dropping a part may keep transactions waiting before it gives up until the next round."""

_BOUNDS: Final = re.compile(r"FROM \((?:MINVALUE|'(-?\d+)')\) TO \((?:MAXVALUE|'(-?\d+)')\)")
_END: Final = 2**63 - 1
_NOT_NOW: Final = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.UndefinedTable,
    psycopg.errors.InsufficientPrivilege,
)
"""Somebody else is at it, or was; or this role may not: then the journal keeps the parts that it has."""


class Partition(Struct, frozen=True, order=True):
    """A table with the entries from ``low`` up to ``high``."""

    low: int
    high: int
    name: str


def partitions_of(rows: Iterable[Sequence[Any]]) -> list[Partition]:
    """The parts in the rows of ``parts``, oldest first."""
    found = []
    for name, bounds in rows:
        bound = _BOUNDS.search(bounds or "")
        if bound is not None:
            low, high = bound.groups()
            found.append(Partition(int(low) if low else -_END, int(high) if high else _END, name))
    return sorted(found)


def next_end(parts: Sequence[Partition], first: int, now: int) -> int | None:
    """Where the last part is to end, None if it is not time yet; ``first`` is the oldest entry's moment."""
    if not parts or len(parts) >= _MOST or parts[-1].high != _END:
        return None
    span = max(_LEAST, _TIMES * (now - first))
    if parts[-1].low > now + span // _AHEAD:
        return None
    return max(now, parts[-1].low) + span


def empty(parts: Sequence[Partition], last: int) -> list[Partition]:
    """The parts that get no entries any more; ``last`` is the newest entry's moment."""
    return [part for part in parts if part.high <= last]


def extend(connection: psycopg.Connection, last: Partition, end: int) -> bool:
    """Gives the last part its end and makes the next one; False if somebody else is at it or has done it.

    ``last`` is the last part as it was when ``end`` was worked out.
    """

    def work() -> bool:
        if partitions_of(connection.execute(SQL["parts"]).fetchall())[-1] != last:
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
    """Drops a part if nothing is in it any more."""
    table = sql.Identifier(part.name)

    def work() -> bool:
        connection.execute(SQL["lock_journal"])
        row = connection.execute(sql.SQL("select exists(select 1 from {})").format(table)).fetchone()
        if row is None or row[0]:
            return False
        connection.execute(sql.SQL("drop table {}").format(table))
        return True

    return _alone(connection, work)


def _alone(connection: psycopg.Connection, work: Callable[[], bool]) -> bool:
    """Does it in a transaction of one server at a time, without keeping anybody waiting for long."""
    try:
        with connection.transaction():
            connection.execute(SQL["set_patience"], (_PATIENCE,))
            connection.execute(SQL["claim_version"])
            return work()
    except _NOT_NOW:
        return False
