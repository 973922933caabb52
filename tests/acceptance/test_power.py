"""Decisions of tiers 3 and 4 survive a power cut; the last moments of lower tiers need not.

A power cut is simulated at its worst: the disk then holds just what was there when the write-ahead log
was last synced by ``SqliteConnections.sync`` (the kernel wrote nothing by itself). Checkpoints sync as well
and only add to that, so they are kept out of the way.
"""

import os
import shutil
from pathlib import Path

import pytest

from callosum import Call, LocalGate
from callosum.stores.sqlite import connection

HIGH = {"action": "send", "target": "andy", "replyTo": "msg-500"}
LOW = {"action": "send", "target": "general"}


class Disk:
    """The files as of the last sync, which is what a power cut leaves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, state: Path, kept: Path) -> None:
        self.state, self.kept, self.syncs = state, kept, 0
        real = os.fdatasync

        def sync(descriptor: int) -> None:
            real(descriptor)
            self.syncs += 1
            self.keep()

        monkeypatch.setattr(connection, "_fdatasync", sync)

    def keep(self) -> None:
        shutil.rmtree(self.kept, ignore_errors=True)
        self.kept.mkdir()
        for name in ("gate.db", "gate.db-wal", "content.key"):
            if (self.state / name).exists():
                shutil.copy(self.state / name, self.kept / name)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Disk:
    return Disk(monkeypatch, tmp_path / "state", tmp_path / "kept")


def acknowledged(gate: LocalGate, params: dict[str, str], count: int) -> set[int]:
    ids = set()
    for number in range(count):
        text = f"message number {number} says something of its own {number * 7}"
        decision = gate.intercept(Call(f"mira{number}", "message", {**params, "message": text}, call_id=f"c{number}"))
        ids.add(decision.id)
    return ids


def survived(kept: Path) -> set[int]:
    with LocalGate(kept) as gate:
        return {entry.seq for entry in gate.entries(limit=10_000)}


def test_every_acknowledged_decision_of_tier_3_is_there_after_a_power_cut(disk: Disk) -> None:
    with LocalGate(disk.state) as gate:
        told = acknowledged(gate, HIGH, 40)
        assert disk.syncs == 40  # one a decision
        assert told <= survived(disk.kept)


def test_a_report_needs_no_sync_and_its_loss_leaves_unknown(disk: Disk) -> None:
    with LocalGate(disk.state) as gate:
        decision = gate.intercept(Call("mira", "message", {**HIGH, "message": "On my way to you"}))
        syncs = disk.syncs
        gate.complete("mira", id=decision.id)
        assert disk.syncs == syncs
    with LocalGate(disk.kept) as gate:
        assert [lock.id for lock in gate.status().locks] == [decision.id]  # open: it will run out and be unknown


def test_power_cut_loses_decisions_that_were_not_synced(disk: Disk) -> None:
    """Negative control: at tier 2, where nothing is synced, the same power cut loses decisions."""
    with LocalGate(disk.state) as gate:
        gate.intercept(Call("mira", "message", {**HIGH, "message": "This one is synced to the disk"}))
        told = acknowledged(gate, LOW, 40)
        assert not told & survived(disk.kept)


def test_one_sync_serves_all_earlier_commits(disk: Disk) -> None:
    """A commit that is covered by a sync that began after it does not sync again."""
    with LocalGate(disk.state) as gate:
        decision = gate.intercept(Call("mira", "message", {**HIGH, "message": "This one is synced to the disk"}))
        connections = connection.SqliteConnections(disk.state / "gate.db")
        connections.get()
        syncs = disk.syncs
        connections.sync(decision.id)
        assert disk.syncs == syncs
        connections.sync(decision.id + 1)
        assert disk.syncs == syncs + 1
        connections.close()


def test_idle_waiter_causes_no_sync(disk: Disk) -> None:
    """The waiter polls several times a second, for as long as a minute."""
    naps = 0

    def sleep(_: float) -> None:
        nonlocal naps
        naps += 1
        if naps == 40:
            gate.release("doug", key)

    with LocalGate(disk.state, sleep=sleep) as gate:
        call = Call("mira", "message", {**HIGH, "message": "On my way to you"}, wait=60)
        key = gate.explain(call)[1].context_keys[0]
        gate.lock("doug", key, 4)
        syncs = disk.syncs
        assert gate.intercept(call).proceed
        assert naps == 40
        assert disk.syncs - syncs <= 4  # its place, what it kept of it, and the decision


def test_a_record_of_another_file_covers_nothing(disk: Disk) -> None:
    """A database that was created again starts without syncs, whatever the small file says."""
    with LocalGate(disk.state) as gate:
        acknowledged(gate, HIGH, 1)
    for file in disk.state.glob("gate.db*"):
        if file.suffix != ".sync":
            file.unlink()
    (disk.state / "gate.db").touch()
    (disk.state / "another").touch()  # so that the inode is not used again at once
    with LocalGate(disk.state) as gate:
        syncs = disk.syncs
        acknowledged(gate, HIGH, 3)
        assert disk.syncs == syncs + 3
