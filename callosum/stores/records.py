"""The values of records. Each is one struct; fields are only ever appended to it, not to what is nested in it.

A record to which a newer version has appended fields is not what ``DECODE`` expects; ``longer`` reads it, and
``lengthened`` gives its fields to the record that takes its place. So nothing is done for this while there is no such
version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, defstruct
from msgspec.structs import astuple, replace

from callosum.model import DAY, LATEST, NO_MARK, Action, Mark, Mode, State
from callosum.stores.base import Probe

REMEMBERED: Final = DAY
"""Microseconds for which the identity of a call is remembered."""
WAITS: Final = frozenset({State.QUEUED, State.ASKED, State.OPEN})
LIVE: Final = WAITS | {State.UNKNOWN}
"""States of actions that every call on their keys must see, however many there are."""
ACTED: Final = frozenset({State.OPEN, State.DONE, State.UNKNOWN})
"""States of actions that did something or may have."""
TAKEN_BACK: Final = frozenset({State.FAILED, State.CANCELLED})
READS: Final = 8
"""Number of reads that a mark remembers, so that one that failed can be taken back."""
PRINTS: Final = 32
"""Number of newest actions that are found by one digest on one key."""
SESSIONS: Final = LATEST + 1
"""A key remembers the newest change of so many sessions: as many as a view shows, and the one that asks."""
Act = tuple[int, int, bool]
"""A change of a key: the action's id, its tier, and whether it appends."""
_ACTED: Final = tuple(ACTED)
_LIVE: Final = tuple(LIVE)  # an enum's hash is slow, and so are its attributes
_OPEN, _DONE = State.OPEN, State.DONE


def without_outweighed(acts: list[Act]) -> tuple[Act, ...]:
    """Return those actions of one session on a key that somebody can still ask for, newest first.

    A newer one outweighs an older one of its tier or a lower one, unless it only appends where the older one wrote.
    """
    kept: list[Act] = []
    for act in sorted(acts, reverse=True):
        for newer in kept:
            if newer[1] >= act[1] and (act[2] or not newer[2]):
                break
        else:
            kept.append(act)
    return tuple(kept)


class KeyRecord(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """The live actions on a key, oldest first, and the sessions that changed it last, newest change first.

    ``turned`` is when one of the live actions last became live in another state, ``renewed`` when one last got another
    time limit or an approval.
    """

    key: str
    live: tuple[int, ...] = ()
    sessions: tuple[str, ...] = ()
    turned: int = 0
    renewed: int = 0


class MarkRecord(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """What a session has seen of a key and done there.

    ``reads`` are its last reads (moment, action or 0). ``acts`` are its changes that somebody can still ask for, newest
    first, and ``changed`` is the moment of the newest.
    """

    key: str
    session: str
    mark: Mark = NO_MARK
    reads: tuple[tuple[int, int], ...] = ()
    acts: tuple[Act, ...] = ()
    changed: int = 0


Found = tuple[tuple[int, str], ...]
"""The newest actions with a digest on a key, newest first: id and session."""


class ActionRecord(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """An action, what only the store knows of it, and its session's previous action on each of its keys."""

    action: Action
    opened: bool = True
    call: bytes = b""
    prints: tuple[bytes, ...] = ()
    params: bytes = b""
    before: tuple[int, ...] = ()

    def evidence(self) -> bool:
        """Return True if the action did something, or may have."""
        return self.opened and self.action.state in _ACTED and not self.action.lock

    def live(self) -> bool:
        """Return True if every call on its keys must see the action."""
        return self.opened and self.action.state in _LIVE

    def on(self, key: str) -> Action:
        """Return the action as found through ``key``."""
        action = self.action
        if action.key == key:
            return action
        mode = next((one.mode for one in action.keys if one.name == key), Mode.WRITE)
        return replace(action, key=key, mode=mode)


class SessionRecord(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """When a session made its first call, and its last, about, and where it comes from."""

    session: str = ""
    seen: int = 0
    parent: str = ""
    continues: str = ""
    began: int = 0


_number: Final = msgspec.msgpack.Decoder(int).decode
DECODE: Final[Mapping[int, Callable[[bytes], Any]]] = {
    ord("a"): msgspec.msgpack.Decoder(ActionRecord).decode,
    ord("c"): _number,
    ord("f"): _number,
    ord("h"): msgspec.msgpack.Decoder(str).decode,
    ord("k"): msgspec.msgpack.Decoder(KeyRecord).decode,
    ord("m"): msgspec.msgpack.Decoder(MarkRecord).decode,
    ord("o"): msgspec.msgpack.Decoder(str | bool).decode,  # True: written before the state was kept there
    ord("p"): msgspec.msgpack.Decoder(Found).decode,
    ord("q"): bool,
    ord("s"): msgspec.msgpack.Decoder(SessionRecord).decode,
    ord("t"): bool,
    ord("u"): msgspec.msgpack.Decoder(bytes).decode,
    ord("x"): bool,
}
"""How the value of each kind of record is read, by the letter of its name."""

_STRUCTS: Final[Mapping[int, type[Struct]]] = {
    ord("a"): ActionRecord,
    ord("k"): KeyRecord,
    ord("m"): MarkRecord,
    ord("s"): SessionRecord,
}
LONGER: Final[set[type]] = set()
"""The types of longer records that this process has met."""


def longer(name: bytes, value: bytes) -> Any:
    """Return a record that a newer version has written: with the fields that it appended; an unknown kind as it is."""
    kind = _STRUCTS.get(name[0])
    if kind is not None:
        return _longer(kind, len(msgspec.msgpack.decode(value)) - len(kind.__struct_fields__))(value)
    return DECODE[name[0]](value) if name[0] in DECODE else value


@cache
def _longer(kind: type[Struct], more: int) -> Callable[[bytes], Any]:
    appended = [(f"appended{number}", Raw, Raw(b"\xc0")) for number in range(more)]
    one = defstruct(kind.__name__, appended, bases=(kind,), array_like=True, frozen=True, gc=False)
    LONGER.add(one)
    return msgspec.msgpack.Decoder(one).decode


def lengthened(record: Any, old: Any) -> Any:
    """Return the record that replaces ``old``, with what a newer version has appended to that."""
    if record is False or type(old) not in LONGER or type(record) is type(old):
        return record
    return type(old)(*astuple(record), *astuple(old)[len(record.__struct_fields__) :])


# --- What actions and entries are -----------------------------------------------------------------------


def probed(action: Action, probe: Probe) -> Action:
    """Return the action with ``alive`` set while it is open: whether its host process is alive."""
    return replace(action, alive=probe(action.host)) if action.host is not None and action.state is _OPEN else action


def happened(action: Action) -> bool:
    """Return True if the action did something, or may have, on any of its keys."""
    return action.state in _ACTED and not action.lock


def finished(action: Action) -> bool:
    """Return True if the action was reported done in time: it then counts as its session's read of its keys."""
    return action.state is _DONE and 0 < action.ended <= action.expires
