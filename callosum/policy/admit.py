"""Deciding a call: one view in, one change out. The heart of the gate.

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

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from operator import attrgetter, itemgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from callosum.model import (
    DAY,
    HOUR,
    NO_KEY,
    SECOND,
    Action,
    Change,
    Classification,
    Conflict,
    Content,
    Entry,
    Event,
    Kind,
    Lease,
    Mode,
    Opening,
    Settle,
    State,
    Tier,
    Verdict,
    View,
)
from callosum.policy.answer import again, body_of, draft, entry_of, told_of
from callosum.policy.ask import Ask, Case, Ruling, prints_of
from callosum.policy.commitments import dated, ended_by
from callosum.policy.evidence import Asking, Evidence, Many, gather, gather_more, lost
from callosum.policy.marks import (
    attempt_of,
    lately_told,
    moved,
    paused,
    replaces,
    shown_enough,
    told_until,
    until_repeat,
    was_told,
)
from callosum.policy.sentence import no_key
from callosum.policy.settle import EXPIRED, lapses
from callosum.policy.summary import note_in
from callosum.policy.table import cell, committed, observe
from callosum.policy.unread import Prepared, is_among, is_paused, must_wait, passing, unread_changes
from callosum.redact import quote
from callosum.rules.protected import GUARDS

WAITER_TTL: Final = 3 * SECOND
"""How long a waiter that stopped polling still keeps its place."""
APPROVAL_TTL: Final = HOUR
"""How long a question waits for a person, and how long the person's answer holds."""
HOST_LIMIT: Final = HOUR
"""How long a living host process keeps a lease, where the tool names no limit of its own."""
MAX_WORD: Final = 300
"""How much of a person's word to the agent is told, in characters."""
MOST_CONFLICTS: Final = 10

_ALLOW: Final = Verdict.ALLOW  # an enum's attributes are slow
_OPENED, _DONE, _CANCELLED, _FAILED = State.OPEN, State.DONE, State.CANCELLED, State.FAILED
_INTERCEPT = Event.INTERCEPT
_CLEAR: Final = Case(_ALLOW)


def admit(ask: Ask, view: View) -> Change:
    """Decides the call; the change's answer is a ``Ruling``. Pure."""
    earlier = view.earlier
    if earlier is not None:
        if view.now - earlier.started >= DAY:
            view = replace(view, earlier=None)  # the identity of a call is good for a day
        elif earlier.state in (_CANCELLED, _FAILED):
            view = replace(view, earlier=None)  # nothing happened, so this attempt is decided anew
        elif not lost(earlier, view.now):
            decision = again(earlier)
            return Change(answer=Ruling(decision, undecided=decision.merged))
    if ask.found.verdict is None and not ask.waiter and _alone(view):
        return _open(ask, view, _CLEAR)
    return _weigh(ask, view)


def admit_or_doubt(ask: Ask, looked: AbstractSet[int], view: View) -> Change:
    """Decide the call as ``admit`` does, unless an action in its way may have been refused by a person.

    Then nothing is written and the ``Ruling`` names these actions, except those in ``looked``: the gate looks at the
    host's transcript and decides again. Pure.
    """
    change = admit(ask, view)
    ruling: Ruling = change.answer
    if not ruling.queued and (not ruling.decision.conflicts or ruling.decision.repeated):
        return change
    if ruling.undecided:
        return change
    doubtful = _unreported(ruling, view) - looked
    if not doubtful:
        return change
    newest = tuple(sorted(doubtful, reverse=True)[:MOST_CONFLICTS])
    return Change(answer=Ruling(ruling.decision, doubtful=newest, undecided=True))


