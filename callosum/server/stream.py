"""The event stream: server-sent events for many readers, from the journal and from published events.

::

    journal ── items_of ──┐  at most every INTERVAL, one for all readers
                          ├─> ReplayBuffer ──> SubscriberGroup ──> one joined chunk for all readers with one filter
    publish ── Published ─┘
                          journal, page by page, for readers that reconnect or have fallen behind

While there are readers, one task follows the journal. This server's commits wake it, and it finds other processes'
commits by a check every ``POLL`` seconds (a store on several machines notifies only of what waiters may wait for). Each
event is encoded once. A reader has no queue, only a position; it is sent next what comes after its position.

* A reader that reconnects with ``Last-Event-ID`` continues after that event: from the buffer, or from the journal until
  the buffer is reached. Journal events come without gap or repetition; published ones as far as they are stored, and
  if some are not, ``stream.dropped`` gives their number before the events that follow them.
* A reader that is too slow loses its place in the buffer. It still gets decisions (``safety.*``), from the
  journal; of the other events it gets the number: ``event: stream.dropped``, ``data: {"count": 12}``.
* A reader that does not read at all, so that a send takes longer than ``STALL`` seconds, is disconnected.
* Readers of a server that stops are sent to another server of the same store: ``retry: 100``, with the id from which
  to continue there. Journal events are the same there, in the same order; published ones exist on this server only.
* A reader without events for ``BEAT`` seconds gets a comment with the id of the stream's tip, so that reconnecting
  after a quiet hour does not mean reading the journal of that hour.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from callosum.corpus.entry_events import OpeningCalls
from callosum.corpus.events import CorpusEvent, select
from callosum.errors import StoreError
from callosum.journal import FOLDER, Journal, entry_at
from callosum.model import Entry
from callosum.server.replay_buffer import (
    PUBLISHED,
    Batch,
    Filter,
    Item,
    Lost,
    Position,
    Published,
    ReplayBuffer,
    Sort,
    SubscriberGroup,
    chunk_of,
    end_of,
    id_of,
    items_of,
    position_of,
)
from callosum.server.responses import fault
from callosum.stores.base import Notifying, Store

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

logger = logging.getLogger("callosum")

INTERVAL: Final = 0.05
"""Seconds for which events are collected, except after a quiet time: then the first is sent at once."""
POLL: Final = 0.1
"""Seconds between two checks of the journal for other processes' entries."""
BEAT: Final = 15.0
STALL: Final = 10.0
RING: Final = 16_384
"""Maximum number of events in the buffer."""
RING_SIZE: Final = 8_000_000
"""Approximate maximum size of the buffer, in bytes."""
RETRY: Final = 2000
"""Milliseconds after which a disconnected reader is to reconnect."""
_SENT_ON: Final = 100
"""Milliseconds after which a reader is to reconnect when the server stops, because another server is available."""
_KEPT: Final = 1000
_KEPT_SIZE: Final = 2_000_000
_LOST: Final = 50_000
"""Number of published events that are no longer stored but still counted for readers that reconnect. For older ones
readers are only informed that there may be more.
"""
_LIVE_PAGE: Final = 128
_PAGE: Final = 200
_PAGE_SIZE: Final = 262_144
_PAGES: Final = 8
_SLICE: Final = 32
"""Number of readers woken before the loop continues: decisions do not wait for two thousand sends."""
_AGAIN: Final = 1.0
"""Seconds between an error of the store and the next check."""
_FAREWELL: Final = 2.0
"""Seconds that readers have to take the end of the stream."""

T = TypeVar("T")

_HEAD: Final[Message] = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ],
}
_END: Final[Message] = {"type": "http.response.body", "body": b"", "more_body": False}


def _body(content: bytes) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": True}


def _dropped(count: int, *, at_least: bool = False) -> Message:
    """Return the event that tells a reader how many events it misses. Without an id, as none may resume from it."""
    more = b',"atLeast":true' if at_least else b""
    return _body(b'event: stream.dropped\ndata: {"count":%d%b}\n\n' % (count, more))


def _greeting(retry: int, position: Position) -> bytes:
    """Return the lines that say after how many milliseconds to reconnect, and from which position."""
    return b"retry: %d\nid: %b\n\n" % (retry, id_of(position).encode())


