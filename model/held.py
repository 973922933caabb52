"""What the store in memory holds: its records and its journal, to be put back before each transition."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from callosum.model import Entry
from callosum.stores.memory import MemoryEngine, MemoryStore
from callosum.stores.records import DECODE, ActionRecord, MarkRecord

_ACTION: Final = ord("a")
_MARK: Final = ord("m")


@lru_cache(200_000)
def _decoded(kind: int, value: bytes) -> Any:
    return DECODE[kind](value)


class Held(Struct):
    """Everything that a store holds. Whoever has one must not change it."""

    values: dict[bytes, bytes] = {}
    names: list[bytes] = []
    journal: dict[int, Entry] = {}
    seqs: list[int] = []
    _kinds: dict[int, list[Any]] | None = None
    _acts: dict[int, ActionRecord] | None = None

    @classmethod
    def of(cls, store: MemoryStore) -> Held:
        """Return what a store holds. The store must be given something else before it is used again."""
        engine = store.engine
        assert isinstance(engine, MemoryEngine)
        return cls(engine._values, engine._names, engine._journal, engine._seqs)

    def put_into(self, store: MemoryStore) -> None:
        """Let a store hold this, and forget what it knew."""
        engine = store.engine
        assert isinstance(engine, MemoryEngine)
        engine._values, engine._names = self.values.copy(), self.names.copy()
        engine._journal, engine._seqs = self.journal.copy(), self.seqs.copy()
        engine.known.clear()
        store._crowds.forget()

    def records(self) -> dict[int, list[Any]]:
        """Return the records by the letter of their kind, each in the order of their names."""
        kinds = self._kinds
        if kinds is None:
            kinds = self._kinds = {kind: [] for kind in DECODE}
            values = self.values
            for name in self.names:
                kind = name[0]
                kinds[kind].append(_decoded(kind, values[name]))
        return kinds

    @property
    def acts(self) -> dict[int, ActionRecord]:
        """The actions, by id."""
        if self._acts is None:
            self._acts = {record.action.id: record for record in self.records()[_ACTION]}
        return self._acts

    def marks(self) -> dict[tuple[str, str], MarkRecord]:
        """Return the marks, by session and key."""
        return {(record.session, record.key): record for record in self.records()[_MARK]}
