"""The state that upkeep of the Redis store leaves, and its behaviour beside working sessions."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from callosum.model import DAY, State
from callosum.stores.redis import RedisStore
from callosum.stores.redis.transaction import RedisTransaction
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


def test_names_and_values_go_together(script: StoreScript, clock: ManualClock) -> None:
    """The sorted set of names has exactly the records that do not go with an entry."""
    store = script.store
    assert isinstance(store, RedisStore)
    prefix, client = store.link.prefix, store.link.client

    def records() -> set[bytes]:
        values = client.hkeys(f"{prefix}:r")
        assert {name for name in values if name[:1] != b"a"} == set(client.zrange(f"{prefix}:n", 0, -1))
        assert client.zcard(f"{prefix}:j") == client.hlen(f"{prefix}:e")
        return set(values)

    for number in range(12):
        id = script.act("doug", f"doc:{number}", state=State.OPEN, tier=3, prints=(b"same",), call=b"%d" % number)
        script.end("doug", id)
    assert len(records()) > 60
    clock.advance(40 * 86_400)
    last = script.act("anna", KEY)
    while store.maintain(clock.now - 7 * DAY, 20):
        assert records()
    store.take(clock.now, clock.now - 7 * DAY, delete=True)
    assert {name[:1] for name in records()} <= {b"a", b"k", b"m", b"o", b"s"}
    assert len(records()) <= 5
    assert [entry.seq for entry in store.entries()] == [last]


def meanwhile(script: StoreScript, monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something just before upkeep writes."""
    send = RedisTransaction._send

    def late(self: RedisTransaction, *args: Any) -> None:
        if not self.keeps:
            monkeypatch.undo()
            do()
        send(self, *args)

    monkeypatch.setattr(RedisTransaction, "_send", late)


def test_entry_whose_action_is_reported_during_the_removal_stays(
    script: StoreScript, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = script.act("doug", KEY)
    script.act("doug", "doc:other")
    clock.advance(30 * 86_400)
    script.act("anna", "doc:other")
    horizon = clock.now - 7 * DAY
    while script.store.maintain(horizon):
        pass
    assert theirs in [entry.seq for entry in script.store.take(clock.now, horizon)]
    meanwhile(script, monkeypatch, lambda: script.end("doug", theirs))
    script.store.take(clock.now, horizon, delete=True)
    assert theirs in [entry.seq for entry in script.store.entries()]
    assert ids(script.key_view("mira", KEY).latest) == [theirs]


def test_session_that_returns_during_the_removal_stays(
    script: StoreScript, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its origin is lost."""
    script.act("doug", parent="boss")
    clock.advance(30 * 86_400)
    meanwhile(script, monkeypatch, lambda: script.act("doug", parent="boss"))
    script.store.maintain(clock.now - 7 * DAY)
    assert script.store.kin(script.namespace, "doug").parent == "boss"
