"""The paragraph for the agent: what is in the way, who, how long ago, and what it can do.

Names and keys come from other sessions or from arguments. They are data: shortened, stripped of
control characters and quoted, so that no session instructs another through the gate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from callosum.characters import SIXTHS, escaped, measure, tokens
from callosum.model import MAX_PURPOSE, Conflict, Kind, State, Verdict
from callosum.policy.summary import shown
from callosum.redact import quote
from callosum.rules.name import read_name
from callosum.rules.opposites import SIDES, stance

_PLAIN: Final = re.compile(r"(?ai)(?!(?:.*?[a-z]{2}(?<!\bagent)(?<!agent:main)[.:][a-z]{2}){2})[\w.:-]+(?:/[\w.:-]+)?")
"""A name that needs no quotes. Three words joined by dots or colons, besides `agent:main`, could be an instruction."""
_LONGEST: Final = 40
"""Maximum length of a name without quotes in a sentence, in characters."""
_SHOWN: Final = 2
PARAGRAPH: Final = 400
"""Most tokens of the paragraph, without a note of the gate's own."""
_CLAUSES: Final = 320
"""Tokens of the clauses about conflicts above which only the gravest is named, in fewer words."""
DETAILS: Final = 600
"""Most tokens of what follows the paragraph."""
_NTH: Final = ("first", "second", "third", "fourth")
"""Attempts to replace a changed file unread; the last of them goes through."""

_WHAT: Final[Mapping[tuple[Kind, str], str]] = {
    (Kind.HELD, ""): "{who} has an active action on {key}",
    (Kind.HELD, State.QUEUED): "{who} is already waiting for {key}",
    (Kind.RECENT, ""): "{who} acted on {key} {ago} ({tool})",
    (Kind.RECENT, "now"): "{who} is acting on {key} now ({tool}, began {ago})",
    (Kind.DUPLICATE, ""): "{who} already did the same on {key} {ago} ({tool})",
    (Kind.DUPLICATE, "now"): "{who} is doing the same on {key} now ({tool}, began {ago})",
    (Kind.DUPLICATE, State.UNKNOWN): "{who} may have done the same on {key} {ago} ({tool}), "
    "but never reported its outcome",
    (Kind.STALE, ""): "{who} changed {key} {ago} ({tool}), and this session has not read it since",
    (Kind.STALE, "now"): "{who} is changing {key} now ({tool}, began {ago})",
    (Kind.OPPOSED, ""): "{who} decided the opposite about {key} {ago} ({tool})",
    (Kind.OPPOSED, "now"): "{who} is deciding the opposite about {key} now ({tool}, began {ago})",
    (Kind.UNKNOWN, ""): "{who} began an action on {key} {ago} ({tool}) and never reported its outcome: "
    "it may or may not have happened",
}
"""Clauses by kind, and by what has become of the other action: running ("now"), its state, or anything else ("").

Those about a running action claim nothing that has not happened yet.
"""
_OPPOSED: Final = "{who} already {of.decided} {key} {ago} ({tool}){what}"
_OPPOSED_NOW: Final = "{who} {of.decided} {key} now ({tool}, began {ago}){what}"
_OPPOSED_LOST: Final = "{who} perhaps already {of.decided} {key} {ago} ({tool}){what}, but never reported its outcome"

