"""The paragraph for the agent: what is in the way, who, how long ago, and what it can do.

Names and keys come from other sessions or from arguments. They are data: shortened, stripped of
control characters and quoted, so that no session instructs another through the gate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from callosum.characters import escaped
from callosum.model import Conflict, Kind, State, Verdict
from callosum.redact import quote

_PLAIN: Final = re.compile(r"[A-Za-z0-9._:-]+(?:/[A-Za-z0-9._:-]+)?")
_LONGEST: Final = 40
"""Longest name that stands in a sentence without quotes, in characters."""
_SHOWN: Final = 2

_WHAT: Final = {
    Kind.HELD: "{who} has an active action on {key}",
    Kind.RECENT: "{who} acted on {key} {ago} ({tool})",
    Kind.DUPLICATE: "{who} already did the same on {key} {ago} ({tool})",
    Kind.STALE: "{key} was changed by {who} {ago}, and this session has not read it since",
    Kind.OPPOSED: "{who} committed to the contrary on {key} {ago} ({tool})",
    Kind.UNKNOWN: "an action of {who} on {key} began {ago} ({tool}) and its outcome was never "
    "reported: it may or may not have happened",
}
_DOING: Final = "{who} is doing the same on {key} ({tool})"
_PERHAPS: Final = "{who} may have done the same on {key} {ago} ({tool}): its outcome was never reported"
_QUEUED: Final = "{who} is waiting for {key} already"

_ADVICE: Final = {
    Kind.HELD: "Wait until it is done, do something else, or ask a person.",
    Kind.RECENT: "Check what was done before you add to it.",
    Kind.DUPLICATE: "Skip it unless it must really happen twice.",
    Kind.STALE: "Read it again before you change it.",
    Kind.OPPOSED: "Settle which of the two holds, or ask a person.",
    Kind.UNKNOWN: "Look whether it happened before you try again.",
}


def ask_to_resolve(id: int) -> str:
    """Return what an agent is to ask its person for, so that an ``unknown`` action ends."""
    return f"ask the person to run `callosum resolve {id} --happened`, or `--not` if it did not happen"


def ago(seconds: float) -> str:
    """A duration in words: ``3 s``, ``12 min``, ``5 h``, ``2 d``; never negative."""
    seconds = max(0, seconds)
    for unit, name, limit in ((1, "s", 120), (60, "min", 7200), (3600, "h", 172_800)):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.0f} d"


def since(seconds: float) -> str:
    """When something was, in words: ``just now``, ``3 s ago``."""
    return "just now" if seconds < 1 else f"{ago(seconds)} ago"


def name(text: str) -> str:
    """Return a session's or tool's name as it is if it is plain, otherwise quoted and shortened."""
    return text if len(text) <= _LONGEST and _PLAIN.fullmatch(text) else quote(text)


def describe(conflict: Conflict) -> str:
    """One conflict as a clause without a full stop."""
    form = _WHAT[conflict.kind]
    if conflict.kind is Kind.DUPLICATE and conflict.state is State.OPEN:
        form = _DOING
    if conflict.kind is Kind.DUPLICATE and conflict.state is State.UNKNOWN:
        form = _PERHAPS
    if conflict.kind is Kind.HELD and conflict.state is State.QUEUED:
        form = _QUEUED
    who = "this session" if conflict.own else name(conflict.instance)
    key = quote(escaped(conflict.key), 160) if conflict.key else "the same content"
    return form.format(who=who, key=key, ago=since(conflict.age), tool=name(conflict.tool))


def sentence(
    verdict: Verdict,
    tier: int,
    conflicts: Sequence[Conflict],
    count: int,
    note: str = "",
) -> str | None:
    """The whole paragraph; None where there is nothing to say.

    ``conflicts`` come gravest first, ``count`` is how many there are in all. ``note`` is a sentence
    of the gate's own (about an approval, a deadlock), which comes before the advice.
    """
    if verdict is Verdict.ALLOW and not note:
        return None
    parts = []
    if conflicts:
        # Of an action that is in the way for several reasons, the gravest says enough.
        told_of = {item.id: item for item in reversed(conflicts)}
        shown = [item for item in conflicts if told_of[item.id] is item][:_SHOWN]
        told = "; ".join(describe(item) for item in shown)
        others = count - (len(conflicts) - len(told_of)) - len(shown)
        more = f"; and {others} more" if others > 0 else ""
        parts.append(f"Conflict: {told}{more}.")
    if verdict is Verdict.BLOCK:
        parts.append(f"Tier {tier} action blocked.")
    elif verdict is Verdict.ASK:
        parts.append(f"Tier {tier} action not run: a person must decide.")
    elif verdict is Verdict.CONFIRM:
        parts.append("The call was not run.")
    if note:
        parts.append(note)
    if conflicts:
        gravest = conflicts[0]
        lost = gravest.state is State.UNKNOWN
        if lost and verdict in (Verdict.BLOCK, Verdict.ASK):
            parts.append(f"Look whether it happened, then {ask_to_resolve(gravest.id)}.")
        else:
            parts.append(_ADVICE[Kind.UNKNOWN if lost else gravest.kind])
    if verdict is Verdict.CONFIRM:
        parts.append("If it is still right, repeat the call to confirm it; otherwise skip it.")
    return "[Callosum] " + " ".join(parts)
