"""The store on a PostgreSQL database.

A transaction takes two round trips: the first locks the rows of its keys and reads its view, the second writes and
commits. The report of an action that this process opened takes one.

Durability: a batch with a durable scope is answered once its commit is as safe as the server's ``synchronous_commit``
makes it. Any other batch commits with ``synchronous_commit = off``: it survives the death of every process here, but
a crash of the server may lose its last moments.

Moments are the database's clock, made to grow: each is later than everything that was committed when its transaction
read its view, and so later than everything that was done on its keys. If two transactions on different keys get the
same moment, they collide on the journal's primary key, and the later one runs again.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct
from psycopg.errors import DivisionByZero

from callosum.errors import StoreError, StoreUnavailable, Unconfirmed
from callosum.model import DEFAULT_NAMESPACE, HOUR, SECOND, Action, Applied, Entry
from callosum.person import ACCEPTING, require_person
from callosum.policy.commitments import COMMITTED
from callosum.process import alive
from callosum.stores.base import (
    GATE_PREFIX,
    KEY_IN_USE,
    REGISTRATION_INTERVAL,
    Ancestry,
    Clock,
    Pool,
    Probe,
    Request,
    StoreCheck,
    run_separately,
)
from callosum.stores.postgres.apply import PostgresWriter, keys_of
from callosum.stores.postgres.connections import (
    PostgresConnections,
    address_of,
    explain,
    explained,
    is_connection_lost,
    is_retryable,
)
from callosum.stores.postgres.locks import Locks, lock_order, locks_of_scope, merge_locks, would_wait
from callosum.stores.postgres.neighbours import PostgresNeighbours
from callosum.stores.postgres.notifications import PostgresNotifier
from callosum.stores.postgres.partitions import drop, empty, extend, next_end, partitions_of
from callosum.stores.postgres.pipeline import PendingResult, Pipeline
from callosum.stores.postgres.report import is_report, predict
from callosum.stores.postgres.statements import SHARED, SQL
from callosum.stores.postgres.view import PostgresCache, PostgresView, RunAgain
from callosum.stores.receipt import (
    IDENTITY,
    LEFT,
    HeldByStore,
    Receipt,
    WatchedStore,
    new_identity,
    receipt_of,
    refusal,
)
from callosum.stores.records import REMEMBERED
from callosum.stores.retention import LEAVES, NewestAction, RetentionPass, Rows, counting, leaving, places
from callosum.stores.rows import entry_of
from callosum.stores.sql_reads import SqlReads

_COMMITTED: Final = SQL["committed"]
_RERUNS: Final = 200
"""Number of times that a transaction runs again because of other transactions, before the store raises an error."""

_TAIL_PATIENCE: Final = 12.0
"""Seconds that a reader of the journal waits for a transaction; a stalled one is ended before that."""
_INDEXED: Final = 1.6
"""Factor by which an entry's indexes increase its size."""

T = TypeVar("T")


class _UnconfirmedCommit(Struct):
    """A run whose commit was sent and not confirmed.

    ``query`` returns the ``seq`` of one of its entries if it was committed; ``answers`` makes its answers from that.
    """

    query: str
    params: dict[str, Any]
    answers: Callable[[int], list[Applied | Exception]]


class _Progress(Struct):
    """What is carried from one run of a batch's transaction to the next.

    ``more``: keys whose rows must be locked too. ``shift``: distance to keep from the moment that collided.
    ``tried``: True once the report, if it is one, was sent without reading a view.
    """

    more: frozenset[str] = frozenset()
    shift: int = 0
    unconfirmed: _UnconfirmedCommit | None = None
    tried: bool = False


class _RunResult(Struct):
    """What one run of a transaction has done. ``first`` and ``last``: ``seq`` of its entries, 0 if it has none.

    ``covers``: covering keys known when the run began, and those it added. ``locked``: all rows to lock existed.
    ``wrote``: a statement was sent that changes the store.
    """

    locks: Locks
    token: int
    covers: frozenset[str]
    answers: list[Applied | Exception] = []
    first: int = 0
    last: int = 0
    locked: bool = False
    wrote: bool = False


