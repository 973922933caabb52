"""What a brief reads from a SQLite store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from callosum.stores import sql_neighbours
from callosum.stores.rows import as_json
from callosum.stores.sqlite.connection import Execute
from callosum.stores.sqlite.statements import SQL


def rows_of(execute: Execute, query: str, params: Any) -> list[Any]:
    """Return the rows of a statement. SQLite takes a list among the params as JSON."""
    if isinstance(params, dict):
        return execute(query, {name: as_json(v) if isinstance(v, list) else v for name, v in params.items()}).fetchall()
    return execute(query, [as_json(v) if isinstance(v, list) else v for v in params]).fetchall()


class SqliteNeighbours(sql_neighbours.SqlNeighbours):
    """One lookup around a session."""

    sql = SQL

    def on(self, names: list[str]) -> Iterable[Sequence[Any]]:
        """Use one statement for each sort of rows: mostly there are few."""
        for name, is_live, is_known, is_crowded in self._rows("which", names=names):
            queries = [("live_on", 1), ("live_on", 0)] if is_live else []
            if is_known:
                queries.append(("crowd_acts" if is_crowded else "acts", 0))
            for query, open_ in queries:
                for row in self._rows(query, key=name, open=open_):
                    yield name, *row
