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
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from callosum.cli import main
from callosum.errors import ConfigError, StoreError
from callosum.gate import LocalGate
from callosum.model import DAY, Call, Entry, Key, Mode, State
from callosum.settings import Settings
from callosum.stores import copy as copies
from callosum.stores import names
from callosum.stores.memory import MemoryStore
from callosum.stores.opening import open_store
from callosum.stores.port import Engine, Reader
from callosum.stores.sqlite import SqliteStore
from callosum.testing.script import StoreScript
from tests.acceptance.command import run
from tests.support.lmdb_engine import LmdbStore
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
def engines(*many: Settings) -> Iterator[Sequence[Engine]]:
    """Open stores for copying, and return their engines."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(copies.opened(settings, create=True))).engine for settings in many]


def entries(settings: Settings) -> int:
    with closing(open_store(settings)) as store:
        return store.check().entries


class Fused:
    """A target that kills this process at its ``at``-th commit, before or after it is made."""

    def __init__(self, engine: Engine, at: int, *, after: bool) -> None:
        self._engine, self._left, self._after = engine, at, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def begin(self, *arguments: Any, **more: Any) -> Any:
        transaction = self._engine.begin(*arguments, **more)
        self._left -= 1
        return Burning(transaction, after=self._after) if self._left == 0 else transaction


class Burning:
    """The transaction that the process does not survive."""

    def __init__(self, transaction: Any, *, after: bool) -> None:
        self._transaction, self._after = transaction, after

    def commit(self, *arguments: Any, **more: Any) -> None:
        if self._after:
            self._transaction.commit(*arguments, **more)
        os.kill(os.getpid(), signal.SIGKILL)


def _copy_until_killed(source: Settings, target: Settings, at: int, after: bool) -> None:
    with engines(source, target) as (from_, to):
        assert copies.copy(from_, Fused(to, at, after=after)).verified


@pytest.mark.parametrize("kind", KINDS)
def test_copy_that_is_killed_repeatedly_is_completed(
    empty_stores: Places, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Each process copies a little more before ``kill -9``; the last one verifies that nothing is missing or twice."""
    monkeypatch.setattr(copies, "PAGE", 40)
    source, target = empty_stores.filled("sqlite", 120), empty_stores.fresh(kind)
    fork = multiprocessing.get_context("fork")
    codes: list[int | None] = []
    while 0 not in codes and len(codes) < 50:
        child = fork.Process(target=_copy_until_killed, args=(source, target, 7, len(codes) % 2 == 0))
        child.start()
        child.join(30)
        codes.append(child.exitcode)
        assert child.exitcode in (0, -signal.SIGKILL), codes
    assert len(codes) > 3, "it was not killed in the middle"
    with engines(source, target) as (from_, to):
        again = copies.copy(from_, to)
        assert again.verified
        assert again.mended == 0
        assert sum(again.loaded.values()) == 0
    assert entries(source) == entries(target)


def test_difference_between_copy_and_source_is_reported(empty_stores: Places) -> None:
    """Control of the comparison: every manual change in the copy is found and repaired by the next run."""
    source, target = empty_stores.filled("sqlite"), empty_stores.fresh("sqlite")
    with engines(source, target) as (from_, to):
        assert copies.copy(from_, to).verified
    for damage in (
        "delete from journal where seq = (select min(seq) from journal)",
        "update journal set body = '{\"a\":1}' where seq = (select max(seq) from journal)",
        "update journal set record = null where seq = (select min(seq) from journal where record is not null)",
        "update journal set keys = replace(keys, 'doc:', 'dok:') where seq = (select min(seq) from journal)",
        "update record set value = x'00' where name = (select max(name) from record where name < x'6e')",
        "delete from record where name = (select max(name) from record where name < x'71')",
        "insert into record values(cast('s' || 'nobody' as blob), x'00')",
        f"insert into record values(x'{names.OBSERVE.hex()}', x'05')",
    ):
        with closing(sqlite3.connect(empty_stores.state / target.store.removeprefix("sqlite:///"))) as by_hand:
            assert by_hand.execute(damage).rowcount > 0, damage
            by_hand.commit()
        with engines(source, target) as (from_, to):
            copied = copies.copy(from_, to)
        assert copied.verified, damage
        assert copied.mended > 0, damage


