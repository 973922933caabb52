"""Count how pauses, questions and blocks ended: by rule and kind over time, and what they prevented and cost."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from datetime import UTC, datetime
from statistics import median
from typing import Final

from msgspec import Struct, field

from callosum.model import HOUR, SECOND
from callosum.regions.learning.endings import Ending

PARTS: Final = 12
"""Number of parts into which a span is divided."""
WIDTH: Final = 1000
ROW: Final = 56
HEAD: Final = 20
_TALL: Final = 40
"""Height of the tallest bar, in units."""
_ROWS: Final = 12
"""Maximum number of rows that are drawn."""
_LEAST: Final = 5
"""Minimum number of false alarms from which a rule can be called out; fewer prove nothing."""
_WOLF: Final = 0.9
"""Share of false alarms among a rule's stops from which the rule is shown as one that cries wolf."""
FALSE: Final = frozenset(("confirmed", "approved"))
"""Endings of false alarms: the session repeated the call, or a person agreed."""
WORKED: Final = frozenset(("heeded", "waited", "denied"))
"""Endings of stops that prevented something."""
_WAITS: Final = 20_000


class Column(Struct, frozen=True):
    """A drawn part of the span: the stops of one rule and kind, and how many of them were false alarms.

    ``x`` and ``width`` are in units; the bar begins at ``top``, and its lower part, the false alarms, at ``split``.
    """

    x: float
    width: float
    top: float
    split: float
    bottom: float
    total: int
    false: int


class Rate(Struct, frozen=True):
    """The stops of one rule and kind. ``y`` is its row's position, in units; ``wolf``: nearly all false alarms."""

    rule: str
    kind: str
    counts: Counter[str]
    columns: tuple[Column, ...]
    y: int
    total: int
    false: int
    wolf: bool


class Rates(Struct, frozen=True):
    """Everything that is drawn, with the worst rule first. ``labels`` name the parts; ``hidden`` rows are not drawn."""

    rows: tuple[Rate, ...]
    drawn: tuple[Rate, ...]
    labels: tuple[tuple[float, str], ...]
    width: int
    height: int
    hidden: int


def rates(endings: Iterable[Ending], begin: int, end: int) -> Rates:
    """Count and lay out how conflicts ended in a span; moments are in microseconds."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    parts: dict[tuple[str, str], list[list[int]]] = {}
    size = max(1, -(-(end - begin) // PARTS))
    for ending in endings:
        if ending.at < begin or "." in ending.how:
            continue
        place = (ending.case.rule, ", ".join(sorted(ending.case.kinds)) or "rule")
        counts.setdefault(place, Counter())[ending.how] += 1
        if ending.how == "regretted":
            continue  # it was counted when it was confirmed
        part = parts.setdefault(place, [[0, 0] for _ in range(PARTS)])[min(PARTS - 1, (ending.at - begin) // size)]
        part[0] += 1
        part[1] += ending.how in FALSE
    order = sorted(counts, key=lambda place: (-_false(counts[place]), -counts[place].total(), place))
    highest = max((part[0] for found in parts.values() for part in found), default=1)
    rows = []
    for at, place in enumerate(order):
        said, y = counts[place], HEAD + ROW * at
        columns = tuple(
            _column(number, part, y, highest) for number, part in enumerate(parts.get(place, ())) if part[0]
        )
        false, total = _false(said), said.total() - said["regretted"]
        rows.append(Rate(*place, said, columns, y, total, false, false >= _LEAST and false >= _WOLF * total))
    drawn = tuple(rows[:_ROWS])
    return Rates(
        tuple(rows), drawn, tuple(_labels(begin, size)), WIDTH, HEAD + ROW * len(drawn) + 4, len(rows) - len(drawn)
    )


def _false(said: Counter[str]) -> int:
    """Return the number of stops that were false alarms. A stop that was regretted afterwards is not one."""
    return max(0, sum(said[how] for how in FALSE) - said["regretted"])


def _column(number: int, part: list[int], y: int, highest: int) -> Column:
    wide = WIDTH / PARTS
    total, false = part
    bottom = y + _TALL + 8.0
    tall = max(3.0, _TALL * total / highest)
    return Column(number * wide + 4, wide - 8, bottom - tall, bottom - tall * false / total, bottom, total, false)


def _labels(begin: int, size: int) -> Iterable[tuple[float, str]]:
    form = "%H:%M" if size * PARTS <= 24 * HOUR else "%d %b"
    for number in range(PARTS):
        moment = datetime.fromtimestamp((begin + number * size) / SECOND, UTC).astimezone()
        yield (number + 0.5) * WIDTH / PARTS, moment.strftime(form)


class Ended(Struct):
    """What stops prevented and cost. Waits are in seconds: of a session until its call ran, of a person to answer."""

    counts: Counter[str] = field(default_factory=Counter)
    newest: deque[Ending] = field(default_factory=lambda: deque(maxlen=1000))
    sessions: deque[float] = field(default_factory=lambda: deque(maxlen=_WAITS))
    people: deque[float] = field(default_factory=lambda: deque(maxlen=_WAITS))

    def add(self, endings: Iterable[Ending]) -> None:
        """Add the endings of calls."""
        for ending in endings:
            how = ending.how
            if "." in how:
                continue
            self.counts[how] += 1
            waited = max(0.0, (ending.at - ending.case.seq) / SECOND)
            if how in ("confirmed", "waited"):
                self.sessions.append(waited)
            elif how in ("approved", "denied"):
                self.people.append(waited)
            if how in WORKED:
                self.newest.append(ending)

    def prevented(self, most: int) -> list[Ending]:
        """Return the newest stops that prevented something."""
        return list(self.newest)[: -most - 1 : -1]

    @property
    def false(self) -> int:
        """Return the number of false alarms."""
        return _false(self.counts)

    @property
    def useful(self) -> int:
        """Return the number of stops that prevented something: calls given up, refused, or delayed."""
        return sum(self.counts[how] for how in WORKED)

    @property
    def waits(self) -> tuple[tuple[str, int, float, float], ...]:
        """Return rows of who waited, how often, and how long in the median and in all."""
        told = (("A session, until its paused call ran", self.sessions), ("A call, for a person's answer", self.people))
        return tuple((who, len(found), median(found), sum(found)) for who, found in told if found)
