"""Records and journal in the schema of a PostgreSQL database.

A transaction takes two round trips: the first takes locks and reads what the steps ask for first, the second writes and
commits. It runs as READ COMMITTED: each statement sees what was committed before it, so what is read once the locks are
held cannot change (a snapshot of the whole transaction would be taken by the statement that waits for them).

Durability: a batch with a durable scope is answered once its commit is as safe as the server's ``synchronous_commit``
makes it. Any other batch commits with ``synchronous_commit = off``: it survives the death of every process here, but
a crash of the server may lose its last moments.

Moments are the database's clock, made to grow: each is later than everything that was committed when its transaction
had its locks, and so later than everything that was done on its keys. If two transactions on different keys get the
same moment, they collide on the journal's primary key, and the later one runs again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from msgspec import Struct
from psycopg_pool import PoolTimeout

from callosum.errors import StoreUnavailable
from callosum.model import SECOND, Event
from callosum.stores import names
from callosum.stores.base import Clock, Request, StoreCheck
from callosum.stores.entry_rows import keys_of
from callosum.stores.port import OF_ENTRY, Overtaken, Uncertain, Written
from callosum.stores.postgres import statements as sql
from callosum.stores.postgres.connections import (
    PostgresConnections,
    address_of,
    explain,
    explained,
    is_connection_lost,
    is_retryable,
)
from callosum.stores.postgres.locks import EVERY, Locks, add_key, in_order, lock_of, locks_of, number
from callosum.stores.postgres.notifications import PostgresNotifier, notice
from callosum.stores.postgres.partitions import drop, empty, extend, next_end, partitions_of
from callosum.stores.postgres.pipeline import Pipeline
from callosum.stores.postgres.reader import LAST, PostgresReader
from callosum.stores.postgres.transaction import PostgresTransaction
from callosum.stores.receipt import IDENTITY, HeldByStore, Receipt, WatchedStore, new_identity, receipt_of, refusal

_KEPT: Final = 10_000
"""Number of actions whose keys a process keeps at most."""
_TAIL_PATIENCE: Final = 12.0
"""Seconds that a reader of the journal waits for a transaction; a stalled one is ended before that."""
_INDEXED: Final = 1.3
"""Factor by which an entry's index and its record's older versions increase its size."""

_ANSWERS: Final = (Event.APPROVE, Event.DENY)
"""Entries for which somebody waits outside a queue."""


class _Opened(Struct, frozen=True):
    """What an action's locks follow from; none of it ever changes."""

    namespace: str
    session: str
    keys: tuple[str, ...]

    def around(self) -> list[bytes]:
        """Return the names of the records that a report of the action reads."""
        space, me = self.namespace, self.session
        return [name for key in self.keys for name in (names.key(space, key), names.mark(space, me, key))]


class _Here(threading.local):
    """What a thread carries from one run of a batch to the next.

    ``more``: names that must be locked too. ``pauses``: others were in the way. ``collided``: on the same moment.
    """

    more: frozenset[bytes] = frozenset()
    pauses = False
    collided = False


