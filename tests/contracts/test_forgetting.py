"""What is forgotten after a long time, and what never: acts without an outcome, and what turned out late."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from callosum.model import DAY, HOUR, Key, Mode, State
from callosum.policy.evidence import last_read
from callosum.testing import ManualClock
from callosum.testing.script import StoreScript, ids

KEY = "doc:plan"
FIRST = "doc:first"


def test_a_late_outcome_is_found_however_long_its_session_was_silent(script: StoreScript, clock: ManualClock) -> None:
    """What is unknown must not be forgotten: once it turns out to have happened, it is the newest change."""
    lost = script.act("doug", KEY, state=State.OPEN, tier=3)
    script.end("doug", lost, State.UNKNOWN)
    for _ in range(10):
        clock.advance(86_400)
        script.act("mira", "doc:other")
        script.store.maintain(clock.now - 7 * DAY)
    script.read("mira", KEY)
    clock.advance(60)
    script.settle(lost, State.DONE, ended=script.view("x").now)
    for _ in range(3):
        script.store.maintain(clock.now - 7 * DAY)
    assert ids(script.key_view("mira", KEY).latest) == [lost]


def test_the_content_of_what_is_unknown_is_kept(script: StoreScript, clock: ManualClock) -> None:
    """Its digests stand until it has an outcome, and from then on as long as those of any act."""
    lost = script.act("doug", KEY, state=State.OPEN, tier=3, prints=(b"same",))
    script.end("doug", lost, State.UNKNOWN)

    def twins() -> list[int]:
        for _ in range(5):
            script.store.maintain(clock.now - 7 * DAY)
        return ids(script.view("mira", KEY, prints=(b"same",)).twins)

    clock.advance(30 * 86_400)
    assert twins() == [lost]
    script.settle(lost, State.DONE, ended=script.view("x").now)
    clock.advance(86_400)
    assert twins() == [lost]
    clock.advance(8 * 86_400)
    script.act("anna", "doc:other")
    assert twins() == []


def test_the_content_of_what_is_unknown_is_found_by_its_digest(script: StoreScript, clock: ManualClock) -> None:
    """By whoever does not look at what is live."""
    lost = script.act("doug", KEY, state=State.OPEN, tier=3, prints=(b"same",))
    script.end("doug", lost, State.UNKNOWN)
    weeks(script, clock, "mira")
    assert ids(script.view("mira", KEY, prints=(b"same",), live=False).twins) == [lost]


@pytest.mark.parametrize("reported", [True, False])
def test_a_change_that_was_looked_at_while_it_ran_is_kept(
    script: StoreScript, clock: ManualClock, reported: bool
) -> None:
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
    assert ids(script.key_view("mira", KEY).latest) == [theirs]


def test_taking_keeps_what_was_reported_of_late(script: StoreScript, clock: ManualClock) -> None:
    """An act is evidence from its report on, however long ago it began."""
    late = script.act("doug", KEY, state=State.OPEN, tier=3)
    script.end("doug", late, State.UNKNOWN)
    script.act("doug", KEY)
    clock.advance(30 * 86_400)
    script.settle(late, State.DONE, ended=script.view("x").now)
    clock.advance(60)
    script.act("anna", "doc:other")
    script.store.maintain(clock.now - 7 * DAY)
    assert late not in [entry.seq for entry in script.store.take(clock.now, clock.now - 7 * DAY)]
    clock.advance(8 * 86_400)
    script.act("anna", "doc:other")
    assert late in [entry.seq for entry in script.store.take(clock.now, clock.now - 7 * DAY)]


def weeks(script: StoreScript, clock: ManualClock, who: str) -> int:
    """Time in which one session goes on elsewhere, and the others are silent; how much was forgotten."""
    gone = 0
    for _ in range(10):
        clock.advance(86_400)
        script.act(who, "doc:other")
        gone += script.store.maintain(clock.now - 7 * DAY)
    return gone


def test_a_report_that_comes_very_late_is_a_change(script: StoreScript, clock: ManualClock) -> None:
    """Of an act without a lease too, which counts as done meanwhile; but a read changes nothing."""
    theirs = script.act("doug", KEY, Key("doc:read", Mode.READ), tier=2)
    weeks(script, clock, "mira")
    script.end("doug", theirs)
    script.store.maintain(clock.now - 7 * DAY)
    assert ids(script.key_view("mira", KEY).latest) == [theirs]
    assert script.key_view("mira", "doc:read").latest == ()


def test_a_change_after_an_own_write_is_kept(script: StoreScript, clock: ManualClock) -> None:
    """A finished write stands for a look, as long as its session goes on."""
    script.end("mira", script.act("mira", KEY, tier=2))
    theirs = script.act("doug", KEY, tier=2)
    weeks(script, clock, "mira")
    assert ids(script.key_view("mira", KEY).latest) == [theirs]


@pytest.mark.parametrize("script", ["sqlite", "redis", "postgres"], indirect=True)  # memory keeps nothing for a change
def test_who_went_silent_keeps_nobody_s_change(script: StoreScript, clock: ManualClock) -> None:
    """Else a key that many short sessions write would remember all of them, each for the sake of the one before."""
    for number in range(29, 9, -1):  # upkeep goes by their names: the last of them comes first
        script.end(f"s{number}", script.act(f"s{number}", KEY, tier=2))
        clock.advance(1)
    assert weeks(script, clock, "mira") >= 20, "all of them"


@pytest.mark.parametrize("call", [b"c", None])
def test_an_unknown_act_without_a_key_is_found_by_its_late_report(script: StoreScript, call: bytes | None) -> None:
    """By whoever names no id, as long as nothing else is open."""
    lost = script.act("mira", tier=1, call=call)
    script.end("mira", lost, State.UNKNOWN, ended=script.view("x").now)
    found = script.find("mira", key="")
    assert found is not None
    assert (found.id, found.state) == (lost, State.UNKNOWN)


# --- rotation ---------------------------------------------------------------------------------------------------------


def wrote(script: StoreScript, who: str, *keys: str) -> int:
    """A finished write, which counts as a look."""
    script.end(who, id := script.act(who, *keys))
    return id


def may_be_running(script: StoreScript, who: str, *keys: str) -> int:
    """A write that nobody reported, which is none."""
    return script.act(who, *keys)


def looked(script: StoreScript, who: str, *keys: str) -> int:
    """A look at all of these keys."""
    return script.act(who, *[Key(key, Mode.READ) for key in keys], tier=0)


def rotate(script: StoreScript, clock: ManualClock, who: str) -> list[int]:
    """Weeks in which just ``who`` goes on, elsewhere, and then a rotation; what left."""
    weeks(script, clock, who)
    until, horizon = clock.now, clock.now - 7 * DAY
    gone = [entry.seq for entry in script.store.take(until, horizon)]
    script.store.take(until, horizon, delete=True)
    assert not set(gone) & {entry.seq for entry in script.store.entries(limit=5000)}
    return gone


def is_told(script: StoreScript, who: str, key: str, theirs: int) -> bool:
    """Whether a session that writes the key now sees a change of another's that it did not look at since."""
    place = script.key_view(who, key)
    return ids(place.latest) == [theirs] and 0 < last_read(place, HOUR) < theirs


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("change", [wrote, may_be_running])
@pytest.mark.parametrize("look", [wrote, looked])
def test_taking_keeps_a_change_since_a_look(
    script: StoreScript, clock: ManualClock, look: Callable[..., int], change: Callable[..., int], tier: int
) -> None:
    """As long as whoever looked goes on: stale has no window. An own finished write is a look, and stays with it."""
    look(script, "mira", KEY)
    clock.advance(60)
    theirs = script.act("doug", KEY, tier=tier)
    if change is wrote:
        script.end("doug", theirs)
    gone = rotate(script, clock, "mira")
    assert theirs not in gone
    assert is_told(script, "mira", KEY, theirs)


