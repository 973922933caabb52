"""Create the tables, and migrate an older schema to this version.

The tables, once all migrations have run::

    journal   the entries; a row that opened an action also holds the action's state; partitioned by seq
    mark      what a session knows of a key, and its newest action on it
    live      open leases and questions, waiters, unknown outcomes: one row for each key
    print     fingerprints of actions that happen again when they are repeated
    cover     keys in use that cover others
    session   when each session was last seen, its parent and its predecessor
    meta      the end of observing, and the params of open questions
    turn      rows that transactions lock; they hold no data
    schema_version   one row: version, oldest

A migration only adds, so that servers of the previous version continue to work beside it. ``oldest`` in the database
is the oldest version of this module that can still use the tables. It changes only with a migration that removes
something, which must come at least one release after the one that stopped using it.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

import psycopg
from psycopg import sql

from callosum.errors import StoreError
from callosum.stores.postgres.statements import SQL

SCHEMA: Final = 2
MIGRATIONS: Final = tuple(
    files("callosum.stores.postgres").joinpath(f"schema{version}.sql").read_text("utf-8")
    for version in range(1, SCHEMA + 1)
)
"""SQL that makes each version from the previous one; the first creates version 1."""
_OLDEST: Final = 1
"""Oldest version whose servers can use the tables after the last migration."""
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
    """Migrate the schema to this version and return the version; concurrent servers migrate it only once.

    Servers that start together lock the row of the version. Raises ``StoreError`` if the tables are not Callosum's or
    are too new.
    """
    for left in range(_TRIES, -1, -1):
        try:
            return _migrate(connection, schema)
        except _RACED as error:
            if not left or (isinstance(error, psycopg.errors.DuplicateTable) and _version_row(connection) is None):
                raise StoreError(
                    f"the schema {schema!r} holds tables that are not Callosum's: name another one with ?schema="
                ) from error
    raise AssertionError


def _migrate(connection: psycopg.Connection, schema: str) -> int:
    version_row = _version_row(connection)
    if version_row is not None and version_row[0] >= SCHEMA:
        return _checked(version_row, schema)
    with connection.transaction():
        connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(schema)))
        connection.execute(SQL["make_version"])
        connection.execute(SQL["add_version"])
        row = connection.execute(SQL["lock_version"]).fetchone()
        version, oldest = row or (0, 0)
        for migration in MIGRATIONS[version:]:
            connection.execute(migration, prepare=False)
        if version < SCHEMA:
            version, oldest = SCHEMA, _OLDEST
            connection.execute(SQL["set_version"], (version, oldest))
    return _checked((version, oldest), schema)


def _checked(version_row: tuple[int, int], schema: str) -> int:
    version, oldest = version_row
    if oldest > SCHEMA:
        raise StoreError(
            f"the schema {schema!r} is of version {version}, which needs a newer Callosum than this one, "
            f"which knows {SCHEMA}"
        )
    return version


def _version_row(connection: psycopg.Connection) -> tuple[int, int] | None:
    try:
        row = connection.execute(SQL["version"], prepare=False).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None
    return (row[0], row[1]) if row else None
