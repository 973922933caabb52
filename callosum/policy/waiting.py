"""Looking for a queue of waiting calls, and ending a waiter. Every function is pure.

The calls of one server that wait for the same keys look one after another, and the first looks for those behind it: its
transaction keeps their waiters alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from callosum.model import SECOND, Action, Change, KeyView, Settle, State, Step, View
from callosum.policy.admit import WAITER_TTL
from callosum.policy.call_facts import Decided
from callosum.policy.lifecycle import lapses

PARKED: Final[Any] = object()
"""The answer of a step whose call waits outside the store."""
_RENEWED: Final = WAITER_TTL * 2 // 3
"""Microseconds of remaining life below which a waiter is prolonged."""


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
        due(_soonest(view, places))
        kept = _kept(view, places, {settle.action.id for settle in change.settles}) if places else ()
        return replace(change, settles=(*change.settles, *kept)) if kept else change

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


def _soonest(view: View, waiters: frozenset[int]) -> float | None:
    ends = [
        max(action.expires, action.limit if action.alive else 0)
        for key_view in view.keys
        for action in (*key_view.live, *[action for group in key_view.groups for action in group.actions])
        if action.state in (State.OPEN, State.QUEUED) and action.id not in waiters
    ]
    left = [end - view.now for end in ends if end > view.now]
    return min(left) / SECOND if left else None


def _kept(view: View, waiters: frozenset[int], settled: set[int]) -> list[Settle]:
    """Return what prolongs the waiters that would run out soon."""
    kept: dict[int, Settle] = {}
    for key_view in view.keys:
        for action in key_view.live:
            lives = action.state is State.QUEUED and view.now < action.expires < view.now + _RENEWED
            if lives and action.id in waiters and action.id not in settled:
                kept[action.id] = Settle(action, State.QUEUED, expires=view.now + WAITER_TTL)
    return list(kept.values())
