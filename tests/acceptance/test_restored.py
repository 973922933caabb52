"""A database that is not in WAL mode, as ``vacuum into`` makes it: the gate sets WAL mode before it decides."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
from contextlib import closing
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from callosum.errors import StoreUnavailable
from callosum.model import Change
from callosum.stores.sqlite import SqliteStore, connection
from callosum.testing.script import StoreScript

PROCESSES = 6
ACTS = 5


def mode(file: Path) -> str:
    with closing(sqlite3.connect(file)) as onlooker:
        return str(onlooker.execute("pragma journal_mode").fetchone()[0])


@pytest.fixture
def restored(tmp_path: Path) -> Path:
    """Return a store with one action, saved with ``vacuum into`` and put in a state folder."""
    store = SqliteStore(tmp_path / "lost.db")
    StoreScript(store).act("mira", "doc:plan")
    store.close()
    file = tmp_path / "state" / "gate.db"
    file.parent.mkdir()
    with closing(sqlite3.connect(tmp_path / "lost.db")) as source:
        source.execute("vacuum into ?", (str(file),))
    assert mode(file) == "delete"
    return file


def durable_action(file: Path, number: int) -> int:
    """Make one durable action on a new connection; return its id once it is acknowledged."""
    store = SqliteStore(file)
    try:
        return StoreScript(store).act(f"s{number}", f"doc:{number}", durable=True)
    finally:
        store.close()


def test_commit_in_a_restored_database_is_acknowledged(restored: Path) -> None:
    id = durable_action(restored, 1)
    store = SqliteStore(restored)
    script = StoreScript(store)
    answer = store.attempt(
        [(script.scope("doug", ["doc:plan"], durable=True), lambda _: Change((script.entry("doug"),)))]
    )
    assert answer is not None
    store.to_sync(answer[1])()
    assert [entry.session for entry in store.entries()] == ["mira", "s1", "doug"]
    assert store.entries()[1].seq == id
    store.close()
    assert mode(restored) == "wal"


def act_often(file: Path, number: int, together: Barrier, answers: Queue[list[int] | str]) -> None:
    try:
        together.wait(60)
        answers.put([durable_action(file, number) for _ in range(ACTS)])
    except Exception as error:  # noqa: BLE001 - told to the test
        answers.put(repr(error))


def test_processes_that_open_it_at_once_all_get_their_answers(restored: Path) -> None:
    context = multiprocessing.get_context("spawn")
    together, answers = context.Barrier(PROCESSES), context.Queue()
    processes = [
        context.Process(target=act_often, args=(restored, number, together, answers)) for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    told = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert all(isinstance(ids, list) for ids in told), told
    store = SqliteStore(restored)
    assert {id for ids in told for id in ids} < {entry.seq for entry in store.entries()}
    assert len(store.entries()) == 1 + PROCESSES * ACTS
    store.close()


def test_opening_waits_for_a_current_reader(restored: Path) -> None:
    """For example a program that copies the file. The change of mode needs exclusive access for a moment."""
    with closing(sqlite3.connect(restored, isolation_level=None)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from journal").fetchall()
        found: list[int] = []
        opener = threading.Thread(target=lambda: found.append(durable_action(restored, 1)))
        opener.start()
        opener.join(0.2)
        assert opener.is_alive()
        reader.execute("commit")
        opener.join(10)
    assert len(found) == 1
    assert mode(restored) == "wal"


def test_opening_is_refused_while_another_program_keeps_reading(
    restored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal is better than a store that commits and then reports a failure."""
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.2)
    with closing(sqlite3.connect(restored, isolation_level=None)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from journal").fetchall()
        with pytest.raises(StoreUnavailable, match="is not in WAL mode, and was in use"):
            SqliteStore(restored)
    assert durable_action(restored, 1)
