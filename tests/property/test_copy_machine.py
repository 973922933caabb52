"""Any sequence of calls, reports, crashes, pauses and copies to another store gets the answers of one unmoved store.

The machine of ``test_machine``. Its second gate moves now and then: its store's data is copied into an empty store of
any engine, and the gate continues there. The model in memory never moves.
"""

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from callosum.stores import copy as copies
from callosum.stores.base import Clock, Probe, Store
from callosum.stores.postgres import PostgresStore
from callosum.stores.redis import RedisStore
from callosum.stores.sqlite import SqliteStore
from tests.property.test_machine import Gates, sequences
from tests.support.postgres import Server, schema_of
from tests.support.redis_server import RedisServer

_KINDS: dict[str, Any] = {"sqlite": SqliteStore, "postgresql": PostgresStore, "redis": RedisStore}


class MovingGates(Gates):
    """Gates whose store moves. ``place`` is the kind and the address of the second gate's store."""

    postgres: Server
    redis: RedisServer

    def __init__(self) -> None:
        self.schemas: list[str] = []
        self.place: tuple[str, Any] = ("", None)
        self.moves = 0
        super().__init__()

    def teardown(self) -> None:
        self.time.__exit__(None, None, None)
        self.real.gate.close()
        for schema in self.schemas:
            self.postgres.drop(schema)

    def fresh(self, kind: str) -> Any:
        """The address of an empty store."""
        if kind == "sqlite":
            return Path(tempfile.mkdtemp(dir=self.folder)) / "gate.db"
        if kind == "redis":
            return self.redis.url()
        url = self.postgres.url()
        self.schemas.append(schema_of(url))
        return url

    def store(self, clock: Clock, probe: Probe) -> Store:
        self.place = self.place if self.place[0] else ("sqlite", self.fresh("sqlite"))
        opened: Store = _KINDS[self.place[0]](self.place[1], clock=clock, probe=probe)
        return opened

    @rule(kind=st.sampled_from(sorted(_KINDS)))
    def move(self, kind: str) -> None:
        """Copy everything to an empty store of this kind and continue there."""
        to = self.fresh(kind)
        with closing(_KINDS[self.place[0]](self.place[1])) as source, closing(_KINDS[kind](to)) as target:
            copied = copies.copy(source.engine, target.engine)
        assert copied.verified, copied.first
        assert copied.mended == 0, copied.first
        self.real.gate.close()
        self.place = (kind, to)
        self.real = self.world()

    @rule()
    def turn(self) -> None:
        """Continue in another process, which has no cache."""
        self.real.gate.close()
        self.real = self.world()


@pytest.fixture(scope="module", autouse=True)
def _servers(postgres: Server, redis_server: RedisServer) -> None:
    MovingGates.postgres, MovingGates.redis = postgres, redis_server


TestMovingGates = MovingGates.TestCase
TestMovingGates.settings = sequences(7)
del Gates
