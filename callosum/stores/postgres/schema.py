"""The tables, and how an older schema becomes this one.

What there is, once all migrations have run::

    journal   the entries, and in the rows of those that opened one the life of an action; parted by seq
    mark      what a session knows of a key, and its newest action there
    live      open leases and questions, waiters, unknown outcomes: a row a key
    print     digests of acts that happen again when they are repeated
    cover     keys in use that cover others
    session   who was seen when, who started it, whom it continues
    meta      observe, and what open questions would run
    turn      rows that transactions take in turn, empty
    schema_version   one row: version, oldest

A migration only adds, so that servers of the version before go on working beside it. ``oldest`` in the
database is the oldest version of this module that can still use what is there: it moves only with a migration
that takes something away, which is for a release after the one that stopped using it.
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
"""What makes each version out of the one before; the first makes version 1 out of nothing."""
_OLDEST: Final = 1
"""The oldest version whose servers can work on what the last migration leaves."""
_TRIES: Final = 20
_RACED: Final = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateSchema,
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
)
"""What a server meets that creates the same thing at the same moment as another."""


def migrate(connection: psycopg.Connection, schema: str) -> int:
    """Brings the schema up to this version, once, whoever else tries at the same moment; returns its version.

    Servers that start together take turns by the row of the version. Raises ``StoreError`` where the tables
    are not ours, or too new.
    """
    for left in range(_TRIES, -1, -1):
        try:
            return _migrate(connection, schema)
        except _RACED as error:
            if not left or (isinstance(error, psycopg.errors.DuplicateTable) and _ours(connection) is None):
                raise StoreError(
                    f"the schema {schema!r} holds tables that are not Callosum's: name another one with ?schema="
                ) from error
    raise AssertionError


def _migrate(connection: psycopg.Connection, schema: str) -> int:
    found = _ours(connection)
    if found is not None and found[0] >= SCHEMA:
        return _checked(found, schema)
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


def _checked(found: tuple[int, int], schema: str) -> int:
    version, oldest = found
    if oldest > SCHEMA:
        raise StoreError(
            f"the schema {schema!r} is of version {version}, which needs a newer Callosum than this one, "
            f"which knows {SCHEMA}"
        )
    return version


def _ours(connection: psycopg.Connection) -> tuple[int, int] | None:
    try:
        row = connection.execute(SQL["version"], prepare=False).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None
    return (row[0], row[1]) if row else None
