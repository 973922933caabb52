"""The state that remains when a process is killed, the disk is full, or the file is not the expected one."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callosum.errors import ConfigError, StoreError, StoreUnavailable
from callosum.gate import LocalGate
from callosum.model import Call, Event, Kind, State, Verdict
from callosum.settings import Settings
from callosum.stores.sqlite import SqliteStore, connection
from callosum.testing import ManualClock
from tests.support.crashing import Phase, When, crash
from tests.support.world import RULES, World, gate_time, kinds

ALLOW, WARN, CONFIRM, ASK, BLOCK = Verdict


def points(tmp_path: Path, phase: Phase, when: When) -> int:
    """Return how many points the phase has, counted in a run that survives."""
    folder = tmp_path / "whole"
    folder.mkdir()
    (folder / "rules.json").write_text(RULES)
    told, code = crash(folder, phase, when)
    assert code == 0
    return told["end"]


def what_is_left(folder: Path, told: dict[str, int]) -> None:
    """Check that no acknowledged entry is lost, no lease stays open for ever, and the next session is notified."""
    clock = ManualClock(time.time_ns() // 1000 + 5_000_000)
    world = World(folder, lambda now, _: SqliteStore(folder / "gate.db", clock=now), clock=clock)
    with gate_time(clock):
        assert world.store.check().problems == ()
        entries = {entry.seq: entry for entry in world.gate.entries()}
        assert told.get("warm") in (*entries, None)
        opened = [e.seq for e in entries.values() if e.event is Event.INTERCEPT and e.tier == 4]
        ended = [e.seq for e in entries.values() if e.event is Event.COMPLETE]
        if "intercept" in told:
            assert opened == [told["intercept"]]
        if "complete" in told:
            assert len(ended) == 1
        for on in ("plan", "second"):  # on all its keys or on none
            _, decision = world.gate.explain(world.call("mira", "send4", on))
            in_the_way = {Kind.RECENT} if ended else {Kind.HELD} if opened else set()
            assert kinds(decision) == in_the_way
        clock.advance(301)
        if opened and not ended:
            decision = world.ask("mira", "send4", "plan")
            assert (decision.verdict, kinds(decision)) == (BLOCK, {Kind.UNKNOWN})
            assert world.gate.resolve(opened[0], happened=True).ok
            for on in ("plan", "second"):  # also by its marks, which are all that remains of an ended action
                _, decision = world.gate.explain(world.call("mira", "send4", on))
                assert kinds(decision) == {Kind.RECENT}
        clock.advance(3601)
        for on in ("plan", "second"):
            assert world.ask("mira", "send4", on).verdict is ALLOW
    world.gate.close()


@pytest.mark.parametrize("when", ["after", "inside"])
@pytest.mark.parametrize("phase", ["create", "intercept", "complete"])
def test_kill_at_any_point_leaves_a_sound_store(tmp_path: Path, phase: Phase, when: When) -> None:
    count = points(tmp_path, phase, when)
    assert count >= 3
    for at in range(1, count + 1):
        folder = tmp_path / str(at)
        folder.mkdir()
        (folder / "rules.json").write_text(RULES)
        told, code = crash(folder, phase, when, at)
        assert code == -signal.SIGKILL, f"point {at} of {count}"
        what_is_left(folder, told)
        shutil.rmtree(folder)


def test_kill_while_the_tool_runs_leaves_an_unknown_outcome(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text(RULES)
    told, code = crash(tmp_path, "tool")
    assert code == -signal.SIGKILL
    with LocalGate(settings=Settings(state=tmp_path, rules=tmp_path / "rules.json")) as gate:
        decision = gate.intercept(Call("mira", "send4", {"on": "plan"}))
        # tied to the dead process: no session has to wait for the lease to expire
        assert kinds(decision) == {Kind.UNKNOWN}
        assert gate.resolve(told["intercept"], happened=False).ok
        assert gate.intercept(Call("mira", "send4", {"on": "plan"})).proceed


def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    """The file may not grow beyond a limit, as on a full disk; then there is space again."""
    script = """
import resource, signal, sys
from pathlib import Path
from callosum import Call, LocalGate, StoreUnavailable
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
gate = LocalGate(sys.argv[1])
kept = []
def one(n):
    kept.append(gate.intercept(Call("mira", "message", {"action": "send", "target": f"t{n}", "message": "x" * 500})).id)
