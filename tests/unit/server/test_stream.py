"""The event stream, driven as an ASGI server drives it: the events that each reader gets, and their order."""

import asyncio
import itertools
import json
import random
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message

from callosum.corpus.entry_events import events_of
from callosum.corpus.events import CorpusEvent, LlmToken, TaskStopped, ToolCalled, encode
from callosum.errors import StoreUnavailable
from callosum.journal import Rotation
from callosum.model import DAY, SECOND, Applied, Change, Entry, Event, Outcome, Scope, Verdict
from callosum.server import replay_buffer, stream
from callosum.server.replay_buffer import (
    PUBLISHED,
    Batch,
    Filter,
    Item,
    Lost,
    Published,
    ReplayBuffer,
    SubscriberGroup,
    id_of,
    position_of,
)
from callosum.server.stream import Page, Stream
from callosum.stores.memory import MemoryStore
from callosum.stores.sqlite import SqliteStore
from callosum.wire import BadRequest

PATIENCE = 10.0
"""Seconds after which a test gives up."""
QUICK = {"interval": 0.0, "poll": 0.005}


class StreamEvent(NamedTuple):
    """One event as a reader gets it."""

    id: str
    type: str
    data: dict[str, Any]


def read_frames(text: bytes) -> tuple[list[StreamEvent], str]:
    """What an event source makes of the stream: the events, and the last id."""
    seen, last = [], ""
    for block in text.decode().split("\n\n"):
        fields = dict.fromkeys(("id", "event", "data"), "")
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        last = fields["id"] or last
        if fields["data"]:
            seen.append(StreamEvent(fields["id"], fields["event"], json.loads(fields["data"])))
    return seen, last


class Client:
    """One connection as the server sees it: sent data is kept; ``open`` false makes sends wait."""

    def __init__(self, hub: Stream, **asked: Any) -> None:
        self.messages: list[Message] = []
        self.text = b""
        self.aborted = False
        self.open = asyncio.Event()
        self.open.set()
        self._news = asyncio.Event()
        self._gone = asyncio.Event()
        scope = {"type": "http", "callosum.abort": asked.pop("abort", self.abort)}
        types, last = hub.check(asked.pop("types", "*"), asked.pop("last", None))
        self.task = asyncio.ensure_future(
            hub.serve(scope, self.receive, self.send, types=types, last_event_id=last, **asked)
        )

    async def receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.open.wait()
        if self._gone.is_set():
            return
        self.messages.append(message)
        self.text += message.get("body", b"")
        self._news.set()

    def abort(self) -> None:
        self.aborted = True
        self.leave()

    def leave(self) -> None:
        self._gone.set()
        self.open.set()

    async def left(self) -> None:
        """The connection is closed and the server has noticed."""
        self.leave()
        await self.task

    @classmethod
    async def begin(cls, hub: Stream, **asked: Any) -> Self:
        """Connect, and wait until the stream has begun."""
        client = cls(hub, **asked)
        await client.until(lambda: len(client.messages) == 2)
        return client

    @property
    def seen(self) -> list[StreamEvent]:
        return read_frames(self.text)[0]

    @property
    def last(self) -> str:
        return read_frames(self.text)[1]

    @property
    def lost(self) -> int:
        return sum(event.data["count"] for event in self.seen if event.type == "stream.dropped")

    def ids(self, start: str = "") -> list[str]:
        return [event.id for event in self.seen if event.id and event.type.startswith(start)]

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not done():
                self._news.clear()
                await self._news.wait()

    async def has(self, count: int) -> list[StreamEvent]:
        await self.until(lambda: len(self.seen) >= count)
        return self.seen


async def leave(*clients: Client) -> None:
    for client in clients:
        await client.left()


async def turns(count: int = 5) -> None:
    """Run everything else that is ready."""
    for _ in range(count):
        await asyncio.sleep(0)


