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
from callosum.stores.sqlite import SqliteStore, apply, look

KEY = "email:alice@example.com"
KEYS = f'[["{KEY}","write",0]]'
BODY = '{"params":{"path":"/notes.md","content":"# Notes"}}'
LOOK = (
    "select (select max(seq) from journal), (select seq from journal where call = ?1 order by seq desc limit 1), "
    "exists(select 1 from cover where key in (?2)), 0, 0"
)
END = "update journal set state = ?, ended = ? where seq = ?"


@contextlib.contextmanager
def statements(folder: Path) -> Iterator[Operation]:
    """The statements of one tier 1 call on a flat key."""
    SqliteStore(folder / "gate.db").close()
    with contextlib.closing(sqlite3.connect(folder / "gate.db", isolation_level=None)) as connection:
        connection.execute("pragma synchronous = normal")
        execute = connection.cursor().execute

        def operation(_: int) -> None:
            seq = time.time_ns() // 1000
            call = os.urandom(16)
            execute("begin immediate")
            execute(LOOK, (call, KEY + "|")).fetchone()
            execute(look._KEY, (KEY, "mira")).fetchall()
            entry = (seq, "intercept", "default", "mira", None, "write", 1, "allow", "file-write", seq, None)
            action = (KEY, KEYS, BODY, call, "done", 0, seq + 300_000_000, 0, b"content", None)
            execute(apply._OPEN, (*entry, *action))
            execute(apply._SET_MARK, (KEY, "mira", 0, 0, 0, None, seq, seq, 0))
            execute("commit")
            execute("begin immediate")
            execute(look._FOUND, (seq,)).fetchone()
            execute(apply._NOTE, (seq + 1, "complete", "default", "mira", seq, "done", '{"result":{"ok":true}}'))
            execute(END, ("done", seq + 1, seq))
            execute("commit")

        yield operation
