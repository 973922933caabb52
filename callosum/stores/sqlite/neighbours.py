"""What a brief reads from a SQLite store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from callosum.stores import sql_neighbours
from callosum.stores.base import Probe
from callosum.stores.rows import as_json
from callosum.stores.sqlite.connection import Execute
from callosum.stores.sqlite.statements import SQL


class SqliteNeighbours(sql_neighbours.SqlNeighbours):
    """One lookup around a session."""

    def __init__(self, execute: Execute, namespace: str, sessions: Sequence[str], probe: Probe) -> None:
        super().__init__(namespace, sessions, probe)
        self._execute = execute

    def read(self, query: str, params: dict[str, Any]) -> list[Any]:
        given = {name: as_json(value) if isinstance(value, list) else value for name, value in params.items()}
        return self._execute(SQL[query], given).fetchall()

    def on(self, names: list[str]) -> Iterable[Sequence[Any]]:
        """Use one statement for each sort of rows: mostly there are few."""
        for name, is_live, is_known, is_crowded in self._rows("which", names=names):
            queries = [("live_on", 1), ("live_on", 0)] if is_live else []
            if is_known:
                queries.append(("crowd_acts" if is_crowded else "acts", 0))
            for query, open_ in queries:
                for row in self._rows(query, key=name, open=open_):
                    yield name, *row
