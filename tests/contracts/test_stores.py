"""The shipped store contract on every store."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from callosum.stores.memory import MemoryStore
from callosum.stores.postgres import PostgresStore
from callosum.stores.redis import RedisStore
from callosum.stores.sqlite import SqliteStore
from callosum.testing.store_contract import MakeStore, StoreContract
from tests.support.lmdb_engine import LmdbStore
from tests.support.postgres import Server
from tests.support.redis_server import RedisServer


class TestMemory(StoreContract):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        return lambda clock, probe: MemoryStore(clock=clock, probe=probe)


class TestSqlite(StoreContract):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "gate.db"

    @pytest.fixture
    def make_store(self, path: Path) -> MakeStore:
        return lambda clock, probe: SqliteStore(path, clock=clock, probe=probe)

    @pytest.fixture
    def writes(self, path: Path) -> Callable[[], object]:
        onlooker = sqlite3.connect(path)
        return lambda: onlooker.execute("pragma data_version").fetchone()


class TestLmdb(StoreContract):
    """A store that was added: the port suffices for an engine of one's own."""

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return lambda clock, probe: LmdbStore(tmp_path / "lmdb", clock=clock, probe=probe)


class TestPostgres(StoreContract):
    @pytest.fixture
    def make_store(self, postgres_url: str) -> MakeStore:
        return lambda clock, probe: PostgresStore(postgres_url, clock=clock, probe=probe)

    @pytest.fixture
    def writes(self, postgres: Server, postgres_url: str, make_store: MakeStore) -> Callable[[], object]:
        return lambda: postgres.contents(postgres_url)


class TestRedis(StoreContract):
    @pytest.fixture
    def make_store(self, redis_server: RedisServer) -> MakeStore:
        url = redis_server.url()
        return lambda clock, probe: RedisStore(url, clock=clock, probe=probe)

    @pytest.fixture
    def writes(self, redis_server: RedisServer) -> Callable[[], object]:
        return redis_server.writes
