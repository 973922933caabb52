"""The PostgreSQL store under faults: several processes and servers, lost connections, a killed server."""

import multiprocessing
import os
import random
import signal
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest

from callosum.client import CallosumClient
from callosum.errors import StoreError, StoreUnavailable
from callosum.gate import LocalGate
from callosum.model import (
    SECOND,
    Applied,
    Call,
    Change,
    Decision,
    Entry,
    Event,
    Key,
    LockResult,
    Opening,
    Scope,
    State,
    View,
)
from callosum.settings import Settings
from callosum.stores.postgres import PostgresStore, connections, pipeline
from callosum.stores.postgres import engine as engine_module
from callosum.stores.postgres import statements as sql
from callosum.stores.postgres.locks import Locks, in_order
from callosum.stores.postgres.pipeline import Pipeline
from callosum.testing.script import StoreScript, ids
from tests.support.postgres import Server, binaries, schema_of, server
from tests.support.serving import hosted
from tests.support.threads import all_at_once
from tests.support.world import RULES


def _store(url: str) -> PostgresStore:
    return PostgresStore(url)


OVERLAPPING = ["file:/r/", "file:/r/a", "file:/r/b/", "file:/r/b/c", "doc:x", "doc:x|note", "doc:/"]


def _act_in_every_order(url: str) -> int:
    """Act on trees and files in them, facets and their keys, from eight threads and three stores.

    Return how many deadlocks the server had; all actions succeeded despite them.
    """
    stores = [_store(url) for _ in range(3)]
    done: list[int] = []

    def worker(number: int) -> None:
        script = StoreScript(stores[number % 3])
        for turn in range(12):
            mine = [OVERLAPPING[(number * 3 + turn * step) % len(OVERLAPPING)] for step in (1, 2, 3)]
            id = script.act(f"s{number}", *dict.fromkeys(mine), tier=3, state=State.OPEN)
            script.end(f"s{number}", id)
            done.append(id)

    with psycopg.connect(stores[0].address.conninfo, autocommit=True) as connection:

        def deadlocks() -> int:
            row = connection.execute("select deadlocks from pg_stat_database where datname = 'postgres'").fetchone()
            return int(row[0]) if row else 0

        before = deadlocks()
        all_at_once([partial(worker, number) for number in range(8)])
        assert len(set(done)) == 96
        assert len(stores[0].entries(limit=1000)) == 192
        for store in stores:
            store.close()  # whose connections tell what they met when they end
        connection.execute("select pg_stat_clear_snapshot()")
        return deadlocks() - before


def test_overlapping_keys_in_every_order_never_deadlock(postgres_url: str) -> None:
    assert _act_in_every_order(postgres_url) == 0