one(0)
size = max((Path(sys.argv[1]) / name).stat().st_size for name in ("gate.db", "gate.db-wal"))
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 60_000, hard))
errors = []
for n in range(1, 400):
    try:
        one(n)
    except StoreUnavailable as error:
        errors.append(str(error))
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
assert errors, "the disk never was full"
assert all(sys.argv[1] in text for text in errors), errors[0]
one(1000)
entries = {entry.seq for entry in gate.entries(limit=10_000)}
assert set(kept) == entries, (len(kept), len(entries))
assert not gate.store.check().problems
print(len(kept), len(errors), errors[0])
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of one megabyte if this user may."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_really_full_disk(small_disk: Path) -> None:
    world = World(small_disk, lambda clock, probe: SqliteStore(small_disk / "gate.db", clock=clock, probe=probe))
    kept = [world.do("mira", "send3", "one").id]
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):  # noqa: PT012
        while True:
            file.write(b"x" * 4096)
    with pytest.raises(StoreUnavailable, match=str(small_disk)):
        kept.extend(world.ask("mira", "send3", f"t{number}").id for number in range(500))
    filler.unlink()
    kept.append(world.ask("mira", "send3", "again").id)
    entries = [entry.seq for entry in world.gate.entries(limit=10_000) if entry.event is Event.INTERCEPT]
    assert entries == kept
    assert not world.store.check().problems
    world.gate.close()


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """Return a state folder with the file of a gate that not even root can write to."""
    source, place = tmp_path / "source", tmp_path / "read-only"
    source.mkdir()
    place.mkdir()
    world = World(source, lambda clock, probe: SqliteStore(source / "gate.db", clock=clock, probe=probe))
    world.do("mira", "act2", "plan")
    world.gate.close()
    for command in (["mount", "--bind", str(source), str(place)], ["mount", "-o", "remount,bind,ro", str(place)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            if os.getuid() != 0:
                source.chmod(0o500)
                (source / "gate.db").chmod(0o400)
                yield source
                source.chmod(0o700)
                return
            pytest.skip(f"nothing can be made read-only for this user here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_read_only_folder_is_a_clear_error(read_only: Path) -> None:
    with pytest.raises((StoreUnavailable, ConfigError), match=str(read_only)):
        LocalGate(settings=Settings(state=read_only, rules=read_only / "rules.json")).intercept(
            Call("mira", "act2", {"on": "plan"})
        )
    with pytest.raises(StoreUnavailable, match=str(read_only)):
        SqliteStore(read_only / "gate.db").transact([])


def test_read_only_folder_without_a_store_is_a_clear_error(read_only: Path) -> None:
    with pytest.raises(StoreUnavailable, match=str(read_only)):
        SqliteStore(read_only / "deeper" / "gate.db")
    with pytest.raises(StoreUnavailable, match=str(read_only)):
        SqliteStore(read_only / "other.db")


def foreign_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table theirs(x)")
    connection.execute("insert into theirs values(1)")
    connection.execute("pragma user_version = 7")
    connection.commit()
    connection.close()


def unversioned_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table theirs(x)")
    connection.commit()
    connection.close()


def other_application(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("pragma application_id = 12345")
    connection.execute("create table journal(seq)")
    connection.commit()
    connection.close()


def newer_schema(path: Path) -> None:
    SqliteStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("pragma user_version = 99")
    connection.commit()
    connection.execute("pragma journal_mode = delete")
    connection.close()


def older_schema(path: Path) -> None:
    newer_schema(path)
    connection = sqlite3.connect(path)
    connection.execute("pragma user_version = 1")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b"not a database at all, but somebody's notes\n" * 99), "not a database"),
        (lambda path: path.write_bytes(b"x"), "not a database"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xff" * 40), "not a database"),
        (foreign_database, "another program"),
        (unversioned_database, "another program"),
        (other_application, "another program"),
        (newer_schema, "newer"),
        (older_schema, "set it aside with `mkdir"),
    ],
)
def test_file_of_another_program_is_never_written(tmp_path: Path, make: object, says: str) -> None:
    path = tmp_path / "gate.db"
    make(path)  # type: ignore[operator]
    before = path.read_bytes()
    with pytest.raises(StoreError, match=says) as caught:
        SqliteStore(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    with pytest.raises(StoreError):
        LocalGate(tmp_path)
    assert path.read_bytes() == before


def test_store_of_an_earlier_format_is_set_aside_by_the_command_that_the_error_names(tmp_path: Path) -> None:
    path = tmp_path / "my state" / "gate.db"
    older_schema(path)
    with pytest.raises(StoreError, match="has format 1") as caught:
        SqliteStore(path)
    subprocess.run(["sh", "-c", str(caught.value).split("`")[1]], check=True)
    SqliteStore(path).close()
    assert (path.parent / "format-1" / "gate.db").exists()


def test_folder_in_place_of_the_store_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "gate.db").mkdir()
    with pytest.raises(StoreError, match=str(tmp_path)):
        SqliteStore(tmp_path / "gate.db")


def test_file_in_place_of_the_state_folder_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("notes")
    with pytest.raises((StoreError, ConfigError), match=str(tmp_path)):
        LocalGate(tmp_path / "state")
    assert (tmp_path / "state").read_text() == "notes"


def test_empty_file_becomes_a_new_store(tmp_path: Path) -> None:
    (tmp_path / "gate.db").touch()
    store = SqliteStore(tmp_path / "gate.db")
    assert store.entries() == []
    store.close()


def test_damaged_file_is_reported_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "gate.db"
    world = World(tmp_path, lambda clock, probe: SqliteStore(path, clock=clock, probe=probe))
    for number in range(200):
        world.ask("mira", "send2", f"t{number}", params={"text": "x" * 300})
    world.gate.close()
    for log in tmp_path.glob("gate.db-*"):
        log.unlink()
    size = path.stat().st_size
    assert size > 50_000
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size - 8192))
    before = path.read_bytes()
    with pytest.raises(StoreError, match="damaged") as caught:  # noqa: PT012
        store = SqliteStore(path)
        World(tmp_path, lambda clock, probe: store).ask("mira", "send2", "plan")
    assert not isinstance(caught.value, StoreUnavailable)  # trying again does not help
    assert isinstance(caught.value.__cause__, sqlite3.Error)
    assert path.read_bytes() == before


