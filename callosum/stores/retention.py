"""Decide which entries may leave a journal: the part that the SQL stores share.

A store's statement classifies each entry by its row alone: ``STAYS``, ``LEAVES`` or ``ASKS``. ``ASKS`` is an action
that is over, and the marks on its keys decide. Only the newest action of a session on a key can still matter:

* as a change, while another active session read the key before it, because ``stale`` has no time window;
* as a read (a finished write counts as one), while its own session is active and another session has
  changed the key since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from callosum.stores.keys import scoped
from callosum.stores.rows import content_of, stored_keys

STAYS, LEAVES, ASKS, RECENT = range(4)
"""What an entry's row alone says. ``RECENT``: the marks decide, and it stays as long as it is the newest on its key."""
AT_ONCE: Final = 2_500
"""Number of entries that one statement examines."""
FOREVER: Final = 2**63 - 1
"""Time of a change that has no outcome yet."""

Rows = list[Sequence[Any]]
Moments = Mapping[str, Sequence[tuple[str, int]]]
"""For each key at most two sessions, each with a time: enough to tell whether another session has one."""


class NewestAction(Struct, frozen=True, gc=False):
    """An entry that is its session's newest action on a key, and the time at which it changed the key.

    ``looked`` is True if it counts as a read and its session is active.
    """

    seq: int
    key: str
    session: str
    changed: int
    looked: bool


def places(rows: Iterable[Sequence[Any]]) -> list[tuple[str, str, int, int]]:
    """Return key, session and entry of each key that was not only read, and 1 if the entry matters alone there, else 0.

    Each of ``rows`` holds an entry, its classification, its session, its namespace and its keys.
    """
    return [
        (scoped(namespace, key.name), session, seq, int(says == RECENT))
        for seq, says, session, namespace, keys in rows
        if says in (ASKS, RECENT) and keys
        for key in stored_keys(keys)
        if key.mode != "read"
    ]


def leaving(rows: Rows, held: Iterable[NewestAction], looks: Moments, changes: Moments) -> Rows:
    """Return the rows of the entries that may leave, in order.

    ``rows`` hold entries and their classification, in order. ``looks`` are the oldest reads by active sessions,
    ``changes`` the newest changes.
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
    """Return the ids of the actions whose commitments still count. Each row holds an id and the stored content."""
    made = ((seq, content_of(content).commitment) for seq, content in rows if content)
    return frozenset(seq for seq, commitment in made if commitment is not None and now < commitment.until)


class RetentionPass:
    """A store's progress through its journal in search of entries that may leave, one segment at a time.

    Entries that had to stay are not examined again before the end was reached, so that a great many of them do not slow
    down each segment.
    """

    def __init__(self) -> None:
        self._passed = 0

    def oldest(self, look: Callable[[int], Rows], free: Callable[[Rows], Rows], until: int, limit: int) -> Rows:
        """Return the rows of the ``limit`` oldest entries up to ``until`` that may leave, from the last position on.

        ``look`` returns the rows of the next ``AT_ONCE`` entries after a position, with the position first in each row.
        ``free`` returns those of them that nothing needs.
        """
        found: Rows = []
        start = after = self._passed if self._passed < until else 0
        while len(found) < limit:
            rows = look(after)
            found += free(rows)
            if len(rows) == AT_ONCE:
                after = rows[-1][0]
            elif start and not found:
                start = after = 0  # entries that were passed may have become free
            else:
                break
        self._passed = found[0][0] - 1 if len(found) >= limit > 0 else 0
        return found[:limit]
