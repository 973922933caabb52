"""What the gate's own SQLite statements cost without the gate: how far a pair of transactions can go down.

The eleven statements of a tier 1 call (intercept and complete), with ready-made parameters, on one
cursor, over the gate's own tables. No rules, no policy, no redaction, no objects: whatever is built on
these statements takes longer.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Operation
from callosum.stores import names
from callosum.stores.sqlite import SqliteStore
from callosum.stores.sqlite import statements as sql

KEY = "email:alice@example.com"
KEYS = f'[["{KEY}","write"]]'
BODY = '{"params":{"path":"/notes.md","content":"# Notes"}}'
MARK, ACTION = bytes(100), bytes(220)
"""Values of about the length that records of such a call have."""


@contextlib.contextmanager
def statements(folder: Path) -> Iterator[Operation]:
    """The statements of one tier 1 call on a flat key, as a process sends them that is alone on its file."""
    SqliteStore(folder / "gate.db").close()
    mark = names.mark("default", "mira", KEY)
    with contextlib.closing(sqlite3.connect(folder / "gate.db", isolation_level=None)) as connection:
        connection.execute("pragma synchronous = normal")
        execute = connection.cursor().execute

        def operation(_: int) -> None:
            seq = time.time_ns() // 1000
            call = names.call("default", os.urandom(16))
            execute("begin immediate")
            execute(sql.VERSION).fetchone()
            execute(sql.GET[1], (bytearray(call),)).fetchone()
            entry = (seq, "intercept", "default", "mira", seq, "", "write", 1, "allow", "file-write", None)
            execute(sql.ADD_ENTRY, (*entry, KEY, KEYS, BODY, bytearray(ACTION)))
            execute(sql.PUT[2], (bytearray(mark), bytearray(MARK), bytearray(call), bytearray(9)))
            execute("commit")
            execute("begin immediate")
            execute(sql.VERSION).fetchone()
            execute(sql.ADD_NOTE, (seq + 1, "complete", "default", "mira", seq, "done", '{"result":{"ok":true}}'))
            execute(sql.PUT_OF_ENTRY, (bytearray(ACTION), seq))
            execute("commit")

        yield operation
