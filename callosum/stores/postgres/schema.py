"""Create the tables, as ``schema.sql`` describes them, and tell what version they are of.

The table ``schema_version`` has one row: the version, and the oldest version of this module that can still use the
tables. A migration only adds, so that servers of the previous version continue to work beside it. ``oldest`` changes
only with a migration that removes something, which must come at least one release after the one that stopped using it.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final, LiteralString

import psycopg
from psycopg import sql

from callosum.errors import StoreError

SCHEMA: Final = 3
_FIRST: Final = 3
"""The first version that this module can use. Versions 1 and 2 had a table for each kind of thing."""
VERSION: Final = "select version, oldest from schema_version"
_TABLES: Final = files("callosum.stores.postgres").joinpath("schema.sql").read_text("utf-8")
_TRIES: Final = 20
_RACED: Final = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateSchema,
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
)
"""Errors of a server that creates a table at the same moment as another server."""


def migrate(connection: psycopg.Connection, schema: str) -> int:
    """Create the tables unless they are there, and return their version; concurrent servers create them only once.

    Servers that start together lock the row of the version. Raises ``StoreError`` if the tables are not Callosum's,
    too old or too new.
    """
    for left in range(_TRIES, -1, -1):
        try:
            return _migrate(connection, schema)
        except _RACED as error:
            if not left or (isinstance(error, psycopg.errors.DuplicateTable) and found(connection, schema) is None):
                raise StoreError(
                    f"the schema {schema!r} holds tables that are not Callosum's: name another one with ?schema="
                ) from error
    raise AssertionError


def _migrate(connection: psycopg.Connection, schema: str) -> int:
    if version := found(connection, schema):
        return version
    with connection.transaction():
        connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(schema)))
        connection.execute(
            "create table if not exists schema_version(one int primary key check (one = 1), version int not null, "
            "oldest int not null)"
        )
        connection.execute("insert into schema_version values(1, 0, 0) on conflict do nothing")
        if version := found(connection, schema, " for update"):
            return version
        connection.execute(_TABLES, prepare=False)
        connection.execute("update schema_version set version = %s, oldest = %s", (SCHEMA, _FIRST))
    return SCHEMA


def found(connection: psycopg.Connection, schema: str, lock: LiteralString = "") -> int | None:
    """Return the version of the tables, None if there are none. Raise ``StoreError`` if this module cannot use them."""
    try:
        row = connection.execute(VERSION + lock, prepare=False).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None
    if not row or not row[0]:
        return None
    version, oldest = row
    if oldest > SCHEMA:
        raise StoreError(
            f"the schema {schema!r} is of version {version}, which needs a newer Callosum than this one, "
            f"which knows {SCHEMA}"
        )
    if version < _FIRST:
        raise StoreError(
            f"the schema {schema!r} is of version {version}, this Callosum works with {SCHEMA}: set it aside "
            f"(`alter schema {schema} rename to {schema}_{version}`; the version that wrote it can export its journal)"
        )
    return int(version)
