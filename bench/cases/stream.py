"""Whether decisions slow down with many readers of the stream, and how a reader that does not read is treated."""

from __future__ import annotations

import multiprocessing
import random
import resource
import selectors
import socket
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

from bench.harness import Report
from bench.load import HELD, MAKES, Found, Load, Plan
from bench.serving import Served, callosum

FEW, MANY = 20, 2000
"""Readers of everything, and of ``safety.blocked`` alone."""
DEAF = 50
CONNECTIONS = 64
RATE = 300.0
"""Calls a second that are offered."""
SECONDS = 3.0
"""How long a block takes: three events of the rare kind."""
GIVE_UP = 90.0
"""How long to wait for the deaf ones to be cut off."""


class Readers:
    """Readers of a server's events in a process of their own. ``count`` says what each has got since it began."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def count(self) -> list[int]:
        """The events of each reader, those of ``safety.blocked`` first."""
        self._pipe.send(None)
        found: list[int] = self._pipe.recv()
        return found


@contextmanager
def reading(address: str) -> Iterator[Readers]:
    """All readers, until the block ends."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_read, args=(address, there), daemon=True)
    process.start()
    there.close()
    try:
        here.recv()
        yield Readers(here)
    finally:
        here.close()
        process.join(10)


def open_stream(address: str, types: str, *, room: int = 0) -> socket.socket:
    """A connection that has asked for events; ``room``: how much the kernel keeps of what is not read."""
    where = urlsplit(address)
    opened = socket.socket()
    if room:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    opened.connect((where.hostname, where.port))
    opened.sendall(f"GET /events?types={types} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
    return opened


def _read(address: str, pipe: Connection) -> None:
    enough_files()
    counts = [0] * (MANY + FEW)
    waiting = selectors.DefaultSelector()
    waiting.register(pipe, selectors.EVENT_READ, -1)
    for number in range(MANY + FEW):
        reader = open_stream(address, "safety.blocked" if number < MANY else "*")
        reader.recv(4096)  # it is in from here on
        reader.setblocking(False)
        waiting.register(reader, selectors.EVENT_READ, number)
    pipe.send(None)
    while True:
        for key, _ in waiting.select():
            if key.data < 0:
                try:
                    pipe.recv()
                except EOFError:
                    return
                pipe.send(counts)
                continue
            data = key.fileobj.recv(1 << 18)  # type: ignore[union-attr]
            counts[key.data] += data.count(b"\nevent: ")
            if not data:
                waiting.unregister(key.fileobj)


def enough_files() -> bool:
    """Let this process, and those it starts, have as many connections as are needed; whether that can be."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = MANY + FEW + 500
    if most != resource.RLIM_INFINITY and most < need:
        return False
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < need:
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, most))
    return True


def hold(served: Served) -> None:
    """Somebody holds the key that the blocked calls are for."""
    body = f'{{"instance":"holder",{MAKES["delete"](HELD, 0)}}}'.encode()
    asked = urllib.request.Request(f"{served.address}/intercept", body)  # noqa: S310 - our own
    with urllib.request.urlopen(asked) as answer:  # noqa: S310
        if b'"proceed":true' not in answer.read():
            raise RuntimeError("somebody else holds it")


def listened(report: Report, folder: Path, rounds: int) -> None:
    """Run the same load on two servers, one of which has readers."""
    with ExitStack() as stack:
        load = stack.enter_context(Load())
        served: dict[str, Served] = {}
        for name in ("alone", "listened"):
            served[name] = stack.enter_context(callosum(folder / name, environ={"CALLOSUM_LEASE_TTL": "3600"}))
            load.connect(name, served[name].address, CONNECTIONS)
            load.run(name, Plan("mixed", requests=4000))
            hold(served[name])
        readers = stack.enter_context(reading(served["listened"].address))
        plans = {
            "offered": Plan("mixed", seconds=SECONDS, rate=RATE, blocked=True),
            "full": Plan("mixed", seconds=SECONDS, blocked=True),
        }
        found = rounds_of(load, served, plans, rounds)
        time.sleep(1)  # until the last event has been read
        counts = readers.count()

    def median(name: str, kind: str, pick: Pick) -> float:
        return statistics.median(pick(block) for block in found[name, kind])

    def ratio(kind: str, pick: Pick) -> float:
        pairs = zip(found["listened", kind], found["alone", kind], strict=True)
        return statistics.median(pick(one) / pick(other) for one, other in pairs)

    blocked, every = counts[:MANY], counts[MANY:]
    stopped = sum(block.found.stopped for kind in plans for block in found["listened", kind])
    report.add(f"readers of safety.blocked: events each, of {stopped}", min(blocked), "", note=f"most {max(blocked)}")
    report.add("readers of everything: events each", min(every), "", note=f"most {max(every)}")
    for name in served:
        for kind, what in (("offered", f"{RATE:.0f} calls a second"), ("full", f"{CONNECTIONS} connections")):
            note = f"processor: server {median(name, kind, Timed.share):.0%}"
            report.add(f"{name}, {what}: p50", median(name, kind, Timed.p50), "ms", note=note)
            report.add(f"{name}, {what}: p99", median(name, kind, Timed.p99), "ms")
            report.add(f"{name}, {what}: decisions", median(name, kind, Timed.decided), "/s")
    what = f"{MANY:,} and {FEW} readers / none"
    report.add(f"{what}, {RATE:.0f} calls a second: p50", ratio("offered", Timed.p50), at_most=1.10)
    report.add(f"{what}, {RATE:.0f} calls a second: p99", ratio("offered", Timed.p99))
    report.add(f"{what}, {RATE:.0f} calls a second: decisions", ratio("offered", Timed.decided), at_least=0.90)
    report.add(f"{what}, {CONNECTIONS} connections: decisions", ratio("full", Timed.decided))


@dataclass(frozen=True)
class Timed:
    """A block, and the processor time that the server took for it."""

    found: Found
    cpu: float

    def p50(self) -> float:
        return self.found.p50

    def p99(self) -> float:
        return self.found.p99

    def decided(self) -> float:
        return self.found.decided

    def share(self) -> float:
        return self.cpu / self.found.seconds


Pick = Callable[[Timed], float]


def rounds_of(
    load: Load, served: Mapping[str, Served], plans: Mapping[str, Plan], rounds: int
) -> Mapping[tuple[str, str], list[Timed]]:
    """Blocks for each server and each plan, shuffled anew in each round."""
    chance = random.Random(1)
    found: dict[tuple[str, str], list[Timed]] = {(name, kind): [] for name in served for kind in plans}
    for _ in range(rounds):
        for name, kind in chance.sample(list(found), len(found)):
            before = served[name].cpu()
            block = load.run(name, plans[kind])
            found[name, kind].append(Timed(block, served[name].cpu() - before))
    return found


def readers_of(served: Served) -> int:
    """How many readers the server says it has."""
    with urllib.request.urlopen(f"{served.address}/metrics") as answer:  # noqa: S310 - our own
        text: str = answer.read().decode()
    line = next(line for line in text.splitlines() if line.startswith("callosum_event_readers "))
    return int(float(line.split()[1]))


@contextmanager
def drained(address: str) -> Iterator[None]:
    """Measure one reader that reads everything."""
    reader = open_stream(address, "*")

    def read() -> None:
        with suppress(OSError):
            while reader.recv(1 << 18):
                pass

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        reader.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        reader.close()


def deaf(report: Report, folder: Path) -> None:
    """Measure readers that do not read beside one that does; and the same load with only the latter."""
    with ExitStack() as stack:
        load = stack.enter_context(Load())
        served: dict[str, Served] = {}
        for name in ("without", "deaf"):
            served[name] = stack.enter_context(callosum(folder / name))
            stack.enter_context(drained(served[name].address))
            load.connect(name, served[name].address, CONNECTIONS)
            load.run(name, Plan("mixed", requests=30_000))
        before = {name: one.memory()[0] for name, one in served.items()}
        for _ in range(DEAF):
            stack.enter_context(open_stream(served["deaf"].address, "*", room=16_384)).recv(64)
        requests, most, began = 0, 0.0, time.monotonic()
        while (left := readers_of(served["deaf"]) - 1) and time.monotonic() - began < GIVE_UP:
            requests += load.run("deaf", Plan("mixed", seconds=1)).requests
            most = max(most, served["deaf"].memory()[0])
        took = time.monotonic() - began
        load.run("without", Plan("mixed", requests=max(requests, 1)))
        after = {name: one.memory()[0] for name, one in served.items()}
    own = after["without"] - before["without"]
    note = f"after {took:.0f} s and {requests:,} requests"
    report.add(f"{DEAF} readers that do not read: still there", left, "", at_most=0, note=note)
    note = f"without them {own:.1f} MB more"
    report.add("the server's USS meanwhile, more than without them", most - before["deaf"] - own, "MB", note=note)
    more = after["deaf"] - before["deaf"] - own
    report.add("the server's USS afterwards, more than without them", more, "MB", at_most=10)


def run(folder: Path, rounds: int) -> Report:
    """Measure the readers that read, then those that do not."""
    report = Report("stream")
    if enough_files():
        listened(report, folder, rounds)
    else:
        report.missing.append(f"{MANY + FEW} readers: a process may not have that many files open here (ulimit -n)")
    deaf(report, folder)
    return report
