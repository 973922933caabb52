"""``callosum store copy``: between all stores, killed at every step, under writers, and never over other data.

``tests/property/test_copy_machine.py`` shows that a gate decides on the copy as on the original.
"""

import json
import multiprocessing
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from callosum.cli import main
from callosum.errors import ConfigError, StoreError
from callosum.gate import LocalGate
from callosum.model import DAY, Call, Entry, Event, Key, Mode, State
from callosum.settings import Settings
from callosum.stores import store_copy
from callosum.stores.export import EntryRecord, Page, Sort, Stamp, StoreExport
from callosum.stores.opening import open_store
from callosum.testing.script import StoreScript
from tests.acceptance.command import run
from tests.support.postgres import Server, schema_of
from tests.support.redis_server import RedisServer

KINDS = ("sqlite", "postgresql", "redis")


class Places:
    """Empty stores of every kind; ``state`` is the folder of the embedded ones."""

    def __init__(self, state: Path, postgres: Server, redis: RedisServer) -> None:
        self.state, self._postgres, self._redis = state, postgres, redis
        self._count = 0
        self.schemas: list[str] = []

    def fresh(self, kind: str) -> Settings:
        self._count += 1
        if kind == "sqlite":
            return Settings(state=self.state, store=f"sqlite:///{self._count}.db")
        if kind == "redis":
            return Settings(state=self.state, store=self._redis.url())
        url = self._postgres.url()
        self.schemas.append(schema_of(url))
        return Settings(state=self.state, store=url)

    def filled(self, kind: str, acts: int = 40) -> Settings:
        settings = self.fresh(kind)
        with closing(open_store(settings)) as store:
            fill(StoreScript(store), acts)
        return settings


@pytest.fixture
def empty_stores(tmp_path: Path, postgres: Server, redis_server: RedisServer) -> Iterator[Places]:
    places = Places(tmp_path, postgres, redis_server)
    yield places
    for schema in places.schemas:
        postgres.drop(schema)


Said = Callable[..., tuple[int, str]]


