"""Read records and journal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from callosum.model import Entry
from callosum.stores import names
from callosum.stores.entry_rows import entry_of
from callosum.stores.port import OF_ENTRY, Found
from callosum.stores.postgres import statements as sql
from callosum.stores.postgres.pipeline import Params

if TYPE_CHECKING:
    from callosum.stores.postgres.engine import PostgresEngine

LAST: Final = (1 << 63) - 1
"""The largest position that an entry may have."""


class PostgresReader:
    """A look at the database, at each statement's own moment."""

    used: set[bytes] | None = None

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine
        self.known: dict[bytes, Any] = {}
        self.revisions: dict[bytes, int] = {}
        self._moments: tuple[int, int] | None = None

    def ask(self, query: str, params: Params = ()) -> list[Any]:
        """Return the rows of a statement."""
        return self._engine.connections.read(query, params)

    def _looked(self) -> tuple[int, int]:
        """Return the clock's moment and the newest entry's."""
        if self._moments is None:
            self._moments = self._engine.moments(self.ask(sql.MOMENTS))
        return self._moments

    @property
    def clock(self) -> int:
        return self._looked()[0]

    @property
    def last(self) -> int:
        return self._looked()[1]

    @property
    def time(self) -> int:
        return max(self._looked())

    @property
    def now(self) -> int:
        clock, last = self._looked()
        return max(clock, last + 1)

    def get(self, names: Sequence[bytes]) -> list[Found]:
        others, of_entries = sorted_out(names)
        found = self.noted(self.ask(sql.GET, (others,))) if others else []
        if of_entries:
            found += self.noted(named(of_entries, self.ask(sql.GET_OF_ENTRY, ([*of_entries],))))
        return found

    def noted(self, rows: Sequence[Sequence[Any]]) -> list[Found]:
        self.revisions.update([(row[0], row[2]) for row in rows])
        return [(row[0], row[1]) for row in rows]

    def scan(self, start: bytes, end: bytes, limit: int, *, newest: bool = False) -> list[Found]:
        return self.noted(self.ask(sql.SCAN_NEWEST if newest else sql.SCAN, (start, end, limit)))

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        return {seq: body.encode() for seq, body in self.ask(sql.BODIES, ([*ids], namespace))}

    def opened(self, namespace: str, within: int, sessions: Collection[str] | None, limit: int) -> list[int]:
        of = None if sessions is None else [*sessions]
        return [seq for (seq,) in self.ask(sql.OPENED, (within, namespace, of, limit))]

    def count(self) -> int:
        return int(self.ask(sql.COUNT)[0][0])

    def page(
        self,
        after: int,
        limit: int,
        *,
        newest: bool = False,
        namespace: str | None = None,
        session: str | None = None,
        key: str | None = None,
        settled: bool = False,
    ) -> list[Entry]:
        page = sql.PAGE_NEWEST if newest else sql.PAGE
        params = [after, LAST, namespace, session, key, limit]
        if settled:
            params[1] = self.ask(sql.SETTLE)[0][0]
            rows = self.ask(sql.PAGE_NOW_NEWEST if newest else sql.PAGE_NOW, params)
            if rows and rows[0][-1]:
                # Only a transaction that was running at this read may still add an entry before the last of these.
                self._engine.wait_for(set(rows[0][-1]))
                rows = self.ask(page, params)
        else:
            rows = self.ask(page, params)
        return [*map(entry_of, rows[::-1] if newest else rows)]


def sorted_out(wanted: Sequence[bytes]) -> tuple[list[bytes], dict[int, bytes]]:
    """Return the names of records, and those of the records of entries by position."""
    of_entries = {id: name for name in wanted if name[0] == OF_ENTRY and (id := names.id_in(name)) <= LAST}
    return [name for name in wanted if name[0] != OF_ENTRY], of_entries


def named(of_entries: Mapping[int, bytes], rows: Sequence[Sequence[Any]]) -> list[tuple[bytes, bytes, int]]:
    """Return the records in these rows under their names."""
    return [(of_entries[seq], record, revision) for seq, record, revision in rows]
