"""A store over LMDB, as somebody would add one: an engine of the port, and the kernel over it.

LMDB keeps an ordered map in one file and lets one transaction write at a time, readers beside it. A commit is on disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import lmdb
import msgspec
from msgspec.structs import replace

from callosum.errors import StoreError, StoreUnavailable
from callosum.model import SECOND, Entry
from callosum.process import alive
from callosum.stores.base import Clock, Probe, Request, StoreCheck
from callosum.stores.kernel import Kernel
from callosum.stores.names import action, number
from callosum.stores.port import Found, Written, values

_LONGEST: Final = 495
"""Bytes of a name from which on it shares a row with others of the same beginning: LMDB takes keys of 511 bytes."""
_ROOM: Final = 1 << 30
_encode: Final = msgspec.msgpack.Encoder(enc_hook=str).encode
_entry: Final = msgspec.msgpack.Decoder(Entry).decode
_shared: Final = msgspec.msgpack.Decoder(dict[bytes, bytes]).decode
_open: dict[Path, tuple[lmdb.Environment, int]] = {}
"""The environments of this process: LMDB opens a file once."""
_opening: Final = threading.Lock()
_writing: dict[Path, threading.Lock] = {}
"""One lock for each file, because LMDB's own cannot be tried."""


class LmdbTransaction:
    """A look at the file at one moment, or the one transaction that writes."""

    used: set[bytes] | None = None

    def __init__(self, engine: LmdbEngine, *, write: bool = False) -> None:
        self._engine = engine
        self._transaction = engine.env.begin(write=write)
        self._records, self._journal = (self._transaction.cursor(db) for db in engine.databases)
        self.known: dict[bytes, Any] = {}
        self.clock = engine.clock()
        self.last = int.from_bytes(self._journal.key(), "big") if self._journal.last() else 0
        self.time = max(self.clock, self.last)
        self.now = max(self.clock, self.last + 1)

    # --- Reading ---

    def get(self, names: Sequence[bytes]) -> list[Found]:
        found = [(name, self._row(name).get(name)) for name in names]
        return [(name, value) for name, value in found if value is not None]

    def _row(self, name: bytes) -> dict[bytes, bytes]:
        """Return the records in the row of a name."""
        value = self._records.get(name[:_LONGEST])
        if value is None:
            return {}
        return {name: value} if len(name) < _LONGEST else _shared(value)

    def scan(self, start: bytes, end: bytes, limit: int, *, newest: bool = False) -> list[Found]:
        found: list[Found] = []
        cursor = self._records
        there = cursor.set_range((end if newest else start)[:_LONGEST]) or (newest and cursor.last())
        step = cursor.prev if newest else cursor.next
        while there and len(found) < limit:
            key, value = cursor.item()
            row = [(key, value)] if len(key) < _LONGEST else sorted(_shared(value).items())
            found += [one for one in (reversed(row) if newest else row) if start <= one[0] < end]
            there = step() and (key >= start[:_LONGEST] if newest else key < end)
        return found[:limit]

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        values = (self._journal.get(number(id)) for id in ids)
        entries = [_entry(value) for value in values if value is not None]
        return {one.seq: msgspec.json.encode(one.body) for one in entries if one.namespace == namespace and one.body}

    def opened(self, namespace: str, within: int, sessions: Collection[str] | None, limit: int) -> list[int]:
        newest = [
            entry.seq
            for entry in self.page(0, within, newest=True)
            if entry.namespace == namespace and (sessions is None or entry.session in sessions)
        ]
        return [id for id in reversed(newest) if self.get((action(namespace, id),))][:limit]

    def count(self) -> int:
        return int(self._transaction.stat(self._engine.databases[1])["entries"])

    def page(
        self,
        after: int,
        limit: int,
        *,
        newest: bool = False,
        namespace: str | None = None,
        session: str | None = None,
        key: str | None = None,
        settled: bool = False,
    ) -> list[Entry]:
        found: list[Entry] = []
        cursor = self._journal
        there = cursor.last() if newest else cursor.set_range(number(after + 1))
        while there and len(found) < limit and cursor.key() > number(after):
            entry = _entry(cursor.value())
            if (
                namespace in (None, entry.namespace)
                and session in (None, entry.session)
                and (key is None or [one.name for one in entry.keys[:1]] == [key])
            ):
                found.append(entry)
            there = cursor.prev() if newest else cursor.next()
        return found[::-1] if newest else found

    # --- Writing ---

    def refusal(self) -> None:
        """Return None: every commit is on disk."""

    def commit(
        self,
        changed: Mapping[bytes, Any],
        entries: Sequence[Written],
        *,
        dropped: Collection[Entry] = (),
        durable: bool = False,
    ) -> None:
        puts, gone = values(changed, entries)
        for one in entries:
            whole = replace(one.whole(), body=msgspec.json.decode(one.body) if one.body else {})
            self._journal.put(number(one.seq), _encode(whole))
            self.last = one.seq
        for seq in [entry.seq for entry in dropped]:
            if (value := self._journal.pop(number(seq))) is not None:
                gone.append(action(_entry(value).namespace, seq))
        for name in gone:
            self._put(name, None)
        for name, value in puts.items():
            self._put(name, value)
        self._transaction.commit()
        self._engine.writing.release()

    def _put(self, name: bytes, value: bytes | None) -> None:
        row = {**self._row(name), name: value}
        there = {other: kept for other, kept in row.items() if kept is not None}
        if there:
            self._records.put(name[:_LONGEST], there[name] if len(name) < _LONGEST else _encode(there))
        else:
            self._records.pop(name[:_LONGEST])

    def rollback(self) -> None:
        self._transaction.abort()
        self._engine.writing.release()

    def close(self) -> None:
        """End a look."""
        self._transaction.abort()