@pytest.fixture
def run_store(empty_stores: Places, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Said:
    """Run ``callosum store ...`` in this process; return its exit code and its output."""

    def said(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["callosum", "store", *words, "--state", str(empty_stores.state)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), "".join(capfd.readouterr())

    return said


def fill(script: StoreScript, acts: int) -> None:
    """Make in turn a leased action, a done one, a read, a failed one, an unknown one and a refused call."""
    for number in range(acts):
        who, key = f"s{number % 7}", f"doc:{number % 11}"
        match number % 6:
            case 0:
                script.act(
                    who,
                    key,
                    tier=3,
                    state=State.OPEN,
                    call=script.namespace.encode() + number.to_bytes(16),
                    prints=(b"p%d" % number,),
                )
            case 1:
                script.end(who, script.act(who, key, f"file:/r/{number % 5}/", prints=(b"again",)))
            case 2:
                script.act(who, Key(key, Mode.READ), tier=0)
            case 3:
                script.end(who, script.act(who, key), State.FAILED)
            case 4:
                script.end(who, script.act(who, key, tier=4, state=State.OPEN), State.UNKNOWN)
            case _:
                script.refuse(who, key)


@contextmanager
def carried(*many: Settings) -> Iterator[Sequence[StoreExport]]:
    """Return stores as records."""
    carriers = [store_copy.carrier_of(settings, create=True) for settings in many]
    try:
        yield carriers
    finally:
        for carrier in carriers:
            carrier.close()


def entries(settings: Settings) -> int:
    with closing(open_store(settings)) as store:
        return store.check().entries


class Fused:
    """A target that kills this process at its ``at``-th change, before or after it is made."""

    def __init__(self, carrier: StoreExport, at: int, *, after: bool) -> None:
        self._carrier, self._left, self._after = carrier, at, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._carrier, name)

    def _burn(self, *, after: bool) -> None:
        if after is self._after:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def load(self, sort: Sort, records: Sequence[Any]) -> None:
        self._burn(after=False)
        self._carrier.load(sort, records)
        self._burn(after=True)

    def put_stamp(self, stamp: Stamp) -> None:
        self._burn(after=False)
        self._carrier.put_stamp(stamp)
        self._burn(after=True)


def _copy_until_killed(source: Settings, target: Settings, at: int, after: bool) -> None:
    with carried(source, target) as (from_, to):
        assert store_copy.copy(from_, Fused(to, at, after=after)).verified


@pytest.mark.parametrize("kind", KINDS)
def test_copy_that_is_killed_repeatedly_is_completed(
    empty_stores: Places, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Each process copies a little more before ``kill -9``; the last one verifies that nothing is missing or twice."""
    for module in ("sqlite", "postgres", "redis"):
        monkeypatch.setattr(f"callosum.stores.{module}.export.PAGE", 40)
    source, target = empty_stores.filled("sqlite", 120), empty_stores.fresh(kind)
    fork = multiprocessing.get_context("fork")
    codes: list[int | None] = []
    while 0 not in codes and len(codes) < 50:
        child = fork.Process(target=_copy_until_killed, args=(source, target, 5, len(codes) % 2 == 0))
        child.start()
        child.join(30)
        codes.append(child.exitcode)
        assert child.exitcode in (0, -signal.SIGKILL), codes
    assert len(codes) > 3, "it was not killed in the middle"
    with carried(source, target) as (from_, to):
        again = store_copy.copy(from_, to)
        assert again.verified
        assert again.mended == 0
        assert sum(again.loaded.values()) == 0
    assert entries(source) == entries(target)


def test_difference_between_copy_and_source_is_reported(empty_stores: Places) -> None:
    """Control of the comparison: every manual change in the copy is found and repaired by the next run."""
    source, target = empty_stores.filled("postgresql"), empty_stores.fresh("sqlite")
    with carried(source, target) as (from_, to):
        assert store_copy.copy(from_, to).verified
    for damage in (
        "delete from journal where seq = (select min(seq) from journal)",
        "update journal set expires = expires + 1 where state = 'open'",
        "update mark set told = told + 1 where (key, session) in (select key, session from mark limit 1)",
        "delete from print where id = (select max(id) from print)",
        "insert into session values('nobody', 1, null, null)",
        "insert into meta values('observe', 5)",
        "update journal set keys = replace(keys, ',0]', ',7]') where state = 'open'",
    ):
        with closing(sqlite3.connect(empty_stores.state / target.store.removeprefix("sqlite:///"))) as by_hand:
            assert by_hand.execute(damage).rowcount > 0, damage
            by_hand.commit()
        with carried(source, target) as (from_, to):
            copied = store_copy.copy(from_, to)
        assert copied.verified, damage
        if "keys" not in damage:  # what came before an act that hides it says nothing
            assert copied.mended > 0, damage


def test_source_that_changes_is_not_verified(empty_stores: Places, run_store: Said) -> None:
    """Once its writers have stopped, the same command copies the rest. Until then no gate may use the copy."""
    source, target = empty_stores.filled("sqlite"), empty_stores.fresh("redis")
    with closing(open_store(source)) as store, carried(source, target) as (from_, to):
        script = StoreScript(store)

        class FileBusy:
            def __getattr__(self, name: str) -> Any:
                return getattr(from_, name)

            def scan(self, sort: Sort, after: str = "") -> Iterator[Page]:
                script.act("busy", "doc:1")
                return from_.scan(sort, after)

        copied = store_copy.copy(FileBusy(), to)
        assert not copied.verified
        assert copied.first
        code, text = run_store("check", target.store)
        assert (code, "an unfinished copy" in text) == (1, True)
        again = store_copy.copy(from_, to)
        assert again.verified, again.first
    assert entries(source) == entries(target)
    assert run_store("check", target.store)[0] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_data_removed_from_the_source_is_removed_from_the_copy(empty_stores: Places, kind: str) -> None:
    """Between two runs its gate rotated the journal, forgot marks and digests, and ended actions."""
    source, target = empty_stores.filled("sqlite"), empty_stores.fresh(kind)
    with carried(source, target) as (from_, to):
        assert store_copy.copy(from_, to).verified
        with closing(open_store(source)) as store:
            script = StoreScript(store)
            opened = store.live(None, [State.OPEN])
            for action in opened[::2]:
                script.end(action.session, action.id, State.CANCELLED)
            later = store.now() + 10 * DAY
            before = store.check().entries
            assert store.maintain(later) > 0
            store.take(later, later, delete=True)
            assert store.check().entries < before
        copied = store_copy.copy(from_, to)
        assert copied.verified, copied.first
        assert copied.mended > 0
    with closing(open_store(source)) as ours, closing(open_store(target)) as theirs:
        assert ours.entries() == theirs.entries()
        assert [a.id for a in ours.live(None, [State.OPEN])] == [a.id for a in theirs.live(None, [State.OPEN])]
        assert len(opened) > len(ours.live(None, [State.OPEN])) > 0


def test_only_an_empty_target_or_its_own_copy_is_written_to(empty_stores: Places) -> None:
    """Another store, the copy of another source, a copy in use, and the source itself are left unchanged."""
    one, other, copy_ = empty_stores.filled("sqlite"), empty_stores.filled("sqlite"), empty_stores.fresh("postgresql")
    with carried(one, other, copy_) as (first, second, third):
        with pytest.raises(ConfigError, match="must be empty"):
            store_copy.copy(first, second)
        with pytest.raises(ConfigError, match="the same store"):
            store_copy.copy(first, first)
        assert store_copy.copy(first, third).verified
        assert store_copy.copy(first, third).verified
        with pytest.raises(ConfigError, match="a copy of another store"):
            store_copy.copy(second, third)
        with closing(open_store(copy_)) as store:
            StoreScript(store).act("new", "doc:1")
        with pytest.raises(ConfigError, match="a gate has written to the target"):
            store_copy.copy(first, third)
    assert entries(copy_) == entries(one) + 1


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_namespaces_that_share_a_moment_are_refused_by_stores_that_cannot_hold_them(
    empty_stores: Places, kind: str
) -> None:
    """A Redis Cluster has one clock for each namespace; neither entry is lost silently."""
    one, other = (EntryRecord(Entry(Event.HOST, "mira", namespace, seq=1000)) for namespace in ("a", "b"))
    with carried(empty_stores.fresh(kind)) as (to,):
        with pytest.raises(StoreError, match="both have an entry at the moment 1000"):
            to.load(Sort.JOURNAL, [one, other])
        to.load(Sort.JOURNAL, [one])
        with pytest.raises(StoreError, match="both have an entry"):
            to.load(Sort.JOURNAL, [other])
        to.load(Sort.JOURNAL, [one])
        assert [page for page, _ in to.scan(Sort.JOURNAL)] == [[one]]


def test_store_is_copied_through_every_kind_of_store_and_back(empty_stores: Places) -> None:
    """SQLite, PostgreSQL, Redis and back: leases, questions and tokens stay the same; no password is shown."""
    chain = [empty_stores.fresh(kind) for kind in ("sqlite", "postgresql", "redis", "sqlite")]
    chain[1] = Settings(state=empty_stores.state, store=chain[1].store.replace("callosum@", "callosum:geheim@"))
    with LocalGate(settings=chain[0]) as gate:
        held = gate.intercept(Call("doug", "Bash", {"command": "git push --force"}, cwd="/r"))
        locked = gate.lock("mira", "doc:plan", 4)
        assert locked.lease is not None
        status = gate.status()
    for source, target in pairwise(chain):
        given = "env:FROM_URL" if source is chain[1] else source.store
        done = run(empty_stores.state, "store", "copy", given, target.store, "--json", env={"FROM_URL": chain[1].store})
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["verified"]
        assert found["sorts"]["journal"]["count"] == 2
        assert "geheim" not in done.stdout + done.stderr
    with LocalGate(settings=chain[-1]) as gate:
        assert gate.status() == status
        assert not gate.lock("doug", "doc:plan", 4).acquired
        assert gate.complete("doug", id=held.id).ok == held.proceed
        assert gate.release("mira", "doc:plan").ok
        after = gate.lock("doug", "doc:plan", 4)
        assert after.lease is not None
        assert after.lease.token > locked.lease.token


def test_command_reports_a_store_it_cannot_use(empty_stores: Places, run_store: Said) -> None:
    """The output is a sentence and an exit code; the password is masked even if the driver quotes it."""
    full = empty_stores.filled("sqlite")
    cases: list[tuple[tuple[str, ...], int]] = [
        (("check", "sqlite:///none.db"), 1),
        (("copy", "sqlite:///none.db", "sqlite:///1.db"), 2),
        (("copy", full.store, full.store), 2),
        (("copy", "memory:", full.store), 2),
        (("copy", full.store, "ftp://x/y"), 2),
        (("check", "postgresql://u:geheim@127.0.0.1:1/x?connect_timeout=1"), 3),
        (("check", "postgresql://u:geheim@[::/x"), 2),
        (("check", "redis://:geheim@127.0.0.1:1/0"), 3),
        (("check", "env:NOT_SET"), 2),
        (("check", full.store), 0),
    ]
    for arguments, code in cases:
        ended, text = run_store(*arguments)
        assert ended == code, (arguments, text)
        assert "geheim" not in text