def test_locks_taken_in_any_order_deadlock_and_are_retried(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: even then nothing is lost."""

    def in_any_order(schema: str, locks: Locks) -> list[tuple[int, bool]]:
        taken = in_order(schema, locks)
        random.shuffle(taken)
        return taken

    monkeypatch.setattr(engine_module, "in_order", in_any_order)
    assert _act_in_every_order(f"{postgres_url}&options=-c%20deadlock_timeout%3D5ms") > 0


def test_a_reader_of_the_journal_skips_nothing_that_commits_late(postgres_url: str) -> None:
    """The later moment is committed first; a reader that continues from it still sees the earlier one."""
    slow, quick = _store(postgres_url), _store(postgres_url)
    looked, goes_on = threading.Event(), threading.Event()

    def hesitates(_: View) -> Change:
        looked.set()
        assert goes_on.wait(30)
        return Change((Entry(Event.INTERCEPT, "slow", tool="tool"),))

    thread = threading.Thread(
        target=lambda: StoreScript(slow).run(Scope("default", "slow", (Key("doc:1"),)), hesitates)
    )
    thread.start()
    assert looked.wait(30)
    late = StoreScript(quick).act("quick", "doc:2")
    pages: list[list[int]] = []
    reader = threading.Thread(target=lambda: pages.append([e.seq for e in quick.entries(after=0)]))
    reader.start()
    reader.join(0.3)
    assert reader.is_alive(), "the reader must wait for the one that is under way"
    goes_on.set()
    thread.join()
    reader.join()
    seen = pages[0]
    after = [entry.seq for entry in quick.entries(after=seen[-1])]
    assert sorted({*seen, *after}) == sorted(seen + after)
    assert len(seen + after) == 2
    assert seen[-1] == late
    slow.close()
    quick.close()


def test_a_notice_ends_a_wait(postgres_url: str) -> None:
    """A waiter on another server is woken as soon as the holder ends."""
    here, there = _store(postgres_url), _store(postgres_url)
    script = StoreScript(there)
    held = script.act("doug", "doc:1", tier=4, state=State.OPEN)
    script.act("mira", "doc:1", tier=4, state=State.QUEUED)
    here.pause(0)
    assert here.engine.notifier.wait_until_connected(20)
    before = here.engine.notifier._count
    waiter = threading.Thread(target=here.pause, args=(60,))
    waiter.start()
    script.end("doug", held)
    waiter.join(30)
    assert not waiter.is_alive()
    assert here.engine.notifier._count > before
    here.close()
    there.close()


def test_stores_that_start_together_make_the_schema_once(postgres: Server, postgres_url: str) -> None:
    all_at_once([lambda: _store(postgres_url).close()] * 6)


def test_newer_schema_is_used_if_it_declares_compatibility(postgres: Server, postgres_url: str) -> None:
    """A server of the previous version keeps working beside newer ones; one that is too old reports it."""
    store = _store(postgres_url)
    schema = schema_of(postgres_url)
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        connection.execute(f"alter table {schema}.journal add column later text")
        connection.execute(f"update {schema}.schema_version set version = 99, oldest = 1")  # noqa: S608
        other = _store(postgres_url)
        assert StoreScript(other).act("mira", "doc:1") > 0
        assert StoreScript(store).key_view("doug", "doc:1").latest
        connection.execute(f"update {schema}.schema_version set oldest = 99")  # noqa: S608
    with pytest.raises(StoreError, match="newer Callosum"):
        _store(postgres_url)
    store.close()
    other.close()


def test_schema_of_another_program_is_left_alone(postgres: Server, postgres_url: str) -> None:
    schema = schema_of(postgres_url)
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        connection.execute(f"create schema {schema}")
        connection.execute(f"create table {schema}.journal(mine int)")
        with pytest.raises(StoreError, match="not Callosum's"):
            _store(postgres_url)
        assert connection.execute(f"select count(*) from {schema}.journal").fetchone() == (0,)  # noqa: S608


def test_absent_server_is_reported_soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="PostgreSQL at"):
        PostgresStore(f"postgresql:///postgres?host={tmp_path}")


def test_transaction_that_stalls_is_ended_by_the_server_and_retried(
    postgres: Server, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other sessions continue with its keys, and its own step sees their actions."""
    monkeypatch.setattr(connections, "_FOR_SESSION", connections._FOR_SESSION.replace("'10s'", "'200ms'"))
    stalls, waits = _store(postgres_url), _store(postgres_url)
    looked, goes_on = threading.Event(), threading.Event()
    seen: list[int] = []

    def hesitates(view: View) -> Change:
        seen.append(len(view.keys[0].latest))
        looked.set()
        assert goes_on.wait(30)
        return Change((Entry(Event.INTERCEPT, "slow", tool="tool", keys=(Key("doc:1"),)),), Opening(State.DONE, 1))

    scope = Scope("default", "slow", (Key("doc:1"),))
    thread = threading.Thread(target=lambda: StoreScript(stalls).run(scope, hesitates))
    thread.start()
    assert looked.wait(30)
    id = StoreScript(waits).act("quick", "doc:1")
    goes_on.set()
    thread.join()
    assert seen == [0, 1]
    first, _ = waits.entries()
    assert first.seq == id
    stalls.close()
    waits.close()


def _in_another_time(url: str, folder: str, who: str, days: int, asked: Any, told: Any) -> None:
    """Run a process whose clock is off by ``days``; it takes and releases a lease on request."""
    off = days * 86_400
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + off
    time.time_ns = lambda: real_ns() + off * 10**9
    with LocalGate(settings=Settings(state=Path(folder) / who), store=PostgresStore(url)) as gate:
        for word in iter(asked.get, None):
            answer = gate.lock(who, "doc:1", ttl=60) if word == "lock" else gate.release(who, "doc:1")
            told.put(answer.lease.token if isinstance(answer, LockResult) and answer.lease else bool(answer == word))


def test_a_client_whose_clock_is_off_by_a_day_changes_nothing(tmp_path: Path, postgres_url: str) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    told = context.SimpleQueue()
    asked = {days: context.SimpleQueue() for days in (-1, 1)}
    processes = [
        context.Process(
            target=_in_another_time, args=(postgres_url, str(tmp_path), f"s{days}", days, asked[days], told)
        )
        for days in asked
    ]
    for process in processes:
        process.start()

    def does(days: int, word: str) -> int:
        asked[days].put(word)
        return int(told.get())

    tokens = []
    before = time.time()
    for holder, other in ((1, -1), (-1, 1), (1, -1)):
        tokens.append(does(holder, "lock"))
        assert not does(other, "lock"), "it is held, whatever their clocks say"
        does(holder, "release")
    assert 0 < tokens[0] < tokens[1] < tokens[2]
    store = _store(postgres_url)
    assert all(before - 5 < entry.seq / SECOND < time.time() + 5 for entry in store.entries())
    assert store.check().ahead < 5
    for queue in asked.values():
        queue.put(None)
    for process in processes:
        process.join(30)
    store.close()


_FETCHED = (
    "select coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0)::bigint "
    "from pg_stat_xact_user_tables where relid = 'record'::regclass "
    "or relid in (select relid from pg_partition_tree('journal'))"
)
"""How many records and entries the server has read so far for this connection."""


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[Pipeline]:
    """Count the round trips: one line for each wait for a response."""
    waited: list[Pipeline] = []
    sync = Pipeline.sync

    def counts(line: Pipeline) -> None:
        waited.append(line)
        sync(line)

    monkeypatch.setattr(Pipeline, "sync", counts)
    return waited


def test_call_on_known_keys_and_its_report_take_a_round_trip_each(
    postgres_url: str, trips: list[Pipeline], tmp_path: Path
) -> None:
    """A key that is new to the process takes one more; so does a report by another process, which asks for the keys."""
    (tmp_path / "rules.json").write_text(RULES)
    with ExitStack() as stack:
        mine, other = (
            stack.enter_context(
                LocalGate(settings=Settings(state=tmp_path / name, rules=tmp_path / "rules.json", store=postgres_url))
            )
            for name in "ab"
        )

        def call(number: int, key: str, reports: LocalGate) -> list[int]:
            began = len(trips)
            done = mine.intercept(Call("mira", "act3", {"on": key, "text": f"text {number}"}, call_id=f"{number}"))
            assert done.proceed
            opened = len(trips)
            assert reports.complete("mira", id=done.id).ok
            return [opened - began, len(trips) - opened]

        call(1, "plan", mine)
        call(2, "plan", other)
        assert call(3, "other", mine) == [2, 1]
        assert [call(number, "other", mine) for number in (4, 5)] == [[1, 1], [1, 1]]
        assert call(6, "other", other) == [1, 3]


@pytest.mark.parametrize("entries", [2_000, 5_000, 20_000])  # which guess is wrong depends on how many there are
def test_tables_without_statistics_are_read_with_few_rows(postgres: Server, postgres_url: str, entries: int) -> None:
    """In a new store, in each new partition and after a restore, the planner only guesses: without settings, wrongly."""
    _store(postgres_url).close()
    schema, last = schema_of(postgres_url), 1 << 60
    some, seqs, values = [b"k%08d" % at for at in (1, 40, entries)], [1, 40, entries], [b"a", b"b", b"c"]
    page, scan = (0, last, "default", None, None, 20), (some[1], some[2], 10)
    asked: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys((sql.PAGE, sql.PAGE_NEWEST, sql.PAGE_NOW, sql.PAGE_NOW_NEWEST), page),
        **dict.fromkeys((sql.SCAN, sql.SCAN_NEWEST), scan),
        **dict.fromkeys((sql.GET_OF_ENTRY, sql.OPENERS), (seqs,)),
        sql.GET: (some,),
        sql.OPENED: (50, "default", ["s1", "s2"], 20),
        sql.BODIES: (seqs, "default"),
        sql.CHECK: (some, [1, 1, 1], last, 1),
        sql.PUT_OF_ENTRY: (seqs, values),
        sql.DROP: (seqs, [0, 0, 0]),
        sql.PUT_AS_READ: (some, values, [1, 1, 1], 2),
        sql.DELETE_AS_READ: (some, [1, 1, 1]),
    }

    def read(connection: psycopg.Connection, query: str) -> int:
        """Return how many rows a statement reads."""
        with connection.transaction(force_rollback=True):
            before = connection.execute(_FETCHED).fetchall()[0][0]
            psycopg.RawCursor(connection).execute(query.encode(), asked[query], prepare=True)
            return int(connection.execute(_FETCHED).fetchall()[0][0] - before)

    with psycopg.connect(postgres.conninfo, autocommit=True) as guessing:
        guessing.execute(f"set search_path to {schema}; set plan_cache_mode to force_generic_plan")
        guessing.execute("alter table journal_0 set (autovacuum_enabled = off)")
        guessing.execute("alter table record set (autovacuum_enabled = off)")
        guessing.execute(
            "insert into journal(seq, token, event, namespace, session, action, record) "
            "select n, 0, 'intercept', 'default', 's' || n %% 50, n - n %% 2, 'x' from generate_series(1, %s) n",
            (entries,),
        )
        new = "select ('k' || lpad(n::text, 8, '0'))::bytea, 'x', 1 from generate_series(1, %s) n"
        guessing.execute(f"insert into record {new}", (entries,))
        assert max(read(guessing, query) for query in asked) >= entries, "nothing is needed for a good plan"
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        connection.execute(connections._FOR_SESSION, (schema,))
        assert {query: rows for query in asked if not 0 < (rows := read(connection, query)) < 100} == {}


