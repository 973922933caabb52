"""The SQLite store as records that can be carried into another store, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from callosum.model import State
from callosum.stores import carryrows as rows
from callosum.stores.carrying import PAGE, Page, Session
from callosum.stores.carrysql import Many, SqlCarrier
from callosum.stores.keys import scoped
from callosum.stores.rows import as_json
from callosum.stores.sqlite.connection import Connections, explained

# One session may have no name: a person who does not say who it is.
_SESSIONS: Final = (
    "select name, seen, parent, continues from session where name >= ? and name is not ? order by name limit ?"
)
_READS: Final = (
    "select seq, keys from journal where seq >= ? and seq < ? and session = ? and state in ('open', 'done', 'unknown') "
    "and ended = 0 and keys is not null order by seq"
)
_AMONG: Final = "in (select value from json_each(?))"


class Carrier(SqlCarrier):
    """The store in the file ``path``; it is made if it is absent."""

    put_entry = f"insert or replace into journal({rows.JOURNAL}) values({', '.join('?' * 21)})"
    of_sessions = "session <> ''"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connections = Connections(path)
        self._connections.get().execute("pragma synchronous = full")

    @property
    def name(self) -> str:
        return f"sqlite {self.path.resolve()}"

    def close(self) -> None:
        self._connections.close()

    def read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        with explained(self.path):
            return self._connections.get().execute(query.replace("AMONG", _AMONG), params).fetchall()

    @contextmanager
    def writing(self) -> Iterator[Many]:
        with explained(self.path):
            link = self._connections.begin()
            connection = link.connection
            try:
                yield lambda query, params: connection.executemany(query.replace("AMONG", _AMONG), params)
                link.known.forget()
                link.execute("commit")
            except BaseException:
                self._connections.undo()
                raise

    def ids(self, ids: Sequence[int]) -> str:
        return as_json(list(ids))

    def openness(self, state: State) -> int:
        return 0 if state is State.UNKNOWN else 1

    def reads(self, page: Sequence[Any]) -> rows.Reads:  # noqa: ARG002 - a query costs no journey: one for each look
        return lambda session, moment: self.read(_READS, (moment, moment + rows.NEXT, session))

    def sessions(self, after: str) -> Iterator[Page]:
        at = rows.place(after, None)
        while page := self.read(_SESSIONS, (at[0] or "", at[0], PAGE)):
            at = page[-1][:1]
            yield [rows.session_of(*rows.split(row[0]), row[1:]) for row in page], rows.shown(at)

    def put_sessions(self, many: Many, records: Sequence[Session]) -> None:
        found = [(scoped(r.namespace, r.name), r.seen, r.parent or None, r.continues or None) for r in records]
        many("insert or replace into session values(?, ?, ?, ?)", found)

    def drop_sessions(self, many: Many, records: Sequence[Session]) -> None:
        many("delete from session where name = ?", [(scoped(record.namespace, record.name),) for record in records])
