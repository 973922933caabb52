"""The store in a Redis, a Valkey or a Redis Cluster: the kernel over the engine, its receipt and its notifications."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from callosum.errors import StoreUnavailable
from callosum.model import Applied
from callosum.process import alive
from callosum.stores.base import Clock, Probe, Request
from callosum.stores.network import NetworkStore
from callosum.stores.redis.engine import RedisEngine


class RedisStore(NetworkStore):
    """A store in a Redis. ``url``: see ``RedisConnection``. ``clock`` replaces the server's clock in tests.

    Moments come from the server. On one server they are unique over all namespaces; in a Redis Cluster each namespace
    has its own moments, and a batch over several is one transaction for each. With ``durability=server`` the URL
    accepts losses, so the store is not compared with its receipt.
    """

    lanes = 1

    def __init__(
        self, url: str, *, clock: Clock | None = None, probe: Probe = alive, state: Path | None = None
    ) -> None:
        engine = RedisEngine(url, clock)
        self.link = engine.link
        super().__init__(engine, probe, state, engine.link.place, watched=engine.link.durability != "server")
        self.engine: RedisEngine = engine

    def _run(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        """Run the requests; in a cluster each namespace's by themselves, of which each is stored or fails alone."""
        groups: dict[str, list[int]] = {}
        for index, (scope, _) in enumerate(requests):
            groups.setdefault(scope.namespace if self.link.cluster else "", []).append(index)
        if len(groups) <= 1:
            return super()._run(requests)
        answers: list[Applied | Exception] = [StoreUnavailable("not run")] * len(requests)
        for number, indexes in enumerate(groups.values()):
            try:
                done: Sequence[Applied | Exception] = super()._run([requests[index] for index in indexes])
            except StoreUnavailable as error:
                if number == 0:
                    raise
                done = [error] * len(indexes)
            for index, answer in zip(indexes, done, strict=True):
                answers[index] = answer
        return answers
