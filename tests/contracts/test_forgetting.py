"""What is forgotten after a long time, and what never: acts without an outcome, and what turned out late."""

from __future__ import annotations

import pytest

from callosum.model import DAY, Key, Mode, State
from callosum.testing import ManualClock
from callosum.testing.script import Script, ids

KEY = "doc:plan"


def test_a_late_outcome_is_found_however_long_its_session_was_silent(script: Script, clock: ManualClock) -> None:
    """What is unknown must not be forgotten: once it turns out to have happened, it is the newest change."""
    lost = script.act("doug", KEY, state=State.OPEN, tier=3)
    script.end("doug", lost, State.UNKNOWN)
    for _ in range(10):
        clock.advance(86_400)
        script.act("mira", "doc:other")
        script.store.maintain(clock.now - 7 * DAY)
    script.read("mira", KEY)
    clock.advance(60)
    script.settle(lost, State.DONE, ended=script.look("x").now)
    for _ in range(3):
        script.store.maintain(clock.now - 7 * DAY)
    assert ids(script.place("mira", KEY).latest) == [lost]


def test_the_content_of_what_is_unknown_is_kept(script: Script, clock: ManualClock) -> None:
    """Its digests stand until it has an outcome, and from then on as long as those of any act."""
    lost = script.act("doug", KEY, state=State.OPEN, tier=3, prints=(b"same",))
    script.end("doug", lost, State.UNKNOWN)

    def twins() -> list[int]:
        for _ in range(5):
            script.store.maintain(clock.now - 7 * DAY)
        return ids(script.look("mira", KEY, prints=(b"same",)).twins)

    clock.advance(30 * 86_400)
    assert twins() == [lost]
    script.settle(lost, State.DONE, ended=script.look("x").now)
    clock.advance(86_400)
    assert twins() == [lost]
    clock.advance(8 * 86_400)
    script.act("anna", "doc:other")
    assert twins() == []


def test_the_content_of_what_is_unknown_is_found_by_its_digest(script: Script, clock: ManualClock) -> None:
    """By whoever does not look at what is live."""
    lost = script.act("doug", KEY, state=State.OPEN, tier=3, prints=(b"same",))
    script.end("doug", lost, State.UNKNOWN)
    weeks(script, clock, "mira")
    assert ids(script.look("mira", KEY, prints=(b"same",), live=False).twins) == [lost]


@pytest.mark.parametrize("reported", [True, False])
def test_a_change_that_was_looked_at_while_it_ran_is_kept(script: Script, clock: ManualClock, reported: bool) -> None:
    """Its moment is its report; without one, that at which it can no longer be running."""
    theirs = script.act("doug", KEY, tier=1)
    clock.advance(60)
    script.read("mira", KEY)
    clock.advance(60)
    if reported:
        script.end("doug", theirs)
    for _ in range(10):
        clock.advance(86_400)
        script.act("mira", "doc:other")
        script.store.maintain(clock.now - 7 * DAY)
    assert ids(script.place("mira", KEY).latest) == [theirs]


def test_taking_keeps_what_was_reported_of_late(script: Script, clock: ManualClock) -> None:
    """An act is evidence from its report on, however long ago it began."""
    late = script.act("doug", KEY, state=State.OPEN, tier=3)
    script.end("doug", late, State.UNKNOWN)
    script.act("doug", KEY)
    clock.advance(30 * 86_400)
    script.settle(late, State.DONE, ended=script.look("x").now)
    clock.advance(60)
    script.act("anna", "doc:other")
    script.store.maintain(clock.now - 7 * DAY)
    assert late not in [entry.seq for entry in script.store.take(clock.now, clock.now - 7 * DAY)]
    clock.advance(8 * 86_400)
    script.act("anna", "doc:other")
    assert late in [entry.seq for entry in script.store.take(clock.now, clock.now - 7 * DAY)]


def weeks(script: Script, clock: ManualClock, who: str) -> int:
    """Time in which one session goes on elsewhere, and the others are silent; how much was forgotten."""
    gone = 0
    for _ in range(10):
        clock.advance(86_400)
        script.act(who, "doc:other")
        gone += script.store.maintain(clock.now - 7 * DAY)
    return gone


def test_a_report_that_comes_very_late_is_a_change(script: Script, clock: ManualClock) -> None:
    """Of an act without a lease too, which counts as done meanwhile; but a read changes nothing."""
    theirs = script.act("doug", KEY, Key("doc:read", Mode.READ), tier=2)
    weeks(script, clock, "mira")
    script.end("doug", theirs)
    script.store.maintain(clock.now - 7 * DAY)
    assert ids(script.place("mira", KEY).latest) == [theirs]
    assert script.place("mira", "doc:read").latest == ()


def test_a_change_after_an_own_write_is_kept(script: Script, clock: ManualClock) -> None:
    """A finished write stands for a look, as long as its session goes on."""
    script.end("mira", script.act("mira", KEY, tier=2))
    theirs = script.act("doug", KEY, tier=2)
    weeks(script, clock, "mira")
    assert ids(script.place("mira", KEY).latest) == [theirs]


@pytest.mark.parametrize("script", ["sqlite", "redis", "postgres"], indirect=True)  # memory keeps nothing for a change
def test_who_went_silent_keeps_nobody_s_change(script: Script, clock: ManualClock) -> None:
    """Else a key that many short sessions write would remember all of them, each for the sake of the one before."""
    for number in range(29, 9, -1):  # upkeep goes by their names: the last of them comes first
        script.end(f"s{number}", script.act(f"s{number}", KEY, tier=2))
        clock.advance(1)
    assert weeks(script, clock, "mira") >= 20, "all of them"


@pytest.mark.parametrize("call", [b"c", None])
def test_an_unknown_act_without_a_key_is_found_by_its_late_report(script: Script, call: bytes | None) -> None:
    """By whoever names no id, as long as nothing else is open."""
    lost = script.act("mira", tier=1, call=call)
    script.end("mira", lost, State.UNKNOWN, ended=script.look("x").now)
    found = script.found("mira", key="")
    assert found is not None
    assert (found.id, found.state) == (lost, State.UNKNOWN)
