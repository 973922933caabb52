"""Export the PostgreSQL store as records for another store, and import such records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from callosum.model import SECOND, State
from callosum.stores import export_rows as rows
from callosum.stores.export import PAGE, Page, SessionRecord
from callosum.stores.export_sql import Many, SqlExport
from callosum.stores.postgres.apply import openness
from callosum.stores.postgres.connections import PostgresConnections, explained
from callosum.stores.postgres.statements import SQL
from callosum.stores.postgres.store import PostgresStore
from callosum.stores.rows import PARTS
from callosum.stores.statements import SHARED, load

_SETTLED: Final = 60 * SECOND
"""Microseconds after which no entry can still appear before an existing one."""

_CARRY: Final = load(
    SHARED,
    "export.sql",
    {**PARTS, "among": "= any(?)", "of_sessions": "true", "more_columns": ", token", "more_values": ", 0"},
)
_SHARED: Final = {name: text.replace("?", "%s") for name, text in _CARRY.items()}


class PostgresExport(SqlExport):
    """Scan and load the store at ``url``. Missing tables are created."""

    shared = _SHARED

    def __init__(self, url: str) -> None:
        self._store = PostgresStore(url)
        self.address = self._store.address
        self._stack = ExitStack()
        with explained(self.address):
            self._connection = self._stack.enter_context(PostgresConnections(self.address).alone())
            self._connection.execute(SQL["by_keys"])

    @property
    def name(self) -> str:
        return f"postgresql {self.address.place}"

    def close(self) -> None:
        with explained(self.address):
            self._stack.close()
        self._store.close()

    def read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        with explained(self.address):
            return self._connection.execute(query, params).fetchall()

    @contextmanager
    def writing(self) -> Iterator[Many]:
        with explained(self.address), self._connection.transaction(), self._connection.cursor() as cursor:

            def many(query: str, params: Sequence[Any]) -> None:
                if params:
                    cursor.executemany(query, params)

            yield many

    def ids(self, ids: Sequence[int]) -> list[int]:
        return list(ids)

    def openness(self, state: State) -> int:
        return openness(state)

    def fact(self, value: int) -> bytes:
        return str(value).encode()

    def settled(self, page: list[Any], after: int) -> list[Any]:
        if page[-1][0] <= self._store.now() - _SETTLED:
            return page
        # A running transaction may still add an entry before the last ones: the store's own reader waits for it.
        last = self._store.entries(after=after, limit=PAGE)[-1].seq
        return [row for row in self.read(self.shared["written"], (after, PAGE)) if row[0] <= last]

    def reads(self, page: Sequence[Any]) -> rows.Reads:
        entries_of: dict[tuple[str, int], list[tuple[int, str]]] = {}

        def fetch(pairs: Sequence[tuple[str, int]]) -> None:
            entries_of.update((read, []) for read in pairs)
            sessions, moments = [read[0] for read in pairs], [read[1] for read in pairs]
            for session, moment, seq, keys in self.read(SQL["reads"], (sessions, moments)):
                entries_of[session, moment].append((seq, keys))

        def reads(session: str, moment: int) -> Sequence[tuple[int, str]]:
            if (session, moment) not in entries_of:
                fetch([(session, moment)])
            return entries_of[session, moment]

        first = sorted({(row[1], row[2]) for row in page if row[2]})
        if first:
            fetch(first)
        return reads

    def sessions(self, after: str) -> Iterator[Page]:
        position = rows.place(after, "", "")
        while page := self.read(SQL["sessions"], (*position, PAGE)):
            position = page[-1][:2]
            yield [rows.session_of(row[0], row[1], row[2:]) for row in page], rows.shown(position)

    def put_sessions(self, many: Many, records: Sequence[SessionRecord]) -> None:
        values = [(r.namespace, r.name, r.seen, r.parent or None, r.continues or None) for r in records]
        many(SQL["put_session"], values)

    def drop_sessions(self, many: Many, records: Sequence[SessionRecord]) -> None:
        names = [(record.namespace, record.name) for record in records]
        many(SQL["drop_session"], names)
