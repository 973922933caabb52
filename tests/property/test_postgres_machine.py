"""The machine of ``test_machine`` over PostgreSQL: it gives the same answers as the model in memory.

It runs fewer sequences, since each call takes several round trips. ``CALLOSUM_EXAMPLES`` tries that many different
ones.
"""

import pytest
from hypothesis.stateful import rule

from callosum.stores.base import Clock, Probe, Store
from callosum.stores.cache import RecordCache
from callosum.stores.postgres import PostgresStore
from tests.property.test_machine import Gates, sequences
from tests.support.postgres import Server, schema_of


class PostgresGates(Gates):
    """``others`` is what another process remembers, which has not seen what the first did meanwhile."""

    server: Server
    others: RecordCache

    def store(self, clock: Clock, probe: Probe) -> Store:
        self.url, self.others = self.server.url(), RecordCache(0)
        return PostgresStore(self.url, clock=clock, probe=probe)

    def drop(self) -> None:
        self.server.drop(schema_of(self.url))

    @rule()
    def turn(self) -> None:
        """Another process goes on, which remembers only what it saw itself."""
        store = self.real.store
        assert isinstance(store, PostgresStore)
        store.engine.cache, self.others = self.others, store.engine.cache


@pytest.fixture(scope="module", autouse=True)
def _server(postgres: Server) -> None:
    PostgresGates.server = postgres


TestPostgresGates = PostgresGates.TestCase
TestPostgresGates.settings = sequences(8)
del Gates
