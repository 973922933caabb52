"""Deciding a call: one view in, one change out. The heart of the gate (PROTOCOL sections 4 to 6).

The timeline of a call that meets another session::

    mira intercepts   evidence: doug did something on the key 40 s ago, mira was never told
                      table: recent at tier 3 warns; mira's host pauses, doug is fresh: confirm
                      change: a journal entry; mira's mark on the key now says "told of doug's"
    mira repeats      (another call id, made after the answer) the evidence is at or before her
                      mark and no graver: allow; the action opens with a lease and a token
    mira completes    see ``settle``

A mark, not a token, is what confirms: models reword, so the repeat is known by session and key.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callosum.model import (
    DAY,
    HOUR,
    MINUTE,
    NO_KEY,
    SECOND,
    Action,
    Call,
    Change,
    Classification,
    Conflict,
    Content,
    Decision,
    Entry,
    Event,
    Key,
    KeyView,
    Kind,
    Lease,
    Mark,
    Mode,
    Move,
    Opening,
    Scope,
    Settle,
    State,
    Tier,
    Verdict,
    View,
)
from callosum.policy.evidence import Asking, Evidence, gather, last_look, lost, moment, unreported
from callosum.policy.sentence import sentence
from callosum.policy.settle import lapses
from callosum.policy.table import cell, observe, pause
from callosum.rules.content import contrary

MOST_CONFLICTS: Final = 10
WAITER_TTL: Final = 3 * SECOND
"""How long a waiter that stopped polling still keeps its place."""
APPROVAL_TTL: Final = HOUR
"""How long a question waits for a person, and how long the person's answer holds."""
HOST_LIMIT: Final = HOUR
"""How long a living host process keeps a lease, where the tool names no limit of its own."""
PAUSES: Final = 2
PAUSE_SPAN: Final = 10 * MINUTE
"""After two pauses for ``recent`` or ``held`` on one key in ten minutes, tier 3 is only warned."""


_FLOORS: Final = (0, 0, 0, 2, 1)
"""By tier: the lowest tier of an act that can be ``recent`` to it; none below tier 3 is told of any."""


_ALLOW, _WARN, _CONFIRM = Verdict.ALLOW, Verdict.WARN, Verdict.CONFIRM  # an enum's attributes are slow


class Ask(Struct, frozen=True, gc=False):
    """All that a decision needs beside the view.

    ``call_print`` is the call id as bytes (empty without one). ``summary`` is what the journal
    shows of the params. ``params`` (JSON) are set where an approval must be able to run them.
    ``ttl`` is the lease's length in microseconds. ``waits``: the caller would still wait;
    ``waiter`` is its place in the queue.
    """

    call: Call
    actor: str
    found: Classification
    keys: tuple[Key, ...]
    call_print: bytes
    summary: Any
    ttl: int
    params: bytes | None = None
    waits: bool = False
    waiter: int = 0
    observes: bool = False


