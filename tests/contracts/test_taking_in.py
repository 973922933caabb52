"""A gate takes in the records of a spool."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from callosum.model import SECOND, Call, Event, Kind, Outcome, State, Verdict
from callosum.testing import ManualClock
from callosum.testing.script import StoreScript
from callosum.wire import LateCall, LateClassification
from tests.support.world import World, gate_time, kinds

TEXT = {"text": "the quarterly numbers are attached, have a look before noon"}


@pytest.fixture
def world(tmp_path: Path, script: StoreScript, clock: ManualClock) -> Iterator[World]:
    world = World(tmp_path, lambda _clock, _probe: script.store, clock=clock)
    with gate_time(clock):
        yield world


def at(world: World, seconds: float) -> float:
    """Return the time ``seconds`` from now, in Unix seconds."""
    return world.clock.now / SECOND + seconds


def late(world: World, call: Call, kind: str = "call", **more: Any) -> LateCall:
    """Return a record as a client on the gate's machine writes it: classified and without raw params."""
    classification = world.gate.rules.current().classify(call)
    found = LateClassification(
        tier=classification.tier, keys=classification.keys, rule=classification.rule, content=classification.content
    )
    fingerprint = more.pop("content_key", world.gate.rules.fingerprint)
    redacted = replace(call, params={"text": "(59 characters)"})
    return LateCall(call=redacted, kind=kind, v=2, found=found, content_key=fingerprint, **more)


def take_in(world: World, record: LateCall, now: float | None = None) -> None:
    world.gate._drive(world.gate.operations.take_in([record], now))


def state_of(world: World, id: int) -> State:
    action = world.store.action("default", id)
    assert action is not None
    return action.state


def taken_in(world: World) -> int:
    """Return the id of the only action that was taken in."""
    (entry,) = [entry for entry in world.gate.entries() if entry.event is Event.LATE]
    return entry.seq


@pytest.mark.parametrize(("read_at", "stale"), [(0, True), (50, False)])
def test_late_change_has_the_time_at_which_it_was_made(world: World, read_at: float, stale: bool) -> None:
    made: dict[str, Any] = {"started": at(world, 10), "ended": at(world, 20)}
    world.after(read_at)
    world.do("doug", "look", "plan")
    world.after(100 - read_at)
    take_in(world, late(world, world.call("mira", "act1", "plan"), **made))
    assert (Kind.STALE in kinds(world.ask("doug", "act1", "plan"))) is stale


@pytest.mark.parametrize(("changed_at", "stale"), [(5, False), (30, True)])
def test_late_write_counts_as_a_read_of_its_session_from_its_start(
    world: World, changed_at: float, stale: bool
) -> None:
    world.do("mira", "look", "other")
    made: dict[str, Any] = {"started": at(world, 10), "ended": at(world, 20)}
    world.after(changed_at)
    world.do("doug", "act1", "plan")
    world.after(60 - changed_at)
    take_in(world, late(world, world.call("mira", "act1", "plan"), **made))
    world.after(1)
    assert (Kind.STALE in kinds(world.ask("mira", "act1", "plan"))) is stale


def test_late_read_sets_the_read_mark(world: World) -> None:
    world.do("doug", "act1", "plan")
    world.after(10)
    take_in(world, late(world, world.call("mira", "look", "plan"), started=at(world, -1), ended=at(world, 0)))
    assert world.ask("mira", "act1", "plan").verdict is Verdict.ALLOW
    assert Kind.STALE in kinds(world.ask("anna", "act1", "plan")), (
        "the control: a session that has not read it is notified"
    )


def test_same_message_is_a_duplicate_of_a_late_one(world: World) -> None:
    take_in(world, late(world, world.call("mira", "send2", "plan", params=TEXT), ended=at(world, -1)))
    assert Kind.DUPLICATE in kinds(world.ask("doug", "send2", "plan", params=TEXT))


