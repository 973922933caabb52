"""Records and journal in one SQLite file.

Durability: every commit survives ``kill -9`` at any point (``PRAGMA synchronous = NORMAL``). A batch with a durable
scope is answered only after the write-ahead log was synced too. ``synchronous = FULL`` would sync inside the commit;
syncing after it means that nothing waits for the disk while the file is locked. What is not durable may lose its last
moments in a power failure.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from callosum.errors import StoreError
from callosum.model import SECOND, Entry
from callosum.stores.base import Clock, Request, StoreCheck
from callosum.stores.entry_rows import columns_of, entry_of
from callosum.stores.port import OF_ENTRY, Found, Written, encode
from callosum.stores.receipt import LEFT, refusal
from callosum.stores.sqlite import statements as sql
from callosum.stores.sqlite.connection import (
    Execute,
    FileBusy,
    SqliteConnection,
    SqliteConnections,
    code_of,
    explain,
    is_damage,
)

_as_json: Final = msgspec.json.Encoder().encode
_MOST: Final = 4_000
"""Number of records that a connection keeps at most."""


class SqliteReader:
    """A look at the file through a connection: at each statement's own moment, or at one within a transaction."""

    __slots__ = ("_execute", "clock", "known", "now", "time")
    used: set[bytes] | None = None

    def __init__(self, execute: Execute, clock: int, last: int) -> None:
        self._execute = execute
        self.clock = clock
        self.time = max(last, clock)
        self.now = clock if clock > last else last + 1
        self.known: dict[bytes, Any] = {}

    def get(self, names: Sequence[bytes]) -> list[Found]:
        if not names[sql.MOST :] and OF_ENTRY not in [name[0] for name in names]:
            return self._values(sql.GET, names) if names else []
        of_entries = [name for name in names if name[0] == OF_ENTRY]
        others = [name for name in names if name[0] != OF_ENTRY]
        parts = [(sql.GET_OF_ENTRY, of_entries[at : at + sql.MOST]) for at in range(0, len(of_entries), sql.MOST)]
        parts += [(sql.GET, others[at : at + sql.MOST]) for at in range(0, len(others), sql.MOST)]
        return [found for statements, part in parts for found in self._values(statements, part)]

    def _values(self, statements: Sequence[str], names: Sequence[bytes]) -> list[Found]:
        """Return the values that a statement of the list finds for at most ``MOST`` names."""
        if statements is sql.GET:
            bound: list[Any] = [*map(bytearray, names)]  # bytes are slow to bind
        else:
            bound = [int.from_bytes(name[-8:], "big") for name in names]
        row = self._execute(statements[len(bound)], bound).fetchone()
        return [found for found in zip(names, row, strict=True) if found[1] is not None]

    def scan(self, start: bytes, end: bytes, limit: int, *, newest: bool = False) -> list[Found]:
        return self._execute(sql.SCAN_NEWEST if newest else sql.SCAN, (start, end, limit)).fetchall()

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        found = self._execute(sql.BODIES, (str(_as_json(list(ids)), "utf-8"), namespace)).fetchall()
        return {seq: body.encode() for seq, body in found}

    def opened(self, namespace: str, within: int, sessions: Collection[str] | None, limit: int) -> list[int]:
        query, of = sql.OPENED_BY_ANY, None if sessions is None else str(_as_json(list(sessions)), "utf-8")
        if sessions is not None and len(sessions) == 1:
            query, of = sql.OPENED_BY, next(iter(sessions))
        return [seq for (seq,) in self._execute(query, (within, namespace, of, limit)).fetchall()]

    def count(self) -> int:
        (count,) = self._execute(sql.COUNT).fetchone()
        return int(count)

    def page(
        self,
        after: int,
        limit: int,
        *,
        newest: bool = False,
        namespace: str | None = None,
        session: str | None = None,
        key: str | None = None,
        settled: bool = False,  # noqa: ARG002 - one writes at a time
    ) -> list[Entry]:
        query = sql.PAGE_NEWEST if newest else sql.PAGE
        rows = self._execute(query, (after, namespace, session, key, limit)).fetchall()
        return [*map(entry_of, rows[::-1] if newest else rows)]