class Case(Struct, frozen=True, gc=False):
    """What was weighed: the verdict, what is shown for it, all evidence, and a sentence of the gate's own.

    ``items`` is the evidence the session is told of, gravest first; ``conflicts`` its first ten.
    """

    verdict: Verdict
    items: tuple[Evidence, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    note: str = ""


_CLEAR: Final = Case(_ALLOW)


class Ruling(Struct, frozen=True, gc=False):
    """A step's answer: the decision without the store's ids, or that the call waits its turn."""

    decision: Decision
    queued: bool = False


def scope_of(ask: Ask, identity: bytes | None) -> Scope:
    """What ``admit`` needs to see for this call."""
    found, call = ask.found, ask.call
    tier = found.tier
    return Scope(
        call.namespace,
        ask.actor,
        ask.keys,
        identity,
        _lookups(found.content) if tier >= 2 else (),
        _FLOORS[tier],
        tier >= 2 or _may_need_a_person(found),
        ask.waits,
        None,
        call.parent or "",
        call.continues or "",
        tier >= 3,
    )


def keys_of(found: Classification) -> tuple[Key, ...]:
    """The keys the store works with: the call's own, or the hidden one of its content."""
    if found.keys or (found.tier < 2 and not _may_need_a_person(found)):
        return found.keys
    return (Key(NO_KEY + found.content.digest.hex(), Mode.WRITE),)


def _may_need_a_person(found: Classification) -> bool:
    """Whether the rule itself may have a call of any tier approved: its questions must be found again."""
    if found.verdict is not None:
        return found.verdict in (Verdict.ASK, Verdict.BLOCK)
    return found.cells is not None and not {Verdict.ASK, Verdict.BLOCK}.isdisjoint(found.cells.values())


def admit(ask: Ask, view: View) -> Change:
    """Decides the call; the change's answer is a ``Ruling``. Pure."""
    earlier = view.earlier
    if earlier is not None:
        if view.now - earlier.started >= DAY:
            view = replace(view, earlier=None)  # the identity of a call is good for a day
        elif not lost(earlier, view.now):
            return Change(answer=Ruling(_again(earlier)))
    if ask.found.verdict is None and not ask.waiter and _alone(view):
        return _open(ask, view, _CLEAR)
    return _weigh(ask, view)


def _alone(view: View) -> bool:
    """Whether nothing in the view can be in the way."""
    if view.twins or view.earlier is not None:
        return False
    for place in view.keys:  # noqa: SIM110 - on the way of every call
        if place.live or place.latest or place.stale:
            return False
    return True


def _weigh(ask: Ask, view: View) -> Change:
    call, found = ask.call, ask.found
    asking = Asking(ask.actor, call.run or "", call.host, found)
    evidence = gather(asking, view, ask.waiter)
    if view.earlier is not None:
        evidence.append(Evidence(view.earlier, Kind.UNKNOWN, 0, view.now - view.earlier.started, own=True))
    cells = [(item, cell(found.tier, item.kind, item.action.tier, found.cells)) for item in evidence]
    held = [item for item, verdict in cells if item.kind is Kind.HELD and verdict is not Verdict.ALLOW]
    note = ""
    if held and ask.waits:
        if not _deadlocks(held, view):
            return _queue(ask, view)
        note = "Waiting was refused: who is in the way waits for something this session holds."
    shown: list[tuple[Evidence, Verdict]] = []
    for item, verdict in cells:
        if verdict is Verdict.ALLOW or _told(ask, view, item):
            continue
        shown.append((item, _paused(ask, view, item, verdict) if call.pause else verdict))
    verdict = max((v for _, v in shown), key=_gravity, default=Verdict.ALLOW)
    floor = found.verdict
    confirmed = floor is Verdict.CONFIRM and _lately_told(ask, view)
    if floor is not None and floor.gravity > verdict.gravity and not confirmed:
        verdict = floor
        note = note or f"Rule {found.rule!r} asks for this."
    shown.sort(key=lambda pair: (-pair[0].kind.gravity, -pair[0].action.id))
    items = tuple(item for item, _ in shown)
    case = Case(verdict, items, _conflicts(view, items[:MOST_CONFLICTS]), tuple(evidence), note)
    return _needs_a_person(ask, view, case) if verdict.gravity >= Verdict.ASK.gravity else _conclude(ask, view, case)


def _gravity(verdict: Verdict) -> int:
    return verdict.gravity


# --- what the session already knows ---------------------------------------------------------------


def _told(ask: Ask, view: View, item: Evidence) -> bool:
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


def _lately_told(ask: Ask, view: View) -> bool:
    """Whether a rule's own ``confirm`` was answered by this repeat."""
    return any(
        place.mark.told_at and view.now - place.mark.told_at < PAUSE_SPAN and _after(ask, view, place.mark)
        for place in view.keys
    )


def _paused(ask: Ask, view: View, item: Evidence, verdict: Verdict) -> Verdict:
    result = pause(verdict, item.kind, item.age)
    if result is not Verdict.CONFIRM or ask.found.tier != Tier.HIGH:
        return result
    mild = item.kind in (Kind.RECENT, Kind.HELD)
    pauses = view.keys[item.place].mark.pauses if view.keys else ()
    if mild and len(pauses) >= PAUSES and view.now - pauses[-PAUSES] < PAUSE_SPAN:
        return verdict
    return result


def _marks(ask: Ask, view: View, verdict: Verdict, items: tuple[Evidence, ...]) -> list[Move]:
    """The marks as they stand after this answer: what was told, what was read."""
    moves = []
    for number, place in enumerate(view.keys):
        mark = place.mark
        if verdict is _WARN or verdict is _CONFIRM:
            mine = [item for item in items if item.place == number]
            if mine or (verdict is _CONFIRM and not items and number == 0):
                mark = _tell(ask, view, mark, mine, verdict)
        if verdict.proceed:
            if place.key.mode is Mode.READ:
                if _worth_a_read(place, view):
                    mark = replace(mark, read=view.now)
            elif place.own is not None:
                look = last_look(place, ask.found.window)
                if look > mark.read:
                    mark = replace(mark, read=look)
        if mark is not place.mark:
            moves.append(Move(place.key.name, mark))
    return moves


def _tell(ask: Ask, view: View, mark: Mark, mine: list[Evidence], verdict: Verdict) -> Mark:
    told = max([mark.told, *(item.action.id for item in mine)])
    kind = max([mark.told_kind, *(item.kind.gravity for item in mine)])
    if mine and (told, kind) == (mark.told, mark.told_kind):
        return mark  # a sibling of the call that was told; the second runs from the first telling
    known = _after(ask, view, mark)
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
    if not place.mark.read:
        return True
    newest = max((moment(a, view.now) for a in (*place.latest, *place.live)), default=0)
    if any(unreported(action, view.now) for action in place.latest):
        return True
    return newest >= place.mark.read


# --- the ways a decision ends ----------------------------------------------------------------------


def _deadlocks(held: list[Evidence], view: View) -> bool:
    return any(item.action.session in view.wanted for item in held)


def _queue(ask: Ask, view: View) -> Change:
    """Takes or keeps a place in the queue: a waiter is an action in state ``queued``."""
    settles, entries = lapses(view)
    ruling = Ruling(_draft(ask, Case(Verdict.BLOCK)), queued=True)
    until = view.now + WAITER_TTL
    mine = _place_in_queue(ask, view)
    if mine is not None:
        if mine.expires - view.now < WAITER_TTL // 2:
            settles.append(Settle(mine, State.QUEUED, expires=until))
        return Change(entries=tuple(entries), settles=tuple(settles), answer=ruling)
    entries.append(_entry(ask, Event.QUEUE, None, {}))
    opening = Opening(State.QUEUED, until, host=ask.call.host, content=Content())
    return Change(tuple(entries), opening, tuple(settles), answer=ruling)


def _place_in_queue(ask: Ask, view: View) -> Action | None:
    if not ask.waiter:
        return None
    for place in view.keys:
        for action in place.live:
            if action.id == ask.waiter and action.state is State.QUEUED and view.now < action.expires:
                return action
    return None


def _needs_a_person(ask: Ask, view: View, case: Case) -> Change:
    """``ask`` or ``block``: passes if a person agreed to just this, asks if it must."""
    answer = _answered(ask, view)
    if answer is None:
        return _conclude(ask, view, case)
    if answer.approved > 0 and view.now - answer.approved < APPROVAL_TTL:
        if not any(item.action.id > answer.id for item in case.items):
            verdict = Verdict.WARN if case.items else Verdict.ALLOW
            agreed = replace(case, verdict=verdict, note=f"A person approved this ({answer.id}).")
            return _open(ask, view, agreed, used=answer)
    elif answer.approved < 0 and view.now + answer.approved < APPROVAL_TTL:
        note = f"A person refused this ({answer.id}). Do not try it again; do something else."
        return _conclude(ask, view, replace(case, verdict=Verdict.BLOCK, note=note))
    elif case.verdict is Verdict.ASK and not answer.approved:
        note = f"The question ({answer.id}) still waits for an answer; nobody has decided."
        decision = _draft(ask, replace(case, note=note))
        settles, entries = lapses(view)
        _give_up_place(ask, view, settles)
        entries.append(_entry(ask, Event.INTERCEPT, case.verdict, _body(ask, decision)))
        return Change(tuple(entries), settles=tuple(settles), answer=Ruling(replace(decision, id=answer.id)))
    return _conclude(ask, view, case)


def _answered(ask: Ask, view: View) -> Action | None:
    """This session's question about just this call, the newest; expired ones are gone."""
    best = None
    for place in view.keys:
        for action in place.live:
            if action.state is not State.ASKED or action.session != ask.actor or view.now >= action.expires:
                continue
            same = action.content.digest == ask.found.content.digest
            reworded = ask.call.rewrite and action.tool == ask.call.tool and _names(action) == _names(ask)
            if (same or reworded) and (best is None or action.id > best.id):
                best = action
    return best


def _names(of: Action | Ask) -> list[str]:
    return [key.name for key in of.keys]


def _conclude(ask: Ask, view: View, case: Case) -> Change:
    """The answer as it stands: lets the call through, or says no and opens nothing."""
    verdict = case.verdict
    if verdict.proceed:
        return _open(ask, view, case)
    if ask.observes or view.now < view.observe_until:
        return _open(ask, view, replace(case, verdict=observe(verdict)), observed=verdict)
    if verdict is Verdict.ASK and not case.note:
        case = replace(case, note="It runs once a person has approved it; ask again then, or do something else.")
    decision = _draft(ask, case)
    settles, entries = lapses(view)
    _give_up_place(ask, view, settles)
    opening = None
    if verdict is Verdict.ASK:
        opening = Opening(State.ASKED, view.now + APPROVAL_TTL, content=ask.found.content, params=ask.params)
    entries.append(_entry(ask, Event.INTERCEPT, verdict, _body(ask, decision)))
    moves = tuple(_marks(ask, view, verdict, case.items))
    return Change(tuple(entries), opening, tuple(settles), moves, content=ask.found.content, answer=Ruling(decision))


def _open(ask: Ask, view: View, case: Case, *, used: Action | None = None, observed: Verdict | None = None) -> Change:
    """Lets the call through: an open action with a lease at tiers 3 and 4, a done one below.

    ``used`` is the approval that it runs on, ``observed`` the verdict that ``observe`` let pass.
    """
    found, call, now = ask.found, ask.call, view.now
    settles: list[Settle] = []
    entries: list[Entry] = []
    if case is not _CLEAR:
        settles, entries = lapses(view)
        _give_up_place(ask, view, settles)
    if used is not None:
        settles.append(Settle(used, State.CANCELLED, ended=now))
    leases = found.tier >= 3
    limit = 0
    if call.host is not None:
        limit = now + (int(call.timeout * SECOND) if call.timeout else HOST_LIMIT)
    opening = Opening(
        State.OPEN if leases else State.DONE,
        now + ask.ttl,
        limit,
        call.host if leases else None,
        False,
        found.content,
        _prints(found.content) if found.tier >= 2 else (),
        _supersedes(ask, case.evidence) if case.evidence else (),
    )
    decision = _draft(ask, case, observed)
    if used is not None and call.rewrite and used.answer and used.content.digest != found.content.digest:
        decision = replace(decision, params=msgspec.json.decode(used.answer))
    entries.append(_entry(ask, Event.INTERCEPT, case.verdict, _body(ask, decision)))
    moves = tuple(_marks(ask, view, _ALLOW if observed is not None else case.verdict, case.items))
    return Change(tuple(entries), opening, tuple(settles), moves, answer=Ruling(decision))


def _give_up_place(ask: Ask, view: View, settles: list[Settle]) -> None:
    """The place in the queue ends with the decision; the action that opens is a newer one."""
    mine = _place_in_queue(ask, view)
    if mine is not None:
        settles.append(Settle(mine, State.CANCELLED, ended=view.now))


def _supersedes(ask: Ask, evidence: tuple[Evidence, ...]) -> tuple[int, ...]:
    """The unknown actions that this one repeats: once it is done, they are settled."""
    return tuple(
        {
            item.action.id
            for item in evidence
            if item.kind is Kind.UNKNOWN
            and (
                item.action.content.digest == ask.found.content.digest
                or (item.own and item.action.tool == ask.call.tool)
            )
        }
    )


def _again(earlier: Action) -> Decision:
    """The answer that was given to this very call, from what was kept of it."""
    body = msgspec.json.decode(earlier.answer, type=_Kept) if earlier.answer else _Kept()
    return _draft_from(earlier, body)


class _Kept(Struct):
    conflicts: tuple[Conflict, ...] = ()
    count: int = 0
    warning: str | None = None
    observed: Verdict | None = None


def _draft_from(earlier: Action, kept: _Kept) -> Decision:
    names = tuple(key.name for key in earlier.keys if not key.name.startswith(NO_KEY))
    return Decision(
        proceed=earlier.verdict.proceed,
        tier=earlier.tier,
        context_key=names[0] if names else None,
        id=earlier.id,
        verdict=earlier.verdict,
        context_keys=names,
        rule=earlier.rule,
        conflicts=kept.conflicts,
        conflict_count=kept.count,
        warning=kept.warning,
        lease=Lease(earlier.id, max(earlier.expires, earlier.limit) / SECOND) if earlier.state is State.OPEN else None,
        observed=kept.observed,
        repeated=True,
    )


def _draft(ask: Ask, case: Case, observed: Verdict | None = None) -> Decision:
    """The answer, still without its id and lease."""
    verdict, count = case.verdict, len(case.items)
    names = tuple([key.name for key in ask.found.keys])
    silent = observed is not None or (verdict is _ALLOW and not case.note)
    return Decision(
        verdict.proceed,
        ask.found.tier,
        names[0] if names else None,
        0,
        verdict,
        names,
        ask.found.rule,
        case.conflicts,
        count,
        None if silent else sentence(verdict, ask.found.tier, case.conflicts, count, case.note),
        None,
        observed,
    )


def _conflicts(view: View, items: tuple[Evidence, ...]) -> tuple[Conflict, ...]:
    return tuple([conflict_of(item, view.now) for item in items])


def conflict_of(item: Evidence, now: int) -> Conflict:
    """Evidence as it is shown: ages and remaining times in seconds."""
    action = item.action
    held = item.kind is Kind.HELD
    return Conflict(
        kind=item.kind,
        instance=action.session,
        tool=action.tool,
        tier=action.tier,
        key="" if action.key.startswith(NO_KEY) else action.key,
        id=action.id,
        state=State.UNKNOWN if lost(action, now) else action.state,
        age=round((now - action.started if held else item.age) / SECOND, 3),
        expires_in=round((max(action.expires, action.limit) - now) / SECOND, 3) if held else None,
        own=item.own,
    )


def _body(ask: Ask, decision: Decision) -> dict[str, Any]:
    """What the journal keeps beside the facts of the entry."""
    body: dict[str, Any] = {}
    if ask.summary is not None:
        body["params"] = ask.summary
    if decision.conflicts:
        body["conflicts"] = decision.conflicts
        body["count"] = decision.conflict_count
    if decision.warning:
        body["warning"] = decision.warning
    if decision.observed is not None:
        body["observed"] = decision.observed
    if ask.found.gap:
        body["gap"] = True
    return body


def _entry(ask: Ask, event: Event, verdict: Verdict | None, body: dict[str, Any]) -> Entry:
    return Entry(
        event,
        ask.actor,
        ask.call.namespace,
        0,
        0,
        ask.call.tool,
        ask.found.tier,
        verdict,
        ask.found.rule,
        ask.call.run or "",
        ask.keys,
        None,
        body,
    )


def _prints(content: Content) -> tuple[bytes, ...]:
    """The digests under which later calls can find this act."""
    return (*_repeatable(content), _stance_print(content.stance)) if content.stance else _repeatable(content)


def _lookups(content: Content) -> tuple[bytes, ...]:
    """The digests under which this call looks for earlier acts."""
    if not content.stance:
        return _repeatable(content)
    return (*_repeatable(content), _stance_print(contrary(content.stance)))


def _repeatable(content: Content) -> tuple[bytes, ...]:
    if not content.repeats:
        return ()
    return (content.digest, content.origin) if content.origin else (content.digest,)


def _stance_print(stance: str) -> bytes:
    return blake2b(stance.encode(), digest_size=8, person=b"stance").digest()
