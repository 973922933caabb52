"""A server under load: what a request and a batch take, and whole runs to hold the simulation against."""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bench.load import Load, Plan
from bench.scale.backends import Backend
from bench.scale.blocks import Block, Course, Patience, busy
from bench.scale.measured import Figure, Run
from bench.serving import Served, callosum

KINDS: Final = ("read", "write", "post", "reply", "delete")
"""A kind of call for each tier, 0 to 4."""
CONNECTIONS: Final = 64
SECONDS: Final = 0.5
"""How long a block of load takes."""
ROUNDS: Final = 3
PIPELINED: Final = 20
REFUSED: Final = 1000
"""Requests that are refused, so many of them at once."""
FEW: Final = 200
"""Keys of each kind, where there are to be few."""


def blocks(course: Course, patience: Patience) -> dict[tuple[str, int], list[Block]]:
    """Blocks by kind of call and connections: decisions with their reports."""
    wanted = [(kind, CONNECTIONS) for kind in KINDS] + [("reply", 1), ("reply", 8), ("mixed", CONNECTIONS)]
    for connections in (1, 8, CONNECTIONS):
        course.connect(connections)
    found: dict[tuple[str, int], list[Block]] = {case: [] for case in wanted}
    for turn in range(ROUNDS + 1):
        for kind, connections in wanted:
            seconds = SECONDS if turn else 0.3
            plan = Plan("mixed", seconds) if kind == "mixed" else Plan("pairs", seconds, kind=kind)
            if not turn:  # a warm-up
                course.run(plan, connections)
                continue
            block = patience.calmest(partial(course.run, plan, connections), lambda block: block.others)
            found[kind, connections].append(block)
    return found


def fitted(blocks: Sequence[Block], cpu: Callable[[Block], float]) -> tuple[float, float]:
    """Seconds a request and seconds a batch that fit these blocks best; none below zero."""
    rr = sum(block.requests**2 for block in blocks)
    bb = sum(block.batches**2 for block in blocks)
    rb = sum(block.requests * block.batches for block in blocks)
    rc = sum(block.requests * cpu(block) for block in blocks)
    bc = sum(block.batches * cpu(block) for block in blocks)
    whole = rr * bb - rb * rb
    each, batch = (rc * bb - bc * rb) / whole, (bc * rr - rc * rb) / whole
    if batch < 0:
        return rc / rr, 0.0
    if each < 0:
        return 0.0, bc / bb
    return each, batch


def server_runs(engine: str, course: Course, blocks: dict[tuple[str, int], list[Block]]) -> list[Run]:
    """What the simulation is held against: mixed tiers and tier 3 alone by 64 connections, one connection alone."""
    runs = []
    for kind, connections, tier in (("mixed", CONNECTIONS, None), ("reply", CONNECTIONS, 3), ("reply", 1, 3)):
        found = blocks[kind, connections]
        runs.append(
            Run(
                f"{engine}: one server, {connections} connection{'s' * (connections > 1)}, "
                f"{'mixed tiers' if tier is None else f'tier {tier}'}",
                engine,
                "server",
                connections,
                tier,
                keys=100_000,
                others=_median(found, lambda block: block.others),
                loader=_median(found, lambda block: block.found.cpu * block.found.seconds / block.requests),
                calls=_median(found, lambda block: block.found.decided),
                p50=_median(found, lambda block: block.found.p50) / 1000,
                p99=_median(found, lambda block: block.found.p99) / 1000,
                depth=_median(found, lambda block: block.requests / max(1.0, block.batches)),
            )
        )
    return runs


def two_servers(backend: Backend, place: Path, options: Sequence[str], patience: Patience) -> Run:
    """Two servers on one store, each with half of the connections, on few keys."""
    half = CONNECTIONS // 2
    with ExitStack() as stack:
        ran: list[tuple[Load, Served]] = []
        for number in range(2):
            served = stack.enter_context(callosum(place / f"two-{number}", *options))
            load = stack.enter_context(Load())
            load.connect("two", served.address, half)
            load.run("two", Plan("mixed", 0.4, keys=FEW - number))
            ran.append((load, served))
        threads = stack.enter_context(ThreadPoolExecutor(2))

        def run() -> Run:
            def cpu() -> float:
                return backend.cpu() + sum(served.cpu() for _, served in ran)

            before, all_, began = cpu(), busy(), time.perf_counter()
            plans = [Plan("mixed", 1.5, keys=FEW - number) for number in range(2)]  # not in step with each other
            found = list(threads.map(lambda one: one[0][0].run("two", one[1]), zip(ran, plans, strict=True)))
            loaded = sum(one.cpu * one.seconds for one in found)
            others = busy() - all_ - (cpu() - before) - loaded
            return Run(
                f"{backend.name}: two servers, {half} connections each, mixed tiers on few keys",
                backend.name,
                "server",
                CONNECTIONS,
                None,
                keys=4 * FEW,  # reads and writes are of the same, each other kind has its own
                processes=2,
                others=max(0.0, others) / (time.perf_counter() - began),
                loader=loaded / sum(one.requests for one in found),
                calls=sum(one.decided for one in found),
                p50=statistics.mean(one.p50 for one in found) / 1000,
                p99=max(one.p99 for one in found) / 1000,
            )

        return patience.calmest(run, lambda run: run.others)


def _median(blocks: Sequence[Block], pick: Callable[[Block], float]) -> float:
    return statistics.median(map(pick, blocks))


def refused(served: Served) -> Figure:
    """The processor time of a request that is refused for what it says, amid many others of one connection."""
    where = urlsplit(served.address)
    head = f"POST /intercept HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
    together = f"{head}Content-Length: 2\r\n\r\n{{}}".encode() * PIPELINED
    rounds = []
    with socket.create_connection((where.hostname or "", where.port or 0)) as connection:
        for _ in range(ROUNDS):
            before = served.cpu()
            for _ in range(REFUSED // PIPELINED):
                connection.sendall(together)
                answers = b""
                while answers.count(b"HTTP/1.1 400") < PIPELINED:
                    piece = connection.recv(1 << 16)
                    if not piece:
                        raise RuntimeError(f"expected refusals: {answers[-500:]!r}")
                    answers += piece
            rounds.append((served.cpu() - before) / REFUSED)
    return Figure.of(rounds)
