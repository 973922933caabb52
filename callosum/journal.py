"""The whole journal: the store's entries, and older ones that were rotated into compressed segments.

A segment is ``<state>/journal/<first>-<last>.jsonl.gz``: entries in order, one a line, named by the
``seq`` of its first and its last. Rotation copies before it deletes::

    take(...)                     choose the entries that may leave: no request can need them any more
    write .<name>.part, fsync     a crash here leaves a part that the next rotation removes
    rename to <name>, fsync       from here on the entries are in both, and readers drop the second
    take(delete, only=copied)     only what was copied is deleted, not what became free to leave meanwhile

So an entry may be in both for a while, and is always in at least one. If two processes rotate at once,
the lock file lets one of them through, and the other skips its rotation. Entries of live actions and of remembered
calls stay in the store when older ones leave, so segments may overlap; a reader merges them.
"""

from __future__ import annotations

import gzip
import heapq
import logging
import os
import re
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from callosum import locks
from callosum.errors import StoreError
from callosum.model import NO_KEY, SECOND, Entry, Event
from callosum.policy.summary import forgetting
from callosum.stores.base import Store

logger = logging.getLogger("callosum")

FOLDER: Final = "journal"
ENDS: Final = frozenset((Event.COMPLETE, Event.RELEASE, Event.LAPSE, Event.RESOLVE))
"""Events whose entries say how an action ended."""
PROBE: Final = "callosum-doctor"  # session name of the test call that ``callosum doctor`` makes
BATCH: Final = 2500
"""Number of entries in one segment: about a megabyte before compression, some 20 ms of work."""
_PAGE: Final = 500
_FULL: Final = 0.8
"""Part of its maximum size to which a journal that grew too large is rotated."""
_SLACK: Final = 1.1
"""Seconds that entries may stay beyond their maximum age while they do not fill a segment."""
_LONGEST_LINE: Final = 64_000_000
"""Maximum size of one entry that is read from a segment, in bytes; a request, and so an entry, is far smaller."""
_REST: Final = 600.0
"""Seconds between a rotation that had nothing to move and the next check."""
_NAME: Final = re.compile(r"(\d+)-(\d+)\.jsonl\.gz")

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Entry).decode


# --- lines ---