@pytest.mark.parametrize("namespace", ["default", "other"])
@pytest.mark.parametrize("look", [wrote, looked])
def test_taking_keeps_it_for_any_of_its_keys(
    script: StoreScript, clock: ManualClock, look: Callable[..., int], namespace: str
) -> None:
    """Of the change, and of the write that was the look."""
    script = StoreScript(script.store, namespace)
    look(script, "mira", "doc:own", KEY)
    clock.advance(60)
    theirs = wrote(script, "doug", FIRST, KEY)
    clock.advance(60)
    newer = wrote(script, "doug", FIRST)
    gone = rotate(script, clock, "mira")
    assert theirs not in gone
    assert newer in gone
    assert is_told(script, "mira", KEY, theirs)


def test_taking_keeps_it_below_a_tree(script: StoreScript, clock: ManualClock) -> None:
    """Who writes a tree is told of what was changed in it since an own write there."""
    wrote(script, "mira", "file:/repo/a.py")
    clock.advance(60)
    theirs = wrote(script, "doug", "file:/repo/a.py")
    rotate(script, clock, "mira")
    assert ids(script.key_view("mira", "file:/repo/").stale) == [theirs]


def test_taking_keeps_the_write_that_an_unknown_change_will_be_held_against(
    script: StoreScript, clock: ManualClock
) -> None:
    """When its outcome comes, the session that wrote before is to be told."""
    mine = wrote(script, "mira", KEY)
    clock.advance(60)
    lost = script.act("doug", KEY, state=State.OPEN, tier=3)
    script.end("doug", lost, State.UNKNOWN)
    assert mine not in rotate(script, clock, "mira")
    script.settle(lost, State.DONE, ended=script.view("x").now)
    assert is_told(script, "mira", KEY, lost)


