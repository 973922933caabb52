"""What a measure comes to: shares with their 95 % intervals, and the target each has to meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Final, Literal

from bench.quality.data import TEST, TUNING

_Z: Final = 1.959963984540054
"""Of a normal distribution 95 % lie within this many standard deviations."""

Sense = Literal["at least", "at most"]


@dataclass(frozen=True)
class Share:
    """``hits`` of ``total``."""

    hits: int
    total: int

    @property
    def value(self) -> float | None:
        """From 0 to 1; None of nothing."""
        return self.hits / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval by Wilson, which holds for shares near 0 and 1 and for few rows too."""
        if not self.total:
            return 0.0, 1.0
        share, n = self.hits / self.total, self.total
        centre = (share + _Z * _Z / (2 * n)) / (1 + _Z * _Z / n)
        spread = _Z / (1 + _Z * _Z / n) * sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
        return max(0.0, centre - spread), min(1.0, centre + spread)

    def __add__(self, other: Share) -> Share:
        return Share(self.hits + other.hits, self.total + other.total)


@dataclass
class Row:
    """One measure of one judge: a share for each half.

    ``bound``: what the target speaks of, the share itself or the lower end of its interval; ``on``:
    the half it is judged on, or the whole.
    """

    what: str
    who: str
    halves: dict[str, Share]
    target: float | None = None
    sense: Sense = "at least"
    bound: Literal["share", "low"] = "share"
    on: Literal["test", "tuning", "whole"] = "test"
    note: str = ""

    @property
    def tuning(self) -> Share:
        return self.halves.get(TUNING, Share(0, 0))

    @property
    def test(self) -> Share:
        return self.halves.get(TEST, Share(0, 0))

    @property
    def whole(self) -> Share:
        return self.tuning + self.test

    @property
    def judged(self) -> float | None:
        """The figure that is held against the target; None where there are no rows."""
        share = {"test": self.test, "tuning": self.tuning, "whole": self.whole}[self.on]
        if share.value is None:
            return None
        return share.interval[0] if self.bound == "low" else share.value

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        judged = self.judged
        if judged is None:
            return False
        return judged >= self.target if self.sense == "at least" else judged <= self.target

    def as_json(self) -> dict[str, Any]:
        halves = {
            name: {"hits": share.hits, "total": share.total, "share": share.value, "interval": share.interval}
            for name, share in (("tuning", self.tuning), ("test", self.test), ("whole", self.whole))
        }
        return {
            "what": self.what,
            "who": self.who,
            **halves,
            "target": self.target,
            "sense": self.sense,
            "bound": self.bound,
            "on": self.on,
            "met": self.met,
            "note": self.note,
        }


@dataclass(frozen=True)
class Number:
    """One figure that is no share: a time, mostly."""

    what: str
    value: float
    unit: str
    target: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the figure is at most the target; None without one."""
        return None if self.target is None else self.value <= self.target


@dataclass(frozen=True)
class Table:
    """A table beside the measures: a confusion, a breakdown by source. Of the test half where the rows are split."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    split: bool = True


@dataclass(frozen=True)
class Mistake:
    """A row of the tuning half that came out wrong. The test half's are never kept."""

    measure: str
    text: str
    because: str = ""


@dataclass
class Part:
    """What one part of the benchmark found. ``missing``: why something could not be measured."""

    name: str
    title: str
    rows: list[Row] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def met(self) -> list[bool]:
        """For each target whether it is met."""
        found = [*(row.met for row in self.rows), *(number.met for number in self.numbers)]
        return [met for met in found if met is not None]

    def mistake(self, half: str, measure: str, text: str, because: str = "") -> None:
        """Keeps a mistake, if it may be looked at."""
        if half == TUNING:
            self.mistakes.append(Mistake(measure, text, because))


class Tally:
    """Counts hits for each half."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}

    def add(self, half: str, hit: bool) -> None:
        count = self._counts.setdefault(half, [0, 0])
        count[0] += hit
        count[1] += 1

    @property
    def halves(self) -> dict[str, Share]:
        return {half: Share(*count) for half, count in self._counts.items()}


def tallied(rows: Iterable[tuple[str, bool]]) -> dict[str, Share]:
    """Shares for each half from (half, hit)."""
    tally = Tally()
    for half, hit in rows:
        tally.add(half, hit)
    return tally.halves


def percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def shown(share: Share) -> str:
    """A share as ``97.1 % [95.0, 98.4] 300/309``."""
    if not share.total:
        return "-"
    low, high = share.interval
    return f"{percent(share.value)} [{100 * low:.1f}, {100 * high:.1f}] {share.hits}/{share.total}"


def bar_of(row: Row) -> str:
    """The target in words: ``low >= 98 % whole``."""
    if row.target is None:
        return ""
    sign = ">=" if row.sense == "at least" else "<="
    extra = ("low end " if row.bound == "low" else "") + sign
    return f"{extra} {100 * row.target:.3g} %" + ("" if row.on == "test" else f" ({row.on})")


def matrix(title: str, cells: Sequence[tuple[str, str]], columns: Sequence[str]) -> Table:
    """A confusion from (label, answer)."""
    labels = sorted({label for label, _ in cells})
    rows = [(label, *(str(sum(cell == (label, one) for cell in cells)) for one in columns)) for label in labels]
    return Table(title, ("label", *columns), rows)
