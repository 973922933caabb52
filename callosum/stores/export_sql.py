"""What the SQL stores share as records that can be carried into another store, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec

from callosum.model import State
from callosum.stores import export_rows as rows
from callosum.stores.export import PAGE, Fact, MarkRecord, Page, Print, SessionRecord, Sort, Stamp, Written
from callosum.stores.keys import scoped

Many = Callable[[str, Sequence[Any]], object]
"""Carries a statement out for each of many rows of parameters."""

_STAMP: Final = "copy"


class SqlExport:
    """Journal, marks, digests and facts. A store says how it reads and writes, and what else its tables have."""

    shared: Mapping[str, str]
    """The statements of ``export.sql`` by name, as the store's driver takes them."""

    # --- what a store says --------------------------------------------------------------------------------

    def read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query."""
        raise NotImplementedError

    def writing(self) -> AbstractContextManager[Many]:
        """One transaction."""
        raise NotImplementedError

    def ids(self, ids: Sequence[int]) -> Any:
        """Return the one parameter that says ids."""
        raise NotImplementedError

    def openness(self, state: State) -> int:
        """Return what the table of live actions has for a state."""
        raise NotImplementedError

    def fact(self, value: int) -> Any:
        """Return what the table of facts has for a value."""
        return value

    def settled(self, page: list[Any], after: int) -> list[Any]:  # noqa: ARG002 - for who must read it once more
        """Return what of a page of the journal nothing can come before any more; ``after`` is where the page begins."""
        return page

    def reads(self, page: Sequence[Any]) -> rows.Reads:
        """As ``rows.known_in`` takes it, for a page of marks."""
        raise NotImplementedError

    def sessions(self, after: str) -> Iterator[Page]:
        """Return the pages of sessions after a place."""
        raise NotImplementedError

    def put_sessions(self, many: Many, records: Sequence[SessionRecord]) -> None:
        """Write sessions over those that are there."""
        raise NotImplementedError

    def drop_sessions(self, many: Many, records: Sequence[SessionRecord]) -> None:
        """Take sessions away."""
        raise NotImplementedError

    # --- out ----------------------------------------------------------------------------------------------

    def newest(self) -> int:
        """As ``Carrier.newest``."""
        return int(self.read(self.shared["newest"])[0][0])

    def empty(self) -> bool:
        """As ``Carrier.empty``."""
        return not any(self.read(self.shared[name]) for name in ("any_entry", "any_mark", "any_session"))

    def scan(self, sort: Sort, after: str = "") -> Iterator[Page]:
        """As ``Carrier.scan``."""
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
                facts = self.read(self.shared["facts"])
                return iter([([Fact(name, int(value)) for name, value in facts], "")])

    def _journal(self, after: int) -> Iterator[Page]:
        while page := self.read(self.shared["written"], (after, PAGE)):
            page = self.settled(page, after)
            after = page[-1][0]
            yield [rows.written_of(row) for row in page], str(after)

    def _marks(self, after: str) -> Iterator[Page]:
        at = rows.place(after, "", "")
        while page := self.read(self.shared["marks"], (*at, PAGE)):
            at = page[-1][:2]
            yield rows.known_in(page, self._lives, self.reads(page)), rows.shown(at)

    def _prints(self, after: str) -> Iterator[Page]:
        at = rows.place(after, "", b"", 0)
        while page := self.read(self.shared["prints"], (*at, PAGE)):
            at = page[-1][:3]
            yield [rows.print_of(row) for row in page if row[3]], rows.shown(at)

    def _among(self, query: str, ids: Sequence[int]) -> list[Any]:
        """Return what a query says of the journal's rows at these moments."""
        return self.read(self.shared[query], (self.ids(ids),)) if ids else []

    def _lives(self, ids: Sequence[int]) -> dict[int, rows.Life]:
        return {row[0]: row[1:] for row in self._among("lives", ids)}

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
                    many(self.shared["put_print"], [_print_row(record) for record in records])
                case Sort.SESSIONS:
                    self.put_sessions(many, records)
                case Sort.FACTS:
                    facts = [(record.name, self.fact(record.value)) for record in records]
                    many(self.shared["put_fact"], facts)

    def _load_journal(self, records: Sequence[Written]) -> None:
        there = [record.entry.seq for record in records]
        other = sorted({record.entry.action for record in records if record.entry.action}.difference(there))
        about = {row[0]: rows.opener(row) for row in self._among("openers", other)}
        about.update((record.entry.seq, record.entry) for record in records)
        again: dict[int, str] = dict(self._among("namespaces", there))
        rows.apart(records, again)
        with self.writing() as many:
            self._unlive(many, list(again))
            many(self.shared["put_entry"], [rows.row_of(record, about) for record in records])
            many(self.shared["put_live"], rows.lives_in(records, self.openness))
            many(self.shared["put_cover"], [(name,) for name in rows.covers_in(records)])
            params = [(_params(r), r.act.params) for r in records if r.act is not None and r.act.params]
            many(self.shared["put_fact"], params)

    def _unlive(self, many: Many, ids: Sequence[int]) -> None:
        """Take away what says that actions are live, before they are written anew or dropped."""
        many(self.shared["drop_live"], [(self.ids(ids),)] if ids else [])
        many(self.shared["drop_fact"], [(f"params:{id}",) for id in ids])

    def _load_marks(self, records: Sequence[MarkRecord]) -> None:
        lives = self._lives(rows.ids_of(records))
        with self.writing() as many:
            many(self.shared["put_mark"], [rows.mark_row(record, lives) for record in records])
            keys = [(text, id) for id, text in rows.befores(records, lives).items()]
            many(self.shared["put_keys"], keys)
            many(self.shared["put_cover"], [(name,) for name in rows.covers_in(records)])

    def drop(self, sort: Sort, records: Sequence[Any]) -> None:
        """As ``Carrier.drop``."""
        with self.writing() as many:
            match sort:
                case Sort.JOURNAL:
                    self._unlive(many, [record.entry.seq for record in records])
                    many(self.shared["drop_entry"], [(record.entry.seq,) for record in records])
                case Sort.MARKS:
                    marks = [(scoped(record.namespace, record.key), record.session) for record in records]
                    many(self.shared["drop_mark"], marks)
                case Sort.PRINTS:
                    many(self.shared["drop_print"], [_print_row(r) for r in records])
                case Sort.SESSIONS:
                    self.drop_sessions(many, records)
                case Sort.FACTS:
                    many(self.shared["drop_fact"], [(record.name,) for record in records])

    # --- the stamp ----------------------------------------------------------------------------------------

    def stamp(self) -> Stamp | None:
        """As ``Carrier.stamp``."""
        found = self.read(self.shared["fact"], (_STAMP,))
        return msgspec.json.decode(bytes(found[0][0]), type=Stamp) if found else None

    def put_stamp(self, stamp: Stamp) -> None:
        """As ``Carrier.put_stamp``."""
        with self.writing() as many:
            many(self.shared["put_fact"], [(_STAMP, msgspec.json.encode(stamp))])


def _params(record: Written) -> str:
    """Where the params of an action are that waits for a person."""
    return f"params:{record.entry.seq}"


def _print_row(record: Print) -> tuple[str, bytes, int]:
    return scoped(record.namespace, record.key), record.print, record.id
