"""Cached state of a Redis is checked by the server before a decision depends on it."""

from collections.abc import Iterator

import pytest

from callosum.model import HOUR, MINUTE, SECOND, Change, Key, Mode, Opening, State, View
from callosum.stores.redis import RedisStore
from callosum.testing.script import LEASE, StoreScript, ids
from tests.support.redis_server import RedisServer, two_stores

KEY = "doc:plan"


@pytest.fixture
def two(redis_server: RedisServer) -> Iterator[tuple[RedisStore, RedisStore]]:
    yield from two_stores(redis_server)


def test_data_lost_between_view_and_change_causes_a_new_view(two: tuple[RedisStore, RedisStore]) -> None:
    """As after a fail-over to a replica that had received nothing; the connection stays usable."""
    script = StoreScript(two[0])
    held = script.act("doug", KEY, state=State.OPEN, tier=4)
    seen: list[list[int]] = []

    def step(view: View) -> Change:
        seen.append(ids(view.keys[0].live))
        if len(seen) == 1:
            client = two[1].link.client
            client.delete(*client.scan_iter(f"{two[1].link.prefix}:*"))
        return Change((script.entry("mira", [KEY], tier=4),), Opening(State.OPEN, view.now + LEASE))

    (id,) = script.run(script.scope("mira", [KEY]), step).ids
    assert seen == [[held], []]
    assert ids(script.key_view("anna", KEY).live) == [id]
    assert [entry.seq for entry in script.store.entries(namespace="default")] == [id]


def test_call_opened_by_another_process_is_seen_when_nothing_else_changed(two: tuple[RedisStore, RedisStore]) -> None:
    """A read changes no key that the process has cached; only its call id shows that it is a repeat."""
    mine, other = (StoreScript(store) for store in two)
    key = Key(KEY, Mode.READ)
    runs: list[int] = []

    def step(view: View) -> Change:
        runs.append(view.earlier.id if view.earlier is not None else 0)
        if view.earlier is not None:
            return Change()
        return Change((mine.entry("mira", [key], tier=0),), Opening(State.DONE, view.now + LEASE))

    for call in (b"before", b"just before"):
        mine.run(mine.scope("mira", [key], call=call), step)
    (id,) = other.run(other.scope("mira", [key], call=b"this"), step).ids
    assert mine.run(mine.scope("mira", [key], call=b"this"), step).ids == ()
    assert runs == [0, 0, 0, 0, id], "the second last run took for granted that the call is new"


@pytest.mark.parametrize("off", [10 * MINUTE, HOUR, -10 * MINUTE])
def test_process_with_a_wrong_clock_does_not_shift_the_server_time(
    two: tuple[RedisStore, RedisStore], off: int
) -> None:
    script = StoreScript(two[0])
    script.act("mira", KEY)
    time = two[0]._engine.server_time
    assert time._offset is not None
    time._offset += off
    id = script.act("mira", KEY)
    seconds, _ = two[1].link.client.time()
    assert abs(id - seconds * SECOND) < MINUTE
