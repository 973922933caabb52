"""What other sessions are doing and did around keys, from what a store fetched there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from callosum.model import Action, Key, State
from callosum.stores.base import MAX_NEARBY_SESSIONS
from callosum.stores.records import LIVE, acted
from callosum.stores.view import Fetched, related


def around(fetched: Fetched, keys: Iterable[str], mine: Collection[str]) -> list[Action]:
    """Return the actions of sessions other than ``mine`` on these keys and on keys that overlap them, each once."""
    names = sorted(fetched.acts)
    met = (name for key in keys for group in related(Key(key), names) for name in group)
    found: dict[int, Action] = {}
    for name in dict.fromkeys(met):
        for action in _shown([action for action in fetched.newest(name) if action.session not in mine]):
            found.setdefault(action.id, action)
    return list(found.values())


def _shown(actions: Sequence[Action]) -> list[Action]:
    """Return the newest action of each session and all live ones. ``actions`` are on one key, newest first."""
    each: dict[str, Action] = {}
    for action in actions:
        if acted(action):
            each.setdefault(action.session, action)
    acts = sorted(each.values(), key=lambda action: -(action.ended or action.started))
    lost = [action for action in actions if action.state is State.UNKNOWN]
    live = [action for action in actions if action.state in LIVE and action.state is not State.UNKNOWN]
    return acts[:MAX_NEARBY_SESSIONS] + live[:MAX_NEARBY_SESSIONS] + lost[:MAX_NEARBY_SESSIONS]
