"""A database file that is removed while in use: the first thread that notices makes all threads leave it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from callosum.gate import LocalGate
from callosum.model import Call
from callosum.stores.sqlite import connection

NOW, NEVER = 0.0, 1e9
"""Seconds between a thread's own checks that the file is still there."""


@pytest.fixture
def other() -> Iterator[ThreadPoolExecutor]:
    """Yield a second thread, always the same one."""
    with ThreadPoolExecutor(1) as threads:
        yield threads


def wrote(gate: LocalGate, path: str) -> int:
    return gate.intercept(Call("mira", "write_file", {"path": path})).id


def remove(state: Path) -> None:
    for file in state.glob("gate.db*"):
        file.unlink()


def test_no_thread_writes_after_another_noticed_the_replaced_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: ThreadPoolExecutor
) -> None:
    monkeypatch.setattr(connection, "LOOK_EVERY", NEVER)
    with LocalGate(tmp_path) as gate:
        wrote(gate, "/a")
        other.submit(wrote, gate, "/b").result()
        remove(tmp_path)
        monkeypatch.setattr(connection, "LOOK_EVERY", NOW)
        noticed = wrote(gate, "/c")
        monkeypatch.setattr(connection, "LOOK_EVERY", NEVER)
        after = other.submit(wrote, gate, "/d").result()
        assert [entry.seq for entry in gate.entries()] == [noticed, after]


def test_reader_notices_the_replaced_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: ThreadPoolExecutor
) -> None:
    monkeypatch.setattr(connection, "LOOK_EVERY", NOW)
    with LocalGate(tmp_path) as gate, LocalGate(tmp_path) as reader:
        wrote(gate, "/a")
        assert len(other.submit(reader.entries).result()) == 1
        remove(tmp_path)
        noticed = wrote(gate, "/b")
        assert [entry.seq for entry in other.submit(reader.entries).result()] == [noticed]


def test_connections_to_the_replaced_file_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LOOK_EVERY", NOW)

    def held() -> int:
        return sum("gate.db" in str(link.resolve()) for link in Path("/proc/self/fd").iterdir())

    with LocalGate(tmp_path) as gate:
        wrote(gate, "/a")
        before = held()
        for number in range(5):
            remove(tmp_path)
            wrote(gate, f"/{number}")
        assert held() == before > 0
