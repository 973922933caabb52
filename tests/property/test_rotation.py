"""Any sequence of reads, writes and reports over weeks.

The stores drop the same entries as the one in memory, and whoever is active sees in a store that forgets what it sees in
one that forgets nothing.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callosum.model import DAY, HOUR, Key, KeyView, Mode, State
from callosum.policy.evidence import last_read
from callosum.stores.base import Store
from callosum.stores.forgetting import dated
from callosum.stores.memory import MemoryStore
from callosum.stores.postgres import PostgresStore
from callosum.stores.redis import RedisStore
from callosum.stores.sqlite import SqliteStore
from callosum.testing import ManualClock
from callosum.testing.script import StoreScript
from tests.property.test_machine import sequences
from tests.support.postgres import Server, schema_of
from tests.support.redis_server import RedisServer

SESSIONS = st.sampled_from(["mira", "doug", "anna"])
NAMES = ["doc:a", "doc:b", "file:/r/a", "file:/r/"]
KEYS = st.lists(
    st.builds(Key, st.sampled_from(NAMES), st.sampled_from(list(Mode))),
    min_size=1,
    max_size=3,
    unique_by=lambda key: key.name,
)
ENDS = st.sampled_from([State.DONE, State.FAILED, State.UNKNOWN])
STEP = st.one_of(
    st.tuples(st.just("act"), SESSIONS, KEYS, st.sampled_from([2, 3])),
    st.tuples(st.just("act"), SESSIONS, KEYS, st.sampled_from([2, 3])),
    st.tuples(st.just("end"), st.integers(0, 7), ENDS),
    st.tuples(st.just("pass"), st.sampled_from([1, 60, 400, 86_400, 3 * 86_400, 6 * 86_400])),
    st.tuples(st.just("rotate"), st.integers(1, 40)),
)
STEPS = st.lists(STEP, min_size=5, max_size=60)
FEW = st.lists(
    st.one_of(
        st.tuples(st.just("act"), SESSIONS, KEYS, st.sampled_from([0, 2, 3])),
        st.tuples(st.just("act"), SESSIONS, KEYS, st.just(2)),
        st.tuples(st.just("end"), st.integers(0, 2), ENDS),
        st.tuples(st.just("end"), st.just(0), st.just(State.DONE)),
        st.tuples(st.just("pass"), st.sampled_from([1, 60, 400])),
    ),
    min_size=2,
    max_size=6,
)
WEEKS = st.lists(st.tuples(FEW, st.lists(SESSIONS, min_size=1, max_size=2, unique=True)), min_size=1, max_size=3)
"""A few steps, then ten days in which only these sessions make calls, on another key."""


class StoreGroup:
    """The same steps on several stores with one clock. ``acts`` holds the opened actions, for reports."""

    def __init__(self, stores: list[Store], clock: ManualClock) -> None:
        self.clock = clock
        self.scripts = [StoreScript(store) for store in stores]
        self.acts: list[tuple[str, int]] = []

    def each(self, do: Any) -> Any:
        """Do a step on each store; all must answer alike."""
        now, answers = self.clock.now, []
        for script in self.scripts:
            self.clock.now = now
            answers.append(do(script))
        assert answers == answers[:1] * len(answers)
        return answers[0]

    def step(self, step: tuple[Any, ...]) -> None:
        self.clock.advance(1)
        if step[0] == "act":
            _, who, keys, tier = step
            state = State.OPEN if tier > 2 else State.DONE
            self.acts.append((who, self.each(lambda script: script.act(who, *keys, tier=tier, state=state))))
        elif step[0] == "end" and self.acts:
            who, id = self.acts[-1 - step[1] % len(self.acts)]
            action = self.scripts[0].store.action("default", id)
            if action is not None and action.state in (State.OPEN, State.DONE) and not action.ended:
                self.each(lambda script: script.end(who, id, step[2]))
                self.each(lambda script: script.refuse(who, "doc:other"))  # not all take a report for a sign of life
        elif step[0] == "pass":
            self.clock.advance(step[1])
        elif step[0] == "rotate":
            self.rotate(step[1])

    def rotate(self, limit: int) -> None:
        """Until nothing is left that may leave, ``limit`` entries at a time."""
        self.forget(self.scripts, limit)
        self.each(lambda script: [entry.seq for entry in script.store.entries(limit=10_000)])

    def forget(self, scripts: list[StoreScript], limit: int) -> None:
        until, horizon = self.clock.now, self.clock.now - 7 * DAY
        for script in scripts:
            for _ in range(2):
                script.store.maintain(horizon)
            while gone := {entry.seq for entry in script.store.take(until, horizon, limit)}:
                script.store.take(until, horizon, limit, delete=True, only=gone)
                assert not gone & {entry.seq for entry in script.store.entries(limit=10_000)}


class Forgetful(StoreGroup):
    """Two stores, of which only the first forgets. Sessions that made a call since the horizon see the same in both."""

    def __init__(self, stores: list[Store], clock: ManualClock) -> None:
        super().__init__(stores, clock)
        self.called: dict[str, int] = {}
        self.forgotten: set[str] = set()
        """Sessions that were not active when something was forgotten, and whose marks may be gone."""

    def step(self, step: tuple[Any, ...]) -> None:
        super().step(step)
        if step[0] == "act":
            self.called[step[1]] = self.clock.now

    def rotate(self, limit: int) -> None:
        self.forget(self.scripts[:1], limit)
        horizon = self.clock.now - 7 * DAY
        self.forgotten |= {who for who, moment in self.called.items() if moment < horizon}
        for session in self.called.keys() - self.forgotten:
            for name in NAMES:
                forgot, whole = (matters(script.key_view(session, name), horizon) for script in self.scripts)
                # A finished write is kept as a read, which a later write without a report does not hide.
                assert forgot == whole or forgot[0] > whole[0]
        self.each(lambda script: [action.id for action in script.store.live(None, list(State))])


def matters(view: KeyView, horizon: int) -> Any:
    """Return what a session must still know of a key."""
    looked = last_read(view, HOUR)
    shown = [*view.latest, *view.stale]
    changes = {
        one.id: one.state
        for one in shown
        if dated(one) >= horizon or 0 < looked < max(one.started, one.ended) or one in view.stale
    }
    # Without a change there is nothing to compare a look with, and the view does not load the session's own write.
    return looked if changes else 0, changes, [one.id for one in view.live], view.mark.notified


def run(steps: list[tuple[Any, ...]], make: Callable[[ManualClock], Store]) -> None:
    clock = ManualClock()
    stores = [MemoryStore(clock=clock), make(clock)]
    try:
        crew = StoreGroup(stores, clock)
        for step in steps:
            crew.step(step)
        clock.advance(20 * 86_400)
        crew.step(("act", "mira", [Key("doc:other")], 2))
        crew.rotate(1000)
    finally:
        stores[1].close()


@sequences(150)
@given(weeks=WEEKS)
def test_active_sessions_see_the_same_after_forgetting(
    weeks: list[tuple[list[tuple[Any, ...]], list[str]]],
) -> None:
    clock = ManualClock()
    group = Forgetful([MemoryStore(clock=clock), MemoryStore(clock=clock)], clock)
    for steps, active in weeks:
        for step in steps:
            group.step(step)
        for _ in range(10):
            clock.advance(86_400)
            for session in active:
                group.step(("act", session, [Key("doc:other")], 2))
        group.rotate(1000)


@sequences(40)
@given(steps=STEPS)
def test_rotation_of_sqlite(steps: list[tuple[Any, ...]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("rotation")
    run(steps, lambda clock: SqliteStore(folder / "gate.db", clock=clock))


@sequences(12)
@given(steps=STEPS)
def test_rotation_of_redis(steps: list[tuple[Any, ...]], redis_server: RedisServer) -> None:
    run(steps, lambda clock: RedisStore(redis_server.url(), clock=clock))


@sequences(8)
@given(steps=STEPS)
def test_rotation_of_postgres(steps: list[tuple[Any, ...]], postgres: Server) -> None:
    url = postgres.url()
    try:
        run(steps, lambda clock: PostgresStore(url, clock=clock))
    finally:
        postgres.drop(schema_of(url))
