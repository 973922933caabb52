"""The journal as one stream, and its rotation, which must never lose an entry."""

import gzip
import json
import stat
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from callosum.errors import StoreError, StoreUnavailable
from callosum.gate import LocalGate
from callosum.journal import ALL, EntryFilter, Journal, Rotation, Segment, export, line_of, shown_keys
from callosum.model import DAY, SECOND, Call, Entry, Event, Key, Verdict
from callosum.settings import Settings
from callosum.stores.base import Store
from callosum.stores.memory import MemoryStore
from callosum.stores.sqlite import SqliteStore
from callosum.testing.clock import ManualClock

START = 1_700_000_000 * SECOND
QUIET = 10.0**9
"""The gate under test does not rotate by itself."""


@pytest.fixture(params=["sqlite", "memory"])
def journal_gate(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[LocalGate, ManualClock, Path]]:
    clock = ManualClock(START, tick=1000)
    store: Store = (
        SqliteStore(tmp_path / "gate.db", clock=clock) if request.param == "sqlite" else MemoryStore(clock=clock)
    )
    gate = LocalGate(settings=Settings(state=tmp_path, journal_age=QUIET), store=store)
    with gate:
        yield gate, clock, tmp_path


def fill(gate: LocalGate, count: int, session: str = "mira", start: int = 0) -> None:
    for number in range(start, start + count):
        gate.intercept(Call(session, "read", {"path": f"/doc/{number}"}))


