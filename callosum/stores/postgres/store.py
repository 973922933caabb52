"""The store over a PostgreSQL database.

A transaction is two round trips: one takes the rows of its keys and looks, the other writes and commits. The report
of an action that was opened here is one.
Durability: a batch with a durable scope is answered once its commit is as safe as the server's
``synchronous_commit`` makes it; any other commits with ``synchronous_commit = off``: it survives the death
of every process here, and a crash of the server may take its last moments.

Moments are the database's clock, made to grow: each is after everything that was committed when its
transaction looked, so also after all that was done on its keys. Two that get the same moment on different keys
at once collide on the journal's primary key, and the later one is run again.
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
from callosum.model import DEFAULT_NAMESPACE, HOUR, SECOND, Action, Applied, Entry, State
from callosum.person import ACCEPTING, require_person
from callosum.policy.commitments import COMMITTED, is_in_force
from callosum.process import alive
from callosum.stores.base import (
    GATE_PREFIX,
    KEY_IN_USE,
    REGISTRATION_INTERVAL,
    SEARCHED_ENTRIES,
    Ancestry,
    Clock,
    Nearby,
    OnEnded,
    Pool,
    Probe,
    Request,
    StoreCheck,
    run_separately,
)
from callosum.stores.keys import bare, scoped
from callosum.stores.postgres.apply import PostgresWriter, keys_of
from callosum.stores.postgres.connections import PostgresConnections, address_of, explain, explained, lost, to_repeat
from callosum.stores.postgres.locks import Locks, lock_order, locks_of_scope, merge_locks, would_wait
from callosum.stores.postgres.neighbours import PostgresNeighbours
from callosum.stores.postgres.notifications import PostgresNotifier
from callosum.stores.postgres.partitions import drop, empty, extend, next_end, partitions_of
from callosum.stores.postgres.pipeline import PendingResult, Pipeline
from callosum.stores.postgres.report import is_report, predict
from callosum.stores.postgres.statements import SQL
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
from callosum.stores.records import REMEMBERED, is_farewell
from callosum.stores.retention import LEAVES, NewestAction, RetentionPass, Rows, counting, leaving, places
from callosum.stores.rows import OPENERS, action_of, answered, entry_of

_COMMITTED: Final = SQL["committed"]
_RERUNS: Final = 200
"""How often a transaction is run again for others' sake before the store says that it is too busy."""

_TAIL_PATIENCE: Final = 12.0
"""For how many seconds a reader of the journal waits for a transaction; a stalled one is ended before that."""
_INDEXED: Final = 1.6
"""How much more an entry takes with its indexes."""

T = TypeVar("T")


class _Unsure(Struct):
    """A run whose commit was sent and not confirmed.

    ``query`` finds the place of an entry of it, if it was committed; ``answers`` makes its answers of that.
    """

    query: str
    params: dict[str, Any]
    answers: Callable[[int], list[Applied | Exception]]


class _Run(Struct):
    """What is known of a batch from one run of its transaction to the next.

    ``more``: keys whose rows must be taken too. ``shift``: how far to keep from the moment that collided.
    ``tried``: its report has been sent without a look, if it can be.
    """

    more: frozenset[str] = frozenset()
    shift: int = 0
    unsure: _Unsure | None = None
    tried: bool = False


class _Done(Struct):
    """What one run of a transaction has done: ``first`` and ``last`` are the places of its entries, 0 for none.

    ``covers``: those known when it began, and those it made. ``taken``: the rows were all there to be taken. ``wrote``:
    something was sent that changes the store.
    """

    turns: Locks
    token: int
    covers: frozenset[str]
    answers: list[Applied | Exception] = []
    first: int = 0
    last: int = 0
    taken: bool = False
    wrote: bool = False


