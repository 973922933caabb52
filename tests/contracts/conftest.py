"""Fixtures for the tests of the kernel that all stores share, and of what each engine does itself.

``StoreContract`` runs on every engine. The other tests run on two stores, of which one encodes its records, and ask for
every engine where they test a transaction, a cache or a scan.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

# show the compared values when an assertion in the shipped test classes fails
pytest.register_assert_rewrite("callosum.testing.store_contract", "callosum.testing.gate_contract")

# imported after the rewriting is registered
from callosum.stores.base import Store  # noqa: E402
from callosum.stores.memory import MemoryStore  # noqa: E402
from callosum.stores.postgres import PostgresStore  # noqa: E402
from callosum.stores.redis import RedisStore  # noqa: E402
from callosum.stores.sqlite import SqliteStore  # noqa: E402
from callosum.testing import ManualClock  # noqa: E402
from callosum.testing.script import StoreScript  # noqa: E402
from tests.support.lmdb_engine import LmdbStore  # noqa: E402


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def script(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[StoreScript]:
    """Yield a script for each of the stores, which all take their time from ``clock``."""
    store: Store
    if request.param == "memory":
        store = MemoryStore(clock=clock)
    elif request.param == "lmdb":
        store = LmdbStore(tmp_path / "lmdb", clock=clock)
    elif request.param == "redis":
        store = RedisStore(request.getfixturevalue("redis_server").url(), clock=clock)
    elif request.param == "postgres":
        store = PostgresStore(request.getfixturevalue("postgres_url"), clock=clock)
    else:
        store = SqliteStore(tmp_path / "g.db", clock=clock)
    yield StoreScript(store)
    store.close()
