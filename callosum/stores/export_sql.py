"""The part of exporting to records, and loading them, that the SQL stores share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec

from callosum.model import State
from callosum.stores import export_rows as rows
from callosum.stores.export import (
    PAGE,
    DigestRecord,
    EntryRecord,
    FactRecord,
    MarkRecord,
    Page,
    SessionRecord,
    Sort,
    Stamp,
)
from callosum.stores.keys import scoped

Many = Callable[[str, Sequence[Any]], object]
"""Runs a statement once for each row of parameters."""

_STAMP: Final = "copy"


class SqlExport:
    """Journal, marks, digests and facts as records. A store implements how to read and write, and its other tables."""

    shared: Mapping[str, str]
    """The statements of ``export.sql`` by name, as the store's driver takes them."""

    # --- Implemented by a store -----------------------------------------------------------------------------

    def read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query."""
        raise NotImplementedError

    def writing(self) -> AbstractContextManager[Many]:
        """Open one transaction."""
        raise NotImplementedError

    def ids(self, ids: Sequence[int]) -> Any:
        """Return ids as the one parameter that the driver takes."""
        raise NotImplementedError

    def openness(self, state: State) -> int:
        """Return the value of a state in the table of live actions."""
        raise NotImplementedError

    def fact(self, value: int) -> Any:
        """Return the value of a fact in the table of facts."""
        return value

    def settled(self, page: list[Any], after: int) -> list[Any]:  # noqa: ARG002 - a store that must read the page again needs it
        """Return the part of a journal page before which nothing can appear any more; the page begins at ``after``."""
        return page

    def reads(self, page: Sequence[Any]) -> rows.Reads:
        """Return the unreported reads of a page of marks, as ``rows.known_in`` takes them."""
        raise NotImplementedError

    def sessions(self, after: str) -> Iterator[Page]:
        """Return the pages of sessions after a position."""
        raise NotImplementedError

    def put_sessions(self, many: Many, records: Sequence[SessionRecord]) -> None:
        """Write sessions over those with the same name."""
        raise NotImplementedError

    def drop_sessions(self, many: Many, records: Sequence[SessionRecord]) -> None:
        """Delete sessions."""
        raise NotImplementedError

    # --- To records -----------------------------------------------------------------------------------------

    def newest(self) -> int:
        """Return the newest time that an entry has (``StoreExport.newest``)."""
        return int(self.read(self.shared["newest"])[0][0])

    def empty(self) -> bool:
        """Return True if nothing was ever decided here (``StoreExport.empty``)."""
        return not any(self.read(self.shared[name]) for name in ("any_entry", "any_mark", "any_session"))

    def scan(self, sort: Sort, after: str = "") -> Iterator[Page]:
        """Return all records of a sort in pages (``StoreExport.scan``)."""
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
                return iter([([FactRecord(name, int(value)) for name, value in facts], "")])

    def _journal(self, after: int) -> Iterator[Page]:
        while page := self.read(self.shared["written"], (after, PAGE)):
            page = self.settled(page, after)
            after = page[-1][0]
            yield [rows.entry_record_of(row) for row in page], str(after)

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
        """Return the rows of a query about these journal entries."""
        return self.read(self.shared[query], (self.ids(ids),)) if ids else []

    def _lives(self, ids: Sequence[int]) -> dict[int, rows.Life]:
        return {row[0]: row[1:] for row in self._among("lives", ids)}

    # --- From records ---------------------------------------------------------------------------------------

    def load(self, sort: Sort, records: Sequence[Any]) -> None:
        """Write records over those with the same key (``StoreExport.load``)."""
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

    def _load_journal(self, records: Sequence[EntryRecord]) -> None:
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
            params = [(f"params:{r.entry.seq}", r.act.params) for r in records if r.act is not None and r.act.params]
            many(self.shared["put_fact"], params)

    def _unlive(self, many: Many, ids: Sequence[int]) -> None:
        """Delete the rows that say that actions are live, before the actions are written again or deleted."""
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
        """Delete records (``StoreExport.drop``)."""
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

    # --- The stamp ------------------------------------------------------------------------------------------

    def stamp(self) -> Stamp | None:
        """Return what ``put_stamp`` wrote last (``StoreExport.stamp``)."""
        found = self.read(self.shared["fact"], (_STAMP,))
        return msgspec.json.decode(bytes(found[0][0]), type=Stamp) if found else None

    def put_stamp(self, stamp: Stamp) -> None:
        """Write the stamp (``StoreExport.put_stamp``)."""
        with self.writing() as many:
            many(self.shared["put_fact"], [(_STAMP, msgspec.json.encode(stamp))])


def _print_row(record: DigestRecord) -> tuple[str, bytes, int]:
    return scoped(record.namespace, record.key), record.print, record.id
