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
from callosum.stores.sqlite import SqliteStore, apply, cache, view

KEY = "email:alice@example.com"
KEYS = f'[["{KEY}","write",0]]'
BODY = '{"params":{"path":"/notes.md","content":"# Notes"}}'


@contextlib.contextmanager
def statements(folder: Path) -> Iterator[Operation]:
    """The statements of one tier 1 call on a flat key, as a process sends them that is alone on its file."""
    SqliteStore(folder / "gate.db").close()
    with contextlib.closing(sqlite3.connect(folder / "gate.db", isolation_level=None)) as connection:
        connection.execute("pragma synchronous = normal")
        execute = connection.cursor().execute
        execute(apply._SET_MARKS.format(apply._MARK_ROW), (KEY, "mira", 0, 0, 0, None, 1, 1, 0))

        def operation(_: int) -> None:
            seq = time.time_ns() // 1000
            call = bytearray(os.urandom(16))
            execute("begin immediate")
            execute(cache._VERSION).fetchone()
            execute(view._EARLIER, (call,)).fetchone()
            entry = (seq, "intercept", "default", "mira", "write", 1, "allow", "file-write")
            action = (KEY, KEYS, BODY, call, "done", seq + 300_000_000, bytearray(b"content"))
            execute(apply._ADD_ACTION, (*entry, *action))
            execute(apply._SET_ACTED, (seq, seq, KEY, "mira"))
            execute("commit")
            execute("begin immediate")
            execute(cache._VERSION).fetchone()
            execute(apply._ADD_NOTE, (seq + 1, "complete", "default", "mira", seq, "done", '{"result":{"ok":true}}'))
            execute(apply._SETTLE, ("done", seq + 1, seq))
            execute("commit")

        yield operation
