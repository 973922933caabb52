"""A transaction: locks and reads in one round trip, writes and commit in another; or all of it in one.

What a process knows it need not read. A transaction whose first records are all known begins without the database: its
locks, a comparison of what it knew and its writes are sent together. If a step asks for anything else, locks and
comparison go with that question; from then on nothing is taken from memory, because what a range shows is only one
view with records that were compared under the same locks.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg_pool import PoolTimeout

from callosum.errors import StoreError
from callosum.model import Entry
from callosum.stores import names
from callosum.stores.entry_rows import columns_of
from callosum.stores.port import OF_ENTRY, OF_KEY, SELDOM, Found, Overtaken, Written, encode
from callosum.stores.postgres import statements as sql
from callosum.stores.postgres.connections import is_connection_lost
from callosum.stores.postgres.locks import EVERY, Locks
from callosum.stores.postgres.pipeline import Params, PendingResult, Pipeline
from callosum.stores.postgres.reader import PostgresReader, named, sorted_out
from callosum.stores.receipt import LEFT

if TYPE_CHECKING:
    from callosum.stores.postgres.engine import PostgresEngine


class PostgresTransaction(PostgresReader):
    """A transaction that holds ``locks``, or sends them when it first speaks to the database.

    One without requests locks nothing: what others have changed meanwhile it leaves as it is. After an error nothing
    more can be read, and ``commit`` raises what comes of it.
    """

    used: set[bytes]

    def __init__(self, engine: PostgresEngine, locks: Locks) -> None:
        super().__init__(engine)
        self.used = set()
        self.read: dict[bytes, int] = {}
        """Revisions of the records in ``known`` that were read or recalled, 0 for one that is not there."""
        self._recalled: dict[bytes, int] | None = None
        """The same of those that the database has not compared yet; None if it need not."""
        self._line: Pipeline | None = None
        self._locks = locks
        self._token = secrets.randbits(62)
        self._number: PendingResult | None = None
        self._failed: Exception | None = None
        self._first: dict[bytes, bytes | None] = {}

    def recall(self, first: Sequence[bytes]) -> bool:
        """Begin with what this process knows; return False if it does not know all of these records and the time."""
        clock, self._recalled = self._engine.now(), {}
        if clock is None or not self._recalls(first):
            self._recalled = None
            return False
        self._moments = clock, self._engine.last
        return True

    def _recalls(self, wanted: Sequence[bytes]) -> bool:
        """Take records from memory, all or none. What is seldom there counts as absent until it is compared."""
        if self._recalled is None or self._line is not None:
            return False
        found = self._engine.cache.found
        taken = {name: (0, False) if name[0] in SELDOM else found.get(name) for name in wanted}
        if None in taken.values():
            return False
        for name, (revision, self.known[name]) in taken.items():  # type: ignore[misc]
            self.read[name] = self._recalled[name] = revision
        return True

    def read_first(self, first: Sequence[bytes], shift: int) -> tuple[int, int]:
        """Take the locks and read these records, in one round trip; return the clock and the newest entry."""
        line = self._opened()
        moments = line.send(sql.MOMENTS)
        others, of_entries = sorted_out(first)
        got = line.send(sql.GET, (others,)) if others else None
        records = line.send(sql.GET_OF_ENTRY, ([*of_entries],)) if of_entries else None
        line.sync()
        clock, last = self._engine.moments(moments.fetchall())
        self._moments = clock, last + shift
        self._first = {**dict.fromkeys(first), **dict(self.noted(got.fetchall() if got is not None else ()))}
        if records is not None:
            self._first.update(self.noted(named(of_entries, records.fetchall())))
        self.read = {name: self.revisions.get(name, 0) for name in first}
        return clock, last

    def _opened(self, *, asks: bool = False) -> Pipeline:
        """Return the line; the first time send what begins the transaction, and compares what was recalled.

        If the transaction ``asks`` something, its moment must be later than whatever it may be shown.
        """
        if self._line is None:
            self._line = line = self._engine.connections.take()
            line.begin()
            self._number = self._engine.lock(line, self._locks)
            if self._recalled is not None:
                self._engine.compare(line, self._recalled, self.now, strict=asks)
        return self._line

    def ask(self, query: str, params: Params = ()) -> list[Any]:
        if self._failed is not None:
            raise self._failed
        try:
            answer = self._opened(asks=True).fetch(query, params)
        except (psycopg.Error, PoolTimeout, StoreError) as error:
            self._failed = error
            raise
        self._recalled = None
        return answer

    def get(self, names: Sequence[bytes]) -> list[Found]:
        if self._recalls(names):
            return []
        first = self._first
        missing = [name for name in names if name not in first]
        found = [(name, value) for name in names if (value := first.get(name)) is not None]
        if missing:
            found += super().get(missing)
            self.read.update([(name, self.revisions.get(name, 0)) for name in missing])
        return found

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
        engine, sent = self._engine, False
        try:
            if self._failed is not None:
                raise self._failed
            if not (changed or entries or dropped or self._recalled):
                self.rollback()
                return
            if self._locks.keys() - {EVERY}:
                engine.require(self._locks, changed, entries)
            line = self._opened()
            if not durable:
                line.send(sql.LAZY)
            for one in entries:
                line.send(sql.ADD, (self._token, *columns_of(one)))
            if changed:
                self._put(line, changed)
            if any(record is False and name[0] == OF_KEY for name, record in changed.items()):
                # Who knew that the key had no record finds that again. He must not write an earlier moment than ours.
                line.send(sql.RAISE_FACT, (sql.FLOOR, str(entries[-1].seq if entries else self.now)))
            if dropped:
                was = {names.id_in(name): at for name, at in self.revisions.items() if name[0] == OF_ENTRY}
                seqs = [entry.seq for entry in dropped]
                line.send(sql.DROP, (seqs, [was.get(seq, 0) for seq in seqs]))
                line.send(sql.RAISE_FACT, (LEFT, str(max(seqs))))
            for said, always in engine.notices(changed, entries).items():
                line.send(sql.NOTIFY, (engine.notifier.channel, said, always))
            sent = True
            line.send("commit")
            line.sync()
        except (psycopg.Error, PoolTimeout, StoreError, Overtaken) as error:
            self.rollback()
            engine.cache.drop(changed)
            if not (sent and entries and is_connection_lost(error)):
                raise engine.passes(error, self._recalled or {}) from error
            engine.find_out(error, self._locks, entries[0].seq, self._token)
            return
        self.rollback()
        if entries:
            engine.last = max(engine.last, entries[-1].seq)
        if len(self._locks) > 1 and self._number is not None:
            number = int(self._number.fetchall()[0][1]) % (1 << 32)
            engine.cache.committed(self.known, self.read, changed, entries, self._token, number)
        else:
            engine.cache.drop(changed)

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
        line, self._line = self._line, None
        if line is not None:
            self._engine.connections.give(line)