def rotation(place: tuple[LocalGate, ManualClock, Path], store: Store | None = None, **given: int) -> Rotation:
    gate, clock, folder = place
    options = {"age": DAY // SECOND, "size": 10**12, "batch": 10, **given}
    return Rotation(store or gate.store, folder, now=clock, **options)


def seqs(entries: list[Entry]) -> list[int]:
    return [entry.seq for entry in entries]


def everything(gate: LocalGate) -> list[int]:
    return seqs(gate.entries(limit=100_000))


def test_old_entries_move_into_segments_and_the_stream_stays_the_same(
    journal_gate: tuple[LocalGate, ManualClock, Path],
) -> None:
    gate, clock, folder = journal_gate
    fill(gate, 35)
    before = gate.entries(limit=1000)
    clock.now += 10 * DAY
    fill(gate, 3, start=100)

    assert rotation(journal_gate).run(clock.now - 8 * DAY, rounds=100) == 35
    journal = Journal(gate.store, folder)
    assert len(gate.entries(limit=1000)) == 3
    assert [segment.last - segment.first > 0 for segment in journal.segments()] == [True] * 4
    stream = list(journal.read())
    assert stream[:35] == before
    assert len(stream) == 38
    assert seqs(stream) == sorted(set(seqs(stream)))
    assert list(journal.read(after=before[20].seq)) == stream[21:]
    assert journal.last(5) == stream[-5:]
    assert journal.last(2) == stream[-2:]
    assert journal.last(0) == []


def test_nothing_moves_while_entries_are_young_and_few(journal_gate: tuple[LocalGate, ManualClock, Path]) -> None:
    gate, clock, folder = journal_gate
    assert rotation(journal_gate).run(clock.now) == 0
    fill(gate, 30)
    assert rotation(journal_gate).run(clock.now) == 0
    assert Journal(gate.store, folder).segments() == []


def test_a_journal_that_grew_too_large_is_rotated_before_its_age(tmp_path: Path) -> None:
    clock = ManualClock(START, tick=1000)
    with LocalGate(
        settings=Settings(state=tmp_path, journal_age=QUIET), store=SqliteStore(tmp_path / "gate.db", clock=clock)
    ) as gate:
        fill(gate, 400)
        size = gate.store.size()
        moved = Rotation(gate.store, tmp_path, age=DAY, size=size // 2, batch=50, now=clock).run(clock.now, rounds=100)
        assert moved >= 50
        assert gate.store.size() < size
        assert len(list(Journal(gate.store, tmp_path).read())) == 400


def test_entries_of_live_actions_stay_and_are_merged_in_order(
    journal_gate: tuple[LocalGate, ManualClock, Path],
) -> None:
    gate, clock, folder = journal_gate
    fill(gate, 5)
    lease = gate.lock("mira", "file:/x", ttl=86_400)
    fill(gate, 5, start=50)
    stream = everything(gate)
    clock.now += 3 * DAY // 4
    gate.renew("mira", lease.id or 0, 86_400)
    clock.now += 3 * DAY // 4
    fill(gate, 1, start=90)
    stream = everything(gate)
    rotation(journal_gate).run(clock.now, rounds=10)
    kept = everything(gate)
    assert lease.id in kept
    assert len(kept) < len(stream)
    assert seqs(list(Journal(gate.store, folder).read())) == stream


class DyingStore:
    """A store whose process dies at a step of the rotation."""

    def __init__(self, store: Store, *, at_take: bool = False) -> None:
        self._store = store
        self._at_take = at_take

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def take(
        self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: object = None
    ) -> list[Entry]:
        if delete or self._at_take:
            raise StoreUnavailable("killed here")
        return self._store.take(until, horizon, limit)


def test_a_crash_between_copy_and_delete_leaves_both_and_readers_see_one(
    journal_gate: tuple[LocalGate, ManualClock, Path],
) -> None:
    gate, clock, folder = journal_gate
    fill(gate, 20)
    clock.now += 10 * DAY
    fill(gate, 1, start=50)
    before = everything(gate)
    with pytest.raises(StoreUnavailable):
        rotation(journal_gate, DyingStore(gate.store)).run(clock.now)  # type: ignore[arg-type]
    journal = Journal(gate.store, folder)
    assert len(journal.segments()) == 1
    assert everything(gate) == before
    assert seqs(list(journal.read())) == before
    assert seqs(journal.last(21)) == before

    assert rotation(journal_gate).run(clock.now, rounds=10) == 20
    assert len(journal.segments()) == 2
    assert seqs(list(journal.read())) == before


def test_segment_is_never_overwritten_with_fewer_entries(journal_gate: tuple[LocalGate, ManualClock, Path]) -> None:
    gate, clock, folder = journal_gate
    fill(gate, 10)
    clock.now += 10 * DAY
    fill(gate, 1, start=50)
    before = everything(gate)
    with pytest.raises(StoreUnavailable):
        rotation(journal_gate, DyingStore(gate.store)).run(clock.now)  # type: ignore[arg-type]
    gate.store.take(clock.now, clock.now, delete=True, only=before[3:6])  # another process removed the copied entries
    rotation(journal_gate).run(clock.now, rounds=5)
    assert seqs(list(Journal(gate.store, folder).read())) == before


def test_entry_that_ends_after_the_copy_is_not_deleted(journal_gate: tuple[LocalGate, ManualClock, Path]) -> None:
    """An action that ends between copy and delete would be lost if the delete chose for itself."""
    gate, clock, folder = journal_gate
    fill(gate, 4)
    gate.intercept(Call("mira", "read", {"path": "/remembered"}, call_id="c1"))
    fill(gate, 10, start=20)
    clock.now += 10 * DAY
    fill(gate, 1, start=90)
    before = everything(gate)
    inner = gate.store

    class Meanwhile(DyingStore):
        def take(
            self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: object = None
        ) -> list[Entry]:
            if delete:
                inner.maintain(horizon)  # the remembered call is forgotten now
            return inner.take(until, horizon, limit, delete=delete, only=only)  # type: ignore[arg-type]

    rotation(journal_gate, Meanwhile(inner)).run(clock.now)  # type: ignore[arg-type]
    assert seqs(list(Journal(gate.store, folder).read())) == before


def test_partial_file_left_by_a_crash_is_removed_and_never_read(
    journal_gate: tuple[LocalGate, ManualClock, Path],
) -> None:
    gate, clock, folder = journal_gate
    fill(gate, 12)
    clock.now += 10 * DAY
    fill(gate, 1, start=50)
    before = everything(gate)
    (folder / "journal").mkdir()
    part = folder / "journal" / ".1-2.jsonl.gz.part"
    part.write_bytes(b"half a segm")
    assert seqs(list(Journal(gate.store, folder).read())) == before
    rotation(journal_gate).run(clock.now, rounds=5)
    assert not part.exists()
    assert seqs(list(Journal(gate.store, folder).read())) == before


def test_only_one_of_two_simultaneous_rotations_runs(journal_gate: tuple[LocalGate, ManualClock, Path]) -> None:
    gate, clock, folder = journal_gate
    fill(gate, 20)
    clock.now += 10 * DAY
    fill(gate, 1, start=50)
    before = everything(gate)
    second: list[int] = []
    inner = gate.store

    class Watched(DyingStore):
        def take(
            self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: object = None
        ) -> list[Entry]:
            if delete:
                second.append(rotation(journal_gate).run(clock.now))
            return inner.take(until, horizon, limit, delete=delete, only=only)  # type: ignore[arg-type]

    assert rotation(journal_gate, Watched(inner)).run(clock.now) == 10  # type: ignore[arg-type]
    assert second == [0]
    assert seqs(list(Journal(gate.store, folder).read())) == before


def test_many_rotators_and_a_reader_at_once_lose_and_repeat_nothing(tmp_path: Path) -> None:
    clock = ManualClock(START, tick=1000)
    with LocalGate(
        settings=Settings(state=tmp_path, journal_age=QUIET), store=SqliteStore(tmp_path / "gate.db", clock=clock)
    ) as gate:
        fill(gate, 300)
        clock.now += 10 * DAY
        fill(gate, 1, start=900)
        before = everything(gate)
        until = clock.now
        faults: list[Exception] = []

        def work() -> None:
            try:
                for _ in range(60):
                    Rotation(gate.store, tmp_path, age=DAY // SECOND, size=10**12, batch=7, now=lambda: until).run(
                        until
                    )
            except Exception as fault:  # noqa: BLE001
                faults.append(fault)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        journal = Journal(gate.store, tmp_path)
        while any(thread.is_alive() for thread in threads):
            assert seqs(list(journal.read())) == before
        for thread in threads:
            thread.join()
        assert faults == []
        assert len(everything(gate)) < 301
        assert seqs(list(journal.read())) == before


def test_segments_are_private_and_named_by_their_entries(journal_gate: tuple[LocalGate, ManualClock, Path]) -> None:
    gate, clock, folder = journal_gate
    fill(gate, 12)
    clock.now += 10 * DAY
    fill(gate, 1, start=50)
    rotation(journal_gate).run(clock.now)
    (segment,) = Journal(gate.store, folder).segments()
    found = list(segment.read())
    assert (segment.first, segment.last) == (found[0].seq, found[-1].seq)
    assert segment.path.name == f"{segment.first}-{segment.last}.jsonl.gz"
    assert stat.S_IMODE(segment.path.stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "journal").stat().st_mode) == 0o700
    line = json.loads(gzip.decompress(segment.path.read_bytes()).splitlines()[0])
    assert line["at"].startswith("2023-11-14T22:13:20")
    assert line["at"].endswith("Z")
    assert line["seq"] == segment.first


def test_damaged_segment_is_reported_and_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "1-2.jsonl.gz"
    for content in (
        b"no gzip",
        gzip.compress(b"not json\n"),
        gzip.compress(b'{"event":"intercept","session":"a"}\n' * 99)[:40],
        b"",
        gzip.compress(b""),
        gzip.compress(b'{"event":"intercept","session":"a","seq":1}\n'),
    ):
        path.write_bytes(content)
        with pytest.raises(StoreError, match="is damaged"):
            list(Segment(1, 2, path).read())
        assert path.read_bytes() == content


def segmented(place: tuple[LocalGate, ManualClock, Path], count: int) -> tuple[list[int], list[Segment]]:
    """Return all entries' places, with the segments into which nearly all of them were rotated."""
    gate, clock, folder = place
    fill(gate, count)
    stream = everything(gate)
    clock.now += 3 * DAY
    rotation(place).run_all(clock.now - 2 * DAY)
    return stream, Journal(gate.store, folder).segments()


@pytest.mark.parametrize("harm", ["empty", "torn", "cut short", "no gzip", "one line without an end"])
def test_damaged_segment_is_named_and_the_others_are_still_shown(
    journal_gate: tuple[LocalGate, ManualClock, Path], harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate, _, folder = journal_gate
    stream, segments = segmented(journal_gate, 60)
    assert len(segments) >= 3
    hurt = segments[1]
    content, lines = hurt.path.read_bytes(), gzip.decompress(hurt.path.read_bytes()).splitlines(keepends=True)
    hurt.path.write_bytes(
        {
            "empty": b"",
            "torn": content[: len(content) // 2],
            "cut short": gzip.compress(b"".join(lines[:-1])),
            "no gzip": b"rubbish",
            "one line without an end": gzip.compress(lines[0] + b"[" * 1_000_000),
        }[harm]
    )
    journal = Journal(gate.store, folder)
    found = seqs(list(journal.read()))
    lost = {seq for seq in stream if hurt.first <= seq <= hurt.last}
    assert set(stream) - lost <= set(found)
    assert found == sorted(set(found))
    if harm in ("cut short", "one line without an end"):
        assert hurt.first in found, "what comes before the damage is shown"
    assert list(journal.read())
    assert caplog.text.count(f"{hurt.path} is damaged") == 1


def test_segment_is_read_a_line_at_a_time(journal_gate: tuple[LocalGate, ManualClock, Path]) -> None:
    """A reader that takes some entries of a segment of 40 MB holds little of it."""
    _, segments = segmented(journal_gate, 10)
    line = gzip.decompress(segments[0].path.read_bytes()).splitlines()[0] + b"\n"
    with gzip.open(segments[0].path, "wb", compresslevel=1) as out:
        for _ in range(40):
            out.write(line * (1_000_000 // len(line)))
    tracemalloc.start()
    try:
        entries = segments[0].read()
        for _ in range(2_000):
            next(entries)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_rotation_rewrites_a_damaged_segment_of_the_same_name(
    journal_gate: tuple[LocalGate, ManualClock, Path],
) -> None:
    """A rotation that died before it deleted left its entries in the store, so nothing of them is lost."""
    gate, clock, folder = journal_gate
    fill(gate, 10)
    stream = everything(gate)
    clock.now += 3 * DAY
    with pytest.raises(StoreUnavailable):
        rotation(journal_gate, DyingStore(gate.store)).run_all(clock.now - 2 * DAY)  # type: ignore[arg-type]
    (left,) = Journal(gate.store, folder).segments()
    left.path.write_bytes(b"")
    rotation(journal_gate).run_all(clock.now - 2 * DAY)
    assert seqs(list(Journal(gate.store, folder).read())) == stream
    assert (folder / "journal" / f"{left.path.name}.damaged").read_bytes() == b""


def test_rotation_on_request_moves_young_entries_too(journal_gate: tuple[LocalGate, ManualClock, Path]) -> None:
    """Otherwise rotation waits until entries are old enough to fill a segment."""
    gate, clock, folder = journal_gate
    fill(gate, 7)
    stream = everything(gate)
    clock.now += 3600 * SECOND
    assert rotation(journal_gate).run(clock.now) == 0
    moved = rotation(journal_gate).run_all(clock.now)
    assert 0 < moved <= len(stream)
    assert seqs(list(Journal(gate.store, folder).read())) == stream


def test_a_folder_that_cannot_be_written_is_a_store_error_and_loses_nothing(
    journal_gate: tuple[LocalGate, ManualClock, Path],
) -> None:
    gate, clock, folder = journal_gate
    fill(gate, 12)
    clock.now += 10 * DAY
    fill(gate, 1, start=50)
    before = everything(gate)
    (folder / "journal").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match="could not be rotated"):
        rotation(journal_gate).run(clock.now)
    assert everything(gate) == before
    assert seqs(list(Journal(gate.store, folder).read())) == before


def test_a_line_is_the_wire_form_with_the_time() -> None:
    entry = Entry(
        Event.INTERCEPT, "mira", seq=START + 42, tool="x", tier=3, verdict=Verdict.WARN, keys=(Key("a:b"), Key("=ff"))
    )
    line = line_of(entry)
    assert b"\n" not in line
    assert json.loads(line)["at"] == "2023-11-14T22:13:20.000042Z"
    assert msgspec.json.decode(line, type=Entry) == entry
    assert shown_keys(entry) == ("a:b",)


ENTRY = Entry(
    Event.INTERCEPT,
    "mira/chat",
    "team",
    seq=50,
    tool="mcp__mail__send",
    tier=3,
    verdict=Verdict.WARN,
    keys=(Key("email:a@x"), Key("thread:1")),
)


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        (ALL, True),
        (EntryFilter(namespace="team"), True),
        (EntryFilter(namespace="default"), False),
        (EntryFilter(session="mira/chat"), True),
        (EntryFilter(session="mira"), False),
        (EntryFilter(session="mira/*"), True),
        (EntryFilter(tool="mcp__*__send"), True),
        (EntryFilter(tool="mcp__*__read"), False),
        (EntryFilter(tool="*mail*"), True),
        (EntryFilter(tool="mcp__mail__send*send"), False),
        (EntryFilter(key="thread:1"), True),
        (EntryFilter(key="email:*"), True),
        (EntryFilter(key="[e]mail:*"), False),
        (EntryFilter(event="complete"), False),
        (EntryFilter(verdict="warn"), True),
        (EntryFilter(tier=3), True),
        (EntryFilter(tier=4), False),
        (EntryFilter(since=50, until=50), True),
        (EntryFilter(since=51), False),
        (EntryFilter(until=49), False),
    ],
)
def test_filter_passes_matching_entries(wanted: EntryFilter, passes: bool) -> None:
    assert wanted.passes(ENTRY) is passes


def test_filters_apply_to_segments_and_store(journal_gate: tuple[LocalGate, ManualClock, Path]) -> None:
    gate, clock, folder = journal_gate
    fill(gate, 12)
    fill(gate, 6, session="doug")
    clock.now += 10 * DAY
    fill(gate, 2, session="doug", start=50)
    rotation(journal_gate).run(clock.now, rounds=5)
    journal = Journal(gate.store, folder)
    assert len(list(journal.read(EntryFilter(session="doug")))) == 8
    assert len(journal.last(3, EntryFilter(session="mira"))) == 3
    assert len(list(journal.read(EntryFilter(key="file:/doc/5*")))) == 4
    newest = journal.last(1)[0].seq
    assert len(list(journal.read(EntryFilter(since=newest)))) == 1
    assert len(list(journal.read(EntryFilter(until=newest - 1)))) == 19


def test_follow_shows_new_entries_and_continues_through_a_rotation(
    journal_gate: tuple[LocalGate, ManualClock, Path],
) -> None:
    gate, clock, folder = journal_gate
    fill(gate, 3)
    rests: list[float] = []

    def sleep(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 1:
            fill(gate, 2, start=10)
        if len(rests) == 2:
            fill(gate, 12, start=20)
            clock.now += 10 * DAY
            fill(gate, 1, start=50)
            rotation(journal_gate).run(clock.now, rounds=5)

    journal = Journal(gate.store, folder, sleep=sleep)
    seen = [shown_keys(entry)[0] for entry in journal.follow(stop=lambda: len(rests) > 2)]
    assert seen == [f"file:/doc/{number}" for number in (10, 11, *range(20, 32), 50)]


def test_export_writes_all_and_never_overwrites_a_file(journal_gate: tuple[LocalGate, ManualClock, Path]) -> None:
    gate, _, folder = journal_gate
    fill(gate, 4)
    journal = Journal(gate.store, folder)
    assert export(journal.read(), folder / "out.jsonl") == 4
    assert export(journal.read(), folder / "out.jsonl.gz") == 4
    assert gzip.decompress((folder / "out.jsonl.gz").read_bytes()) == (folder / "out.jsonl").read_bytes()
    with pytest.raises(FileExistsError):
        export(journal.read(), folder / "out.jsonl")
    assert len((folder / "out.jsonl").read_text().splitlines()) == 4


def test_an_absent_folder_is_an_empty_journal(tmp_path: Path) -> None:
    assert list(Journal(MemoryStore(), tmp_path / "none").read()) == []
    assert Journal(MemoryStore(), tmp_path / "none").last(5) == []
    assert not (tmp_path / "none").exists()
