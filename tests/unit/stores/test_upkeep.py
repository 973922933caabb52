"""Upkeep of a file that others write to: it reads first and locks the file only to delete."""

import sqlite3
from pathlib import Path

import pytest

from callosum.errors import StoreUnavailable
from callosum.gate import LocalGate
from callosum.model import DAY, Call
from callosum.stores.sqlite import SqliteStore, connection


def test_upkeep_with_nothing_to_delete_does_not_lock_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.05)
    with LocalGate(tmp_path) as gate:
        for number in range(20):
            id = gate.intercept(Call("mira", "write_file", {"path": f"/{number}", "content": "x"})).id
            gate.complete("mira", id=id)
    store = SqliteStore(tmp_path / "gate.db")
    other = sqlite3.connect(tmp_path / "gate.db", isolation_level=None)
    other.execute("begin immediate")
    assert store.maintain(store.now() - DAY) == 0
    with pytest.raises(StoreUnavailable):  # the control: deleting old data does need the lock
        store.maintain(store.now() + DAY)
    other.execute("rollback")
    assert store.maintain(store.now() + DAY) > 0
    other.close()
    store.close()
