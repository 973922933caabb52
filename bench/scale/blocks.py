"""Blocks of load on a real server or on gates of this process, and the processor time of each process."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, TypeVar

import psutil

from bench import calls
from bench.harness import percentile
from bench.load import Found, Load, Plan
from bench.serving import Served
from callosum import Call, LocalGate
from callosum.settings import Settings
from callosum.stores.opening import open_store

T = TypeVar("T")
CALM: Final = 0.25
"""So many processors of others are as good as none."""
_GLANCE: Final = 0.3

Cpu = Callable[[], float]
"""The processor time of a store's own processes so far, in seconds."""
START: Final = 0.3
"""How long workers may take to begin together, in seconds."""


def spent(process: psutil.Process) -> float:
    """The processor time of a process and its children, in seconds."""
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def busy() -> float:
    """The processor time that all of this machine has spent, and what its host took, in seconds."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


class Patience:
    """A limit in seconds for each wait for a moment when no other process uses the processors."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def calmest(self, run: Callable[[], T], others: Callable[[T], float]) -> T:
        """What ``run`` returns, once ``others`` says that it was not disturbed; the calmest one when time is up."""
        until = time.monotonic() + self._seconds
        best: T | None = None
        while True:
            while time.monotonic() < until and _disturbed() > CALM:
                pass
            found = run()
            if best is None or others(found) < others(best):
                best = found
            if others(best) <= CALM or time.monotonic() >= until:
                return best


def _disturbed() -> float:
    """Return how many processors other processes use now."""
    before, began = busy(), time.monotonic()
    time.sleep(_GLANCE)
    return (busy() - before) / (time.monotonic() - began)


@dataclass(frozen=True)
class Block:
    """One block of load. Processor times in seconds; ``others``: how many processors other processes used."""

    found: Found
    server: float
    store: float
    others: float
    batches: float

    @property
    def requests(self) -> int:
        return self.found.requests


class Course:
    """A server under load, with what its store takes beside it."""

    def __init__(self, load: Load, name: str, served: Served, store: Cpu) -> None:
        self._load, self._name, self._served, self._store = load, name, served, store

    def connect(self, connections: int) -> None:
        self._load.connect(f"{self._name}-{connections}", self._served.address, connections)

    def run(self, plan: Plan, connections: int) -> Block:
        before, began = (self._counts(), time.perf_counter())
        found = self._load.run(f"{self._name}-{connections}", plan)
        took = time.perf_counter() - began
        server, store, all_, batches = (a - b for a, b in zip(self._counts(), before, strict=True))
        others = max(0.0, all_ - server - store - found.cpu * found.seconds) / took
        return Block(found, server, store, others, batches)

    def _counts(self) -> tuple[float, float, float, float]:
        return self._served.cpu(), self._store(), busy(), self._batches()

    def _batches(self) -> float:
        with urllib.request.urlopen(f"{self._served.address}/metrics") as answer:  # noqa: S310  the server's own address
            lines = answer.read().decode().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith("callosum_transactions ")))


# --- gates without a server ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """What workers of one process do: calls of one kind on ``keys`` keys, for a while, at a rate or as they can.

    ``own``: each worker stays on keys that no other has.
    """

    url: str
    state: Path
    workers: int
    make: str = "reply"
    keys: int = 1
    own: bool = False
    seconds: float = 2.0
    rate: float = 0.0
    place: int = 0


MAKES: Final[dict[str, calls.Make]] = {
    "post": lambda key: ("message", {"action": "send", "target": f"team-{key}", "message": "On it"}),
    "reply": lambda key: ("message", {"action": "send", "target": "andy", "replyTo": f"m-{key}", "message": "On it"}),
}


def worked(gate: LocalGate, work: Work) -> list[float]:
    """How long the decisions took, in seconds; at a rate, from the moment when each was due."""
    taken: list[float] = []
    began = time.monotonic() + START
    end = began + work.seconds
    due = iter(_due(work.rate, began, end)) if work.rate else None
    lock = threading.Lock()

    def one(number: int) -> None:
        chance = random.Random(f"{work.place}-{number}")
        who, count = f"s{work.place}-{number}", 0
        while True:
            at = time.monotonic()
            if due is not None:
                with lock:
                    at = next(due, end)
            if at >= end:
                return
            if at < began or due is not None:
                time.sleep(max(0.0, (at if due is not None else began) - time.monotonic()))
                at = at if due is not None else time.monotonic()
            key = number if work.own else chance.randrange(work.keys)
            tool, params = MAKES[work.make](key)
            count += 1
            decision = gate.intercept(
                Call(who, tool, {**params, "message": f"On it {who} {count}"}, call_id=f"{count}")
            )
            took = time.monotonic() - at
            if decision.proceed:
                gate.complete(who, id=decision.id)
            taken.append(took)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(work.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


def _due(rate: float, began: float, end: float) -> Iterator[float]:
    chance = random.Random(1)
    at = began
    while (at := at + chance.expovariate(rate)) < end:
        yield at


@contextmanager
def gate_on(url: str, state: Path) -> Iterator[LocalGate]:
    """A gate of this process over a store."""
    state.mkdir(parents=True, exist_ok=True)
    settings = Settings(state=state, store=url, journal_size=1 << 50)
    with LocalGate(settings=settings, store=open_store(settings)) as gate:
        yield gate


@dataclass(frozen=True)
class Done:
    """What workers did: calls a second, p50 and p99 of a decision in seconds, how many processors others had.

    What was taken of the processors, in seconds a request (a decision or a report): by the workers' ``own`` processes,
    by those of the ``store``, and by what stands ``between`` them.
    """

    rate: float
    p50: float
    p99: float
    others: float
    own: float
    store: float
    between: float


def _member(pipe: Connection, work: Work) -> None:
    with gate_on(work.url, work.state) as gate:
        worked(gate, replace(work, seconds=0.3, rate=0.0))
        pipe.send(spent(psutil.Process(os.getpid())))
        pipe.recv()
        taken = worked(gate, work)
        pipe.send((taken, spent(psutil.Process(os.getpid()))))
        pipe.recv()  # until then the store's processes for this one live, so their time can be read


def nothing() -> float:
    """Return a processor time of zero."""
    return 0.0


def crowd(works: Sequence[Work], store: Cpu, between: Cpu = nothing) -> Done:
    """Each of these in a process of its own, all at once."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for work in works:
        ours, theirs = context.Pipe()
        process = context.Process(target=_member, args=(theirs, work), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    own = -sum(pipe.recv() for pipe in pipes)
    before, all_, began = (store(), between()), busy(), time.perf_counter()
    for pipe in pipes:
        pipe.send(None)
    taken: list[float] = []
    for pipe in pipes:
        one, cpu = pipe.recv()
        taken += one
        own += cpu
    stored, passed = store() - before[0], between() - before[1]
    others = (busy() - all_ - stored - passed - own) / (time.perf_counter() - began)
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send(None)
        process.join()
    seconds, requests = max(work.seconds for work in works), max(1, 2 * len(taken))
    return Done(
        rate=len(taken) / seconds,
        p50=percentile(taken, 0.5),
        p99=percentile(taken, 0.99),
        others=max(0.0, others),
        own=own / requests,
        store=stored / requests,
        between=passed / requests,
    )
