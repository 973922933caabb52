"""Count endings: how often a kind of stop was confirmed, and how often it was justified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from callosum.model import NO_KEY, Kind, Tier, Verdict
from callosum.regions.learning.endings import Ending

MILD: Final = frozenset({Kind.RECENT, Kind.HELD})
"""Conflicts that a rule may let pass: another session is near, and nothing yet shows that the two disturb each other.

``duplicate``, ``opposed`` and ``unknown`` show that; and a session may have read again before it repeated a ``stale``
call.
"""
LEAST: Final = 5
"""Fewest confirmations that prove something."""
MOST_NAMED: Final = 64
"""Most sessions and key families that are counted separately."""


class EndingCount(Struct, gc=False):
    """How often calls stopped for the same reasons ended in each way.

    ``first`` and ``last`` are moments of confirmations or approvals.
    """

    confirmed: int = 0
    approved: int = 0
    heeded: int = 0
    waited: int = 0
    failed: int = 0
    regretted: int = 0
    denied: int = 0
    unanswered: int = 0
    first: int = 0
    last: int = 0
    sessions: set[str] = msgspec.field(default_factory=set)
    families: set[str] = msgspec.field(default_factory=set)

    def add(self, ending: Ending) -> None:
        """Count an ending, if it says something about the stop."""
        how, case = ending.how, ending.case
        name = _COUNTED.get(how)
        if name is None:
            return
        setattr(self, name, getattr(self, name) + 1)
        if how in ("confirmed", "approved"):
            self.first = min(self.first or ending.at, ending.at)
            self.last = max(self.last, ending.at)
            if len(self.sessions) < MOST_NAMED:
                self.sessions.add(case.session)
            self.families |= {family(key) for key in case.keys[: MOST_NAMED - len(self.families)]}

    def join(self, other: EndingCount) -> None:
        """Add another count to this one."""
        for name in dict.fromkeys(_COUNTED.values()):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.last:
            self.first = min(self.first or other.first, other.first)
            self.last = max(self.last, other.last)
        self.sessions |= other.sessions
        self.families |= other.families

    @property
    def against(self) -> int:
        """How often the stop was justified, or going on in spite of it went wrong."""
        return self.heeded + self.waited + self.failed + self.regretted + self.denied


_COUNTED: Final = {
    "confirmed": "confirmed",
    "approved": "approved",
    "heeded": "heeded",
    "waited": "waited",
    "confirmed.failed": "failed",
    "confirmed.unknown": "failed",
    "approved.failed": "failed",
    "approved.unknown": "failed",
    "regretted": "regretted",
    "denied": "denied",
    "unanswered": "unanswered",
}


def family(key: str) -> str:
    """Return the family of a key: ``channel:*`` for ``channel:#general``; ``(no key)`` for a call without a key."""
    if key.startswith(NO_KEY):
        return "(no key)"
    entity, colon, _ = key.partition(":")
    return f"{entity}:*" if colon else key


def covered(pauses: Mapping[frozenset[Kind], EndingCount], kinds: frozenset[Kind]) -> list[frozenset[Kind]]:
    """Return the conflict sets that a rule for ``kinds`` would let pass: these kinds, and subsets of them."""
    return [
        stopped_kinds for stopped_kinds in pauses if stopped_kinds == kinds or (stopped_kinds and stopped_kinds < kinds)
    ]


def joined(counts: Iterable[EndingCount]) -> EndingCount:
    """Return the sum of the counts."""
    total = EndingCount()
    for count in counts:
        total.join(count)
    return total


def convinces(count: EndingCount, least: int) -> bool:
    """Return True if the count supports a rule: confirmed often enough, and nothing against it."""
    return count.confirmed >= least and not count.against


def learnable(ending: Ending) -> bool:
    """Return True if a rule could ever let such a stop pass: a confirmed one below tier 4, for mild conflicts alone."""
    case = ending.case
    return bool(case.rule) and case.verdict is Verdict.CONFIRM and case.tier < Tier.CRITICAL and case.kinds <= MILD
