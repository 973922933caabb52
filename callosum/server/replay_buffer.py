"""Parts of the event stream: positions, encoded events, the buffer of the newest ones, and groups of subscribers.

The stream has one order. An event of the journal is at ``(seq, n)``: its entry, and its index among
the entry's events. A published event comes after all events of the newest entry that had been streamed
when it was published: at ``(seq, PUBLISHED + r)``, where ``r`` is a moment in microseconds that only grows. The id
that readers see and send back spells the position, ``<seq>.<n>`` or ``<seq>-<r>``; for them it is opaque.

This module neither waits nor reads from the store; ``stream`` does.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final

from msgspec import Struct

from callosum.corpus.entry_events import OpeningCalls
from callosum.corpus.events import CorpusEvent, encode
from callosum.model import Entry
from callosum.wire import BadRequest

Position = tuple[int, int]
Sort = tuple[str, str | None]
"""An event's type and its namespace."""

PUBLISHED: Final = 1_000_000
"""Greater than the number of events of any entry. ``(seq, PUBLISHED)`` is the end of an entry's own events."""
CHUNK: Final = 65_536
"""Maximum number of bytes sent at once, unless a single event is longer."""
SCAN: Final = 2048
"""Maximum number of items that are filtered at once."""
_SHARED: Final = 8
"""Number of chunks that a group caches for its next readers."""
_OVERHEAD: Final = 250
"""Approximate size of an item without its frame, in bytes."""
_ID: Final = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,6})|-([0-9]{1,18}))", re.ASCII)

_FRAME: Final = b"id: %d.%d\nevent: %b\ndata: %b\n\n"

_position = attrgetter("position")


def end_of(seq: int) -> Position:
    """Return the position after all events of the entry."""
    return seq, PUBLISHED


def id_of(position: Position) -> str:
    """Return the position as an id for readers."""
    seq, n = position
    return f"{seq}.{n}" if n < PUBLISHED else f"{seq}-{n - PUBLISHED}"


def position_of(id: str) -> Position:
    """Return the position that an id spells. Raises ``BadRequest`` if it is not an id of this stream."""
    found = _ID.fullmatch(id)
    if found is None or int(found[1]) >= 2**63 or int(found[2] or 0) >= PUBLISHED:
        raise BadRequest("expected the id of an event of this stream", at="Last-Event-ID")
    return int(found[1]), int(found[2]) if found[2] else PUBLISHED + int(found[3])


class Item(Struct, frozen=True, gc=False):
    """One event, ready to be sent: ``frame`` is its text in the stream.

    ``safe``: it is a decision of the journal, which no reader may miss.
    """

    position: Position
    type: str
    namespace: str | None
    frame: bytes
    safe: bool


def items_of(entry: Entry, calls: OpeningCalls) -> list[Item]:
    """Return the events of an entry of the journal, ready to be sent. Raises what ``calls`` raises."""
    seq, namespace = entry.seq, entry.namespace
    items = []
    for n, event in enumerate(calls.events_of(entry)):
        name = event.dotted
        frame = _FRAME % (seq, n, name.encode(), encode(event))
        items.append(Item((seq, n), name, namespace, frame, name[:7] == "safety."))
    return items


class Published(Struct, frozen=True, gc=False):
    """A published event that has no position yet."""

    type: str
    namespace: str | None
    data: bytes

    @classmethod
    def of(cls, event: CorpusEvent) -> Published:
        """Encode the event now, so that later changes of its values do not matter."""
        return cls(event.dotted, event.namespace, encode(event))

    def at(self, seq: int, moment: int) -> Item:
        """Return the event with a position after entry ``seq``."""
        frame = b"id: %d-%d\nevent: %b\ndata: %b\n\n" % (seq, moment, self.type.encode(), self.data)
        return Item((seq, PUBLISHED + moment), self.type, self.namespace, frame, safe=False)


class Lost:
    """Published events that are no longer stored: counts those after a position, for each filter.

    Type, namespace and position of the newest ``most`` (up to twice as many) are remembered, some 20 bytes each.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._seqs = array("q")
        self._places = array("q")
        self._kinds = array("I")
        self._numbers: dict[Sort, int] = {}
        self._sorts: list[Sort] = []
        self._since: Position = (0, 0)
        """Every lost event after this position is remembered."""

    def add(self, event: Item | Published, position: Position) -> None:
        """Remember an event that was at ``position``. Events mostly arrive in the order of their positions."""
        sort = event.type, event.namespace
        number = self._numbers.get(sort)
        if number is None:
            number = self._numbers[sort] = len(self._sorts)
            self._sorts.append(sort)
        at = self._behind(position)
        self._seqs.insert(at, position[0])
        self._places.insert(at, position[1])
        self._kinds.insert(at, number)
        if len(self._seqs) > 2 * self._most:
            self._forget(self._most)

    def count(self, filter: Filter, after: Position, upto: Position) -> tuple[int, bool]:
        """Return the number of lost events after ``after`` up to ``upto`` that pass, and True if it is exact."""
        found = Counter(self._kinds[self._behind(after) : self._behind(upto)])
        count = sum(number for kind, number in found.items() if filter.takes(*self._sorts[kind]))
        return count, after >= self._since

    @property
    def newest(self) -> Position:
        """Return the position of the last of them; if there are none, one before all others."""
        return (self._seqs[-1], self._places[-1]) if self._seqs else self._since

    def _behind(self, position: Position) -> int:
        """Return the index of the first one after ``position``."""
        seq, place = position
        start, end = bisect_left(self._seqs, seq), bisect_right(self._seqs, seq)
        return bisect_right(self._places, place, start, end)

    def _forget(self, count: int) -> None:
        self._since = self._seqs[count - 1], self._places[count - 1]
        kept = [self._sorts[kind] for kind in self._kinds[count:]]
        del self._seqs[:count], self._places[:count]
        self._sorts = list(dict.fromkeys(kept))
        self._numbers = {sort: number for number, sort in enumerate(self._sorts)}
        self._kinds = array("I", [self._numbers[sort] for sort in kept])


class Filter(Struct, frozen=True, gc=False):
    """The events that a reader wants and may see; None means all.

    Events without a namespace belong to no single one: only a reader that sees all namespaces gets them.
    """

    types: frozenset[str] | None = None
    namespaces: frozenset[str] | None = None

    def of(self, items: Iterable[Item]) -> list[Item]:
        """Return the items that pass, in their order."""
        types, namespaces = self.types, self.namespaces
        if types is not None:
            items = [item for item in items if item.type in types]
        if namespaces is not None:
            items = [item for item in items if item.namespace in namespaces]
        return list(items)

    def takes(self, type: str, namespace: str | None) -> bool:
        """Return True if an event of this type and namespace passes."""
        return (self.types is None or type in self.types) and (self.namespaces is None or namespace in self.namespaces)


class Batch:
    """Items that were added or removed together, indexed so that a filter which none of them passes is cheap."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.types = {item.type for item in items}

    def passing(self, filter: Filter) -> list[Item]:
        """Return the items that pass."""
        if not self.items or (filter.types is not None and filter.types.isdisjoint(self.types)):
            return []
        return filter.of(self.items)


