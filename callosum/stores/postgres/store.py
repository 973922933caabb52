"""The store on a PostgreSQL database: the kernel over the engine, with what only a store over a network offers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from callosum.model import Applied, Entry
from callosum.process import alive
from callosum.stores.base import Clock, Pool, Probe, Request
from callosum.stores.cache import Turns
from callosum.stores.kernel import Kernel
from callosum.stores.postgres.engine import PostgresEngine


class PostgresStore(Kernel):
    """A store in the schema of a PostgreSQL database that ``url`` names. Missing tables are created.

    Time comes from the database's clock; ``clock`` and ``probe`` are for tests. ``state`` is the folder that keeps what
    was acknowledged (``receipt``).
    """

    lanes = 4

    def __init__(
        self, url: str, *, clock: Clock | None = None, probe: Probe = alive, state: Path | None = None
    ) -> None:
        engine = PostgresEngine(url, clock, state)
        super().__init__(engine, probe=probe)
        self.engine: PostgresEngine = engine
        self._turns = Turns()
        self.address = engine.address
        self.listen, self.is_connected = engine.notifier.listen, engine.notifier.is_connected

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        return self.engine.watched.transact(requests, self._in_turn)

    def _in_turn(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        return self._turns.run(self.engine.keys_of(requests), requests, super().transact)

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

    def pause(self, seconds: float) -> None:
        self.engine.notifier.wait(seconds)

    def pool(self) -> Pool:
        return self.engine.connections.state()