class PostgresStore(SqlReads):
    """A store in the schema of a PostgreSQL database that ``url`` names. Missing tables are created.

    Time comes from the database's clock; ``clock`` and ``probe`` are for tests.
    """

    lanes = 4
    sql, neighbours = {**SHARED, **SQL}, PostgresNeighbours

    def __init__(
        self, url: str, *, clock: Clock | None = None, probe: Probe = alive, state: Path | None = None
    ) -> None:
        self.address = address_of(url)
        self._clock = clock
        self._probe = probe
        self._connections = connections = PostgresConnections(self.address)
        self._cache = PostgresCache()
        self._notifier = PostgresNotifier(self._connections)
        self.listen, self.is_connected = self._notifier.listen, self._notifier.is_connected
        self._positions: dict[str, Any] = {"call": 0, "print": ("", b"", 0), "mark": ("", ""), "turn": ""}
        self._pass = RetentionPass()
        self._watched = WatchedStore(
            receipt_of(state, self.address.place),
            self.address.place,
            self._held,
            self._keep,
            lambda: connections.opened,
        )
        self._read("select 1")

    def close(self) -> None:
        self._notifier.close()
        self._connections.close()

    def pause(self, seconds: float) -> None:
        self._notifier.wait(seconds)

    def pool(self) -> Pool:
        return self._connections.state()

    # --- transact ---

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        return self._watched.transact(requests, self._transact)

    def _transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        if not requests:
            return []
        try:
            return self._run(requests)
        except StoreUnavailable:
            raise
        except Exception:
            if len(requests) == 1:
                raise
        return run_separately(self._run, requests)

    def _held(self, receipt: Receipt, whole: bool) -> HeldByStore:
        ((identity, newest, missing, left, accepted),) = self._read(
            SQL["kept"], {"entry": receipt.entry if whole else 0, "accepted": receipt.name}
        )
        if identity is None:
            self._read(SQL["add_fact"], (IDENTITY, new_identity().encode()))
            return self._held(receipt, whole)
        return HeldByStore(identity.decode(), missing or 0, int(left or 0), int(accepted or 0), newest or 0)

    def _keep(self, name: str, value: int) -> None:
        self._read(SQL["put_fact"], (name, str(value).encode()))

    def _changed(self) -> str:
        changed = self._watched.check(again=True)
        return str(refusal(changed)) if changed else ""

    def prove(self) -> None:
        if self._watched.check(again=True):
            raise refusal(self._watched.changed)
        self._keep("proof", int(time.time()))

    def accept(self, *, proven: bool = False) -> str:
        if not proven:
            require_person(self, ACCEPTING)
        return self._watched.accept(self.now())

    def _run(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        """Run the transaction until one run of it is committed."""
        progress = _Progress()
        reruns = 0

        def run_once() -> list[Applied | Exception]:
            nonlocal reruns
            while True:
                try:
                    return self._run_once(requests, progress)
                except RunAgain as again:
                    self._cache.crowds.forget()  # they may hold data of the run that was undone
                    progress.more |= again.names
                    if reruns >= _RERUNS:
                        raise StoreUnavailable("other transactions kept changing the keys of this one") from again
                except Exception as error:
                    self._cache.crowds.forget()
                    if not is_retryable(error) or reruns >= _RERUNS:
                        raise
                    progress.shift = random.randrange(1, 1000)  # noqa: S311 - it only spreads retries
                    time.sleep(random.uniform(0, min(0.001 * reruns, 0.05)))  # noqa: S311
                reruns += 1

        try:
            return self._with_retries(run_once)
        except StoreUnavailable as error:
            cause = error.__cause__
            if (
                progress.unconfirmed is None
                or progress.unconfirmed.query is not _COMMITTED
                or not isinstance(cause, Exception)
            ):
                raise
            if not is_connection_lost(cause):
                raise  # the server refused, so nothing was committed
            text = f"{error}; the commit was sent and never confirmed"
            raise Unconfirmed(text, progress.unconfirmed.answers(0), reachable=False) from cause

    def _run_once(self, requests: Sequence[Request], progress: _Progress) -> list[Applied | Exception]:
        """Run one transaction: lock the rows, read the views, run the steps, write and commit."""
        if not progress.tried:
            progress.tried = True
            reported = self._report(requests, progress)
            if reported is not None:
                return [reported]
        covers = self._cache.covers  # fixed for this run: another thread may add some meanwhile
        locks = [self._locks_of(request, progress.more, covers) for request in requests]
        result = _RunResult(merge_locks(locks), secrets.randbits(62), covers)
        again: RunAgain | None = None
        with self._connections.pipeline() as pipeline:
            self._create_shared_rows(pipeline, result.locks)
            pipeline.begin()
            locked = self._lock_rows(pipeline, result.locks)
            if progress.unconfirmed is not None:
                pending = pipeline.send(progress.unconfirmed.query, progress.unconfirmed.params)
                pipeline.sync()
                self._check_locked(locked, result)  # with the rows locked, the unconfirmed run is over
                if entry := pending.fetchone():
                    pipeline.send("commit")
                    return progress.unconfirmed.answers(entry[0])
            progress.unconfirmed = None
            try:
                for group in _groups(requests, locks, self._cache.actions):
                    self._run_group(pipeline, group, locked, result, progress.shift)
            except RunAgain as incomplete:
                if result.wrote:
                    raise  # leaving the pipeline rolls the run back
                again = incomplete
            if again is not None or not any(scope.durable for scope, _ in requests):
                pipeline.send(SQL["lazy"])
            if result.first:
                progress.unconfirmed = _UnconfirmedCommit(
                    _COMMITTED, {"seq": result.first, "token": result.token}, lambda _: result.answers
                )
            pipeline.send("commit")  # leaving the pipeline waits for it
        if result.locked:
            self._cache.add_rows(result.locks)
        if again is not None:
            raise again
        if result.covers is not covers:
            self._cache.add_covers(result.covers)
        for (scope, _), answer in zip(requests, result.answers, strict=True):
            if isinstance(answer, Applied):
                self._cache.add_opened(scope, answer)
        return result.answers

    def _report(self, requests: Sequence[Request], progress: _Progress) -> Applied | None:
        """Report an action that this process opened without reading a view. Return None if that is impossible."""
        scope, step = requests[0]
        if len(requests) > 1 or scope.find is None or scope.find.id is None or not is_report(scope):
            return None
        opened = self._cache.opened.pop((scope.namespace, scope.find.id), None)
        if opened is None:
            return None
        clock = self._clock() if self._clock is not None else None
        draft = predict(opened, self._cache, scope, step, clock, self._probe)
        locks = self._locks_of(requests[0], keys_of((opened.action,))[scope.find.id], self._cache.covers)
        if draft is None or not self._cache.rows.issuperset(locks):
            return None
        params = {**draft.params, "token": secrets.randbits(62), "channel": self._notifier.channel}
        try:
            with self._connections.pipeline() as pipeline:
                pipeline.begin()
                if not scope.durable:
                    pipeline.send(SQL["lazy"])
                self._lock_rows(pipeline, locks, strict=True)
                answer = pipeline.send(SQL["report_if_same"], params)
                progress.unconfirmed = _UnconfirmedCommit(SQL["reported"], params, lambda now: [draft.applied(now)])
                pipeline.send("commit")
        except DivisionByZero:
            self._cache.rows.difference_update(locks)
            progress.unconfirmed = None
            return None
        progress.unconfirmed = None
        row = answer.fetchone()
        return draft.applied(row[0]) if row is not None else None

    def _run_group(
        self, pipeline: Pipeline, group: Sequence[Request], locked: Iterable[Any], result: _RunResult, shift: int
    ) -> None:
        """Read the views of several requests together, then run the step of each and send its change."""
        readers = [PostgresView(pipeline, scope, self._cache, self._probe, result.covers) for scope, _ in group]
        for reader in readers:
            reader.send()
        pipeline.sync()
        self._check_locked(locked, result)
        for reader in readers:
            reader.read_head()
        for reader, (_, step) in zip(readers, group, strict=True):
            clock = self._clock() if self._clock is not None else reader.clock
            view = reader.view(max(clock, max(result.last, reader.last) + 1 + shift))
            actions = (action for action in (view.found, view.earlier) if action is not None and not action.supersedes)
            self._cache.actions.update(keys_of(actions))
            self._require_locks(result.locks, (*view.superseded, *((view.found,) if view.found else ())))
            try:
                change = step(view)
            except Exception as error:  # noqa: BLE001 - a step that raises fails alone
                result.answers.append(error)
                continue
            has_effect = change.entries or change.settles or change.moves or change.revisions
            if not has_effect and change.observe_until is None:
                result.answers.append(Applied(change, (), view.now))
                continue
            self._require_locks(result.locks, [settle.action for settle in change.settles])
            result.wrote = True
            writer = PostgresWriter(pipeline, self._cache, reader, view, result.token, self._notifier.channel)
            applied = writer.write(change)
            if writer.covers:
                result.covers |= writer.covers
            result.answers.append(applied)
            result.first = result.first or (applied.ids[0] if applied.ids else 0)
            result.last = applied.ids[-1] if applied.ids else view.now

    def _locks_of(self, request: Request, more: Iterable[str], covers: frozenset[str]) -> Locks:
        scope = request[0]
        find = scope.find
        names = self._cache.actions.get(find.id, ()) if find is not None and find.id is not None else ()
        return locks_of_scope(scope, covers, (*names, *more))

    def _create_shared_rows(self, pipeline: Pipeline, locks: Locks) -> None:
        """Create shared rows in a separate transaction, so that the first user of one does not block others."""
        missing = sorted(name for name, alone in locks.items() if not alone and name not in self._cache.rows)
        if missing:
            pipeline.begin()
            pipeline.send(SQL["make_rows"], (missing,))
            pipeline.send("commit")
            pipeline.sync()
            self._cache.add_rows(missing)

    def _lock_rows(self, pipeline: Pipeline, locks: Locks, *, strict: bool = False) -> list[PendingResult]:
        """Lock the rows. With ``strict`` the statements that follow fail if one of the rows does not exist."""
        missing = sorted(name for name in locks if name not in self._cache.rows)
        if missing:
            pipeline.send(SQL["make_rows"], (missing,))
        runs = list(lock_order(locks))
        if [alone for alone, _ in runs] == [False, True]:
            statements = [("share_and_take", [runs[0][1], runs[1][1]])]
        else:
            statements = [("take" if alone else "share", [names]) for alone, names in runs]
        if strict:
            return [
                pipeline.send(SQL[query + "_all"], [*groups, sum(map(len, groups))]) for query, groups in statements
            ]
        return [pipeline.send(SQL[query], groups) for query, groups in statements]

    def _check_locked(self, locked: Iterable[Any], result: _RunResult) -> None:
        """Raise ``RunAgain`` if a row did not exist that existed once: upkeep has deleted it since."""
        if result.locked:
            return
        if sum(cursor.fetchone()[0] for cursor in locked) < len(result.locks):
            self._cache.rows.difference_update(result.locks)
            raise RunAgain
        result.locked = True

    def _require_locks(self, locks: Locks, actions: Iterable[Action]) -> None:
        """Raise ``RunAgain`` if a key of an action is not locked."""
        missing = {name for names in keys_of(actions).values() for name in names if not locks.get(name, False)}
        if missing:
            raise RunAgain(missing)

    def _with_retries(self, work: Callable[[], T]) -> T:
        """Retry for a while if the database is unreachable."""
        pause = 0.01
        with self._connections.bounded() as until:
            while True:
                try:
                    return work()
                except (StoreError, RunAgain):
                    raise
                except Exception as error:
                    if not is_connection_lost(error):
                        if type(error).__module__.startswith("psycopg"):
                            raise explain(error, self.address) from error
                        raise
                    self._connections.purge()  # also before giving up, for the next caller
                    if time.monotonic() + pause > until:
                        raise explain(error, self.address) from error
                time.sleep(pause)
                pause = min(pause * 2, 0.5)

    # --- reading ---

    def _read(self, query: str, params: Any = None) -> list[Any]:
        rows: list[Any] = self._with_retries(lambda: self._connections.read(query, params))
        return rows

    def kin(self, namespace: str, session: str) -> Ancestry:
        rows = self._read(SQL["kin"], (namespace, session))
        return Ancestry(rows[0][0] or "", rows[0][1] or "") if rows else Ancestry()

    def _moments(self) -> tuple[int, int]:
        """Return the clock's moment and the newest entry's."""
        ((clock, last),) = self._read(SQL["moments"])
        return (self._clock() if self._clock is not None else clock), last or 0

    def now(self) -> int:
        return max(self._moments())

    def _entry_rows(self, conditions: Mapping[str, object], params: dict[str, Any]) -> list[Any]:
        rows = self._select("entries_now", conditions, params)
        if rows and rows[0][-1]:
            # Only a transaction that was running at this read may still add an entry before the last of these.
            self._wait_for(set(rows[0][-1]))
            params["last"] = last = max(row[0] for row in rows)
            rows = super()._entry_rows({"up_to_last": last, **conditions}, params)
        return rows

    def _wait_for(self, transactions: set[int]) -> None:
        """Wait until those of these transactions that run steps have ended."""
        until = time.monotonic() + _TAIL_PATIENCE
        pause = 0.001
        while True:
            transactions &= {row[0] for row in self._read(SQL["under_way"])}
            if not transactions:
                return
            if time.monotonic() > until:
                raise StoreUnavailable(f"a transaction on the journal has not ended within {_TAIL_PATIENCE:.0f} s")
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    # --- upkeep: each part continues from where it stopped, so that a round costs its budget and not the size of the
    # table ---

    def maintain(self, horizon: int, budget: int = 2000) -> int:
        deleted = self._delete_calls(budget)
        deleted += self._delete_prints(horizon, budget)
        deleted += self._delete_marks(horizon, budget)
        self._delete_turns(budget)
        self._maintain_partitions()
        return deleted

    def _maintain_partitions(self) -> None:
        """Create the journal's next partition ahead of time, and drop empty ones."""
        parts = partitions_of(self._read(SQL["parts"]))
        ((first, last),) = self._read(SQL["span"])
        clock, _ = self._moments()
        now = max(clock, last or 0)
        end = next_end(parts, first or now, now)
        left = [part for part in empty(parts, last or 0) if not self._read(SQL["any_between"], (part.low, part.high))]
        if end is None and not left:
            return
        with explained(self.address), self._connections.alone() as connection:
            if end is not None:
                extend(connection, parts[-1], end)
            for part in left:
                drop(connection, part)

    def _delete_calls(self, budget: int) -> int:
        """Forget call identities in small steps along the journal. No entry is examined twice."""
        clock, _ = self._moments()
        rows = self._read(SQL["calls"], (self._positions["call"], clock - REMEMBERED, budget))
        if rows:
            self._positions["call"] = rows[-1][0]
        old = [seq for seq, remembered in rows if remembered]
        if old:
            self._read(SQL["forget_calls"], (old,))
        return len(old)

    def _delete_prints(self, horizon: int, budget: int) -> int:
        """Delete fingerprints of actions that no window reaches; an action without an outcome keeps its own."""
        key, print_, id = self._positions["print"]
        rows = self._read(SQL["prints"], {"key": key, "print": print_, "id": id, "horizon": horizon, "budget": budget})
        self._positions["print"] = tuple(rows[-1][:3]) if len(rows) == budget else ("", b"", 0)
        old = [row[:3] for row in rows if row[3]]
        in_force = self._in_force([id for _, print_, id in old if bytes(print_) == COMMITTED])
        old = [row for row in old if bytes(row[1]) != COMMITTED or row[2] not in in_force]
        if old:
            self._read(SQL["forget_prints"], _columns(old))
        return len(old)

    def _in_force(self, ids: Collection[int]) -> frozenset[int]:
        """Return those of ``ids`` whose actions have a commitment in force."""
        if not ids:
            return frozenset()
        rows = self._read(SQL["contents"], (sorted(ids),))
        return counting(rows, self._moments()[0])

    def _delete_marks(self, horizon: int, budget: int) -> int:
        """Delete the marks of sessions whose last call is older than the longest window.

        A change outlives its session while another session is active that read the key before it, or whose write before
        it counts as a read: ``stale`` has no window. It also stays while it has no outcome, because others must find it
        when it gets one. Marks that change while this runs stay; the others are deleted as of the first read.
        """
        before = horizon - HOUR
        key, session = self._positions["mark"]
        params = {"before": before, "default": DEFAULT_NAMESPACE}
        rows = self._read(SQL["next_marks"], {**params, "key": key, "session": session, "budget": budget})
        whole = len(rows) < budget
        self._positions["mark"] = ("", "") if whole else tuple(rows[-1][:2])
        old = [row[:6] for row in rows if row[6]]
        if old:
            reads = self._moments_of(SQL["oldest_reads"], params, {row[0] for row in old})
            old = [
                row
                for row in old
                if not any(reader != row[1] and moment < row[5] for reader, moment in reads.get(row[0], ()))
            ]
        deleted = len(self._read(SQL["forget_marks"], _columns([row[:5] for row in old]))) if old else 0
        if whole:
            self._read(SQL["forget_sessions"], (before,))
        return deleted

    def _delete_turns(self, budget: int) -> None:
        """Delete lock rows of keys on which no session has a mark. A row that is locked at the moment stays."""
        rows = self._read(SQL["next_turns"], (self._positions["turn"], budget))
        self._positions["turn"] = rows[-1][0] if len(rows) == budget else ""
        if rows:
            self._read(SQL["forget_turns"], ([row[0] for row in rows],))

    def take(
        self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: Collection[int] | None = None
    ) -> list[Entry]:
        rows = self._leaving(until, horizon, limit, only if delete else None)
        if not delete:
            seqs = [row[0] for row in rows]
            return [entry_of(row) for row in self._read(SQL["entries_by_ids"], (seqs,))]
        if rows:
            self._read(SQL["drop_entries"], _columns(rows))  # entries reported meanwhile stay
            left = max(row[0] for row in rows)
            if left > int((self._read(SQL["fact"], (LEFT,)) or [(0,)])[0][0]):
                self._keep(LEFT, left)
        self._maintain_partitions()
        return []

    def register(self, fingerprint: str) -> int:
        now = self.now()
        rows = self._read(SQL["fact"], (GATE_PREFIX + fingerprint,))
        if not rows or int(rows[0][0]) < now - REGISTRATION_INTERVAL:
            written = (GATE_PREFIX + fingerprint, str(now).encode())
            self._read(SQL["put_fact"], written)
            old = [name for name, registered in self._gates() if registered < now - KEY_IN_USE]
            if old:
                self._read(SQL["drop_facts"], (old,))
        return self._content_keys(now)

    def _gates(self) -> list[tuple[str, int]]:
        rows = self._read(SQL["facts_between"], (GATE_PREFIX, f"{GATE_PREFIX[:-1]};"))
        return [(name, int(registered)) for name, registered in rows]

    def _content_keys(self, now: int) -> int:
        return sum(1 for _, registered in self._gates() if registered > now - KEY_IN_USE)

    def _leaving(
        self, until: int, horizon: int, limit: int, only: Collection[int] | None
    ) -> list[tuple[int, str | None, int | None]]:
        """Return the oldest entries that may leave, or those of ``only``: ``seq``, state and moment of the report."""
        params = {"until": until, "horizon": horizon}
        if only is not None:
            rows = self._unneeded(self._read(SQL["says_only"], {**params, "only": list(only)}), horizon)[:limit]
        else:
            rows = self._pass.oldest(
                lambda after: self._read(SQL["says_next"], {**params, "after": after}),
                lambda rows: self._unneeded(rows, horizon),
                until,
                limit,
            )
        return [(row[0], row[5], row[6]) for row in rows]

    def _unneeded(self, rows: Rows, horizon: int) -> Rows:
        """Return those of these entries that nothing needs."""
        params = {"before": horizon - HOUR, "default": DEFAULT_NAMESPACE}
        held: list[NewestAction] = []
        if wanted_marks := places([row[:5] for row in rows]):
            keys, sessions, seqs, recent = _columns(wanted_marks)
            columns = {**params, "keys": keys, "sessions": sessions, "seqs": seqs, "recent": recent}
            held = [NewestAction(*row) for row in self._read(SQL["newest_actions"], columns)]
        reads = self._moments_of(SQL["oldest_reads"], params, {mark.key for mark in held})
        changes = self._moments_of(SQL["newest_changes"], params, {mark.key for mark in held if mark.looked})
        free = leaving(rows, held, reads, changes)
        stays = self._in_force([row[0] for row in free if row[1] != LEAVES])
        return [row for row in free if row[0] not in stays]

    def _moments_of(
        self, query: str, params: Mapping[str, Any], keys: Collection[str]
    ) -> dict[str, list[tuple[str, int]]]:
        """Return for each of these keys the sessions with their moments."""
        moments: dict[str, list[tuple[str, int]]] = {}
        for name, session, moment in self._read(query, {**params, "keys": sorted(keys)}) if keys else ():
            moments.setdefault(name, []).append((session, moment))
        return moments

    def size(self) -> int:
        ((whole, entries, width, others),) = self._read(SQL["sizes"])
        # Deleted rows leave free space in the table, which the server keeps.
        used = int(entries * float(width) * _INDEXED) if entries and width else whole
        return int(min(whole, used) + others)

    def check(self) -> StoreCheck:
        ((version, schema, entries, last, live, size, fsync, sync),) = self._read(SQL["health"])
        clock, _ = self._moments()
        ahead = max(0, (last or 0) - clock) / SECOND
        problems = []
        if changed := self._changed():
            problems.append(changed)
        if ahead > 1:
            problems.append(f"the store's time is {ahead:.0f} s ahead of the clock: leases end that much later")
        if fsync != "on":
            problems.append("the server's fsync is off: what it confirmed may be lost when its machine stops")
        if sync == "off":
            problems.append("synchronous_commit is off by default: decisions of tiers 3 and 4 may be lost in a crash")
        return StoreCheck(
            engine=f"PostgreSQL {version.split()[0]}",
            place=self.address.place,
            schema=schema,
            entries=entries,
            live=live,
            size=size,
            log_size=0,
            ahead=ahead,
            problems=tuple(problems),
            content_keys=self._content_keys(self.now()),
        )


def _columns(rows: Sequence[Sequence[Any]]) -> tuple[list[Any], ...]:
    """Return the columns of rows, as arrays for ``unnest``."""
    return tuple(list(column) for column in zip(*rows, strict=True))


def _groups(
    requests: Sequence[Request], locks: Sequence[Locks], actions: Mapping[int, Collection[str]]
) -> list[list[Request]]:
    """Return the requests in order, grouped so that no request's view depends on another's change in the same group.

    ``actions`` holds the keys of actions. Another thread may have added some after the locks were computed.
    """
    groups: list[list[Request]] = []
    held: list[Locks] = []
    sessions: set[tuple[str, str]] = set()
    for request, own in zip(requests, locks, strict=True):
        scope = request[0]
        session = (scope.namespace, scope.session)
        # A report whose action is unknown may concern any key, and a session's ancestry is what its last call stated.
        names = actions.get(scope.find.id) if scope.find is not None and scope.find.id is not None else None
        anything = scope.find is not None and (names is None or not all(own.get(name, False) for name in names))
        alone = anything or session in sessions or any(would_wait(own, other) for other in held)
        if not groups or alone:
            groups.append([])
            held, sessions = [], set()
        groups[-1].append(request)
        held.append(own)
        sessions |= {session}
    return groups
