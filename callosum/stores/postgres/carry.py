"""The PostgreSQL store as records that can be carried into another store, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import msgspec

from callosum.model import SECOND
from callosum.stores import carryrows as rows
from callosum.stores.carrying import PAGE, Fact, Known, Page, Sort, Stamp
from callosum.stores.postgres.apply import openness
from callosum.stores.postgres.link import Connections, explained
from callosum.stores.postgres.store import PostgresStore
from callosum.stores.rows import scoped

_STAMP: Final = "copy"
_COLUMNS: Final = rows.JOURNAL.split(", ")
_INSERT: Final = (
    f"insert into journal({rows.JOURNAL}, token) values({', '.join(['%s'] * len(_COLUMNS))}, 0) "
    f"on conflict(seq) do update set {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS[1:])}"
)
_SET_MARK: Final = (
    f"insert into mark({rows.MARK}) values(%s, %s, %s, %s, %s, %s, %s, %s) on conflict(key, session) do update set "
    "read = excluded.read, told = excluded.told, kind = excluded.kind, note = excluded.note, acted = excluded.acted, "
    "changed = excluded.changed"
)
_META: Final = "insert into meta values(%s, %s) on conflict(name) do update set value = excluded.value"
_COVER: Final = "insert into cover(key) values(%s) on conflict do nothing"
_SESSION: Final = (
    "insert into session(namespace, name, seen, parent, continues) values(%s, %s, %s, %s, %s) "
    "on conflict(namespace, name) do update set seen = excluded.seen, parent = excluded.parent, "
    "continues = excluded.continues"
)
_MARKS: Final = (
    "select key, session, read, told, kind, note, acted from mark where (key, session) > (%s, %s) "
    "order by key, session limit %s"
)
_PRINTS: Final = (
    "select p.key, p.print, p.id, j.state in ('open', 'done', 'unknown') from print p "
    "left join journal j on j.seq = p.id where (p.key, p.print, p.id) > (%s, %s::bytea, %s) "
    "order by p.key, p.print, p.id limit %s"
)
_SESSIONS: Final = (
    "select namespace, name, seen, parent, continues from session where (namespace, name) > (%s, %s) "
    "order by namespace, name limit %s"
)
_OPENERS: Final = "select seq, tool, tier, run, keys from journal where seq = any(%s)"
_LIVES: Final = "select seq, state, ended, tier, keys from journal where seq = any(%s)"
# For all looks of a page at once: one round trip.
_READS: Final = (
    "select o.session, o.moment, j.seq, j.keys from unnest(%s::text[], %s::bigint[]) as o(session, moment) "
    f"join journal j on j.seq >= o.moment and j.seq < o.moment + {rows.NEXT} and j.session = o.session "
    "and j.state in ('open', 'done', 'unknown') and j.ended = 0 and j.keys is not null order by j.seq"
)
# A page is found through an index, whatever the statistics of tables that are just being filled say.
_BY_KEYS: Final = (
    "select set_config(name, 'off', false) from unnest(array['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', "
    "'jit']) name"
)
_SETTLED: Final = 60 * SECOND
"""After so long no entry can come before another any more."""


class Carrier:
    """The store at ``url``; its tables are made if they are absent."""

    def __init__(self, url: str) -> None:
        self._store = PostgresStore(url)
        self.address = self._store.address
        self._stack = ExitStack()
        with explained(self.address):
            self._connection = self._stack.enter_context(Connections(self.address).alone())
            self._connection.execute(_BY_KEYS)

    @property
    def name(self) -> str:
        return f"postgresql {self.address.place}"

    def close(self) -> None:
        with explained(self.address):
            self._stack.close()
        self._store.close()

    def _read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        with explained(self.address):
            return self._connection.execute(query, params).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[Callable[..., Any]]:
        with explained(self.address), self._connection.transaction(), self._connection.cursor() as cursor:

            def many(query: str, params: Sequence[Any]) -> None:
                if params:
                    cursor.executemany(query, params)

            yield many

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
        query = rows.WRITTEN.format("%s")
        while page := self._read(query, (after, PAGE)):
            if page[-1][0] > self._store.now() - _SETTLED:
                # What comes last may be overtaken by what is under way: the store's own reader waits for that.
                last = self._store.entries(after=after, limit=PAGE)[-1].seq
                page = [row for row in self._read(query, (after, PAGE)) if row[0] <= last]
            after = page[-1][0]
            yield [rows.written_of(row) for row in page], str(after)

    def _marks(self, after: str) -> Iterator[Page]:
        at = rows.place(after, "", "")
        while page := self._read(_MARKS, (*at, PAGE)):
            at = page[-1][:2]
            yield rows.known_in(page, self._lives, self._reads_of(page)), rows.shown(at)

    def _lives(self, ids: Sequence[int]) -> dict[int, rows.Life]:
        return {row[0]: row[1:] for row in self._read(_LIVES, (list(ids),))} if ids else {}

    def _reads_of(self, page: Sequence[Any]) -> Callable[[str, int], Sequence[tuple[int, str]]]:
        found: dict[tuple[str, int], list[tuple[int, str]]] = {}

        def ask(looks: Sequence[tuple[str, int]]) -> None:
            found.update((look, []) for look in looks)
            sessions, moments = [look[0] for look in looks], [look[1] for look in looks]
            for session, moment, seq, keys in self._read(_READS, (sessions, moments)):
                found[session, moment].append((seq, keys))

        def reads(session: str, moment: int) -> Sequence[tuple[int, str]]:
            if (session, moment) not in found:
                ask([(session, moment)])
            return found[session, moment]

        first = sorted({(row[1], row[2]) for row in page if row[2]})
        if first:
            ask(first)
        return reads

    def _prints(self, after: str) -> Iterator[Page]:
        at = rows.place(after, "", b"", 0)
        while page := self._read(_PRINTS, (*at, PAGE)):
            at = page[-1][:3]
            yield [rows.print_of(row) for row in page if row[3]], rows.shown(at)

    def _sessions(self, after: str) -> Iterator[Page]:
        at = rows.place(after, "", "")
        while page := self._read(_SESSIONS, (*at, PAGE)):
            at = page[-1][:2]
            yield [rows.session_of(row[0], row[1], row[2:]) for row in page], rows.shown(at)

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
        found = self._read(_OPENERS, (other,)) if other else []
        about = {row[0]: rows.opener(row) for row in found}
        about.update((record.entry.seq, record.entry) for record in records)
        again = dict(self._read("select seq, namespace from journal where seq = any(%s)", (there,)))
        rows.apart(records, again)
        with self._writing() as many:
            self._unlive(many, list(again))
            many(_INSERT, [rows.row_of(record, about) for record in records])
            live = rows.lives_in(records, openness)
            many("insert into live(key, open, id) values(%s, %s, %s) on conflict do nothing", live)
            many(_COVER, [(name,) for name in rows.covers_in(records)])
            params = [(f"params:{r.entry.seq}", r.act.params) for r in records if r.act is not None and r.act.params]
            many(_META, params)

    def _unlive(self, many: Callable[..., Any], ids: Sequence[int]) -> None:
        """Takes away what says that actions are live, before they are written anew or dropped."""
        if ids:
            many("delete from live where id = any(%s)", [(list(ids),)])
            many("delete from meta where name = any(%s)", [([f"params:{id}" for id in ids],)])

    def _load_marks(self, records: Sequence[Known]) -> None:
        lives = self._lives(rows.ids_of(records))
        with self._writing() as many:
            many(_SET_MARK, [rows.mark_row(record, lives) for record in records])
            keys = [(text, id) for id, text in rows.befores(records, lives).items()]
            many("update journal set keys = %s where seq = %s", keys)
            many(_COVER, [(name,) for name in rows.covers_in(records)])

    def drop(self, sort: Sort, records: Sequence[Any]) -> None:
        with self._writing() as many:
            match sort:
                case Sort.JOURNAL:
                    ids = [record.entry.seq for record in records]
                    self._unlive(many, ids)
                    many("delete from journal where seq = %s", [(id,) for id in ids])
                case Sort.MARKS:
                    marks = [(scoped(record.namespace, record.key), record.session) for record in records]
                    many("delete from mark where key = %s and session = %s", marks)
                case Sort.PRINTS:
                    places = [(scoped(r.namespace, r.key), r.print, r.id) for r in records]
                    many("delete from print where key = %s and print = %s and id = %s", places)
                case Sort.SESSIONS:
                    names = [(record.namespace, record.name) for record in records]
                    many("delete from session where namespace = %s and name = %s", names)
                case Sort.FACTS:
                    many("delete from meta where name = %s", [(record.name,) for record in records])

    # --- the stamp ---

    def stamp(self) -> Stamp | None:
        found = self._read("select value from meta where name = %s", (_STAMP,))
        return msgspec.json.decode(bytes(found[0][0]), type=Stamp) if found else None

    def put_stamp(self, stamp: Stamp) -> None:
        with self._writing() as many:
            many(_META, [(_STAMP, msgspec.json.encode(stamp))])


def _print_rows(records: Sequence[Any]) -> tuple[str, list[Any]]:
    places = [(scoped(record.namespace, record.key), record.print, record.id) for record in records]
    return "insert into print(key, print, id) values(%s, %s, %s) on conflict do nothing", places


def _session_rows(records: Sequence[Any]) -> tuple[str, list[Any]]:
    return _SESSION, [(r.namespace, r.name, r.seen, r.parent or None, r.continues or None) for r in records]


def _fact_rows(records: Sequence[Any]) -> tuple[str, list[Any]]:
    return _META, [(record.name, str(record.value).encode()) for record in records]


_SIMPLE: Final = {Sort.PRINTS: _print_rows, Sort.SESSIONS: _session_rows, Sort.FACTS: _fact_rows}