class PostgresEngine:
    """The engine in the schema that ``url`` names. Missing tables are created."""

    prefetches = True
    divided = False

    def __init__(self, url: str, clock: Clock | None, state: Path | None) -> None:
        self.address = address_of(url)
        self.place = self.address.place
        self.connections = connections = PostgresConnections(self.address)
        self.notifier = PostgresNotifier(connections)
        self._clock = clock
        self._opened: dict[int, _Opened] = {}
        self._here = _Here()
        self.watched = WatchedStore(
            receipt_of(state, self.place), self.place, self._held, self._keep_fact, lambda: connections.opened
        )
        ((version,),) = connections.read("select current_setting('server_version')")
        self.kind = f"PostgreSQL {version.split()[0]}"

    def close(self) -> None:
        self.notifier.close()
        self.connections.close()

    # --- Transactions ---

    def begin(
        self,
        requests: Sequence[Request],
        first: Sequence[bytes],
        *,
        wait: bool = True,  # noqa: ARG002 - it waits for locks, which a transaction without requests does not take
        tries: int = 0,
    ) -> PostgresTransaction:
        here, connections = self._here, self.connections
        if tries == 0:
            here.more = frozenset()
            connections.begin()
        elif here.pauses:
            time.sleep(random.uniform(0, min(0.001 * tries, 0.05)))  # noqa: S311 - it only spreads retries
        shift = random.randrange(1, 1000) if here.collided else 0  # noqa: S311
        here.pauses = here.collided = False
        return connections.retried(lambda: self._begun(requests, first, shift))

    def _begun(self, requests: Sequence[Request], first: Sequence[bytes], shift: int) -> PostgresTransaction:
        locks = locks_of([scope for scope, _ in requests])
        ids = {find.id for scope, _ in requests if (find := scope.find) is not None and find.id and find.id <= LAST}
        more = self._here.more
        wanted = [name for name in first if name[0] == OF_ENTRY]
        ids |= {names.id_in(name) for name in more if name[0] == OF_ENTRY}
        if ids:
            self._learn(ids)
            first = [*first]
            for id in ids:
                if (one := self._opened.get(id)) is not None:
                    first += one.around()
                    for key in one.keys:
                        add_key(locks, one.namespace, key)
        locks.update(dict.fromkeys((*wanted, *more), True))
        line = self.connections.take()
        try:
            return PostgresTransaction(self, line, locks, first, shift)
        except BaseException as error:
            self.connections.give(line, usable=isinstance(error, Exception))
            raise

    def keys_of(self, requests: Sequence[Request]) -> list[tuple[str, str]]:
        """Return the keys that these requests are about, as far as this process knows them."""
        found = []
        for scope, _ in requests:
            of = self._opened.get(scope.find.id or 0) if scope.find is not None else None
            keys = [key.name for key in scope.keys]
            found += [(scope.namespace, key) for key in (keys or (of.keys if of is not None else ()))]
        return found

    def lock(self, line: Pipeline, locks: Locks) -> None:
        """Send the statement that takes these locks."""
        ordered = in_order(self.address.schema, locks)
        line.send(sql.LOCK, ([lock for lock, _ in ordered], [shared for _, shared in ordered]))

    def _learn(self, ids: Collection[int]) -> None:
        """Find out the keys of actions that another process opened."""
        missing = [id for id in ids if id not in self._opened]
        if missing:
            for seq, namespace, session, keys in self.connections.ask(sql.OPENERS, (missing,)):
                self._note(seq, namespace, session, [key.name for key in keys_of(keys)] if keys else ())

    def _note(self, id: int, namespace: str, session: str, keys: Sequence[str]) -> None:
        if len(self._opened) >= _KEPT:
            self._opened = {}
        self._opened[id] = _Opened(namespace, session, tuple(keys))

    def keep(self, entries: Sequence[Written]) -> None:
        """Keep what was opened by committed entries."""
        for one in entries:
            if one.record is not None:
                entry = one.entry
                self._note(one.seq, entry.namespace, entry.session, [key.name for key in entry.keys])

    def require(self, locks: Locks, changed: Mapping[bytes, Any], entries: Sequence[Written]) -> None:
        """Raise ``Overtaken`` if something was changed without its lock; the next run takes it."""
        new = {one.name for one in entries}
        needed = {lock for name in changed if name not in new and (lock := lock_of(name)) is not None}
        missing = {name for name in needed if not locks.get(name, False)}
        if missing:
            self._here.more |= missing
            raise Overtaken

    def notices(self, changed: Mapping[bytes, Any], entries: Sequence[Written]) -> dict[str, int]:
        """Return where something may have ended, with 1 if it must be told even if nobody waits in a queue.

        Something of which an entry says nothing ended only if a record went with it.
        """
        said: dict[str, int] = {}
        about: set[bytes] = set()
        for one in entries:
            about.add(one.name)
            if (action := one.about) is not None:
                about.add(names.action(action.namespace, action.id))
                where = notice(action.namespace, [key.name for key in action.keys])
                said[where] = max(said.get(where, 0), int(one.entry.event in _ANSWERS))
        if False in changed.values() and any(name[0] == OF_ENTRY and name not in about for name in changed):
            said["[]"] = 0
        return said

    def passes(self, error: Exception) -> Exception:
        """Return what comes of a fault: ``Overtaken`` if the steps may run again, else the error for the caller."""
        if isinstance(error, Overtaken):
            return error
        lost = is_connection_lost(error)
        if lost:
            self.connections.purge()
        if not (lost or is_retryable(error)) or self.connections.remaining() <= 0:
            return explain(error, self.address)
        self._here.pauses = True
        self._here.collided = isinstance(error, psycopg.errors.UniqueViolation)
        return Overtaken()

    def find_out(self, lost: Exception, locks: Locks, seq: int, token: int) -> None:
        """Wait for a transaction whose commit was sent and not confirmed. Raise ``Overtaken`` if it wrote nothing.

        With its locks taken, it is over.
        """

        def look() -> list[Any]:
            with self.connections.pipeline() as line:
                line.begin()
                self.lock(line, locks)
                return line.fetch(sql.COMMITTED, (seq, token))

        self.connections.purge()
        try:
            found = self.connections.retried(look)
        except StoreUnavailable as error:
            raise Uncertain(f"{error}; the commit was sent and never confirmed") from lost
        if not found:
            raise Overtaken

    def explained(self, error: BaseException) -> BaseException:
        return explain(error, self.address) if isinstance(error, psycopg.Error | PoolTimeout) else error

    def sync(self, seq: int) -> None:
        """Do nothing: a commit that must survive is answered only then."""

    # --- Reading ---

    @contextmanager
    def snapshot(self) -> Iterator[PostgresReader]:
        yield PostgresReader(self)

    def moments(self, rows: Sequence[Sequence[int | None]]) -> tuple[int, int]:
        """Return the clock's moment and the newest entry's."""
        ((clock, last),) = rows
        return (self._clock() if self._clock is not None else clock or 0), last or 0

    def wait_for(self, transactions: set[int]) -> None:
        """Wait until those of these transactions that run steps have ended."""
        until = time.monotonic() + _TAIL_PATIENCE
        pause = 0.001
        every = number(self.address.schema, EVERY)
        while True:
            transactions &= {row[0] for row in self.connections.read(sql.UNDER_WAY, (every,))}
            if not transactions:
                return
            if time.monotonic() > until:
                raise StoreUnavailable(f"a transaction on the journal has not ended within {_TAIL_PATIENCE:.0f} s")
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    # --- Identity ---

    def _held(self, receipt: Receipt, whole: bool) -> HeldByStore:
        asked = (receipt.entry if whole else 0, receipt.name)
        ((identity, newest, missing, left, accepted),) = self.connections.read(sql.KEPT, asked)
        if identity is None:
            self.connections.read(sql.ADD_FACT, (IDENTITY, new_identity()))
            return self._held(receipt, whole)
        return HeldByStore(identity, missing or 0, int(left or 0), int(accepted or 0), newest or 0)

    def _keep_fact(self, name: str, value: int) -> None:
        self.connections.read(sql.PUT_FACT, (name, str(value)))

    def prove(self) -> None:
        if self.watched.check(again=True):
            raise refusal(self.watched.changed)
        self._keep_fact("proof", int(time.time()))

    def accept(self, now: int) -> str:
        return self.watched.accept(now)

    # --- Upkeep ---

    def divide(self) -> None:
        """Create the journal's next partition ahead of time, and drop empty ones."""
        read = self.connections.read
        parts = partitions_of(read(sql.PARTS))
        ((clock, first, last),) = read(sql.SPAN)
        now = max(self._clock() if self._clock is not None else clock, last or 0)
        end = next_end(parts, first or now, now)
        left = [part for part in empty(parts, last or 0) if not read(sql.ANY_BETWEEN, (part.low, part.high))]
        if end is None and not left:
            return
        with explained(self.address), self.connections.alone() as connection:
            if end is not None:
                extend(connection, parts[-1], end)
            for part in left:
                drop(connection, part)

    def size(self) -> int:
        ((whole, entries, width, others),) = self.connections.read(sql.SIZES)
        # Deleted rows leave free space in the table, which the server keeps.
        used = int(entries * float(width) * _INDEXED) if entries and width else whole
        return int(min(whole, used) + others)

    def check(self) -> StoreCheck:
        ((schema, entries, size, fsync, sync),) = self.connections.read(sql.HEALTH)
        reader = PostgresReader(self)
        ahead = max(0, reader.last - reader.clock) / SECOND
        problems = []
        if changed := self.watched.check(again=True):
            problems.append(str(refusal(changed)))
        if ahead > 1:
            problems.append(f"the store's time is {ahead:.0f} s ahead of the clock: leases end that much later")
        if fsync != "on":
            problems.append("the server's fsync is off: what it confirmed may be lost when its machine stops")
        if sync == "off":
            problems.append("synchronous_commit is off by default: decisions of tiers 3 and 4 may be lost in a crash")
        return StoreCheck(self.kind, self.place, schema, entries, 0, size, 0, ahead, tuple(problems))
