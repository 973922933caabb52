"""The machine of ``test_machine`` over PostgreSQL: it gives the same answers as the model in memory.

It runs fewer sequences, since each call takes several round trips. ``CALLOSUM_EXAMPLES`` tries that many different
ones.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis.stateful import RuleBasedStateMachine, rule

from callosum.stores.postgres import PostgresStore
from callosum.stores.postgres.view import PostgresCache
from callosum.testing import ManualClock
from tests.property.test_machine import Gates, sequences
from tests.support.postgres import Server, schema_of
from tests.support.world import World, gate_time


class PostgresGates(Gates):
    """``other`` is what another process remembers, which has not seen what the first did meanwhile."""

    server: Server

    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        self.folder = Path(tempfile.mkdtemp(prefix="callosum-"))
        self.clock = ManualClock()
        self.url = self.server.url()
        self.model = World(self.folder, clock=self.clock)
        self.real = World(
            self.folder, lambda clock, probe: PostgresStore(self.url, clock=clock, probe=probe), clock=self.clock
        )
        self.real.living = self.model.living
        self.other = PostgresCache()
        self.time = gate_time(self.clock)
        self.time.__enter__()
        self.tokens: dict[str, int] = {}
        self.entries = 0
        self.calls = 0
        self.pids = 0

    def teardown(self) -> None:
        self.time.__exit__(None, None, None)
        assert not [p for p in self.real.store.check().problems if "ahead" not in p]
        self.real.gate.close()
        self.server.drop(schema_of(self.url))

    @rule()
    def turn(self) -> None:
        """Another process goes on, which remembers only what it saw itself."""
        store = self.real.store
        assert isinstance(store, PostgresStore)
        store._cache, self.other = self.other, store._cache


@pytest.fixture(scope="module", autouse=True)
def _server(postgres: Server) -> None:
    PostgresGates.server = postgres


TestPostgresGates = PostgresGates.TestCase
TestPostgresGates.settings = sequences(12)
del Gates
