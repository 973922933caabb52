"""Durable decisions of several processes on one file: a sync serves exactly the commits that it covers."""

import fcntl
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from callosum import Call, LocalGate
from callosum.stores.sqlite import connection
from tests.support.serving import until


class Synced:
    """The entries of another process in the small file that records up to which entry each has synced."""

    def __init__(self, state: Path) -> None:
        self.database = state / "gate.db"
        self.file = os.open(state / "gate.db.sync", os.O_RDWR)

    def tells(self, seq: int) -> None:
        os.pwrite(self.file, struct.pack("<qq", self.database.stat().st_ino, seq), 16)

    def asked(self) -> bytes:
        """Return the request of a process that waits for a sync."""
        return os.pread(self.file, 16, 0)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[LocalGate]:
    with LocalGate(tmp_path / "state") as gate:
        gate.intercept(Call("mira", "message", {"action": "send", "target": "andy", "replyTo": "m", "message": "one"}))
        yield gate


@pytest.fixture
def syncs(gate: LocalGate, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a number that grows with each sync of the log."""
    done: list[int] = []
    real = os.fdatasync

    def sync(descriptor: int) -> None:
        real(descriptor)
        done.append(descriptor)

    monkeypatch.setattr(connection, "_fdatasync", sync)
    return done


@pytest.fixture
def other_process(gate: LocalGate, tmp_path: Path) -> Iterator[Synced]:
    """Simulate another process in the middle of a sync."""
    other = Synced(tmp_path / "state")
    fcntl.flock(other.file, fcntl.LOCK_EX)
    yield other
    os.close(other.file)


def decide(gate: LocalGate) -> int:
    return gate.intercept(
        Call("doug", "message", {"action": "send", "target": "kim", "replyTo": "n", "message": "two"})
    ).id


def test_commit_covered_by_the_sync_of_another_waits_for_its_end(
    gate: LocalGate, syncs: list[int], other_process: Synced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_SYNC_SECONDS", 60)
    answers: list[int] = []
    before = other_process.asked()
    late = threading.Thread(target=lambda: answers.append(decide(gate)))
    late.start()
    until(lambda: other_process.asked() != before)
    late.join(0.05)
    assert not answers, "it was answered while nobody had said that it is on disk"
    other_process.tells(2**62)
    late.join(10)
    assert len(answers) == 1
    assert syncs == []


def test_commit_not_covered_by_the_sync_of_another_makes_its_own(
    gate: LocalGate, syncs: list[int], other_process: Synced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process was stopped during its sync, or its sync began before this decision was committed."""
    monkeypatch.setattr(connection, "_SYNC_SECONDS", 0)
    other_process.tells(1)
    decide(gate)
    assert len(syncs) == 1
