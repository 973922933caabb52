"""Any sequence of calls, reports, crashes and pauses: the Redis store answers like the store in memory."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis.stateful import rule

from callosum.stores.redis import RedisStore
from tests.property.test_machine import Gates, sequences
from tests.support.redis_server import RedisServer, serving
from tests.support.world import World

_running: list[RedisServer] = []


@pytest.fixture(scope="module", autouse=True)
def redis_server() -> Iterator[None]:
    for server in serving():
        _running.append(server)
        yield
        _running.clear()


class GatesOverRedis(Gates):
    """Two gates; the second is over Redis. ``turn`` lets another process act with its own cache."""

    def __init__(self) -> None:
        super().__init__()
        self.real.gate.close()
        url = _running[0].url()
        self.real = World(self.folder, lambda clock, probe: RedisStore(url, clock=clock, probe=probe), clock=self.clock)
        self.real.living = self.model.living
        self.others.close()
        living = self.model.living
        self.others = RedisStore(  # type: ignore[assignment]
            url, clock=self.clock, probe=lambda host: living.get(host.pid)
        )

    def both(self, act: Any, look: Any) -> Any:
        """Do the same on both. Redis also gives revisions times of their own: if its time is ahead, the clock follows."""
        result = super().both(act, look)
        if (last := self.real.store.now()) > self.model.store.now():
            self.clock.now = last + 1
        return result

    @rule()
    def turn(self) -> None:
        store, others = self.real.store, self.others
        assert isinstance(store, RedisStore)
        assert isinstance(others, RedisStore)
        store.transactions, others.transactions = others.transactions, store.transactions
        store._observed = others._observed = (0.0, 0)


TestGatesOverRedis = GatesOverRedis.TestCase
TestGatesOverRedis.settings = sequences(30)