class ReplayBuffer:
    """The newest events in their order, without gaps: it holds every event after ``floor`` up to ``tip``.

    It holds at most ``limit`` items and about ``size`` bytes; the oldest are removed first.
    """

    def __init__(self, limit: int, size: int) -> None:
        self.floor: Position = end_of(0)
        self.tip: Position = end_of(0)
        self._limit = limit
        self._most = size
        self._items: list[Item] = []
        self._head = 0
        self._size = 0

    def __len__(self) -> int:
        return len(self._items) - self._head

    def begin(self, position: Position) -> None:
        """Empty the buffer; the next items come after ``position``."""
        self._items, self._head, self._size = [], 0, 0
        self.floor = self.tip = position

    def add(self, items: list[Item], tip: Position) -> list[Item]:
        """Add the items up to ``tip``; return those that were removed to make room."""
        self._items += items
        self._size += sum(len(item.frame) + _OVERHEAD for item in items)
        self.tip = tip
        start = self._head
        while self._size > self._most or len(self._items) - self._head > self._limit:
            item = self._items[self._head]
            self._size -= len(item.frame) + _OVERHEAD
            self._head += 1
            self.floor = item.position
        gone = self._items[start : self._head]
        if self._head > len(self._items) // 2:
            del self._items[: self._head]
            self._head = 0
        return gone

    def after(self, position: Position) -> tuple[list[Item], Position]:
        """Return items after ``position`` (not before ``floor``), in order, and the position up to which they reach."""
        items = self._items
        if not items or position >= items[-1].position:
            return [], self.tip
        start = bisect_right(items, position, lo=self._head, key=_position)
        found = items[start : start + SCAN]
        return found, self.tip if start + SCAN >= len(items) else found[-1].position


class Chunk(Struct, frozen=True, gc=False):
    """The next data for a reader at one position: ``body`` (which may be empty), and the reader's new position.

    ``count`` is the number of its events that are not decisions.
    """

    body: bytes
    position: Position
    count: int


def chunk_of(items: list[Item], end: Position) -> Chunk:
    """Return as many of the first items as one chunk holds; together they reach up to ``end``."""
    size = count = 0
    for number, item in enumerate(items):
        size += len(item.frame)
        if size > CHUNK and number:
            items, end = items[:number], items[number - 1].position
            break
        count += not item.safe
    return Chunk(b"".join([item.frame for item in items]), end, count)


class SubscriberGroup:
    """The readers with one filter: events are filtered and joined once for all of them.

    Counted are the events, other than decisions, that pass: ``added`` since the group began, ``gone``
    those of them that have left the buffer. ``gone_safe`` is the last decision that left it.
    """

    def __init__(self, filter: Filter, ring: ReplayBuffer) -> None:
        self.filter = filter
        self.added = 0
        self.gone = 0
        self.gone_safe: Position = ring.floor
        self._since = ring.tip
        self._ring = ring
        self._chunks: dict[Position, Chunk] = {}

    def skip(self, sorts: Mapping[Sort, int]) -> bool:
        """Record events that never entered the buffer; return True if any of them is for this group."""
        count = sum(number for sort, number in sorts.items() if self.filter.takes(*sort))
        self.added += count
        self.gone += count
        return count > 0

    def note(self, fresh: Batch, gone: Batch) -> bool:
        """Record what entered the buffer and what left it; return True if an event for the group was added."""
        self._chunks.clear()
        passed = fresh.passing(self.filter)
        self.added += sum([not item.safe for item in passed])
        for item in gone.passing(self.filter):
            if item.position <= self._since:
                continue
            if item.safe:
                self.gone_safe = item.position
            else:
                self.gone += 1
        return bool(passed)

    def next(self, position: Position) -> Chunk:
        """Return what comes after ``position``, which is not before the buffer's floor."""
        chunk = self._chunks.get(position)
        if chunk is None:
            if len(self._chunks) >= _SHARED:
                self._chunks.clear()
            items, end = self._ring.after(position)
            chunk = self._chunks[position] = chunk_of(self.filter.of(items), end)
        return chunk
