"""A Redis Cluster of three masters: each namespace is on one of them and behaves as on a single server."""

import gc
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from callosum.errors import ConfigError, StoreUnavailable
from callosum.model import Change, Event, Opening, State, View
from callosum.stores.names import digest
from callosum.stores.redis import RedisStore
from callosum.testing.script import StoreScript, ids
from tests.support.cpu import HANG, SLACK
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
    deadline = time.monotonic() + HANG
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
    """Name any of the servers in the URL; the server itself reports that it belongs to a cluster."""
    store = RedisStore(servers[1].url())
    yield store
    store.close()


def test_namespaces_are_spread_over_all_servers_each_on_one(store: RedisStore, servers: list[RedisServer]) -> None:
    assert store.link.cluster
    for name in SPACES:
        script = StoreScript(store, name)
        id = script.act(
            "mira", KEY, "file:/repo/", state=State.OPEN, tier=4, durable=True, call=b"one", prints=(b"same",)
        )
        assert ids(script.key_view("doug", "file:/repo/a.py").live) == [id]
        script.end("mira", id)
        assert ids(script.key_view("doug", KEY).latest) == [id]
    holding = {name: sum(has_journal(store, client, name) for client in _clients(servers)) for name in SPACES}
    assert set(holding.values()) == {1}
    assert all(any(has_journal(store, client, name) for name in SPACES) for client in _clients(servers))
    health = store.check()
    assert (health.entries, health.live, health.problems) == (2 * len(SPACES), 0, ())
    assert store.size() > 0
    assert store.maintain(store.now()) >= 0


def has_journal(store: RedisStore, client: Any, namespace: str) -> bool:
    """Return True if this server has the journal of a namespace."""
    return any(client.scan_iter(store.engine.spaces.of(digest(namespace)) + "j"))


def _clients(servers: list[RedisServer]) -> list[Any]:
    return [server.client() for server in servers]


def test_a_batch_over_namespaces_is_answered_in_order(store: RedisStore) -> None:
    def step(view: View) -> Change:
        return Change((StoreScript(store).entry("mira", [KEY]),), Opening(State.DONE, view.now))

    scripts = [StoreScript(store, name) for name in SPACES]
    answers = store.transact([(script.scope("mira", [KEY]), step) for script in scripts])
    assert all(not isinstance(answer, Exception) and len(answer.ids) == 1 for answer in answers)


def test_a_reader_of_all_namespaces_misses_nothing(store: RedisStore) -> None:
    """Each server has its own clock."""
    left = [len(SPACES)]
    seen: list[tuple[int, str]] = []

    def write(name: str) -> None:
        for _ in range(15):
            StoreScript(store, name).act("mira", KEY)
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


def stopped(servers: list[RedisServer], number: int) -> ExitStack:
    """Stop the first servers; they continue when the stack is closed."""
    stack = ExitStack()
    for server in servers[:number]:
        os.kill(server.pid, signal.SIGSTOP)
        stack.callback(os.kill, server.pid, signal.SIGCONT)
    return stack


def seconds_refused(what: Callable[[], object]) -> float:
    """Return how long it took until the store was found to be unavailable."""
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        what()
    return time.monotonic() - began


# The driver forgets connections to dead servers without closing them, and a collection may come at any time.
FORGETS = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@FORGETS
def test_frozen_servers_are_noticed_within_one_deadline(servers: list[RedisServer], half_the_patience: float) -> None:
    """This holds for whatever the driver retries: the command, the nodes of all slots, a connection."""
    store = RedisStore(servers[1].url())
    for name in SPACES:
        StoreScript(store, name).act("mira", KEY)
    with servers[0].client() as first:
        name = next(name for name in SPACES if has_journal(store, first, name))
    on_first = StoreScript(store, name)
    whats: list[Callable[[], object]] = [
        lambda: on_first.act("mira", KEY, state=State.OPEN, tier=4, durable=True),
        lambda: on_first.act("mira", KEY),
        store.entries,
    ]
    with stopped(servers, 1):
        for what in whats:
            assert seconds_refused(what) < half_the_patience + SLACK
    with stopped(servers, 3):
        for what in (store.now, partial(RedisStore, servers[1].url())):
            assert seconds_refused(what) < half_the_patience + SLACK
    _until(lambda: _answers(on_first), 30)
    store.close()
    gc.collect()  # here, and not in the next test


