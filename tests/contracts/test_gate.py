"""The shipped gate contract over the embedded gate, with each store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from callosum.gate import Gate, LocalGate
from callosum.rulebook import Rulebook
from callosum.settings import Settings
from callosum.stores.base import Store
from callosum.stores.memory import MemoryStore
from callosum.stores.sqlite import SqliteStore
from callosum.testing import ManualClock
from callosum.testing.gate_contract import RULES, GateContract
from tests.support.world import gate_time


class OverStore(GateContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: ManualClock) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def gate(self, tmp_path: Path, clock: ManualClock, store: Store) -> Iterator[Gate]:
        rules = tmp_path / "rules.json"
        rules.write_text(RULES)
        with (
            gate_time(clock),
            LocalGate(settings=Settings(state=tmp_path), store=store, rules=Rulebook(rules), sleep=clock.sleep) as gate,
        ):
            yield gate


class TestOverMemory(OverStore):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: ManualClock) -> Store:
        return MemoryStore(clock=clock)


class TestOverSqlite(OverStore):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: ManualClock) -> Store:
        return SqliteStore(tmp_path / "gate.db", clock=clock)
