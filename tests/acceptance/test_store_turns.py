"""Test that writers of a busy SQLite file line up behind the lock on its side file, which a dead process frees."""

import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from callosum.model import Change, Entry, Event, Scope, View
from callosum.stores.base import Request
from callosum.stores.sqlite import SqliteStore
from callosum.stores.sqlite.connection import SqliteConnections

HOLD = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
"""Take the lock on the side file and keep it until the process ends."""


def note() -> Request:
    def step(_: View) -> Change:
        return Change((Entry(Event.LATE, "mira", body={}),))

    return Scope("default", "mira"), step


def test_writer_waits_for_the_process_ahead_of_it_until_that_process_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gate.db"
    store = SqliteStore(path)
    lined_up, written = threading.Event(), threading.Event()
    line_up = SqliteConnections._line_up

    def lining_up(*args: object) -> None:
        lined_up.set()
        line_up(*args)  # type: ignore[arg-type]

    def write() -> None:
        store.transact([note()])
        written.set()

    monkeypatch.setattr(SqliteConnections, "_line_up", lining_up)
    with ThreadPoolExecutor(1) as writer:
        writer.submit(write).result(20)  # its thread has the file open from now on
        written.clear()
        busy = sqlite3.connect(path, isolation_level=None)
        busy.execute("begin immediate")
        with subprocess.Popen(
            [sys.executable, "-c", HOLD, f"{path}.turn"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as ahead:
            assert ahead.stdout is not None
            assert ahead.stdout.readline() == b"held\n"
            waiting = writer.submit(write)
            try:
                assert lined_up.wait(2), "the writer found the file busy and waits in SQLite"
                busy.execute("rollback")
                assert not written.wait(0.3), "the file is free, but it is the turn of the process ahead"
            finally:
                ahead.kill()
        waiting.result(20)
        busy.close()
    assert written.is_set()
    assert len(store.entries()) == 2
    store.close()
