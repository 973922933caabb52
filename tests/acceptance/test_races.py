"""Eight processes on one SQLite file that all want the same key: never two holders at a time.

Each race has a negative control, the same race over a store that reads in one transaction and writes in another. It
must be detected, or the race proves nothing.
"""

from functools import partial
from pathlib import Path

import pytest

from callosum.stores.sqlite import SqliteStore
from tests.support.racing import assert_one_holder, caught, contend

PROCESSES = 8
FLAT = ["/repo/a.py"] * PROCESSES
TREE_AND_FILE = ["/repo/", "/repo/a.py"] * (PROCESSES // 2)
CASES = pytest.mark.parametrize(
    ("race", "keys", "attempts"),
    [
        pytest.param("lock", FLAT, 2000, id="lock-flat"),
        pytest.param("lock", TREE_AND_FILE, 300, id="lock-tree-and-file"),
        pytest.param("call", FLAT, 1000, id="call-flat"),
        pytest.param("call", TREE_AND_FILE, 300, id="call-tree-and-file"),
    ],
)


@CASES
def test_one_holder_at_a_time(tmp_path: Path, race: str, keys: list[str], attempts: int) -> None:
    assert_one_holder(tmp_path, race, keys, attempts, partial(SqliteStore, tmp_path / "gate.db"))


@CASES
def test_store_without_transactions_is_detected(tmp_path: Path, race: str, keys: list[str], attempts: int) -> None:
    """The negative control."""
    assert caught(tmp_path, lambda folder: contend(folder, race, keys, 100, torn=True).values())
