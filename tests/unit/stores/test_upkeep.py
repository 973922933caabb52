"""Upkeep of a file that others write to: it looks before it takes their turn."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from callosum.errors import StoreUnavailable
from callosum.gate import LocalGate
from callosum.model import DAY, Call
from callosum.stores.sqlite import SqliteStore, connection


def test_where_nothing_is_to_be_forgotten_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.05)
    with LocalGate(tmp_path) as gate:
        for number in range(20):
            id = gate.intercept(Call("mira", "write_file", {"path": f"/{number}", "content": "x"})).id
            gate.complete("mira", id=id)
    store = SqliteStore(tmp_path / "gate.db")
    other = sqlite3.connect(tmp_path / "gate.db", isolation_level=None)
    other.execute("begin immediate")
    assert store.maintain(store.now() - DAY) == 0
    with pytest.raises(StoreUnavailable):  # the control: what is old does need the file
        store.maintain(store.now() + DAY)
    other.execute("rollback")
    assert store.maintain(store.now() + DAY) > 0
    other.close()
    store.close()
