"""Which entries may leave a journal that is kept in SQL: the part that its stores decide alike.

A store's statement says of each entry what its row alone tells (``STAYS``, ``LEAVES`` or ``ASKS``). What asks is an
action that is over; it stays while the marks on its keys say that it matters still. Only the newest act of a
session on a key can, and then

* as a change, while another session that goes on looked at the key before it: stale has no window;
* as a look, which a finished write is, while its own session goes on and another has changed the key since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from callosum.stores.keys import scoped
from callosum.stores.rows import content_of, stored_keys

STAYS, LEAVES, ASKS, RECENT = range(4)
"""What an entry's row alone says. ``RECENT``: it asks, and stays as long as it is the newest on its key."""
AT_ONCE: Final = 2_500
"""How many entries are looked at in one statement."""
FOREVER: Final = 2**63 - 1
"""The moment of a change that has no outcome yet."""

Rows = list[Sequence[Any]]
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


def leaving(rows: Rows, held: Iterable[Held], looks: Moments, changes: Moments) -> Rows:
    """Return the rows of the entries that may leave, in order; of rows of an entry and what it says, in order.

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
    return [row for row in rows if row[1] != STAYS and row[0] not in stays.get(row[1], ())]


def counting(rows: Iterable[Sequence[Any]], now: int) -> frozenset[int]:
    """Return the ids of the actions whose commitments still count, of rows of an id and what is stored of content."""
    made = ((seq, content_of(content).commitment) for seq, content in rows if content)
    return frozenset(seq for seq, commitment in made if commitment is not None and now < commitment.until)


class Pass:
    """A store's way through its journal in search of what may leave, a segment at a time.

    What was gone past stays gone past until the end was reached, so that a great many entries that must stay are
    not looked at anew for each segment.
    """

    def __init__(self) -> None:
        self._passed = 0

    def oldest(self, look: Callable[[int], Rows], free: Callable[[Rows], Rows], until: int, limit: int) -> Rows:
        """Return the rows of the ``limit`` oldest entries up to ``until`` that may leave, from where it is.

        ``look`` returns the rows of the next ``AT_ONCE`` entries after a place, each with its place first; ``free``
        those of them that nobody needs.
        """
        found: Rows = []
        start = after = self._passed if self._passed < until else 0
        while len(found) < limit:
            rows = look(after)
            found += free(rows)
            if len(rows) == AT_ONCE:
                after = rows[-1][0]
            elif start and not found:
                start = after = 0  # what was gone past may have become free
            else:
                break
        self._passed = found[0][0] - 1 if len(found) >= limit > 0 else 0
        return found[:limit]
