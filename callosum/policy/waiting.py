"""The queue of waiting calls: joining it, looking for it, and ending a waiter. Every function is pure.

The calls of one server that wait for the same keys look one after another, and the first looks for those behind it: its
transaction keeps their waiters alive.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

from msgspec.structs import replace

from callosum.model import (
    SECOND,
    Action,
    Change,
    Content,
    Entry,
    Event,
    KeyView,
    Opening,
    Settle,
    State,
    Step,
    Verdict,
    View,
)
from callosum.policy.answer import body_of, draft, entry_of
from callosum.policy.call_facts import Assessment, CallFacts, Decided
from callosum.policy.lifecycle import EXPIRED, lapses

WAITER_TTL: Final = 3 * SECOND
"""Microseconds for which a waiter that stopped polling keeps its place in the queue."""
PARKED: Final[Any] = object()
"""The answer of a step whose call waits outside the store."""
_RENEWED: Final = WAITER_TTL * 2 // 3
"""Microseconds of remaining life below which a waiter is prolonged."""


def queue(facts: CallFacts, view: View, *, takes_up: bool) -> Change:
    """Put the call in the queue, take over its old waiter there, or keep its place. A waiter is a ``queued`` action.

    A call that takes over a waiter prolongs it, so that its previous server sees that it must not end the waiter.
    """
    settles, entries = lapses(view)
    waiting = draft(facts, Assessment(Verdict.BLOCK), 0)
    until = view.now + WAITER_TTL
    mine = waiter_of(facts, view)
    if mine is not None:
        if takes_up or mine.expires - view.now < WAITER_TTL // 2:
            settles.append(Settle(mine, State.QUEUED, expires=until))
        return Change(entries=tuple(entries), settles=tuple(settles), answer=Decided(waiting, waiter_id=mine.id))
    id = view.now + len(entries)
    entries.append(entry_of(facts, Event.QUEUE, None, {}))
    opening = Opening(State.QUEUED, until, host=facts.call.host, content=Content(waiter_print(facts)))
    return Change(tuple(entries), opening, tuple(settles), answer=Decided(waiting, waiter_id=id))


def waiter_of(facts: CallFacts, view: View, left: bytes = b"") -> Action | None:
    """Return the call's waiter in the queue, None if it has none or its time is up.

    ``left`` is the digest of a waiter that an earlier try of this call left when its server stopped or its connection
    was lost.
    """
    for key_view in view.keys if facts.waiter or left else ():
        for action in key_view.live:
            if action.state is State.QUEUED and view.now < action.expires:
                again = left and action.session == facts.actor and action.content.digest == left
                if again or action.id == facts.waiter:
                    return action
    return None


def waiter_print(facts: CallFacts) -> bytes:
    """Return a digest of call id and content that identifies a waiting call in its session; empty without a call id."""
    if not facts.call_print:
        return b""
    return blake2b(facts.call_print + facts.classification.content.digest, digest_size=16, person=b"waiting").digest()


def left_behind(facts: CallFacts, view: View) -> tuple[list[Settle], list[Entry]]:
    """Return what ends lapsed actions and the call's waiter: its decision was made, and what it opens is newer."""
    settles, entries = lapses(view)
    mine = waiter_of(facts, view)
    if mine is not None:
        settles.append(Settle(mine, State.CANCELLED, ended=view.now))
    return settles, entries


def expire(facts: CallFacts, view: View) -> Change:
    """Journal a call that no client waits for any more. Pure.

    The step opens nothing, notifies no session and takes the call out of the queue.
    """
    if facts.waits and not facts.waiter and (left := waiter_of(facts, view, waiter_print(facts))) is not None:
        facts = replace(facts, waiter=left.id)
    mine = waiter_of(facts, view)
    settles = () if mine is None else (Settle(mine, State.CANCELLED, ended=view.now),)
    decision = draft(facts, Assessment(Verdict.BLOCK), view.now)
    body = {"reason": EXPIRED, **body_of(facts, replace(decision, warning=None))}
    entry = entry_of(facts, Event.REFUSE, None, body)
    return Change((entry,), settles=settles, answer=Decided(decision, expired=True))


def looking_step(step: Step, *, behind: bool, places: frozenset[int], due: Callable[[float | None], None]) -> Step:
    """Return the step of a call that looks for its queue.

    ``behind`` says that the call gets no waiter in the store if it must wait. ``places`` holds the ids of the waiters
    in its queue, which are kept alive. ``due`` is called with the number of seconds until the first conflicting action
    runs out of time, None if none does.
    """

    def look(view: View) -> Change:
        change = step(view)
        decided: Decided = change.answer
        if behind and decided.queued and change.open is not None:
            return Change(answer=PARKED)
        live = [action for key_view in view.keys for action in key_view.live]
        grouped = [action for key_view in view.keys for group in key_view.groups for action in group.actions]
        ends = [
            max(action.expires, action.limit if action.alive else 0)
            for action in (*live, *grouped)
            if action.state in (State.OPEN, State.QUEUED) and action.id not in places
        ]
        left = [end - view.now for end in ends if end > view.now]
        due(min(left) / SECOND if left else None)
        kept = {
            action.id: Settle(action, State.QUEUED, expires=view.now + WAITER_TTL)
            for action in live
            if action.state is State.QUEUED and view.now < action.expires < view.now + _RENEWED and action.id in places
        }
        for settle in change.settles:
            kept.pop(settle.action.id, None)
        return replace(change, settles=(*change.settles, *kept.values())) if kept else change

    return look


def give_up_waiter(waiter_id: int, expires_then: int, view: View) -> Change:
    """End a waiter whose call is no longer waited for.

    ``expires_then`` is the waiter's end when its server last saw it. If another server has prolonged the waiter since,
    it has taken the waiter over and keeps it.
    """
    for key_view in view.keys:
        for action in key_view.live:
            if action.id == waiter_id and action.state is State.QUEUED and action.expires <= expires_then:
                ended: Action = replace(action, expires=view.now)
                settles, entries = lapses(View(view.now, (KeyView(key_view.key, live=(ended,)),)))
                return Change(tuple(entries), settles=tuple(settles))
    return Change()