class Page(Struct, frozen=True, gc=False):
    """A page of the journal as events: all of the entries from its start up to ``end``.

    ``floor`` is where the buffer began when the page was read; ``last``: there were no more entries then, so
    everything up to ``floor`` is in the page or before it.
    """

    items: list[Item]
    end: Position
    floor: Position
    last: bool

    def reach(self, floor: Position) -> Position:
        """Return the position up to which a reader of the page needs no more, if the buffer now begins at ``floor``."""
        return min(max(self.end, self.floor) if self.last else self.end, floor)


class _Past:
    """Reads the journal, with its rotated segments if ``state`` (the state folder) is given."""

    def __init__(self, store: Store, state: Path | None) -> None:
        self._store = store
        self._journal = Journal(store, state) if state is not None else None
        self._folder = state / FOLDER if state is not None else None
        self._rotated = (0, 0)
        self._calls = OpeningCalls(self._entry)

    def items(self, entry: Entry) -> list[Item]:
        """Return the events of an entry, ready to be sent. Raises ``StoreError``."""
        return items_of(entry, self._calls)

    def _entry(self, seq: int) -> Entry | None:
        """Return the entry with this ``seq``, which opened an action; None if it does not exist any more."""
        return entry_at(self._store, seq) if self._journal is None else self._journal.entry(seq)

    def newest(self) -> int:
        """Return the ``seq`` of the newest entry; 0 if there is none."""
        entries = self._store.entries(limit=1, newest=True)
        return entries[0].seq if entries else 0

    def read(self, after: int, limit: int) -> list[Entry]:
        """Return the next entries, at most ``limit``. Raises ``StoreError``.

        The store is read first: entries that leave it meanwhile are in a segment by then.
        """
        entries = self._store.entries(after=after, limit=limit)
        if self._journal is None or self._rotated_up_to() <= after:
            return entries
        return list(islice(self._journal.read(after=after), limit))

    def page(self, after: int, limit: int) -> tuple[list[Entry], list[Item]]:
        """Return the next entries, at most ``limit``, and all of their events. Raises ``StoreError``."""
        entries = self.read(after, limit)
        return entries, [item for entry in entries for item in self.items(entry)]

    def _rotated_up_to(self) -> int:
        """Return the newest entry of all segments. The folder is listed only if it has changed."""
        journal, folder = self._journal, self._folder
        if journal is None or folder is None:
            return 0
        try:
            changed = folder.stat().st_mtime_ns
        except OSError:
            return 0
        if self._rotated[0] != changed:
            upto = max((segment.last for segment in journal.segments()), default=0)
            settled = (
                0 <= 2 * 10**9 < time.time_ns() - changed
            )  # otherwise a change within one clock tick could be missed
            self._rotated = (changed if settled else 0, upto)
        return self._rotated[1]


class _Reader:
    """One reader: its position, and the state of its connection.

    ``joined``: it has reached the tip, so that it is a live reader, which loses what it does not take in
    time; before, it is a returning one that gets everything. ``seen`` is the number of events it has had, counted as
    ``SubscriberGroup.added``. ``sending`` is the time at which the current send began (0: none).
    """

    __slots__ = ("bell", "cut_off", "group", "holds", "joined", "over", "position", "seen", "sending", "sent", "task")

    def __init__(self, group: SubscriberGroup, position: Position) -> None:
        self.group = group
        self.position = position
        self.joined = False
        self.seen = 0
        self.sent = 0.0
        self.sending = 0.0
        self.over = False
        self.cut_off = False
        self.bell: asyncio.Future[None] | None = None
        self.task: asyncio.Task[Any] | None = None
        self.holds: Callable[[], bool] | None = None

    def wake(self) -> None:
        """End the reader's wait."""
        bell = self.bell
        if bell is not None and not bell.done():
            bell.set_result(None)

    def leave(self) -> None:
        """Record that the connection is closed."""
        self.over = True
        self.wake()


