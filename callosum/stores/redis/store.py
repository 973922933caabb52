"""The store in a Redis, a Valkey or a Redis Cluster: the kernel over the engine, its receipt and its notifications."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from callosum.errors import StoreUnavailable
from callosum.model import Applied
from callosum.person import ACCEPTING, require_person
from callosum.process import alive
from callosum.stores.base import Clock, Pool, Probe, Request, StoreCheck
from callosum.stores.cache import Turns
from callosum.stores.kernel import Kernel
from callosum.stores.receipt import WatchedStore, receipt_of, refusal
from callosum.stores.redis.engine import RedisEngine
from callosum.stores.redis.notifications import RedisNotifier


class RedisStore(Kernel):
    """A store in a Redis. ``url``: see ``RedisConnection``. ``clock`` replaces the server's clock in tests.

    Moments come from the server. On one server they are unique over all namespaces; in a Redis Cluster each namespace
    has its own moments, and a batch over several is one transaction for each.
    """

    lanes = 1

    def __init__(
        self, url: str, *, clock: Clock | None = None, probe: Probe = alive, state: Path | None = None
    ) -> None:
        self.engine: RedisEngine
        self._engine: RedisEngine
        super().__init__(engine := RedisEngine(url, clock), probe=probe)
        self.link = link = engine.link
        self._watched = WatchedStore(
            receipt_of(state, engine.place), link.place, engine.held, engine.put, lambda: link.epoch
        )
        self._notifier = RedisNotifier(link)
        self._turns = Turns()
        self.listen, self.is_connected = self._notifier.listen, self._notifier.is_connected

    def close(self) -> None:
        self._notifier.close()
        super().close()

    def pause(self, seconds: float) -> None:
        self._notifier.wait(seconds)

    def pool(self) -> Pool:
        return self.link.pool()

    @property
    def overtaken(self) -> int:
        """Return how many times transactions of this process had to run again."""
        return self._engine.overtaken

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        if self.link.durability == "server":  # the loss is accepted in the URL, so it is not checked
            return self._in_turn(requests)
        return self._watched.transact(requests, self._in_turn)

    def _in_turn(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        return self._turns.run(self.engine.cache.keys_of(requests), requests, self._apart)

    def _apart(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        """Run the requests; in a cluster each namespace's by themselves, of which each is stored or fails alone."""
        groups: dict[str, list[int]] = {}
        for index, (scope, _) in enumerate(requests):
            groups.setdefault(scope.namespace if self.link.cluster else "", []).append(index)
        if len(groups) <= 1:
            return super().transact(requests)
        answers: list[Applied | Exception] = [StoreUnavailable("not run")] * len(requests)
        for number, indexes in enumerate(groups.values()):
            try:
                done: Sequence[Applied | Exception] = super().transact([requests[index] for index in indexes])
            except StoreUnavailable as error:
                if number == 0:
                    raise
                done = [error] * len(indexes)
            for index, answer in zip(indexes, done, strict=True):
                answers[index] = answer
        return answers

    def prove(self) -> None:
        if self.link.durability != "server" and self._watched.check(again=True):
            raise refusal(self._watched.changed)
        super().prove()

    def accept(self, *, proven: bool = False) -> str:
        if not proven:
            require_person(self, ACCEPTING)
        return self._watched.accept(self.now())

    def check(self) -> StoreCheck:
        found = super().check()
        changed = self._watched.check(again=True) if self.link.durability != "server" else ""
        return replace(found, problems=(*found.problems, str(refusal(changed)))) if changed else found
