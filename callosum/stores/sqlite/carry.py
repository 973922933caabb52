"""The SQLite store as records that can be carried into another store, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from callosum.model import State
from callosum.stores import carryrows as rows
from callosum.stores.carrying import PAGE, Fact, Known, Page, Sort, Stamp
from callosum.stores.rows import as_json, scoped
from callosum.stores.sqlite.connection import Connections, explained

_STAMP: Final = "copy"
_INSERT: Final = f"insert or replace into journal({rows.JOURNAL}) values({', '.join('?' * 21)})"
_SET_MARK: Final = (
    f"insert into mark({rows.MARK}) values(?,?,?,?,?,?,?,?) on conflict(key, session) do update set "
    "read = excluded.read, told = excluded.told, kind = excluded.kind, note = excluded.note, acted = excluded.acted, "
    "changed = excluded.changed"
)
_MARKS: Final = (
    "select key, session, read, told, kind, note, acted from mark where (key, session) > (?, ?) and session <> '' "
    "order by key, session limit ?"
)
_PRINTS: Final = (
    "select p.key, p.print, p.id, j.state in ('open', 'done', 'unknown') from print p "
    "left join journal j on j.seq = p.id where (p.key, p.print, p.id) > (?, ?, ?) order by p.key, p.print, p.id limit ?"
)
# One session may have no name: a person who does not say who it is.
_SESSIONS: Final = (
    "select name, seen, parent, continues from session where name >= ? and name is not ? order by name limit ?"
)
_READS: Final = (
    "select seq, keys from journal where seq >= ? and seq < ? and session = ? and state in ('open', 'done', 'unknown') "
    "and ended = 0 and keys is not null order by seq"
)


class Carrier:
    """The store in the file ``path``; it is made if it is absent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connections = Connections(path)
        self._connections.get().execute("pragma synchronous = full")

    @property
    def name(self) -> str:
        return f"sqlite {self.path.resolve()}"

    def close(self) -> None:
        self._connections.close()

    def _read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        with explained(self.path):
            return self._connections.get().execute(query, params).fetchall()

    def _among(self, query: str, ids: Sequence[int]) -> list[Any]:
        """Rows for many ids; ``?`` in the query stands for them as JSON."""
        return self._read(query, (as_json(list(ids)),)) if ids else []

    @contextmanager
    def _writing(self) -> Iterator[Callable[..., Any]]:
        with explained(self.path):
            link = self._connections.begin()
            try:
                connection = self._connections.get()
                yield connection.executemany
                link.known.forget()
                link.execute("commit")
            except BaseException:
                self._connections.undo()
                raise

    def newest(self) -> int:
        return int(self._read("select coalesce(max(seq), 0) from journal")[0][0])

    def empty(self) -> bool:
        return not any(self._read(f"select 1 from {table} limit 1") for table in ("journal", "mark", "session"))

    # --- out ---

    def dump(self, sort: Sort, after: str = "") -> Iterator[Page]:
        match sort:
            case Sort.JOURNAL:
                return self._journal(int(after or 0))
            case Sort.MARKS:
                return self._marks(after)
            case Sort.PRINTS:
                return self._prints(after)
            case Sort.SESSIONS:
                return self._sessions(after)
            case Sort.FACTS:
                return iter([(self._facts(), "")])

    def _journal(self, after: int) -> Iterator[Page]:
        while page := self._read(rows.WRITTEN.format("?"), (after, PAGE)):
            after = page[-1][0]
            yield [rows.written_of(row) for row in page], str(after)

    def _marks(self, after: str) -> Iterator[Page]:
        at = rows.place(after, "", "")
        while page := self._read(_MARKS, (*at, PAGE)):
            at = page[-1][:2]
            yield rows.known_in(page, self._lives, self._reads), rows.shown(at)

    def _lives(self, ids: Sequence[int]) -> dict[int, rows.Life]:
        query = "select seq, state, ended, tier, keys from journal where seq in (select value from json_each(?))"
        return {row[0]: row[1:] for row in self._among(query, ids)}

    def _reads(self, session: str, moment: int) -> list[Any]:
        return self._read(_READS, (moment, moment + rows.NEXT, session))

    def _prints(self, after: str) -> Iterator[Page]:
        at = rows.place(after, "", b"", 0)
        while page := self._read(_PRINTS, (*at, PAGE)):
            at = page[-1][:3]
            yield [rows.print_of(row) for row in page if row[3]], rows.shown(at)

    def _sessions(self, after: str) -> Iterator[Page]:
        at = rows.place(after, None)
        while page := self._read(_SESSIONS, (at[0] or "", at[0], PAGE)):
            at = page[-1][:1]
            yield [rows.session_of(*rows.split(row[0]), row[1:]) for row in page], rows.shown(at)

    def _facts(self) -> list[Fact]:
        return [Fact(name, int(value)) for name, value in self._read("select * from meta where name = 'observe'")]

    # --- in ---

    def load(self, sort: Sort, records: Sequence[Any]) -> None:
        match sort:
            case Sort.JOURNAL:
                self._load_journal(records)
            case Sort.MARKS:
                self._load_marks(records)
            case _:
                with self._writing() as many:
                    many(*_SIMPLE[sort](records))

    def _load_journal(self, records: Sequence[Any]) -> None:
        there = [record.entry.seq for record in records]
        other = sorted({record.entry.action for record in records if record.entry.action}.difference(there))
        query = "select seq, tool, tier, run, keys from journal where seq in (select value from json_each(?))"
        about = {row[0]: rows.opener(row) for row in self._among(query, other)}
        about.update((record.entry.seq, record.entry) for record in records)
        again = self._lives(there)
        spaces = "select seq, namespace from journal where seq in (select value from json_each(?))"
        rows.apart(records, dict(self._among(spaces, there)))
        with self._writing() as many:
            self._unlive(many, again)
            many(_INSERT, [rows.row_of(record, about) for record in records])
            many("insert or ignore into live values(?, ?, ?)", rows.lives_in(records, _openness))
            many("insert or ignore into cover values(?)", [(name,) for name in rows.covers_in(records)])
            params = [(f"params:{r.entry.seq}", r.act.params) for r in records if r.act is not None and r.act.params]
            many("insert or replace into meta values(?, ?)", params)

    def _unlive(self, many: Callable[..., Any], lives: dict[int, rows.Life]) -> None:
        """Takes away what says that actions are live, before they are written anew or dropped."""
        if not lives:
            return
        keys = "select distinct l.key, l.id from live l where l.id in (select value from json_each(?))"
        many("delete from live where key = ? and id = ?", self._among(keys, sorted(lives)))
        many("delete from meta where name = ?", [(f"params:{id}",) for id in lives])

    def _load_marks(self, records: Sequence[Known]) -> None:
        lives = self._lives(rows.ids_of(records))
        with self._writing() as many:
            many(_SET_MARK, [rows.mark_row(record, lives) for record in records])
            keys = [(text, id) for id, text in rows.befores(records, lives).items()]
            many("update journal set keys = ? where seq = ?", keys)
            many("insert or ignore into cover values(?)", [(name,) for name in rows.covers_in(records)])

    def drop(self, sort: Sort, records: Sequence[Any]) -> None:
        with self._writing() as many:
            match sort:
                case Sort.JOURNAL:
                    self._unlive(many, self._lives([record.entry.seq for record in records]))
                    many("delete from journal where seq = ?", [(record.entry.seq,) for record in records])
                case Sort.MARKS:
                    marks = [(scoped(record.namespace, record.key), record.session) for record in records]
                    many("delete from mark where key = ? and session = ?", marks)
                case Sort.PRINTS:
                    places = [(scoped(r.namespace, r.key), r.print, r.id) for r in records]
                    many("delete from print where key = ? and print = ? and id = ?", places)
                case Sort.SESSIONS:
                    names = [(scoped(record.namespace, record.name),) for record in records]
                    many("delete from session where name = ?", names)
                case Sort.FACTS:
                    many("delete from meta where name = ?", [(record.name,) for record in records])

    # --- the stamp ---

    def stamp(self) -> Stamp | None:
        found = self._read("select value from meta where name = ?", (_STAMP,))
        return msgspec.json.decode(found[0][0], type=Stamp) if found else None

    def put_stamp(self, stamp: Stamp) -> None:
        with self._writing() as many:
            many("insert or replace into meta values(?, ?)", [(_STAMP, msgspec.json.encode(stamp))])


def _openness(state: State) -> int:
    return 0 if state is State.UNKNOWN else 1


def _print_rows(records: Sequence[Any]) -> tuple[str, list[Any]]:
    places = [(scoped(record.namespace, record.key), record.print, record.id) for record in records]
    return "insert or ignore into print values(?, ?, ?)", places


def _session_rows(records: Sequence[Any]) -> tuple[str, list[Any]]:
    found = [(scoped(r.namespace, r.name), r.seen, r.parent or None, r.continues or None) for r in records]
    return "insert or replace into session values(?, ?, ?, ?)", found


def _fact_rows(records: Sequence[Any]) -> tuple[str, list[Any]]:
    return "insert or replace into meta values(?, ?)", [(record.name, record.value) for record in records]


_SIMPLE: Final = {Sort.PRINTS: _print_rows, Sort.SESSIONS: _session_rows, Sort.FACTS: _fact_rows}
