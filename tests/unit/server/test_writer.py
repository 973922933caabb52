"""The group commit: when each request is answered."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from callosum.model import Change, Entry, Event, Scope, View
from callosum.server import writer
from callosum.server.responses import RequestRun
from callosum.server.writer import Writer
from callosum.stores.base import Request, Store
from callosum.stores.sqlite import SqliteStore, connection


def note(text: str, *, durable: bool = False) -> Request:
    def step(_: View) -> Change:
        return Change((Entry(Event.LATE, "mira", body={"note": text}),))

    return Scope("default", "mira", durable=durable), step


def notes(store: SqliteStore) -> list[str]:
    return [entry.body["note"] for entry in store.entries(limit=1000)]


@pytest.fixture
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SqliteStore]:
    with closing(getattr(request, "param", SqliteStore)(tmp_path / "gate.db")) as store:
        yield store


@asynccontextmanager
async def writing(store: Store) -> AsyncIterator[Writer]:
    hands = Writer(store)
    try:
        yield hands
    finally:
        await hands.close()


async def test_only_a_durable_request_waits_for_the_sync(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, disk = threading.Event(), threading.Event()

    def slow(_: int) -> None:
        begun.set()
        assert disk.wait(10)

    monkeypatch.setattr(connection, "_fdatasync", slow)

    async with writing(store) as hands:
        grave, light = hands.submit(note("grave", durable=True)), hands.submit(note("light"))
        await light
        assert await asyncio.to_thread(begun.wait, 10)
        assert not grave.done()
        assert notes(store) == ["grave", "light"]  # committed, in one transaction
        assert hands.committed == 1
        later = hands.submit(note("later"))  # decided while the disk works
        await later
        assert not grave.done()
        disk.set()
        await grave


async def test_many_requests_wait_for_the_disk_on_the_loop_while_it_is_quick(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    monkeypatch.setattr(connection, "_fdatasync", lambda _: threads.append(threading.current_thread()))

    async with writing(store) as hands:

        async def two() -> bool:
            """Decide two requests at once; return True if the loop itself synced them."""
            await asyncio.gather(*(hands.submit(note(text, durable=True)) for text in "ab"))
            return threads[-1] is threading.current_thread()

        monkeypatch.setattr(writer, "QUICK", 60.0)
        monkeypatch.setattr(writer, "QUICK_BESIDE", 60.0)
        assert [await two() for _ in range(writer.STEADY)] == [False] * writer.STEADY
        assert await two()
        monkeypatch.setattr(writer, "QUICK", 0.0)  # from here on every sync counts as slow
        assert await two()
        assert not await two()


async def test_failed_sync_is_reported_to_the_requests_that_waited_for_it(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(connection, "_fdatasync", broken)

    async with writing(store) as hands:
        with pytest.raises(Exception, match="Input/output error"):
            await hands.submit(note("grave", durable=True))
        await hands.submit(note("light"))


async def test_loop_keeps_running_while_another_process_holds_the_file(store: SqliteStore, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "gate.db", isolation_level=None, check_same_thread=False)
    other.execute("begin immediate")
    assert store.attempt([note("refused")]) is None

    async with writing(store) as hands:
        waiting = hands.submit(note("patient"))
        await asyncio.to_thread(lambda: None)
        assert not waiting.done()
        other.execute("rollback")
        await waiting
    other.close()
    assert notes(store) == ["patient"]


async def test_no_transaction_is_longer_than_a_batch(store: SqliteStore) -> None:
    async with writing(store) as hands:
        await asyncio.gather(*(hands.submit(note(str(number))) for number in range(writer.BATCH + 1)))
        assert (hands.committed, hands.requests) == (2, writer.BATCH + 1)


class SlowStore(SqliteStore):
    """Every batch goes to a thread: the file always counts as busy."""

    def attempt(self, requests: Sequence[Request]) -> None:
        return None


@pytest.mark.parametrize("store", [SqliteStore, SlowStore], indirect=True)
async def test_requests_are_answered_although_no_thread_can_be_started(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch or a sync without a thread would never be answered, nor would any after it."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with writing(store) as hands:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        for number in range(3):
            await asyncio.wait_for(hands.submit(note(str(number), durable=True)), 10)
    assert notes(store) == ["0", "1", "2"]


async def test_writer_without_threads_is_refused_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second cannot be started: the first is not left waiting for it."""
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def once(self: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", once)
    with pytest.raises(RuntimeError, match="start new thread"):
        Writer(SqliteStore(tmp_path / "gate.db"))
    started[0].join(10)
    assert not started[0].is_alive()


async def test_a_step_that_raises_fails_alone_and_the_others_of_its_batch_go_on(store: SqliteStore) -> None:
    loop, runs, ended, faults = asyncio.get_running_loop(), set[Any](), list[str](), list[Any]()
    loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))

    def broken(_: View) -> Change:
        raise ZeroDivisionError

    async def run(hands: Writer, text: str) -> None:
        await hands.submit(note(text) if text != "1" else (Scope("default", "x"), broken))
        assert hands.committed == 1
        await hands.submit(note(f"{text} again"))  # from within the batch
        ended.append(text)

    async with writing(store) as hands:
        for number in range(3):
            RequestRun(run(hands, str(number)), loop, runs)
        assert len(runs) == 3
    assert (ended, [type(fault) for fault in faults], runs) == (["0", "2"], [ZeroDivisionError], set())
    assert notes(store) == ["0", "2", "0 again", "2 again"]


@pytest.mark.parametrize("at", ["transaction", "sleep", "next round", "answered"])
async def test_cancelled_request_ends_wherever_it_waits(store: SqliteStore, at: str) -> None:
    loop, runs, ended = asyncio.get_running_loop(), set[Any](), asyncio.Event()
    answered: asyncio.Future[None] = loop.create_future()

    async def run(hands: Writer) -> None:
        waits: dict[str, Callable[[], Awaitable[object]]] = {
            "transaction": lambda: hands.submit(note("gone")),
            "sleep": lambda: asyncio.sleep(60),
            "next round": lambda: asyncio.sleep(0),
            "answered": lambda: answered,
        }
        try:
            await waits[at]()
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # what it does at its end
            ended.set()
            raise

    async with writing(store) as hands:
        request = RequestRun(run(hands), loop, runs)
        if at == "answered":
            answered.set_result(None)  # it has not gone on yet
        request.cancel("the server stops")
        await asyncio.wait_for(ended.wait(), 10)
        await hands.submit(note("next"))
    assert (runs, notes(store)) == (set(), ["next"])
