"""Redis killed, full, turned into a replica, without its scripts or with wrong settings; and under load."""

import shlex
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from callosum.errors import ConfigError, StoreError, StoreUnavailable
from callosum.gate import LocalGate
from callosum.model import Event, State
from callosum.settings import Settings
from callosum.stores import names
from callosum.stores.base import Pool
from callosum.stores.opening import open_store
from callosum.stores.redis import RedisStore
from callosum.stores.redis import connection as redis_connection
from callosum.stores.redis.deadline import PATIENCE
from callosum.stores.redis.transaction import COMMIT
from callosum.testing.script import StoreScript
from chaos.proxy import Proxy
from tests.support.cpu import HANG
from tests.support.lossy import Lossy
from tests.support.redis_server import RedisServer, recent_binary, serving
from tests.support.serving import serving as serving_gate
from tests.support.threads import all_at_once
from tests.support.world import RULES, Call

KEY = "doc:plan"


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server for one test, which may kill it."""
    yield from serving("--repl-diskless-sync-delay", "0")


def server_with(folder: str, *options: str, **more: str) -> Iterator[RedisServer]:
    server = RedisServer(Path(folder), *options, **more)
    try:
        yield server
    finally:
        server.stop()


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(own_server: RedisServer) -> None:
    """Under load, three times; the clients continue on their own, and nothing is stored twice."""
    store = RedisStore(own_server.url())
    acknowledged: list[tuple[str, int]] = []
    refused: list[str] = []
    stop = threading.Event()
    kills = 3

    def worker(place: int) -> None:
        script, number = StoreScript(store), 0
        while not stop.is_set():
            number += 1
            name = f"{place}-{number}"
            try:
                id = script.act(
                    f"s{place}",
                    KEY if number % 4 == 0 else f"doc:{place}",
                    state=State.OPEN,
                    tier=4,
                    durable=True,
                    body={"name": name},
                )
                acknowledged.append((name, id))
                script.end(f"s{place}", id)
            except StoreUnavailable:
                refused.append(name)

    def killer() -> None:
        for _ in range(kills):
            known = len(acknowledged)
            while len(acknowledged) < known + 60:
                time.sleep(0.005)
            own_server.kill()
            own_server.start()
        known = len(acknowledged)
        while len(acknowledged) < known + 60:
            time.sleep(0.005)
        stop.set()

    all_at_once([killer, *(partial(worker, place) for place in range(6))])
    entries = store.entries(limit=1_000_000)
    opened = [entry for entry in entries if entry.event is Event.INTERCEPT]
    stored = [entry.body["name"] for entry in opened]
    assert len(stored) == len(set(stored)), "a call was stored twice"
    assert set(acknowledged) <= {(entry.body["name"], entry.seq) for entry in opened}
    ended = [entry.action for entry in entries if entry.event is Event.COMPLETE]
    assert len(ended) == len(set(ended)), "a report was stored twice"
    assert [entry.seq for entry in entries] == sorted({entry.seq for entry in entries})
    # An entry whose request failed is there or not; if it is there, it is complete.
    assert set(stored) <= {name for name, _ in acknowledged} | set(refused)
    live = {action.id for action in store.live(None, list(State))}
    assert live == {entry.seq for entry in opened} - set(ended)
    store.close()


def test_a_change_whose_answer_is_lost_is_stored_once(redis_server: RedisServer) -> None:
    """The change is sent again and gets the first answer, even if the server forgot the script."""
    with Lossy(redis_server.port) as proxy, redis_server.client() as client:
        prefix = redis_server.url().partition("?")[2]
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}/0?{prefix}")
        script = StoreScript(store)
        opened = []
        for number in range(4):
            forgets = client.script_flush if number > 1 else int
            proxy.lose(COMMIT.sha.encode(), forgets)
            opened.append(script.act("mira", KEY, state=State.OPEN, tier=3, durable=True, body={"number": number}))
            proxy.lose(COMMIT.sha.encode(), forgets)
            script.end("mira", opened[-1])
        assert proxy.lost == 8
        assert store.pool().lost == 8
        entries = store.entries()
        assert [entry.seq for entry in entries if entry.event is Event.INTERCEPT] == opened
        assert [entry.action for entry in entries if entry.event is Event.COMPLETE] == opened
        assert store.live(None, list(State)) == []
        store.close()


def test_unreachable_server_is_unavailable_and_recovers(own_server: RedisServer) -> None:
    store = RedisStore(own_server.url())
    script = StoreScript(store)
    before = script.act("mira", KEY)
    own_server.kill()
    for what in (lambda: script.act("mira", KEY), store.entries, store.check, store.now):
        with pytest.raises(StoreUnavailable):
            what()
    own_server.start()
    assert script.act("mira", KEY) > before
    store.close()


def test_calls_at_once_share_one_deadline_while_redis_is_frozen(own_server: RedisServer, tmp_path: Path) -> None:
    """The time that a call waits behind another counts: otherwise the second batch takes twice as long."""
    took: list[float] = []
    statuses: list[int] = []
    with serving_gate(tmp_path / "state", "--store", own_server.url()) as server:

        def act(number: int) -> int:
            body = {"instance": "mira", "tool": "write", "params": {"path": f"/x{number}", "content": "x"}}
            began = time.monotonic()
            status = server.ask("POST", "/intercept", body, timeout=60).status
            took.append(time.monotonic() - began)
            statuses.append(status)
            return int(status)

        assert act(0) == 200
        took.clear()
        statuses.clear()
        assert own_server.process is not None
        own_server.process.send_signal(signal.SIGSTOP)
        try:
            all_at_once([partial(act, number) for number in range(12)])
        finally:
            own_server.process.send_signal(signal.SIGCONT)
        assert set(statuses) == {503}
        assert max(took) < 1.9 * PATIENCE, took


def test_scripts_missing_on_the_server_are_sent_again(redis_server: RedisServer) -> None:
    store = RedisStore(redis_server.url())
    script = StoreScript(store)
    for _ in range(3):
        with redis_server.client() as client:
            client.script_flush()
        id = script.act("mira", KEY, state=State.OPEN, tier=3, durable=True)
        script.end("mira", id)
    assert len(store.entries()) == 6
    store.close()


def test_emptied_server_causes_a_new_view(tmp_path: Path) -> None:
    """The cache of a key is gone with the server's data; later actions are seen by others as usual."""
    for server in server_with(str(tmp_path), appendonly="no"):
        store = RedisStore(server.url(durability="server"))
        script = StoreScript(store)
        script.act("mira", KEY)
        script.act("mira", KEY)
        server.kill()
        server.start()
        first, id = script.act("mira", KEY), script.act("mira", KEY)
        assert [entry.seq for entry in store.entries()] == [first, id]
        assert [action.id for action in script.key_view("doug", KEY).latest] == [id]
        assert [action.id for action in script.key_view("doug", "doc:plan|x").latest] == [id]
        store.close()