def test_source_that_changes_is_not_verified(empty_stores: Places, run_store: Said) -> None:
    """Once its writers have stopped, the same command copies the rest. Until then no gate may use the copy."""
    source, target = empty_stores.filled("sqlite"), empty_stores.fresh(KINDS[-1])
    with closing(open_store(source)) as store, engines(source, target) as (from_, to):
        script = StoreScript(store)

        class Busy:
            def __getattr__(self, name: str) -> Any:
                return getattr(from_, name)

            def snapshot(self) -> AbstractContextManager[Reader]:
                script.act("busy", "doc:1")
                return from_.snapshot()

        copied = copies.copy(Busy(), to)
        assert not copied.verified
        assert copied.first
        code, text = run_store("check", target.store)
        assert (code, "an unfinished copy" in text) == (1, True)
        again = copies.copy(from_, to)
        assert again.verified, again.first
    assert entries(source) == entries(target)
    assert run_store("check", target.store)[0] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_data_removed_from_the_source_is_removed_from_the_copy(empty_stores: Places, kind: str) -> None:
    """Between two runs its gate rotated the journal, forgot marks and digests, and ended actions."""
    source, target = empty_stores.filled("sqlite"), empty_stores.fresh(kind)
    with engines(source, target) as (from_, to):
        assert copies.copy(from_, to).verified
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
        copied = copies.copy(from_, to)
        assert copied.verified, copied.first
        assert copied.mended > 0
    with closing(open_store(source)) as ours, closing(open_store(target)) as theirs:
        assert ours.entries() == theirs.entries()
        assert [a.id for a in ours.live(None, [State.OPEN])] == [a.id for a in theirs.live(None, [State.OPEN])]
        assert len(opened) > len(ours.live(None, [State.OPEN])) > 0


def test_only_an_empty_target_or_its_own_copy_is_written_to(empty_stores: Places) -> None:
    """Another store, the copy of another source, a copy in use, and the source itself are left unchanged."""
    one, other, copy_ = empty_stores.filled("sqlite"), empty_stores.filled("sqlite"), empty_stores.fresh("postgresql")
    with engines(one, other, copy_) as (first, second, third):
        with pytest.raises(ConfigError, match="must be empty"):
            copies.copy(first, second)
        with pytest.raises(ConfigError, match="the same store"):
            copies.copy(first, first)
        assert copies.copy(first, third).verified
        assert copies.copy(first, third).verified
        with pytest.raises(ConfigError, match="a copy of another store"):
            copies.copy(second, third)
        with closing(open_store(copy_)) as store:
            StoreScript(store).act("new", "doc:1")
        with pytest.raises(ConfigError, match="a gate has written to the target"):
            copies.copy(first, third)
    assert entries(copy_) == entries(one) + 1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "redis"])
def test_namespaces_that_share_a_moment_are_refused_by_stores_that_cannot_hold_them(
    empty_stores: Places, kind: str
) -> None:
    """A Redis Cluster has one clock for each namespace; neither entry is lost silently."""
    one, other = empty_stores.filled("sqlite", 12), empty_stores.fresh(kind)
    with engines(one, other) as (from_, to):

        class Divided:
            """The source as a cluster could show it: two namespaces have an entry at the newest moment."""

            def __getattr__(self, name: str) -> Any:
                return getattr(from_, name)

            @contextmanager
            def snapshot(self) -> Iterator[Any]:
                with from_.snapshot() as reader:

                    class Twice:
                        get, scan = reader.get, reader.scan

                        def page(self, *arguments: Any, **more: Any) -> list[Entry]:
                            page = reader.page(*arguments, **more)
                            return [*page, *(replace(entry, namespace="other") for entry in page[-1:])]

                    yield Twice()

        with pytest.raises(StoreError, match="both have an entry at the moment"):
            copies.copy(Divided(), to)
    assert entries(other) == 0


def test_engine_that_somebody_adds_is_copied_like_any_other(tmp_path: Path) -> None:
    """Values stay as they are, byte for byte: a newer version's fields at the end of a record, and long names in order."""
    with (
        closing(MemoryStore()) as first,
        closing(LmdbStore(tmp_path / "lmdb")) as second,
        closing(SqliteStore(tmp_path / "gate.db")) as third,
    ):
        fill(StoreScript(first), 30)
        for number in range(40):
            StoreScript(first).act("mira", f"file:/{'deep/' * (number % 7 * 60)}{number:02}")
        transaction = first.engine.begin((), ())
        ((name, value),) = transaction.scan(b"k", b"l", 1)
        longer = bytes([value[0] + 1]) + value[1:] + b"\xa5newer"
        transaction.commit({name: Raw(longer)}, ())
        for source, target in pairwise((first, second, third)):
            copied = copies.copy(source.engine, target.engine)
            assert copied.verified
            assert copied.mended == 0
        assert third.entries() == first.entries()
        with third.engine.snapshot() as reader, first.engine.snapshot() as original:
            assert reader.get((name,)) == [(name, longer)]
            assert reader.scan(b"b", b"\xff", 10_000) == original.scan(b"b", b"\xff", 10_000)


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