def test_hashes_of_another_content_key_are_not_compared(world: World) -> None:
    record = late(world, world.call("mira", "send2", "plan", params=TEXT), content_key="0011223344556677")
    take_in(world, record)
    take_in(world, record)
    assert taken_in(world), "its digest still distinguishes the record from others"
    assert Kind.DUPLICATE not in kinds(world.ask("doug", "send2", "plan", params=TEXT))


@pytest.mark.parametrize("outcome", list(Outcome))
def test_record_that_is_taken_in_twice_takes_effect_once(world: World, outcome: Outcome) -> None:
    record = late(world, world.call("mira", "act3", "plan"), outcome=outcome, started=at(world, 0), ended=at(world, 1))
    world.after(5)
    take_in(world, record)
    entries = world.gate.entries()
    world.after(5)
    take_in(world, record)
    assert world.gate.entries() == entries
    assert state_of(world, taken_in(world)) is State(outcome.value)


def test_unknown_late_call_is_evidence_and_a_failed_one_is_not(world: World) -> None:
    take_in(world, late(world, world.call("mira", "act3", "one"), outcome=Outcome.FAILED))
    take_in(world, late(world, world.call("mira", "act3", "two"), outcome=Outcome.UNKNOWN))
    assert kinds(world.ask("doug", "act3", "one")) == set()
    assert Kind.UNKNOWN in kinds(world.ask("doug", "act3", "two"))


def test_times_are_clamped_between_the_last_decision_and_now(world: World) -> None:
    read = world.do("mira", "look", "plan")
    world.after(10)
    record = late(world, world.call("mira", "act1", "plan"), started=at(world, -1000), ended=at(world, 1000))
    take_in(world, record)
    (entry,) = [entry for entry in world.gate.entries() if entry.event is Event.LATE]
    assert entry.body["started"] == read.id / SECOND
    action = world.store.action("default", entry.seq)
    assert action is not None
    assert read.id < action.ended <= world.store.now()


def test_clock_of_another_machine_is_corrected_by_the_time_of_sending(world: World) -> None:
    world.do("mira", "look", "plan")
    world.after(100)
    ahead = 3600.0
    record = late(world, world.call("mira", "act1", "plan"), started=at(world, ahead - 20), ended=at(world, ahead - 10))
    take_in(world, record, now=at(world, ahead))
    action = world.store.action("default", taken_in(world))
    assert action is not None
    assert action.ended == pytest.approx(world.clock.now - 10 * SECOND, abs=SECOND)


@pytest.mark.parametrize("by", ["id", "call id", "call id alone", "content", "key"])
def test_late_report_ends_an_unknown_action(world: World, by: str) -> None:
    call = world.call("mira", "act4", "plan")
    opened = world.gate.intercept(call)
    world.after(3600)
    assert world.gate.sweep() == 1
    record = late(world, call, "report", ended=at(world, -3500))
    if by == "id":
        record = replace(record, id=opened.id, found=None, call=Call("mira", "?"))
    elif by == "call id alone":
        record = replace(record, found=None, content_key="", call=Call("mira", "?", call_id=call.call_id))
    elif by == "content":
        record = replace(record, call=replace(record.call, call_id=None))
    elif by == "key":
        record = replace(record, call=Call("mira", "?"), content_key="")
    take_in(world, record)
    action = world.store.action("default", opened.id)
    assert action is not None
    assert action.state is State.DONE
    assert action.ended == pytest.approx(opened.id + 100 * SECOND, abs=SECOND), (
        "the time when it ended, not when that was reported"
    )
    assert "late" in world.gate.entries(newest=True, limit=1)[0].body["note"]


def test_late_report_does_not_change_what_a_person_resolved(world: World) -> None:
    call = world.call("mira", "act4", "plan")
    opened = world.gate.intercept(call)
    world.after(3600)
    world.gate.sweep()
    assert world.gate.resolve(opened.id, happened=False, by="anna").ok
    take_in(world, late(world, call, "report", outcome=Outcome.DONE, ended=at(world, -1)))
    assert state_of(world, opened.id) is State.FAILED


