"""The policy as data: tier and conflict kind give a verdict. Three functions adjust the result.

A missing cell means ``allow``. At tiers 2 and 3 the verdict for ``held`` depends on the tier of the holder: a tier 4
lease blocks.
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
"""Tiers of calls that another session's tier 4 lease blocks outright."""
PAUSE_RECENT: Final = 2 * MINUTE
"""Maximum age of a ``recent`` action that pauses a call, in microseconds. The session could not have known of it."""


def cell(tier: int, kind: Kind, holder: int = 0, overlay: Mapping[Kind, Verdict] | None = None) -> Verdict:
    """Return the verdict for one conflict: from ``overlay`` (a rule's own cells) if it has the cell, or the table.

    ``holder`` is the tier of the action that holds the key; it matters only for ``held``. No overlay softens the block
    that a tier 4 lease means for calls of tiers 2 and 3 (``HARD_HOLD``).
    """
    if kind is Kind.HELD and holder >= Tier.CRITICAL and tier in HARD_HOLD:
        return Verdict.BLOCK
    if overlay and kind in overlay:
        return overlay[kind]
    return TABLE[tier].get(kind, Verdict.ALLOW)


def committed(tier: int, *, asks: bool, overlay: Mapping[Kind, Verdict] | None = None) -> Verdict:
    """Return the verdict for a commitment that is older than the rule's window: a pause, never a block.

    ``asks`` says that the host can ask a person, which it does for a call of tier 4. ``overlay`` may soften the
    verdict.
    """
    said = overlay.get(Kind.OPPOSED) if overlay else None
    if said is not None and said.proceed:
        return said
    return Verdict.ASK if asks and tier >= Tier.CRITICAL else Verdict.CONFIRM


def pause(verdict: Verdict, kind: Kind, age: int) -> Verdict:
    """Turn ``warn`` into ``confirm``, for hosts that can show a warning only by not running the tool.

    ``age`` is in microseconds since the other session acted; a ``recent`` conflict that is two minutes old or older
    stays a warning.
    """
    if verdict is not Verdict.WARN or (kind is Kind.RECENT and age >= PAUSE_RECENT):
        return verdict
    return Verdict.CONFIRM


def observe(verdict: Verdict) -> Verdict:
    """Let every call run. The caller keeps ``verdict`` as what the verdict would have been."""
    return verdict if verdict.proceed else Verdict.ALLOW


def fallback(tier: int, highest: int = Tier.MEDIUM) -> Verdict:
    """Return the verdict while the gate is unreachable: tiers up to ``highest`` run, higher tiers are blocked.

    Agents can still read files while a gate is down.
    """
    return Verdict.ALLOW if tier <= highest else Verdict.BLOCK
