"""Processes that open an empty state folder at the same moment all get one store."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from callosum.gate import LocalGate
from callosum.model import Call
from callosum.stores.sqlite import SqliteStore

PROCESSES = 8
FILES = 12


def open_all(folder: Path, together: Barrier, answers: Queue[str]) -> None:
    try:
        for number in range(FILES):
            together.wait(60)
            SqliteStore(folder / str(number) / "gate.db").close()
        answers.put("")
    except Exception as error:  # noqa: BLE001 - told to the test
        together.abort()
        answers.put(repr(error))


def test_eight_processes_create_one_store(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.racing"])
    together, answers = context.Barrier(PROCESSES), context.Queue()
    processes = [context.Process(target=open_all, args=(tmp_path, together, answers)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    assert [answers.get(timeout=120) for _ in processes] == [""] * PROCESSES
    for process in processes:
        process.join()


def test_another_thread_of_the_process_does_not_drop_the_file_lock(tmp_path: Path) -> None:
    """Otherwise the next process that closes takes itself for the last one and removes the log in use."""
    state = tmp_path / "state"
    look = "import sys; from callosum import LocalGate; print(len(LocalGate(sys.argv[1]).entries(limit=1000)))"

    def another() -> int:
        found = subprocess.run([sys.executable, "-c", look, str(state)], capture_output=True, text=True, check=True)
        return int(found.stdout)

    with LocalGate(state) as gate:
        gate.intercept(Call("mira", "read", {"path": "/1"}))
        thread = threading.Thread(target=gate.status)
        thread.start()
        thread.join()
        log = state / "gate.db-wal"
        before = log.stat().st_ino
        assert another() == 1
        assert log.stat().st_ino == before
        for number in range(3):
            gate.intercept(Call("mira", "read", {"path": f"/{number}"}))
        assert another() == 4
        assert len(gate.entries(limit=1000)) == 4