def _unreported(ruling: Ruling, view: View) -> set[int]:
    """Return the ids of conflicting actions of host sessions that have no definite report."""
    shown = {conflict.id for conflict in ruling.decision.conflicts}
    places = [action for place in view.keys for action in (*place.live, *place.latest, *place.stale)]
    left = set(shown)
    for more in (more for place in view.keys for more in place.more):
        if ruling.queued:
            places += more.actions
        elif met := left.intersection(more.ids):
            places += [more.actions[bisect_left(more.ids, id)] for id in met]
            left -= met
    own = [place.own for place in view.keys if place.own is not None]
    earlier = [view.earlier] if view.earlier is not None else []
    return {
        action.id
        for action in (*places, *own, *view.twins, *earlier)
        if (action.id in shown or ruling.queued)
        and (not action.ended or action.state is State.UNKNOWN)
        and action.state in (State.OPEN, State.DONE, State.UNKNOWN)
        and not action.lock
        and "/" in action.session
    }


def _alone(view: View) -> bool:
    """Whether nothing in the view can be in the way."""
    if view.twins or view.earlier is not None:
        return False
    for place in view.keys:  # noqa: SIM110 - on the way of every call
        if place.live or place.latest or place.stale or place.more:
            return False
    return True


def _weigh(ask: Ask, view: View) -> Change:
    call, found = ask.call, ask.found
    if ask.waiter and _place_in_queue(ask, view) is None:
        ask = replace(ask, waiter=0)  # it was given up: who came meanwhile comes first
    left = None
    if ask.waits and not ask.waiter and (left := _left_place(ask, view)) is not None:
        ask = replace(ask, waiter=left.id)
    asking = Asking(ask.actor, call.run or "", call.host, found, call.instance)
    evidence = gather(asking, view, ask.waiter)
    prepared = None
    if ask.here and found.tier < Tier.HIGH and (unread := unread_changes(ask, view, evidence)):
        prepared = ask.prepared
        if prepared is None or (prepared.changes != unread and not prepared.changing):
            own = {place.key.name: place.own.id for place in view.keys if place.own is not None}
            return Change(answer=Ruling(draft(ask, Case(Verdict.BLOCK), 0), undecided=True, unread=unread, own=own))
        if prepared.passes:
            evidence = [item for item in evidence if not is_among(ask, unread, item)]
    earlier = view.earlier
    if earlier is not None and not any(one.action.id == earlier.id and one.kind is Kind.UNKNOWN for one in evidence):
        evidence.append(Evidence(earlier, Kind.UNKNOWN, 0, view.now - earlier.started, own=True))
    cells = [
        (
            item,
            committed(found.tier, asks=call.pause, overlay=found.cells)
            if item.committed
            else cell(found.tier, item.kind, item.action.tier, found.cells),
        )
        for item in evidence
    ]
    many = [
        (one, verdict)
        for one in (gather_more(asking, view, evidence, ask.waiter) if _is_crowded(view) else ())
        if (verdict := cell(found.tier, one.item.kind, one.item.action.tier, found.cells)) is not Verdict.ALLOW
    ]
    held = [item for item, verdict in cells if item.kind is Kind.HELD and verdict is not Verdict.ALLOW]
    held += [one.item for one, _ in many if one.item.kind is Kind.HELD]
    note = ""
    if held and ask.waits:
        if not _deadlocks(held, view):
            return _queue(ask, view, takes_up=left is not None)
        note = "Waiting was refused: the other session waits for something that this session holds. Finish that first."
    shown, more = _shown(ask, view, cells, many, prepared)
    return _judged(ask, view, shown, more, evidence, prepared, note)


