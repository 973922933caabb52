"""Records and journal in the schema of a PostgreSQL database.

A transaction takes one round trip if the process knows what its steps ask for, else two: the first takes locks and
reads what they ask for first, the second writes and commits. It runs as READ COMMITTED: each statement sees what was
committed before it, so what is read once the locks are held cannot change (a snapshot of the whole transaction would be
taken by the statement that waits for them).

Durability: a batch with a durable scope is answered once its commit is as safe as the server's ``synchronous_commit``
makes it. Any other batch commits with ``synchronous_commit = off``: it survives the death of every process here, but
a crash of the server may lose its last moments.

Moments are the database's clock, made to grow: each is later than everything that was done on its keys, and, where the
database was asked, than everything that was committed when the transaction had its locks. Where it was not, the process
estimates the clock, and the database refuses what lies below a floor: readers of the journal raise it to what they were
shown, so that they miss nothing. If two transactions on different keys get the
same moment, they collide on the journal's primary key, and the later one runs again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg_pool import PoolTimeout

from callosum.errors import StoreError, StoreUnavailable
from callosum.model import SECOND, Event, Key
from callosum.stores import names
from callosum.stores.base import Clock, Request, StoreCheck
from callosum.stores.cache import RecordCache, ServerTime
from callosum.stores.entry_rows import keys_of
from callosum.stores.notifications import notice
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
from callosum.stores.postgres.notifications import PostgresNotifier
from callosum.stores.postgres.partitions import drop, extend, next_end, partitions_of
from callosum.stores.postgres.pipeline import PendingResult, Pipeline
from callosum.stores.postgres.reader import LAST, PostgresReader, sorted_out
from callosum.stores.postgres.transaction import PostgresTransaction
from callosum.stores.receipt import IDENTITY, HeldByStore, Receipt, new_identity

_TAIL_PATIENCE: Final = 12.0
"""Seconds that a reader of the journal waits for a transaction; a stalled one is ended before that."""
LATE: Final = 10 * SECOND
"""Microseconds after which no entry comes before the newest one any more."""
_INDEXED: Final = 1.3
"""Factor by which an entry's index and its record's older versions increase its size."""

_ANSWERS: Final = (Event.APPROVE, Event.DENY)
"""Entries for which somebody waits outside a queue."""


class _Here(threading.local):
    """What a thread carries from one run of a batch to the next.

    ``more``: names that must be locked too. ``recalled``: what was remembered and did not hold. ``pauses``: others were
    in the way. ``collided``: on the same moment.
    """

    more: frozenset[bytes] = frozenset()
    recalled: Mapping[bytes, int] | None = None
    pauses = collided = False


class PostgresEngine:
    """The engine in the schema that ``url`` names. Missing tables are created."""

    prefetches = True
    divided = False

    def __init__(self, url: str, clock: Clock | None) -> None:
        self.address = address_of(url)
        self.place = self.address.place
        self.connections = connections = PostgresConnections(self.address)
        self.notifier = PostgresNotifier(connections)
        self._clock = clock
        self.cache = RecordCache(0)
        self.time = ServerTime()
        self.last = 0
        """Position of the newest entry that this process has seen."""
        self._here = _Here()
        self.pool = connections.state
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
            here.more, here.recalled = frozenset(), None
            connections.begin()
        elif here.pauses:
            time.sleep(random.uniform(0, min(0.001 * tries, 0.05)))  # noqa: S311 - it only spreads retries
        shift = random.randrange(1, 1000) if here.collided else 0  # noqa: S311
        here.pauses = here.collided = False
        return connections.retried(lambda: self._begun(requests, first, shift, recalls=bool(requests and not tries)))

    def _begun(
        self, requests: Sequence[Request], first: Sequence[bytes], shift: int, *, recalls: bool
    ) -> PostgresTransaction:
        locks = locks_of([scope for scope, _ in requests])
        locks.update(dict.fromkeys(self._here.more, True))
        for scope, _ in requests:
            if scope.find is not None and scope.find.id is not None and 0 < scope.find.id <= LAST:
                locks[names.action(scope.namespace, scope.find.id)] = True
        wanted = dict.fromkeys(first)
        for namespace, session, keys in self._opened([name for name in locks if name[:1] == b"a"]):
            for key in keys:
                add_key(locks, namespace, key.name)
                wanted |= {names.key(namespace, key.name): None, names.mark(namespace, session, key.name): None}
        transaction = PostgresTransaction(self, locks)
        if recalls and transaction.recall([*wanted]):
            return transaction
        try:
            clock, last = transaction.read_first([*wanted], shift)
        except BaseException:
            transaction.rollback()
            raise
        recalled = self._here.recalled
        changed = {name for name, at in recalled.items() if transaction.read.get(name, at) != at} if recalled else ()
        self.cache.avoid(changed)
        self.time.update(clock, anew=recalled is not None and not changed)
        self.last = last if recalled is not None and not changed else max(self.last, last)
        return transaction

    def _opened(self, actions: Collection[bytes]) -> list[tuple[str, str, Sequence[Key]]]:
        """Return namespace, session and keys of these actions, whoever opened them; none of it ever changes."""
        known = [self.cache.found.get(name, (0, False))[1] for name in actions]
        found = [(one.action.namespace, one.action.session, one.action.keys) for one in known if one]
        missing = [names.id_in(name) for name, one in zip(actions, known, strict=True) if not one]
        rows = self.connections.ask(sql.OPENERS, (missing,)) if missing else ()
        return [*found, *[(namespace, session, keys_of(keys or "[]")) for namespace, session, keys in rows]]

    def now(self) -> int | None:
        """Return the database's time as far as this process knows it, None if it does not."""
        return self._clock() if self._clock is not None else self.time.now()

    def compare(self, line: Pipeline, recalled: Mapping[bytes, int], moment: int, *, strict: bool) -> None:
        """Send what fails unless these records have these revisions, and a new entry may have this moment.

        ``strict``: only if it is later than all others.
        """
        others, of_entries = sorted_out([*recalled])
        if of_entries:
            line.send(sql.CHECK_OF_ENTRIES, ([*of_entries], [recalled[name] for name in of_entries.values()]))
        revisions = [recalled[name] for name in others]
        line.send(sql.CHECK, (others, revisions, moment, int(strict or self._clock is not None)))

    def lock(self, line: Pipeline, locks: Locks) -> PendingResult:
        """Send the statement that takes these locks; it returns the transaction's number."""
        ordered = in_order(self.address.schema, locks)
        return line.send(sql.LOCK, ([lock for lock, _ in ordered], [shared for _, shared in ordered]))

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

    def passes(self, error: Exception, recalled: Mapping[bytes, int]) -> Exception:
        """Return what comes of a fault: ``Overtaken`` if the steps may run again, else the error for the caller."""
        if isinstance(error, Overtaken | StoreError):
            return error
        if isinstance(error, psycopg.errors.DivisionByZero):  # others have changed what was recalled
            self.cache.drop(recalled)
            self._here.recalled = recalled
            return Overtaken()
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

        With its locks taken, it is over, or has not begun; then it finds its moment below the floor.
        """

        def look() -> list[Any]:
            with self.connections.pipeline() as line:
                line.begin()
                self.lock(line, locks)
                line.send(sql.RAISE_FACT, (sql.FLOOR, str(seq)))
                found = line.send(sql.COMMITTED, (seq, token))
                line.send("commit")
                return found.fetchall()

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

    @property
    def epoch(self) -> int:
        """Return a number that changes with each connection: it may lead to another server."""
        return self.connections.opened

    def held(self, receipt: Receipt, whole: bool) -> HeldByStore:
        """Return what the store holds of the things that a receipt is compared with."""
        asked = (receipt.entry if whole else 0, receipt.name)
        ((identity, missing, left, accepted),) = self.connections.read(sql.KEPT, asked)
        if identity is None:
            self.connections.read(sql.ADD_FACT, (IDENTITY, new_identity()))
            return self.held(receipt, whole)
        return HeldByStore(identity, missing or 0, int(left or 0), int(accepted or 0))

    def keep_fact(self, name: str, value: int) -> None:
        """Store a fact that is no record."""
        self.connections.read(sql.PUT_FACT, (name, str(value)))

    def prove(self) -> None:
        self.keep_fact("proof", int(time.time()))

    def accept(self, now: int) -> str:  # noqa: ARG002 - ``NetworkStore`` knows what the store lost
        return ""

    # --- Upkeep ---

    def divide(self) -> None:
        """Create the journal's next partition ahead of time, and drop empty ones."""
        read = self.connections.read
        parts = partitions_of(read(sql.PARTS))
        ((clock, first, last),) = read(sql.SPAN)
        now = max(self._clock() if self._clock is not None else clock, last or 0)
        end = next_end(parts, first or now, now)
        over = [part for part in parts if part.high <= (last or 0) - LATE]  # those that get no further entries
        left = [part for part in over if not read(sql.ANY_BETWEEN, (part.low, part.high))]
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
        if fsync != "on":
            problems.append("the server's fsync is off: what it confirmed may be lost when its machine stops")
        if sync == "off":
            problems.append("synchronous_commit is off by default: decisions of tiers 3 and 4 may be lost in a crash")
        return StoreCheck(self.kind, self.place, schema, entries, 0, size, 0, ahead, tuple(problems))
