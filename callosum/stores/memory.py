"""The engine in this process's memory, and the store on it. Nothing outlives the process."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from callosum.model import SECOND, Entry
from callosum.process import alive
from callosum.stores.base import Clock, Probe, Request, StoreCheck
from callosum.stores.kernel import Kernel
from callosum.stores.names import action
from callosum.stores.port import Found, Written, values


class MemoryEngine:
    """Records in a dictionary and a sorted list of their names, under one lock. It is its own transaction."""

    kind = "memory"
    place = "this process"
    used: set[bytes] | None = None
    prefetches = False
    divided = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._values: dict[bytes, bytes] = {}
        self._names: list[bytes] = []
        self._journal: dict[int, Entry] = {}
        self._seqs: list[int] = []
        self.known: dict[bytes, Any] = {}

    def begin(
        self,
        requests: Sequence[Request],  # noqa: ARG002 - one lock
        first: Sequence[bytes],  # noqa: ARG002
        *,
        wait: bool = True,
        tries: int = 0,  # noqa: ARG002
    ) -> MemoryEngine | None:
        return self if self._lock.acquire(blocking=wait) else None

    def refusal(self) -> None:
        """Return None: nothing is promised to outlive the process."""

    def rollback(self) -> None:
        self.known.clear()  # may hold what was not written
        self._lock.release()

    @contextmanager
    def snapshot(self) -> Iterator[MemoryEngine]:
        with self._lock:
            yield self

    @property
    def clock(self) -> int:
        return self._clock()

    @property
    def last(self) -> int:
        return self._seqs[-1] if self._seqs else 0

    @property
    def time(self) -> int:
        return max(self._clock(), self.last)

    @property
    def now(self) -> int:
        return max(self._clock(), self.last + 1)

    def get(self, names: Sequence[bytes]) -> list[Found]:
        values = self._values
        return [(name, values[name]) for name in names if name in values]

    def scan(self, start: bytes, end: bytes, limit: int, *, newest: bool = False) -> list[Found]:
        first, last = bisect_left(self._names, start), bisect_left(self._names, end)
        found = (
            self._names[max(first, last - limit) : last][::-1]
            if newest
            else self._names[first : min(last, first + limit)]
        )
        return [(name, self._values[name]) for name in found]

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        found = [self._journal[id] for id in ids if id in self._journal]
        return {e.seq: msgspec.json.encode(e.body) for e in found if e.namespace == namespace and e.body}

    def opened(self, namespace: str, within: int, sessions: Collection[str] | None, limit: int) -> list[int]:
        newest = [self._journal[seq] for seq in self._seqs[-within:]]
        return [
            entry.seq
            for entry in reversed(newest)
            if entry.namespace == namespace
            and (sessions is None or entry.session in sessions)
            and action(namespace, entry.seq) in self._values
        ][:limit]

    def count(self) -> int:
        return len(self._journal)

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
        seqs = self._seqs[bisect_left(self._seqs, after + 1) :]
        found: list[Entry] = []
        for seq in reversed(seqs) if newest else seqs:
            entry = self._journal[seq]
            if (
                namespace in (None, entry.namespace)
                and session in (None, entry.session)
                and (key is None or [one.name for one in entry.keys[:1]] == [key])
            ):
                found.append(entry)
                if len(found) == limit:
                    break
        return found[::-1] if newest else found

    def commit(
        self,
        changed: Mapping[bytes, Any],
        entries: Sequence[Written],
        *,
        dropped: Collection[Entry] = (),
        durable: bool = False,  # noqa: ARG002 - nothing outlives the process
    ) -> None:
        puts, gone = values(changed, entries)
        for name in puts:
            if name not in self._values:
                insort(self._names, name)
        self._values.update(puts)
        for name in gone:
            if self._values.pop(name, None) is not None:
                del self._names[bisect_left(self._names, name)]
        for one in entries:
            self._journal[one.seq] = replace(one.whole(), body=msgspec.json.decode(one.body) if one.body else {})
            insort(self._seqs, one.seq)
        for seq in [entry.seq for entry in dropped]:
            entry = self._journal.pop(seq, None)
            if entry is not None:
                del self._seqs[bisect_left(self._seqs, seq)]
                name = action(entry.namespace, seq)
                if self._values.pop(name, None) is not None:
                    del self._names[bisect_left(self._names, name)]
                    self.known.pop(name, None)
        self._lock.release()

    def size(self) -> int:
        with self._lock:
            entries = sum(len(msgspec.json.encode(entry)) for entry in self._journal.values())
            return entries + sum(len(name) + len(value) for name, value in self._values.items())

    def explained(self, error: BaseException) -> BaseException:
        return error

    def sync(self, seq: int) -> None:
        """Do nothing: there is no disk."""

    def prove(self) -> None:
        """Do nothing: memory takes what is written."""

    def accept(self, now: int) -> str:  # noqa: ARG002 - memory is never replaced
        return ""

    def check(self) -> StoreCheck:
        with self._lock:
            ahead = max(0, self.time - self.clock) / SECOND
            return StoreCheck(self.kind, self.place, 0, self.count(), 0, 0, 0, ahead)

    def close(self) -> None:
        """Do nothing, because there is nothing to close."""


class MemoryStore(Kernel):
    """A store for tests and for sessions of one process. ``clock`` and ``probe`` are as in the contract."""

    transient = True

    def __init__(self, *, clock: Clock = lambda: time.time_ns() // 1000, probe: Probe = alive) -> None:
        super().__init__(MemoryEngine(clock), probe=probe)
