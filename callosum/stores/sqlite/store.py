"""The store in one SQLite file.

Durability: every commit survives ``kill -9`` at any point (``PRAGMA synchronous = NORMAL``). A batch with a durable
scope is answered only after the write-ahead log was synced too. ``synchronous = FULL`` would sync inside the commit;
syncing after it means that nothing waits for the disk while the file is locked. What is not durable may lose its last
moments in a power failure.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from callosum.errors import StoreError, StoreUnavailable, Unconfirmed
from callosum.model import HOUR, SECOND, Applied, Entry
from callosum.person import ACCEPTING, require_person
from callosum.policy.commitments import COMMITTED
from callosum.process import alive
from callosum.stores.base import (
    GATE_PREFIX,
    KEY_IN_USE,
    REGISTRATION_INTERVAL,
    Ancestry,
    Clock,
    Probe,
    Request,
    StoreCheck,
    run_separately,
)
from callosum.stores.keys import scoped
from callosum.stores.receipt import LEFT, refusal
from callosum.stores.records import REMEMBERED
from callosum.stores.retention import LEAVES, NewestAction, RetentionPass, Rows, counting, leaving, places
from callosum.stores.rows import PARTS, as_json, entry_of
from callosum.stores.sql_reads import SqlReads
from callosum.stores.sqlite.apply import SqliteWriter
from callosum.stores.sqlite.connection import Execute, FileBusy, SqliteConnections, explain, is_damage, is_readonly
from callosum.stores.sqlite.neighbours import SqliteNeighbours, rows_of
from callosum.stores.sqlite.statements import SQL
from callosum.stores.sqlite.view import SqliteCache, SqliteView


def _newest(answers: list[Applied | Exception], last: int) -> int:
    """Return the entry up to which a batch must be on disk: what it wrote, or, if it wrote nothing, all it has read.

    ``last`` is the newest entry. Waiters poll again and again: if nothing was written, nothing is synced.
    """
    newest = 0
    for one in answers:
        if isinstance(one, Applied):
            wrote = one.change.settles or one.change.moves
            newest = max(newest, one.ids[-1] if one.ids else one.now if wrote else last)
    return newest


class _Swept:
    """Progress of this process in deleting what is no longer needed."""

    def __init__(self) -> None:
        self.call = 0
        self.print: tuple[str, bytes, int] = ("", b"", 0)
        self.mark: tuple[str, str] = ("", "")


class SqliteStore(SqlReads):
    """A store in one SQLite file.

    ``path`` is created (with its folder, private to the user) if it is absent. A file of another program or with
    another schema is refused and left unchanged. ``clock`` and ``probe`` are for tests.
    """

    sql, neighbours = {**PARTS, **SQL}, SqliteNeighbours

    def __init__(self, path: str | Path, *, clock: Clock | None = None, probe: Probe = alive) -> None:
        self.path = Path(path)
        self._probe = probe
        self._connections = SqliteConnections(self.path)
        self._clock: Clock = clock if clock is not None else self._connections.clock
        self._memory = SqliteCache()
        self._swept = _Swept()
        self._pass = RetentionPass()
        self._damaged = False
        """True after a damaged page was found, so that ``prove`` checks all pages."""
        self._connections.get()
        self._connections.here.link.busy = False

    def close(self) -> None:
        self._connections.close()

    # --- Transactions ---

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        try:
            return self._synced(requests)
        except StoreUnavailable:
            raise
        except Exception:
            if len(requests) == 1:
                raise
        return run_separately(self._synced, requests)

    def attempt(self, requests: Sequence[Request]) -> tuple[list[Applied | Exception], int] | None:
        self._connections.written += len(requests)
        try:
            return self._committed(requests, wait=False)
        except FileBusy:
            return None
        except StoreUnavailable:
            raise
        except Exception:
            if len(requests) == 1:
                raise
        return None

    def to_sync(self, seq: int) -> Callable[[], None]:
        with self._explained():
            sync = self._connections.to_sync(seq)

        def run() -> None:
            with self._explained():
                sync()

        return run

    def tend(self) -> None:
        with self._explained():
            self._connections.tend()

    def _synced(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        answers, seq = self._committed(requests)
        if seq:
            try:
                self._connections.sync(seq)
            except (sqlite3.Error, OSError) as error:
                raise Unconfirmed(str(explain(error, self.path)), answers) from error
        return answers

    def _committed(self, requests: Sequence[Request], *, wait: bool = True) -> tuple[list[Applied | Exception], int]:
        """Run and commit a batch. Return the answers and the entry up to which it must be synced (0: need not be)."""
        answers: list[Applied | Exception] = []
        wrote = durable = False
        try:
            link = self._connections.begin(wait=wait)
            execute, known = link.execute, link.known
            try:
                known.refresh(execute)
                for scope, step in requests:
                    if scope.durable:
                        if self._connections.changed and not self._connections.may_acknowledge(execute):
                            answers.append(refusal(self._connections.changed))
                            continue
                        durable = True
                        if link.synced < 0:
                            self._connections.prepare_sync(link)  # before the commit of anything that needs it
                    look = SqliteView(execute, known, scope, self._probe, self._memory, [])
                    view = look.view(self._clock)
                    try:
                        change = step(view)
                    except Exception as error:  # noqa: BLE001 - a step that raises fails alone, whatever it raises
                        answers.append(error)
                        continue
                    if change.entries or change.settles or change.moves or change.revisions:
                        wrote = True
                        answers.append(SqliteWriter(execute, known, scope, look, view, view.now).write(change))
                    else:
                        answers.append(Applied(change, (), view.now))
                execute("commit" if wrote else "rollback")
            except BaseException:
                self._connections.undo()
                self._memory.sessions.clear()  # may hold what was just rolled back
                raise
        except (sqlite3.Error, OSError) as error:  # as in `_explained`, which costs more
            raise self._explain(error) from error
        finally:
            self._connections.here.link.busy = False
        if durable:
            link.entry = max(known.last, 0)
        # Up to the newest entry that was written or read: an answer must be on disk, and so must what it depends on.
        return answers, _newest(answers, known.last) if durable else 0

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the driver's errors into Callosum's. Reopen a file that could only be read, because that may change."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise self._explain(error) from error
        finally:
            self._connections.here.link.busy = False

    def _explain(self, error: sqlite3.Error | OSError) -> StoreError:
        if isinstance(error, sqlite3.Error):
            self._damaged = self._damaged or is_damage(error)
            if is_readonly(error):
                self._connections.reopen()
            self._connections.examine(error)
        return explain(error, self.path)

    # --- Reading ---

    @contextmanager
    def _reading(self) -> Iterator[Execute]:
        """Yield a connection for reading; readers fetch all their rows at once and leave no open cursor."""
        with self._explained():
            yield self._connections.get().execute

    def _read(self, query: str, params: Any = ()) -> list[Any]:
        with self._reading() as execute:
            return rows_of(execute, query, params)

    def kin(self, namespace: str, session: str) -> Ancestry:
        rows = self._read(SQL["kin"], (scoped(namespace, session),))
        return Ancestry(rows[0][0] or "", rows[0][1] or "") if rows else Ancestry()

    def now(self) -> int:
        ((last,),) = self._read(SQL["newest"])
        return max(self._clock(), last or 0)

    # --- Upkeep: each part continues where it stopped, so a round costs its budget, not the size of the table ---

    def maintain(self, horizon: int, budget: int = 2000) -> int:
        """Delete as ``Store.maintain`` does. Read first, and lock the file only to delete."""
        before = horizon - HOUR
        with self._explained():
            execute = self._connections.get().execute
            calls = self._old_calls(execute, budget)
            prints = self._old_prints(execute, horizon, budget)
            marks = self._old_marks(execute, before, budget)
            at_end = self._swept.mark == ("", "")
            sessions = at_end and execute(SQL["any_old_session"], (before,)).fetchone()
            if not (calls or prints or marks or sessions):
                return 0
            link = self._connections.begin()
            try:
                many = link.connection.executemany
                done = many(SQL["forget_call"], calls), many(SQL["forget_print"], prints)
                gone = sum(max(0, one.rowcount) for one in (*done, many(SQL["forget_mark"], marks)))
                if sessions:
                    link.execute(SQL["forget_sessions"], (before,))
                link.known.forget()
                link.execute("commit")
            except BaseException:
                self._connections.undo()
                raise
        return gone

    def _old_calls(self, execute: Execute, budget: int) -> list[tuple[int]]:
        rows = execute(SQL["calls"], (self._swept.call, self._clock() - REMEMBERED, budget)).fetchall()
        if rows:
            self._swept.call = rows[-1][0]
        return [(seq,) for seq, remembered in rows if remembered]

    def _old_prints(self, execute: Execute, horizon: int, budget: int) -> list[tuple[str, bytes, int, int]]:
        """Return digests of actions that no window reaches. An action without an outcome stays until it has one."""
        rows = execute(SQL["prints"], (horizon, *self._swept.print, budget)).fetchall()
        self._swept.print = rows[-1][:3] if len(rows) == budget else ("", b"", 0)
        old = [row for row in rows if row[3]]
        stays = self._counting(execute, [row[2] for row in old if row[1] == COMMITTED])
        return [(*row[:3], horizon) for row in old if row[1] != COMMITTED or row[2] not in stays]

    def _counting(self, execute: Execute, ids: Collection[int]) -> frozenset[int]:
        """Return those of ``ids`` whose actions have a commitment in force."""
        rows = execute(SQL["contents"], (as_json(sorted(ids)),)).fetchall() if ids else ()
        return counting(rows, self._clock())

    def _old_marks(self, execute: Execute, before: int, budget: int) -> list[tuple[str, str, int, int]]:
        """Return the marks of sessions whose last call is older than the longest window.

        A change outlives its session as long as another active session read the key before it (or wrote, where that
        counts as a read), because ``stale`` has no time window. It also stays while it has no outcome, so that others
        find the outcome once it arrives.
        """
        rows = execute(SQL["next_marks"], (before, *self._swept.mark, budget)).fetchall()
        self._swept.mark = rows[-1][:2] if len(rows) == budget else ("", "")
        found = [execute(SQL["old_mark"], (key, session, before)).fetchone() for key, session, old in rows if old]
        return [(*row, before) for row in found if row is not None]

    def take(
        self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: Collection[int] | None = None
    ) -> list[Entry]:
        with self._explained():
            if not delete:
                execute = self._connections.get().execute
                free = self._leaving(execute, until, horizon, limit)
                return [entry_of(row) for row in execute(SQL["entries_by_ids"], (as_json(free),)).fetchall()]
            link = self._connections.begin()
            try:
                free = self._leaving(link.execute, until, horizon, limit, only)
                link.execute(SQL["drop_entries"], (as_json(free),))
                if free:
                    link.execute(SQL["set_left"], (LEFT, max(free)))
                link.known.forget()
                # not synced: the caller keeps its copy, and readers skip an entry that appears twice
                link.execute("commit")
            except BaseException:
                self._connections.undo()
                raise
        return []

    def register(self, fingerprint: str) -> int:
        now = self.now()
        with self._explained():
            execute = self._connections.get().execute
            row = execute(SQL["fact"], (GATE_PREFIX + fingerprint,)).fetchone()
            if row is None or row[0] < now - REGISTRATION_INTERVAL:
                link = self._connections.begin()
                try:
                    link.execute(SQL["set_fact"], (GATE_PREFIX + fingerprint, now))
                    link.execute(SQL["drop_gates"], (now - KEY_IN_USE,))
                    link.execute("commit")
                except BaseException:
                    self._connections.undo()
                    raise
        return self._content_keys(now)

    def _content_keys(self, now: int) -> int:
        ((count,),) = self._read(SQL["count_gates"], (now - KEY_IN_USE,))
        return int(count)

    def _leaving(
        self, execute: Execute, until: int, horizon: int, limit: int, only: Collection[int] | None = None
    ) -> list[int]:
        """Return the oldest entries that may leave, or those of ``only``."""
        if only is not None:
            rows = execute(SQL["says_only"], (horizon, until, as_json(list(only)))).fetchall()
            rows = self._needless(execute, rows, horizon)[:limit]
        else:
            rows = self._pass.oldest(
                lambda after: execute(SQL["says_next"], (horizon, until, after)).fetchall(),
                lambda rows: self._needless(execute, rows, horizon),
                until,
                limit,
            )
        return [row[0] for row in rows]

    def _needless(self, execute: Execute, rows: Rows, horizon: int) -> Rows:
        """Return those of these entries that nothing needs."""
        before = horizon - HOUR
        held = [
            NewestAction(seq, name, session, found[0], bool(found[1]))
            for name, session, seq, recent in places(rows)
            if (found := execute(SQL["newest_act"], (name, session, seq, before, recent)).fetchone()) is not None
        ]
        looks = {name: execute(SQL["oldest_looks"], (name, before)).fetchall() for name in {one.key for one in held}}
        changes = {
            name: execute(SQL["newest_changes"], (name,)).fetchall() for name in {one.key for one in held if one.looked}
        }
        free = leaving(rows, held, looks, changes)
        stays = self._counting(execute, [row[0] for row in free if row[1] != LEAVES])
        return [row for row in free if row[0] not in stays]

    def prove(self) -> None:
        if self._connections.changed:
            with self._reading() as execute:
                if not self._connections.may_acknowledge(execute):
                    raise refusal(self._connections.changed)
        with self._explained():
            link = self._connections.begin()
            try:
                link.execute(SQL["prove"]).fetchone()
                link.execute(SQL["set_fact"], ("proof", self._clock()))
                link.execute("commit")
            except BaseException:
                self._connections.undo()
                raise
            self._connections.prove_sync()
            if self._damaged and (wrong := link.execute("pragma quick_check(1)").fetchone()[0]) != "ok":
                raise StoreError(f"{self.path} is damaged ({wrong}): run `callosum doctor`")
            self._damaged = False

    def accept(self, *, proven: bool = False) -> str:
        if not proven:
            require_person(self, ACCEPTING)
        with self._explained():
            return self._connections.accept(self.now())

    def size(self) -> int:
        ((pages, free, page),) = self._read(SQL["pages"])
        return int((pages - free) * page)

    def check(self) -> StoreCheck:
        with self._reading() as execute:
            problems = [row[0] for row in execute("pragma quick_check(5)").fetchall() if row[0] != "ok"]
            (schema,) = execute("pragma user_version").fetchone()
            (entries, last) = execute(SQL["count_entries"]).fetchone()
            (live,) = execute(SQL["count_live"]).fetchone()
            if self._connections.changed:
                problems.append(str(refusal(self._connections.changed)))
        log = Path(f"{self.path}-wal")
        ahead = max(0, (last or 0) - self._clock()) / SECOND
        if apart := self._connections.clock.apart:
            problems.append(
                f"the clock differs from the store's by {apart / SECOND:+.0f} s: "
                "the store's is used while leases are open"
            )
        if ahead > 1:
            problems.append(f"the store's time is {ahead:.0f} s ahead of the clock: leases end that much later")
        return StoreCheck(
            engine=f"SQLite {sqlite3.sqlite_version}",
            place=str(self.path),
            schema=schema,
            entries=entries,
            live=live,
            size=self.path.stat().st_size,
            log_size=log.stat().st_size if log.exists() else 0,
            ahead=ahead,
            problems=tuple(problems),
            content_keys=self._content_keys(self.now()),
        )
