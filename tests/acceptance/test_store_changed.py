"""A SQLite store that is replaced, removed or cut back: nothing acknowledged disappears without being noticed."""

import multiprocessing
import os
import resource
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from callosum.errors import StoreChanged, StoreUnavailable
from callosum.gate import LocalGate
from callosum.model import DAY, SECOND, Applied, Call, Change, Scope, State, View
from callosum.settings import Settings
from callosum.stores.receipt import HeldByStore, Receipt
from callosum.stores.sqlite import SqliteStore, connection
from callosum.testing import ManualClock
from callosum.testing.script import StoreScript
from tests.acceptance.command import at_terminal, run
from tests.acceptance.test_server_faults import a_call
from tests.support.faultydisk import FaultyDisk
from tests.support.previous import Previous
from tests.support.serving import Server, launch, serving, until
from tests.support.world import rules_in

A = {"instance": "mira", "tool": "act4", "params": {"on": "k0"}, "callId": "a1"}
B = {"instance": "doug", "tool": "act4", "params": {"on": "k0"}, "callId": "b1"}
LOW = {"instance": "doug", "tool": "act1", "params": {"on": "k0"}}
SAYS = "callosum store accept"


def remove(state: Path) -> None:
    for end in ("", "-wal", "-shm"):
        (state / f"gate.db{end}").unlink(missing_ok=True)


def replace_by_empty(state: Path) -> None:
    """Put another gate's fresh database in its place."""
    other = state.parent / "other.db"
    SqliteStore(other).close()
    remove(state)
    other.rename(state / "gate.db")


def replace_by_backup(state: Path) -> None:
    """Put a copy from before the lease in its place."""
    copy = state.parent / "backup.db"
    with closing(sqlite3.connect(state / "gate.db")) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    with closing(sqlite3.connect(copy)) as target:
        target.execute("delete from journal")
        target.execute("delete from record")
        target.commit()
    remove(state)
    copy.rename(state / "gate.db")


def truncate_log(state: Path) -> None:
    os.truncate(state / "gate.db-wal", 0)


