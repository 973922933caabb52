"""What upkeep and rotation keep after a long time: actions without an outcome, and actions reported late."""

from collections.abc import Callable

import pytest

from callosum.model import DAY, HOUR, Key, Mode, State
from callosum.policy.evidence import last_read
from callosum.stores.kernel import Kernel
from callosum.testing import ManualClock
from callosum.testing.script import StoreScript, ids

KEY = "doc:plan"
FIRST = "doc:first"


def test_unknown_action_of_an_inactive_session_is_kept(script: StoreScript, clock: ManualClock) -> None:
    """It must be kept: if it turns out to have happened, it is the newest change."""
    unknown = script.act("doug", KEY, state=State.OPEN, tier=3)
    script.end("doug", unknown, State.UNKNOWN)
    for _ in range(10):
        clock.advance(86_400)
        script.act("mira", "doc:other")
        script.store.maintain(clock.now - 7 * DAY)
    script.read("mira", KEY)
    clock.advance(60)
    script.settle(unknown, State.DONE, ended=script.view("x").now)
    for _ in range(3):
        script.store.maintain(clock.now - 7 * DAY)
    assert ids(script.key_view("mira", KEY).latest) == [unknown]


def test_fingerprints_of_an_unknown_action_are_kept(script: StoreScript, clock: ManualClock) -> None:
    """They are kept until the action has an outcome, and from then on as long as those of any action."""
    unknown = script.act("doug", KEY, state=State.OPEN, tier=3, prints=(b"same",))
    script.end("doug", unknown, State.UNKNOWN)

    def twins() -> list[int]:
        for _ in range(5):
            script.store.maintain(clock.now - 7 * DAY)
        return ids(script.view("mira", KEY, prints=(b"same",)).twins)

    clock.advance(30 * 86_400)
    assert twins() == [unknown]
    script.settle(unknown, State.DONE, ended=script.view("x").now)
    clock.advance(86_400)
    assert twins() == [unknown]
    clock.advance(8 * 86_400)
    script.act("anna", "doc:other")
    assert twins() == []


def test_unknown_action_is_found_by_its_digest(script: StoreScript, clock: ManualClock) -> None:
    """A scope that does not ask for live actions finds it too."""
    unknown = script.act("doug", KEY, state=State.OPEN, tier=3, prints=(b"same",))
    script.end("doug", unknown, State.UNKNOWN)
    ten_days(script, clock, "mira")
    assert ids(script.view("mira", KEY, prints=(b"same",), live=False).twins) == [unknown]


@pytest.mark.parametrize("reported", [True, False])
def test_change_of_a_key_that_was_read_while_it_ran_is_kept(
    script: StoreScript, clock: ManualClock, reported: bool
) -> None:
    """A change has the time of its report; without a report, the time from which it can no longer be running."""
    changed = script.act("doug", KEY, tier=1)
    clock.advance(60)
    script.read("mira", KEY)
    clock.advance(60)
    if reported:
        script.end("doug", changed)
    for _ in range(10):
        clock.advance(86_400)
        script.act("mira", "doc:other")
        script.store.maintain(clock.now - 7 * DAY)
    assert ids(script.key_view("mira", KEY).latest) == [changed]


def test_take_keeps_an_action_that_was_reported_recently(script: StoreScript, clock: ManualClock) -> None:
    """An action is evidence from its report on, however long ago it began."""
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


def ten_days(script: StoreScript, clock: ManualClock, active: str) -> int:
    """Let ``active`` act on another key each day and run upkeep. Return the number of deleted rows."""
    deleted = 0
    for _ in range(10):
        clock.advance(86_400)
        script.act(active, "doc:other")
        deleted += script.store.maintain(clock.now - 7 * DAY)
    return deleted


def test_a_report_that_comes_very_late_is_a_change(script: StoreScript, clock: ManualClock) -> None:
    """That includes an action without a lease, which counts as done before its report. A read changes nothing."""
    changed = script.act("doug", KEY, Key("doc:read", Mode.READ), tier=2)
    ten_days(script, clock, "mira")
    script.end("doug", changed)
    script.store.maintain(clock.now - 7 * DAY)
    assert ids(script.key_view("mira", KEY).latest) == [changed]
    assert script.key_view("mira", "doc:read").latest == ()


def test_change_after_an_own_write_is_kept(script: StoreScript, clock: ManualClock) -> None:
    """A finished write counts as a read as long as its session is active."""
    script.end("mira", script.act("mira", KEY, tier=2))
    changed = script.act("doug", KEY, tier=2)
    ten_days(script, clock, "mira")
    assert ids(script.key_view("mira", KEY).latest) == [changed]


