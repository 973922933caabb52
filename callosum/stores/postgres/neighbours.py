"""Read what a brief needs from a PostgreSQL store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from callosum.stores import sql_neighbours
from callosum.stores.base import Probe
from callosum.stores.postgres.statements import SQL

Read = Callable[..., list[Any]]


class PostgresNeighbours(sql_neighbours.SqlNeighbours):
    """Read what sessions around this one do. ``read`` runs one statement."""

    def __init__(self, read: Read, namespace: str, sessions: Sequence[str], probe: Probe) -> None:
        super().__init__(namespace, sessions, probe)
        self._read = read

    def read(self, query: str, params: dict[str, Any]) -> list[Any]:
        return self._read(SQL[query], params)

    def on(self, names: list[str]) -> Iterable[Sequence[Any]]:
        return self._rows("on", names=names)