def line_of(entry: Entry) -> bytes:
    """Return an entry as one line of JSON without the line end: its wire form and the time ``at``."""
    at = datetime.fromtimestamp(entry.seq // SECOND, UTC).replace(microsecond=entry.seq % SECOND)
    return b'{"at":"%s",' % at.isoformat(timespec="microseconds").replace("+00:00", "Z").encode() + _encode(entry)[1:]


def is_canary(entry: Entry) -> bool:
    """Return True for the test call of ``callosum doctor``, which no figure counts."""
    return entry.session.endswith(f"/{PROBE}")


def shown_keys(entry: Entry) -> tuple[str, ...]:
    """Return the names of an entry's keys, without the hidden key of a call without keys."""
    return tuple(key.name for key in entry.keys if not key.name.startswith(NO_KEY))


def export(entries: Iterable[Entry], path: Path) -> int:
    """Write entries as JSONL to a new file, compressed if its name ends in ``.gz``; return their number.

    Raises ``FileExistsError`` if the file exists, ``OSError`` if it cannot be written.
    """
    count = 0
    with path.open("xb") as raw:
        path.chmod(0o600)
        with gzip.GzipFile(fileobj=raw, mode="wb") if path.suffix == ".gz" else raw as out:
            for entry in entries:
                out.write(line_of(entry) + b"\n")
                count += 1
    return count


# --- filtering ---


class EntryFilter(Struct, frozen=True, kw_only=True):
    """A filter for entries; a field that is None (or 0) is not checked.

    In ``session``, ``tool`` and ``key`` a ``*`` matches any text; ``key`` is compared with all keys of an
    entry. ``tier`` is the lowest. ``since`` and ``until`` are moments, both included.
    """

    namespace: str | None = None
    session: str | None = None
    tool: str | None = None
    key: str | None = None
    event: str | None = None
    verdict: str | None = None
    tier: int | None = None
    since: int = 0
    until: int | None = None

    def passes(self, entry: Entry) -> bool:
        """Return True if the entry passes the filter."""
        return (
            entry.seq >= self.since
            and (self.until is None or entry.seq <= self.until)
            and self.namespace in (None, entry.namespace)
            and self.event in (None, entry.event)
            and self.verdict in (None, entry.verdict)
            and (self.tier is None or (entry.tier is not None and entry.tier >= self.tier))
            and fits(self.session, entry.session)
            and fits(self.tool, entry.tool)
            and (self.key is None or any(fits(self.key, name) for name in shown_keys(entry)))
        )


ALL: Final = EntryFilter()


def fits(pattern: str | None, text: str) -> bool:
    """Return True if the text matches the pattern, in which ``*`` matches any text; None matches everything."""
    if pattern is None or pattern == text:
        return True
    first, *parts = pattern.split("*")
    if not parts or not text.startswith(first):
        return False
    place = len(first)
    *middle, last = parts
    for part in middle:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return text.endswith(last) and len(text) - len(last) >= place


# --- reading ---


def entry_at(store: Store, seq: int) -> Entry | None:
    """Return the entry with this ``seq`` from the store alone; None if it is not there."""
    found = store.entries(after=seq - 1, limit=1)
    return found[0] if found and found[0].seq == seq else None


class Segment(NamedTuple):
    """A file of rotated entries. ``first`` and ``last`` are the ``seq`` of its first and last entry."""

    first: int
    last: int
    path: Path

    def read(self, after: int = 0) -> Iterator[Entry]:
        """Yield the entries with a greater ``seq``, a line at a time.

        Raises ``StoreError`` where the file is damaged: empty, truncated, or not what rotation writes. Entries before
        the damage have been yielded by then.
        """
        seq = 0
        try:
            with gzip.open(self.path, "rb") as lines:
                while line := lines.readline(_LONGEST_LINE):
                    entry = _decode(line)
                    seq = entry.seq
                    if seq > after:
                        yield entry
        except (OSError, EOFError, zlib.error, UnicodeError, msgspec.MsgspecError) as fault:
            raise StoreError(f"{self.path} is damaged after entry {seq}: {fault}") from fault
        if seq < self.last:
            raise StoreError(f"{self.path} is damaged: it ends after entry {seq}, before its last, {self.last}")


class Journal:
    """A store's journal and its segments as one ordered stream without duplicates.

    A damaged segment is logged once, and the stream continues with the others. ``state`` is the state folder, which
    need not exist. ``sleep`` is for tests.
    """

    def __init__(self, store: Store, state: Path, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.store = store
        self.folder = state / FOLDER
        self._sleep = sleep
        self._damaged: set[Path] = set()

    def segments(self) -> list[Segment]:
        """Return the segments, the one with the oldest first entry first."""
        try:
            names = os.listdir(self.folder)  # noqa: PTH208  names are enough
        except OSError:
            return []
        found = [(match, name) for name in names if (match := _NAME.fullmatch(name))]
        return sorted(Segment(int(match[1]), int(match[2]), self.folder / name) for match, name in found)

    def read(self, wanted: EntryFilter = ALL, *, after: int = 0) -> Iterator[Entry]:
        """Yield the entries with a ``seq`` greater than ``after``, oldest first.

        The stream ends with the newest entry at the time. No entry is missed if rotation runs at the same time: a page
        of the store is read before the list of segments, so an entry that has left the store is in one of them.
        """
        after = max(after, wanted.since - 1)
        namespace, session = wanted.namespace, wanted.session
        if session is not None and "*" in session:
            session = None
        while wanted.until is None or after < wanted.until:
            page = self.store.entries(after=after, limit=_PAGE, namespace=namespace, session=session)
            end = page[-1].seq if len(page) == _PAGE else None
            for entry in _merged(self._rotated(after, end), page):
                if wanted.passes(entry):
                    yield entry
                after = entry.seq
            if end is None:
                return
            after = max(after, end)

    def entry(self, seq: int) -> Entry | None:
        """Return the entry with this ``seq``; None if there never was one or it is gone."""
        found = entry_at(self.store, seq)
        return found or next((entry for entry in self._rotated(seq - 1, seq) if entry.seq == seq), None)

    def last(self, count: int, wanted: EntryFilter = ALL) -> list[Entry]:
        """Return the newest ``count`` entries that pass the filter, oldest first; none for a ``count`` below 1."""
        if count < 1:
            return []
        segments = self.segments()
        newest_rotated = max((segment.last for segment in segments), default=0)
        for limit in () if "*" in (wanted.session or "") else (4 * count, 100 * count):
            page = self.store.entries(limit=limit, namespace=wanted.namespace, session=wanted.session, newest=True)
            found = [entry for entry in page if wanted.passes(entry)]
            if (not segments and len(page) < limit) or (len(found) >= count and found[-count].seq > newest_rotated):
                return found[-count:]
        return list(deque(self.read(wanted), maxlen=count))

    def follow(
        self,
        wanted: EntryFilter = ALL,
        *,
        after: int | None = None,
        interval: float = 0.2,
        stop: Callable[[], bool] = bool,
    ) -> Iterator[Entry]:
        """Yield new entries as they are written, without duplicates, until ``stop()`` is true.

        ``after`` None starts with the next entry. ``interval`` is the number of seconds to sleep when
        there is nothing new.
        """
        if after is None:
            after = max((entry.seq for entry in self.store.entries(limit=1, newest=True)), default=0)
        while not stop():
            idle = True
            for entry in self.read(after=after):
                idle, after = False, entry.seq
                if wanted.passes(entry):
                    yield entry
            if idle:
                self._sleep(interval)

    def _rotated(self, after: int, end: int | None) -> Iterator[Entry]:
        """Yield rotated entries with ``after < seq <= end``, in order; a segment is opened once its entries are due."""
        waiting = deque(
            segment for segment in self.segments() if segment.last > after and (end is None or segment.first <= end)
        )
        heap: list[tuple[int, int, Entry, Iterator[Entry]]] = []
        number = 0
        while waiting or heap:
            while waiting and (not heap or waiting[0].first <= heap[0][0]):
                number += 1
                lines = self._readable(waiting.popleft(), after)
                if (entry := next(lines, None)) is not None:
                    heapq.heappush(heap, (entry.seq, number, entry, lines))
            if not heap:
                continue
            seq, mine, entry, lines = heap[0]
            if end is not None and seq > end:
                return
            yield entry
            if (following := next(lines, None)) is not None:
                heapq.heapreplace(heap, (following.seq, mine, following, lines))
            else:
                heapq.heappop(heap)

    def _readable(self, segment: Segment, after: int) -> Iterator[Entry]:
        """Yield the entries of a segment, up to where it is damaged if it is."""
        try:
            yield from segment.read(after)
        except StoreError as error:
            if segment.path not in self._damaged:
                self._damaged.add(segment.path)
                logger.warning("%s; the journal is shown without the rest of it", error)


def _merged(*streams: Iterable[Entry]) -> Iterator[Entry]:
    """Merge ordered streams into one ordered stream; of entries with the same ``seq`` only the first is yielded."""
    for _, same in groupby(heapq.merge(*streams, key=attrgetter("seq")), attrgetter("seq")):
        yield next(same)


# --- rotation ---


class Rotation:
    """Moves entries that are too old, or too many, from a store into segments.

    ``state`` is the state folder. ``age`` is in seconds, ``size`` in bytes (of the store's live data).
    Entries that the gate may still need stay at any age, so a store can stay larger than ``size``.
    Ages are measured by the store's clock, not this machine's. ``now`` returns the current moment; it and ``batch`` are
    for tests.
    """

    def __init__(
        self,
        store: Store,
        state: Path,
        *,
        age: float,
        size: int,
        batch: int = BATCH,
        now: Callable[[], int] | None = None,
    ) -> None:
        self._store = store
        self._folder = state / FOLDER
        self._age = int(age * SECOND)
        self._size = size
        self._batch = batch
        self._now = now if now is not None else store.now
        self._rest_until = 0.0
        self._too_large = False
        self.busy = False
        """True if another process (or thread) was rotating when this one last tried."""

    def run(self, horizon: int, *, rounds: int = 1) -> int:
        """Write at most ``rounds`` segments; return the number of entries moved, 0 if another process rotates now.

        ``horizon`` is the moment before which nothing counts as evidence, as for ``Store.maintain``.
        Cheap if there is nothing to do. Raises ``StoreError`` if the store or the folder fails; what
        was written until then is kept.
        """
        if time.monotonic() < self._rest_until:
            return 0
        moved = 0
        for _ in range(rounds):
            until = self._due()
            if until is None:
                break
            step = self._move(until, horizon)
            moved += step
            if not step:
                self._rest_until = time.monotonic() + _REST
                break
        return moved

    def run_all(self, horizon: int) -> int:
        """Move all entries that no decision needs any more, at any age; return the number of entries moved.

        ``horizon`` and errors are those of ``run``.
        """
        moved = 0
        while step := self._move(self._now(), horizon, all=True):
            moved += step
        return moved

    def _due(self) -> int | None:
        """Return the moment up to which entries are to leave; None if none is."""
        now = self._now()
        if self._store.size() > self._size * (_FULL if self._too_large else 1):
            self._too_large = True
            return now
        self._too_large = False
        old = now - self._age
        waiting = self._store.entries(limit=1)
        if not waiting or waiting[0].seq > old:
            return None
        return old

    def _move(self, until: int, horizon: int, *, all: bool = False) -> int:
        """Write one segment. ``all``: also one that is not full and whose entries are young."""
        try:
            with self._alone() as alone:
                self.busy = not alone
                if not alone:
                    return 0
                entries = self._store.take(until, horizon, self._batch)
                if not entries or not (all or self._worth(entries)):
                    return 0
                self._write(entries)
                self._store.take(until, horizon, self._batch, delete=True, only={entry.seq for entry in entries})
                return len(entries)
        except OSError as fault:
            raise StoreError(f"the journal could not be rotated into {self._folder}: {fault}") from fault

    def _worth(self, entries: list[Entry]) -> bool:
        full = len(entries) >= self._batch
        return full or self._too_large or entries[0].seq < self._now() - int(self._age * _SLACK)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Take the lock file without waiting; yield False if another process or thread has it, or there are none."""
        if not locks.WORKS:
            yield False
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locks.locked(self._folder / ".lock") as alone:
            if alone:
                for part in self._folder.glob(".*.part"):
                    part.unlink()  # left by a rotation that died; its entries are still in the store
            yield alone

    def _write(self, entries: list[Entry]) -> None:
        name = f"{entries[0].seq}-{entries[-1].seq}.jsonl.gz"
        path = self._folder / name
        if path.exists():  # left by a rotation that died before it deleted: nothing in it may be lost
            entries = _with(Segment(entries[0].seq, entries[-1].seq, path), entries)
        part = self._folder / f".{name}.part"
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0, compresslevel=6) as out:
                out.write(b"".join(line_of(forgetting(entry)) + b"\n" for entry in entries))
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(path)
        _sync(self._folder)


def _with(segment: Segment, entries: list[Entry]) -> list[Entry]:
    """Return the entries together with those of the segment. A damaged segment is renamed and kept."""
    found: list[Entry] = []
    try:
        found.extend(segment.read())
    except StoreError as error:
        kept = segment.path.with_name(f"{segment.path.name}.damaged")
        logger.warning("%s; it is kept as %s and written anew", error, kept.name)
        segment.path.rename(kept)
    return list(_merged(found, entries))


def _sync(folder: Path) -> None:
    """Make a rename in the folder survive power loss, on systems where folders can be synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
