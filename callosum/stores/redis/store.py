"""Combine the parts of the store in a Redis, a Valkey or a Redis Cluster."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Collection, Sequence
from pathlib import Path

from callosum.model import SECOND, Action, Applied, Entry
from callosum.person import ACCEPTING, require_person
from callosum.process import alive
from callosum.stores.base import KEY_IN_USE, REGISTRATION_INTERVAL, Clock, Pool, Probe, Request, StoreCheck
from callosum.stores.receipt import LEFT, HeldByStore, Receipt, WatchedStore, receipt_of, refusal
from callosum.stores.redis.bodies import fetch
from callosum.stores.redis.connection import SCHEMA, RedisConnection
from callosum.stores.redis.journal import RedisJournal
from callosum.stores.redis.notifications import RedisNotifier
from callosum.stores.redis.reads import RedisReads
from callosum.stores.redis.retention import RedisRetention
from callosum.stores.redis.spaces import Namespaces
from callosum.stores.redis.transactions import Transactions


class RedisStore:
    """A store in a Redis. ``url``: see ``RedisConnection``. ``clock`` replaces the server's clock in tests.

    Moments come from the server. On one server they are unique over all namespaces; in a Redis Cluster each namespace
    has its own moments.
    """

    lanes = 1

    def __init__(
        self, url: str, *, clock: Clock | None = None, probe: Probe = alive, state: Path | None = None
    ) -> None:
        self.link = link = RedisConnection(url)
        place = f"{link.place} {link.prefix}"
        self._watched = WatchedStore(receipt_of(state, place), link.place, self._held, self._keep, lambda: link.epoch)
        self.spaces = Namespaces(self.link, clock)
        self.transactions = Transactions(self.spaces, probe, self.observing, self._observe)
        self._reads = reads = RedisReads(self.spaces, probe)
        self._journal = journal = RedisJournal(self.spaces)
        self._retention = RedisRetention(self.spaces, reads, journal)
        self._notifier = RedisNotifier(self.link)
        # Methods of ``Store`` that one part has as they are.
        self.action, self.live, self.recent, self.kin = reads.action, reads.live, reads.recent, reads.kin
        self.touched, self.nearby, self.underway = reads.touched, reads.nearby, reads.underway
        self.farewells, self.now, self.entries = reads.farewells, journal.now, journal.entries
        self.maintain = self._retention.maintain
        self.listen, self.is_connected = self._notifier.listen, self._notifier.is_connected
        self._observed: tuple[float, int] = (0.0, 0)
        self._gates = f"{self.link.prefix}:gates"
        if hasattr(os, "register_at_fork"):
            forked = weakref.WeakMethod(self.transactions.forked)
            os.register_at_fork(after_in_child=lambda: (method := forked()) and method())

    def close(self) -> None:
        self._notifier.close()
        self.link.close()

    def pause(self, seconds: float) -> None:
        self._notifier.wait(seconds)

    def pool(self) -> Pool:
        return self.link.pool()

    @property
    def overtaken(self) -> int:
        """Return how many times transactions of this process had to run again."""
        return self.transactions.overtaken

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        if self.link.durability == "server":  # the loss is accepted in the URL, so it is not checked
            return self.transactions.transact(requests)
        return self._watched.transact(requests, self.transactions.transact)

    def _fact(self, name: str) -> str:
        return f"{self.link.prefix}:{name}"

    def _held(self, receipt: Receipt, whole: bool) -> HeldByStore:
        client = self.link.client
        with self.link.explained():
            identity = self.link.identify()
            if not whole:
                return HeldByStore(identity, 0, 0, 0, 0)
            missing, newest = receipt.entry, 0
            for space in self.spaces.all():
                if client.xrange(space.key("log"), entry := f"{missing:016d}", entry, 1):
                    missing = 0
                last = client.xrevrange(space.key("log"), count=1)
                newest = max(newest, int(last[0][0].partition(b"-")[0]) if last else 0)
            left, accepted = (int(client.get(self._fact(name)) or 0) for name in (LEFT, receipt.name))
        return HeldByStore(identity, missing, left, accepted, newest)

    def _keep(self, name: str, value: int) -> None:
        with self.link.explained():
            self.link.client.set(self._fact(name), value)

    def _changed(self) -> str:
        changed = self._watched.check(again=True) if self.link.durability != "server" else ""
        return str(refusal(changed)) if changed else ""

    def prove(self) -> None:
        if self.link.durability != "server" and self._watched.check(again=True):
            raise refusal(self._watched.changed)
        self._keep("proof", int(time.time()))

    def accept(self, *, proven: bool = False) -> str:
        if not proven:
            require_person(self, ACCEPTING)
        return self._watched.accept(self.now())

    # --- reading ---

    def commitments(self, namespace: str | None, keys: Sequence[str] | None = None) -> list[Action]:
        return self._reads.commitments(namespace, self.now(), keys)

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        with self.link.explained():
            return fetch(self.link.client, self.spaces.of(namespace), ids)

    def observing(self) -> int:
        read, until = self._observed
        if time.monotonic() - read < 1 and read:
            return until
        with self.link.explained():
            until = int(self.link.client.get(f"{self.link.prefix}:observe") or 0)
        self._observed = (time.monotonic(), until)
        return until

    def _observe(self, until: int) -> None:
        self.link.client.set(f"{self.link.prefix}:observe", until)
        self._observed = (0.0, 0)

    # --- upkeep ---

    def take(
        self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: Collection[int] | None = None
    ) -> list[Entry]:
        entries = self._retention.take(until, horizon, limit, delete=delete, only=only)
        if delete and entries:
            with self.link.explained():
                if entries[-1].seq > int(self.link.client.get(self._fact(LEFT)) or 0):
                    self._keep(LEFT, entries[-1].seq)
            return []
        return entries

    def register(self, fingerprint: str) -> int:
        name, now = self._gates, self.now()
        with self.link.explained():
            noted = self.link.client.hget(name, fingerprint)
            if noted is None or int(noted) < now - REGISTRATION_INTERVAL:
                self.link.client.hset(name, fingerprint, now)
                old = [
                    gate
                    for gate, registered in self.link.client.hgetall(name).items()
                    if int(registered) < now - KEY_IN_USE
                ]
                if old:
                    self.link.client.hdel(name, *old)
        return self._content_keys(now)

    def _content_keys(self, now: int) -> int:
        with self.link.explained():
            moments = self.link.client.hvals(self._gates)
        return sum(1 for registered in moments if int(registered) > now - KEY_IN_USE)

    def size(self) -> int:
        client = self.link.client
        with self.link.explained():
            return sum(
                int(client.memory_usage(space.key(name), samples=20) or 0)
                for space in self.spaces.all()
                for name in ("log", "a", "v", "ids")
            )

    def check(self) -> StoreCheck:
        client = self.link.client
        with self.link.explained():
            spaces = self.spaces.all()
            entries = sum(client.xlen(space.key("log")) for space in spaces)
            live = sum(client.zcard(space.key("open")) for space in spaces)
            last = max((int(client.get(self.spaces.clock_of(space)) or 0) for space in spaces), default=0)
            today = self.spaces.clock() if self.spaces.clock is not None else self._journal.server_time()
        ahead = max(0, last - today) / SECOND
        keys = self._content_keys(self.now())
        problems = list(self.link.warnings)
        if changed := self._changed():
            problems.append(changed)
        if ahead > 1:
            problems.append(f"the store's time is {ahead:.0f} s ahead of the clock: leases end that much later")
        size = self.size()
        return StoreCheck(
            self.link.engine, self.link.place, SCHEMA, entries, live, size, 0, ahead, tuple(problems), keys
        )