@pytest.mark.parametrize("script", ["sqlite"], indirect=True)  # the memory store keeps no rows
def test_inactive_session_keeps_no_change_of_others(script: StoreScript, clock: ManualClock) -> None:
    """Otherwise a key that many short sessions write would keep all their changes, each for the session before."""
    for number in range(29, 9, -1):  # upkeep visits sessions by name, so the last one comes first
        script.end(f"s{number}", script.act(f"s{number}", KEY, tier=2))
        clock.advance(1)
    assert ten_days(script, clock, "mira") >= 20, "the rows of all sessions are deleted"


@pytest.mark.parametrize("call", [b"c", None])
def test_unknown_action_without_a_key_is_found_by_a_late_report(script: StoreScript, call: bytes | None) -> None:
    """A report without an id finds it as long as nothing else is open."""
    unknown = script.act("mira", tier=1, call=call)
    script.end("mira", unknown, State.UNKNOWN, ended=script.view("x").now)
    found = script.find("mira", key="")
    assert found is not None
    assert (found.id, found.state) == (unknown, State.UNKNOWN)


def reported_write(script: StoreScript, session: str, *keys: str) -> int:
    """Make a finished write, which counts as a read."""
    script.end(session, id := script.act(session, *keys))
    return id


def unreported_write(script: StoreScript, session: str, *keys: str) -> int:
    """Make a write without a report, which does not count as a read."""
    return script.act(session, *keys)


def read(script: StoreScript, session: str, *keys: str) -> int:
    """Read all of these keys in one action."""
    return script.act(session, *[Key(key, Mode.READ) for key in keys], tier=0)


def rotate(script: StoreScript, clock: ManualClock, active: str) -> list[int]:
    """Let ten days pass in which only ``active`` acts, on another key, and rotate. Return the entries that left."""
    ten_days(script, clock, active)
    until, horizon = clock.now, clock.now - 7 * DAY
    left = [entry.seq for entry in script.store.take(until, horizon)]
    script.store.take(until, horizon, delete=True)
    assert not set(left) & {entry.seq for entry in script.store.entries(limit=5000)}
    return left


def sees_change(script: StoreScript, session: str, key: str, change: int) -> bool:
    """Return True if a session that writes the key is shown the change, and its last read is older than the change."""
    key_view = script.key_view(session, key)
    return ids(key_view.latest) == [change] and 0 < last_read(key_view, HOUR) < change


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("change", [reported_write, unreported_write])
@pytest.mark.parametrize("see", [reported_write, read])
def test_take_keeps_a_change_since_a_read(
    script: StoreScript, clock: ManualClock, see: Callable[..., int], change: Callable[..., int], tier: int
) -> None:
    """The change stays while the reader is active, because ``stale`` has no time window.

    An own finished write counts as a read, and stays with the change.
    """
    see(script, "mira", KEY)
    clock.advance(60)
    changed = script.act("doug", KEY, tier=tier)
    if change is reported_write:
        script.end("doug", changed)
    left = rotate(script, clock, "mira")
    assert changed not in left
    assert sees_change(script, "mira", KEY, changed)


@pytest.mark.parametrize("namespace", ["default", "other"])
@pytest.mark.parametrize("see", [reported_write, read])
def test_take_keeps_a_change_for_any_of_its_keys(
    script: StoreScript, clock: ManualClock, see: Callable[..., int], namespace: str
) -> None:
    """The same holds for any key of the write that counts as a read."""
    script = StoreScript(script.store, namespace)
    see(script, "mira", "doc:own", KEY)
    clock.advance(60)
    changed = reported_write(script, "doug", FIRST, KEY)
    clock.advance(60)
    newer = reported_write(script, "doug", FIRST)
    left = rotate(script, clock, "mira")
    assert changed not in left
    assert newer in left
    assert sees_change(script, "mira", KEY, changed)


def test_take_keeps_a_change_below_a_tree(script: StoreScript, clock: ManualClock) -> None:
    """A session that writes a tree is notified of changes in it since its own write there."""
    reported_write(script, "mira", "file:/repo/a.py")
    clock.advance(60)
    changed = reported_write(script, "doug", "file:/repo/a.py")
    rotate(script, clock, "mira")
    assert ids(script.key_view("mira", "file:/repo/").stale) == [changed]


