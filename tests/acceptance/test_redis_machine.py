"""Any sequence of calls, reports, crashes and pauses: the Redis store answers like the store in memory."""

from collections.abc import Iterator

import pytest
from hypothesis.stateful import rule

from callosum.stores.base import Clock, Probe, Store
from callosum.stores.redis import RedisStore
from tests.property.test_machine import Gates, sequences
from tests.support.redis_server import RedisServer, serving

_running: list[RedisServer] = []


@pytest.fixture(scope="module", autouse=True)
def redis_server() -> Iterator[None]:
    for server in serving():
        _running.append(server)
        yield
        _running.clear()


class GatesOverRedis(Gates):
    """Two gates; the second is over Redis. ``turn`` lets another process act with its own cache."""

    def store(self, clock: Clock, probe: Probe) -> Store:
        url = _running[0].url()
        self.others = RedisStore(url, clock=clock, probe=probe)
        return RedisStore(url, clock=clock, probe=probe)

    @rule()
    def turn(self) -> None:
        store, others = self.real.store, self.others
        assert isinstance(store, RedisStore)
        assert isinstance(others, RedisStore)
        store._engine, others._engine = others._engine, store._engine


TestGatesOverRedis = GatesOverRedis.TestCase
TestGatesOverRedis.settings = sequences(12)