class SqliteTransaction(SqliteReader):
    """The write transactions of one connection, one after another, with what they know without asking again.

    A process that works alone on its file reads back what it has just written. SQLite tells cheaply whether another
    connection has committed since (``pragma data_version``). Until then every record that was read or written is kept.
    """

    __slots__ = ("_connections", "_link", "last", "version")

    def __init__(self, connections: SqliteConnections, link: SqliteConnection) -> None:
        self._connections, self._link, self._execute = connections, link, link.execute
        self.known: dict[bytes, Any] = {}
        self.version = -1
        self.last = 0

    def renew(self, version: int) -> None:
        """Forget everything, because another connection has committed."""
        self.known.clear()
        (last,) = self._execute(sql.NEWEST).fetchone()
        self.version, self.last = version, last or 0
        self._link.calm = 0

    def refusal(self) -> Exception | None:
        """Return why nothing durable may be answered now; otherwise prepare for a sync."""
        connections, link = self._connections, self._link
        if connections.changed and not connections.may_acknowledge(self._execute):
            return refusal(connections.changed)
        if link.synced < 0:
            connections.prepare_sync(link)  # before the commit of anything that needs it
        return None

    def commit(
        self,
        changed: Mapping[bytes, Any],
        entries: Sequence[Written],
        *,
        dropped: Collection[Entry] = (),
        durable: bool = False,
    ) -> None:
        execute, link = self._execute, self._link
        for one in entries:
            if one.about is None or one.record is not None:
                execute(sql.ADD_ENTRY, columns_of(one))
                continue
            entry, body = one.entry, str(one.body, "utf-8") if one.body else None
            outcome = entry.outcome and entry.outcome._value_
            note = (one.seq, entry.event._value_, entry.namespace, entry.session, entry.action, outcome, body)
            execute(sql.ADD_NOTE, note)
        puts: list[bytearray] = []
        count = 0
        for name in changed:
            record = changed[name]
            if record is False:
                execute(sql.DELETE, (name,))
            elif name[0] == OF_ENTRY:
                execute(sql.PUT_OF_ENTRY, (bytearray(encode(record)), int.from_bytes(name[-8:], "big")))
            else:
                puts += (bytearray(name), bytearray(encode(record)))
                count += 1
                if count == sql.MOST:
                    execute(sql.PUT[count], puts)
                    puts, count = [], 0
        if count:
            execute(sql.PUT[count], puts)
        if dropped:
            seqs = [entry.seq for entry in dropped]
            execute(sql.DROP_ENTRIES, (str(_as_json(seqs), "utf-8"),))
            execute(sql.SET_FACT, (LEFT, max(seqs)))
        execute("commit")
        if entries:
            self.last = one.seq
        if durable:
            link.entry = self.last
        link.busy = False

    def rollback(self) -> None:
        self.known.clear()  # may hold what is rolled back now
        self.version = -1
        self._connections.undo()
        self._link.busy = False


