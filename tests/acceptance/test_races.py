"""Processes on one store that all want the same key: never two holders at a time.

Each race has a negative control, the same race over a store that reads in one transaction and writes in another. It
must be detected, or the race proves nothing.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from callosum.stores.postgres import PostgresStore
from callosum.stores.redis import RedisStore
from callosum.stores.sqlite import SqliteStore
from tests.support.racing import Torn, TornStore, assert_one_holder, caught, contend

FLAT = ["/repo/a.py"]
TREE_AND_FILE = ["/repo/", "/repo/a.py"]


class TornRedis(Torn, RedisStore):
    """The planted mistake over a server."""


class TornPostgres(Torn, PostgresStore):
    """The planted mistake over a database."""


ENGINES: dict[str, tuple[Any, Any, int]] = {
    "sqlite": (SqliteStore, TornStore, 100),
    "redis": (RedisStore, TornRedis, 30),
    "postgres": (PostgresStore, TornPostgres, 40),
}
"""The store of each engine, the same with the planted mistake, and how often a process tries to show it."""
CASES = pytest.mark.parametrize(
    ("engine", "race", "keys", "attempts"),
    [
        pytest.param("sqlite", "lock", FLAT * 8, 150, id="sqlite-lock-flat"),
        pytest.param("sqlite", "call", FLAT * 8, 100, id="sqlite-call-flat"),
        pytest.param("sqlite", "call", TREE_AND_FILE * 4, 100, id="sqlite-call-tree-and-file"),
        pytest.param("redis", "lock", FLAT * 8, 60, id="redis-lock-flat"),
        pytest.param("redis", "call", TREE_AND_FILE * 4, 60, id="redis-call-tree-and-file"),
        pytest.param("postgres", "lock", FLAT * 6, 60, id="postgres-lock-flat"),
        pytest.param("postgres", "call", TREE_AND_FILE * 3, 60, id="postgres-call-tree-and-file"),
    ],
)


def place(engine: str, request: pytest.FixtureRequest, folder: Path) -> Path | str:
    if engine == "sqlite":
        return folder / "gate.db"
    return str(
        request.getfixturevalue("postgres_url")
        if engine == "postgres"
        else request.getfixturevalue("redis_server").url()
    )


@CASES
def test_one_holder_at_a_time(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str, race: str, keys: list[str], attempts: int
) -> None:
    make = partial(ENGINES[engine][0], place(engine, request, tmp_path))
    assert_one_holder(tmp_path, race, keys, attempts, make)


@CASES
def test_store_without_transactions_is_detected(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str, race: str, keys: list[str], attempts: int
) -> None:
    """The negative control."""
    _, torn, tries = ENGINES[engine]

    def race_once(folder: Path) -> Any:
        return contend(folder, race, keys, tries, make=partial(torn, place(engine, request, folder))).values()

    assert caught(tmp_path, race_once)