def test_take_keeps_a_write_before_an_unknown_change(script: StoreScript, clock: ManualClock) -> None:
    """When the change gets its outcome, the session that wrote before it must be notified."""
    own = reported_write(script, "mira", KEY)
    clock.advance(60)
    unknown = script.act("doug", KEY, state=State.OPEN, tier=3)
    script.end("doug", unknown, State.UNKNOWN)
    assert own not in rotate(script, clock, "mira")
    script.settle(unknown, State.DONE, ended=script.view("x").now)
    assert sees_change(script, "mira", KEY, unknown)


def test_take_keeps_a_change_of_a_key_that_was_written_while_it_ran(script: StoreScript, clock: ManualClock) -> None:
    """A change has the time of its report, although it counts as a read from its start."""
    changed = script.act("doug", KEY)
    clock.advance(60)
    own = reported_write(script, "mira", KEY)
    clock.advance(60)
    script.end("doug", changed)
    assert not {own, changed} & set(rotate(script, clock, "mira"))
    assert ids(script.key_view("mira", KEY).latest) == [changed]
    assert last_read(script.key_view("mira", KEY), HOUR) == own


def test_inactive_sessions_keep_nothing_from_leaving(script: StoreScript, clock: ManualClock) -> None:
    """Otherwise the sessions that write a key would keep one another's writes forever."""
    actions = [read(script, "anna", KEY)]
    for number in range(10):
        actions.append(reported_write(script, f"s{number}", FIRST, KEY))
        clock.advance(1)
    assert set(actions) <= set(rotate(script, clock, "mira"))


def test_changes_that_notify_nobody_leave(script: StoreScript, clock: ManualClock) -> None:
    """These are changes read since, own changes, and changes replaced by a newer one of the same session."""
    own = reported_write(script, "mira", "doc:mine")
    superseded = reported_write(script, "doug", KEY)
    before = reported_write(script, "doug", FIRST)
    clock.advance(60)
    read(script, "mira", FIRST)
    clock.advance(60)
    other = reported_write(script, "anna", "doc:theirs")
    reading = read(script, "doug", KEY)
    unread = reported_write(script, "doug", KEY)
    left = rotate(script, clock, "mira")
    assert {own, superseded, before, other, reading, unread} <= set(left)


def test_take_continues_behind_entries_that_stay(script: StoreScript, clock: ManualClock) -> None:
    """It passes any number of them, and starts again after the end, because they may be free to leave by then."""
    for number in range(12):
        reported_write(script, "mira", f"doc:{number}")
    clock.advance(60)
    kept = [reported_write(script, "doug", f"doc:{number}") for number in range(12)]
    free = [script.refuse("doug", KEY) for _ in range(4)]
    assert set(free) <= set(rotate(script, clock, "mira"))
    for number in range(12):
        read(script, "mira", f"doc:{number}")
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


@pytest.mark.parametrize("script", ["memory", "sqlite", "lmdb", "redis", "postgres"], indirect=True)
def test_thirty_days_leave_no_more_than_fifteen(script: StoreScript, clock: ManualClock) -> None:
    """Records and journal are bounded, whatever came and went: sessions of three days, keys of their own, a long one."""
    assert isinstance(script.store, Kernel)
    sizes = []
    for day in range(30):
        session = f"s{day // 3}"
        for number in range(12):
            own, call = f"doc:{day}-{number}|part", b"%d-%d" % (day, number)
            script.read(session, own)
            script.end(session, script.act(session, own, f"file:/r/{number}/a", call=call, prints=(call,)))
            script.act(session, f"doc:{number}", state=State.OPEN if number else State.DONE, tier=3)
            script.refuse(session, own)
            script.end(session, script.store.live(None, list(State))[0].id) if number else None
            clock.advance(7_000)
        script.read("keeper", "doc:1")
        script.end("keeper", script.act("keeper", "doc:2"))
        horizon = clock.now - 2 * DAY
        for _ in range(4):
            assert script.store.maintain(horizon) <= 2_000
        while script.store.take(clock.now, horizon):
            script.store.take(clock.now, horizon, delete=True)
        with script.store.engine.snapshot() as reader:
            sizes.append((len(reader.scan(b"b", b"\xff", 1 << 20)), reader.count()))
    middle, last = sizes[14:17], sizes[27:]
    assert max(last) <= max(middle), sizes
    assert max(entries for _, entries in last) <= max(entries for _, entries in middle), sizes
    assert sizes[-1] > (50, 50)
