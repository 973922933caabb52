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

from typing import Final

import psycopg
from psycopg import sql

from callosum.errors import StoreError

# Names are compared byte by byte (collate "C"): a tree is a range of keys.
_FIRST: Final = """
-- One row an entry, never changed but for the life of the action that it opened (state, ended, expires,
-- approved, call). seq is the entry's moment in microseconds. token tells the transaction that wrote it.
create table journal(
    seq bigint primary key,
    token bigint not null,
    event text not null,
    namespace text not null,
    session text collate "C" not null,
    run text,
    tool text,
    tier int,
    verdict text,
    rule text,
    action bigint,
    outcome text,
    key text collate "C",
    keys text,
    body text,
    call bytea,
    state text,
    ended bigint,
    expires bigint,
    approved bigint,
    content bytea,
    extra bytea
) with (fillfactor = 90);
-- No index is over what a report changes, so that its update stays on the row's own page.
create index journal_call on journal(call) where call is not null;
create index journal_session on journal(session, seq);

-- What each session knows of a key, and its newest action there. changed: when that last changed it.
create table mark(
    key text collate "C" not null,
    session text collate "C" not null,
    read bigint not null,
    told bigint not null,
    kind int not null,
    note bytea,
    acted bigint,
    changed bigint not null,
    primary key(key, session)
) with (fillfactor = 80);
create index mark_changed on mark(key, changed) where acted is not null;

-- What is live, a row a key: open leases and questions (open = 1), waiters (2), unknown outcomes (0).
create table live(
    key text collate "C" not null,
    open int not null,
    id bigint not null,
    primary key(key, open, id)
);
create index live_waiting on live(id) where open = 2;

-- Digests of acts that happen again when they are repeated, of their origin and their stance.
create table print(
    key text collate "C" not null,
    print bytea not null,
    id bigint not null,
    primary key(key, print, id)
);

-- Keys that cover others: trees (ending in /) and the part of a facet up to its bar.
create table cover(key text collate "C" primary key);

create table session(
    namespace text collate "C" not null,
    name text collate "C" not null,
    seen bigint not null,
    parent text,
    continues text,
    primary key(namespace, name)
);

-- observe: until when the gate only observes. params:<id>: what a question would run.
create table meta(name text collate "C" primary key, value bytea);

-- The rows that transactions take in turn: see turns.py. They hold nothing.
create table turn(name text collate "C" primary key);
"""

# The journal becomes partitions of a table by its own name: see parts.py. What is there stays where it is, as the
# first of them; a statement of a server of the version before finds all by the old name.
_PARTED: Final = """
alter table journal rename to journal_0;
create table journal(like journal_0) partition by range(seq);
alter table journal add constraint journal_seq primary key(seq);
create index journal_calls on journal(call) where call is not null;
create index journal_sessions on journal(session, seq);
alter table journal attach partition journal_0 for values from (minvalue) to (maxvalue);
"""

MIGRATIONS: Final = (_FIRST, _PARTED)
"""What makes each version out of the one before; the first makes version 1 out of nothing."""
SCHEMA: Final = len(MIGRATIONS)
_OLDEST: Final = 1
"""The oldest version whose servers can work on what the last migration leaves."""
_VERSION: Final = (
    "create table if not exists schema_version(one int primary key check (one = 1), "
    "version int not null, oldest int not null)"
)
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
        connection.execute(_VERSION)
        connection.execute("insert into schema_version values(1, 0, 0) on conflict do nothing")
        row = connection.execute("select version, oldest from schema_version for update").fetchone()
        version, oldest = row or (0, 0)
        for migration in MIGRATIONS[version:]:
            connection.execute(migration, prepare=False)
        if version < SCHEMA:
            version, oldest = SCHEMA, _OLDEST
            connection.execute("update schema_version set version = %s, oldest = %s", (version, oldest))
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
        row = connection.execute("select version, oldest from schema_version", prepare=False).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None
    return (row[0], row[1]) if row else None