async def eventually(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not done():  # noqa: ASYNC110 - what is waited for says nothing when it is there
            await asyncio.sleep(0.002)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await scenario()

    asyncio.run(bounded())


class JournalWriter:
    """A store, and entries written into it."""

    def __init__(self, store: Any = None) -> None:
        self.store = store or MemoryStore()
        self.count = itertools.count(1)

    def put(self, entry: Entry) -> int:
        (applied,) = self.store.transact([(Scope(entry.namespace, entry.session), lambda view: Change((entry,)))])
        assert isinstance(applied, Applied), applied
        return applied.ids[0]

    def call(self, verdict: str = "allow", tool: str = "t", namespace: str = "default", session: str = "mira") -> int:
        number = next(self.count)
        body = {"params": {"n": number}, **({"warning": "no"} if verdict == "block" else {})}
        return self.put(
            Entry(Event.INTERCEPT, session, namespace, tool=tool, tier=2, verdict=Verdict(verdict), body=body)
        )

    def done(self) -> int:
        return self.put(Entry(Event.COMPLETE, "mira", tool="t", outcome=Outcome.DONE))

    def renew(self) -> int:
        """Return an entry that makes no event."""
        return self.put(Entry(Event.RENEW, "mira", tool="t"))

    def ids(self, start: str = "", after: int = 0) -> list[str]:
        """The ids of all events of the journal."""
        return [
            f"{entry.seq}.{n}"
            for entry in self.store.entries(after=after, limit=10**6)
            for n, event in enumerate(events_of(entry))
            if event.dotted.startswith(start)
        ]


@pytest.fixture
def book() -> JournalWriter:
    return JournalWriter()


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few entries a page, so that there are many seams."""
    monkeypatch.setattr(stream, "_PAGE", 3)
    monkeypatch.setattr(stream, "_LIVE_PAGE", 2)
    monkeypatch.setattr(stream, "_AGAIN", 0.005)


async def test_reader_gets_events_from_now_on(book: JournalWriter) -> None:
    book.call()
    hub = Stream(book.store)
    client = await Client.begin(hub)
    start, hello = client.messages
    assert start["status"] == 200
    assert dict(start["headers"])[b"content-type"].startswith(b"text/event-stream")
    assert hello["body"].startswith(b"retry: 2000\nid: ")
    assert hub.readers == 1

    seq = book.call("block", "rm")
    hub.wake()
    called, blocked = await client.has(2)
    assert (called.id, called.type, blocked.id, blocked.type) == (
        f"{seq}.0",
        "tool.called",
        f"{seq}.1",
        "safety.blocked",
    )
    (entry,) = book.store.entries(after=seq - 1)
    assert [called.data, blocked.data] == [json.loads(encode(event)) for event in events_of(entry)]
    await client.left()
    assert hub.readers == 0


async def test_entries_of_other_processes_are_found_without_a_call(book: JournalWriter) -> None:
    client = await Client.begin(Stream(book.store))
    book.call()
    await client.has(2)
    await client.left()


async def test_wake_sends_events_before_the_next_poll(book: JournalWriter) -> None:
    hub = Stream(book.store, poll=3600.0)
    client = await Client.begin(hub)
    for number in range(1, 4):
        book.call()
        hub.wake()
        await client.has(2 * number)
    book.call()
    waker = threading.Thread(target=hub.wake)
    waker.start()
    await client.has(8)
    waker.join()
    await client.left()


@pytest.mark.parametrize(
    ("asked", "types"),
    [
        ({"types": "safety.blocked"}, ["safety.blocked"]),
        ({"types": "safety.*"}, ["safety.allowed", "safety.blocked", "safety.allowed"]),
        ({"types": "tool.completed,safety.blocked"}, ["safety.blocked", "tool.completed"]),
        ({"namespace": "work"}, ["tool.called", "safety.blocked"]),
        ({"namespaces": frozenset({"work", "home"})}, ["tool.called", "safety.blocked", "tool.called", "safety.allowed"]),
        ({"namespaces": frozenset({"work"}), "namespace": "home"}, []),
        ({"namespaces": frozenset({"work", "home"}), "namespace": "home", "types": "safety.*"}, ["safety.allowed"]),
        ({"types": "llm.*"}, ["llm.token"]),
        ({"types": "llm.*", "namespaces": frozenset({"work"})}, []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("late", [False, True])
async def test_reader_gets_only_requested_and_permitted_events(
    book: JournalWriter, asked: dict[str, Any], types: list[str], late: bool
) -> None:
    hub = Stream(book.store)
    first = await Client.begin(hub)
    if late:
        asked["last"] = first.last
    client = None if late else Client(hub, **asked)
    await turns()
    book.call()
    book.call("block", namespace="work")
    book.call(namespace="home")
    book.done()
    hub.publish([LlmToken("no single namespace")])
    await first.has(8)
    client = client or Client(hub, **asked)
    await client.until(lambda: len(client.seen) >= len(types) and len(client.messages) >= 2)
    await turns()
    assert [event.type for event in client.seen] == types
    await leave(client, first)


async def test_readers_with_one_filter_share_one_text(book: JournalWriter) -> None:
    hub = Stream(book.store)
    clients = [Client(hub, types="safety.*") for _ in range(100)]
    other = Client(hub)
    await turns()
    book.call()
    hub.wake()
    for client in (*clients, other):
        await client.has(1)
    assert len({id(client.messages[-1]["body"]) for client in clients}) == 1
    await leave(*clients, other)


async def test_events_close_together_are_sent_together(book: JournalWriter) -> None:
    hub = Stream(book.store, interval=0.05)
    client = await Client.begin(hub)
    book.call()
    hub.wake()
    await client.has(2)
    sent = len(client.messages)
    for _ in range(40):
        book.call()
        hub.wake()
        await turns(1)
    await client.has(82)
    assert len(client.messages) - sent <= 22, "a page of the journal at a time, not an event"
    await client.left()


@pytest.mark.parametrize("id", ["x", "1", "1.", "-1.0", "1.0.0", "1.9999999", f"{2**63}.0", "١.0", "1.0\n", "9" * 30])
def test_malformed_id_is_refused(book: JournalWriter, id: str) -> None:
    with pytest.raises(BadRequest) as error:
        Stream(book.store).check("*", id)
    assert error.value.at == "Last-Event-ID"


@given(st.integers(0, 2**63 - 1), st.integers(0, 10**17), st.booleans())
def test_id_encodes_a_position(seq: int, n: int, published: bool) -> None:
    position = (seq, PUBLISHED + n if published else n % PUBLISHED)
    assert position_of(id_of(position)) == position


class ForgetfulStream(Stream):
    """The mistake that a stream must not make: it takes the ring's beginning for where a page ends."""

    def _read_page(self, after: int, floor: tuple[int, int]) -> Page:
        page = super()._read_page(after, floor)
        return Page(page.items, floor, floor, last=True)


class Repeating(Stream):
    """The other one: it starts again at the entry, not behind the event."""

    def check(self, types: str = "*", last_event_id: str | None = None) -> Any:
        chosen, position = super().check(types, last_event_id)
        return chosen, position and (position[0] - 1, position[1])


Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 12)),
        st.tuples(st.just("publish"), st.integers(1, 3)),
        st.tuples(st.just("turns"), st.integers(1, 12)),
        st.tuples(st.sampled_from(["leave", "come", "cut", "silent", "flood"]), st.just(1)),
    ),
    max_size=40,
)  # fmt: skip