def test_exhausted_pool_is_reported_and_recovers(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.3)
    store = _store(f"{postgres_url}&pool=1")
    holds, goes_on = threading.Event(), threading.Event()

    def slow(_: View) -> Change:
        holds.set()
        assert goes_on.wait(30)
        return Change()

    thread = threading.Thread(target=lambda: StoreScript(store).run(Scope("default", "slow", (Key("doc:1"),)), slow))
    thread.start()
    assert holds.wait(30)
    assert (store.pool().limit, store.pool().open, store.pool().idle) == (1, 1, 0)
    with pytest.raises(StoreUnavailable, match=r"all connections .* in use: allow more of them by \?pool="):
        store.now()
    goes_on.set()
    thread.join()
    assert store.now() > 0
    assert store.pool().timeouts == 1
    assert store.pool().idle == 1
    store.close()


@pytest.mark.parametrize("arrives", [True, False], ids=["after-the-commit", "before-the-commit"])
@pytest.mark.parametrize("reports", [True, False], ids=["report", "act"])
def test_a_commit_that_was_not_confirmed_is_asked_about(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, reports: bool, arrives: bool
) -> None:
    """The connection is lost during the commit: whether or not it arrived, the entry is there once."""
    store = _store(postgres_url)
    script = StoreScript(store)
    held = [script.act("mira", "doc:1", tier=3, state=State.OPEN) for _ in range(3)][-1]
    script.end("mira", script.act("mira", "doc:2", tier=3, state=State.OPEN))
    before = [entry.seq for entry in store.entries()]
    send, lost = Pipeline.send, list[Pipeline]()

    def loses(line: Pipeline, query: str, params: object = None) -> object:
        if query != "commit" or lost:
            return send(line, query, params)  # type: ignore[arg-type]
        lost.append(line)
        if arrives:
            send(line, query)
            line.sync()
        line.close()
        raise psycopg.OperationalError("the network is gone")

    monkeypatch.setattr(Pipeline, "send", loses)
    told = script.end("mira", held) if reports else script.act("mira", "doc:1", tier=3, state=State.OPEN)
    monkeypatch.undo()
    assert lost
    assert [entry.seq for entry in store.entries()] == [*before, told]
    assert (held in ids(script.key_view("doug", "doc:1").live)) is not reports
    store.close()