class SqliteEngine:
    """The engine in the file ``path``, which is created (with its folder, private to the user) if it is absent.

    A file of another program or with another schema is refused and left unchanged.
    """

    prefetches = False
    divided = False

    def __init__(self, path: Path, clock: Clock | None) -> None:
        self.kind = f"SQLite {sqlite3.sqlite_version}"
        self.place = str(path)
        self.path = path
        self.connections = SqliteConnections(path)
        self.clock: Clock = clock if clock is not None else self.connections.clock
        self._damaged = False
        """True after a damaged page was found, so that ``prove`` checks all pages."""
        self.connections.get()
        self.connections.here.link.busy = False

    def begin(
        self,
        requests: Sequence[Request],  # noqa: ARG002 - one lock for the whole file
        first: Sequence[bytes],  # noqa: ARG002 - reading is cheap
        *,
        wait: bool = True,
        tries: int = 0,  # noqa: ARG002
    ) -> SqliteTransaction | None:
        connections = self.connections
        try:
            link = connections.begin(wait=wait)
            transaction: SqliteTransaction = link.transaction
            if transaction is None:
                transaction = link.transaction = SqliteTransaction(connections, link)
            (version,) = link.execute(sql.VERSION).fetchone()
            if version != transaction.version:
                transaction.renew(version)
            elif link.calm & 63 == 0 and len(transaction.known) > _MOST:
                transaction.known.clear()
            link.calm += 1
            clock, last = self.clock(), transaction.last
            transaction.clock = clock
            transaction.time, transaction.now = (clock, clock) if clock > last else (last, last + 1)
            return transaction  # noqa: TRY300 - as short as it can be
        except FileBusy:
            connections.here.link.busy = False
            return None
        except (sqlite3.Error, OSError) as error:
            connections.undo()
            connections.here.link.busy = False
            raise self.explained(error) from error

    def explained(self, error: BaseException) -> BaseException:
        """Return the driver's error as Callosum's. Reopen a file that could only be read, because that may change."""
        if not isinstance(error, sqlite3.Error | OSError):
            return error
        if isinstance(error, sqlite3.Error):
            self._damaged = self._damaged or is_damage(error)
            if code_of(error) == sqlite3.SQLITE_READONLY:
                self.connections.reopen()
            self.connections.examine(error)
        return explain(error, self.path)

    @contextmanager
    def _using(self) -> Iterator[SqliteConnections]:
        """Raise errors of the driver as Callosum's, and give this thread's connection free at the end."""
        try:
            yield self.connections
        except (sqlite3.Error, OSError) as error:
            raise self.explained(error) from error
        finally:
            self.connections.here.link.busy = False

    @contextmanager
    def snapshot(self) -> Iterator[SqliteReader]:
        with self._using() as connections:
            execute = connections.get().execute
            (last,) = execute(sql.NEWEST).fetchone()
            yield SqliteReader(execute, self.clock(), last or 0)

    def sync(self, seq: int) -> None:
        """Put everything up to entry ``seq`` on disk."""
        try:
            self.connections.sync(seq)
        except (sqlite3.Error, OSError) as error:
            raise explain(error, self.path) from error

    def to_sync(self, seq: int) -> Callable[[], None]:
        """Return a function that only waits for the disk, for another thread."""
        with self._using() as connections:
            sync = connections.to_sync(seq)

        def run() -> None:
            try:
                sync()
            except (sqlite3.Error, OSError) as error:
                raise self.explained(error) from error

        return run

    def tend(self) -> None:
        """Do maintenance in this thread that would otherwise make some transaction slow."""
        with self._using() as connections:
            connections.tend()

    def prove(self) -> None:
        """Write and sync something tiny. Raises ``StoreChanged`` while nothing durable may be answered."""
        with self._using() as connections:
            if connections.changed and not connections.may_acknowledge(connections.get().execute):
                raise refusal(connections.changed)
            execute = connections.begin().execute
            try:
                execute(sql.PROVE, (self.clock(),))
                execute("commit")
            except BaseException:
                connections.undo()
                raise
            connections.prove_sync()
            if self._damaged and (wrong := execute("pragma quick_check(1)").fetchone()[0]) != "ok":
                raise StoreError(f"{self.path} is damaged ({wrong}): run `callosum doctor`")
            self._damaged = False

    def accept(self, now: int) -> str:
        """Accept the file as it is. Return what was wrong, ``""`` if nothing was."""
        with self._using() as connections:
            return connections.accept(now)

    def size(self) -> int:
        with self.snapshot() as reader:
            pages, free, page = reader._execute(sql.PAGES).fetchone()  # noqa: SLF001 - of this module
        return int((pages - free) * page)

    def check(self) -> StoreCheck:
        """Examine the file without changing it."""
        with self.snapshot() as reader:
            execute = reader._execute  # noqa: SLF001 - of this module
            problems = [row[0] for row in execute("pragma quick_check(5)").fetchall() if row[0] != "ok"]
            (schema,) = execute("pragma user_version").fetchone()
            entries = reader.count()
            ahead = max(0, reader.time - reader.clock) / SECOND
            if self.connections.changed:
                problems.append(str(refusal(self.connections.changed)))
        log = Path(f"{self.path}-wal")
        if apart := self.connections.clock.apart:
            problems.append(
                f"the clock differs from the store's by {apart / SECOND:+.0f} s: "
                "the store's is used while leases are open"
            )
        if ahead > 1:
            problems.append(f"the store's time is {ahead:.0f} s ahead of the clock: leases end that much later")
        return StoreCheck(
            engine=self.kind,
            place=self.place,
            schema=schema,
            entries=entries,
            live=0,
            size=self.path.stat().st_size,
            log_size=log.stat().st_size if log.exists() else 0,
            ahead=ahead,
            problems=tuple(problems),
        )

    def close(self) -> None:
        self.connections.close()
