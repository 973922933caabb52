"""A transaction: locks and reads in one round trip, writes and commit in another."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import psycopg

from callosum.model import Entry
from callosum.stores import names
from callosum.stores.port import OF_ENTRY, Found, Overtaken, Written, encode
from callosum.stores.postgres import statements as sql
from callosum.stores.postgres.connections import is_connection_lost
from callosum.stores.postgres.locks import EVERY, Locks
from callosum.stores.postgres.pipeline import Params, Pipeline
from callosum.stores.postgres.reader import PostgresReader, columns_of, named, sorted_out

if TYPE_CHECKING:
    from callosum.stores.postgres.engine import PostgresEngine


class PostgresTransaction(PostgresReader):
    """A transaction that holds ``locks``, and has read what is asked for ``first``.

    One without requests locks nothing: what others have changed meanwhile it leaves as it is. After an error nothing
    more can be read, and ``commit`` raises what comes of it.
    """

    def __init__(
        self, engine: PostgresEngine, line: Pipeline, locks: Locks, first: Sequence[bytes], shift: int
    ) -> None:
        super().__init__(engine)
        self._line: Pipeline | None = line
        self._locks = locks
        self._token = secrets.randbits(62)
        self._failed: Exception | None = None
        self._first: dict[bytes, bytes | None] = dict.fromkeys(first)
        line.begin()
        engine.lock(line, locks)
        moments = line.send(sql.MOMENTS)
        others, of_entries = sorted_out([*self._first])
        got = line.send(sql.GET, (others,)) if others else None
        records = line.send(sql.GET_OF_ENTRY, ([*of_entries],)) if of_entries else None
        line.sync()
        clock, last = engine.moments(moments.fetchall())
        self._moments = clock, last + shift
        if got is not None:
            self._first.update(self.noted(got.fetchall()))
        if records is not None:
            self._first.update(self.noted(named(of_entries, records.fetchall())))

    def ask(self, query: str, params: Params = ()) -> list[Any]:
        if self._line is None or self._failed is not None:
            raise self._failed or Overtaken
        try:
            return self._line.fetch(query, params)
        except psycopg.Error as error:
            self._failed = error
            raise

    def get(self, names: Sequence[bytes]) -> list[Found]:
        first = self._first
        missing = [name for name in names if name not in first]
        found = [(name, value) for name in names if (value := first.get(name)) is not None]
        return found + super().get(missing) if missing else found

    def refusal(self) -> Exception | None:
        """Return None: ``WatchedStore`` looks before and after."""
        return None

    def commit(
        self,
        changed: Mapping[bytes, Any],
        entries: Sequence[Written],
        *,
        dropped: Collection[Entry] = (),
        durable: bool = False,
    ) -> None:
        line = self._line
        if line is None or self._failed is not None:
            raise self._engine.passes(self._failed or Overtaken())
        if not (changed or entries or dropped):
            self.rollback()
            return
        if self._locks.keys() - {EVERY}:
            self._engine.require(self._locks, changed, entries)
        sent = False
        try:
            if not durable:
                line.send(sql.LAZY)
            for one in entries:
                line.send(sql.ADD, (self._token, *columns_of(one)))
            if changed:
                self._put(line, changed)
            if dropped:
                was = {names.id_in(name): at for name, at in self.revisions.items() if name[0] == OF_ENTRY}
                seqs = [entry.seq for entry in dropped]
                line.send(sql.DROP, (seqs, [was.get(seq, 0) for seq in seqs]))
                line.send(sql.RAISE_FACT, (str(max(seqs)),))
            for said, always in self._engine.notices(changed, entries).items():
                line.send(sql.NOTIFY, (self._engine.notifier.channel, said, always))
            sent = True
            line.send("commit")
            line.sync()
        except psycopg.Error as error:
            self._end(usable=True)
            if sent and entries and is_connection_lost(error):
                self._engine.find_out(error, self._locks, entries[0].seq, self._token)
            else:
                raise self._engine.passes(error) from error
        self._end(usable=True)
        self._engine.keep(entries)

    def _put(self, line: Pipeline, changed: Mapping[bytes, Any]) -> None:
        """Send what changes records, in the order of their names, so that transactions do not wait in a circle."""
        put = sorted((name, record) for name, record in changed.items() if record is not False)
        gone = sorted(name for name, record in changed.items() if record is False)
        of_entries = [(names.id_in(name), encode(record)) for name, record in put if name[0] == OF_ENTRY]
        others = [(name, encode(record)) for name, record in put if name[0] != OF_ENTRY]
        if of_entries:
            line.send(sql.PUT_OF_ENTRY, [*map(list, zip(*of_entries, strict=True))])
        if len(self._locks) == 1:  # no key is locked: what was read may have changed
            was = self.revisions
            read = [(name, value, was[name]) for name, value in others if name in was]
            others = [one for one in others if one[0] not in was]
            if read:
                line.send(sql.PUT_AS_READ, [*map(list, zip(*read, strict=True)), self._token])
            if seen := [name for name in gone if name in was]:
                line.send(sql.DELETE_AS_READ, (seen, [was[name] for name in seen]))
            gone = [name for name in gone if name not in was]
        if gone:
            line.send(sql.DELETE, (gone,))
        if others:
            line.send(sql.PUT, [*map(list, zip(*others, strict=True)), self._token])

    def rollback(self) -> None:
        self._end(usable=True)

    def _end(self, *, usable: bool) -> None:
        line, self._line = self._line, None
        if line is not None:
            self._engine.connections.give(line, usable=usable)
