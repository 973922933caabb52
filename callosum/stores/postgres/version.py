"""Read the schema version of the tables without changing them."""

from __future__ import annotations

import psycopg

from callosum.stores.postgres.connections import PostgresConnections, address_of, explained
from callosum.stores.postgres.schema import SCHEMA
from callosum.stores.postgres.statements import SQL

KNOWN = SCHEMA


def found(url: str) -> int | None:
    """Return the version of the tables, None if there are none yet."""
    address = address_of(url)
    with explained(address), PostgresConnections(address).alone() as connection:
        try:
            row = connection.execute(SQL["version"], prepare=False).fetchone()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return None
    return row[0] if row else None
