"""What this process knows already, so that a transaction need not look: it is applied only if that still stands.

A look at some keys is kept with the moment up to which it is known to be true. The process folds its own changes
into it; a change by anybody else leaves its moment under the names that the look depends on (``names``), and the
server tells.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import SECOND, Key, Scope
from callosum.stores.records import LIVE, Record
from callosum.stores.redis.records import KeyKnowledge
from callosum.stores.redis.view import ViewData

KEPT: Final = 60.0
"""For how many seconds what is known is taken for true, until the server says otherwise."""
_LOOKS: Final = 2_000
_REPORTS: Final = 10_000
_LARGE: Final = 32
"""How many records a look may hold to be kept; where more is going on it is overtaken before it is of use."""
_STALE: Final = 10.0
"""Seconds after which an idea of the server's time is replaced even by a worse one."""

CacheKey = tuple[str, str, tuple[Key, ...], bool, str, str]
"""What makes two looks the same: namespace, session, keys, whether for what is live, parent, predecessor."""
KnowledgeByKey = Mapping[tuple[str, str], KeyKnowledge]


class CachedView(Struct):
    """One look. ``names``: what it depends on; ``last``: up to which moment it is true; ``since``: when that was."""

    seen: ViewData
    names: frozenset[str]
    last: int
    since: float


class CachedAction(Struct):
    """An action that this process opened, for its report. ``place``: the look that it was opened with."""

    record: Record
    known: KnowledgeByKey
    last: int
    since: float
    place: CacheKey


def cache_key_of(scope: Scope) -> CacheKey | None:
    """Where a scope's look is kept; None where it also looks for something that is found in no other way."""
    if scope.find is not None or scope.waits or not scope.keys:
        return None
    return scope.namespace, scope.session, scope.keys, scope.live, scope.parent, scope.continues


class RedisCache:
    """Looks and opened actions of one process. Entries are replaced, never changed, so threads need no lock."""

    def __init__(self) -> None:
        self._looks: dict[CacheKey, CachedView] = {}
        self._opened: dict[tuple[str, int], CachedAction] = {}

    def clear(self) -> None:
        """Forgets all."""
        self._looks.clear()
        self._opened.clear()

    def look(self, place: CacheKey | None) -> CachedView | None:
        """What is known at a place."""
        found = self._looks.get(place) if place is not None else None
        return found if found is not None and time.monotonic() - found.since < KEPT else None

    def report(self, scope: Scope) -> CachedAction | None:
        """The action whose report a scope is for, once; None if it looks for anything else too."""
        find = scope.find
        if find is None or find.id is None or scope.keys or scope.waits or scope.call is not None:
            return None
        found = self._opened.pop((scope.namespace, find.id), None)
        return found if found is not None and time.monotonic() - found.since < KEPT else None

    def keep_action(self, namespace: str, id: int, opened: CachedAction) -> None:
        """Keeps an action that was opened."""
        if len(self._opened) >= _REPORTS:
            self._opened.clear()
        self._opened[namespace, id] = opened

    def keep_look(self, place: CacheKey, found: CachedView) -> None:
        """Keeps a look."""
        if len(found.seen.records) > _LARGE:
            self._looks.pop(place, None)
            return
        if len(self._looks) >= _LOOKS and place not in self._looks:
            self._looks.clear()
        self._looks[place] = found

    def drop(self, place: CacheKey) -> None:
        """Forgets a look that does not stand."""
        self._looks.pop(place, None)


def with_own_changes(seen: ViewData, docs: KnowledgeByKey, records: Mapping[int, Record]) -> ViewData:
    """A look with one's own changes in it, and without what belonged to a single call."""
    known = {**seen.known, **docs}
    needed = {int(act.id) for one in known.values() for act in one.acts}
    every = {**seen.records, **records}
    kept = {id: one for id, one in every.items() if id in needed or one.action.state in LIVE}
    return replace(seen, known=known, records=kept, earlier=None, answer=b"", unreported=[])


class ServerTime:
    """What the server's clock says now, from its answers and this process's monotonic clock.

    A machine's own clock may be wrong by days; it plays no part.
    """

    def __init__(self) -> None:
        self._offset: float | None = None
        self._taken = 0.0

    def heard(self, moment: int) -> None:
        """Notes the moment in an answer that has just come. Of some the nearest is kept.

        It counts from the arrival: an answer that was long on its way then leaves the idea of the time behind the
        server's, never ahead of it, where leases would seem to have ended that have not.
        """
        came = time.monotonic()
        offset, known = moment - came * SECOND, self._offset
        if known is None or offset > known or known - offset > SECOND or came - self._taken > _STALE:
            self._offset, self._taken = offset, came

    def now(self) -> int | None:
        """Now, in microseconds; None before anything was heard."""
        return None if self._offset is None else int(self._offset + time.monotonic() * SECOND)
