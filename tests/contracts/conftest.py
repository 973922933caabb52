"""What the tests of all stores share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

# so that an assertion of the shipped suites that fails shows what it compared
pytest.register_assert_rewrite("callosum.testing.store_contract", "callosum.testing.gate_contract")

# once the rewriting is registered; the servers are fixtures
from callosum.stores.base import Store  # noqa: E402
from callosum.stores.memory import MemoryStore  # noqa: E402
from callosum.stores.postgres import PostgresStore  # noqa: E402
from callosum.stores.redis import RedisStore  # noqa: E402
from callosum.stores.sqlite import SqliteStore  # noqa: E402
from callosum.testing import ManualClock  # noqa: E402
from callosum.testing.script import StoreScript  # noqa: E402


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite", "redis", "postgres"])
def script(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[StoreScript]:
    """Steps on each of the stores, by a clock that is set by hand."""
    made: Store
    if request.param == "memory":
        made = MemoryStore(clock=clock)
    elif request.param == "redis":
        made = RedisStore(request.getfixturevalue("redis_server").url(), clock=clock)
    elif request.param == "postgres":
        made = PostgresStore(request.getfixturevalue("postgres_url"), clock=clock)
    else:
        made = SqliteStore(tmp_path / "g.db", clock=clock)
    yield StoreScript(made)
    made.close()
