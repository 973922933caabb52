"""The event stream over real connections, while real gates of other processes write the journal."""

import asyncio
import gc
import json
import multiprocessing
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from callosum.corpus.entry_events import events_of
from callosum.corpus.events import LlmToken
from callosum.gate import DATABASE, LocalGate
from callosum.model import Call
from callosum.server.protocol import Protocol
from callosum.server.replay_buffer import position_of
from callosum.server.stream import Stream
from callosum.settings import Settings
from callosum.stores.sqlite import SqliteStore
from tests.support.world import RULES

PATIENCE = 30.0


def eventually(done: Callable[[], bool], what: str) -> None:
    """Wait for the result of another thread or process."""
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while not done():
        assert time.monotonic() < deadline, what
        pause.wait(0.005)


class Server:
    """A uvicorn server in a thread of its own that serves only the stream."""

    def __init__(self, state: Path, *, loop: Any = "uvloop", **settings: Any) -> None:
        self.store = SqliteStore(state / DATABASE)
        self.stream = Stream(self.store, state, **settings)
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            loop=loop,
            http=Protocol,
            ws="none",
            lifespan="off",
            access_log=False,
            log_level="warning",
        )
        self.server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self._socket]})
        self._loop: asyncio.AbstractEventLoop | None = None

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._loop = asyncio.get_running_loop()
        last = dict(scope["headers"]).get(b"last-event-id", b"").decode() or None
        types, position = self.stream.check(scope["query_string"].decode() or "*", last)
        await self.stream.serve(scope, receive, send, types=types, last_event_id=position)

    def __enter__(self) -> Self:
        self._thread.start()
        eventually(lambda: self.server.started, "the server starts")
        return self

    def close(self) -> None:
        """Close the readers' streams, then the server."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self.stream.close(), self._loop).result(PATIENCE)

    def __exit__(self, *exc: object) -> None:
        if self.server.started:
            self.close()
        self.server.should_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()
        self.store.close()


class Seen(NamedTuple):
    id: str
    type: str
    data: dict[str, Any]


class Reader:
    """A reader of server-sent events over a bare socket."""

    def __init__(self, port: int, types: str = "*", last: str = "", *, small: bool = False) -> None:
        self.socket = socket.socket()
        if small:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", port))
        head = f"GET /events?{types} HTTP/1.1\r\nHost: x\r\n" + (f"Last-Event-ID: {last}\r\n" if last else "")
        self.socket.sendall(f"{head}\r\n".encode())
        self._raw = b""
        self._text = b""
        self.ended = False
        self.last = last
        self.seen: list[Seen] = []
        while b"\r\n\r\n" not in self._raw:
            self._raw += self.socket.recv(65536)
        head_, _, self._raw = self._raw.partition(b"\r\n\r\n")
        assert head_.startswith(b"HTTP/1.1 200"), head_
        self._parse()
        self.until(lambda: bool(self.last))

    def _parse(self) -> None:
        while not self.ended:
            size, line, rest = self._raw.partition(b"\r\n")
            if not line or len(rest) < int(size, 16) + 2:
                break
            length = int(size, 16)
            self.ended = length == 0
            self._text += rest[:length]
            self._raw = rest[length + 2 :]
        *blocks, self._text = self._text.split(b"\n\n")
        for block in blocks:
            fields = dict(line.partition(":")[::2] for line in block.decode().split("\n"))
            self.last = fields.get("id", "").strip() or self.last
            if "data" in fields:
                self.seen.append(
                    Seen(fields.get("id", "").strip(), fields["event"].strip(), json.loads(fields["data"]))
                )

    def more(self) -> bool:
        """Read once; return whether data came."""
        data = self.socket.recv(65536)
        self._raw += data
        self._parse()
        return bool(data)

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < deadline
            assert self.more(), "the server closed the connection"

    def ids(self, start: str = "") -> list[str]:
        return [event.id for event in self.seen if event.id and event.type.startswith(start)]

    def close(self) -> None:
        self.socket.close()


def journal_ids(store: SqliteStore, start: str = "", after: int = 0) -> list[str]:
    return [
        f"{entry.seq}.{n}"
        for entry in store.entries(after=after, limit=10**6)
        for n, event in enumerate(events_of(entry))
        if event.dotted.startswith(start)
    ]


def make_calls(folder: str, me: str, count: int, told: Any) -> None:
    """Run a session in its own process: allowed and blocked calls, until it has made ``count``."""
    state = Path(folder)
    with LocalGate(settings=Settings(state=state, rules=state / "rules.json")) as gate:
        told.send("ready")
        for number in range(count):
            decision = gate.handle(Call(me, "never" if number % 7 == 0 else "act2", {"on": f"{me}-{number}"}))
            if decision.proceed:
                gate.complete(me, id=decision.id, outcome="failed" if number % 5 == 0 else "done")
        end = gate.handle(Call(me, "never", {"on": f"{me}-end"}))
    told.send(end.id)


class Worker:
    def __init__(self, state: Path, me: str, count: int) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._mine, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=make_calls, args=(str(state), me, count, theirs))
        self._process.start()
        theirs.close()
        assert self._mine.recv() == "ready"

    def end(self) -> int:
        """Return the id of its last call, once it has made it."""
        assert self._mine.poll(PATIENCE)
        last: int = self._mine.recv()
        self._process.join(PATIENCE)
        self._mine.close()
        assert self._process.exitcode == 0
        return last

    @property
    def done(self) -> bool:
        return self._mine.poll(0)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "rules.json").write_text(RULES)
    LocalGate(settings=Settings(state=tmp_path, rules=tmp_path / "rules.json")).close()
    return tmp_path


def test_readers_see_what_gates_of_other_processes_decide(state: Path) -> None:
    with Server(state) as server:
        everything, blocked = Reader(server.port), Reader(server.port, "safety.blocked")
        workers = [Worker(state, f"s{me}", 60) for me in range(2)]
        ends = [f"{worker.end()}.1" for worker in workers]
        for reader in (everything, blocked):
            reader.until(lambda reader=reader: set(ends) <= set(reader.ids()))  # type: ignore[misc]
        assert everything.ids() == journal_ids(server.store)
        assert blocked.ids() == journal_ids(server.store, "safety.blocked")
        kinds = {event.type for event in everything.seen}
        assert kinds == {"tool.called", "safety.allowed", "safety.blocked", "tool.completed", "tool.failed"}
        assert {event.data["instance"] for event in everything.seen} == {"s0", "s1"}
        causes = {event.data["cause"] for event in everything.seen if "cause" in event.data}
        assert causes <= set(everything.ids("tool.called"))
        for reader in (everything, blocked):
            reader.close()
        eventually(lambda: server.stream.readers == 0, "the server notices that they have gone")


@pytest.mark.parametrize("ring", [64, 16_384])
def test_reader_that_reconnects_repeatedly_misses_nothing(state: Path, ring: int) -> None:
    """The reader disconnects in the middle of a response, while two processes write; the server does so once too.

    With a small buffer a connected reader may be too slow for all events, but not for the decisions.
    """
    got: list[str] = []
    last = ""
    workers: list[Worker] = []
    with Server(state, ring=ring, interval=0.01) as server:
        stays = Reader(server.port, "safety.blocked")  # so that the buffer overflows
        for turn in range(8):
            reader = Reader(server.port, last=last)
            if not workers:
                workers = [Worker(state, f"s{me}", 150) for me in range(2)]
            count = 25 * turn
            reader.until(lambda: len(reader.ids()) > count or all(worker.done for worker in workers))  # noqa: B023
            got += reader.ids()
            last = reader.last
            reader.close()
        stays.close()
    ends = {f"{worker.end()}.1" for worker in workers}
    with Server(state) as server:
        reader = Reader(server.port, last=last)
        reader.until(lambda: ends <= set(got + reader.ids()))
        got += reader.ids()
        assert got == sorted(set(got), key=position_of), "in order, none twice"
        there = journal_ids(server.store, "" if ring > 1000 else "safety.")
        assert [id for id in there if id not in set(got)] == []
        reader.close()


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_reader_that_stops_reading_is_disconnected_and_takes_no_memory(state: Path, loop: str) -> None:
    with Server(state, loop=loop, interval=0.0, ring=200, size=200_000, stall=0.3) as server:
        reads = Reader(server.port, "llm.token")
        stuck = [Reader(server.port, "llm.token", small=True) for _ in range(10)]
        eventually(lambda: server.stream.readers == 11, "all are there")
        gc.collect()
        tracemalloc.start()
        try:
            sent = taken = 0
            while server.stream.stalled < 10 or sent < 5000:
                server.stream.publish([LlmToken("x" * 2000) for _ in range(20)])  # 40 kB
                sent += 20
                reads.until(lambda: taken + len(reads.ids()) + sum(_lost(reads)) >= sent)  # noqa: B023
                taken += len(reads.ids()) + sum(_lost(reads))
                reads.seen.clear()
                assert sent < 100_000
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 7_000_000, f"{peak} bytes for {2000 * sent} bytes of events to each of ten"
        eventually(lambda: server.stream.readers == 1, "they are gone")
        for reader in stuck:
            with pytest.raises((AssertionError, ConnectionError)):
                reader.until(lambda: False)
            assert not reader.ended, "cut off in the middle"
            reader.close()
        reads.close()


def _lost(reader: Reader) -> list[int]:
    return [event.data["count"] for event in reader.seen if event.type == "stream.dropped"]


def test_many_readers_of_one_stream_are_served(state: Path) -> None:
    with Server(state) as server, LocalGate(settings=Settings(state=state, rules=state / "rules.json")) as gate:
        readers = [Reader(server.port, "safety.blocked") for _ in range(200)]
        ids = [f"{gate.intercept(Call('mira', 'never', {'on': str(number)})).id}.1" for number in range(3)]
        server.stream.wake()
        for reader in readers:
            reader.until(lambda reader=reader: len(reader.ids()) == 3)  # type: ignore[misc]
            assert reader.ids() == ids
            reader.close()
        eventually(lambda: server.stream.readers == 0, "all have gone")