class Load:
    """Sessions that act without a pause and remember the acknowledged actions."""

    def __init__(self, url: str, sessions: int) -> None:
        self.store = PostgresStore(url)
        self.done: list[tuple[str, int]] = []
        self.faults: list[BaseException] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(sessions)]

    def _work(self, number: int) -> None:
        session = f"s{number}"
        count = 0
        while not self._stop.is_set():
            count += 1
            name = f"{session}-{count}"

            def step(view: View, name: str = name, session: str = session) -> Change:
                entry = Entry(Event.INTERCEPT, session, tool="tool", tier=3, body={"name": name}, keys=(Key("doc:1"),))
                return Change((entry,), Opening(State.DONE, view.now + 1))

            try:
                key = Key("doc:1") if count % 2 else Key(f"doc:{session}")
                (answer,) = self.store.transact([(Scope("default", session, (key, Key("doc:1")), durable=True), step)])
                assert isinstance(answer, Applied)
                self.done.append((name, answer.ids[0]))
            except StoreUnavailable:
                continue
            except BaseException as fault:  # noqa: BLE001
                self.faults.append(fault)
                return

    def more(self, count: int) -> None:
        """Wait until ``count`` more actions are done."""
        until = len(self.done) + count
        deadline = time.monotonic() + 60
        while len(self.done) < until:
            assert not self.faults, self.faults
            assert time.monotonic() < deadline, "nothing goes on"
            self._stop.wait(0.005)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def check(self) -> None:
        """Check that every confirmed entry is at its position and that none is there twice."""
        assert not self.faults, self.faults
        written = [(entry.body["name"], entry.seq) for entry in self.store.entries(limit=1_000_000)]
        assert set(self.done) <= set(written)
        assert len({name for name, _ in written}) == len(written)
        self.store.close()


