"""Commitments: a side taken on an event, an invitation, a booking, an order or a slot, which outlives its action.

A call makes one by what it does (``accept_invitation``, ``create_event`` in a slot), or declares one (``Call.commits``,
or ``_commitment`` among its params). Promises in words are not read. The thing's own date, from the call, its result
or a slot's key, says when it is over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from callosum.model import SECOND, Call, Commitment, Commits, Key
from callosum.redact import redact_text
from callosum.rules import harvest, slots
from callosum.rules import lexicon as lex
from callosum.rules.keys import APPEND, READ, WRITE, clean, fit
from callosum.rules.lexicon import lists, maps
from callosum.rules.opaque import parsed
from callosum.rules.opposites import SIDES

_KINDS: Final = tuple(f"{kind}:" for kind in maps.COMMITMENT_SIDE_OF)
MAX_SHOWN: Final = 200
"""Longest ``what`` and ``to`` of a commitment, in characters."""
ANYWHERE: Final = timedelta(hours=12)
"""After this a time without an offset has passed in every zone."""
_SIDES: Final = {*SIDES, *maps.VERB_OF_ANSWER, *lex.IS_FOR, *lex.IS_AGAINST, "for", "against"}
SIDE: Final = rf"[+-][A-Za-z][A-Za-z0-9_]{{0,62}}|{'|'.join(sorted(_SIDES))}"
"""A pattern of the sides that a call can declare; letters may be of either case."""
_STANCE: Final = re.compile(r"[+-][A-Za-z][A-Za-z0-9_]{0,62}")
_MAX_NODES: Final = 500
_MAX_DEPTH: Final = 5
_MAX_TEXT: Final = 65_536


def made(
    call: Call, params: Mapping[str, Any], side: str, keys: tuple[Key, ...], said: Any = None
) -> tuple[str, Commitment | None]:
    """Return the side that a call takes and the commitment that it makes, None if it makes none.

    ``side`` is what its verb or an answer among its params says. A declared one counts instead:
    by ``call.commits``, else by ``said``, the call's ``_commitment``.
    """
    declared = call.commits if call.commits is not None else _said(said)
    if declared is not None and any(key.mode is not READ for key in keys):
        taken = side_of(declared.side, keys)
        if taken:
            until = int((declared.until or 0) * SECOND) or over(params, keys)
            return taken, Commitment(until, taken, _shown(declared.what), _shown(declared.to))
    if side[1:] in lex.COMMITMENT_SIDES and any(key.mode is not READ and key.name.startswith(_KINDS) for key in keys):
        return side, Commitment(over(params, keys), side)
    if not side and any(map(takes, keys)):  # it is booked, or moved there
        return side, Commitment(over(params, keys), "+book")
    return side, None


def takes(key: Key) -> bool:
    """Return True if a call that has this key books something: a slot of time, a numbered slot, a place."""
    name = key.name
    if key.mode is WRITE:
        return name[:5] == "slot:" and is_slot(name)
    return key.mode is APPEND and name.endswith(lists.BOOKING_FACETS) and name[name.rfind("|") - 1] != "/"


def is_slot(name: str) -> bool:
    """Return True for a key that only one booking can have."""
    if not name.startswith("slot:"):
        return False
    bar = name.find("|")
    return name[-1] != "/" and ("/" in name if bar < 0 else "/" not in name[:bar])


def contradicts(side: str, other: str) -> bool:
    """Return True if two sides of one thing cannot both hold."""
    if not side or not other or side[0] == other[0]:
        return False
    return side[1:] == other[1:] or (side[1:] in lex.TAKES_PLACE_SIDES and other[1:] in lex.TAKES_PLACE_SIDES)


def side_of(said: str, keys: tuple[Key, ...] = ()) -> str:
    """Return a declared side as a stance (``+attend``), ``""`` for a word that is no side."""
    word = said.strip().lower().replace(" ", "_").replace("-", "_") if len(said) <= 64 else ""
    verb = maps.VERB_OF_ANSWER.get(word, word)
    if _STANCE.fullmatch(said):
        return said
    if verb in lex.IS_FOR or verb == "for":
        sign = "+"
    elif verb in lex.IS_AGAINST or verb == "against":
        sign = "-"
    else:
        sign = SIDES.get(verb, "")[:1]
    if not sign:
        return ""
    about = next(
        (
            maps.COMMITMENT_SIDE_OF[kind]
            for key in keys
            if (kind := key.name.partition(":")[0]) in maps.COMMITMENT_SIDE_OF
        ),
        "",
    )
    return sign + (about or SIDES.get(verb, "+commit")[1:])


def _said(value: Any) -> Commits | None:
    """Return what ``_commitment`` among the params declares; None where it names no side."""
    if isinstance(value, str):
        value = {"side": value}
    if not isinstance(value, Mapping):
        return None
    said = {name: value[name] for name in ("side", "what", "to", "until") if name in value}
    if isinstance(said.get("until"), str):
        said["until"] = _moment(slots.end_of({"end": said["until"]})) / SECOND or None
    try:
        return msgspec.convert(said, Commits)
    except msgspec.ValidationError:
        return None


def _shown(text: str) -> str:
    return redact_text(text[: MAX_SHOWN * 2])[:MAX_SHOWN] if text else ""


# --- when it is over -----------------------------------------------------------------------------------------


def over(params: Mapping[str, Any], keys: tuple[Key, ...] = ()) -> int:
    """Return the moment at which what a call is about is over: by its params, else by its slots; 0 if none tells."""
    found = told(params)
    if found:
        return found
    last = max((key.name for key in keys if key.name.startswith("slot:")), default="")
    parts = last.partition("|")[0].rsplit("/", 2)
    return _moment(slots.end_of({"start": f"{parts[1]}T{parts[2]}", "minutes": 15})) if len(parts) == 3 else 0


def told(value: Any) -> int:
    """Return when the thing ends that a call or a result speaks of, 0 if it does not say.

    The date that is nested least counts. Bounded, whatever the value holds.
    """
    level = [value]
    seen = 0
    for _ in range(_MAX_DEPTH):
        ends: list[datetime] = []
        below: list[Any] = []
        for item in level:
            seen += 1
            if seen > _MAX_NODES:
                return 0
            value = parsed(item, _MAX_TEXT)
            if isinstance(value, Mapping):
                if (end := slots.end_of(value)) is not None:
                    ends.append(end)
                below += [part for part in value.values() if isinstance(part, (Mapping, list, tuple, str))]
            elif isinstance(value, (list, tuple)):
                below += value[:_MAX_NODES]
        if ends:
            return max(map(_moment, ends))
        level = below
        if not level:
            break
    return 0


def _moment(end: datetime | None) -> int:
    if end is None:
        return 0
    try:
        end = end if end.tzinfo is not None else end.replace(tzinfo=UTC) + ANYWHERE
        return max(0, int(end.timestamp())) * SECOND
    except (OverflowError, ValueError):
        return 0


# --- what was made -------------------------------------------------------------------------------------------


def thing_of(keys: tuple[Key, ...], result: Any) -> str:
    """Return the key of what a booking call has made, by the id in its result; ``""`` if it tells none.

    A call that names the thing itself needs no second key.
    """
    booked = [key.name for key in keys if takes(key) or key.name.endswith("/|new")]
    if not booked or any(key.mode is WRITE and not is_slot(key.name) for key in keys):
        return ""
    kind = "event" if any(name.startswith("slot:") and "/" in name for name in booked) else "booking"
    if any(name.endswith("|booking") for name in booked):
        kind = "booking"
    first = booked[0].partition(":")[0]
    kind = first if booked[0].endswith("/|new") and first in maps.COMMITMENT_SIDE_OF else kind
    found = harvest.first_id(result, kind)
    return fit(f"{kind}:{clean(found)}") if found else ""
