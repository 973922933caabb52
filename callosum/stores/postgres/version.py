"""Read the schema version of the tables without changing them."""

from __future__ import annotations

import psycopg

from callosum.stores.postgres.connections import PostgresConnections, address_of, explained
from callosum.stores.postgres.schema import SCHEMA, VERSION, checked

KNOWN = SCHEMA


def found(url: str) -> int | None:
    """Return the version of the tables, None if there are none yet. Raises ``StoreError`` if they cannot be used."""
    address = address_of(url)
    with explained(address), PostgresConnections(address).alone() as connection:
        try:
            row = connection.execute(VERSION, prepare=False).fetchone()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return None
    return checked((row[0], row[1]), address.schema) if row and row[0] else None
