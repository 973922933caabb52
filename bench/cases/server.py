"""The server beside the bare web stack, a transaction for each decision, and a bare Redis lock.

The load goes round 100,000 keys, and one call in twenty goes for a key that another session has just gone for.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import calls, peers
from bench.harness import Measured, Report
from bench.load import Found, Load, Plan, What
from bench.serving import Served, callosum, started
from callosum import Call
from callosum.client import CallosumClient

VERSIONS = ("uvicorn", "starlette", "msgspec", "uvloop", "httptools")
CONNECTIONS = 64
SECONDS = 1.0
"""How long a block of load takes."""
SLOWER = 2000
"""By how many microseconds a sync is slowed down."""


@dataclass(frozen=True)
class Blocks:
    """What the rounds found for one server and one kind of load, and the processor's share it used each time."""

    found: tuple[Found, ...]
    cpu: tuple[float, ...]

    def rate(self) -> float:
        return statistics.median(one.rate for one in self.found)

    def over(self, other: Blocks) -> float:
        """How many times as many requests a second: the median of the rounds' ratios."""
        return statistics.median(a.rate / b.rate for a, b in zip(self.found, other.found, strict=True))

    def median(self, pick: Callable[[Found], float]) -> float:
        return statistics.median(map(pick, self.found))

    @property
    def note(self) -> str:
        """Whether the server was what limited it."""
        own, load = statistics.median(self.cpu), self.median(lambda one: one.cpu)
        return f"processor: server {own:.0%}, load {load:.0%}"


class Course:
    """Servers under load in turn, in the same rounds."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.servers: dict[str, Served] = {}

    def enter(self, name: str, served: Served) -> None:
        self.servers[name] = served
        self.load.connect(name, served.address, CONNECTIONS)

    def warm(self, name: str) -> dict[str, dict[str, list[str]]]:
        """A first block of each kind; real answers of both kinds for those who only repeat them."""
        decided = self.load.run(name, Plan("decide", requests=2000))
        done = self.load.run(name, Plan("complete"))
        mixed = self.load.run(name, Plan("mixed", requests=4000))
        return {"decide": {**decided.samples, "complete": done.samples["complete"]}, "mixed": mixed.samples}

    def rounds(self, cases: Sequence[tuple[str, What]], rounds: int) -> Mapping[tuple[str, What], Blocks]:
        """Blocks of each (server, kind of load), shuffled anew in each round."""
        chance = random.Random(1)
        found: dict[tuple[str, What], list[tuple[Found, float]]] = {case: [] for case in cases}
        for _ in range(rounds):
            for name, what in chance.sample(list(cases), len(cases)):
                served = self.servers[name]
                before = served.cpu()
                block = self.load.run(name, Plan(what, seconds=SECONDS))
                found[name, what].append((block, (served.cpu() - before) / block.seconds))
                if what == "decide":
                    self.load.run(name, Plan("complete"))  # so that nothing stays open
        return {
            case: Blocks(tuple(one for one, _ in blocks), tuple(cpu for _, cpu in blocks))
            for case, blocks in found.items()
        }


def shim(folder: Path) -> str:
    """The library that slows syncs down. Raises ``Missing`` where it cannot be built."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise peers.Missing("decisions where a sync takes 2 ms more: there is no C compiler (cc)")
    library = folder / "slowsync.so"
    source = Path(__file__).parent.parent / "slowsync.c"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except subprocess.CalledProcessError as fault:
        raise peers.Missing(f"decisions where a sync takes 2 ms more: {fault.stderr.decode()[:200]}") from None
    return str(library)


def one_by_one(state: Path, environ: Mapping[str, str] | None = None) -> Callable[[ExitStack], Served]:
    """The peer that commits and syncs each decision on its own."""
    arguments = ("serve", "--state", str(state), "--port", "0")
    log = state.with_suffix(".log")
    return lambda stack: stack.enter_context(started("bench.one_by_one", *arguments, log=log, environ=environ))


