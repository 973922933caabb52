"""The shipped store contract over every store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from callosum.stores.memory import MemoryStore
from callosum.stores.sqlite import SqliteStore
from callosum.testing.store_contract import MakeStore, StoreContract


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