def halve_log(state: Path) -> None:
    log = state / "gate.db-wal"
    os.truncate(log, log.stat().st_size // 2)


def remove_log(state: Path) -> None:
    (state / "gate.db-wal").unlink()


FILES = [remove, replace_by_empty, replace_by_backup]
LOGS = [truncate_log, halve_log]


def is_refused(server: Server) -> bool:
    """Check whether B is refused because of the store; A's lease must never be given to B."""
    answer = server.ask("POST", "/intercept", B)
    assert answer.status == 503 or not answer.body["proceed"], "B got A's lease"
    return answer.status == 503 and SAYS in answer.body["error"]


@pytest.mark.parametrize("change", [*FILES, *LOGS])
def test_server_on_a_changed_store_refuses_high_tiers_until_a_person_accepts(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    state, environ = tmp_path / "state", rules_in(tmp_path)
    with serving(state, environ=environ) as server:
        assert server.post("/intercept", A)["proceed"]
        assert server.get("/health")["status"] == "ok"
        change(state)
        until(lambda: is_refused(server))
        answer = server.ask("POST", "/intercept", B)
        assert (answer.status, answer.body["at"]) == (503, "store")
        assert server.post("/intercept", LOW)["proceed"], "low tiers go on"
        health = until(lambda: found if (found := server.ask("GET", "/health")).status == 503 else None)
        assert SAYS in health.body["store"]
        doctor = run(state, "doctor", env=environ)
        assert SAYS in doctor.stdout
        server.kill()
    with serving(state, environ=environ) as server:
        assert is_refused(server), "a restart does not accept it"
        assert run(state, "store", "accept", env=environ).returncode != 0, "nobody but a person at a terminal may"
        assert is_refused(server)
        shown = at_terminal(state, "store", "accept", env=environ)
        assert shown.code == 0, shown.text
        until(lambda: server.ask("POST", "/intercept", B).status == 200)
        until(lambda: server.ask("GET", "/health").status == 200)


@pytest.mark.parametrize("change", [*FILES, *LOGS, remove_log])
def test_store_changed_while_no_gate_runs_is_refused(tmp_path: Path, change: Callable[[Path], None]) -> None:
    state, environ = tmp_path / "state", rules_in(tmp_path)
    with serving(state, environ=environ) as server:
        assert server.post("/intercept", A)["proceed"]
        server.kill()
    change(state)
    with serving(state, environ=environ) as server:
        assert is_refused(server)
        assert server.post("/intercept", LOW)["proceed"]


@pytest.fixture(params=[False, True], ids=["a folder that just changed", "a quiet folder"])
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[LocalGate]:
    """Return a gate that checks the files of its store only when it acknowledges."""
    monkeypatch.setattr(connection, "LOOK_EVERY", 1e9)  # nothing is noticed by looking now and then
    monkeypatch.setattr(connection, "_ASK_AGAIN", 0.0)
    with LocalGate(settings=settings(tmp_path)) as gate:
        if request.param:
            os.utime(gate.settings.state, (1, 1))
            for _ in range(2):  # from now on its files are not asked for by name, until something in it changes
                gate.complete("mira", id=lease(gate, on="before").id)
        yield gate


def settings(folder: Path) -> Settings:
    return Settings(state=folder / "state", rules=Path(rules_in(folder)["CALLOSUM_RULES"]))


def lease(gate: LocalGate, who: str = "mira", on: str = "k0") -> Any:
    return gate.intercept(Call(who, "act4", {"on": on}))


@pytest.mark.parametrize("change", [*FILES, *LOGS])
def test_embedded_gate_acknowledges_nothing_that_went_into_a_removed_file(
    gate: LocalGate, change: Callable[[Path], None]
) -> None:
    """The next durable call detects it, although it was decided by the contents of the old file."""
    state = gate.settings.state
    assert lease(gate).proceed
    change(state)
    with pytest.raises(StoreUnavailable):
        lease(gate, "doug", "k1")
    with pytest.raises(StoreChanged, match=SAYS):
        lease(gate, "doug")
    assert gate.intercept(Call("doug", "act1", {"on": "k0"})).proceed
    with pytest.raises(StoreChanged, match=SAYS):
        gate.store.prove()
    assert any(SAYS in problem for problem in gate.store.check().problems)
    assert gate.store.accept()
    assert lease(gate, "doug").proceed
    assert gate.store.check().problems == ()


@pytest.mark.parametrize("change", LOGS)
def test_connection_without_acknowledgements_notices_a_truncated_log(
    gate: LocalGate, change: Callable[[Path], None]
) -> None:
    """It knows the state of the log from the moment it was opened, not only from its first durable call."""
    for number in range(20):
        assert lease(gate, on=f"k{number}").proceed
    with ThreadPoolExecutor(1) as other:  # a thread has its own connection
        assert other.submit(gate.intercept, Call("ana", "act1", {"on": "low"})).result().proceed
        change(gate.settings.state)
        with pytest.raises(StoreUnavailable):
            other.submit(lease, gate, "ana", "k30").result()
        with pytest.raises(StoreChanged, match=SAYS):
            other.submit(lease, gate, "doug").result()


@pytest.mark.parametrize("change", LOGS)
def test_gate_that_opens_a_store_with_a_truncated_log_acknowledges_nothing(
    gate: LocalGate, change: Callable[[Path], None]
) -> None:
    """Another gate keeps the log's index, so SQLite looks for pages beyond the cut."""
    for number in range(20):
        assert lease(gate, on=f"k{number}").proceed
    change(gate.settings.state)
    with pytest.raises(StoreUnavailable), LocalGate(settings=gate.settings) as second:
        lease(second, "ana", "k30")
    with pytest.raises(StoreUnavailable):
        lease(gate, "ana", "k30")


def test_hole_in_the_log_does_not_reach_the_database(gate: LocalGate) -> None:
    """Written over a truncated log, a low tier makes a hole in it; no checkpoint may take that for pages."""
    state = gate.settings.state
    lease(gate)
    truncate_log(state)
    for number in range(5):
        gate.intercept(Call("doug", "act1", {"on": f"k{number}"}))
    with pytest.raises(StoreUnavailable):
        lease(gate, "doug", "k1")
    gate.store.accept()
    assert lease(gate, "doug", "k2").proceed
    gate.close()
    with closing(SqliteStore(state / "gate.db")) as store:
        assert store.check().problems == ()


def test_log_removed_in_use_loses_nothing(gate: LocalGate) -> None:
    """The connection still has it: all of it is moved into the database before the next acknowledgement."""
    first = lease(gate).id
    remove_log(gate.settings.state)
    second = lease(gate, "doug", "k1")
    assert second.proceed
    copy = gate.settings.state.parent / "as-after-a-kill"
    shutil.copytree(gate.settings.state, copy)
    with closing(SqliteStore(copy / "gate.db")) as store:
        assert store.check().problems == ()
        assert {action.id for action in store.live(None, [State.OPEN])} == {first, second.id}


def test_removing_the_whole_state_folder_is_a_fresh_start(tmp_path: Path) -> None:
    with LocalGate(settings=settings(tmp_path)) as gate:
        assert lease(gate).proceed
    shutil.rmtree(tmp_path / "state")
    with LocalGate(settings=settings(tmp_path)) as gate:
        assert lease(gate, "doug").proceed


def test_entry_that_rotation_removed_is_not_missed(tmp_path: Path) -> None:
    clock = ManualClock()
    store = SqliteStore(tmp_path / "gate.db", clock=clock)
    script = StoreScript(store)
    id = script.act("mira", "doc:plan", tier=4, durable=True)
    clock.advance(3 * DAY // SECOND)
    script.act("doug", "doc:other")
    for _ in range(2):  # what nothing says is needed goes after a whole round of upkeep
        store.maintain(clock.now - DAY)
    store.take(id, clock.now - DAY, delete=True)
    assert id not in {entry.seq for entry in store.entries()}
    store.close()
    with closing(SqliteStore(tmp_path / "gate.db", clock=clock)) as store:
        assert store.check().problems == ()
        assert StoreScript(store).act("mira", "doc:plan", tier=4, durable=True)


@pytest.mark.parametrize("cut", [0, 2000, 6 * 4120, 11 * 4120])
def test_truncation_of_a_restarted_log_is_noticed(tmp_path: Path, cut: int) -> None:
    """Frames of the previous log follow its newest frames and say nothing about the lost ones."""
    log = tmp_path / "gate.db-wal"
    with closing(SqliteStore(tmp_path / "gate.db")) as store:
        for number in range(200):
            StoreScript(store).act("mira", f"doc:{number}", tier=4, durable=True)
        length = log.stat().st_size
        with closing(sqlite3.connect(tmp_path / "gate.db")) as other:
            assert other.execute("pragma wal_checkpoint(restart)").fetchone()[0] == 0
        for number in range(20):
            StoreScript(store).act("doug", f"doc:{number}", tier=4, durable=True)
        assert log.stat().st_size == length, "the log began anew in the same file"
        os.truncate(log, cut)
        with pytest.raises(StoreUnavailable):
            StoreScript(store).act("ana", "doc:plan", tier=4, durable=True)


def test_frames_left_by_an_older_log_may_be_removed(tmp_path: Path) -> None:
    """They are in the database. Removing them loses nothing, so no call is refused."""
    log = tmp_path / "gate.db-wal"
    with closing(SqliteStore(tmp_path / "gate.db")) as store:
        for number in range(200):
            StoreScript(store).act("mira", f"doc:{number}", tier=4, durable=True)
        with closing(sqlite3.connect(tmp_path / "gate.db")) as other:
            assert other.execute("pragma wal_checkpoint(restart)").fetchone()[0] == 0
        StoreScript(store).act("doug", "doc:1", tier=4, durable=True)
        os.truncate(log, log.stat().st_size // 2)
        assert StoreScript(store).act("ana", "doc:plan", tier=4, durable=True)
        assert store.check().problems == ()


@pytest.mark.parametrize("change", LOGS)
def test_low_tier_call_beside_a_refused_one_does_not_accept_the_store(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """A server commits both in one transaction. Its newest entry is in the store, and the lost one is still missing."""
    low, durable = Scope("default", "doug"), Scope("default", "doug", durable=True)

    def step(_: View) -> Change:
        return Change((StoreScript(store).entry("doug", tier=1),))

    with closing(SqliteStore(tmp_path / "gate.db")) as store:
        for number in range(20):
            StoreScript(store).act("mira", f"doc:{number}", tier=4, durable=True)
        change(tmp_path)
        with pytest.raises(StoreUnavailable):
            store.transact([(durable, step)])
        refused, taken = store.transact([(durable, step), (low, step)])
        assert isinstance(refused, StoreChanged)
        assert isinstance(taken, Applied)
        with closing(SqliteStore(tmp_path / "gate.db")) as second:
            assert any(SAYS in problem for problem in second.check().problems)


def test_receipt_of_a_refused_store_records_no_entry(tmp_path: Path) -> None:
    """Another process may not have noticed yet; its acknowledgements would hide the loss."""
    noticed, late = Receipt(tmp_path / "receipt"), Receipt(tmp_path / "receipt")
    for receipt in (noticed, late):
        receipt.attach()
    noticed.begin("ab" * 16)
    noticed.acknowledge(7)
    without = HeldByStore("ab" * 16, missing=7, left=0, accepted=0)
    assert noticed.compare(without, "the store")
    late.acknowledge(9)
    assert noticed.entry == 7
    assert not noticed.compare(HeldByStore("ab" * 16, missing=0, left=0, accepted=0), "the store")
    late.acknowledge(9)
    assert noticed.entry == 9


def test_truncated_receipt_is_recreated_and_a_foreign_one_must_be_accepted(tmp_path: Path) -> None:
    file, receipt = tmp_path / "gate.db", tmp_path / "gate.db.receipt"
    with closing(SqliteStore(file)) as store:
        StoreScript(store).act("mira", "doc:plan", tier=4, durable=True)
    receipt.write_bytes(b"")
    with closing(SqliteStore(file)) as store:
        assert store.check().problems == ()
    receipt.write_bytes(b"no receipt at all" * 10)
    with closing(SqliteStore(file)) as store:
        assert any(SAYS in problem for problem in store.check().problems)


def test_store_of_an_earlier_format_is_refused_until_it_is_set_aside(tmp_path: Path, previous: Previous) -> None:
    """The commands name the one that sets it aside, with its receipt; the gate then begins anew."""
    state, environ = tmp_path / "state", rules_in(tmp_path)
    with previous.serving(state, environ=environ) as old:
        assert old.post("/intercept", A)["proceed"]
    said = set()
    for words in (["check"], ["migrate"], ["copy", "sqlite:///gate.db", "sqlite:///new.db"]):
        told = run(state, "store", *words, env=environ)
        assert told.returncode == 3, words
        said.add(told.stderr)
    (sentence,) = said
    assert "has format 1 of an earlier Callosum" in sentence
    subprocess.run(["sh", "-c", sentence.split("`")[1]], check=True)
    with serving(state, environ=environ) as new:
        assert new.post("/intercept", a_call(4, "act4"))["proceed"]
        assert new.get("/health")["status"] == "ok"
    assert (state / "format-1" / "gate.db").exists()


def test_store_restore_replaces_the_database_and_accepts_it(tmp_path: Path) -> None:
    state, environ = tmp_path / "state", rules_in(tmp_path)
    backup = tmp_path / "backup.db"
    with LocalGate(settings=settings(tmp_path)) as gate:
        kept = lease(gate).id
        with closing(sqlite3.connect(state / "gate.db")) as source, closing(sqlite3.connect(backup)) as target:
            source.backup(target)
        lost = lease(gate, "doug", "k1").id
    done = at_terminal(state, "store", "restore", str(backup), env=environ)
    assert done.code == 0, done.text
    with LocalGate(settings=settings(tmp_path)) as gate:
        assert kept in {entry.seq for entry in gate.entries()}
        assert lost not in {entry.seq for entry in gate.entries()}
        assert lease(gate, "doug", "k1").proceed
    with closing(sqlite3.connect(state / "gate.db.before-restore")) as before:
        assert before.execute("select 1 from journal where seq = ?", (lost,)).fetchone()
    again = at_terminal(state, "store", "restore", str(backup), env=environ)
    assert again.code != 0
    assert "is still there" in again.text


@pytest.mark.parametrize("content", [b"", b"somebody's notes\n" * 100])
def test_store_restore_refuses_files_that_are_no_backup(tmp_path: Path, content: bytes) -> None:
    with LocalGate(settings=settings(tmp_path)) as gate:
        id = lease(gate).id
    (tmp_path / "notes").write_bytes(content)
    done = at_terminal(tmp_path / "state", "store", "restore", str(tmp_path / "notes"), env=rules_in(tmp_path))
    assert done.code != 0
    assert "a database of Callosum" in " ".join(done.text.split())
    with LocalGate(settings=settings(tmp_path)) as gate:
        assert [entry.seq for entry in gate.entries()] == [id]


def test_temporary_lack_of_file_descriptors_leaves_no_trace(tmp_path: Path) -> None:
    """For any number left: afterwards all calls are decided, and none was recorded without an answer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for free in range(8):
        file = tmp_path / f"{free}.db"
        store = SqliteStore(file)
        store.close()
        script = StoreScript(store)
        spare = [os.dup(0) for _ in range(free)]
        highest = os.dup(0)
        for one in (highest, *spare):
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        try:
            before = script.act("mira", "doc:plan", state=State.OPEN, tier=4, durable=True)
        except StoreUnavailable:
            before = 0
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        id = script.act("mira", "doc:other", state=State.OPEN, tier=4, durable=True)
        assert [entry.seq for entry in store.entries()] == [one for one in (before, id) if one]
        store.close()


@contextmanager
def no_root(folder: Path) -> Iterator[None]:
    """Act for the length of a block as a user without root's rights, the owner of ``folder``."""
    if os.geteuid():
        yield
        return
    for path in (folder, *folder.iterdir()):
        os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_store_opened_read_only_recovers_once_it_can_be_written() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        file = folder / "gate.db"
        SqliteStore(file).close()
        file.chmod(0o400)
        with no_root(folder):
            store = SqliteStore(file)
            script = StoreScript(store)
            for tier in (1, 4):
                with pytest.raises(StoreUnavailable, match="cannot be written"):
                    script.act("mira", "doc:plan", tier=tier, durable=tier > 2)
            with pytest.raises(StoreUnavailable, match="cannot be written"):
                store.prove()
            file.chmod(0o600)
            assert script.act("mira", "doc:plan", tier=4, durable=True)
            store.prove()
            store.close()


def test_health_says_why_nothing_can_be_decided_and_recovers(tmp_path: Path) -> None:
    """No call is made in between: the check itself writes."""
    state = tmp_path / "state"
    with serving(state, environ=rules_in(tmp_path)) as server:
        assert server.get("/health")["status"] == "ok"
        size = (state / "gate.db-wal").stat().st_size
        unlimited = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, unlimited[1]))
        health = until(lambda: found if (found := server.ask("GET", "/health")).status == 503 else None)
        assert (health.body["status"], str(state) in health.body["store"]) == ("unavailable", True)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, unlimited)
        until(lambda: server.ask("GET", "/health").status == 200)


def test_health_of_a_store_with_damaged_pages_is_not_ok(tmp_path: Path) -> None:
    state, environ = tmp_path / "state", rules_in(tmp_path)
    with LocalGate(settings=settings(tmp_path)) as gate:
        for number in range(200):
            gate.intercept(Call("mira", "act1", {"on": f"k{number}", "text": "x" * 300}))
    with closing(sqlite3.connect(state / "gate.db")) as database:
        ((page,),) = database.execute("select rootpage from sqlite_master where name = 'record'").fetchall()
    with (state / "gate.db").open("r+b") as file:
        file.seek(4096 * (page - 1))
        file.write(os.urandom(4096))
    with serving(state, environ=environ) as server:
        answer = server.ask("POST", "/intercept", A)
        assert answer.status == 503
        health = until(lambda: found if (found := server.ask("GET", "/health")).status == 503 else None)
        assert health.body["store"]


def test_server_started_on_a_read_only_database_recovers_once_it_can_be_written(tmp_path: Path) -> None:
    """All threads opened the database read-only, and share an index that stays so while one has it open."""
    state, environ = tmp_path / "state", rules_in(tmp_path)
    with serving(state, environ=environ) as server:
        assert server.post("/intercept", A)["proceed"]
        server.kill()
    disk = FaultyDisk(state)
    server = launch(state, environ=environ | disk.environ)
    server.kill()
    with disk.failing("read-only"):
        server = launch(state, environ=environ | disk.environ)
        for _ in range(5):
            assert server.ask("POST", "/intercept", B).status == 503
            assert server.ask("GET", "/status").status == 200
            assert server.ask("GET", "/health").status == 503
    try:
        until(lambda: server.ask("POST", "/intercept", a_call(1, "act4")).status == 200, 10)
        until(lambda: server.ask("GET", "/health").status == 200, 10)
        assert server.ask("POST", "/intercept", B).body["proceed"] is False
        assert server.stop() == 0
    finally:
        if server.process.poll() is None:
            server.kill()


def _work_while_connections_are_closed(file: Path) -> None:
    store = SqliteStore(file)
    ends = time.monotonic() + 2

    def work(number: int) -> None:
        script = StoreScript(store)
        while time.monotonic() < ends:
            with suppress(StoreUnavailable):  # reopened between the commit and its sync: nothing is acknowledged
                id = script.act(f"s{number}", f"doc:{number}", state=State.OPEN, tier=4, durable=True)
                script.end(f"s{number}", id)
            assert store.entries(limit=100)

    def reopen() -> None:
        while time.monotonic() < ends:
            store.now()
            store.prove()
            store._engine.connections.reopen()

    with ThreadPoolExecutor(4) as pool:
        for done in [*(pool.submit(work, number) for number in range(3)), pool.submit(reopen)]:
            done.result()
    assert store.check().problems == ()


def test_connection_is_never_closed_while_a_thread_uses_it(tmp_path: Path) -> None:
    """In a separate process, because freeing a statement while it runs ends the process."""
    process = multiprocessing.get_context("spawn").Process(
        target=_work_while_connections_are_closed, args=(tmp_path / "gate.db",)
    )
    process.start()
    process.join(60)
    assert process.exitcode == 0
