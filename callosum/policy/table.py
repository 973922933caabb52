"""The policy as data: tier by kind -> verdict, and the three functions laid over the result.

A missing cell is ``allow``. ``held`` at tiers 2 and 3 depends on the
tier of the holder: a tier 4 lease is a hard one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from callosum.model import MINUTE, Kind, Tier, Verdict

TABLE: Final[tuple[Mapping[Kind, Verdict], ...]] = (
    {},
    {Kind.STALE: Verdict.WARN},
    {Kind.DUPLICATE: Verdict.WARN, Kind.STALE: Verdict.WARN},
    dict.fromkeys(Kind, Verdict.WARN),
    dict.fromkeys(Kind, Verdict.BLOCK),
)
HARD_HOLD: Final = frozenset({Tier.MEDIUM, Tier.HIGH})
"""Tiers that a tier 4 lease of another session blocks outright."""
PAUSE_RECENT: Final = 2 * MINUTE
"""A ``recent`` act pauses only if it is younger: what this session could not know."""


def cell(tier: int, kind: Kind, holder: int = 0, overlay: Mapping[Kind, Verdict] | None = None) -> Verdict:
    """The verdict of one conflict: ``overlay`` (a rule's own cells) first, then the table.

    ``holder`` is the tier of the action that holds the key; it matters for ``held`` alone. No overlay
    softens the block by a tier 4 lease that calls of tiers 2 and 3 meet (``HARD_HOLD``).
    """
    if kind is Kind.HELD and holder >= Tier.CRITICAL and tier in HARD_HOLD:
        return Verdict.BLOCK
    if overlay and kind in overlay:
        return overlay[kind]
    return TABLE[tier].get(kind, Verdict.ALLOW)


def committed(tier: int, *, asks: bool, overlay: Mapping[Kind, Verdict] | None = None) -> Verdict:
    """The verdict of a commitment that is older than the rule's window: a pause, never a block.

    ``asks``: the host can have a person asked, which a call of tier 4 does. ``overlay`` may soften it.
    """
    said = overlay.get(Kind.OPPOSED) if overlay else None
    if said is not None and said.proceed:
        return said
    return Verdict.ASK if asks and tier >= Tier.CRITICAL else Verdict.CONFIRM


def pause(verdict: Verdict, kind: Kind, age: int) -> Verdict:
    """For hosts that can show a warning only by not running the tool: ``warn`` becomes ``confirm``.

    ``age`` is how long ago the other acted, in microseconds; a ``recent`` of two minutes or more
    stays a warning.
    """
    if verdict is not Verdict.WARN or (kind is Kind.RECENT and age >= PAUSE_RECENT):
        return verdict
    return Verdict.CONFIRM


def observe(verdict: Verdict) -> Verdict:
    """Lets everything pass; the caller keeps ``verdict`` beside it as what would have been."""
    return verdict if verdict.proceed else Verdict.ALLOW


def fallback(tier: int, highest: int = Tier.MEDIUM) -> Verdict:
    """The answer while the gate cannot be asked: tiers up to ``highest`` go on, graver ones do not.

    Nobody is locked out of reading files because a gate is down.
    """
    return Verdict.ALLOW if tier <= highest else Verdict.BLOCK