def test_exhausted_pool_is_unavailable_and_the_error_names_the_setting(redis_server: RedisServer) -> None:
    store = RedisStore(redis_server.url(pool="2"))
    script = StoreScript(store)
    script.act("mira", KEY)
    lines = store.link.client.connection_pool
    lines.wait = 0.1
    held = [lines.get_connection() for _ in range(2)]
    assert store.pool() == Pool(2, open=2, idle=0)
    for what in (lambda: script.act("mira", KEY), store.check):
        with pytest.raises(StoreUnavailable, match=r"all 2 connections .* pool=N"):
            what()
    for connection in held:
        lines.release(connection)
    script.act("mira", KEY)
    assert store.pool() == Pool(2, open=2, idle=2, waits=2, timeouts=2)
    store.close()
    assert store.pool().open == 0


def test_more_threads_than_connections_take_turns(redis_server: RedisServer) -> None:
    store = RedisStore(redis_server.url(pool="2"))
    most = [0]

    def worker(place: int) -> None:
        script = StoreScript(store)
        for _ in range(20):
            script.act(f"s{place}", f"doc:{place}")
            most[0] = max(most[0], store.pool().open)

    all_at_once([partial(worker, place) for place in range(8)])
    assert len(store.entries(limit=1000)) == 160
    assert most[0] == 2
    pool = store.pool()
    assert (pool.waiting, pool.timeouts, pool.idle) == (0, 0, 2)
    assert pool.waits > 0
    store.close()


