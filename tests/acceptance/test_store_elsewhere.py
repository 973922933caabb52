"""A store over a network that freezes, is emptied or falls back behind what it acknowledged."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from callosum.errors import StoreChanged, StoreUnavailable
from callosum.model import State
from callosum.settings import Settings
from callosum.stores.base import Store
from callosum.stores.opening import open_store
from callosum.stores.postgres import PostgresStore, connections
from callosum.stores.receipt import HeldByStore, Receipt
from callosum.stores.redis import RedisStore, deadline
from callosum.testing.script import StoreScript
from tests.support.cpu import SLACK
from tests.support.postgres import Server, need_binaries, schema_of, server
from tests.support.redis_server import RedisServer, serving

KEY = "doc:plan"
SAYS = "callosum store accept"


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    yield from serving()


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    need_binaries()
    with server() as own:
        yield own


def lease(store: Store, who: str = "mira", key: str = KEY) -> int:
    return StoreScript(store).act(who, key, state=State.OPEN, tier=4, durable=True)


def test_frozen_redis_is_noticed_within_one_deadline(redis: RedisServer, half_the_patience: float) -> None:
    """For every kind of first request, by a process with a connection and by one that must open one."""
    warm = RedisStore(redis.url())
    lease(warm)
    assert redis.process is not None
    redis.process.send_signal(signal.SIGSTOP)
    try:
        for ask in (lambda: lease(warm, "doug"), warm.now, lambda: RedisStore(redis.url())):
            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                ask()
            assert time.monotonic() - began < half_the_patience + SLACK
    finally:
        redis.process.send_signal(signal.SIGCONT)
    assert lease(warm, "doug", "doc:other")
    connection = warm.link.client.connection_pool.get_connection()
    assert connection._sock.gettimeout() == deadline.TIMEOUT, "what was limited for the last try is not so for the next"
    warm.link.client.connection_pool.release(connection)
    warm.close()


@pytest.mark.parametrize("kind", ["postgres_url", "redis", "sqlite"])
def test_entry_acknowledged_while_the_store_is_compared_is_not_missing(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """Another process acknowledges the first entry after this one has asked what the store holds."""
    url = "" if kind == "sqlite" else request.getfixturevalue(kind)
    settings = Settings(state=tmp_path, store=url if isinstance(url, str) else url.url())

    def compare(receipt: Receipt, held: HeldByStore, place: str) -> str:
        monkeypatch.undo()
        assert lease(other) == receipt.entry
        return receipt.compare(held, place)

    with closing(open_store(settings)) as other:
        other.prove()  # binds the receipt
        monkeypatch.setattr(Receipt, "compare", compare)
        with closing(open_store(settings)) as store:
            assert store.check().problems == ()


@pytest.mark.parametrize("state", ["kept", "none"])
def test_redis_emptied_in_use_gives_nobody_the_lease_of_another(redis: RedisServer, tmp_path: Path, state: str) -> None:
    """No connection is lost by it, so the next durable call must detect it."""
    folder = tmp_path if state == "kept" else None
    url = redis.url()
    store = RedisStore(url, state=folder)
    lease(store)
    with redis.client() as client:
        client.flushall()
    for _ in range(2):
        with pytest.raises(StoreChanged, match=SAYS):
            lease(store, "doug")
    assert StoreScript(store).act("doug", "doc:low"), "low tiers go on"
    with pytest.raises(StoreChanged):
        store.prove()
    if folder is not None:
        with pytest.raises(StoreChanged, match=SAYS):
            lease(RedisStore(url, state=folder), "doug")
    other = RedisStore(url, state=folder) if folder is not None else store
    assert other.accept()
    time_limit = time.monotonic() + 10
    while store._watched.check():
        assert time.monotonic() < time_limit
    assert lease(store, "doug", "doc:accepted")
    store.close()


def test_redis_that_lost_an_acknowledged_entry_is_refused_after_the_reconnect(
    redis: RedisServer, tmp_path: Path
) -> None:
    """As after a fail-over to a replica that had not received it."""
    store = RedisStore(redis.url(), state=tmp_path)
    lease(store, key="doc:first")
    id = lease(store)
    with redis.client() as client:
        assert client.zremrangebyscore(f"{store.link.prefix}:j", id, id) == 1
        client.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(StoreChanged, match=f"lacks entry {id}"):
        lease(store, "doug", "doc:other")
    store.close()


def test_redis_without_memory_is_not_healthy(redis: RedisServer) -> None:
    store = RedisStore(redis.url())
    store.prove()
    with redis.client() as client:
        client.config_set("maxmemory", "1mb")
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            store.prove()
        client.config_set("maxmemory", "0")
    store.prove()
    store.close()


def test_frozen_postgresql_is_noticed_within_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    need_binaries()
    monkeypatch.setattr(connections, "PATIENCE", connections.PATIENCE / 2)
    with server() as own:
        store = PostgresStore(own.url())
        lease(store)
        processes = [own.pid, *children(own.pid)]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                lease(store, "doug")
            assert time.monotonic() - began < 1.9 * connections.PATIENCE
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)
        assert lease(store, "doug", "doc:other")
        store.close()


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(line) for line in found.split()]


def disconnect(database: Server) -> None:
    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'callosum'")


def test_postgresql_that_lost_an_acknowledged_entry_is_refused_after_the_reconnect(
    database: Server, tmp_path: Path
) -> None:
    url = database.url()
    store = PostgresStore(url, state=tmp_path)
    id = lease(store)
    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        connection.execute(f"delete from {schema_of(url)}.journal where seq = {id}")  # noqa: S608
        connection.execute(f"delete from {schema_of(url)}.record")  # noqa: S608
    disconnect(database)
    with pytest.raises(StoreChanged, match=f"lacks entry {id}"):
        lease(store, "doug")
    assert StoreScript(store).act("doug", "doc:low"), "low tiers go on"
    store.close()
    store = PostgresStore(url, state=tmp_path)
    with pytest.raises(StoreChanged, match=SAYS):
        store.prove()
    assert store.accept()
    assert lease(store, "doug")
    store.close()


def test_another_postgresql_database_behind_the_same_address_is_refused(database: Server, tmp_path: Path) -> None:
    url = database.url()
    store = PostgresStore(url, state=tmp_path)
    lease(store)
    store.close()
    database.drop(schema_of(url))
    store = PostgresStore(url, state=tmp_path)
    with pytest.raises(StoreChanged, match="not the store"):
        lease(store, "doug")
    assert store.accept()
    assert lease(store, "doug")
    store.close()


@pytest.mark.parametrize(("server", "kind"), [("redis", RedisStore), ("database", PostgresStore)])
def test_entry_that_rotation_took_is_not_missed(
    request: pytest.FixtureRequest, tmp_path: Path, server: str, kind: type[RedisStore | PostgresStore]
) -> None:
    url = request.getfixturevalue(server).url()
    store = kind(url, state=tmp_path)
    script = StoreScript(store)
    id = script.act("mira", KEY, tier=4, durable=True)
    script.end("mira", id)
    script.act("doug", "doc:other")
    store.take(id, id + 10**15, delete=True)
    assert id not in {entry.seq for entry in store.entries()}
    store.close()
    store = kind(url, state=tmp_path)
    assert lease(store)
    store.close()


def test_read_only_postgresql_is_not_healthy(database: Server) -> None:
    url = database.url()
    store = PostgresStore(url)
    store.prove()
    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        connection.execute("alter role callosum set default_transaction_read_only = on")
        disconnect(database)
        try:
            with pytest.raises(StoreUnavailable, match="read-only"):
                store.prove()
        finally:
            connection.execute("set default_transaction_read_only = off")
            connection.execute("alter role callosum reset default_transaction_read_only")
    disconnect(database)
    store.prove()
    store.close()