class Journey(NamedTuple):
    """The events that a reader got over several connections, the counts of lost events, and the journal."""

    got: list[str]
    lost: int
    book: JournalWriter

    def of_journal(self, start: str = "") -> list[str]:
        wanted = set(self.book.ids(start))
        return [id for id in self.got if id in wanted]


async def come_and_go(kind: type[Stream], steps: list[Step], *, ring: int = 6) -> Journey:
    """A reader that comes and goes while others write.

    Another reader stays, so that the ring goes on while the first is away, until there is a "silent" step.
    """
    book = JournalWriter()
    hub = kind(book.store, ring=ring, **QUICK)  # type: ignore[arg-type]
    stays: Client | None = Client(hub, types="safety.blocked")
    first = await Client.begin(hub)
    client: Client | None = first
    last, lost = first.last, 0
    got: list[str] = []

    async def leave(part: float = 1.0) -> None:
        """Close the connection; the last part of the sent data may never arrive."""
        nonlocal client, last, lost
        if client is None:
            return
        await client.left()
        there = client.text[: client.text.rfind(b"\n\n", 0, int(len(client.text) * part)) + 2]
        seen, newest = read_frames(there)
        got.extend(event.id for event in seen if event.id)
        lost += client.lost
        last = newest or last
        client = None

    for verb, count in [*steps, ("come", 1)]:
        if verb in ("write", "flood"):
            for _ in range(count if verb == "write" else 3 * ring):
                random.choice([book.call, book.call, book.done, book.renew])()
                hub.wake()
        elif verb == "publish":
            hub.publish([LlmToken("a")] * count)
        elif verb == "turns":
            await turns(count)
        elif verb == "cut":
            await leave(0.6)
        elif verb == "leave":
            await leave()
        elif verb == "silent" and stays is not None:
            await stays.left()
            stays = None
        elif verb == "come" and client is None:
            client = Client(hub, last=last)
    await turns()
    assert client is not None
    present = client
    end = book.call("block")
    hub.wake()
    await present.until(lambda: f"{end}.1" in present.ids())
    await leave()
    if stays is not None:
        await stays.left()
    return Journey(got, lost, book)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 2**32))
def test_returning_reader_gets_every_event_once_and_in_order(steps: list[Step], seed: int) -> None:
    random.seed(seed)

    async def scenario() -> None:
        journey = await come_and_go(Stream, [step for step in steps if step[0] != "flood"], ring=10_000)
        assert journey.of_journal() == journey.book.ids()
        assert journey.got == sorted(set(journey.got), key=position_of)
        assert journey.lost == 0

    run(scenario)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 2**32))
def test_disconnected_reader_misses_no_decision_when_the_buffer_overflows(steps: list[Step], seed: int) -> None:
    """With a buffer of six events a slow connected reader may lose events of others: it gets their number."""
    random.seed(seed)

    async def scenario() -> None:
        journey = await come_and_go(Stream, steps)
        assert journey.of_journal("safety.") == journey.book.ids("safety.")
        assert journey.got == sorted(set(journey.got), key=position_of)
        assert len(journey.book.ids()) - len(journey.of_journal()) <= journey.lost

    run(scenario)


@pytest.mark.parametrize("kind", [ForgetfulStream, Repeating])
async def test_gap_and_repetition_fail_these_checks(kind: type[Stream]) -> None:
    random.seed(1)
    steps = [("write", 4), ("turns", 20), ("leave", 1), ("flood", 1), ("turns", 20), ("come", 1)]
    right, wrong = await come_and_go(Stream, steps), await come_and_go(kind, steps)
    assert right.of_journal() == right.book.ids()
    assert wrong.of_journal() != wrong.book.ids()


async def test_the_rest_of_an_entry_is_sent(book: JournalWriter) -> None:
    hub = Stream(book.store, ring=2, **QUICK)  # type: ignore[arg-type]
    seqs = [book.call() for _ in range(5)]
    for place, seq in enumerate(seqs):
        client = Client(hub, last=f"{seq}.0")
        await client.has(1 + 2 * (4 - place))
        assert client.ids() == book.ids()[2 * place + 1 :]
        await client.left()


