"""Counting endings: how often a sort of pause was confirmed, and how often it did its work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from callosum.model import NO_KEY, Kind, Tier, Verdict
from callosum.regions.learning.endings import Ending

MILD: Final = frozenset({Kind.RECENT, Kind.HELD})
"""What a rule may let pass: another session is near, and nothing says yet that the two disturb one another.

``duplicate``, ``opposed`` and ``unknown`` say so; and a ``stale`` that was repeated may have been read again.
"""
LEAST: Final = 5
"""Fewer confirmations prove nothing."""
MOST_NAMED: Final = 64
"""Most sessions and key families that are told apart."""


class EndingCount(Struct, gc=False):
    """How one sort of pause ended, how often. ``first`` and ``last`` are moments of confirmations or approvals."""

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
        """Counts an ending, if it says anything of the pause."""
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
        """Takes another count into this one."""
        for name in dict.fromkeys(_COUNTED.values()):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.last:
            self.first = min(self.first or other.first, other.first)
            self.last = max(self.last, other.last)
        self.sessions |= other.sessions
        self.families |= other.families

    @property
    def against(self) -> int:
        """How often the pause did its work, or going on in spite of it went wrong."""
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
    """Returns what a key is one of: ``channel:#general`` is one of ``channel:*``; without a key ``(no key)``."""
    if key.startswith(NO_KEY):
        return "(no key)"
    entity, colon, _ = key.partition(":")
    return f"{entity}:*" if colon else key


def covered(pauses: Mapping[frozenset[Kind], EndingCount], kinds: frozenset[Kind]) -> list[frozenset[Kind]]:
    """Returns which pauses a rule would let pass that lets these kinds pass: those for fewer of them too."""
    return [one for one in pauses if one == kinds or (one and one < kinds)]


def joined(counts: Iterable[EndingCount]) -> EndingCount:
    """Returns the counts as one."""
    whole = EndingCount()
    for count in counts:
        whole.join(count)
    return whole


def convinces(count: EndingCount, least: int) -> bool:
    """Whether pauses that ended so speak for a rule: confirmed often enough, and nothing against it."""
    return count.confirmed >= least and not count.against


def learnable(ending: Ending) -> bool:
    """Whether a rule could ever let such a pause pass: a confirmed one below tier 4, for mild reasons alone."""
    case = ending.case
    return bool(case.rule) and case.verdict is Verdict.CONFIRM and case.tier < Tier.CRITICAL and case.kinds <= MILD
