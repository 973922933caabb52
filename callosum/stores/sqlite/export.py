"""Export the SQLite store as records that another store can load, and load such records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from callosum.model import State
from callosum.stores import export_rows as rows
from callosum.stores.export import PAGE, Page, SessionRecord
from callosum.stores.export_sql import Many, SqlExport
from callosum.stores.keys import scoped
from callosum.stores.rows import NEXT, PARTS, as_json
from callosum.stores.sqlite.connection import SqliteConnections, explained
from callosum.stores.sqlite.statements import SQL
from callosum.stores.statements import SHARED, load


class SqliteExport(SqlExport):
    """The store in the file ``path``, which is created if it is absent."""

    shared = load(
        SHARED,
        "export.sql",
        {
            **PARTS,
            "among": "in (select value from json_each(?))",
            "of_sessions": "session <> ''",
            "more_columns": "",
            "more_values": "",
        },
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connections = SqliteConnections(path)
        self._connections.get().execute("pragma synchronous = full")

    @property
    def name(self) -> str:
        return f"sqlite {self.path.resolve()}"

    def close(self) -> None:
        self._connections.close()

    def read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        with explained(self.path):
            return self._connections.get().execute(query, params).fetchall()

    @contextmanager
    def writing(self) -> Iterator[Many]:
        with explained(self.path):
            link = self._connections.begin()
            connection = link.connection
            try:
                yield connection.executemany
                link.known.forget()
                link.execute("commit")
            except BaseException:
                self._connections.undo()
                raise

    def ids(self, ids: Sequence[int]) -> str:
        return as_json(list(ids))

    def openness(self, state: State) -> int:
        return 0 if state is State.UNKNOWN else 1

    def reads(self, page: Sequence[Any]) -> rows.Reads:  # noqa: ARG002 - a query is cheap here, so there is one for each read
        return lambda session, moment: self.read(SQL["reads"], (moment, moment + NEXT, session))

    def sessions(self, after: str) -> Iterator[Page]:
        at = rows.place(after, None)
        while page := self.read(SQL["sessions"], (at[0] or "", at[0], PAGE)):
            at = page[-1][:1]
            yield [rows.session_of(*rows.split(row[0]), row[1:]) for row in page], rows.shown(at)

    def put_sessions(self, many: Many, records: Sequence[SessionRecord]) -> None:
        found = [(scoped(r.namespace, r.name), r.seen, r.parent or None, r.continues or None) for r in records]
        many(SQL["put_session"], found)

    def drop_sessions(self, many: Many, records: Sequence[SessionRecord]) -> None:
        many(SQL["drop_session"], [(scoped(record.namespace, record.name),) for record in records])