async def test_id_from_another_server_of_the_store_is_continued(book: JournalWriter) -> None:
    slow = Stream(book.store, poll=3600.0, interval=0.0)
    first = await Client.begin(slow)
    await turns()
    seq = book.call()  # another server has sent it already; this one has not polled since
    client = Client(slow, last=f"{seq}.0")
    await client.has(1)
    await first.has(2)
    later = book.call()
    slow.wake()
    await client.has(3)
    assert client.ids() == [f"{seq}.1", f"{later}.0", f"{later}.1"]
    await first.has(4)
    await leave(client, first)


async def test_id_from_the_future_starts_now(book: JournalWriter) -> None:
    hub = Stream(book.store)
    book.call()
    client = await Client.begin(hub, last=f"{2**62}.0")
    assert position_of(client.last) < (2**62, 0)
    seq = book.call()
    hub.wake()
    await client.has(2)
    assert client.ids() == [f"{seq}.0", f"{seq}.1"]
    await client.left()


async def test_many_returning_readers_share_one_read_of_the_journal(
    book: JournalWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = book.call()
    for _ in range(9):
        book.call()
    hub = Stream(book.store)
    pages: list[int] = []
    read = hub._read_page

    def noted(after: int, floor: tuple[int, int]) -> Page:
        pages.append(after)
        return read(after, floor)

    monkeypatch.setattr(hub, "_read_page", noted)
    clients = [Client(hub, last=f"{start}.1") for _ in range(200)]
    for client in clients:
        await client.has(18)
        assert client.ids() == book.ids()[2:]
    assert len(pages) == len(set(pages)) <= 5
    await leave(*clients)


async def test_page_of_the_journal_has_a_maximum_size(book: JournalWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_PAGE_SIZE", 1)
    for _ in range(5):
        book.call()
    hub = Stream(book.store)
    client = Client(hub, last="0-0")
    await client.has(10)
    assert client.ids() == book.ids()
    assert [len(page.items) for page in hub._pages.values()] == [2, 2, 2, 2, 2]
    await client.left()


def test_page_of_the_journal_serves_every_reader_it_advances(book: JournalWriter) -> None:
    hub = Stream(book.store)
    hub._ring.begin((9, 0))
    hub._pages[5] = page = Page([], (5, PUBLISHED), (5, PUBLISHED + 3), last=True)
    assert hub._remembered(5, (5, PUBLISHED)) is page
    assert hub._remembered(5, (5, PUBLISHED + 3)) is None
    assert hub._remembered(6, (6, PUBLISHED)) is None


async def test_entries_that_left_the_store_are_still_sent(tmp_path: Path) -> None:
    clock = iter(range(1_700_000_000 * SECOND, 2**62, 1000))
    book = JournalWriter(SqliteStore(tmp_path / "gate.db", clock=lambda: next(clock)))
    first = book.call()
    for _ in range(9):
        book.call()
    there = book.ids()
    rotation = Rotation(book.store, tmp_path, age=1, size=10**12, batch=4, now=lambda: next(clock) + DAY)
    assert rotation.run(2**62) == 4
    assert len(book.ids()) < len(there)
    hub = Stream(book.store, tmp_path)
    client = Client(hub, last=f"{first}.0")
    await client.has(19)
    assert client.ids() == there[1:]

    assert rotation.run(2**62) == 4, "the folder has changed"
    again = Client(hub, last=f"{first}.0")
    await again.has(19)
    assert again.ids() == there[1:]
    await leave(client, again)
    await hub.close()
    book.store.close()


async def test_a_damaged_segment_does_not_end_the_stream(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    book = JournalWriter(SqliteStore(tmp_path / "gate.db"))
    seq = book.call()
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / f"1-{seq + 10**9}.jsonl.gz").write_bytes(b"no gzip")
    hub = Stream(book.store, tmp_path)
    client = Client(hub, last="0-0")
    await client.has(2)
    await client.left()
    await hub.close()
    book.store.close()
    assert "is damaged" in caplog.text


async def test_published_events_follow_entries_committed_before(book: JournalWriter) -> None:
    hub = Stream(book.store)
    client = await Client.begin(hub)
    book.call()
    book.call()
    book.call()
    hub.publish([LlmToken("one", namespace="default"), LlmToken("two")])
    seen = await client.has(8)
    assert [event.type for event in seen] == ["tool.called", "safety.allowed"] * 3 + ["llm.token"] * 2
    assert [event.data.get("delta") for event in seen[6:]] == ["one", "two"]
    seq = book.call()
    hub.wake()
    await client.has(10)
    assert client.ids()[8:] == [f"{seq}.0", f"{seq}.1"]
    assert client.ids() == sorted(client.ids(), key=position_of)
    await client.left()


@pytest.mark.parametrize("stays", [True, False])
async def test_published_events_are_kept_for_returning_readers(book: JournalWriter, stays: bool) -> None:
    hub = Stream(book.store, ring=4, **QUICK)  # type: ignore[arg-type]
    client = await Client.begin(hub)
    other = Client(hub)
    hub.publish([LlmToken("seen")])
    await client.has(1)
    await client.left()
    if not stays:
        await other.left()
    hub.publish([LlmToken("missed")])
    await turns(20)
    for _ in range(6):
        book.call()
        hub.wake()
        await turns()
    hub.publish([LlmToken("missed too")])
    again = Client(hub, last=client.last)
    await again.has(14)
    assert [event.data["delta"] for event in again.seen if event.type == "llm.token"] == ["missed", "missed too"]
    assert again.ids() == sorted(again.ids(), key=position_of)
    await leave(again, other)


async def test_published_events_are_kept_without_journal_entries(book: JournalWriter) -> None:
    hub = Stream(book.store)
    book.call()
    client, other = await Client.begin(hub), Client(hub)
    hub.publish([LlmToken("seen")])
    await client.has(1)
    await client.left()
    hub.publish([LlmToken("missed")])
    await other.has(2)
    await other.left()
    new = Client(hub)
    again = Client(hub, last=client.last)
    assert [event.data["delta"] for event in await again.has(1)] == ["missed"]
    assert new.seen == []
    await leave(again, new)


async def test_published_events_after_a_restart_follow_earlier_ones(book: JournalWriter) -> None:
    book.call()
    before, after = Stream(book.store), Stream(book.store)
    client = await Client.begin(before)
    before.publish([LlmToken("one")])
    await client.has(1)
    await client.left()
    after.publish([LlmToken("two")])
    again = Client(after, last=client.last)
    assert [event.data["delta"] for event in await again.has(1)] == ["two"]
    await again.left()


async def test_number_of_kept_published_events_is_bounded(book: JournalWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_KEPT", 10)
    monkeypatch.setattr(stream, "_KEPT_SIZE", 3000)
    hub = Stream(book.store)
    book.call()
    hub.publish([LlmToken(str(number)) for number in range(50)])
    assert len(hub._pending) == 10
    client = Client(hub, last="0-0")
    await client.has(13)
    assert client.seen[0] == StreamEvent("", "stream.dropped", {"count": 40})
    assert [event.data["delta"] for event in client.seen[3:]] == [str(number) for number in range(40, 50)]
    hub.publish([LlmToken("x" * 1000) for _ in range(10)])
    await client.has(23)
    assert len(hub._kept) < 4
    assert hub._kept_size == sum(len(item.frame) for item in hub._kept) <= 3000
    await client.left()
    hub.publish([LlmToken("x" * 1000) for _ in range(10)])
    assert len(hub._pending) < 4


class Silent(Stream):
    """The mistake that a stream must not make: it forgets events without a trace."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lost.count = lambda filter, after, upto: (0, True)  # type: ignore[method-assign]


async def away(kind: type[Stream], book: JournalWriter, missed: int, *, stays: bool, cut_off: bool) -> Client:
    """Disconnect a reader, or cut it off, while ``count`` events of each of two types are published."""
    hub = kind(book.store, ring=6, stall=0.05, **QUICK)  # type: ignore[arg-type]
    other = Client(hub, types="safety.*")
    client = await Client.begin(hub, types="llm.*")
    hub.publish([LlmToken("seen")])
    await client.has(1)
    if cut_off:
        client.open.clear()
        hub.publish([LlmToken("stuck")])
        await client.task
        assert hub.stalled == 1
    else:
        await client.left()
    if not stays:
        await other.left()
    for number in range(missed):
        hub.publish([LlmToken(str(number)), TaskStopped("T", "enough")])
        if number % 7 == 0:
            book.call()
            hub.wake()
        await turns(2)
    again = Client(hub, types="llm.*", last=client.last)
    hub.publish([LlmToken("last")])
    await again.until(lambda: bool(again.seen) and again.seen[-1].data.get("delta") == "last")
    await leave(again, other)
    return again


@pytest.mark.parametrize("cut_off", [True, False])
@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("missed", [3, 40, 200])
async def test_returning_reader_learns_how_many_published_events_were_dropped(
    book: JournalWriter, monkeypatch: pytest.MonkeyPatch, missed: int, *, stays: bool, cut_off: bool
) -> None:
    monkeypatch.setattr(stream, "_KEPT", 10)
    again = await away(Stream, book, missed, stays=stays, cut_off=cut_off)
    got = [event.data["delta"] for event in again.seen if event.type == "llm.token"]
    assert again.lost + len(got) == missed + 1 + cut_off
    assert bool(again.lost) == (missed > 10)
    expected = ["stuck"] * cut_off + [str(number) for number in range(missed)] + ["last"]
    assert got == expected[-len(got) :]


async def test_silently_dropped_event_is_detected(book: JournalWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_KEPT", 10)
    again = await away(Silent, book, 40, stays=False, cut_off=False)
    assert again.lost + len(again.ids()) < 41


async def test_live_reader_learns_how_many_events_were_dropped_before_sending(
    book: JournalWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "RING", 10)
    hub = Stream(book.store)
    client, other = await Client.begin(hub, types="llm.*"), Client(hub, types="task.*")
    hub.publish([LlmToken(str(number)) for number in range(50)])
    await client.until(lambda: len(client.ids()) + client.lost >= 50)
    assert client.lost == 40
    assert [event.data["delta"] for event in client.seen if event.id] == [str(number) for number in range(40, 50)]
    assert other.seen == []
    await leave(client, other)


LOSSES = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["a", "b"]), st.sampled_from([None, "n", "m"])), max_size=60
)


@given(LOSSES, st.integers(1, 8), st.randoms(use_true_random=False))
def test_lost_events_are_counted_after_any_position(
    losses: list[tuple[int, str, str | None]], most: int, chance: random.Random
) -> None:
    lost, seq = Lost(most), 0
    all_of_them: list[tuple[tuple[int, int], str, str | None]] = []
    for place, (step, type, namespace) in enumerate(losses):
        seq += step - 1
        all_of_them.append(((seq, PUBLISHED + place), type, namespace))
        lost.add(Published(type, namespace, b""), (seq, PUBLISHED + place))
    after = (chance.randint(0, seq + 1), chance.choice([0, PUBLISHED + chance.randint(0, len(losses))]))
    upto = (chance.randint(after[0], seq + 1), PUBLISHED + chance.randint(0, len(losses)))
    for filter in (
        Filter(),
        Filter(frozenset("a")),
        Filter(None, frozenset("n")),
        Filter(frozenset("b"), frozenset("m")),
    ):
        passing = [position for position, type, namespace in all_of_them if filter.takes(type, namespace)]
        expected = sum(after < position <= upto for position in passing)
        count, complete = lost.count(filter, after, upto)
        assert count == expected if complete else count <= expected
        assert complete or len(losses) > most, "of the newest every one is remembered"
    assert len(lost._seqs) == len(lost._places) == len(lost._kinds) <= 2 * most
    assert len(lost._sorts) == len(set(lost._sorts)) <= 6


async def test_threads_may_publish(book: JournalWriter) -> None:
    hub = Stream(book.store, poll=3600.0)
    client = await Client.begin(hub)

    def speak(me: int) -> None:
        for number in range(100):
            hub.publish([LlmToken(f"{me}.{number}")])

    threads = [threading.Thread(target=speak, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    seen = await client.has(400)
    for thread in threads:
        thread.join()
    for me in range(4):
        mine = [event.data["delta"] for event in seen if event.data["delta"].startswith(f"{me}.")]
        assert mine == [f"{me}.{n}" for n in range(100)]
    await client.left()


async def test_published_event_is_a_copy_of_its_moment(book: JournalWriter) -> None:
    hub = Stream(book.store)
    client = await Client.begin(hub)
    args = {"a": 1}
    hub.publish([ToolCalled("t", args)])
    args["a"] = 2
    assert (await client.has(1))[0].data["args"] == {"a": 1}
    await client.left()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 4), st.booleans()), min_size=1, max_size=8),
    st.integers(2, 12),
)
def test_slow_reader_loses_events_of_others_first_and_learns_how_many(
    bursts: list[tuple[int, int, bool]], size: int
) -> None:
    """In each burst calls and published events come while the reader reads nothing, or as far as it may."""

    async def scenario() -> None:
        book = JournalWriter()
        hub = Stream(book.store, ring=size, **QUICK)  # type: ignore[arg-type]
        client = await Client.begin(hub)
        published = 0
        for calls, tokens, blocked in bursts:
            if blocked:
                client.open.clear()
            for number in range(calls):
                random.choice([book.call, book.done])()
                if number < tokens:
                    hub.publish([LlmToken("a")])
                    published += 1
                hub.wake()
                await turns(2)
            client.open.set()
            await turns(2)
        end = book.call("block")
        hub.wake()
        await client.until(lambda: f"{end}.1" in client.ids())
        await eventually(lambda: all(reader.bell is not None for reader in hub._readers))
        assert client.ids("safety.") == book.ids("safety.")
        others = len(book.ids()) - len(book.ids("safety.")) + published
        assert len(client.ids()) - len(client.ids("safety.")) + client.lost == others
        assert client.lost == hub.dropped
        assert client.ids() == sorted(set(client.ids()), key=position_of)
        assert all(event.id == "" for event in client.seen if event.type == "stream.dropped")
        await client.left()

    random.seed(len(bursts))
    run(scenario)


async def test_events_lost_while_the_journal_is_read_are_counted_too(
    book: JournalWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_PAGE", 100)
    hub = Stream(book.store, ring=4, **QUICK)  # type: ignore[arg-type]
    client, other = Client(hub), Client(hub, types="safety.*")
    await client.until(lambda: len(client.messages) == 2)
    await eventually(lambda: all(reader.joined for reader in hub._readers))
    reading, go_on = threading.Event(), threading.Event()
    read = hub._read_page

    def slowly(after: int, floor: tuple[int, int]) -> Page:
        reading.set()
        go_on.wait(PATIENCE)
        return read(after, floor)

    async def write(count: int) -> None:
        for _ in range(count):
            seq = book.call()
            hub.wake()
            await other.until(lambda: f"{seq}.1" in other.ids())  # noqa: B023

    monkeypatch.setattr(hub, "_read_page", slowly)
    client.open.clear()
    await write(5)
    client.open.set()
    await eventually(reading.is_set)
    await write(5)
    go_on.set()
    await client.until(lambda: client.ids("safety.") == book.ids("safety."))
    await eventually(lambda: all(reader.bell is not None for reader in hub._readers))
    assert len(client.ids("tool.")) + client.lost == 10
    await leave(client, other)


async def test_waiting_reader_loses_nothing_when_the_buffer_overflows(
    book: JournalWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Stream(book.store, ring=4, **QUICK)  # type: ignore[arg-type]
    monkeypatch.setattr(hub, "_page", None)  # the journal need not be read for it
    client = await Client.begin(hub, types="safety.blocked")
    other = Client(hub)
    later = other
    for number in range(30):
        book.call()
        hub.wake()
        await turns()
        if number == 15:
            later = Client(hub)
    seq = book.call("block")
    hub.wake()
    await client.has(1)
    assert client.ids() == [f"{seq}.1"]
    await later.has(2 * 14)
    assert (client.lost, later.lost, other.lost, hub.dropped) == (0, 0, 0, 0)
    await leave(client, other, later)


async def test_readers_do_not_wait_for_one_another(book: JournalWriter) -> None:
    hub = Stream(book.store, **QUICK)  # type: ignore[arg-type]
    stuck, fine = Client(hub), Client(hub)
    await stuck.until(lambda: len(stuck.messages) == 2)
    stuck.open.clear()
    for number in range(1, 20):
        book.call()
        hub.wake()
        await fine.has(2 * number)
    assert len(stuck.seen) == 0
    await leave(stuck, fine)


@pytest.mark.parametrize("asked", [{}, {"abort": lambda: None}])
async def test_reader_that_does_not_read_is_disconnected(book: JournalWriter, asked: dict[str, Any]) -> None:
    """Also if aborting has no effect."""
    hub = Stream(book.store, stall=0.05)
    stuck = await Client.begin(hub, **asked)
    fine = Client(hub)
    stuck.open.clear()
    book.call()
    hub.wake()
    await fine.has(2)
    await stuck.task
    assert stuck.aborted == (not asked)
    assert (hub.stalled, hub.readers) == (1, 1)
    await fine.left()


async def test_a_cancelled_connection_is_cancelled(book: JournalWriter) -> None:
    hub = Stream(book.store)
    client = await Client.begin(hub)
    client.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client.task
    assert hub.readers == 0


async def test_idle_reader_gets_a_comment_with_the_current_id(book: JournalWriter) -> None:
    hub = Stream(book.store, beat=0.02)
    client = await Client.begin(hub, types="safety.blocked")
    seq = book.call()
    await client.until(lambda: client.last.startswith(f"{seq}-"))
    assert b"\n\n:\nid: " in client.text
    assert client.seen == []
    await client.left()
    blocked = book.call("block")
    again = Client(hub, types="safety.blocked", last=client.last)
    await again.has(1)
    assert again.ids() == [f"{blocked}.1"]
    await again.left()


async def test_closing_ends_every_stream_cleanly(book: JournalWriter) -> None:
    hub = Stream(book.store)
    clients = [Client(hub) for _ in range(5)]
    await clients[-1].until(lambda: len(clients[-1].messages) == 2)
    await hub.close()
    for client in clients:
        await client.task
        assert client.messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
        assert client.messages[-2]["body"] == b"retry: 100\nid: %b\n\n" % client.last.encode(), "it is sent on"
    late = Client(hub)
    await late.task
    assert late.messages[0]["status"] == 503
    assert json.loads(late.text) == {"error": "the server is stopping"}
    await hub.close()


async def test_closing_does_not_wait_for_a_reader_that_does_not_read(
    book: JournalWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_FAREWELL", 0.05)
    hub = Stream(book.store)
    stuck = [Client(hub), Client(hub, abort=lambda: None)]
    await stuck[-1].until(lambda: len(stuck[-1].messages) == 2)
    for client in stuck:
        client.open.clear()
    await hub.close()
    assert hub.readers == 0
    await asyncio.gather(*(client.task for client in stuck))


async def test_nothing_is_left_when_the_last_reader_has_gone(book: JournalWriter) -> None:
    hub = Stream(book.store)
    for round_ in range(3):
        clients = [Client(hub, namespace=str(number)) for number in range(20)]
        everything = await Client.begin(hub)
        book.call(namespace="3")
        hub.wake()
        await everything.has(2)
        await leave(*clients, everything)
        assert (hub._groups, hub._members, hub._readers, hub._fresh) == ({}, {}, {}, set()), round_
        await turns()
        assert len(asyncio.all_tasks()) == 1
        assert len(hub._ring) == 0


async def test_a_reader_that_left_before_anything_came_is_forgotten(book: JournalWriter) -> None:
    hub = Stream(book.store)
    stays = Client(hub, types="safety.blocked")
    for _ in range(50):
        client = await Client.begin(hub, types="safety.blocked")
        await client.left()
    assert [len(members) for members in hub._members.values()] == [1]
    await stays.left()


class Failing(MemoryStore):
    """A store that cannot be read while ``away``."""

    away = False

    def entries(self, **asked: Any) -> list[Entry]:
        if self.away:
            raise StoreUnavailable("disk on fire")
        return super().entries(**asked)


async def test_unreachable_store_is_followed_again_once_it_returns(caplog: pytest.LogCaptureFixture) -> None:
    store = Failing()
    book = JournalWriter(store)
    seq = book.call()
    hub = Stream(store, **QUICK)  # type: ignore[arg-type]
    client = await Client.begin(hub)
    store.away = True
    book.call()
    hub.wake()
    await eventually(lambda: "cannot follow the journal" in caplog.text)
    back = Client(hub, last=f"{seq}.0")
    await eventually(lambda: "could not read the journal" in caplog.text)
    store.away = False
    await client.has(2)
    await back.has(3)
    assert back.ids() == book.ids()[1:]
    assert caplog.text.count("cannot follow the journal") == 1, "said once"
    await leave(client, back)
    store.away = True
    refused = Client(hub)
    await refused.task
    assert refused.messages[0]["status"] == 503
    assert json.loads(refused.text) == {"error": "disk on fire", "at": "store"}
    assert hub.readers == 0


async def test_error_in_the_shared_task_is_reported_and_survived(
    book: JournalWriter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hub = Stream(book.store, stall=0.05, **QUICK)  # type: ignore[arg-type]
    wake, look_after = hub._wake_readers, hub._look_after
    faults = iter((True, True))

    async def broken(*args: Any) -> None:
        if next(faults, False):
            raise ZeroDivisionError
        await (look_after(*args) if args else wake())

    monkeypatch.setattr(hub, "_wake_readers", broken)
    client = await Client.begin(hub)
    book.call()
    await client.has(2)
    monkeypatch.setattr(hub, "_wake_readers", wake)  # the next fault is for the other
    faults = iter((True,))
    monkeypatch.setattr(hub, "_look_after", broken)
    client.open.clear()
    book.call()
    await client.task
    assert hub.stalled == 1
    assert "cannot follow the journal" in caplog.text
    assert "could not look after its readers" in caplog.text


def item(seq: int, n: int = 0, type: str = "tool.called", size: int = 10) -> Item:
    return Item((seq, n), type, "default", b"x" * size, type.startswith("safety."))


@given(st.lists(st.lists(st.integers(1, 400), max_size=9), max_size=30), st.integers(1, 20))
def test_buffer_holds_the_newest_events_and_its_first_position(batches: list[list[int]], limit: int) -> None:
    ours = ReplayBuffer(limit, 3000)
    everything: list[Item] = []
    gone: list[Item] = []
    for number, sizes in enumerate(batches, 1):
        items = [item(number, n, size=size) for n, size in enumerate(sizes)]
        everything += items
        gone += ours.add(items, (number, PUBLISHED))
        held, end = ours.after(ours.floor)
        assert gone + held == everything
        assert end == ours.tip == (number, PUBLISHED)
        assert len(ours) == len(held) <= limit
        assert sum(len(one.frame) + replay_buffer._OVERHEAD for one in held) <= 3000
        for one in held:
            assert ours.after(one.position)[0] == held[held.index(one) + 1 :]


def chunk_sizes(ours: ReplayBuffer, group: SubscriberGroup) -> list[int]:
    place, sizes = (0, PUBLISHED), []
    while place < ours.tip:
        chunk = group.next(place)
        sizes.append(len(chunk.body))
        place = chunk.position
    return sizes


def test_a_chunk_is_no_longer_than_it_may_be_unless_one_event_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_buffer, "CHUNK", 100)
    ours = ReplayBuffer(1000, 10**6)
    group = SubscriberGroup(Filter(), ours)
    sizes = [30, 30, 30, 30, 300, 10, 10]
    ours.add([item(number, size=size) for number, size in enumerate(sizes, 1)], (9, PUBLISHED))
    assert chunk_sizes(ours, group) == [90, 30, 300, 20]


def test_events_filtered_at_once_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_buffer, "SCAN", 10)
    ours = ReplayBuffer(1000, 10**6)
    group = SubscriberGroup(Filter(frozenset({"safety.blocked"})), ours)
    ours.add([item(number) for number in range(1, 36)] + [item(36, 1, "safety.blocked")], (36, PUBLISHED))
    assert chunk_sizes(ours, group) == [0, 0, 0, 10]


def test_a_group_counts_what_passes_since_it_began() -> None:
    ours = ReplayBuffer(3, 10**6)
    ours.add([item(1), item(2)], (2, PUBLISHED))
    group = SubscriberGroup(Filter(frozenset({"tool.called", "safety.blocked"})), ours)
    for fresh in (
        [item(3), item(4, 0, "llm.token"), item(4, 1, "safety.blocked")],
        [item(5), item(6)],
        [item(7, 0, "llm.token")],
    ):
        gone = ours.add(fresh, (fresh[-1].position[0], PUBLISHED))
        came = group.note(Batch(fresh), Batch(gone))
        assert came == any(one.type != "llm.token" for one in fresh)
    assert (group.added, group.gone, group.gone_safe) == (3, 1, (4, 1))


@pytest.mark.parametrize("event", [LlmToken("a\nb\r\n\n: c\u2028"), ToolCalled("data: x\n\nevent: y", {"\n\n": "\n"})])
def test_no_text_breaks_out_of_its_event(event: CorpusEvent) -> None:
    frame = replay_buffer.Published.of(event).at(7, 9).frame
    assert frame.count(b"\n") == 4
    assert frame.endswith(b"\n\n")
    ((seen,), _) = read_frames(frame)
    assert (seen.id, seen.type) == ("7-9", event.dotted)