class PostgresStore:
    """A store in the schema of a PostgreSQL database that ``url`` names; it is made if it is absent.

    The database's clock is the clock; ``clock`` and ``probe`` are for tests.
    """

    lanes = 4

    def __init__(
        self, url: str, *, clock: Clock | None = None, probe: Probe = alive, state: Path | None = None
    ) -> None:
        self.address = address_of(url)
        self._clock = clock
        self._probe = probe
        self._connections = connections = PostgresConnections(self.address)
        self._memory = PostgresCache()
        self._notifier = PostgresNotifier(self._connections)
        self._swept: dict[str, Any] = {"call": 0, "print": ("", b"", 0), "mark": ("", ""), "turn": ""}
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

    def listen(self, on_ended: OnEnded) -> Callable[[], None]:
        return self._notifier.listen(on_ended)

    def is_connected(self) -> bool:
        return self._notifier.is_connected()

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
        ((identity, entry, left, accepted, newest),) = self._read(
            SQL["kept"], {"entry": receipt.entry if whole else 0, "accepted": receipt.name}
        )
        if identity is None:
            self._read(SQL["add_fact"], (IDENTITY, new_identity().encode()))
            return self._held(receipt, whole)
        return HeldByStore(identity.decode(), entry or not whole, int(left or 0), int(accepted or 0), newest or 0)

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
        run = _Run()
        reruns = 0

        def once() -> list[Applied | Exception]:
            nonlocal reruns
            while True:
                try:
                    return self._once(requests, run)
                except RunAgain as again:
                    self._memory.crowds.forget()  # may hold what was just undone
                    run.more |= again.names
                    if reruns >= _RERUNS:
                        raise StoreUnavailable("the keys of a transaction change as fast as it runs") from again
                except Exception as error:
                    self._memory.crowds.forget()
                    if not to_repeat(error) or reruns >= _RERUNS:
                        raise
                    run.shift = random.randrange(1, 1000)  # noqa: S311  it keeps apart, it hides nothing
                    time.sleep(random.uniform(0, min(0.001 * reruns, 0.05)))  # noqa: S311
                reruns += 1

        try:
            return self._patiently(once)
        except StoreUnavailable as error:
            cause = error.__cause__
            if run.unsure is None or run.unsure.query is not _COMMITTED or not isinstance(cause, Exception):
                raise
            if not lost(cause):
                raise  # the server said no, so nothing was committed
            text = f"{error}; the commit was sent and never confirmed"
            raise Unconfirmed(text, run.unsure.answers(0), reachable=False) from cause

    def _once(self, requests: Sequence[Request], run: _Run) -> list[Applied | Exception]:
        """One transaction: takes the rows, looks, steps, writes and commits."""
        if not run.tried:
            run.tried = True
            reported = self._report(requests, run)
            if reported is not None:
                return [reported]
        covers = self._memory.covers  # for all of this run: another thread may learn of more meanwhile
        turns = [self._turns(request, run.more, covers) for request in requests]
        done = _Done(merge_locks(turns), secrets.randbits(62), covers)
        again: RunAgain | None = None
        with self._connections.line() as line:
            self._make_shared(line, done.turns)
            line.begin()
            taken = self._take(line, done.turns)
            if run.unsure is not None:
                asked = line.send(run.unsure.query, run.unsure.params)
                line.sync()
                self._check_taken(taken, done)  # so it is over, one way or the other
                if found := asked.fetchone():
                    line.send("commit")
                    return run.unsure.answers(found[0])
            run.unsure = None
            try:
                for wave in _waves(requests, turns, self._memory.actions):
                    self._wave(line, wave, taken, done, run.shift)
            except RunAgain as lacking:
                if done.wrote:
                    raise  # which gives the connection up, and so everything of this run
                again = lacking
            if again is not None or not any(scope.durable for scope, _ in requests):
                line.send(SQL["lazy"])
            if done.first:
                run.unsure = _Unsure(_COMMITTED, {"seq": done.first, "token": done.token}, lambda _: done.answers)
            line.send("commit")  # the end of the line waits for it
        if done.taken:
            self._memory.add_rows(done.turns)
        if again is not None:
            raise again
        if done.covers is not covers:
            self._memory.add_covers(done.covers)
        for (scope, _), answer in zip(requests, done.answers, strict=True):
            if isinstance(answer, Applied):
                self._memory.add_opened(scope, answer)
        return done.answers

    def _report(self, requests: Sequence[Request], run: _Run) -> Applied | None:
        """Send the report of an action that was opened here without a look; None where that cannot be done."""
        scope, step = requests[0]
        if len(requests) > 1 or scope.find is None or scope.find.id is None or not is_report(scope):
            return None
        opened = self._memory.opened.pop((scope.namespace, scope.find.id), None)
        if opened is None:
            return None
        clock = self._clock() if self._clock is not None else None
        draft = predict(opened, self._memory, scope, step, clock, self._probe)
        turns = self._turns(requests[0], keys_of((opened.action,))[scope.find.id], self._memory.covers)
        if draft is None or not self._memory.rows.issuperset(turns):
            return None
        params = {**draft.params, "token": secrets.randbits(62), "channel": self._notifier.channel}
        try:
            with self._connections.line() as line:
                line.begin()
                if not scope.durable:
                    line.send(SQL["lazy"])
                self._take(line, turns, sure=True)
                answer = line.send(SQL["report_if_same"], params)
                run.unsure = _Unsure(SQL["reported"], params, lambda now: [draft.applied(now)])
                line.send("commit")
        except DivisionByZero:
            self._memory.rows.difference_update(turns)
            run.unsure = None
            return None
        run.unsure = None
        row = answer.fetchone()
        return draft.applied(row[0]) if row is not None else None

    def _wave(self, line: Pipeline, wave: Sequence[Request], taken: Iterable[Any], done: _Done, shift: int) -> None:
        """Look for several requests at once, then run the step of each and send what it writes."""
        looks = [PostgresView(line, scope, self._memory, self._probe, done.covers) for scope, _ in wave]
        for look in looks:
            look.ask()
        line.sync()
        self._check_taken(taken, done)
        for look in looks:
            look.head()
        for look, (_, step) in zip(looks, wave, strict=True):
            clock = self._clock() if self._clock is not None else look.clock
            view = look.view(max(clock, max(done.last, look.last) + 1 + shift))
            seen = (action for action in (view.found, view.earlier) if action is not None and not action.supersedes)
            self._memory.actions.update(keys_of(seen))
            self._must_hold(done.turns, (*view.superseded, *((view.found,) if view.found else ())))
            try:
                change = step(view)
            except Exception as error:  # noqa: BLE001 - a step that raises fails alone
                done.answers.append(error)
                continue
            wants = change.entries or change.settles or change.moves or change.revisions
            if not wants and change.observe_until is None:
                done.answers.append(Applied(change, (), view.now))
                continue
            self._must_hold(done.turns, [settle.action for settle in change.settles])
            done.wrote = True
            apply = PostgresWriter(line, self._memory, look, view, done.token, self._notifier.channel)
            applied = apply.write(change)
            if apply.covers:
                done.covers |= apply.covers
            done.answers.append(applied)
            done.first = done.first or (applied.ids[0] if applied.ids else 0)
            done.last = applied.ids[-1] if applied.ids else view.now

    def _turns(self, request: Request, more: Iterable[str], covers: frozenset[str]) -> Locks:
        scope = request[0]
        find = scope.find
        known = self._memory.actions.get(find.id, ()) if find is not None and find.id is not None else ()
        return locks_of_scope(scope, covers, (*known, *more))

    def _make_shared(self, line: Pipeline, turns: Locks) -> None:
        """Make rows that others share in a transaction of their own, lest the first to use one keeps them waiting."""
        missing = sorted(name for name, alone in turns.items() if not alone and name not in self._memory.rows)
        if missing:
            line.begin()
            line.send(SQL["make_rows"], (missing,))
            line.send("commit")
            line.sync()
            self._memory.add_rows(missing)

    def _take(self, line: Pipeline, turns: Locks, *, sure: bool = False) -> list[PendingResult]:
        """Take the rows; ``sure``: what follows must not be done if one of them is not there."""
        missing = sorted(name for name in turns if name not in self._memory.rows)
        if missing:
            line.send(SQL["make_rows"], (missing,))
        runs = list(lock_order(turns))
        if [alone for alone, _ in runs] == [False, True]:
            takes = [("share_and_take", [runs[0][1], runs[1][1]])]
        else:
            takes = [("take" if alone else "share", [names]) for alone, names in runs]
        if sure:
            return [line.send(SQL[query + "_all"], [*groups, sum(map(len, groups))]) for query, groups in takes]
        return [line.send(SQL[query], groups) for query, groups in takes]

    def _check_taken(self, taken: Iterable[Any], done: _Done) -> None:
        """Raise ``RunAgain`` where a row was missing that was there once: it has been forgotten since."""
        if done.taken:
            return
        if sum(cursor.fetchone()[0] for cursor in taken) < len(done.turns):
            self._memory.rows.difference_update(done.turns)
            raise RunAgain
        done.taken = True

    def _must_hold(self, turns: Locks, actions: Iterable[Action]) -> None:
        """Raise ``RunAgain`` if a key of an action was not taken."""
        lacking = {name for names in keys_of(actions).values() for name in names if not turns.get(name, False)}
        if lacking:
            raise RunAgain(lacking)

    def _patiently(self, work: Callable[[], T]) -> T:
        """Try for a while where the database cannot be reached."""
        pause = 0.01
        with self._connections.bounded() as until:
            while True:
                try:
                    return work()
                except (StoreError, RunAgain):
                    raise
                except Exception as error:
                    if not lost(error):
                        if type(error).__module__.startswith("psycopg"):
                            raise explain(error, self.address) from error
                        raise
                    self._connections.purge()  # also before giving up: the next to come is not to wait for the same
                    if time.monotonic() + pause > until:
                        raise explain(error, self.address) from error
                time.sleep(pause)
                pause = min(pause * 2, 0.5)

    # --- reading ---

    def _read(self, query: str, params: Any = None) -> list[Any]:
        return self._patiently(lambda: self._connections.read(query, params))

    def action(self, namespace: str, id: int) -> Action | None:
        if not -(2**63) <= id < 2**63:
            return None
        rows = self._read(SQL["action_by_id"], (id,))
        if not rows or rows[0][1] != namespace or rows[0][14] not in OPENERS:
            return None
        row = rows[0]
        return answered(action_of(row, 0, "", self._probe, row[15]), row[16])

    def live(self, namespace: str | None, states: Sequence[State], key: str | None = None) -> list[Action]:
        params = {
            "states": [state.value for state in states],
            "namespace": namespace,
            "key": scoped(namespace or DEFAULT_NAMESPACE, key) if key is not None else None,
        }
        found: dict[int, Action] = {}
        for row in self._where("live_actions", {"in_namespace": namespace, "live_on_key": key}, params):
            if row[1] not in found:
                action = action_of(row, 1, bare(row[0], row[2]) if key is not None else "", self._probe, row[15])
                found[action.id] = answered(action, row[16])
        return [found[id] for id in sorted(found)]

    def recent(
        self,
        namespace: str,
        key: str | None = None,
        limit: int = 20,
        *,
        floor: int = 0,
        besides: Sequence[str] = (),
        within: int = 20_000,
    ) -> list[Action]:
        params = {
            "within": within,
            "namespace": namespace,
            "key": scoped(namespace, key) if key is not None else None,
            "floor": floor,
            "besides": list(besides),
            "limit": limit,
        }
        rows = self._where("recent", {"on_first_key": key}, params)
        return [action_of(row, 0, key or "", self._probe) for row in rows]

    def touched(self, namespace: str, sessions: Sequence[str], limit: int = 32) -> list[Action]:
        return PostgresNeighbours(self._read, namespace, sessions, self._probe).touched(limit)

    def nearby(self, namespace: str, sessions: Sequence[str], keys: Sequence[str]) -> list[Nearby]:
        return PostgresNeighbours(self._read, namespace, sessions, self._probe).nearby(keys)

    def underway(self, namespace: str, sessions: Sequence[str], floor: int, limit: int = 32) -> list[Action]:
        return PostgresNeighbours(self._read, namespace, sessions, self._probe).underway(floor, limit)

    def commitments(self, namespace: str | None, keys: Sequence[str] | None = None) -> list[Action]:
        names = [scoped(namespace or DEFAULT_NAMESPACE, key) for key in keys or ()]
        params = {"print": COMMITTED, "keys": names}
        rows, now = self._where("commitments", {"found_on_keys": keys}, params), self.now()
        found = [action_of(row, 0, "", self._probe) for row in rows if namespace is None or row[1] == namespace]
        return [action for action in found if is_in_force(action, now)]

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        rows = self._read(SQL["bodies_of_namespace"], (list(ids), namespace))
        return {id: body.encode() for id, body in rows}

    def farewells(self, namespace: str, limit: int = 20) -> list[Entry]:
        rows = self._read(SQL["farewells"], {"within": SEARCHED_ENTRIES, "space": namespace})
        return [entry for entry in map(entry_of, rows) if is_farewell(entry)][:limit]

    def kin(self, namespace: str, session: str) -> Ancestry:
        rows = self._read(SQL["kin"], (namespace, session))
        return Ancestry(rows[0][0] or "", rows[0][1] or "") if rows else Ancestry()

    def _moments(self) -> tuple[int, int]:
        """Return the clock, and the newest entry."""
        ((clock, last),) = self._read(SQL["moments"])
        return (self._clock() if self._clock is not None else clock), last or 0

    def now(self) -> int:
        return max(self._moments())

    def observing(self) -> int:
        rows = self._read(SQL["fact"], ("observe",))
        return int(rows[0][0]) if rows else 0

    def entries(
        self,
        *,
        after: int = 0,
        limit: int = 500,
        namespace: str | None = None,
        session: str | None = None,
        key: str | None = None,
        newest: bool = False,
    ) -> list[Entry]:
        params: dict[str, Any] = {
            "after": after,
            "namespace": namespace,
            "session": session,
            "key": scoped(namespace or DEFAULT_NAMESPACE, key) if key is not None else None,
            "limit": limit,
        }
        asked = {"in_namespace": namespace, "of_session": session, "on_key": key}
        order = "newest_first" if newest else "oldest_first"
        rows = self._where("entries_now", asked, params, order)
        if rows and rows[0][-1]:
            # Whatever was under way at that look may still come before the last of these, nothing later can.
            self._await(set(rows[0][-1]))
            params["last"] = last = max(row[0] for row in rows)
            rows = self._where("entries_then", {**asked, "up_to_last": last}, params, order)
        found = [entry_of(row) for row in rows]
        return found[::-1] if newest else found

    def _where(self, query: str, asked: Mapping[str, object], params: Mapping[str, Any], order: str = "") -> list[Any]:
        """Return the rows of a statement with those of its conditions that are asked for, which are not None."""
        where = " ".join([SQL[name] for name, value in asked.items() if value is not None])
        return self._read(f"{SQL[query].format(where)} {SQL[order] if order else ''}", params)

    def _await(self, under_way: set[int]) -> None:
        """Wait for those of these transactions that are steps."""
        until = time.monotonic() + _TAIL_PATIENCE
        pause = 0.001
        while True:
            under_way &= {row[0] for row in self._read(SQL["under_way"])}
            if not under_way:
                return
            if time.monotonic() > until:
                raise StoreUnavailable("a transaction on the journal does not come to its end")
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    # --- upkeep: each part goes on from where it stopped, so that a round costs its budget and not the
    # size of the table ---

    def maintain(self, horizon: int, budget: int = 2000) -> int:
        gone = self._forget_calls(budget)
        gone += self._forget_prints(horizon, budget)
        gone += self._forget_marks(horizon, budget)
        self._forget_turns(budget)
        self._tend_parts()
        return gone

    def _tend_parts(self) -> None:
        """Make the journal's next part ahead, and drop those that nothing is in any more."""
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

    def _forget_calls(self, budget: int) -> int:
        """In small steps along the journal; what was gone through stays gone through."""
        clock, _ = self._moments()
        rows = self._read(SQL["calls"], (self._swept["call"], clock - REMEMBERED, budget))
        if rows:
            self._swept["call"] = rows[-1][0]
        old = [seq for seq, remembered in rows if remembered]
        if old:
            self._read(SQL["forget_calls"], (old,))
        return len(old)

    def _forget_prints(self, horizon: int, budget: int) -> int:
        """Digests of acts that no look-back reaches; one without an outcome is found until it has one."""
        key, print_, id = self._swept["print"]
        rows = self._read(SQL["prints"], {"key": key, "print": print_, "id": id, "horizon": horizon, "budget": budget})
        self._swept["print"] = tuple(rows[-1][:3]) if len(rows) == budget else ("", b"", 0)
        old = [row[:3] for row in rows if row[3]]
        stays = self._counting([id for _, print_, id in old if bytes(print_) == COMMITTED])
        old = [row for row in old if bytes(row[1]) != COMMITTED or row[2] not in stays]
        if old:
            self._read(SQL["forget_prints"], _columns(old))
        return len(old)

    def _counting(self, ids: Collection[int]) -> frozenset[int]:
        """Those of these actions whose commitments still count."""
        if not ids:
            return frozenset()
        rows = self._read(SQL["contents"], (sorted(ids),))
        return counting(rows, self._moments()[0])

    def _forget_marks(self, horizon: int, budget: int) -> int:
        """Mark live as long as their session's last call plus the longest window.

        A change outlives its session as long as one goes on that looked before it, or wrote, where that counts as a
        look: stale has no window. And so it does while it has no outcome: when that comes, others are to find it.
        What is moved while this runs stays; for the rest it is as if it had been forgotten at the first look.
        """
        before = horizon - HOUR
        key, session = self._swept["mark"]
        params = {"before": before, "default": DEFAULT_NAMESPACE}
        rows = self._read(SQL["next_marks"], {**params, "key": key, "session": session, "budget": budget})
        whole = len(rows) < budget
        self._swept["mark"] = ("", "") if whole else tuple(rows[-1][:2])
        old = [row[:6] for row in rows if row[6]]
        if old:
            looks = self._moments_of(SQL["oldest_looks"], params, {row[0] for row in old})
            old = [row for row in old if not any(by != row[1] and at < row[5] for by, at in looks.get(row[0], ()))]
        gone = len(self._read(SQL["forget_marks"], _columns([row[:5] for row in old]))) if old else 0
        if whole:
            self._read(SQL["forget_sessions"], (before,))
        return gone

    def _forget_turns(self, budget: int) -> None:
        """Rows of keys that nobody has a mark on; one that is taken just now stays."""
        rows = self._read(SQL["next_turns"], (self._swept["turn"], budget))
        self._swept["turn"] = rows[-1][0] if len(rows) == budget else ""
        if rows:
            self._read(SQL["forget_turns"], ([row[0] for row in rows],))

    def take(
        self,
        until: int,
        horizon: int,
        limit: int = 5000,
        *,
        delete: bool = False,
        only: Collection[int] | None = None,
    ) -> list[Entry]:
        rows = self._leaving(until, horizon, limit, only if delete else None)
        if not delete:
            seqs = [row[0] for row in rows]
            return [entry_of(row) for row in self._read(SQL["entries_by_ids"], (seqs,))]
        if rows:
            self._read(SQL["drop_entries"], _columns(rows))  # what was reported meanwhile stays
            left = max(row[0] for row in rows)
            if left > int((self._read(SQL["fact"], (LEFT,)) or [(0,)])[0][0]):
                self._keep(LEFT, left)
        self._tend_parts()
        return []

    def register(self, fingerprint: str) -> int:
        now = self.now()
        rows = self._read(SQL["fact"], (GATE_PREFIX + fingerprint,))
        if not rows or int(rows[0][0]) < now - REGISTRATION_INTERVAL:
            written = (GATE_PREFIX + fingerprint, str(now).encode())
            self._read(SQL["put_fact"], written)
            old = [name for name, at in self._gates() if at < now - KEY_IN_USE]
            if old:
                self._read(SQL["drop_facts"], (old,))
        return self._content_keys(now)

    def _gates(self) -> list[tuple[str, int]]:
        rows = self._read(SQL["facts_between"], (GATE_PREFIX, f"{GATE_PREFIX[:-1]};"))
        return [(name, int(at)) for name, at in rows]

    def _content_keys(self, now: int) -> int:
        return sum(1 for _, at in self._gates() if at > now - KEY_IN_USE)

    def _leaving(
        self, until: int, horizon: int, limit: int, only: Collection[int] | None
    ) -> list[tuple[int, str | None, int | None]]:
        """Return the oldest entries that may leave, or those of ``only``: place, state and moment of the report."""
        params = {"until": until, "horizon": horizon}
        if only is not None:
            rows = self._needless(self._read(SQL["says_only"], {**params, "only": list(only)}), horizon)[:limit]
        else:
            rows = self._pass.oldest(
                lambda after: self._read(SQL["says_next"], {**params, "after": after}),
                lambda rows: self._needless(rows, horizon),
                until,
                limit,
            )
        return [(row[0], row[5], row[6]) for row in rows]

    def _needless(self, rows: Rows, horizon: int) -> Rows:
        """Those of these entries that nobody needs."""
        params = {"before": horizon - HOUR, "default": DEFAULT_NAMESPACE}
        held: list[NewestAction] = []
        if asked := places([row[:5] for row in rows]):
            keys, sessions, seqs, recent = _columns(asked)
            of = {**params, "keys": keys, "sessions": sessions, "seqs": seqs, "recent": recent}
            held = [NewestAction(*row) for row in self._read(SQL["newest_acts"], of)]
        looks = self._moments_of(SQL["oldest_looks"], params, {one.key for one in held})
        changes = self._moments_of(SQL["newest_changes"], params, {one.key for one in held if one.looked})
        free = leaving(rows, held, looks, changes)
        stays = self._counting([row[0] for row in free if row[1] != LEAVES])
        return [row for row in free if row[0] not in stays]

    def _moments_of(
        self, query: str, params: Mapping[str, Any], keys: Collection[str]
    ) -> dict[str, list[tuple[str, int]]]:
        """Sessions with their moments on each of these keys."""
        found: dict[str, list[tuple[str, int]]] = {}
        for name, by, at in self._read(query, {**params, "keys": sorted(keys)}) if keys else ():
            found.setdefault(name, []).append((by, at))
        return found

    def size(self) -> int:
        ((whole, entries, width, others),) = self._read(SQL["sizes"])
        # What was deleted leaves room in the table, which the server keeps.
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


def _waves(
    requests: Sequence[Request], turns: Sequence[Locks], known: Mapping[int, Collection[str]]
) -> list[list[Request]]:
    """Return the requests in their order, in groups that can look at once because none can see what another changes.

    ``known`` are the keys of actions; another thread may have learned them after the turns were made out.
    """
    waves: list[list[Request]] = []
    held: list[Locks] = []
    sessions: set[tuple[str, str]] = set()
    for request, mine in zip(requests, turns, strict=True):
        scope = request[0]
        session = (scope.namespace, scope.session)
        # Another report may turn out to be about anything, and a session's kin are what its last call said.
        about = known.get(scope.find.id) if scope.find is not None and scope.find.id is not None else None
        anything = scope.find is not None and (about is None or not all(mine.get(name, False) for name in about))
        alone = anything or session in sessions or any(would_wait(mine, other) for other in held)
        if not waves or alone:
            waves.append([])
            held, sessions = [], set()
        waves[-1].append(request)
        held.append(mine)
        sessions |= {session}
    return waves