def test_taking_keeps_what_was_read_while_it_ran(script: StoreScript, clock: ManualClock) -> None:
    """A change has the moment of its report, whatever it is a look from."""
    theirs = script.act("doug", KEY)
    clock.advance(60)
    mine = wrote(script, "mira", KEY)
    clock.advance(60)
    script.end("doug", theirs)
    assert not {mine, theirs} & set(rotate(script, clock, "mira"))
    assert ids(script.key_view("mira", KEY).latest) == [theirs]
    assert last_read(script.key_view("mira", KEY), HOUR) == mine


def test_who_went_silent_keeps_nothing_from_leaving(script: StoreScript, clock: ManualClock) -> None:
    """Else the sessions that write a key would keep one another's writes for ever."""
    acts = [looked(script, "anna", KEY)]
    for number in range(10):
        acts.append(wrote(script, f"s{number}", FIRST, KEY))
        clock.advance(1)
    assert set(acts) <= set(rotate(script, clock, "mira"))


def test_what_is_no_news_leaves(script: StoreScript, clock: ManualClock) -> None:
    """What was looked at since, one's own, and what a newer change of the same session stands for."""
    mine = wrote(script, "mira", "doc:mine")
    superseded = wrote(script, "doug", KEY)
    before = wrote(script, "doug", FIRST)
    clock.advance(60)
    looked(script, "mira", FIRST)
    clock.advance(60)
    other = wrote(script, "anna", "doc:theirs")
    read = looked(script, "doug", KEY)
    never = wrote(script, "doug", KEY)
    gone = rotate(script, clock, "mira")
    assert {mine, superseded, before, other, read, never} <= set(gone)


def test_taking_goes_past_what_stays(script: StoreScript, clock: ManualClock) -> None:
    """However much of it there is, and again once the end was reached: it may be free by then."""
    for number in range(12):
        wrote(script, "mira", f"doc:{number}")
    clock.advance(60)
    kept = [wrote(script, "doug", f"doc:{number}") for number in range(12)]
    free = [script.refuse("doug", KEY) for _ in range(4)]
    assert set(free) <= set(rotate(script, clock, "mira"))
    for number in range(12):
        looked(script, "mira", f"doc:{number}")
    assert script.store.take(clock.now, clock.now - 7 * DAY) == []
    clock.advance(60 * 86_400)
    script.act("anna", "doc:other")
    for _ in range(3):
        script.store.maintain(clock.now - 7 * DAY)
    left: list[int] = []
    while taken := script.store.take(clock.now, clock.now - 7 * DAY, 5):
        assert len(taken) <= 5
        left += [entry.seq for entry in taken]
        script.store.take(clock.now, clock.now - 7 * DAY, 5, delete=True, only={entry.seq for entry in taken})
    assert set(kept) <= set(left)
    assert left == sorted(left)
