"""The engine in a Redis, a Valkey or a Redis Cluster: what a process knows, and the facts that are no records."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Final

from redis import exceptions as faults

from callosum.model import SECOND
from callosum.stores.base import Clock, Request, StoreCheck
from callosum.stores.cache import RecordCache, ServerTime
from callosum.stores.receipt import LEFT, HeldByStore, Receipt
from callosum.stores.redis.connection import SCHEMA, RedisConnection
from callosum.stores.redis.notifications import RedisNotifier
from callosum.stores.redis.reader import REVISION, RedisReader, Spaces
from callosum.stores.redis.transaction import RedisTransaction, Tries

_OBSERVED_FOR: Final = 1.0
"""Seconds for which a fact of the whole store is not read again in a cluster, where another server has it."""


class RedisEngine:
    """The engine over the server at ``url`` (see ``RedisConnection``). ``clock`` replaces the server's in tests."""

    prefetches = True

    def __init__(self, url: str, clock: Clock | None) -> None:
        self.link = RedisConnection(url)
        self.kind, self.divided = self.link.engine, self.link.cluster
        self.place = f"{self.link.place} {self.link.prefix}"
        self.pool = self.link.pool
        self.notifier = RedisNotifier(self.link)
        self.spaces = Spaces(self.link)
        self.cache = RecordCache(b"")
        self.server_time = ServerTime()
        self.overtaken = 0
        """Number of times that transactions of this process had to run again."""
        self.last = 0
        self._clock = clock
        self._lost = 0
        self._facts: dict[bytes, tuple[float, bytes]] = {}
        self.here = Tries()
        self._own, self._count, self._pid = secrets.randbits(64), count(), os.getpid()

    def token(self) -> bytes:
        """Return a revision that nothing has had, in no process."""
        if self._pid != os.getpid():
            self._own, self._count, self._pid = secrets.randbits(64), count(), os.getpid()
        return ((self._own + next(self._count)) % (1 << 64)).to_bytes(REVISION, "big")

    @property
    def epoch(self) -> int:
        """Return a number that changes whenever the server may have been replaced or may hold other data."""
        return self.link.replacements + (0 if self.link.cluster else self.link.client.connection_pool.made)

    def noted(self, clock: int, last: int) -> None:
        """Note the time in an answer of the server."""
        self.server_time.update(clock)
        self.last = max(self.last, last)

    def fact(self, name: bytes) -> bytes:
        """Return a fact of the whole store in a cluster, as it was within the last second."""
        read, value = self._facts.get(name, (0.0, b""))
        if not read or time.monotonic() - read > _OBSERVED_FOR:
            value = RedisReader(self.spaces, 0).fetched((name,))[name]
            self._facts[name] = (time.monotonic(), value)
        return value

    def begin(
        self,
        requests: Sequence[Request],
        first: Sequence[bytes],
        *,
        wait: bool = True,  # noqa: ARG002 - nothing is locked
        tries: int = 0,
    ) -> RedisTransaction:
        if not self.link.cluster and self.link.client.connection_pool.lost != self._lost:
            # The server may have been replaced by one that lacks the newest data, or all of it.
            self._lost = self.link.client.connection_pool.lost
            self.cache.found.clear()
            self.spaces.forget()
            self.last = 0
        if not tries:
            self.here.forget()
            self.here.doubt = None
        transaction = RedisTransaction(self, requests, self._clock() if self._clock is not None else None)
        try:
            return transaction.begun(first, tries)
        except BaseException as error:
            transaction.rollback()
            raise self.explained(error) from error

    def explained(self, error: BaseException) -> BaseException:
        if isinstance(error, faults.RedisError | faults.RedisClusterException):
            return self.link.error_of(error)
        return error

    @contextmanager
    def snapshot(self) -> Iterator[RedisReader]:
        with self.link.explained():
            clock = self._clock() if self._clock is not None else None
            estimate = self.server_time.now()
            reader = RedisReader(self.spaces, clock, estimate or 0, self.last)
            yield reader if estimate is not None else reader.look()

    def sync(self, seq: int) -> None:  # noqa: ARG002 - the commit has waited for the disk
        """Raise if the server did not confirm that this thread's batch survives."""
        doubt, self.here.doubt = self.here.doubt, None
        if doubt is not None:
            raise doubt

    def prove(self) -> None:
        self.keep_fact("proof", int(time.time()))

    def accept(self, now: int) -> str:  # noqa: ARG002 - ``NetworkStore`` knows what the store lost
        return ""

    # --- Facts of the server's own ---

    def keep_fact(self, name: str, value: int) -> None:
        """Store a fact that is no record."""
        with self.link.explained():
            self.link.client.set(f"{self.link.prefix}:{name}", value)

    def held(self, receipt: Receipt, whole: bool) -> HeldByStore:
        """Return what the store holds of the things that a receipt is compared with."""
        client, prefix = self.link.client, self.link.prefix
        with self.link.explained():
            identity = self.link.identify()
            if not whole:
                return HeldByStore(identity, 0, 0, 0)
            missing = receipt.entry
            for tag in self.spaces.all():
                if client.zcount(f"{tag}j", missing, missing):
                    missing = 0
            left, accepted = (int(client.get(f"{prefix}:{name}") or 0) for name in (LEFT, receipt.name))
        return HeldByStore(identity, missing, left, accepted)

    def left(self, seq: int) -> None:
        """Note up to which entry a rotation removed some."""
        if seq > int(self.link.client.get(f"{self.link.prefix}:{LEFT}") or 0):
            self.keep_fact(LEFT, seq)

    def size(self) -> int:
        client = self.link.client
        with self.link.explained():
            return sum(
                int(client.memory_usage(tag + name, samples=20) or 0) for tag in self.spaces.all() for name in "renj"
            )

    def check(self) -> StoreCheck:
        with self.snapshot() as reader:
            ahead = max(0, reader.look().time - reader.clock) / SECOND
            entries = reader.count()
        link, warnings = self.link, tuple(self.link.warnings)
        return StoreCheck(self.kind, link.place, SCHEMA, entries, 0, self.size(), 0, ahead, warnings)

    def close(self) -> None:
        self.notifier.close()
        self.link.close()
