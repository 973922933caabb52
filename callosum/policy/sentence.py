"""The paragraph for the agent: what is in the way, who, how long ago, and what it can do.

Names and keys come from other sessions or from arguments. They are data: shortened, stripped of
control characters and quoted, so that no session instructs another through the gate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from callosum.characters import SIXTHS, escaped, measure, tokens
from callosum.model import MAX_PURPOSE, Conflict, Kind, State, Verdict
from callosum.policy.summary import shown
from callosum.redact import quote
from callosum.rules.name import read_name
from callosum.rules.opposites import SIDES, stance

_PLAIN: Final = re.compile(r"[A-Za-z0-9._:-]+(?:/[A-Za-z0-9._:-]+)?")
_LONGEST: Final = 40
"""Longest name that stands in a sentence without quotes, in characters."""
_SHOWN: Final = 2
PARAGRAPH: Final = 400
"""Most tokens of the paragraph, without a note of the gate's own."""
_CLAUSES: Final = 320
"""Tokens of the clauses about conflicts, above which only the gravest is told, in fewer words."""
DETAILS: Final = 600
"""Most tokens of what follows the paragraph."""
_NTH: Final = ("first", "second", "third", "fourth")
"""Attempts to replace a changed file unread; the last of them goes through."""

_WHAT: Final = {
    Kind.HELD: "{who} has an active action on {key}",
    Kind.RECENT: "{who} acted on {key} {ago} ({tool})",
    Kind.DUPLICATE: "{who} already did the same on {key} {ago} ({tool})",
    Kind.STALE: "{key} was changed by {who} {ago}, and this session has not read it since",
    Kind.OPPOSED: "{who} committed to the contrary on {key} {ago} ({tool})",
    Kind.UNKNOWN: "an action of {who} on {key} began {ago} ({tool}) and its outcome was never "
    "reported: it may or may not have happened",
}
_RUNNING: Final = {
    Kind.RECENT: "{who} is acting on {key} now ({tool}, began {ago})",
    Kind.DUPLICATE: "{who} is doing the same on {key} now ({tool}, began {ago})",
    Kind.STALE: "{who} is changing {key} now ({tool}, began {ago})",
    Kind.OPPOSED: "{who} is committing to the contrary on {key} now ({tool}, began {ago})",
}
"""What is said of an action that has not ended: nothing that is not true yet."""
_PERHAPS: Final = "{who} may have done the same on {key} {ago} ({tool}): its outcome was never reported"
_OPPOSED: Final = "{who} already {decided} {key} {ago} ({tool}){what}; this call {decides} it"
_OPPOSED_NOW: Final = "{who} {decided} {key} now ({tool}, began {ago}){what}; this call {decides} it"
_OPPOSED_PERHAPS: Final = (
    "{who} perhaps already {decided} {key} {ago} ({tool}){what}, its outcome was never reported; this call {decides} it"
)
_QUEUED: Final = "{who} is waiting for {key} already"

_ADVICE: Final = {
    Kind.HELD: "Wait until it is done, do something else, or ask a person.",
    Kind.RECENT: "Check what was done before you add to it.",
    Kind.DUPLICATE: "Skip it unless it must really happen twice.",
    Kind.STALE: "Read it again before you change it.",
    Kind.OPPOSED: "Settle which of the two holds, or ask a person.",
}
_WHERE: Final = {
    "email": "in the sent mail",
    "channel": "among the channel's last messages",
    "thread": "among the thread's last messages",
    "file": "at the file",
    "git": "at `git status` and `git log`",
    "slot": "in the calendar",
    "event": "in the calendar",
    "payment": "among the account's payments",
    "account": "among the account's payments",
}
"""Where to look whether something happened, by the kind of its key."""
_DID: Final = {
    Kind.HELD: "{who} began {ago} ({tool})",
    Kind.UNKNOWN: "{who} tried",
}
RELATED: Final = 3
"""Most other actions of the session in the way that are told."""
_CUT_HERE: Final = "\n| …"
_ADVICE_RUNNING: Final = {
    Kind.RECENT: "Wait until it is done, then check what was done.",
    Kind.STALE: "Wait until it is done, then read it again.",
}


def ask_to_resolve(id: int) -> str:
    """Return what an agent is to ask its person for, so that an ``unknown`` action ends."""
    return f"ask the person to run `callosum resolve {id} --happened`, or `--not` if it did not happen"


def no_key(tier: int, tool: str) -> str:
    """Return what people are told, once for each tool and session, of a call from which no key was derived."""
    return (
        f"This tier {tier} call of {name(tool)} names nothing that other sessions could meet it on: only the same call "
        "again would be noticed. A rule with a `contextKey` mends that; `callosum rules gaps` lists such tools."
    )


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


