"""What stores keep in addition to an action, and predicates that classify actions.

Every store keeps the same facts in its own form: rows, blobs or the objects themselves.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import DAY, Action, Entry, Event, Mode, State
from callosum.stores.base import Probe

REMEMBERED: Final = DAY
"""Microseconds for which the identity of a call is remembered."""
WAITS: Final = frozenset({State.QUEUED, State.ASKED, State.OPEN})
LIVE: Final = WAITS | {State.UNKNOWN}
"""States of actions that every call on their keys must see, however many there are."""
ACTED: Final = frozenset({State.OPEN, State.DONE, State.UNKNOWN})
"""States of actions that did something or may have."""
TAKEN_BACK: Final = frozenset({State.FAILED, State.CANCELLED})
_OPEN, _DONE, _READ = State.OPEN, State.DONE, Mode.READ  # an enum's attributes are slow, and so is its hash
_ACTED: Final = (_DONE, _OPEN, State.UNKNOWN)


class Record(Struct, frozen=True, gc=False):
    """An action with what only the store knows of it.

    ``opened`` is False for a refused call that a person may still approve. ``call`` is the identity under which a
    repeat finds the action, ``prints`` are the digests under which other calls find it, and ``params`` are those of a
    pending question; each is empty if there is none. ``raw`` is the content as it was stored, so that content of
    another version stays as it is; it is empty for content made here. ``action`` is as found through its first key;
    ``alive`` is unset.
    """

    action: Action
    opened: bool = True
    call: bytes = b""
    prints: tuple[bytes, ...] = ()
    params: bytes = b""
    raw: bytes = b""


def is_farewell(entry: Entry) -> bool:
    """Return True if the entry records that a session ended and what the session said it had done."""
    return entry.event is Event.HOST and bool(entry.body.get("summary"))


def probed(action: Action, probe: Probe) -> Action:
    """Return the action with ``alive`` set while it is open: whether its host process is alive."""
    return replace(action, alive=probe(action.host)) if action.host is not None and action.state is _OPEN else action


def happened(action: Action) -> bool:
    """Return True if the action did something, or may have, on any of its keys."""
    return action.state in _ACTED and not action.lock


def acted(action: Action) -> bool:
    """Return True if the action is evidence on the key it was found through: it did more than read, or may have."""
    return action.state in _ACTED and not action.lock and action.mode is not _READ


def finished(action: Action) -> bool:
    """Return True if the action was reported done in time: it then counts as its session's read of its keys."""
    return action.state is _DONE and 0 < action.ended <= action.expires
