"""The store on a PostgreSQL database: the kernel over the engine, with what only a store over a network offers."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from callosum.model import Entry
from callosum.process import alive
from callosum.stores.base import Clock, Probe
from callosum.stores.network import NetworkStore
from callosum.stores.postgres.engine import PostgresEngine


class PostgresStore(NetworkStore):
    """A store in the schema of a PostgreSQL database that ``url`` names. Missing tables are created.

    Time comes from the database's clock; ``clock`` and ``probe`` are for tests. ``state`` is the folder that keeps what
    was acknowledged (``receipt``).
    """

    lanes = 4

    def __init__(
        self, url: str, *, clock: Clock | None = None, probe: Probe = alive, state: Path | None = None
    ) -> None:
        engine = PostgresEngine(url, clock)
        super().__init__(engine, probe, state, engine.place)
        self.engine: PostgresEngine = engine
        self.address = engine.address

    def maintain(self, horizon: int, budget: int = 2000) -> int:
        deleted = super().maintain(horizon, budget)
        self.engine.divide()
        return deleted

    def take(
        self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: Collection[int] | None = None
    ) -> list[Entry]:
        taken = super().take(until, horizon, limit, delete=delete, only=only)
        if delete:
            self.engine.divide()
        return taken
