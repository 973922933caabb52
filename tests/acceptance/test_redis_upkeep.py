"""The state that upkeep of the Redis store leaves, and its behaviour beside working sessions."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from callosum.model import DAY, State
from callosum.stores.redis import RedisStore, retention
from callosum.stores.redis.connection import Script as LuaScript
from callosum.testing import ManualClock
from callosum.testing.script import StoreScript, ids
from tests.support.redis_server import RedisServer

KEY = "doc:plan"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def script(redis_server: RedisServer, clock: ManualClock) -> Iterator[StoreScript]:
    store = RedisStore(redis_server.url(), clock=clock)
    yield StoreScript(store)
    store.close()


def removable_keys(script: StoreScript) -> set[str]:
    """Return the Redis keys that upkeep should empty, without the namespace prefix."""
    store = script.store
    assert isinstance(store, RedisStore)
    tag = store.spaces.of(script.namespace).tag
    names = {name.decode().removeprefix(tag) for name in store.link.client.scan_iter(f"{tag}*")}
    return {name for name in names if name.partition(":")[0] in {"m", "c", "sk", "s", "p", "prints", "names", "chg"}}


def upkeep(script: StoreScript, clock: ManualClock, budget: int = 2000) -> int:
    """Run upkeep until nothing more is removed; return how many rows were removed."""
    gone, idle = 0, 0
    for _ in range(200):
        went = script.store.maintain(clock.now - 7 * DAY, budget)
        gone, idle = gone + went, 0 if went else idle + 1
        if idle > 10:
            return gone
    raise AssertionError("it does not come to an end")


def end_late(script: StoreScript, clock: ManualClock) -> int:
    """Report an action as done long after its session has ended."""
    lost = script.act("doug", KEY, state=State.OPEN, tier=3, prints=(b"same",))
    script.end("doug", lost, State.UNKNOWN)
    clock.advance(30 * 86_400)
    upkeep(script, clock)
    script.settle(lost, State.DONE, ended=script.view("x").now)
    return lost


@pytest.mark.parametrize("budget", [1, 3, 2000])
def test_late_outcome_is_removed_eventually(script: StoreScript, clock: ManualClock, budget: int) -> None:
    lost = end_late(script, clock)
    upkeep(script, clock, budget)
    assert ids(script.key_view("mira", KEY).latest) == ids(script.view("mira", KEY, prints=(b"same",)).twins) == [lost]
    clock.advance(8 * 86_400)
    upkeep(script, clock, budget)
    assert removable_keys(script) == set()


def test_ended_sessions_keep_nothing_for_one_another(script: StoreScript, clock: ManualClock) -> None:
    """Each session changed what the other had read, and neither returns."""
    for who in ("mira", "doug"):
        script.read(who, KEY)
    for who in ("mira", "doug"):
        clock.advance(60)
        script.end(who, script.act(who, KEY))
    clock.advance(8 * 86_400)
    script.act("anna", "doc:other")
    upkeep(script, clock)
    assert removable_keys(script) == {"m:doc:other", "c:doc:other", "sk:anna", "names", "chg"}


def test_removal_continues_past_actions_that_must_stay(script: StoreScript, clock: ManualClock) -> None:
    """Even if there are more of them than one round may read."""
    for number in range(12):
        lost = script.act("doug", f"doc:{number}", state=State.OPEN, tier=3, prints=(b"same",))
        script.end("doug", lost, State.UNKNOWN)
    for number in range(12):
        script.act("doug", f"note:{number}", prints=(b"same",))
    clock.advance(30 * 86_400)
    assert upkeep(script, clock, 3) == 24
    places = {f"{sort}:doc:{number}" for sort in "mcp" for number in range(12)}
    assert removable_keys(script) == {*places, "sk:doug", "prints", "names", "chg"}


def test_data_removed_by_an_older_version_is_restored(script: StoreScript, clock: ManualClock) -> None:
    """The older version considered only moments: a late report restores the action."""
    lost = script.act("doug", KEY, state=State.OPEN, tier=3, prints=(b"same",))
    script.end("doug", lost, State.UNKNOWN)
    store = script.store
    assert isinstance(store, RedisStore)
    clock.advance(30 * 86_400)
    space = store.spaces.of(script.namespace)
    store.link.client.delete(*(space.key(name) for name in removable_keys(script)), space.key("seen"))
    script.settle(lost, State.DONE, ended=script.view("x").now)
    assert ids(script.key_view("mira", KEY).latest) == ids(script.view("mira", KEY, prints=(b"same",)).twins) == [lost]
    assert removable_keys(script) == {"m:doc:plan", "c:doc:plan", "p:doc:plan", "prints", "sk:doug", "names", "chg"}
    clock.advance(8 * 86_400)
    upkeep(script, clock)
    assert removable_keys(script) == set()


def meanwhile(script: StoreScript, monkeypatch: pytest.MonkeyPatch, name: LuaScript, do: Callable[[], object]) -> None:
    """Do something just before upkeep runs a script."""
    store = script.store
    assert isinstance(store, RedisStore)
    run = store.spaces.run

    def late(which: LuaScript, *args: Any) -> Any:
        if which is name:
            monkeypatch.undo()
            do()
        return run(which, *args)

    monkeypatch.setattr(store.spaces, "run", late)


def test_entry_whose_action_is_reported_during_the_removal_stays(
    script: StoreScript, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = script.act("doug", KEY)
    script.act("doug", "doc:other")
    clock.advance(30 * 86_400)
    script.act("anna", "doc:other")
    horizon = clock.now - 7 * DAY
    assert theirs in [entry.seq for entry in script.store.take(clock.now, horizon)]
    meanwhile(script, monkeypatch, retention.DROP, lambda: script.end("doug", theirs))
    script.store.take(clock.now, horizon, delete=True)
    assert theirs in [entry.seq for entry in script.store.entries()]
    assert ids(script.key_view("mira", KEY).latest) == [theirs]


def test_session_that_returns_during_the_removal_stays(
    script: StoreScript, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its origin is lost, and its later actions are never removed."""
    script.act("doug", parent="boss")
    clock.advance(30 * 86_400)
    meanwhile(script, monkeypatch, retention.FORGET, lambda: script.act("doug", parent="boss"))
    script.store.maintain(clock.now - 7 * DAY)
    assert script.store.kin(script.namespace, "doug").parent == "boss"
    script.act("doug", KEY, parent="boss")
    clock.advance(8 * 86_400)
    upkeep(script, clock)
    assert removable_keys(script) == set()
