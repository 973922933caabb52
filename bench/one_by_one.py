"""The server with a transaction of its own for every request, each fully synchronised before the next begins.

It is ``callosum serve`` in all but that: the same application, policy and statements. The commit itself syncs
(``synchronous = FULL``), on the event loop, and SQLite moves the log into the file when it sees fit: handing
either to a thread made this peer slower.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from callosum.cli import main
from callosum.model import Applied
from callosum.server import writer
from callosum.stores.base import Request
from callosum.stores.sqlite import SqliteStore
from callosum.stores.sqlite.connection import SqliteConnections
from callosum.stores.sqlite.log_watch import LogWatch

_open_file = SqliteConnections._open_file
_attempt = SqliteStore.attempt


def open_file(self: SqliteConnections) -> tuple[sqlite3.Connection, int, LogWatch | None]:
    """Open as the server does, but sync in each commit."""
    opened = _open_file(self)
    opened[0].execute("pragma synchronous = full")
    return opened


def attempt(self: SqliteStore, requests: Sequence[Request]) -> tuple[list[Applied | Exception], int] | None:
    """What is committed is synced: nothing is left to sync."""
    done = _attempt(self, requests)
    return None if done is None else (done[0], 0)


def tend(self: SqliteStore) -> None:
    """Leave that to SQLite."""


def change() -> None:
    """Make the server of this process the peer."""
    writer.BATCH = 1  # type: ignore[misc]
    writer.LATE = 3600  # type: ignore[misc]  # all 64 connections wait in line here
    writer.TEND_EVERY = 1.0  # type: ignore[misc]
    SqliteConnections._open_file = open_file  # type: ignore[method-assign]
    SqliteStore.attempt = attempt  # type: ignore[method-assign]
    SqliteStore.tend = tend  # type: ignore[method-assign]


if __name__ == "__main__":
    change()
    main()