def test_killed_backends_lose_and_repeat_nothing(postgres: Server, postgres_url: str) -> None:
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection, Load(postgres_url, 6) as load:
        for _ in range(8):
            load.more(15)
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'callosum'"
            )
        load.more(30)
    load.check()


def test_a_backend_that_hangs_is_given_up(postgres: Server, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a network that drops every packet and closes nothing: the connection cannot be probed."""
    monkeypatch.setattr(pipeline, "STALL", 0.5)
    store = _store(postgres_url)
    script = StoreScript(store)
    script.act("mira", "doc:1")
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        pids = connection.execute("select pid from pg_stat_activity where application_name = 'callosum'").fetchall()
    assert pids
    for (pid,) in pids:
        os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        id = script.act("mira", "doc:2")
    finally:
        for (pid,) in pids:
            os.kill(pid, signal.SIGCONT)
    assert time.monotonic() - began >= pipeline.STALL
    assert [entry.seq for entry in store.entries()][1:] == [id]
    store.close()


def test_a_server_that_is_stopped_hard_under_load_loses_nothing_confirmed() -> None:
    if binaries() is None:
        pytest.skip("no PostgreSQL here; the other tests say so loudly")
    with server(on_disk=True) as own:
        with Load(own.url("load"), 6) as load:
            for _ in range(2):
                load.more(25)
                own.stop(hard=True)
                own.start()
            load.more(25)
        load.check()


def test_two_servers_on_one_store_are_one_gate(tmp_path: Path, postgres_url: str) -> None:
    """Calls allowed by one are seen and reported through the other, and a waiter of one is let in by the other."""
    (tmp_path / "rules.json").write_text(RULES)
    with ExitStack() as stack:
        clients = []
        for name in ("one", "two"):
            settings = Settings(state=tmp_path / name, rules=tmp_path / "rules.json", store=postgres_url)
            gate = stack.enter_context(LocalGate(settings=settings))
            address = stack.enter_context(hosted(gate, tmp_path / name))
            clients.append(stack.enter_context(CallosumClient(address, deadline=30)))
        one, two = clients
        held = one.intercept(Call("mira", "now4", {"on": "/r/a"}, call_id="1"))
        assert held.proceed
        assert two.intercept(Call("doug", "now4", {"on": "/r/"}, call_id="2")).verdict == "block"
        waited: list[Decision] = []
        call = Call("anna", "now4", {"on": "/r/a"}, call_id="3", wait=20)
        waiter = threading.Thread(target=lambda: waited.append(two.intercept(call)))
        waiter.start()
        while not two.status("file:/r/a").waiting:
            os.sched_yield()
        assert two.complete("mira", id=held.id).ok
        waiter.join(30)
        assert waited[0].proceed
        assert one.complete("anna", id=waited[0].id).ok
