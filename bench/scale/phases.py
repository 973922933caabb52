"""How long a gate's transactions take inside: until the step runs, the step, and from there to the answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from callosum import Call, LocalGate
from callosum.model import Applied, Change, View
from callosum.stores.base import Request, Store


@dataclass(frozen=True)
class Phase:
    """One transaction: seconds until its step ran, of its step, and of the rest; ``cpu``: of this thread."""

    looked: float
    stepped: float
    rest: float
    cpu: float

    @property
    def whole(self) -> float:
        return self.looked + self.stepped + self.rest


@dataclass
class Timed:
    """A store that times the transactions of the one inside it; everything else is passed on."""

    inner: Store
    seen: list[Phase] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        ((scope, step),) = requests
        marks: list[float] = []

        def timed(view: View) -> Change:
            marks[:] = [time.perf_counter()]
            try:
                return step(view)
            finally:
                marks.append(time.perf_counter())

        began, cpu = time.perf_counter(), time.thread_time()
        answers = self.inner.transact([(scope, timed)])
        ended, cpu = time.perf_counter(), time.thread_time() - cpu
        self.seen.append(Phase(marks[0] - began, marks[1] - marks[0], ended - marks[1], cpu))
        return answers


@dataclass(frozen=True)
class Told:
    """What one gate alone takes for calls of one kind.

    ``cpu``: the processor's seconds a request; ``outside``: of these beside the store.
    """

    decisions: list[Phase]
    reports: list[Phase]
    cpu: float
    outside: float


def alone(gate: LocalGate, timed: Timed, make: Any, count: int, first: int) -> Told:
    """``count`` calls, one after another, each with its report."""
    timed.seen.clear()
    cpu = time.thread_time()
    for number in range(first, first + count):
        tool, params = make(number)
        decision = gate.intercept(Call("mira", tool, params, call_id=f"alone-{number}"))
        gate.complete("mira", id=decision.id, result={"ok": True})
    cpu = time.thread_time() - cpu
    inside = sum(phase.cpu for phase in timed.seen)
    decisions, reports = timed.seen[0::2], timed.seen[1::2]
    return Told(decisions, reports, cpu / (2 * count), (cpu - inside) / (2 * count))
