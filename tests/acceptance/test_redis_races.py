"""Eight processes on one Redis that want the same key: never two holders; each race has a negative control."""

from functools import partial
from pathlib import Path

import pytest

from callosum.stores.redis import RedisStore
from tests.support.racing import Torn, assert_one_holder, caught, contend
from tests.support.redis_server import RedisServer

PROCESSES = 8
FLAT = ["/repo/a.py"] * PROCESSES
TREE_AND_FILE = ["/repo/", "/repo/a.py"] * (PROCESSES // 2)
CASES = pytest.mark.parametrize(
    ("race", "keys", "attempts"),
    [
        pytest.param("lock", FLAT, 300, id="lock-flat"),
        pytest.param("lock", TREE_AND_FILE, 100, id="lock-tree-and-file"),
        pytest.param("call", FLAT, 200, id="call-flat"),
        pytest.param("call", TREE_AND_FILE, 100, id="call-tree-and-file"),
    ],
)


class TornStore(Torn, RedisStore):
    """Over a server."""


@CASES
def test_one_holder_at_a_time(
    tmp_path: Path, redis_server: RedisServer, race: str, keys: list[str], attempts: int
) -> None:
    assert_one_holder(tmp_path, race, keys, attempts, partial(RedisStore, redis_server.url()))


@CASES
def test_store_without_transactions_is_detected(
    tmp_path: Path, redis_server: RedisServer, race: str, keys: list[str], attempts: int
) -> None:
    make = partial(TornStore, redis_server.url())
    assert caught(tmp_path, lambda folder: contend(folder, race, keys, 30, make=make).values())
