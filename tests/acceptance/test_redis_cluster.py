"""A Redis Cluster of three masters: each namespace on one of them, and all as on one server within it."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from callosum.errors import ConfigError
from callosum.model import Change, Event, Opening, State, View
from callosum.stores.redis import RedisStore
from callosum.testing.script import Script, ids
from tests.support.redis_server import RedisServer

KEY = "doc:plan"
SPACES = [f"space-{number}" for number in range(8)]


def _formed(servers: list[RedisServer]) -> None:
    share = 16384 // len(servers) + 1
    for number, server in enumerate(servers):
        with server.client() as client:
            first = number * share
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, min(first + share, 16384) - 1)
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", servers[0].port)
    deadline = time.monotonic() + 30
    for server in servers:
        with server.client() as client:
            while b"cluster_state:ok" not in _info(client) or b"cluster_known_nodes:3" not in _info(client):
                assert time.monotonic() < deadline, "the cluster does not form"
                time.sleep(0.02)


def _info(client: Any) -> bytes:
    told = client.execute_command("CLUSTER", "INFO")
    return "\n".join(f"{k}:{v}" for k, v in told.items()).encode() if isinstance(told, dict) else bytes(told)


@pytest.fixture(scope="module")
def servers() -> Iterator[list[RedisServer]]:
    pytest.importorskip("redis")
    with ExitStack() as stack:
        found = []
        for _ in range(3):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="callosum-redis-"))
            found.append(RedisServer(Path(folder), "--cluster-enabled", "yes"))
            stack.callback(found[-1].stop)
        _formed(found)
        yield found


@pytest.fixture
def store(servers: list[RedisServer]) -> Iterator[RedisStore]:
    """Any of the servers is named; that it is one of a cluster it says itself."""
    store = RedisStore(servers[1].url())
    yield store
    store.close()


def test_namespaces_are_on_all_servers_and_each_on_one(store: RedisStore, servers: list[RedisServer]) -> None:
    assert store.link.cluster
    for name in SPACES:
        script = Script(store, name)
        id = script.act(
            "mira", KEY, "file:/repo/", state=State.OPEN, tier=4, durable=True, call=b"one", prints=(b"same",)
        )
        assert ids(script.place("doug", "file:/repo/a.py").live) == [id]
        script.end("mira", id)
        assert ids(script.place("doug", KEY).latest) == [id]
    prefix = store.link.prefix
    holding = {
        name: sum(any(client.scan_iter(f"{prefix}:{{{name}}}:log")) for client in _clients(servers)) for name in SPACES
    }
    assert set(holding.values()) == {1}
    assert all(any(client.scan_iter(f"{prefix}:{{*}}:log")) for client in _clients(servers))
    health = store.check()
    assert (health.entries, health.live, health.problems) == (2 * len(SPACES), 0, ())
    assert store.size() > 0
    assert store.maintain(store.now()) >= 0


def _clients(servers: list[RedisServer]) -> list[Any]:
    return [server.client() for server in servers]


def test_a_batch_over_namespaces_is_answered_in_order(store: RedisStore) -> None:
    def step(view: View) -> Change:
        return Change((Script(store).entry("mira", [KEY]),), Opening(State.DONE, view.now))

    scripts = [Script(store, name) for name in SPACES]
    answers = store.transact([(script.scope("mira", [KEY]), step) for script in scripts])
    assert all(not isinstance(answer, Exception) and len(answer.ids) == 1 for answer in answers)


def test_a_reader_of_all_namespaces_misses_nothing(store: RedisStore) -> None:
    """Though each server has its own clock."""
    left = [len(SPACES)]
    seen: list[tuple[int, str]] = []

    def write(name: str) -> None:
        for _ in range(15):
            Script(store, name).act("mira", KEY)
        left[0] -= 1

    threads = [threading.Thread(target=write, args=(name,)) for name in SPACES]
    for thread in threads:
        thread.start()
    while len(seen) < 15 * len(SPACES):
        assert any(thread.is_alive() for thread in threads) or left[0] == 0
        page = store.entries(after=seen[-1][0] if seen else 0, limit=20)
        seen += [(entry.seq, entry.namespace) for entry in page if entry.event is Event.INTERCEPT]
    for thread in threads:
        thread.join()
    every = [(entry.seq, entry.namespace) for name in SPACES for entry in store.entries(namespace=name, limit=1000)]
    assert sorted(seen) == sorted(every)


def test_a_cluster_must_sync_every_write(servers: list[RedisServer]) -> None:
    with servers[2].client() as client:
        client.config_set("appendfsync", "everysec")
        try:
            with pytest.raises(ConfigError, match="appendfsync everysec"):
                RedisStore(servers[0].url())
        finally:
            client.config_set("appendfsync", "always")
