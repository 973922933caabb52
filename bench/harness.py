"""Measures operations side by side and judges what comes out against what was promised.

On a shared machine absolute times drift by a factor of two within minutes; ratios taken within one
round do not. So every round runs a block of each operation, in a new order, and each ratio is the
median over the rounds of ratios within the round.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Operation = Callable[[int], object]
"""Does the thing once; the argument counts the times, over all rounds."""


@dataclass(frozen=True)
class Measured:
    """The median times of one operation, in microseconds, one for each round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def over(self, other: Measured) -> float:
        """How many times as long as ``other``: the median of the rounds' ratios."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.rounds, other.rounds, strict=True))

    def above(self, other: Measured) -> float:
        """By how many microseconds longer than ``other``: the median of the rounds' differences."""
        return statistics.median(mine - theirs for mine, theirs in zip(self.rounds, other.rounds, strict=True))


@dataclass(frozen=True)
class Case:
    """An operation with the number of times it is done in each round."""

    name: str
    operation: Operation
    block: int


def side_by_side(cases: Sequence[Case], rounds: int, *, seed: int = 1) -> Mapping[str, Measured]:
    """Measure all cases: a warm-up, then ``rounds`` rounds of one block each, shuffled."""
    chance = random.Random(seed)
    done = dict.fromkeys((case.name for case in cases), 0)
    medians: dict[str, list[float]] = {case.name: [] for case in cases}

    def block(case: Case, times: int) -> float:
        start = done[case.name]
        done[case.name] += times
        taken = []
        for count in range(start, start + times):
            began = time.perf_counter_ns()
            case.operation(count)
            taken.append(time.perf_counter_ns() - began)
        return statistics.median(taken) / 1000

    for case in cases:
        block(case, max(1, case.block // 2))
    for _ in range(rounds):
        for case in chance.sample(list(cases), len(cases)):
            medians[case.name].append(block(case, case.block))
    return {name: Measured(tuple(values)) for name, values in medians.items()}


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which this share (0 to 1) of all lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True)
class Line:
    """One figure, and the target it has to meet if there is one."""

    name: str
    figure: float
    unit: str
    target: float | None = None
    sense: Literal["at most", "at least"] = "at most"
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        return self.figure <= self.target if self.sense == "at most" else self.figure >= self.target


@dataclass
class Report:
    """What one group of cases found. ``missing`` names what could not be measured, and why."""

    name: str
    lines: list[Line] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def add(
        self,
        name: str,
        figure: float,
        unit: str = "x",
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        note: str = "",
    ) -> None:
        if at_least is not None:
            self.lines.append(Line(name, figure, unit, at_least, "at least", note))
        else:
            self.lines.append(Line(name, figure, unit, at_most, "at most", note))
