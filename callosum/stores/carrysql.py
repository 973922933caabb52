"""What the SQL stores share as records that can be carried into another store, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec

from callosum.model import State
from callosum.stores import carryrows as rows
from callosum.stores.carrying import PAGE, Fact, Known, Page, Print, Session, Sort, Stamp, Written
from callosum.stores.keys import scoped

Many = Callable[[str, Sequence[Any]], object]
"""Carries a statement out for each of many rows of parameters."""

_STAMP: Final = "copy"
_META: Final = "insert into meta values(?, ?) on conflict(name) do update set value = excluded.value"
_COVER: Final = "insert into cover(key) values(?) on conflict do nothing"
_PRINT: Final = "insert into print(key, print, id) values(?, ?, ?) on conflict do nothing"
_LIVE: Final = "insert into live(key, open, id) values(?, ?, ?) on conflict do nothing"
_SET_MARK: Final = (
    f"insert into mark({rows.MARK}) values(?, ?, ?, ?, ?, ?, ?, ?) on conflict(key, session) do update set "
    "read = excluded.read, told = excluded.told, kind = excluded.kind, note = excluded.note, acted = excluded.acted, "
    "changed = excluded.changed"
)
_MARKS: Final = (
    "select key, session, read, told, kind, note, acted from mark where (key, session) > (?, ?) and {0} "
    "order by key, session limit ?"
)
_PRINTS: Final = (
    "select p.key, p.print, p.id, j.state in ('open', 'done', 'unknown') from print p "
    "left join journal j on j.seq = p.id where (p.key, p.print, p.id) > (?, ?, ?) order by p.key, p.print, p.id limit ?"
)


class SqlCarrier:
    """Journal, marks, digests and facts. A store says how it reads and writes, and what else its tables have.

    Statements have ``?`` for each parameter, and ``AMONG`` for "is one of these ids", which are one parameter.
    """

    put_entry: str
    """The statement that writes a row of ``rows.JOURNAL``, over one that may be there."""
    of_sessions: str = "true"
    """Which rows of ``mark`` are those of a session."""

    # --- what a store says --------------------------------------------------------------------------------

    def read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query."""
        raise NotImplementedError

    def writing(self) -> AbstractContextManager[Many]:
        """One transaction."""
        raise NotImplementedError

    def ids(self, ids: Sequence[int]) -> Any:
        """The parameter for ``AMONG``."""
        raise NotImplementedError

    def openness(self, state: State) -> int:
        """What the table of live actions has for a state."""
        raise NotImplementedError

    def fact(self, value: int) -> Any:
        """What the table of facts has for a value."""
        return value

    def settled(self, page: list[Any], after: int) -> list[Any]:  # noqa: ARG002 - for who must read it once more
        """What of a page of the journal nothing can come before any more; ``after`` is where the page begins."""
        return page

    def reads(self, page: Sequence[Any]) -> rows.Reads:
        """As ``rows.known_in`` takes it, for a page of marks."""
        raise NotImplementedError

    def sessions(self, after: str) -> Iterator[Page]:
        """The pages of sessions after a place."""
        raise NotImplementedError

    def put_sessions(self, many: Many, records: Sequence[Session]) -> None:
        """Writes sessions over those that are there."""
        raise NotImplementedError

    def drop_sessions(self, many: Many, records: Sequence[Session]) -> None:
        """Takes sessions away."""
        raise NotImplementedError

    # --- out ----------------------------------------------------------------------------------------------

    def newest(self) -> int:
        """As ``Carrier.newest``."""
        return int(self.read("select coalesce(max(seq), 0) from journal")[0][0])

    def empty(self) -> bool:
        """As ``Carrier.empty``."""
        return not any(self.read(f"select 1 from {table} limit 1") for table in ("journal", "mark", "session"))

    def dump(self, sort: Sort, after: str = "") -> Iterator[Page]:
        """As ``Carrier.dump``."""
        match sort:
            case Sort.JOURNAL:
                return self._journal(int(after or 0))
            case Sort.MARKS:
                return self._marks(after)
            case Sort.PRINTS:
                return self._prints(after)
            case Sort.SESSIONS:
                return self.sessions(after)
            case Sort.FACTS:
                facts = self.read("select * from meta where name = 'observe'")
                return iter([([Fact(name, int(value)) for name, value in facts], "")])

    def _journal(self, after: int) -> Iterator[Page]:
        while page := self.read(rows.WRITTEN.format("?"), (after, PAGE)):
            page = self.settled(page, after)
            after = page[-1][0]
            yield [rows.written_of(row) for row in page], str(after)

    def _marks(self, after: str) -> Iterator[Page]:
        at, query = rows.place(after, "", ""), _MARKS.format(self.of_sessions)
        while page := self.read(query, (*at, PAGE)):
            at = page[-1][:2]
            yield rows.known_in(page, self._lives, self.reads(page)), rows.shown(at)

    def _prints(self, after: str) -> Iterator[Page]:
        at = rows.place(after, "", b"", 0)
        while page := self.read(_PRINTS, (*at, PAGE)):
            at = page[-1][:3]
            yield [rows.print_of(row) for row in page if row[3]], rows.shown(at)

    def _among(self, columns: str, ids: Sequence[int]) -> list[Any]:
        """These columns of the journal's rows at these moments."""
        return self.read(f"select {columns} from journal where seq AMONG", (self.ids(ids),)) if ids else []

    def _lives(self, ids: Sequence[int]) -> dict[int, rows.Life]:
        return {row[0]: row[1:] for row in self._among("seq, state, ended, tier, keys", ids)}

    # --- in -----------------------------------------------------------------------------------------------

    def load(self, sort: Sort, records: Sequence[Any]) -> None:
        """As ``Carrier.load``."""
        if sort is Sort.JOURNAL:
            self._load_journal(records)
            return
        if sort is Sort.MARKS:
            self._load_marks(records)
            return
        with self.writing() as many:
            match sort:
                case Sort.PRINTS:
                    many(_PRINT, [_print_row(record) for record in records])
                case Sort.SESSIONS:
                    self.put_sessions(many, records)
                case Sort.FACTS:
                    many(_META, [(record.name, self.fact(record.value)) for record in records])

    def _load_journal(self, records: Sequence[Written]) -> None:
        there = [record.entry.seq for record in records]
        other = sorted({record.entry.action for record in records if record.entry.action}.difference(there))
        about = {row[0]: rows.opener(row) for row in self._among("seq, tool, tier, run, keys", other)}
        about.update((record.entry.seq, record.entry) for record in records)
        again: dict[int, str] = dict(self._among("seq, namespace", there))
        rows.apart(records, again)
        with self.writing() as many:
            self._unlive(many, list(again))
            many(self.put_entry, [rows.row_of(record, about) for record in records])
            many(_LIVE, rows.lives_in(records, self.openness))
            many(_COVER, [(name,) for name in rows.covers_in(records)])
            many(_META, [(_params(r), r.act.params) for r in records if r.act is not None and r.act.params])

    def _unlive(self, many: Many, ids: Sequence[int]) -> None:
        """Takes away what says that actions are live, before they are written anew or dropped."""
        many("delete from live where id AMONG", [(self.ids(ids),)] if ids else [])
        many("delete from meta where name = ?", [(f"params:{id}",) for id in ids])

    def _load_marks(self, records: Sequence[Known]) -> None:
        lives = self._lives(rows.ids_of(records))
        with self.writing() as many:
            many(_SET_MARK, [rows.mark_row(record, lives) for record in records])
            keys = [(text, id) for id, text in rows.befores(records, lives).items()]
            many("update journal set keys = ? where seq = ?", keys)
            many(_COVER, [(name,) for name in rows.covers_in(records)])

    def drop(self, sort: Sort, records: Sequence[Any]) -> None:
        """As ``Carrier.drop``."""
        with self.writing() as many:
            match sort:
                case Sort.JOURNAL:
                    self._unlive(many, [record.entry.seq for record in records])
                    many("delete from journal where seq = ?", [(record.entry.seq,) for record in records])
                case Sort.MARKS:
                    marks = [(scoped(record.namespace, record.key), record.session) for record in records]
                    many("delete from mark where key = ? and session = ?", marks)
                case Sort.PRINTS:
                    many("delete from print where key = ? and print = ? and id = ?", [_print_row(r) for r in records])
                case Sort.SESSIONS:
                    self.drop_sessions(many, records)
                case Sort.FACTS:
                    many("delete from meta where name = ?", [(record.name,) for record in records])

    # --- the stamp ----------------------------------------------------------------------------------------

    def stamp(self) -> Stamp | None:
        """As ``Carrier.stamp``."""
        found = self.read("select value from meta where name = ?", (_STAMP,))
        return msgspec.json.decode(bytes(found[0][0]), type=Stamp) if found else None

    def put_stamp(self, stamp: Stamp) -> None:
        """As ``Carrier.put_stamp``."""
        with self.writing() as many:
            many(_META, [(_STAMP, msgspec.json.encode(stamp))])


def _params(record: Written) -> str:
    """Where the params of an action are that waits for a person."""
    return f"params:{record.entry.seq}"


def _print_row(record: Print) -> tuple[str, bytes, int]:
    return scoped(record.namespace, record.key), record.print, record.id
