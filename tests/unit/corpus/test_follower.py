"""The follower: each consumer gets every entry of its gate in order, also what it failed on and what had no room."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from callosum.corpus import follower as module
from callosum.corpus.follower import Batch
from callosum.gate import LocalGate
from callosum.model import Call


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[LocalGate]:
    with LocalGate(tmp_path) as made:
        made.leave_log()
        yield made


class Taken:
    """A consumer that fails while ``fault`` is set."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.names: list[str] = []
        self.fault: Exception | None = None

    def __call__(self, batch: Batch) -> None:
        if self.fault is not None:
            raise self.fault
        self.seqs += [entry.seq for entry, _ in batch]
        self.names += [event.dotted for _, events in batch for event in events]


def look(gate: LocalGate, count: int) -> list[int]:
    return [gate.intercept(Call("mira", "read_file", {"path": f"/{number}"})).id for number in range(count)]


def test_consumer_that_failed_is_named_and_gets_the_same_entries_from_the_journal(gate: LocalGate) -> None:
    well, broken = Taken(), Taken()
    broken.fault = ValueError("no room")
    gate.follower.join("well", well)
    gate.follower.join("broken", broken)
    ids = look(gate, 20)
    assert gate.follower.flush(30)
    assert (well.seqs, broken.seqs) == (ids, [])
    assert gate.follower.behind() == ["broken: 20 entries behind: ValueError: no room"]
    broken.fault = None
    ids += look(gate, 20)
    assert gate.follower.flush(30)
    assert well.seqs == broken.seqs == ids
    assert well.names == broken.names == ["tool.called", "safety.allowed"] * 40
    assert gate.follower.behind() == []


def test_entries_without_room_in_memory_are_read_from_the_journal_in_order(
    gate: LocalGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, order = Taken(), list[int]()
    gate.follower.join("slow", taken, every=3600)
    monkeypatch.setattr(gate.follower, "_room", 5)
    ids = look(gate, 30)
    gate.follower.hand(lambda: order.append(len(taken.seqs)))
    ids += look(gate, 5)
    assert [type(item) for item in gate.follower._waiting if isinstance(item, list) and type(item[0]) is int]
    assert gate.follower.flush(30)
    assert taken.seqs == ids
    assert order == [30]
    assert gate.follower._room == 5


def test_consumer_that_does_not_return_is_named_and_holds_up_no_decision(
    gate: LocalGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STUCK", -1.0)
    inside, go_on = threading.Event(), threading.Event()

    def stop(_: Batch) -> None:
        inside.set()
        go_on.wait(60)

    gate.follower.join("stuck", stop, every=0.01)
    look(gate, 1)
    assert inside.wait(60)
    look(gate, 3)
    (said,) = gate.follower.behind()
    assert said.startswith("stuck: has not returned for 0 s; ")
    assert not gate.follower.flush(0.01)
    go_on.set()
    assert gate.follower.flush(60)
