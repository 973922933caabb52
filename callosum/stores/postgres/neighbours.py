"""Read what a brief needs from a PostgreSQL store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from callosum.stores import sql_neighbours
from callosum.stores.postgres.statements import SQL


class PostgresNeighbours(sql_neighbours.SqlNeighbours):
    """Read what sessions around this one do."""

    sql = SQL

    def on(self, names: list[str]) -> Iterable[Sequence[Any]]:
        return self._rows("on", names=names)
