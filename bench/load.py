"""Load for a server: many connections in one process of its own, lean enough not to be the limit.

Requests are put together from ready-made bytes; of an answer only its length, its verdict and its id are looked
at. The same process drives all servers of a comparison, one after the other::

    with Load() as load:
        load.connect("gate", address, 64)
        found = load.run("gate", Plan("decide", seconds=2))   # Found: rate, p50, p99, ...
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import uvloop

from bench.harness import percentile
from bench.texts import message

KEYS = 100_000
CONTENDED = 20
"""One call in so many goes for a key that another session has just gone for."""
SAMPLES = 200
"""How many answers are kept, for the peer that only repeats them."""
_STEP = 7919
"""A prime, so that the keys come in an order that no cache foresees."""

What = Literal["decide", "complete", "pairs", "mixed"]


@dataclass(frozen=True)
class Plan:
    """One block of load: for so many seconds, or so many requests.

    ``decide``: decisions alone, ``complete``: all that ``decide`` left open, ``pairs``: both in turn, ``mixed``:
    in turn, of all tiers; the others are of one ``kind``, over so many ``keys``. Every connection asks again as
    soon as it is answered, unless ``rate`` says how many calls a second are made in all. With ``blocked`` one
    call a second, and no other, is stopped: it is for ``HELD``.
    """

    what: What
    seconds: float = 1e9
    requests: int = 1 << 60
    rate: float = 0
    kind: str = "reply"
    keys: int = KEYS
    blocked: bool = False


@dataclass(frozen=True)
class Found:
    """What one block of load found.

    ``p50``, ``p99`` and ``longest``: how long the decisions took (of ``complete``: the reports), in milliseconds;
    at a ``rate``, from the moment when the call was due. ``cpu``: the generator's share of a processor.
    """

    requests: int
    seconds: float
    decisions: int
    conflicts: int
    stopped: int
    p50: float
    p99: float
    longest: float
    cpu: float
    samples: dict[str, list[str]]

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds

    @property
    def decided(self) -> float:
        """Decisions a second."""
        return self.decisions / self.seconds


class Load:
    """A process that makes load."""

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_work, args=(there,), daemon=True)
        self._process.start()
        there.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join(10)

    def connect(self, name: str, address: str, connections: int) -> None:
        """Open connections to a server, for all that is run under this name."""
        self._ask(name, (address, connections))

    def run(self, name: str, plan: Plan) -> Found:
        """Make load. Raises ``RuntimeError`` if an answer is not a 200."""
        found: Found = self._ask(name, plan)
        return found

    def _ask(self, name: str, what: object) -> Any:
        self._pipe.send((name, what))
        said = self._pipe.recv()
        if isinstance(said, Exception):
            raise said
        return said


# --- the calls ----------------------------------------------------------------------------------------

Make = Callable[[int, int], str]
"""The tool and the params of a call as JSON members; the arguments are the number of the key and of the call."""


def _member(tool: str, params: Mapping[str, object]) -> str:
    return f'"tool":{json.dumps(tool)},"params":{json.dumps(params)}'


def _post(key: int, count: int) -> dict[str, object]:
    return {"action": "send", "target": f"team-{key}", "message": message(count)}


MAKES: Mapping[str, Make] = {
    "read": lambda key, count: _member("read", {"path": f"/notes-{key}.md"}),
    "write": lambda key, count: _member(
        "write", {"path": f"/notes-{key}.md", "content": f"# Notes\n\n{message(count)}\n"}
    ),
    "post": lambda key, count: _member("message", _post(key, count)),
    "reply": lambda key, count: _member(
        "message", {"action": "send", "target": "andy", "replyTo": f"msg-{key}", "message": message(count)}
    ),
    "delete": lambda key, count: _member("message", {"action": "delete", "target": "andy", "messageId": f"msg-{key}"}),
    "raised post": lambda key, count: _member("message", {**_post(key, count), "_tier": 3}),
}
"""One kind of call for each tier, 0 to 4; and one that says of itself that it is of tier 3."""
MIX = tuple("read write post read write reply read write post delete read write post reply read write reply".split())
MIX += ("read", "write", "post")
"""Of 20 calls 6 of tier 0, 6 of tier 1, 4 of tier 2, 3 of tier 3 and 1 of tier 4."""
HELD = KEYS
"""The number of the key that somebody is to hold, for ``blocked``."""
_HEAD = "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %%d\r\n\r\n%%b"


class Traffic:
    """The calls to one server: which key is next, and what is open."""

    def __init__(self, host: str) -> None:
        self.open: list[tuple[int, bytes]] = []
        self.mix = itertools.count()
        self._counts = itertools.count()
        self._keys = itertools.count()
        self._last: dict[str, tuple[int, int]] = {}
        self._intercept = (_HEAD % ("/intercept", host)).encode()
        self._complete = (_HEAD % ("/complete", host)).encode()

    def intercept(self, who: int, kind: str, plan: Plan, key: int | None = None) -> bytes:
        """A new call; one in ``CONTENDED`` on the key that another session went for last."""
        count = next(self._counts)
        alone = key is not None or (plan.blocked and kind == "delete")  # what is to be blocked is given
        if not alone and count % CONTENDED == count // CONTENDED % CONTENDED:  # so each kind has its turn
            other, last = self._last.get(kind, (who, 0))
            key = None if other == who else last
        if key is None:
            key = next(self._keys) * _STEP % plan.keys
        self._last[kind] = who, key
        body = f'{{"instance":"session-{who}","callId":"call-{count}",{MAKES[kind](key, count)}}}'.encode()
        return self._intercept % (len(body), body)

    def complete(self, who: int, id: bytes) -> bytes:
        """The good end of a call."""
        body = b'{"instance":"session-%d","id":%b,"result":{"ok":true}}' % (who, id)
        return self._complete % (len(body), body)


# --- the process --------------------------------------------------------------------------------------


class Asker(asyncio.Protocol):
    """One connection: one request at a time."""

    def __init__(self, number: int, traffic: Traffic) -> None:
        self.number = number
        self.traffic = traffic
        self.block: Block | None = None
        self._began = 0
        self._intercepting = False
        self._part = b""
        self._write: Callable[[bytes], object] = bytes

    def connection_made(self, transport: Any) -> None:
        self._write = transport.write

    def connection_lost(self, exc: Exception | None) -> None:
        if self.block is not None:
            self.block.fail(f"the server closed a connection: {exc}")

    def ask(self, request: bytes, *, intercepting: bool, due: int = 0) -> None:
        """Send a request; ``due``: since when its time counts."""
        self._intercepting = intercepting
        self._began = due or time.perf_counter_ns()
        self._write(request)

    def data_received(self, data: bytes) -> None:
        if self._part:
            data = self._part + data
        head = data.find(b"\r\n\r\n") + 4
        at = data.find(b"content-length: ", 0, head) + 16
        if head < 4 or len(data) < head + int(data[at : data.find(b"\r", at)]):
            self._part = data
            return
        self._part = b""
        if self.block is None:
            return
        if data.startswith(b"HTTP/1.1 200"):
            self.block.answered(self, data, head, time.perf_counter_ns() - self._began, asked=self._intercepting)
        else:
            self.block.fail(data[:1000].decode("utf-8", "replace"))


class Block:
    """Load for a while."""

    def __init__(self, askers: list[Asker], plan: Plan) -> None:
        self._askers, self._plan = askers, plan
        self._traffic = askers[0].traffic
        self._taken: list[int] = []
        self._requests = self._decisions = self._conflicts = self._stopped = 0
        self._samples: dict[str, list[str]] = {"intercept": [], "complete": []}
        self._left = plan.requests
        self._ends = self._blocks = 0
        self._busy = 0
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._free: deque[Asker] = deque()
        self._freed = asyncio.Event()

    async def run(self) -> Found:
        """Do it."""
        cpu = time.process_time()
        began = self._blocks = time.perf_counter_ns()
        self._ends = began + int(self._plan.seconds * 1e9)
        for asker in self._askers:
            asker.block = self
        if self._plan.rate:
            await self._offer(began)
        else:
            self._busy = len(self._askers)
            for asker in self._askers:
                self._next(asker)
        await self._over
        for asker in self._askers:
            asker.block = None
        seconds = (time.perf_counter_ns() - began) / 1e9
        taken = [value / 1e6 for value in self._taken] or [0.0]
        return Found(
            requests=self._requests,
            seconds=seconds,
            decisions=self._decisions,
            conflicts=self._conflicts,
            stopped=self._stopped,
            p50=percentile(taken, 0.5),
            p99=percentile(taken, 0.99),
            longest=max(taken),
            cpu=(time.process_time() - cpu) / seconds,
            samples=self._samples,
        )

    def fail(self, error: str) -> None:
        """End it."""
        if not self._over.done():
            self._over.set_exception(RuntimeError(error))

    def answered(self, asker: Asker, data: bytes, head: int, took: int, *, asked: bool) -> None:
        """Count an answer and continue."""
        self._requests += 1
        kept = self._samples["intercept" if asked else "complete"]
        if len(kept) < SAMPLES:
            kept.append(data[head:].decode())
        if not asked:
            if self._plan.what == "complete":
                self._taken.append(took)
            self._next(asker)
            return
        self._taken.append(took)
        self._decisions += 1
        self._conflicts += data.find(b'"conflicts"', head) >= 0
        if data.find(b'"proceed":true', head) < 0:
            self._stopped += 1
            self._next(asker)
            return
        at = data.find(b'"id":', head) + 5
        id = data[at : data.find(b",", at)]
        if self._plan.what == "decide":
            self._traffic.open.append((asker.number, id))
            self._next(asker)
        else:
            asker.ask(self._traffic.complete(asker.number, id), intercepting=False)

    def _next(self, asker: Asker) -> None:
        if self._plan.rate:
            self._free.append(asker)
            self._freed.set()
            self._rest()
            return
        self._left -= 1
        if self._left < 0 or time.perf_counter_ns() >= self._ends:
            self._rest()
        elif self._plan.what != "complete":
            self._call(asker, 0)
        elif self._traffic.open:
            who, id = self._traffic.open.pop()
            asker.ask(self._traffic.complete(who, id), intercepting=False)
        else:
            self._rest()

    def _call(self, asker: Asker, due: int) -> None:
        plan, key = self._plan, None
        kind = MIX[next(self._traffic.mix) % len(MIX)] if plan.what == "mixed" else plan.kind
        if plan.blocked and time.perf_counter_ns() >= self._blocks:
            self._blocks += 1_000_000_000
            kind, key = "delete", HELD
        asker.ask(self._traffic.intercept(asker.number, kind, plan, key), intercepting=True, due=due)

    def _rest(self) -> None:
        self._busy -= 1
        if self._busy <= 0 and not self._over.done():
            self._over.set_result(None)

    async def _offer(self, began: int) -> None:
        """Calls at moments set before, whether or not the earlier ones are answered."""
        self._free.extend(self._askers)
        self._busy = 1
        every = 1e9 / self._plan.rate
        for number in itertools.count():
            due = began + int(number * every)
            if due >= self._ends or self._over.done():
                break
            wait = due - time.perf_counter_ns()
            if wait > 0:
                await asyncio.sleep(wait / 1e9)
            while not self._free:
                self._freed.clear()
                await self._freed.wait()
            self._busy += 1
            self._call(self._free.popleft(), due)
        self._rest()


def _same(asker: Asker) -> Asker:
    return asker


async def _connected(address: str, connections: int) -> list[Asker]:
    loop = asyncio.get_running_loop()
    where = urlsplit(address)
    traffic = Traffic(where.netloc or "localhost")
    askers = [Asker(number, traffic) for number in range(connections)]
    for asker in askers:
        if where.scheme == "unix":
            await loop.create_unix_connection(partial(_same, asker), where.path)
        else:
            await loop.create_connection(partial(_same, asker), where.hostname or "", where.port or 0)
    return askers


def _work(pipe: Connection) -> None:
    """Do what the parent says until it goes."""
    servers: dict[str, list[Asker]] = {}

    async def obey(name: str, what: Plan | tuple[str, int]) -> Found | None:
        if isinstance(what, Plan):
            return await Block(servers[name], what).run()
        servers[name] = await _connected(*what)
        return None

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        while True:
            try:
                name, what = pipe.recv()
            except EOFError:
                return
            try:
                pipe.send(runner.run(obey(name, what)))
            except Exception as error:  # noqa: BLE001 - the parent raises it
                pipe.send(RuntimeError(f"{name}: {error}"))