_NEXT: Final = {
    (Verdict.WARN, Kind.HELD): "Check its result before you build on yours.",
    (Verdict.WARN, Kind.RECENT): "Check what was done before you add to it.",
    (Verdict.WARN, Kind.DUPLICATE): "Skip it unless it must really happen twice.",
    (Verdict.WARN, Kind.STALE): "Read it again before you change it.",
    (Verdict.WARN, Kind.OPPOSED): "Find out which of the two holds, or ask a person.",
    (Verdict.CONFIRM, Kind.HELD): "Wait until it is done, then {repeat} if it is still right.",
    (Verdict.CONFIRM, Kind.RECENT): "Check what was done, then {repeat} if it is still right.",
    (Verdict.CONFIRM, Kind.DUPLICATE): "Skip it, or {repeat} if it must really happen twice.",
    (Verdict.CONFIRM, Kind.STALE): "Read it again, then {repeat} if it is still right.",
    (Verdict.CONFIRM, Kind.OPPOSED): "Find out which of the two holds; {repeat} only if this one does.",
    (Verdict.BLOCK, Kind.HELD): "Wait until it is done, do something else, or ask a person.",
    (Verdict.BLOCK, Kind.RECENT): "Check what was done. If the call is still needed, ask a person.",
    (Verdict.BLOCK, Kind.DUPLICATE): "Skip it. If it must really happen twice, ask a person.",
    (Verdict.BLOCK, Kind.STALE): "Read it again, then make the call anew.",
    (Verdict.BLOCK, Kind.OPPOSED): "Ask a person which of the two holds.",
}
"""The next step of a session whose call runs, was paused (repeating it confirms) or is blocked, by gravest conflict."""
_WHILE_RUNNING: Final = (
    ("Check what was done before you add to it", "Wait until it is done, then check what was done"),
    ("Read it again before you change it", "Wait until it is done, then read it again"),
    ("Check what was done", "Wait until it is done and check it"),
    ("Read it again", "Wait until it is done and read it again"),
)
"""What the step says instead where the other action has not ended."""
_BECAME: Final = {
    Verdict.BLOCK: "Tier {} action blocked.",
    Verdict.ASK: "Tier {} action not run: a person must decide.",
    Verdict.CONFIRM: "The call was not run.",
}
_ONCE_APPROVED: Final = "Once a person approves it, make the call again; until then do something else."
_WHERE: Final = {
    "email": "the sent mail",
    "channel": "the channel's last messages",
    "thread": "the thread's last messages",
    "file": "the file",
    "git": "`git status` and `git log`",
    "slot": "the calendar",
    "event": "the calendar",
    "payment": "the account's payments",
    "account": "the account's payments",
}
"""What shows whether something happened, by the kind of its key."""
_DID: Final = {Kind.HELD: "{who} began {ago} ({tool})", Kind.UNKNOWN: "{who} tried"}
RELATED: Final = 3
"""Maximum number of other actions of the conflicting session that are shown."""
_RELATED: Final = " Related, by the same session: {}."
_CUT_HERE: Final = "\n| …"
WORDS: Final = 60
"""Most words of the paragraph. A quoted key, name or text counts as one: another session or an argument supplied it."""
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def words(text: str) -> int:
    """Return the number of words of a sentence; a quoted text is one."""
    return len(_QUOTED.sub("quoted", text).split())


def ask_to_resolve(id: int) -> str:
    """Return what an agent is to ask its person for, so that an ``unknown`` action ends."""
    return f"ask the person to run `callosum resolve {id} --happened` (or `--not`)"


def no_key(tier: int, tool: str) -> str:
    """Return the note for a call from which no key was derived. A session gets it once for each tool."""
    return (
        f"Nothing in this tier {tier} call of {name(tool)} says what it affects, so only an identical call would be "
        "noticed. A rule with a `contextKey` fixes that; `callosum rules gaps` lists such tools."
    )


def ago(seconds: float) -> str:
    """Return a duration in words: ``3 s``, ``12 min``, ``5 h``, ``2 d``. It is never negative."""
    seconds = max(0, seconds)
    for unit, name, limit in ((1, "s", 120), (60, "min", 7200), (3600, "h", 172_800)):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.0f} d"


def since(seconds: float) -> str:
    """Return an age in words: ``just now``, ``3 s ago``."""
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
    """Return the verb that names a side: the tool's own verb if it says the side, otherwise the side's."""
    if side[1:] == "attend" and side[:1] == "+" and key.startswith("slot:"):
        return "book"
    own = read_name(tool if len(tool) <= 256 else tool[:256])
    if own.verb in SIDES and stance(own.verb, own) == side:
        return own.verb
    if (pair := _TAKEN.get(side[1:])) is not None:
        return pair[0] if side[:1] == "+" else pair[1]
    return next((verb for verb, said in SIDES.items() if said == side), "")