def many(report: Report, folder: Path, rounds: int) -> None:
    """64 connections."""
    with ExitStack() as stack:
        course = Course(stack.enter_context(Load()))
        course.enter("gate", stack.enter_context(callosum(folder / "gate")))
        for what, samples in course.warm("gate").items():
            file = folder / f"{what}.json"
            file.write_text(json.dumps(samples))
            bare = started("bench.echo", "--samples", str(file), log=folder / f"echo-{what}.log")
            course.enter(f"echo of {what}", stack.enter_context(bare))
        course.enter("alone", one_by_one(folder / "alone")(stack))
        cases: list[tuple[str, What]] = [("gate", "decide"), ("echo of decide", "decide"), ("alone", "decide")]
        cases += [("gate", "mixed"), ("echo of mixed", "mixed")]
        try:
            environ = {"LD_PRELOAD": shim(folder), "SLOW_SYNC_US": str(SLOWER)}
            course.enter("slow gate", stack.enter_context(callosum(folder / "slow", environ=environ)))
            course.enter("slow alone", one_by_one(folder / "slow-alone", environ)(stack))
            cases += [("slow gate", "decide"), ("slow alone", "decide")]
        except peers.Missing as missing:
            report.missing.append(str(missing))
        for name, what in cases:
            course.load.run(name, Plan(what, requests=200))
            course.load.run(name, Plan("complete"))
        found = course.rounds(cases, rounds)

    decide, mixed, alone = found["gate", "decide"], found["gate", "mixed"], found["alone", "decide"]
    echo, echo_mixed = found["echo of decide", "decide"], found["echo of mixed", "mixed"]
    conflicts = decide.median(lambda one: one.conflicts / one.decisions)
    report.add("tier 3 decisions, durable", decide.rate(), "/s", note=decide.note)
    report.add("tier 3 decisions, p50", decide.median(lambda one: one.p50), "ms", note=f"{conflicts:.1%} contended")
    report.add("tier 3 decisions, p99", decide.median(lambda one: one.p99), "ms")
    report.add("bare echo of them", echo.rate(), "/s", note=echo.note)
    report.add("mixed tiers, intercept and complete", mixed.rate(), "requests/s", note=mixed.note)
    report.add("mixed tiers, decisions among them", mixed.median(lambda one: one.decided), "/s")
    report.add("mixed tiers, p50", mixed.median(lambda one: one.p50), "ms")
    report.add("mixed tiers, p99", mixed.median(lambda one: one.p99), "ms")
    report.add("bare echo of mixed tiers", echo_mixed.rate(), "requests/s", note=echo_mixed.note)
    report.add("a transaction and sync for each tier 3 decision", alone.rate(), "/s", note=alone.note)
    report.add("tier 3 decisions / bare echo", decide.over(echo), at_least=0.25)
    report.add("mixed tiers / bare echo", mixed.over(echo_mixed), at_least=0.25)
    report.add("tier 3 decisions / a transaction for each", decide.over(alone), at_least=4)
    if ("slow gate", "decide") in found:
        slow, slow_alone = found["slow gate", "decide"], found["slow alone", "decide"]
        report.add("syncs 2 ms slower: tier 3 decisions", slow.rate(), "/s", note=slow.note)
        report.add("syncs 2 ms slower: a transaction for each", slow_alone.rate(), "/s")
        report.add("syncs 2 ms slower: tier 3 decisions / a transaction for each", slow.over(slow_alone), at_least=20)


def one(report: Report, folder: Path, rounds: int) -> None:
    """One client that does one thing at a time, over the Unix socket."""
    with ExitStack() as stack:
        place, samples = folder / "gate.sock", folder / "one.json"
        stack.enter_context(callosum(folder / "one", "--socket", str(place)))
        load = stack.enter_context(Load())
        load.connect("gate", f"unix:{place}", 1)
        bodies = load.run("gate", Plan("pairs", requests=200)).samples
        samples.write_text(json.dumps(bodies))
        options = ("--samples", str(samples), "--socket", str(folder / "echo.sock"))
        stack.enter_context(started("bench.echo", *options, log=folder / "echo-one.log"))
        client, idle = (stack.enter_context(CallosumClient(f"unix:{path}")) for path in (place, folder / "echo.sock"))
        operations: dict[str, tuple[Callable[[int], Callable[[], object]], int]] = {
            "tier 3": (asking(client, calls.reply), 40),
            "tier 0": (asking(client, calls.read), 100),
            "bare echo": (asking(idle, calls.reply), 100),
        }
        try:
            acquire = stack.enter_context(peers.redis_lock(folder))
            operations["redis Lock"] = (lambda count: lambda: acquire(count), 100)
        except peers.Missing as fault:
            report.missing.append(str(fault))
        found = timed(operations, rounds)
    for name, measured in found.items():
        what = {"redis Lock": "acquire and release", "bare echo": "the same request"}.get(name, "decision")
        report.add(f"one client: {name}, {what}, median", measured.median, "us")
    if "redis Lock" in found:
        report.add("one client: tier 3 / redis Lock", found["tier 3"].over(found["redis Lock"]), at_most=1.5)
        report.add("one client: tier 0 / redis Lock", found["tier 0"].over(found["redis Lock"]), at_most=1.0)


def asking(client: CallosumClient, make: calls.Make) -> Callable[[int], Callable[[], object]]:
    """A decision, with all around it made ready before; the call is completed afterwards, which is not timed."""
    last = 0

    def ready(count: int) -> Callable[[], object]:
        nonlocal last
        if last:
            client.complete("mira", id=last, result={"ok": True})
        tool, params = make(count)
        call = Call(instance="mira", tool=tool, params=params, call_id=f"{tool}-{count}")

        def ask() -> None:
            nonlocal last
            decision = client.intercept(call)
            if not decision.proceed or decision.fallback:
                raise RuntimeError(f"{tool} was stopped: {decision.warning}")
            last = decision.id

        return ask

    return ready


def timed(
    operations: Mapping[str, tuple[Callable[[int], Callable[[], object]], int]], rounds: int
) -> Mapping[str, Measured]:
    """As ``side_by_side``, with a part of each operation that is not timed: what makes it ready."""
    chance = random.Random(1)
    counts = dict.fromkeys(operations, 0)
    medians: dict[str, list[float]] = {name: [] for name in operations}
    for turn in range(rounds + 1):
        for name in chance.sample(list(operations), len(operations)):
            ready, block = operations[name]
            taken = []
            for count in range(counts[name], counts[name] + block):
                operation = ready(count)
                began = time.perf_counter_ns()
                operation()
                taken.append(time.perf_counter_ns() - began)
            counts[name] += block
            if turn:  # the first is a warm-up
                medians[name].append(statistics.median(taken) / 1000)
    return {name: Measured(tuple(values)) for name, values in medians.items()}


def run(folder: Path, rounds: int) -> Report:
    """One connection, then many, whose files the disk is busy with for a while."""
    report = Report("server")
    one(report, folder, rounds)
    many(report, folder, rounds)
    return report