def test_a_clock_that_goes_backwards(tmp_path: Path) -> None:
    world = World(tmp_path, lambda clock, probe: SqliteStore(tmp_path / "gate.db", clock=clock, probe=probe))
    with gate_time(world.clock):
        held = world.ask("doug", "act4", "plan")
        world.after(-86_400)
        decision = world.ask("mira", "send4", "plan")
        assert (decision.verdict, kinds(decision)) == (BLOCK, {Kind.HELD})
        assert decision.id > held.id
        assert world.end("doug", held, "failed").ok
        assert world.ask("mira", "send4", "plan").proceed
        assert "ahead" in world.store.check().problems[0]
    world.gate.close()


def test_gate_keeps_working_in_a_forked_child(tmp_path: Path) -> None:
    script = """
import os, sys
from callosum import Call, LocalGate
gate = LocalGate(sys.argv[1])
def one(who): return gate.intercept(Call(who, "message", {"action": "send", "target": "x", "message": who})).id
first = one("parent")
pid = os.fork()
if pid == 0:
    one("child")
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
one("parent again")
sessions = [e.session.split("/") for e in gate.entries()]
assert [instance for instance, _ in sessions] == ["parent", "child", "parent again"]
assert [session == sessions[0][1] for _, session in sessions] == [True, False, True]
assert not gate.store.check().problems
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_gate_stops_deciding_when_its_file_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that opens the path would not see entries written to a deleted file."""
    monkeypatch.setattr(connection, "LOOK_EVERY", 0)
    world = World(tmp_path, lambda clock, probe: SqliteStore(tmp_path / "gate.db", clock=clock, probe=probe))
    world.ask("doug", "act4", "plan")
    for file in tmp_path.glob("gate.db*"):
        file.unlink()
    try:
        world.ask("mira", "act4", "other")
    except StoreError:
        return
    other = SqliteStore(tmp_path / "gate.db")
    assert [e.session for e in other.entries()] == ["mira"]


def test_input_that_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    world = World(tmp_path, lambda clock, probe: SqliteStore(tmp_path / "gate.db", clock=clock, probe=probe))
    world.do("mira", "act2", "plan")
    before = world.gate.entries()
    calls: list[Callable[[], object]] = [
        lambda: world.ask("mira", "act2", "x", params={"text": "y" * 5_000_000}),
        lambda: world.ask("", "act2", "x"),
        lambda: world.ask("mira\n", "act2", "x"),
        lambda: world.ask("mira", "act2", "x", wait=1e9),
        lambda: world.gate.lock("mira", "k\n1"),
        lambda: world.gate.lock("mira", "k" * 10_000),
        lambda: world.gate.release("mira", "\x00"),
        lambda: world.gate.complete("mira", id=-5),
        lambda: world.gate.complete("mira", context_key="k" * 10_000),
    ]
    for call in calls:
        with pytest.raises(ConfigError) as caught:
            call()
        assert caught.value.at
    assert world.gate.entries() == before
    assert world.gate.store.live(None, list(State)) == []
    world.gate.close()
