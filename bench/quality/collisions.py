"""Counts pairs of calls: those that collide and were found, and those that do not and raised a false alarm."""

from __future__ import annotations

from collections import Counter
from typing import Final

from bench.quality.data import TEST
from bench.quality.figures import Mistake, Part, Row, Share, Table, percent

FOUND: Final = 0.98
"""Least share of the pairs that collide for which the second session must be stopped."""
FALSE_ALARMS: Final = 0.005
"""Largest share of the other pairs for which it may be."""


class Tally:
    """Adds up the results of pairs for one part of the page. ``name`` begins the labels of its mistakes."""

    def __init__(self, part: Part, name: str) -> None:
        self._part = part
        self._name = name
        self._total = Counter[tuple[str, bool]]()
        self._missed = Counter[tuple[str, bool]]()

    def add(self, kind: str, pair: str, problem: str, *, collide: bool) -> None:
        """Count a pair. ``problem`` says why its result is wrong, ``""`` if it is right."""
        self._total[kind, collide] += 1
        if problem:
            self._missed[kind, collide] += 1
            label = "missed" if collide else "alarm"
            self._part.mistakes.append(Mistake(f"{self._name}.{label}", pair, problem))

    def finish(self, title: str) -> Part:
        """Add both shares and a table by kind to the part, and return the part."""
        for what, collide, target in (("collisions found", True, FOUND), ("false alarms", False, FALSE_ALARMS)):
            share = self._share(collide=collide)
            row = Row(what, "Callosum", {TEST: share}, target, "at least" if collide else "at most")
            self._part.rows.append(row)
        rows = []
        for kind in dict.fromkeys(kind for kind, _ in self._total):
            found, alarm = self._share(kind, collide=True), self._share(kind, collide=False)
            rows.append((kind, f"{found.hits}/{found.total}", f"{alarm.hits}/{alarm.total}", percent(alarm.value)))
        self._part.tables.append(Table(title, ("kind", "found", "false alarms", "share"), rows, split=False))
        self._part.notes.append("Written by hand before the code they judge; not split into halves.")
        return self._part

    def _share(self, kind: str | None = None, *, collide: bool) -> Share:
        """Return the share of pairs that were found (of those that collide) or raised a false alarm (of the others)."""
        total, wrong = (
            sum(count for (one, which), count in counts.items() if which is collide and kind in (None, one))
            for counts in (self._total, self._missed)
        )
        return Share(total - wrong if collide else wrong, total)
