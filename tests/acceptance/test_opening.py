"""Processes that open a state folder at the same moment, when nothing is there yet, all get the one store."""

from __future__ import annotations

import multiprocessing
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

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


def test_eight_processes_make_one_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    together, answers = context.Barrier(PROCESSES), context.Queue()
    processes = [context.Process(target=open_all, args=(tmp_path, together, answers)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    assert [answers.get(timeout=120) for _ in processes] == [""] * PROCESSES
    for process in processes:
        process.join()