def name(text: str, share: int = 1) -> str:
    """Return a session's or tool's name as it is if it is plain, otherwise quoted and shortened."""
    return text if len(text) <= _LONGEST and _PLAIN.fullmatch(text) else quote(text, 80 // share)


_TAKEN: Final = {
    "attend": ("accept", "decline"),
    "book": ("book", "cancel"),
    "exist": ("create", "delete"),
    "claim": ("claim", "release"),
    "approve": ("approve", "reject"),
}
_IRREGULAR: Final = {"buy": "bought", "sell": "sold", "leave": "left", "withdraw": "withdrew", "pay": "paid",
                     "book": "booked", "hold": "held", "undo": "undid", "freeze": "froze", "unfreeze": "unfroze",
                     "rollback": "rolled back"}  # fmt: skip


@lru_cache(maxsize=512)
def _verb(tool: str, side: str, key: str) -> str:
    """The verb in which a side is told: the tool's own where that says it, else the side's."""
    if side[1:] == "attend" and side[:1] == "+" and key.startswith("slot:"):
        return "book"
    own = read_name(tool if len(tool) <= 256 else tool[:256])
    if own.verb in SIDES and stance(own.verb, own) == side:
        return own.verb
    pair = _TAKEN.get(side[1:])
    if pair is not None:
        return pair[0] if side[:1] == "+" else pair[1]
    return next((verb for verb, said in SIDES.items() if said == side), "")


def decided_by(tool: str, side: str, key: str) -> str:
    """Return what a session did that took a side, in the past tense ("accepted"); ``""`` where no word is known."""
    verb = _verb(tool, side, key)
    if not verb or verb in _IRREGULAR:
        return _IRREGULAR.get(verb, "")
    if verb[-1] == "y" and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ied"
    if verb[-1] == "e":
        return f"{verb}d"
    twice = verb[-1] in "bgmnpt" and verb[-2] in "aeiou" and (len(verb) < 5 or verb == "unban")
    if verb == "cancel" or (twice and verb[-3] not in "aeiou" and verb not in ("open", "join")):
        verb += verb[-1]
    return f"{verb}ed"


def decides_by(tool: str, side: str, key: str) -> str:
    """Return what a call does that takes a side, in the present tense ("declines")."""
    verb = _verb(tool, side, key)
    if verb[-1:] == "y" and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return verb and (f"{verb}es" if verb.endswith(("s", "x", "ch", "sh")) else f"{verb}s")


def describe(conflict: Conflict, share: int = 1) -> str:
    """One conflict as a clause without a full stop; names and keys take one ``share``-th of their usual room."""
    form = _WHAT[conflict.kind]
    if conflict.running:
        form = _RUNNING.get(conflict.kind, form)
    if conflict.kind is Kind.DUPLICATE and conflict.state is State.UNKNOWN:
        form = _PERHAPS
    if conflict.kind is Kind.HELD and conflict.state is State.QUEUED:
        form = _QUEUED
    if conflict.kind is Kind.OPPOSED and conflict.decided and conflict.decides:
        lost = conflict.state is State.UNKNOWN
        form = _OPPOSED_NOW if conflict.running else _OPPOSED_PERHAPS if lost else _OPPOSED
        if conflict.decides == "books" and conflict.decided in ("books", "booked"):
            form += " for something else"
    who = "this session" if conflict.own else name(conflict.instance, share)
    key = quote(escaped(conflict.key), 160 // share) if conflict.key else "the same content"
    return form.format(
        who=who,
        key=key,
        ago=since(conflict.age),
        tool=name(conflict.tool, share),
        decided=conflict.decided,
        decides=conflict.decides,
        what=f", {quote(conflict.what, 120 // share)}" if conflict.what else "",
    )


def did(conflict: Conflict, *, why: bool = True) -> str:
    """Return what the other session did and ``why``, as a sentence; ``""`` where the conflict does not tell."""
    began = conflict.kind is Kind.HELD and conflict.state is not State.QUEUED
    if not (conflict.summary or conflict.purpose or began):
        return ""
    form = _DID[Kind.HELD] if conflict.running else _DID.get(conflict.kind, "{who} did")
    if conflict.state is State.QUEUED:
        form = "{who} wants"
    who = "This session" if conflict.own else name(conflict.instance)
    told = form.format(who=who, ago=since(conflict.age), tool=name(conflict.tool))
    asked = f" (asked: {shown(conflict.purpose, MAX_PURPOSE + 2)})" if conflict.purpose and why else ""
    if not conflict.summary:
        return f"{told}{'' if began or conflict.running else ' it'}{asked}."
    return f"{told}: {conflict.summary}{asked}."


def _look(key: str) -> str:
    """Return the advice to look whether something happened, and where."""
    where = _WHERE.get(key.partition(":")[0], "")
    return f"Look {where} whether it happened" if where else "Look whether it happened"


class Beside(NamedTuple):
    """Another action of the session that is in the way; ``key`` is ``""`` for one on a key of the call's own.

    ``age`` is in seconds.
    """

    tool: str
    key: str
    age: float
    summary: str


def details_of(
    conflicts: Sequence[Conflict],
    change: tuple[str, Sequence[str]] | None = None,
    beside: Sequence[Beside] = (),
    taken: int = 0,
) -> str:
    """Return what follows the paragraph: what others did, and the lines of a change; ``""`` if that is not known.

    All of it comes from other sessions. ``change`` is who changed what is ``stale``, and the lines of that. ``beside``
    are other actions of the first conflict's session. What comes to more than ``DETAILS`` is left out: those first,
    then the end of the change. ``taken`` is how much of that something else takes, as ``measure`` counts.
    """
    room = DETAILS * SIXTHS - taken
    told = ""
    for conflict in _shown(conflicts):
        for line in (did(conflict), did(conflict, why=False)):
            if line and (size := measure(line) + _BLANK) <= room:
                told += f" {line}"
                room -= size
                break
    lines, room = _changed(*change, room) if change is not None else ("", room)
    related: list[str] = []
    for one in beside[:RELATED]:
        piece = (
            f"{name(one.tool)}{f' on {quote(escaped(one.key))}' if one.key else ''}, {since(one.age)}: {one.summary}"
        )
        if (size := measure(f"; {piece}") + (0 if related else _RELATED)) <= room:
            related.append(piece)
            room -= size
    if related:
        told += f" Related, by the same session: {'; '.join(related)}."
    return told + lines


_BLANK: Final = measure(" ")
_RELATED: Final = measure(" Related, by the same session: .")


def _changed(who: str, lines: Sequence[str], room: int) -> tuple[str, int]:
    """Return the lines of a change for which there is room, and the room that is left: none where they were cut."""
    kept = [f"\nWhat {name(who)} changed:"]
    room -= measure(kept[0]) + measure(_CUT_HERE)
    for line in lines:
        size = measure(f"\n{line}")
        if size > room:
            return "".join([*kept, _CUT_HERE] if len(kept) > 1 else []), 0
        kept.append(f"\n{line}")
        room -= size
    return "".join(kept), room


def _shown(conflicts: Sequence[Conflict]) -> list[Conflict]:
    """Return the conflicts that the paragraph tells of; of an action that is in the way twice, the gravest."""
    first = {item.id: item for item in reversed(conflicts)}
    return [item for item in conflicts if first[item.id] is item][:_SHOWN]


def sentence(
    verdict: Verdict,
    tier: int,
    conflicts: Sequence[Conflict],
    count: int,
    note: str = "",
    wait: float = 0,
    attempt: int = 0,
) -> str | None:
    """The whole paragraph; None where there is nothing to say.

    ``conflicts`` come gravest first, ``count`` is how many there are in all. ``note`` is a sentence
    of the gate's own (about an approval, a deadlock), which comes before the advice. ``wait`` is how many
    seconds must pass before a repeat confirms. ``attempt``: the call would replace a changed file unread, for the
    first to third time; a repeat alone does not confirm that yet.
    """
    if verdict is Verdict.ALLOW and not note:
        return None
    parts = []
    if conflicts:
        told = [describe(item) for item in _shown(conflicts)]
        if tokens("; ".join(told)) > _CLAUSES:
            told = [describe(conflicts[0], 4)]
        others = count - (len(conflicts) - len({item.id for item in conflicts})) - len(told)
        more = f"; and {others} more" if others > 0 else ""
        parts.append(f"Conflict: {'; '.join(told)}{more}.")
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
            parts.append(f"{_look(gravest.key)}, then {ask_to_resolve(gravest.id)}.")
        elif lost or gravest.kind is Kind.UNKNOWN:
            parts.append(f"{_look(gravest.key)} before you try again.")
        else:
            advice = _ADVICE[gravest.kind]
            parts.append(_ADVICE_RUNNING.get(gravest.kind, advice) if gravest.running else advice)
    if verdict is Verdict.CONFIRM:
        seconds = f"{math.ceil(wait * 10) / 10:g} s"
        then = f"wait {seconds}, then repeat" if wait > 0 else "repeat"
        if attempt:
            between = f" (wait {seconds} between attempts)" if wait > 0 else ""
            parts.append(
                f"A call made after a new read goes through. Unread, only the {_NTH[-1]} attempt does{between}, "
                f"and this was the {_NTH[attempt - 1]}."
            )
        else:
            parts.append(f"If it is still right, {then} the call to confirm it; otherwise skip it.")
    return "[Callosum] " + " ".join(parts)
