"""What a session knows, as marks: what it has read, and what it was told (PROTOCOL sections 4 and 5).

A mark, not a token, is what confirms: models reword, so the repeat is known by session and key.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from callosum.model import (
    MINUTE,
    SECOND,
    Change,
    KeyView,
    Kind,
    Mark,
    Mode,
    Move,
    Tier,
    Verdict,
    View,
)
from callosum.policy.ask import Ask
from callosum.policy.evidence import Evidence, moment, unreported
from callosum.policy.table import pause

PAUSES: Final = 2
PAUSE_SPAN: Final = 10 * MINUTE
"""After two pauses for ``recent`` or ``held`` on one key in ten minutes, tier 3 is only warned."""

_WARN, _CONFIRM = Verdict.WARN, Verdict.CONFIRM  # an enum's attributes are slow


def was_told(ask: Ask, view: View, item: Evidence) -> bool:
    """Whether the session was told of it, no less gravely; tier 4 ignores what it was told.

    So does whoever a lease of tier 4 holds off: that lease is lifted by its end alone.
    """
    if ask.found.tier >= Tier.CRITICAL or not view.keys:
        return False
    if item.kind is Kind.HELD and item.action.tier >= Tier.CRITICAL:
        return False
    mark = view.keys[item.place].mark
    told, kind = (mark.told, mark.told_kind) if _after(ask, view, mark) else (mark.before, mark.before_kind)
    return item.action.id <= told and item.kind.gravity <= kind


def _after(ask: Ask, view: View, mark: Mark) -> bool:
    """Whether this call was made after the mark's answer was given, and is another call.

    A host may tell (``after``, or another ``run``); where it cannot, a second later is after.
    """
    if ask.call_print and ask.call_print == mark.told_call:
        return False
    if ask.call.after is not None:
        return ask.call.after >= mark.told_at
    if ask.call.run and mark.told_run and ask.call.run != mark.told_run:
        return True
    return view.now - mark.told_at >= SECOND


def lately_told(ask: Ask, view: View) -> bool:
    """Whether a rule's own ``confirm`` was answered by this repeat."""
    return any(
        place.mark.told_at and view.now - place.mark.told_at < PAUSE_SPAN and _after(ask, view, place.mark)
        for place in view.keys
    )


def paused(ask: Ask, view: View, item: Evidence, verdict: Verdict) -> Verdict:
    """The verdict for a host that pauses; at tier 3 only a warning after two mild pauses in ten minutes."""
    result = pause(verdict, item.kind, item.age)
    if result is not Verdict.CONFIRM or ask.found.tier != Tier.HIGH:
        return result
    mild = item.kind in (Kind.RECENT, Kind.HELD)
    pauses = view.keys[item.place].mark.pauses if view.keys else ()
    if mild and len(pauses) >= PAUSES and view.now - pauses[-PAUSES] < PAUSE_SPAN:
        return verdict
    return result


def moved(ask: Ask, view: View, verdict: Verdict, items: tuple[Evidence, ...]) -> list[Move]:
    """The marks as they stand after this answer: what was told, what was read."""
    moves = []
    for number, place in enumerate(view.keys):
        mark = place.mark
        if verdict is _WARN or verdict is _CONFIRM:
            mine = [item for item in items if item.place == number]
            if mine or (verdict is _CONFIRM and not items and number == 0):
                mark = _tell(ask, view, mark, mine, verdict)
        if verdict.proceed and place.key.mode is Mode.READ and _worth_a_read(place, view):
            mark = replace(mark, read=view.now)
        if mark is not place.mark:
            moves.append(Move(place.key.name, mark))
    return moves


def _tell(ask: Ask, view: View, mark: Mark, mine: list[Evidence], verdict: Verdict) -> Mark:
    told = max([mark.told, *(item.action.id for item in mine)])
    kind = max([mark.told_kind, *(item.kind.gravity for item in mine)])
    known = _after(ask, view, mark)
    if mine and (told, kind) == (mark.told, mark.told_kind) and not (known and verdict is _CONFIRM):
        return mark  # a sibling of the call that was told; the second runs from the first telling
    mild = verdict is Verdict.CONFIRM and bool(mine) and all(i.kind in (Kind.RECENT, Kind.HELD) for i in mine)
    return replace(
        mark,
        told=told,
        told_kind=kind,
        told_at=view.now,
        told_call=ask.call_print,
        told_run=ask.call.run or "",
        before=mark.told if known else mark.before,
        before_kind=mark.told_kind if known else mark.before_kind,
        pauses=(*mark.pauses, view.now)[-PAUSES:] if mild else mark.pauses,
    )


def _worth_a_read(place: KeyView, view: View) -> bool:
    """Whether this read says more than the last one did: something changed in between."""
    if not place.mark.read or place.key.name[-1:] == "/":
        return True  # what changed in a tree is not looked up for who only looks
    newest = max((moment(a, view.now) for a in (*place.latest, *place.live)), default=0)
    if any(unreported(action, view.now) for action in place.latest):
        return True
    return newest >= place.mark.read


def saw(moment: int, view: View) -> Change:
    """Marks the keys of a view as looked at by its session at ``moment``. A mark never moves back. A pure step."""
    return Change(
        moves=tuple(
            [Move(place.key.name, replace(place.mark, read=moment)) for place in view.keys if place.mark.read < moment]
        )
    )
