"""Looking for a line of waiting calls, and ending a place in it. Every function is pure.

A server's calls that wait for the same keys look one after another, and the first looks for those behind it: its
transaction keeps their places from running out.
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
"""A place that lasts no longer than this is prolonged."""


def looking_step(step: Step, *, behind: bool, places: frozenset[int], due: Callable[[float | None], None]) -> Step:
    """Return the step of a call that looks for its line.

    ``behind``: the call takes no place in the store if it must wait. ``places``: the ids of the places of its line,
    which are kept. ``due`` is told in how many seconds the first of what is in the way runs out of time, None if
    nothing does.
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
    """End a place whose call nobody waits for.

    ``lasts`` is until when its server had it last. Who has prolonged it since has taken it up, and keeps it.
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
        for action in (*key_view.live, *[action for more in key_view.more for action in more.actions])
        if action.state in (State.OPEN, State.QUEUED) and action.id not in waiters
    ]
    left = [end - view.now for end in ends if end > view.now]
    return min(left) / SECOND if left else None


def _kept(view: View, waiters: frozenset[int], settled: set[int]) -> list[Settle]:
    """Return what prolongs the places that would run out soon."""
    kept: dict[int, Settle] = {}
    for key_view in view.keys:
        for action in key_view.live:
            lives = action.state is State.QUEUED and view.now < action.expires < view.now + _RENEWED
            if lives and action.id in waiters and action.id not in settled:
                kept[action.id] = Settle(action, State.QUEUED, expires=view.now + WAITER_TTL)
    return list(kept.values())
