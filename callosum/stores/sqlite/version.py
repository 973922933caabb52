"""The format of a file, read without changing the file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from callosum.errors import StoreError
from callosum.stores.sqlite.connection import BUSY_SECONDS, explained
from callosum.stores.sqlite.format import APPLICATION_ID, SCHEMA, unreadable

KNOWN = SCHEMA


def found(path: Path) -> int | None:
    """Return the format, None without tables. Raises ``StoreError`` for another program's file and another format."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    address = f"{path.absolute().as_uri()}?mode=ro"
    with explained(path), closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS)) as connection:
        (owner,) = connection.execute("pragma application_id").fetchone()
        (version,) = connection.execute("pragma user_version").fetchone()
    if owner != APPLICATION_ID:
        raise StoreError(f"{path} is not a database of Callosum")
    if version != KNOWN:
        raise unreadable(path, version)
    return int(version)