class Stream:
    """Sends events to readers. All methods but ``wake`` and ``publish`` belong to one event loop.

    ``state`` is the state folder, for entries that were rotated out of the store. ``dropped`` counts events
    that readers lost because they were slow or disconnected, ``stalled`` readers that were disconnected.
    """

    def __init__(
        self,
        store: Store,
        state: Path | None = None,
        *,
        ring: int = RING,
        size: int = RING_SIZE,
        interval: float = INTERVAL,
        poll: float = POLL,
        beat: float = BEAT,
        stall: float = STALL,
    ) -> None:
        self._past = _Past(store, state)
        self._elsewhere = isinstance(store, Notifying)
        self._ring = ReplayBuffer(ring, size)
        self._interval, self._poll, self._beat, self._stall = interval, poll, beat, stall
        self._pending: deque[Published] = deque()
        self._pending_size = 0
        self._guard = threading.RLock()
        self._kept: deque[Item] = deque()
        self._kept_size = 0
        self._lost = Lost(_LOST)
        self._skipped: Counter[Sort] = Counter()
        """Number of published events without room that live readers must still be informed of."""
        self._moment = 0
        self._groups: dict[Filter, SubscriberGroup] = {}
        self._fresh: set[Filter] = set()
        self._members: dict[Filter, dict[_Reader, None]] = {}
        self._readers: dict[_Reader, Callable[[], object]] = {}
        """With the function that closes the reader's connection."""
        self._pages: OrderedDict[int, Page] = OrderedDict()
        self._lane = ThreadPoolExecutor(2, "callosum-stream")  # one follows the journal, one reads older pages
        self._turn = asyncio.Lock()
        self._at_the_tip = asyncio.Lock()
        self._door = asyncio.Lock()
        self._bell = asyncio.Event()
        self._empty = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._woken = False
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []
        self.dropped = 0
        self.stalled = 0

    @property
    def readers(self) -> int:
        """Return the number of readers."""
        return len(self._readers)

    # --- Input ---

    def wake(self) -> None:
        """Report that the journal may have new entries. Cheap; safe in any thread."""
        if self._woken:
            return
        self._woken = True
        loop = self._loop
        if loop is None:
            return
        if threading.get_ident() == self._thread:
            self._bell.set()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._bell.set)

    def publish(self, events: Iterable[CorpusEvent]) -> None:
        """Send events that are in no journal. Safe in any thread.

        The newest thousand (and two megabytes) of them are kept for readers that reconnect. Of the others these
        readers get the number.
        """
        new = [Published.of(event) for event in events]
        with self._guard:
            self._pending.extend(new)
            self._pending_size += sum(len(event.data) for event in new)
            most, largest = (RING, RING_SIZE) if self._readers else (_KEPT, _KEPT_SIZE)
            while len(self._pending) > most or self._pending_size > largest:
                event = self._pending.popleft()
                self._pending_size -= len(event.data)
                self._lost.add(event, (self._ring.tip[0], PUBLISHED + self._next_moment()))
                self._skipped[event.type, event.namespace] += 1
        self.wake()

    # --- Readers ---

    def check(
        self, types: str = "*", last_event_id: str | None = None
    ) -> tuple[frozenset[str] | None, Position | None]:
        """Return the filter and position that a reader requests, for ``serve``.

        Raises ``BadRequest`` at ``types`` or ``Last-Event-ID``.
        """
        return select(types), position_of(last_event_id) if last_event_id else None

    async def serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        types: frozenset[str] | None = None,
        namespace: str | None = None,
        namespaces: frozenset[str] | None = None,
        last_event_id: Position | None = None,
        holds: Callable[[], bool] | None = None,
    ) -> None:
        """Send events until the reader leaves, stops reading, or the stream is closed.

        ``types`` and ``last_event_id`` are as ``check`` returns them. ``namespace`` is the one that the reader
        wants, ``namespaces`` those that it may see (None: all). Everything that is committed after the response
        began is sent. ``scope["callosum.abort"]`` closes the connection at once without writing the rest. The reader's
        connection is closed when ``holds`` returns False, because its token is no longer valid.
        """
        if namespace is not None:
            namespaces = frozenset({namespace}) if namespaces is None else namespaces & {namespace}
        try:
            async with self._door:
                reader = await self._join(Filter(types, namespaces), last_event_id, scope["callosum.abort"])
        except StoreError as error:
            await fault(503, str(error), "store", Retry_After="1")(scope, receive, send)
            return
        if reader is None:
            await fault(503, "the server is stopping", Retry_After="1")(scope, receive, send)
            return
        watch: asyncio.Task[None] | None = None
        try:
            reader.task, reader.holds = asyncio.current_task(), holds
            await self._send(reader, send, _HEAD)
            await self._send(reader, send, _body(_greeting(RETRY, reader.position)))
            watch = asyncio.ensure_future(_watch(reader, receive))
            await self._feed(reader, send)
            if not reader.over:
                await self._send(reader, send, _body(_greeting(_SENT_ON, reader.position)))
                await self._send(reader, send, _END)
        except asyncio.CancelledError:
            if not reader.cut_off or reader.task is None or reader.task.uncancel():
                raise
        finally:
            self._leave(reader)
            if watch is not None:
                watch.cancel()

    async def close(self) -> None:
        """End every reader's stream in order; readers that do not take the end within two seconds are disconnected."""
        self._closed = True
        for reader in list(self._readers):
            reader.wake()
        for _ in range(3):  # the end was sent, the connection was aborted, the task was cancelled
            if not self._readers:
                break
            self._empty.clear()
            try:
                async with asyncio.timeout(_FAREWELL):
                    await self._empty.wait()
            except TimeoutError:
                for reader in list(self._readers):
                    self._cut(reader)
        self._lane.shutdown(wait=False, cancel_futures=True)

    async def _join(self, filter: Filter, position: Position | None, abort: Callable[[], object]) -> _Reader | None:
        """Return a new reader; the first one starts the tasks that serve readers. Raises ``StoreError``."""
        if self._closed:
            return None
        if not self._readers:
            self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
            newest = end_of(await self._read(self._past.newest))
            with self._guard:
                self._skipped.clear()  # a returning reader gets their number on the way to the buffer
                kept = self._kept[-1].position if self._kept else newest
                self._ring.begin(max(newest, kept, self._lost.newest))
            self._place_published()
        if position is not None:
            while position > self._ring.tip:  # read at another server, or a moment ago
                more = await self._look()
                self._bell.set()  # the other readers must get it too
                if not more:
                    break
            position = min(position, self._ring.tip)
        if self._closed:
            return None
        group = self._groups.get(filter)
        if group is None:
            group = self._groups[filter] = SubscriberGroup(filter, self._ring)
            self._members[filter] = {}
        reader = _Reader(group, position or self._ring.tip)
        if not self._readers:
            self._tasks = [asyncio.ensure_future(self._follow()), asyncio.ensure_future(self._tend())]
        self._members[filter][reader] = None
        self._readers[reader] = abort
        return reader

    def _leave(self, reader: _Reader) -> None:
        filter = reader.group.filter
        del self._members[filter][reader]
        if not self._members[filter]:
            del self._groups[filter], self._members[filter]
            self._fresh.discard(filter)
        del self._readers[reader]
        if not self._readers:
            for task in self._tasks:
                task.cancel()
            self._tasks = []
            self._ring.begin(self._ring.tip)
            self._pages.clear()
            self._empty.set()

    def _cut(self, reader: _Reader) -> None:
        """Close a reader's connection at once; if that was tried before, cancel its task."""
        if not reader.cut_off:
            reader.cut_off = reader.over = True
            self._readers[reader]()
        elif reader.task is not None:
            reader.task.cancel()

    # --- One reader ---

    async def _feed(self, reader: _Reader, send: Send) -> None:
        """Send what comes after the reader's position, again and again while there is something."""
        ring, group = self._ring, reader.group
        while not (reader.over or self._closed):
            if reader.joined and group.gone > reader.seen:
                await self._tell(reader, send)
                continue
            if reader.position < ring.floor:
                await self._look_back(reader, send)
                continue
            chunk = group.next(reader.position)
            reader.position = chunk.position
            reader.seen += chunk.count
            if chunk.body:
                await self._send(reader, send, _body(chunk.body))
            if chunk.position < ring.tip:
                if not reader.joined:
                    await asyncio.sleep(0)  # a long way: give the other tasks a turn
                continue
            if not reader.joined:
                reader.joined, reader.seen = True, group.added
            if time.monotonic() - reader.sent >= self._beat:
                await self._send(reader, send, _body(b":\nid: %b\n\n" % id_of(reader.position).encode()))
                continue
            await self._wait(reader)

    async def _send(self, reader: _Reader, send: Send, message: Message) -> None:
        now = time.monotonic()
        reader.sending = reader.sent = now
        await send(message)
        reader.sending = 0.0

    async def _wait(self, reader: _Reader) -> None:
        """Wait until there is something for the reader's group, or until it needs a heartbeat."""
        if reader.over or self._closed:
            return
        reader.bell = asyncio.get_running_loop().create_future()
        try:
            await reader.bell
        finally:
            reader.bell = None

    async def _tell(self, reader: _Reader, send: Send) -> None:
        """Tell a live reader how many events left the buffer before it took them."""
        lost = reader.group.gone - reader.seen
        reader.seen += lost
        self.dropped += lost
        await self._send(reader, send, _dropped(lost))

    async def _look_back(self, reader: _Reader, send: Send) -> None:
        """Move a reader towards the buffer, which has moved on or begins after the reader's position.

        A live reader gets the decisions, if it has missed any. A returning one gets everything that is stored, and
        before that the number of published events that are not.
        """
        group, ring = reader.group, self._ring
        if reader.joined and group.gone_safe <= reader.position:
            reader.position = ring.floor
            return
        try:
            page = await self._page(reader.position)
        except StoreError as error:
            logger.warning("the event stream could not read the journal: %s", error)
            await asyncio.sleep(_AGAIN)
            return
        end = page.reach(ring.floor)
        items = [item for item in group.filter.of(page.items) if reader.position < item.position <= end]
        if reader.joined:
            items = [item for item in items if item.safe]
        elif self._kept:
            kept = [item for item in group.filter.of(self._kept) if reader.position < item.position <= end]
            items = sorted(items + kept, key=lambda item: item.position)
        if not reader.joined:
            with self._guard:
                lost, all_of_them = self._lost.count(group.filter, reader.position, end)
            if lost:
                self.dropped += lost
                await self._send(reader, send, _dropped(lost, at_least=not all_of_them))
        reader.position = max(reader.position, end)
        while items:
            chunk = chunk_of(items, end)
            items = [item for item in items if item.position > chunk.position]
            await self._send(reader, send, _body(chunk.body))
            if reader.over:
                return
        await asyncio.sleep(0)

    async def _page(self, position: Position) -> Page:
        """Return the journal's page after ``position``, read one by one and shared. Raises ``StoreError``."""
        after = position[0] - (position[1] < PUBLISHED)  # the reader has some events of this entry and needs the rest
        page = self._remembered(after, position)
        if page is not None:
            return page
        async with self._turn:
            page = self._remembered(after, position)
            if page is not None:
                return page
            began = time.monotonic()
            loop = asyncio.get_running_loop()
            page = await loop.run_in_executor(self._lane, self._read_page, after, self._ring.floor)
            self._pages[after] = page
            while len(self._pages) > _PAGES:
                self._pages.popitem(last=False)
            await asyncio.sleep(2 * (time.monotonic() - began))  # decisions come before readers of old events
            return page

    def _remembered(self, after: int, position: Position) -> Page | None:
        """Return a page that was read before, if it helps a reader at ``position``."""
        page = self._pages.get(after)
        return page if page is not None and page.reach(self._ring.floor) > position else None

    def _read_page(self, after: int, floor: Position) -> Page:
        entries = self._past.read(after, _PAGE)
        items: list[Item] = []
        size, end = 0, end_of(after)
        for entry in entries:
            found = self._past.items(entry)
            items += found
            size += sum(len(item.frame) for item in found)
            end = end_of(entry.seq)
            if size > _PAGE_SIZE and entry is not entries[-1]:
                return Page(items, end, floor, last=False)
        return Page(items, end, floor, last=len(entries) < _PAGE)

    # --- All readers ---

    async def _follow(self) -> None:
        """Follow the journal and wake the readers for whom there is something."""
        failing = False
        while True:
            try:
                more = await self._look()
                failing = False
                await self._wake_readers()
                await asyncio.sleep(0 if more else self._interval)
                if not (more or self._woken):
                    await self._listen()
            except StoreError as error:
                if not failing:
                    logger.warning("the event stream cannot follow the journal: %s", error)
                failing = True
                self._place_published()  # for example because the store is unreachable
                await self._wake_readers()
                await asyncio.sleep(_AGAIN)
            except Exception:
                logger.exception("the event stream cannot follow the journal")
                await asyncio.sleep(_AGAIN)

    async def _listen(self) -> None:
        """Wait until there is something, or until the next check is due."""
        try:
            async with asyncio.timeout(max(0.0, self._poll - self._interval)):
                await self._bell.wait()
        except TimeoutError:
            return

    async def _look(self) -> bool:
        """Move the next entries and published events into the buffer; return True if there may be more."""
        async with self._at_the_tip:
            self._woken = False
            self._bell.clear()
            entries, items = await self._read(partial(self._past.page, self._ring.tip[0], _LIVE_PAGE))
            if entries:
                self._add(items, end_of(entries[-1].seq))
            more = len(entries) == _LIVE_PAGE
            if not more:
                self._place_published()
            return more

    async def _read(self, look: Callable[[], T]) -> T:
        """Read from the journal's tail.

        If the store is in this process, read on the loop: a page takes about a millisecond, and a thread would have to
        hand over the interpreter for each row. Read any other store in a thread, so that nobody waits for it.
        """
        if self._elsewhere:
            return await asyncio.get_running_loop().run_in_executor(self._lane, look)
        return look()

    def _place_published(self) -> None:
        """Give published events their position, after everything in the buffer."""
        with self._guard:
            for filter, group in self._groups.items() if self._skipped else ():
                if group.skip(self._skipped):
                    self._fresh.add(filter)
            self._skipped.clear()
            items = [event.at(self._ring.tip[0], self._next_moment()) for event in self._pending]
            self._pending.clear()
            self._pending_size = 0
            if not items:
                return
            self._kept.extend(items)
            self._kept_size += sum(len(item.frame) for item in items)
            while len(self._kept) > _KEPT or self._kept_size > _KEPT_SIZE:
                item = self._kept.popleft()
                self._kept_size -= len(item.frame)
                self._lost.add(item, item.position)
        self._add(items, items[-1].position)

    def _next_moment(self) -> int:
        """Return the moment of the next published event. The caller holds the lock."""
        self._moment = max(self._moment + 1, time.time_ns() // 1000)
        return self._moment

    def _add(self, items: list[Item], tip: Position) -> None:
        gone = Batch(self._ring.add(items, tip))
        fresh = Batch(items)
        for filter, group in self._groups.items():
            if group.note(fresh, gone):
                self._fresh.add(filter)

    async def _wake_readers(self) -> None:
        """Wake small groups first, and large ones in parts."""
        fresh, self._fresh = self._fresh, set()
        for members in sorted((list(self._members.get(filter, ())) for filter in fresh), key=len):
            for number, reader in enumerate(members, 1):
                reader.wake()
                if number % _SLICE == 0:
                    await asyncio.sleep(0)

    async def _tend(self) -> None:
        """Disconnect readers that do not read or may not any more, and wake those that need a heartbeat."""
        while True:
            await asyncio.sleep(min(1.0, self._stall / 4, self._beat / 4))
            try:
                await self._look_after(list(self._readers))
            except Exception:
                logger.exception("the event stream could not look after its readers")

    async def _look_after(self, readers: list[_Reader]) -> None:
        now, woken = time.monotonic(), 0
        for reader in readers:
            if reader not in self._readers:
                continue
            if reader.holds is not None and not reader.holds():
                reader.leave()
            elif reader.sending and now - reader.sending >= self._stall:
                self.stalled += not reader.cut_off
                self._cut(reader)
            elif reader.bell is not None and now - reader.sent >= self._beat:
                reader.wake()
                woken += 1
                if woken % _SLICE == 0:
                    await asyncio.sleep(0)


async def _watch(reader: _Reader, receive: Receive) -> None:
    """Notice that the reader has disconnected."""
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    finally:
        reader.leave()
