"""The journal as one stream, and its rotation, which must never lose an entry."""

import gzip
import json
import stat
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callosum.errors import StoreError, StoreUnavailable
from callosum.journal import ALL, EntryFilter, Journal, Rotation, Segment, export, line_of, shown_keys
from callosum.model import DAY, SECOND, Call, Entry, Event, Key, Verdict
from callosum.settings import Settings
from callosum.stores.base import Store
from callosum.stores.memory import MemoryStore
from callosum.stores.sqlite import SqliteStore
from callosum.testing.clock import ManualClock
from tests.support.world import InstanceGate

START = 1_700_000_000 * SECOND
QUIET = 10.0**9
"""The gate under test does not rotate by itself."""


def seqs(entries: list[Entry]) -> list[int]:
    return [entry.seq for entry in entries]


class Kept:
    """A gate whose clock the test sets, and its journal: what the store still has, and what it moved into files."""

    def __init__(self, store: Store, clock: ManualClock, folder: Path) -> None:
        self.gate = InstanceGate(settings=Settings(state=folder, journal_age=QUIET), store=store)
        self.store, self.clock, self.folder = store, clock, folder
        self.journal = Journal(store, folder)

    def fill(self, count: int, session: str = "mira", start: int = 0) -> None:
        for number in range(start, start + count):
            self.gate.intercept(Call(session, "read", {"path": f"/doc/{number}"}))

    def aged(self, count: int) -> list[int]:
        """Make so many entries and, ten days later, another one; return them all."""
        self.fill(count)
        self.clock.now += 10 * DAY
        self.fill(1, start=900)
        return self.everything()

    def rotation(self, store: Any = None, **given: int) -> Rotation:
        options = {"age": DAY // SECOND, "size": 10**12, "batch": 10, **given}
        return Rotation(store or self.store, self.folder, now=self.clock, **options)

    def everything(self) -> list[int]:
        """Return what the store still has."""
        return seqs(self.gate.entries(limit=100_000))

    def stream(self) -> list[int]:
        """Return what readers of the journal see."""
        return seqs(list(self.journal.read()))


@pytest.fixture(params=["sqlite", "memory"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    clock = ManualClock(START, tick=1000)
    store = SqliteStore(tmp_path / "gate.db", clock=clock) if request.param == "sqlite" else MemoryStore(clock=clock)
    made = Kept(store, clock, tmp_path)
    with made.gate:
        yield made


def test_old_entries_move_into_segments_and_the_stream_stays_the_same(kept: Kept) -> None:
    kept.fill(35)
    before = kept.gate.entries(limit=1000)
    kept.clock.now += 10 * DAY
    kept.fill(3, start=100)

    assert kept.rotation().run(kept.clock.now - 8 * DAY, rounds=100) == 35
    journal = kept.journal
    assert len(kept.gate.entries(limit=1000)) == 3
    assert [segment.last - segment.first > 0 for segment in journal.segments()] == [True] * 4
    stream = list(journal.read())
    assert stream[:35] == before
    assert len(stream) == 38
    assert seqs(stream) == sorted(set(seqs(stream)))
    assert list(journal.read(after=before[20].seq)) == stream[21:]
    assert journal.last(5) == stream[-5:]
    assert journal.last(2) == stream[-2:]
    assert journal.last(0) == []


def test_nothing_moves_while_entries_are_young_and_few(kept: Kept) -> None:
    assert kept.rotation().run(kept.clock.now) == 0
    kept.fill(30)
    assert kept.rotation().run(kept.clock.now) == 0
    assert kept.journal.segments() == []


@pytest.mark.parametrize("kept", ["sqlite"], indirect=True)
def test_a_journal_that_grew_too_large_is_rotated_before_its_age(kept: Kept) -> None:
    kept.fill(400)
    size = kept.store.size()
    assert kept.rotation(age=DAY, size=size // 2, batch=50).run(kept.clock.now, rounds=100) >= 50
    assert kept.store.size() < size
    assert len(kept.stream()) == 400


def test_entries_of_live_actions_stay_and_are_merged_in_order(kept: Kept) -> None:
    kept.fill(5)
    lease = kept.gate.lock("mira", "file:/x", ttl=86_400)
    kept.fill(5, start=50)
    stream = kept.everything()
    kept.clock.now += 3 * DAY // 4
    kept.gate.renew("mira", lease.id or 0, 86_400)
    kept.clock.now += 3 * DAY // 4
    kept.fill(1, start=90)
    stream = kept.everything()
    kept.rotation().run(kept.clock.now, rounds=10)
    left = kept.everything()
    assert lease.id in left
    assert len(left) < len(stream)
    assert kept.stream() == stream


class DyingStore:
    """A store whose process dies at a step of the rotation."""

    def __init__(self, store: Store, *, at_take: bool = False) -> None:
        self._store = store
        self._at_take = at_take

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def take(
        self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: Any = None
    ) -> list[Entry]:
        if delete or self._at_take:
            raise StoreUnavailable("killed here")
        return self._store.take(until, horizon, limit)


def test_a_crash_between_copy_and_delete_leaves_both_and_readers_see_one(kept: Kept) -> None:
    before = kept.aged(20)
    with pytest.raises(StoreUnavailable):
        kept.rotation(DyingStore(kept.store)).run(kept.clock.now)
    journal = kept.journal
    assert len(journal.segments()) == 1
    assert kept.everything() == before
    assert seqs(list(journal.read())) == before
    assert seqs(journal.last(21)) == before

    assert kept.rotation().run(kept.clock.now, rounds=10) == 20
    assert len(journal.segments()) == 2
    assert seqs(list(journal.read())) == before


def test_segment_is_never_overwritten_with_fewer_entries(kept: Kept) -> None:
    before = kept.aged(10)
    with pytest.raises(StoreUnavailable):
        kept.rotation(DyingStore(kept.store)).run(kept.clock.now)
    kept.store.take(
        kept.clock.now, kept.clock.now, delete=True, only=before[3:6]
    )  # another process removed the copied entries
    kept.rotation().run(kept.clock.now, rounds=5)
    assert kept.stream() == before


def test_entry_that_ends_after_the_copy_is_not_deleted(kept: Kept) -> None:
    """An action that ends between copy and delete would be lost if the delete chose for itself."""
    kept.fill(4)
    kept.gate.intercept(Call("mira", "read", {"path": "/remembered"}, call_id="c1"))
    kept.fill(10, start=20)
    kept.clock.now += 10 * DAY
    kept.fill(1, start=90)
    before = kept.everything()
    inner = kept.store

    class Meanwhile(DyingStore):
        def take(
            self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: Any = None
        ) -> list[Entry]:
            if delete:
                inner.maintain(horizon)  # the remembered call is forgotten now
            return inner.take(until, horizon, limit, delete=delete, only=only)

    kept.rotation(Meanwhile(inner)).run(kept.clock.now)
    assert kept.stream() == before


def test_partial_file_left_by_a_crash_is_removed_and_never_read(kept: Kept) -> None:
    before = kept.aged(12)
    (kept.folder / "journal").mkdir()
    part = kept.folder / "journal" / ".1-2.jsonl.gz.part"
    part.write_bytes(b"half a segm")
    assert kept.stream() == before
    kept.rotation().run(kept.clock.now, rounds=5)
    assert not part.exists()
    assert kept.stream() == before


def test_only_one_of_two_simultaneous_rotations_runs(kept: Kept) -> None:
    before = kept.aged(20)
    second: list[int] = []
    inner = kept.store

    class Watched(DyingStore):
        def take(
            self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: Any = None
        ) -> list[Entry]:
            if delete:
                second.append(kept.rotation().run(kept.clock.now))
            return inner.take(until, horizon, limit, delete=delete, only=only)

    assert kept.rotation(Watched(inner)).run(kept.clock.now) == 10
    assert second == [0]
    assert kept.stream() == before


@pytest.mark.parametrize("kept", ["sqlite"], indirect=True)
def test_many_rotators_and_a_reader_at_once_lose_and_repeat_nothing(kept: Kept) -> None:
    before, until = kept.aged(300), kept.clock.now
    faults: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(60):
                kept.rotation(batch=7).run(until)
        except Exception as fault:  # noqa: BLE001
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert kept.stream() == before
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(kept.everything()) < 301
    assert kept.stream() == before


def test_segments_are_private_and_named_by_their_entries(kept: Kept) -> None:
    kept.fill(12)
    kept.clock.now += 10 * DAY
    kept.fill(1, start=50)
    kept.rotation().run(kept.clock.now)
    (segment,) = kept.journal.segments()
    found = list(segment.read())
    assert (segment.first, segment.last) == (found[0].seq, found[-1].seq)
    assert segment.path.name == f"{segment.first}-{segment.last}.jsonl.gz"
    assert stat.S_IMODE(segment.path.stat().st_mode) == 0o600
    assert stat.S_IMODE((kept.folder / "journal").stat().st_mode) == 0o700
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


def segmented(kept: Kept, count: int) -> tuple[list[int], list[Segment]]:
    """Return all entries' places, with the segments into which nearly all of them were rotated."""
    kept.fill(count)
    stream = kept.everything()
    kept.clock.now += 3 * DAY
    kept.rotation().run_all(kept.clock.now - 2 * DAY)
    return stream, kept.journal.segments()


@pytest.mark.parametrize("harm", ["empty", "torn", "cut short", "no gzip", "one line without an end"])
def test_damaged_segment_is_named_and_the_others_are_still_shown(
    kept: Kept, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    stream, segments = segmented(kept, 60)
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
    journal = kept.journal
    found = seqs(list(journal.read()))
    lost = {seq for seq in stream if hurt.first <= seq <= hurt.last}
    assert set(stream) - lost <= set(found)
    assert found == sorted(set(found))
    if harm in ("cut short", "one line without an end"):
        assert hurt.first in found, "what comes before the damage is shown"
    assert list(journal.read())
    assert caplog.text.count(f"{hurt.path} is damaged") == 1


def test_segment_is_read_a_line_at_a_time(kept: Kept) -> None:
    """A reader that takes some entries of a segment of 40 MB holds little of it."""
    _, segments = segmented(kept, 10)
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


def test_rotation_rewrites_a_damaged_segment_of_the_same_name(kept: Kept) -> None:
    """A rotation that died before it deleted left its entries in the store, so nothing of them is lost."""
    kept.fill(10)
    stream = kept.everything()
    kept.clock.now += 3 * DAY
    with pytest.raises(StoreUnavailable):
        kept.rotation(DyingStore(kept.store)).run_all(kept.clock.now - 2 * DAY)
    (left,) = kept.journal.segments()
    left.path.write_bytes(b"")
    kept.rotation().run_all(kept.clock.now - 2 * DAY)
    assert kept.stream() == stream
    assert (kept.folder / "journal" / f"{left.path.name}.damaged").read_bytes() == b""


def test_rotation_on_request_moves_young_entries_too(kept: Kept) -> None:
    """Otherwise rotation waits until entries are old enough to fill a segment."""
    kept.fill(7)
    stream = kept.everything()
    kept.clock.now += 3600 * SECOND
    assert kept.rotation().run(kept.clock.now) == 0
    moved = kept.rotation().run_all(kept.clock.now)
    assert 0 < moved <= len(stream)
    assert kept.stream() == stream


def test_a_folder_that_cannot_be_written_is_a_store_error_and_loses_nothing(kept: Kept) -> None:
    before = kept.aged(12)
    (kept.folder / "journal").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match="could not be rotated"):
        kept.rotation().run(kept.clock.now)
    assert kept.everything() == before
    assert kept.stream() == before


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
        (ALL, True), (EntryFilter(namespace="team"), True), (EntryFilter(namespace="default"), False),
        (EntryFilter(session="mira/chat"), True), (EntryFilter(session="mira"), False),
        (EntryFilter(session="mira/*"), True), (EntryFilter(tool="mcp__*__send"), True),
        (EntryFilter(tool="mcp__*__read"), False), (EntryFilter(tool="*mail*"), True),
        (EntryFilter(tool="mcp__mail__send*send"), False), (EntryFilter(key="thread:1"), True),
        (EntryFilter(key="email:*"), True), (EntryFilter(key="[e]mail:*"), False),
        (EntryFilter(event="complete"), False), (EntryFilter(verdict="warn"), True), (EntryFilter(tier=3), True),
        (EntryFilter(tier=4), False), (EntryFilter(since=50, until=50), True), (EntryFilter(since=51), False),
        (EntryFilter(until=49), False),
    ],
)  # fmt: skip
def test_filter_passes_matching_entries(wanted: EntryFilter, passes: bool) -> None:
    assert wanted.passes(ENTRY) is passes


def test_filters_apply_to_segments_and_store(kept: Kept) -> None:
    kept.fill(12)
    kept.fill(6, session="doug")
    kept.clock.now += 10 * DAY
    kept.fill(2, session="doug", start=50)
    kept.rotation().run(kept.clock.now, rounds=5)
    journal = kept.journal
    assert len(list(journal.read(EntryFilter(session="doug")))) == 8
    assert len(journal.last(3, EntryFilter(session="mira"))) == 3
    assert len(list(journal.read(EntryFilter(key="file:/doc/5*")))) == 4
    newest = journal.last(1)[0].seq
    assert len(list(journal.read(EntryFilter(since=newest)))) == 1
    assert len(list(journal.read(EntryFilter(until=newest - 1)))) == 19


def test_follow_shows_new_entries_and_continues_through_a_rotation(kept: Kept) -> None:
    kept.fill(3)
    rests: list[float] = []

    def sleep(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 1:
            kept.fill(2, start=10)
        if len(rests) == 2:
            kept.fill(12, start=20)
            kept.clock.now += 10 * DAY
            kept.fill(1, start=50)
            kept.rotation().run(kept.clock.now, rounds=5)

    journal = Journal(kept.store, kept.folder, sleep=sleep)
    seen = [shown_keys(entry)[0] for entry in journal.follow(stop=lambda: len(rests) > 2)]
    assert seen == [f"file:/doc/{number}" for number in (10, 11, *range(20, 32), 50)]


def test_export_writes_all_and_never_overwrites_a_file(kept: Kept) -> None:
    kept.fill(4)
    journal = kept.journal
    assert export(journal.read(), kept.folder / "out.jsonl") == 4
    assert export(journal.read(), kept.folder / "out.jsonl.gz") == 4
    assert gzip.decompress((kept.folder / "out.jsonl.gz").read_bytes()) == (kept.folder / "out.jsonl").read_bytes()
    with pytest.raises(FileExistsError):
        export(journal.read(), kept.folder / "out.jsonl")
    assert len((kept.folder / "out.jsonl").read_text().splitlines()) == 4


def test_an_absent_folder_is_an_empty_journal(tmp_path: Path) -> None:
    assert list(Journal(MemoryStore(), tmp_path / "none").read()) == []
    assert Journal(MemoryStore(), tmp_path / "none").last(5) == []
    assert not (tmp_path / "none").exists()