def _judged(
    ask: Ask,
    view: View,
    shown: list[tuple[Evidence, Verdict]],
    more: int,
    evidence: list[Evidence],
    prepared: Prepared | None,
    note: str,
) -> Change:
    """Decide by what the session is to be told of, and by ``more`` that is only counted."""
    found = ask.found
    verdict = max(map(_second, shown), key=_gravity, default=_ALLOW)
    floor = found.verdict
    confirmed = floor is Verdict.CONFIRM and lately_told(ask, view)
    if floor is not None and floor.gravity > verdict.gravity and not confirmed:
        verdict = floor
        note = note or _required(found, floor)
    items: tuple[Evidence, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    details = ""
    if shown:
        by_place = sorted(map(_first, shown), key=_place)
        items = tuple(sorted(sorted(by_place, key=_action_id, reverse=True), key=_kind_gravity, reverse=True))
        compared = prepared.shown if prepared is not None else ""  # which is more than the journal has
        conflicts, details = told_of(view, items[:MOST_CONFLICTS], ask, compared)
    passed = None
    if prepared is not None:
        note = " ".join(filter(None, (note, prepared.note)))
        if prepared.passes:
            passed = prepared
            verdict = Verdict.WARN if note and verdict is Verdict.ALLOW else verdict
    case = Case(verdict, items, conflicts, tuple(evidence), note, more, details=details, passed=passed)
    return _needs_a_person(ask, view, case) if verdict.gravity >= Verdict.ASK.gravity else _conclude(ask, view, case)


def _shown(
    ask: Ask,
    view: View,
    cells: list[tuple[Evidence, Verdict]],
    many: Sequence[tuple[Many, Verdict]],
    prepared: Prepared | None,
) -> tuple[list[tuple[Evidence, Verdict]], int]:
    """Return the evidence that the session is to be told of, each with the verdict that it alone would get.

    And how much more there is that is only counted.
    """
    shown = []
    for item, verdict in cells:
        if must_wait(ask, view, prepared, item):
            shown.append((item, max(verdict, Verdict.CONFIRM, key=_gravity)))
            continue
        if verdict is Verdict.ALLOW:
            continue
        answer = paused(ask, view, item, verdict) if ask.call.pause else verdict
        if answer is Verdict.WARN and is_paused(ask, prepared, item):
            answer = Verdict.CONFIRM
        if was_told(ask, view, item) and (answer is not Verdict.CONFIRM or shown_enough(ask, view, item)):
            continue
        shown.append((item, answer))
    more = 0
    for one, verdict in many:
        answer = paused(ask, view, one.item, verdict) if ask.call.pause else verdict
        unseen, others = _unseen(ask, view, one, pauses=answer is Verdict.CONFIRM)
        shown += [(item, answer) for item in unseen]
        more += others
    return shown, more


def _unseen(ask: Ask, view: View, many: Many, *, pauses: bool) -> tuple[list[Evidence], int]:
    """Return the newest evidence of many actions that the session is to be told of, and how many more there are.

    ``pauses``: the call is paused for it, so a change that replacing a file would undo may have to be shown again.
    """
    told = told_until(ask, view, many.item)
    if pauses and replaces(ask, many.item):
        again = many.each(many.actions, view.now)
        return [item for item in again if item.action.id > told or not shown_enough(ask, view, item)], 0
    first = bisect_right(many.ids, told)
    newest = max(first, len(many.ids) - MOST_CONFLICTS)
    return many.each(many.actions[newest:], view.now), newest - first


def _required(found: Classification, verdict: Verdict) -> str:
    """Return the note about a verdict that a rule requires. The note of a guard's rule says what it protects."""
    why = found.why[0] if found.why else ""
    if why.startswith(GUARDS):
        return f"Rule {found.rule!r} protects Callosum itself: {why.removeprefix(GUARDS)}. Only a person may do this."
    instead = " Do something else, or ask a person." if verdict is Verdict.BLOCK else ""
    return f"Rule {found.rule!r} requires this.{instead}"


def _is_crowded(view: View) -> bool:
    """Whether the view holds open actions by sort."""
    for place in view.keys:  # noqa: SIM110 - on the way of most calls
        if place.more:
            return True
    return False


_gravity: Final = attrgetter("gravity")
_first: Final[Callable[[tuple[Evidence, Verdict]], Evidence]] = itemgetter(0)
_second: Final[Callable[[tuple[Evidence, Verdict]], Verdict]] = itemgetter(1)
_place, _action_id, _kind_gravity = attrgetter("place"), attrgetter("action.id"), attrgetter("kind.gravity")


def expire(ask: Ask, view: View) -> Change:
    """Journal a call that nobody waits for any more. It opens nothing, notifies nobody and leaves the queue. Pure."""
    settles: list[Settle] = []
    if ask.waits and not ask.waiter and (left := _left_place(ask, view)) is not None:
        ask = replace(ask, waiter=left.id)
    _give_up_place(ask, view, settles)
    decision = draft(ask, Case(Verdict.BLOCK), view.now)
    body = {"reason": EXPIRED, **body_of(ask, replace(decision, warning=None))}
    entry = entry_of(ask, Event.REFUSE, None, body)
    return Change((entry,), settles=tuple(settles), answer=Ruling(decision, expired=True))


# --- the ways a decision ends ----------------------------------------------------------------------


def _deadlocks(held: list[Evidence], view: View) -> bool:
    return any(item.action.session in view.wanted for item in held)


def _queue(ask: Ask, view: View, *, takes_up: bool) -> Change:
    """Takes, takes up or keeps a place in the queue: a waiter is an action in state ``queued``.

    Who takes one up prolongs it, so that whoever had it sees that it is not theirs to give up.
    """
    settles, entries = lapses(view)
    waiting = draft(ask, Case(Verdict.BLOCK), 0)
    until = view.now + WAITER_TTL
    mine = _place_in_queue(ask, view)
    if mine is not None:
        if takes_up or mine.expires - view.now < WAITER_TTL // 2:
            settles.append(Settle(mine, State.QUEUED, expires=until))
        return Change(entries=tuple(entries), settles=tuple(settles), answer=Ruling(waiting, place=mine.id))
    id = view.now + len(entries)
    entries.append(entry_of(ask, Event.QUEUE, None, {}))
    opening = Opening(State.QUEUED, until, host=ask.call.host, content=Content(_print_of(ask)))
    return Change(tuple(entries), opening, tuple(settles), answer=Ruling(waiting, place=id))


def _place_in_queue(ask: Ask, view: View) -> Action | None:
    if not ask.waiter:
        return None
    for place in view.keys:
        for action in place.live:
            if action.id == ask.waiter and action.state is State.QUEUED and view.now < action.expires:
                return action
    return None


def _left_place(ask: Ask, view: View) -> Action | None:
    """The place that an earlier try of the same call left when its server stopped or its connection was lost."""
    print_ = _print_of(ask)
    for place in view.keys if print_ else ():
        for action in place.live:
            mine = action.state is State.QUEUED and action.session == ask.actor and view.now < action.expires
            if mine and action.content.digest == print_:
                return action
    return None


def _print_of(ask: Ask) -> bytes:
    """What tells a waiting call from the session's others: its call id and content; nothing without a call id."""
    if not ask.call_print:
        return b""
    return blake2b(ask.call_print + ask.found.content.digest, digest_size=16, person=b"waiting").digest()


def _needs_a_person(ask: Ask, view: View, case: Case) -> Change:
    """``ask`` or ``block``: passes if a person agreed to just this, asks if it must."""
    answer = _answered(ask, view)
    if answer is None:
        return _conclude(ask, view, case)
    if answer.approved > 0 and view.now - answer.approved < APPROVAL_TTL:
        if not any(item.action.id > answer.id for item in case.items):
            verdict = Verdict.WARN if case.items else Verdict.ALLOW
            agreed = replace(case, verdict=verdict, note=f"A person approved this call ({answer.id}).")
            return _open(ask, view, agreed, used=answer)
    elif answer.approved < 0 and view.now + answer.approved < APPROVAL_TTL:
        note = f"A person refused this call ({answer.id}). Do not repeat it; do something else.{_word(answer, view)}"
        return _conclude(ask, view, replace(case, verdict=Verdict.BLOCK, note=note))
    elif case.verdict is Verdict.ASK and not answer.approved:
        note = f"Nobody has answered the question yet ({answer.id})."
        decision = draft(ask, replace(case, note=note), answer.id)
        settles, entries = lapses(view)
        _give_up_place(ask, view, settles)
        entries.append(entry_of(ask, Event.INTERCEPT, case.verdict, body_of(ask, decision, case.details)))
        return Change(tuple(entries), settles=tuple(settles), answer=Ruling(decision))
    return _conclude(ask, view, case)


def _word(refused: Action, view: View) -> str:
    """What the person said who refused: it stands in the entry of the refusal, whose moment the action has."""
    moment = -refused.approved
    body = view.bodies((moment,)).get(moment) if view.bodies is not None else None
    note = note_in(body) if body is not None else ""
    return f" They say: {quote(note, MAX_WORD)}." if note else ""


def _answered(ask: Ask, view: View) -> Action | None:
    """This session's question about just this call, else about one that this is reworded from: the newest.

    Expired ones are gone.
    """
    found: dict[tuple[bool, int], Action] = {}
    for place in view.keys:
        for action in place.live:
            if action.state is not State.ASKED or action.session != ask.actor or view.now >= action.expires:
                continue
            same = action.content.digest == ask.found.content.digest
            if same or _reworded(ask, action):
                found[same, action.id] = action
    return found[max(found)] if found else None


def _reworded(ask: Ask, question: Action) -> bool:
    """Whether the call may run in place of the one that a person was asked about: with the params that were shown.

    They are kept for a question of a host that can replace params; without them nothing but that very call was agreed
    to.
    """
    if not ask.call.rewrite or question.tool != ask.call.tool or _names(question) != _names(ask):
        return False
    return question.approved <= 0 or bool(question.answer)


def _names(of: Action | Ask) -> list[str]:
    return [key.name for key in of.keys]


def _conclude(ask: Ask, view: View, case: Case) -> Change:
    """The answer as it stands: lets the call through, or says no and opens nothing."""
    verdict = case.verdict
    if verdict.proceed:
        change = _open(ask, view, case)
        return change if case.passed is None else passing(change, case.passed, view, ask.found.window)
    if ask.observes or view.now < view.observe_until:
        return _open(ask, view, replace(case, verdict=observe(verdict)), observed=verdict)
    settles, entries = lapses(view)
    _give_up_place(ask, view, settles)
    moves = tuple(moved(ask, view, verdict, case.items))
    if verdict is Verdict.CONFIRM:
        case = replace(case, wait=until_repeat(ask, view, moves), attempt=attempt_of(ask, view, case.items, moves))
    decision = draft(ask, case, view.now + len(entries))  # its entry follows what lapsed
    opening = None
    if verdict is Verdict.ASK:
        opening = Opening(State.ASKED, view.now + APPROVAL_TTL, content=ask.found.content, params=ask.params)
    entries.append(entry_of(ask, Event.INTERCEPT, verdict, body_of(ask, decision, case.details)))
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
    if found.gap and _is_news(view):
        case = replace(case, note=f"{case.note} {no_key(found.tier, call.tool)}".lstrip())
    leases = found.tier >= 3
    expires = now + ask.ttl
    limit = 0
    if call.host is not None:
        limit = now + (int(call.timeout * SECOND) if call.timeout else HOST_LIMIT)
    content, params = found.content, None
    if used is not None and call.rewrite and used.answer and used.content.digest != content.digest:
        content, params = used.content, msgspec.json.decode(used.answer)  # what others meet is what runs
    if content.commitment is not None:
        content = dated(content, now)
    opening = Opening(
        _OPENED if leases else _DONE,
        expires,
        limit,
        call.host if leases else None,
        False,
        content,
        prints_of(content) if found.tier >= 2 or content.commitment is not None else (),
        _supersedes(ask, case.evidence) if case.evidence else (),
    )
    if content.commitment is not None and view.twins and (ended := ended_by(found, view)):
        opening = replace(opening, supersedes=(*opening.supersedes, *ended))
    id = now + len(entries)
    lease = Lease(id, max(expires, limit) / SECOND, (expires - id) / SECOND) if leases else None
    decision = draft(ask, case, id, observed, lease)
    if params is not None:
        decision = replace(decision, params=params)
    entries.append(entry_of(ask, _INTERCEPT, case.verdict, body_of(ask, decision, case.details)))
    moves = tuple(moved(ask, view, _ALLOW if observed is not None else case.verdict, case.items))
    return Change(tuple(entries), opening, tuple(settles), moves, answer=Ruling(decision))


def _is_news(view: View) -> bool:
    """Return True if the session was not yet told that the tool's calls have no key; ``keys_of`` asks for the mark."""
    place = view.keys[-1] if view.keys else None
    return (
        place is not None and place.key.mode is Mode.READ and place.key.name.startswith(NO_KEY) and not place.mark.read
    )


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
