"""The group commit: when each request is answered."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from callosum.gate import LocalGate
from callosum.model import Call, Change, Entry, Event, Scope, View
from callosum.server import writer
from callosum.server.writer import Writer
from callosum.stores.base import Request
from callosum.stores.sqlite import SqliteStore, connection


def note(text: str, *, durable: bool = False) -> Request:
    def step(_: View) -> Change:
        return Change((Entry(Event.LATE, "mira", body={"note": text}),))

    return Scope("default", "mira", durable=durable), step


def notes(store: SqliteStore) -> list[str]:
    return [entry.body["note"] for entry in store.entries(limit=1000)]


def run(store: SqliteStore, scenario: Callable[[Writer], object]) -> None:
    async def main() -> None:
        hands = Writer(store)
        try:
            await scenario(hands)  # type: ignore[misc]
        finally:
            await hands.close()

    asyncio.run(main())


def test_only_a_durable_request_waits_for_the_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "gate.db")
    begun, disk = threading.Event(), threading.Event()

    def slow(_: int) -> None:
        begun.set()
        assert disk.wait(10)

    monkeypatch.setattr(connection, "_fdatasync", slow)

    async def scenario(hands: Writer) -> None:
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

    run(store, scenario)
    store.close()


def test_many_requests_wait_for_the_disk_on_the_loop_while_it_is_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "gate.db")
    threads: list[threading.Thread] = []
    monkeypatch.setattr(connection, "_fdatasync", lambda _: threads.append(threading.current_thread()))

    async def scenario(hands: Writer) -> None:
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

    run(store, scenario)
    store.close()


def test_failed_sync_is_reported_to_the_requests_that_waited_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "gate.db")

    def broken(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(connection, "_fdatasync", broken)

    async def scenario(hands: Writer) -> None:
        with pytest.raises(Exception, match="Input/output error"):
            await hands.submit(note("grave", durable=True))
        await hands.submit(note("light"))

    run(store, scenario)
    store.close()


def test_a_step_that_raises_fails_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "gate.db")

    def broken(_: View) -> Change:
        raise ZeroDivisionError

    async def scenario(hands: Writer) -> None:
        first, wrong, last = (
            hands.submit(note("a")),
            hands.submit((Scope("default", "x"), broken)),
            hands.submit(note("b")),
        )
        await asyncio.gather(first, last)
        with pytest.raises(ZeroDivisionError):
            await wrong

    run(store, scenario)
    assert notes(store) == ["a", "b"]
    store.close()


def test_loop_keeps_running_while_another_process_holds_the_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "gate.db")
    other = sqlite3.connect(tmp_path / "gate.db", isolation_level=None, check_same_thread=False)
    other.execute("begin immediate")
    assert store.attempt([note("refused")]) is None

    async def scenario(hands: Writer) -> None:
        waiting = hands.submit(note("patient"))
        await asyncio.to_thread(lambda: None)
        assert not waiting.done()
        other.execute("rollback")
        await waiting

    run(store, scenario)
    other.close()
    assert notes(store) == ["patient"]
    store.close()


def test_no_transaction_is_longer_than_a_batch(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "gate.db")

    async def scenario(hands: Writer) -> None:
        await asyncio.gather(*(hands.submit(note(str(number))) for number in range(writer.BATCH + 1)))
        assert (hands.committed, hands.requests) == (2, writer.BATCH + 1)

    run(store, scenario)
    store.close()


def test_request_cancelled_before_its_turn_gets_no_decision(tmp_path: Path) -> None:
    with LocalGate(tmp_path) as gate:
        store = gate.store

        async def main() -> None:
            hands = Writer(store)
            effects = gate.operations.intercept(Call("mira", "read", {"path": "/notes.md"}))
            need = effects.send(None)
            gone = hands.submit(need)  # type: ignore[arg-type]
            gone.cancel()
            await hands.submit(note("next"))
            await hands.close()
            effects.close()

        asyncio.run(main())
        assert [entry.event for entry in gate.entries()] == [Event.LATE]


class SlowStore(SqliteStore):
    """Every batch goes to a thread: the file always counts as busy."""

    def attempt(self, requests: Sequence[Request]) -> None:
        return None


@pytest.mark.parametrize("kind", [SqliteStore, SlowStore])
def test_requests_are_answered_although_no_thread_can_be_started(
    kind: type[SqliteStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch or a sync without a thread would never be answered, nor would any after it."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario(hands: Writer) -> None:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        for number in range(3):
            await asyncio.wait_for(hands.submit(note(str(number), durable=True)), 10)

    store = kind(tmp_path / "gate.db")
    run(store, scenario)
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
