"""One engine's service times: from blocks of load on its server, and from gates without a server over it."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from bench import calls
from bench.scale.backends import Backend
from bench.scale.blocks import Block, Patience, Work, busy, crowd, gate_on, spent
from bench.scale.loaded import CONNECTIONS, KINDS, ROUNDS, fitted
from bench.scale.measured import Engine, Figure
from bench.scale.phases import Phase, Timed, Told, alone
from bench.texts import message
from callosum import Call, LocalGate

FURTHER: Final = 3
"""Keys more than one, of a call with several."""
SEVERAL: Final = 8
"""Workers that share a gate."""
ALONE: Final = 50
"""Calls of a gate alone, in each round."""


@dataclass(frozen=True)
class _Alone:
    """The work of one gate alone, and the processor time of the store's own processes for each request."""

    told: Told
    backend: float
    others: float


def engine(backend: Backend, place: Path, blocks: dict[tuple[str, int], list[Block]], patience: Patience) -> Engine:
    fits = [
        [fitted([blocks["reply", count][turn] for count in (1, 8, CONNECTIONS)], cpu) for turn in range(ROUNDS)]
        for cpu in (lambda block: block.server, lambda block: block.store)
    ]
    batch = statistics.median(fit[1] for fit in fits[0])

    def each(kind: str) -> Figure:
        return Figure.of(
            [max(0.0, block.server - batch * block.batches) / block.requests for block in blocks[kind, CONNECTIONS]]
        )

    own = psutil.Process()
    numbers = itertools.count(step=ALONE)
    with gate_on(backend.url, place / "alone") as inner:
        timed = Timed(inner.store)
        gate = LocalGate(settings=inner.settings, store=timed)

        def run(make: calls.Make) -> _Alone:
            before, all_, began = (backend.cpu(), spent(own)), busy(), time.perf_counter()
            told = alone(gate, timed, make, ALONE, next(numbers))
            took, stored = time.perf_counter() - began, backend.cpu() - before[0]
            others = busy() - all_ - stored - (spent(own) - before[1])
            return _Alone(told, stored / (2 * ALONE), max(0.0, others) / took)

        makes = {"post": calls.post, "reply": calls.reply, "one": mail(1), "several": mail(1 + FURTHER)}
        found: dict[str, list[_Alone]] = {name: [] for name in makes}
        for make in makes.values():
            run(make)  # a warm-up
        for _ in range(ROUNDS):
            for name, make in makes.items():
                found[name].append(patience.calmest(partial(run, make), lambda one: one.others))

    def phase(name: str, pick: Callable[[Phase], float]) -> Figure:
        return Figure.of([statistics.median(map(pick, one.told.decisions)) for one in found[name]])

    def more(pick: Callable[[_Alone], float]) -> Figure:
        pairs = zip(found["several"], found["one"], strict=True)
        return Figure.of([max(0.0, pick(several) - pick(one)) / FURTHER for several, one in pairs])

    several = Work(backend.url, place / "several", SEVERAL, keys=SEVERAL, own=True, seconds=1.0)
    crowds = [patience.calmest(partial(crowd, [several], backend.cpu), lambda done: done.others) for _ in range(ROUNDS)]
    tiers = {2: "post", 3: "reply"}
    return Engine(
        front=Figure.of([one.told.outside for one in found["reply"]]),
        request=[each(kind) for kind in KINDS],
        batch=Figure.of([fit[1] for fit in fits[0]]),
        store_request=Figure.of([fit[0] for fit in fits[1]]),
        store_batch=Figure.of([fit[1] for fit in fits[1]]),
        local_request=Figure.of([done.own for done in crowds]),
        local_backend=Figure.of([done.store for done in crowds]),
        key=more(lambda one: one.told.cpu),
        store_key=more(lambda one: one.backend),
        held={tier: phase(name, lambda phase: phase.whole) for tier, name in tiers.items()},
        looked={tier: phase(name, lambda phase: phase.looked) for tier, name in tiers.items()},
        trips=_trips(backend, place),
    )


def mail(recipients: int) -> calls.Make:
    """A mail to so many: a key each."""

    def make(count: int) -> tuple[str, dict[str, object]]:
        to = [f"{name}{count % calls.SPREAD}@example.com" for name in "abcdefgh"[:recipients]]
        return "email", {"action": "send", "to": to, "subject": f"No. {count}", "body": message(count)}

    return make


def _trips(backend: Backend, place: Path) -> tuple[float, float]:
    """Round trips of a tier 3 decision on a new key and of its report, counted by a relay that adds nothing."""
    if not backend.url:
        return 0.0, 0.0
    with backend.far(0.0) as (url, between), gate_on(url, place / "far") as gate:
        decisions, reports = [], []
        for number in range(24):
            tool, params = calls.reply(number)
            before = between.trips()
            decision = gate.intercept(Call("far", tool, {**params, "message": f"no {number}"}, call_id=f"far-{number}"))
            middle = between.trips()
            gate.complete("far", id=decision.id)
            decisions.append(middle - before)
            reports.append(between.trips() - middle)
    return statistics.mean(decisions[8:]), statistics.mean(reports[8:])