def test_report_of_another_session_ends_nothing(world: World) -> None:
    opened = world.ask("mira", "act4", "plan")
    take_in(world, LateCall(call=Call("doug", "?"), kind="report", v=2, id=opened.id))
    assert state_of(world, opened.id) is State.OPEN


def test_report_of_a_call_that_was_never_opened_is_stored_as_an_action(world: World) -> None:
    world.do("doug", "look", "plan")
    world.after(10)
    take_in(world, late(world, world.call("mira", "act1", "plan"), "report", ended=at(world, -1)))
    assert state_of(world, taken_in(world)) is State.DONE
    assert Kind.STALE in kinds(world.ask("doug", "act1", "plan"))


def cancellation(world: World, call: Call, seconds: float = 0) -> LateCall:
    bare = Call(call.instance, "?", call_id=call.call_id)
    return LateCall(call=bare, kind="cancel", v=2, outcome=Outcome.CANCELLED, ended=at(world, seconds))


def test_cancellation_ends_the_action_of_the_call(world: World) -> None:
    call = world.call("mira", "act4", "plan")
    opened = world.gate.intercept(call)
    world.after(2)
    take_in(world, cancellation(world, call))
    assert state_of(world, opened.id) is State.CANCELLED
    assert world.ask("doug", "act4", "plan").verdict is Verdict.ALLOW


def test_cancellation_leaves_other_calls_and_later_repeats_alone(world: World) -> None:
    call = world.call("mira", "act4", "plan")
    record = cancellation(world, call)
    world.after(5)
    repeated = world.gate.intercept(call)
    other = world.ask("mira", "act4", "else")
    world.after(5)
    take_in(world, record)
    assert state_of(world, repeated.id) is State.OPEN
    assert state_of(world, other.id) is State.OPEN


def test_cancellation_does_not_undo_a_report(world: World) -> None:
    call = world.call("mira", "act3", "plan")
    opened = world.gate.intercept(call)
    world.end("mira", opened)
    world.after(1)
    take_in(world, cancellation(world, call))
    assert state_of(world, opened.id) is State.DONE


def test_cancelled_call_that_is_made_again_is_decided_again(world: World) -> None:
    """The lease of its first decision has ended, and another session may have opened an action since."""
    call = world.call("mira", "act4", "plan")
    world.gate.intercept(call)
    world.after(2)
    take_in(world, cancellation(world, call))
    held = world.ask("doug", "act4", "plan")
    assert world.gate.intercept(call).verdict is Verdict.BLOCK
    world.end("doug", held, "cancelled")
    again = world.gate.intercept(call)
    assert again.lease is not None
    assert not again.repeated


def test_late_call_replaces_the_cancellation_of_the_same_call(world: World) -> None:
    """The hook gave up, and the host let the tool run."""
    call = world.call("mira", "act1", "plan")
    world.do("doug", "look", "plan")
    opened = world.gate.intercept(call)
    world.after(2)
    page = [cancellation(world, call), late(world, call, ended=at(world, 0))]
    world.gate._drive(world.gate.operations.take_in(page))
    assert state_of(world, opened.id) is State.CANCELLED
    assert state_of(world, taken_in(world)) is State.DONE
    assert Kind.STALE in kinds(world.ask("doug", "act1", "plan"))


def test_record_of_an_earlier_version_is_stored_with_the_keys_of_its_summary(world: World) -> None:
    world.do("doug", "look", "plan")
    world.after(5)
    take_in(world, LateCall(call=world.call("mira", "act1", "plan")))
    assert Kind.STALE in kinds(world.ask("doug", "act1", "plan"))


def test_late_call_of_a_client_that_cannot_classify_is_classified_by_the_gate(world: World) -> None:
    take_in(world, LateCall(call=world.call("mira", "send2", "plan", params=TEXT), v=2))
    assert Kind.DUPLICATE in kinds(world.ask("doug", "send2", "plan", params=TEXT))