def test_silent_connection_is_given_up(redis_server: RedisServer) -> None:
    """As when a firewall has dropped it: it ends by its timeout, and the call is done once over a new one."""
    with Proxy(("127.0.0.1", redis_server.port)) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}/0?{redis_server.url().partition('?')[2]}")
        script = StoreScript(store)
        id = script.act("mira", KEY, state=State.OPEN, tier=4)
        proxy.set("silent")
        for connection in store.link.client.connection_pool._available_connections:
            connection._sock.settimeout(0.5)  # its own is five seconds
        proxy.set("plain")  # for new connections; those that went silent stay so
        script.end("mira", id)
        assert store.pool().lost == 1
        assert [entry.action for entry in store.entries()] == [id, id]
        store.close()


def test_client_with_a_wrong_clock_uses_the_server_time(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without the key in the cache."""
    store = RedisStore(redis_server.url())
    script = StoreScript(store)
    true = time.time
    with redis_server.client() as client:
        for day in (-86_400, 86_400):
            monkeypatch.setattr(time, "time", lambda day=day: true() + day)
            for key in (KEY, f"doc:{day}", KEY):
                before = client.time()
                id = script.act("mira", key)
                after = client.time()
                assert before[0] * 1_000_000 + before[1] - 1000 <= id <= after[0] * 1_000_000 + after[1] + 1000
    assert store.check().ahead < 1
    store.close()


def test_full_server_is_unavailable_and_stores_no_partial_change(own_server: RedisServer) -> None:
    store = RedisStore(own_server.url())
    script = StoreScript(store)
    script.act("mira", KEY)
    with own_server.client() as client:
        client.config_set("maxmemory", "1")
        with pytest.raises(StoreUnavailable, match=r"OOM|memory"):
            script.act("mira", KEY, state=State.OPEN, tier=4)
        client.config_set("maxmemory", "0")
    assert len(store.entries()) == 1
    assert store.live(None, list(State)) == []
    script.act("mira", KEY)
    store.close()


def test_a_replica_is_refused(own_server: RedisServer) -> None:
    """When a store is opened, and when the server becomes a replica later."""
    url = own_server.url()
    store = RedisStore(url)
    script = StoreScript(store)
    script.act("mira", KEY)
    with tempfile.TemporaryDirectory() as folder:
        for other in server_with(folder, "--replicaof", "127.0.0.1", str(own_server.port)):
            with pytest.raises(StoreUnavailable, match="replica"):
                RedisStore(other.url())
            with own_server.client() as client:
                client.replicaof("127.0.0.1", str(other.port))
            with pytest.raises(StoreUnavailable):
                script.act("mira", KEY)
    store.close()


@pytest.mark.parametrize(
    ("appendonly", "fsync", "said"),
    [("no", "everysec", "appendonly no"), ("yes", "everysec", "appendfsync everysec"), ("yes", "no", "appendfsync no")],
)
def test_server_without_the_required_durability_is_refused(appendonly: str, fsync: str, said: str) -> None:
    """Unless the loss is accepted, which ``check`` reports; a server that can wait for its disk may do so."""
    with tempfile.TemporaryDirectory() as folder:
        for server in server_with(folder, appendonly=appendonly, fsync=fsync):
            with server.client() as client:
                facts = client.info("server")
            version = str(facts.get("valkey_version") or facts["redis_version"])
            waits_for_disk = tuple(int(part) for part in version.split(".")[:2]) >= (7, 2)
            if fsync == "everysec" and appendonly == "yes" and waits_for_disk:
                RedisStore(server.url()).close()  # it waits for its disk
            else:
                with pytest.raises(ConfigError, match=said):
                    RedisStore(server.url())
            store = RedisStore(server.url(durability="server"))
            assert StoreScript(store).act("mira", KEY, durable=True)
            (problem,) = store.check().problems
            assert said in problem
            store.close()


def waits(server: RedisServer) -> int:
    """Count the waits for the server's disk."""
    with server.client() as client:
        return int(client.info("commandstats").get("cmdstat_waitaof", {"calls": 0})["calls"])


def test_durable_batch_waits_for_the_disk_if_the_server_can_confirm_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From version 7.2 on. Data not on disk in time is not acknowledged; calls that need no sync do not wait."""
    for server in server_with(str(tmp_path), fsync="everysec", program=recent_binary()):
        store = RedisStore(server.url())
        assert not store.check().problems
        script = StoreScript(store)
        script.act("mira", KEY)
        assert waits(server) == 0
        id = script.act("mira", KEY, state=State.OPEN, tier=4, durable=True)
        assert waits(server) > 0
        with server.client() as client:
            client.config_set("appendfsync", "no")
        monkeypatch.setattr(redis_connection, "_SYNC", 200)
        with pytest.raises(StoreUnavailable, match="did not put the batch on disk"):
            script.act("mira", "doc:other", state=State.OPEN, tier=4, durable=True)
        script.end("mira", id)
        with pytest.raises(ConfigError, match="appendfsync no"):
            RedisStore(server.url())
        store.close()


def test_a_server_that_may_evict_leases_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for server in server_with(folder, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"):
            with pytest.raises(ConfigError, match="noeviction"):
                RedisStore(server.url())


def test_a_durable_batch_waits_for_replicas(own_server: RedisServer) -> None:
    """Without a replica it is not acknowledged."""
    store = RedisStore(own_server.url(replicas="1"))
    script = StoreScript(store)
    script.act("mira", KEY)  # not durable: nobody waits
    with tempfile.TemporaryDirectory() as folder:
        for other in server_with(folder, "--replicaof", "127.0.0.1", str(own_server.port)):
            with other.client() as client:
                while client.info("replication").get("master_link_status") != "up":
                    time.sleep(0.01)
            assert script.act("mira", KEY, tier=4, durable=True)
    store.close()


def test_another_format_is_refused_with_the_command_that_sets_it_aside(redis_server: RedisServer) -> None:
    url = redis_server.url()
    store = RedisStore(url)
    prefix = store.link.prefix
    with redis_server.client() as client:
        client.set(f"{prefix}:schema", "99")
        with pytest.raises(StoreError, match=r"format 99 .* install a newer"):
            RedisStore(url)
        client.mset({f"{prefix}:schema": "1", f"{prefix}:other": "kept"})
        with pytest.raises(StoreError, match=r"format 1 .* set it aside with") as told:
            RedisStore(url)
        words = shlex.split(str(told.value).split("`")[1])
        assert words[:2] == ["redis-cli", "-u"]
        client.execute_command(*words[3:])
        assert client.get(f"format-1:{prefix}:other") == b"kept"
    RedisStore(url).close()
    store.close()


def test_a_bad_url_is_refused(redis_server: RedisServer) -> None:
    with pytest.raises(ConfigError, match="durability"):
        RedisStore(redis_server.url(durability="perhaps"))
    with pytest.raises(ConfigError):
        RedisStore("http://127.0.0.1/")
    with pytest.raises(StoreUnavailable):
        RedisStore("redis://127.0.0.1:1/0")


def test_settings_select_redis_by_its_url(redis_server: RedisServer, tmp_path: Path) -> None:
    for url in (redis_server.url(), redis_server.url().replace("redis://", "valkey://")):
        store = open_store(Settings(state=tmp_path, store=url))
        assert isinstance(store, RedisStore)
        assert store.check().engine.startswith(("Redis ", "Valkey "))
        store.close()


def test_the_password_is_in_no_text(own_server: RedisServer) -> None:
    with own_server.client() as client:
        client.config_set("requirepass", "not-a-real-one")
    url = f"redis://:not-a-real-one@127.0.0.1:{own_server.port}/0"
    store = RedisStore(url)
    assert "not-a-real" not in store.check().place
    store.close()
    with pytest.raises(StoreUnavailable) as told:
        RedisStore(url.replace("not-a-real-one", "not-a-real-two"))
    assert "not-a-real" not in str(told.value)


def test_ids_match_the_journal_while_other_processes_advance_the_time(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """Many sessions use keys of their own: every answer names its journal entry, and time only grows."""
    (tmp_path / "rules.json").write_text(RULES)
    store = RedisStore(redis_server.url())
    given: list[tuple[int, str]] = []
    with LocalGate(settings=Settings(state=tmp_path, rules=tmp_path / "rules.json"), store=store) as gate:

        def worker(place: int) -> None:
            for number in range(30):
                decision = gate.intercept(
                    Call(f"s{place}", "act3", {"on": f"own-{place}"}, call_id=f"{place}-{number}")
                )
                assert decision.proceed
                assert decision.lease is not None
                assert decision.lease.token == decision.id
                given.append((decision.id, f"s{place}"))
                assert gate.complete(f"s{place}", id=decision.id).ok

        all_at_once([partial(worker, place) for place in range(8)])
        entries = store.entries(limit=10_000)
        opened = {(e.seq, e.session.partition("/")[0]) for e in entries if e.event is Event.INTERCEPT}
        assert opened == set(given)
        assert len(entries) == 480
        assert all(e.action in {id for id, _ in given} for e in entries)
        assert store.live(None, list(State)) == []


def test_ticket_of_a_dead_process_expires(redis_server: RedisServer) -> None:
    """The other sessions wait for it for at most two seconds."""
    store = RedisStore(redis_server.url())
    script = StoreScript(store)
    script.act("mira", KEY)
    with redis_server.client() as client:
        seconds, micros = client.time()
        taken = seconds * 1_000_000 + micros
        client.zadd(f"{store.link.prefix}:turn", {"dead": taken + 1_500_000})
        client.zadd(f"{store.link.prefix}:w:".encode() + names.key("default", KEY), {"dead": taken})
    began = time.monotonic()
    script.act("doug", "doc:other")
    halfway = time.monotonic()
    script.act("doug", KEY)
    ended = time.monotonic()
    assert ended - began > 1.25
    assert halfway - began < ended - halfway, "another key waits for nobody"
    store.close()


def test_waiter_is_woken_by_another_process(own_server: RedisServer) -> None:
    """At once when an action ends, also after the server was unreachable; otherwise at the time limit."""
    url = own_server.url()
    store, other = RedisStore(url), RedisStore(url)
    script = StoreScript(other)
    id = script.act("mira", KEY, state=State.OPEN, tier=4)
    began = time.monotonic()
    store.pause(0)
    assert store.engine.notifier.wait_until_connected(10)
    for _ in range(2):
        ender = threading.Timer(0.2, partial(script.end, "mira", id))
        ender.start()
        began = time.monotonic()
        while id in {action.id for action in store.live("default", [State.OPEN])}:
            store.pause(HANG)
        assert time.monotonic() - began < HANG / 2
        ender.join()
        own_server.kill()
        own_server.start()
        id = script.act("mira", KEY, state=State.OPEN, tier=4)
        deadline = time.monotonic() + HANG
        while not store.engine.notifier.wait_until_connected(0.05):
            assert time.monotonic() < deadline
    store.close()
    other.close()