def _answers(script: StoreScript) -> bool:
    with suppress(StoreUnavailable):
        return bool(script.act("mira", KEY, state=State.OPEN, tier=4, durable=True))
    return False


@FORGETS
def test_cluster_of_which_no_server_runs_is_unavailable(tmp_path: Path, half_the_patience: float) -> None:
    with ExitStack() as stack:
        found = []
        for number in range(3):
            folder = tmp_path / str(number)
            folder.mkdir()
            found.append(RedisServer(folder, "--cluster-enabled", "yes"))
            stack.callback(found[-1].stop)
        _formed(found)
        store = RedisStore(found[0].url())
        for server in found:
            server.kill()
        for what in (store.now, store.entries, partial(StoreScript(store).act, "mira", KEY)):
            assert seconds_refused(what) < half_the_patience + SLACK
        store.close()
        gc.collect()


@pytest.fixture
def with_replica() -> Iterator[tuple[list[RedisServer], RedisServer]]:
    """Run three masters and a replica of the first; a server silent for half a second counts as failed."""
    options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "500", "--cluster-replica-validity-factor", "0"]
    with ExitStack() as stack:
        found = []
        for _ in range(4):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="callosum-redis-"))
            found.append(RedisServer(Path(folder), *options, "--repl-diskless-sync-delay", "0"))
            stack.callback(found[-1].stop)
        masters, replica = found[:3], found[3]
        _formed(masters)
        with replica.client() as mine, masters[0].client() as first:
            mine.execute_command("CLUSTER", "MEET", "127.0.0.1", masters[0].port)
            name = first.execute_command("CLUSTER", "MYID").decode()
            _until(lambda: name in str(mine.execute_command("CLUSTER", "NODES")))
            mine.execute_command("CLUSTER", "REPLICATE", name)
            _until(lambda: mine.info("replication").get("master_link_status") == "up")
        for server in found:  # who votes must know whose replica it is, and it must know what its master holds
            with server.client() as client:
                _until(partial(_knows, client))
        yield masters, replica


def _knows(client: Any) -> bool:
    nodes = str(client.execute_command("CLUSTER", "NODES"))
    return "slave" in nodes and b"cluster_slots_assigned:16384" in _info(client)


def _until(holds: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)


def test_a_replica_takes_over_with_what_it_has(with_replica: tuple[list[RedisServer], RedisServer]) -> None:
    """Clients continue on their own; only data that the replica had not received is lost, as documented."""
    masters, replica = with_replica
    store = RedisStore(masters[1].url())

    def on_first(name: str) -> bool:
        with masters[0].client() as client:
            return has_journal(store, client, name)

    for name in SPACES:
        StoreScript(store, name).act("mira", KEY)
    here, elsewhere = next(n for n in SPACES if on_first(n)), next(n for n in SPACES if not on_first(n))
    script, other = StoreScript(store, here), StoreScript(store, elsewhere)
    kept = script.act("mira", KEY, state=State.OPEN, tier=4, durable=True)
    with masters[0].client() as client:
        assert client.wait(1, 10_000) == 1
    assert replica.process is not None
    replica.process.send_signal(signal.SIGSTOP)
    with masters[0].client() as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "replica")  # else the system keeps what is sent for it
    lost = script.act("doug", "doc:other", state=State.OPEN, tier=4, durable=True)
    masters[0].kill()
    replica.process.send_signal(signal.SIGCONT)

    assert other.act("kim", KEY), "the other masters answer all the while"
    refused = 0

    def went_on() -> bool:
        nonlocal refused
        try:
            script.act("kim", "doc:new")
        except StoreUnavailable:
            refused += 1
            return False
        return True

    _until(went_on, 30)
    assert [action.id for action in store.live(here, [State.OPEN])] == [kept]
    assert ids(script.key_view("kim", KEY).live) == [kept]
    assert store.action(here, lost) is None
    assert script.find("doug", id=lost) is None
    entries = store.entries(namespace=here, limit=100)
    assert [entry.session for entry in entries] == ["mira", "mira", "kim"]
    assert entries[-1].seq > lost
    script.end("mira", kept)
    store.close()