def decided_by(tool: str, side: str, key: str) -> str:
    """Return what a session did that took a side, in the past tense ("accepted"); ``""`` if no word is known."""
    verb = _verb(tool, side, key)
    if not verb or verb in _IRREGULAR:
        return _IRREGULAR.get(verb, "")
    if verb[-1] == "e" or (verb[-1] == "y" and verb[-2] not in "aeiou"):
        return f"{verb[:-1]}{'e' if verb[-1] == 'e' else 'ie'}d"
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


def describe(conflict: Conflict, share: int = 1, actor: str = "") -> str:
    """Return one conflict as a clause without a full stop, for the session ``actor``.

    Names and keys take one ``share``-th of their usual room.
    """
    kind, lost = conflict.kind, conflict.state is State.UNKNOWN
    form = _WHAT.get((kind, "now" if conflict.running else conflict.state), _WHAT[kind, ""])
    if kind is Kind.OPPOSED and conflict.decided and conflict.decides:
        form = _OPPOSED_NOW if conflict.running else _OPPOSED_LOST if lost else _OPPOSED
        form += "; this call {of.decides} it"
        if conflict.decides == "books" and conflict.decided in ("books", "booked"):
            form += " for something else"
    if not conflict.key:
        form = form.replace(" on {key}", "" if kind is Kind.DUPLICATE else " with the same content")
    who = "this session" if conflict.own else name(conflict.instance, share)
    if actor and conflict.instance.startswith(f"{actor}:"):
        who += " (a sub-agent of this session)"
    return form.format(
        who=who,
        key=quote(escaped(conflict.key), 160 // share),
        ago=since(conflict.age),
        tool=name(conflict.tool, share),
        of=conflict,
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


_LOOKS: Final = (
    (re.compile(r"\|remote:"), "run `git fetch`"),
    (re.compile(r"\|(?:HEAD|index)\Z"), "run `git status`"),
    (re.compile(r"\|stash\Z"), "run `git stash list`"),
    (re.compile(r"^file:.*/\Z"), "look at it again (`git status`, `git log`)"),
    (re.compile(r"\A(?:process|port):"), "check what runs now"),
    (re.compile(""), "read it again"),
)
"""How a session sees the current state of what has changed, by a pattern of the key."""


def next_step(verdict: Verdict, gravest: Conflict, repeat: str, *, gone: bool = False) -> str:
    """Return the best next step, by the gravest conflict. ``repeat`` says how to confirm a paused call."""
    is_lost, where = gravest.state is State.UNKNOWN, _WHERE.get(gravest.key.partition(":")[0])
    check = f"Check {where} to see whether it happened" if where else "Check whether it happened"
    if is_lost and verdict in (Verdict.BLOCK, Verdict.ASK):
        return f"{check}, then {ask_to_resolve(gravest.id)}."
    if verdict is Verdict.ASK:
        return _ONCE_APPROVED
    if is_lost or gravest.kind is Kind.UNKNOWN:
        again = f"; {repeat} only if it did not." if verdict is Verdict.CONFIRM else " before you try again."
        return f"{check}{again}"
    step = _NEXT[verdict if verdict in (Verdict.CONFIRM, Verdict.BLOCK) else Verdict.WARN, gravest.kind]
    if gravest.state is State.QUEUED and verdict is not Verdict.CONFIRM:
        step = _NEXT[Verdict.BLOCK, Kind.HELD]
    elif gravest.running:
        step = next((step.replace(*pair) for pair in _WHILE_RUNNING if pair[0] in step), step)
    if "ead it again" in step:
        look = "find out why it is gone" if gone else next(how for of, how in _LOOKS if of.search(gravest.key))
        step = step.replace("Read it again", look[0].upper() + look[1:]).replace("read it again", look)
    if gravest.kind is Kind.RECENT and "|remote:" in gravest.key:
        step = step.replace("heck what", "heck with `git fetch` what").replace("check it", "check it with `git fetch`")
    return step.format(repeat=repeat)


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

    All of it comes from other sessions. ``change`` holds the session that changed what is ``stale``, and the lines of
    that change. ``beside`` holds other actions of the first conflict's session. Text beyond ``DETAILS`` is left out:
    ``beside`` first, then the end of the change. ``taken`` is the part of it that other text needs, as ``measure``
    counts.
    """
    room = DETAILS * SIXTHS - taken
    told = ""
    for conflict in _shown(conflicts):
        for line in (did(conflict), did(conflict, why=False)):
            if line and (size := measure(f" {line}")) <= room:
                told += f" {line}"
                room -= size
                break
    lines, room = _changed(*change, room) if change is not None else ("", room)
    related: list[str] = []
    for one in beside[:RELATED]:
        piece = (
            f"{name(one.tool)}{f' on {quote(escaped(one.key))}' if one.key else ''}, {since(one.age)}: {one.summary}"
        )
        if (size := measure(f"; {piece}") + (0 if related else measure(_RELATED.format("")))) <= room:
            related.append(piece)
            room -= size
    if related:
        told += _RELATED.format("; ".join(related))
    return told + lines


def _changed(who: str, lines: Sequence[str], room: int) -> tuple[str, int]:
    """Return the lines of a change for which there is room, and the room that is left: none where they were cut."""
    kept = [f"\nWhat {name(who)} changed:"]
    left = room - measure(kept[0]) - measure(_CUT_HERE)
    if not lines or left < 0:
        return "", room
    room = left
    for line in lines:
        size = measure(f"\n{line}")
        if size > room:
            return "".join([*kept, _CUT_HERE] if len(kept) > 1 else []), 0
        kept.append(f"\n{line}")
        room -= size
    return "".join(kept), room


def _shown(conflicts: Sequence[Conflict]) -> list[Conflict]:
    """Return the conflicts that the paragraph names; of an action that conflicts twice, the gravest conflict."""
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
    actor: str = "",
    *,
    gone: bool = False,
) -> str | None:
    """Return the paragraph for the agent: conflicts, what became of the call, and the best next step.

    The paragraph has at most ``WORDS`` words besides a note about a merge. If two conflicts do not fit, it tells of
    the gravest and counts the other. Return None if there is nothing to say.

    ``conflicts`` are sorted, gravest first; ``count`` is how many there are in all. ``note`` is a sentence of the
    gate's own (about an approval, a deadlock, a merge); that of a blocked call says the next step. ``wait``: seconds
    that must pass before a repeat confirms. ``attempt`` is 1 to 3 if the call would replace a changed file that the
    session has not read again; repeating it does not confirm it yet. ``gone``: there is nothing left to read.
    """
    if verdict is Verdict.ALLOW and not note:
        return None
    seconds = f"{math.ceil(wait * 10) / 10:g} s"
    rest = [_BECAME.get(verdict, "").format(tier), note]
    repeat = f"wait {seconds} and repeat the call" if wait > 0 else "repeat the call"
    if verdict is Verdict.CONFIRM and attempt:
        between = f" ({seconds} apart)" if wait > 0 else ""
        rest.append(
            f"Read it again, then make the call anew. Without a new read only the {_NTH[-1]} attempt{between} goes "
            f"through; this was the {_NTH[attempt - 1]}."
        )
    elif conflicts and not (note and verdict is Verdict.BLOCK):
        rest.append(next_step(verdict, conflicts[0], repeat, gone=gone))
    elif verdict is Verdict.ASK:
        rest.append(_ONCE_APPROVED)
    elif verdict is Verdict.CONFIRM:
        rest.append(f"If it is still right, {repeat} to confirm it; otherwise skip it.")
    said = " ".join(filter(None, rest))
    if not conflicts:
        return f"[Callosum] {said}"
    shown = _shown(conflicts)
    actions = count - len(conflicts) + len({item.id for item in conflicts})

    def clauses(some: Sequence[Conflict], share: int = 1) -> str:
        more = f"; and {actions - len(some)} more" if actions > len(some) else ""
        return f"Conflict: {'; '.join([describe(item, share, actor) for item in some])}{more}."

    told = clauses(shown)
    if len(shown) > 1 and words(f"[Callosum] {told} {said}") > WORDS:
        told = clauses(shown[:1])
    if tokens(told) > _CLAUSES:
        told = clauses(shown[:1], 4)
    return f"[Callosum] {told} {said}".rstrip()
