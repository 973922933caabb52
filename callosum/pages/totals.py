"""Totals of days and weeks, in memory that does not grow with the journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from callosum.journal import ENDS, is_canary
from callosum.model import Conflict, Entry, Event, Outcome, Tier, Verdict
from callosum.pages.markdown import many

UNKNOWNS: Final = 10_000
"""Most unknown outcomes that are followed individually. Further ones still count even if they are settled later."""


class JournalTotals:
    """The totals of a part of the journal that begins at the moment ``start``.

    ``unknown`` holds the ids of actions whose outcome is unknown at its end. ``open`` counts the leases that it opened
    and that have not ended.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.entries = 0
        self.last = 0
        self.tiers = [0] * (max(Tier) + 1)
        self.held: Counter[Verdict] = Counter()
        self.kinds: Counter[str] = Counter()
        self.warned = 0
        self.observed = 0
        self.failed = 0
        self.cancelled = 0
        self.away = 0
        self.locks = 0
        self.open = 0
        self.unknown: set[int] = set()
        self.more_unknown = 0
        self.approved = 0
        self.denied = 0
        self.unanswered = 0
        self.refused = 0

    @property
    def calls(self) -> int:
        """The number of calls."""
        return sum(self.tiers) + self.away

    @property
    def unknowns(self) -> int:
        """The number of unknown outcomes."""
        return len(self.unknown) + self.more_unknown

    def add(self, entry: Entry) -> None:
        """Count the next entry."""
        self.entries += 1
        self.last = entry.seq
        event = entry.event
        if is_canary(entry):
            return
        if event is Event.INTERCEPT:
            self._called(entry)
        elif event in ENDS:
            self._ended(entry)
        elif event is Event.RENEW:
            if entry.action in self.unknown:
                self.unknown.discard(entry.action)
                self.open += entry.action >= self.start
        elif event is Event.LOCK:
            self.locks += 1
            self.open += 1
        elif event is Event.LATE:
            self.away += 1
            self.failed += entry.outcome is Outcome.FAILED
        elif event is Event.APPROVE:
            self.approved += 1
        elif event is Event.DENY:
            self.denied += 1
        elif event is Event.REFUSE:
            self.refused += 1

    def _called(self, entry: Entry) -> None:
        tier, verdict = entry.tier or 0, entry.verdict
        self.tiers[min(tier, Tier.CRITICAL)] += 1
        if verdict is not None and not verdict.proceed:
            self.held[verdict] += 1
        elif tier >= Tier.HIGH:
            self.open += 1
        if verdict is Verdict.WARN:
            self.warned += 1
        body = entry.body
        if body:
            self.observed += "observed" in body
            for conflict in body.get("conflicts") or ():
                self.kinds[kind_of(conflict)] += 1

    def _ended(self, entry: Entry) -> None:
        action, outcome = entry.action, entry.outcome
        if entry.event is Event.LAPSE and outcome is Outcome.CANCELLED:
            self.unanswered += entry.body.get("note") == "nobody answered"
            return
        was_unknown = action in self.unknown
        if outcome is Outcome.UNKNOWN:
            if entry.tier == Tier.NONE:
                return  # whether a read happened matters to nobody
            if not was_unknown and len(self.unknown) < UNKNOWNS:
                self.unknown.add(action)
            elif not was_unknown:
                self.more_unknown += 1
        else:
            self.unknown.discard(action)
            self.failed += outcome is Outcome.FAILED
            self.cancelled += outcome is Outcome.CANCELLED and entry.event is Event.COMPLETE
        opened_here = action >= self.start and (entry.tier or 0) >= Tier.HIGH
        if opened_here and not was_unknown and entry.event is not Event.RESOLVE:
            self.open = max(0, self.open - 1)

    # --- as text ---------------------------------------------------------------------------------------------

    def totals(self) -> str:
        """Return the totals in one line, which contains no text from sessions."""
        parts = [many(self.calls, "call"), f"{sum(self.held.values()):,} held back"]
        if self.unknowns:
            parts.append(many(self.unknowns, "unknown outcome"))
        return ", ".join(parts)

    def lines(self) -> list[str]:
        """Return the totals as list items; zeros are left out."""
        named = [f"{count:,} of tier {tier}" for tier, count in enumerate(self.tiers) if count]
        rows = [
            ("Calls", [*named, _some(self.away, "while the gate was away")]),
            (
                "Held back",
                [
                    _some(self.held[Verdict.CONFIRM], "confirm"),
                    _some(self.held[Verdict.ASK], "ask"),
                    _some(self.held[Verdict.BLOCK], "block"),
                ],
            ),
            ("Let through", [_some(self.warned, "with a warning"), _some(self.observed, "because it only observed")]),
            (
                "Not completed",
                [
                    _some(self.failed, "failed"),
                    _some(self.cancelled, "cancelled"),
                    _some(self.unknowns, "with unknown outcome"),
                    _some(self.open, "still open"),
                ],
            ),
            (
                "People",
                [
                    _some(self.approved, "approved"),
                    _some(self.denied, "refused"),
                    _some(self.unanswered, "nobody answered"),
                ],
            ),
            ("Locks", [f"{self.locks:,}" if self.locks else ""]),
            ("Requests refused by the server", [f"{self.refused:,}" if self.refused else ""]),
        ]
        return [f"- {label}: {', '.join(filter(None, parts))}" for label, parts in rows if any(parts)]


def kind_of(conflict: Any) -> str:
    """Return the kind of a conflict as the journal has it."""
    if isinstance(conflict, Conflict):
        return conflict.kind.value
    return str(conflict.get("kind", "")) if isinstance(conflict, Mapping) else ""


def _some(count: int, label: str) -> str:
    return f"{count:,} {label}" if count else ""


class MostFrequent:
    """The most frequent of any number of names, in memory for twice ``size`` names.

    When the memory is full, the rarer half is forgotten. The counts of the rest are then lower bounds, and a name that
    is frequent enough to be shown is not forgotten.
    """

    def __init__(self, size: int = 5000) -> None:
        self._size = size
        self._counts: dict[Any, int] = {}
        self.complete = True

    def add(self, name: Any, count: int = 1) -> None:
        """Count a name."""
        counts = self._counts
        counts[name] = counts.get(name, 0) + count
        if len(counts) > 2 * self._size:
            self._counts = dict(self.most(self._size))
            self.complete = False

    def __len__(self) -> int:
        return len(self._counts)

    def get(self, name: Any) -> int:
        """Return how often a name came."""
        return self._counts.get(name, 0)

    def most(self, count: int) -> list[tuple[Any, int]]:
        """Return the most frequent names; equals are sorted by name."""
        return sorted(self._counts.items(), key=_rank)[:count]


def _rank(item: tuple[Any, int]) -> tuple[int, Any]:
    return -item[1], item[0]


def cut(lines: Iterable[str], shown: int, noun: str, *, total: int) -> list[str]:
    """Return the first lines, and the number of the others."""
    first = [line for line, _ in zip(lines, range(shown), strict=False)]
    return [*first, f"- and {many(total - len(first), f'more {noun}')}"] if total > len(first) else first
