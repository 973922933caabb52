"""Which entries may leave a journal that is kept in SQL: the part that its stores decide alike.

A store's statement says of each entry what its row alone tells (``STAYS``, ``LEAVES`` or ``ASKS``). What asks is an
action that is over; it stays while the marks on its keys say that it matters still. Only the newest act of a
session on a key can, and then

* as a change, while another session that goes on looked at the key before it: stale has no window;
* as a look, which a finished write is, while its own session goes on and another has changed the key since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from callosum.stores.rows import scoped, stored_keys

STAYS, LEAVES, ASKS, RECENT = range(4)
"""What an entry's row alone says. ``RECENT``: it asks, and stays as long as it is the newest on its key."""
AT_ONCE: Final = 2_500
"""How many entries are looked at in one statement."""
FOREVER: Final = 2**63 - 1
"""The moment of a change that has no outcome yet."""

Moments = Mapping[str, Sequence[tuple[str, int]]]
"""For each key, two sessions at most and a moment of each: enough to tell whether there is one of another session."""


class Held(Struct, frozen=True, gc=False):
    """An entry that is its session's newest act on a key, and when that changed it.

    ``looked``: it counts as a look, and its session goes on.
    """

    seq: int
    key: str
    session: str
    changed: int
    looked: bool


def places(rows: Iterable[Sequence[Any]]) -> list[tuple[str, str, int, int]]:
    """Key, session and entry, for each key that was not just read; and 1 if it matters alone there too, else 0.

    Of rows of an entry, what it says, its session, namespace and keys.
    """
    return [
        (scoped(namespace, key.name), session, seq, int(says == RECENT))
        for seq, says, session, namespace, keys in rows
        if says in (ASKS, RECENT) and keys
        for key in stored_keys(keys)
        if key.mode != "read"
    ]


def leaving(rows: Iterable[Sequence[Any]], held: Iterable[Held], looks: Moments, changes: Moments) -> list[int]:
    """Returns the entries that may leave, in order; of rows of an entry and what it says, in order.

    ``looks`` are the oldest by sessions that go on, ``changes`` the newest.
    """
    newest: set[int] = set()
    needed: set[int] = set()
    for one in held:
        newest.add(one.seq)
        before = any(who != one.session and at < one.changed for who, at in looks.get(one.key, ()))
        if before or (one.looked and any(who != one.session and at > one.seq for who, at in changes.get(one.key, ()))):
            needed.add(one.seq)
    stays = {ASKS: needed, RECENT: newest}
    return [seq for seq, says, *_ in rows if says != STAYS and seq not in stays.get(says, ())]