class LmdbEngine:
    """The engine in the folder ``path``, which is created if it is absent."""

    prefetches = False
    divided = False

    def __init__(self, path: Path, clock: Clock) -> None:
        self.kind, self.place, self.clock = f"LMDB {'.'.join(map(str, lmdb.version()))}", str(path), clock
        self._path: Path | None = path.resolve()
        with _opening:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.env, users = _open.get(self._path) or (
                lmdb.open(str(path), map_size=_ROOM, max_dbs=2, max_readers=1024),
                0,
            )
            _open[self._path] = self.env, users + 1
        self.databases = [self.env.open_db(name) for name in (b"record", b"journal")]
        self.writing = _writing.setdefault(self._path, threading.Lock())

    def begin(
        self,
        requests: Sequence[Request],
        first: Sequence[bytes],
        *,
        wait: bool = True,
        tries: int = 0,
    ) -> LmdbTransaction | None:
        if not self.writing.acquire(blocking=wait):
            return None
        try:
            return LmdbTransaction(self, write=True)
        except BaseException:
            self.writing.release()
            raise

    @contextmanager
    def snapshot(self) -> Iterator[LmdbTransaction]:
        reader = LmdbTransaction(self)
        try:
            yield reader
        finally:
            reader.close()

    def explained(self, error: BaseException) -> BaseException:
        if isinstance(error, lmdb.MapFullError | lmdb.DiskError):
            return StoreUnavailable(f"no room left for {self.place}: nothing of this call was recorded")
        return StoreError(f"{self.place}: {error}") if isinstance(error, lmdb.Error) else error

    def sync(self, seq: int) -> None:
        """Do nothing: every commit is on disk."""

    def prove(self) -> None:
        with self.env.begin(write=True) as transaction:
            transaction.put(b"proof", number(self.clock()))

    def accept(self, now: int) -> str:
        return ""

    def size(self) -> int:
        with self.env.begin() as transaction:
            stats = [transaction.stat(db) for db in self.databases]
        return sum(one["psize"] * (one["branch_pages"] + one["leaf_pages"] + one["overflow_pages"]) for one in stats)

    def check(self) -> StoreCheck:
        with self.snapshot() as reader:
            ahead = max(0, reader.time - reader.clock) / SECOND
            size = Path(self.place, "data.mdb").stat().st_size
            return StoreCheck(self.kind, self.place, 1, reader.count(), 0, size, 0, ahead)

    def close(self) -> None:
        with _opening:
            if self._path is not None:
                env, users = _open[self._path]
                _open[self._path] = env, users - 1
                if users == 1:
                    del _open[self._path]
                    env.close()
                self._path = None


class LmdbStore(Kernel):
    """A store in an LMDB file. ``clock`` and ``probe`` are as in the contract."""

    def __init__(self, path: Path, *, clock: Clock = lambda: time.time_ns() // 1000, probe: Probe = alive) -> None:
        super().__init__(LmdbEngine(path, clock), probe=probe)
