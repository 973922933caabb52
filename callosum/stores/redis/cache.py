"""Cache views, so that a transaction needs no read of its own; the server applies it only if the view is still true.

A view of some keys is cached with the moment up to which it is known to be true. The process merges its own changes
into it. Any other process's change stores its moment under the names that the view depends on (see ``names``), and
``apply.lua`` then refuses the transaction.
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
"""Seconds for which a cached view is used, unless the server refuses it before."""
_LOOKS: Final = 2_000
_REPORTS: Final = 10_000
_LARGE: Final = 32
"""Maximum number of records in a cached view. Busier keys change before such a view is used again."""
_STALE: Final = 10.0
"""Seconds after which an estimate of the server's time is replaced even by a worse one."""

CacheKey = tuple[str, str, tuple[Key, ...], bool, str, str]
"""Key of a cached view: namespace, session, keys, whether live actions are included, parent, predecessor."""
KnowledgeByKey = Mapping[tuple[str, str], KeyKnowledge]


class CachedView(Struct):
    """A cached view. ``names``: names it depends on. ``last``: moment up to which it is true. ``since``: its time."""

    seen: ViewData
    names: frozenset[str]
    last: int
    since: float


class CachedAction(Struct):
    """An action that this process opened, kept for its report. ``place``: cache key of the view it was opened with."""

    record: Record
    known: KnowledgeByKey
    last: int
    since: float
    place: CacheKey


def cache_key_of(scope: Scope) -> CacheKey | None:
    """Return the cache key of a scope's view, None if the scope needs data that no cached view has."""
    if scope.find is not None or scope.waits or not scope.keys:
        return None
    return scope.namespace, scope.session, scope.keys, scope.live, scope.parent, scope.continues


class RedisCache:
    """Cached views and opened actions of one process. Entries are replaced, never changed: threads need no lock."""

    def __init__(self) -> None:
        self._looks: dict[CacheKey, CachedView] = {}
        self._opened: dict[tuple[str, int], CachedAction] = {}

    def clear(self) -> None:
        """Empty the cache."""
        self._looks.clear()
        self._opened.clear()

    def look(self, place: CacheKey | None) -> CachedView | None:
        """Return the cached view with this key, None if there is none or it is too old."""
        found = self._looks.get(place) if place is not None else None
        return found if found is not None and time.monotonic() - found.since < KEPT else None

    def report(self, scope: Scope) -> CachedAction | None:
        """Remove and return the action that a scope reports; None if the scope needs anything else too."""
        find = scope.find
        if find is None or find.id is None or scope.keys or scope.waits or scope.call is not None:
            return None
        found = self._opened.pop((scope.namespace, find.id), None)
        return found if found is not None and time.monotonic() - found.since < KEPT else None

    def keep_action(self, namespace: str, id: int, opened: CachedAction) -> None:
        """Cache an opened action."""
        if len(self._opened) >= _REPORTS:
            self._opened.clear()
        self._opened[namespace, id] = opened

    def keep_look(self, place: CacheKey, found: CachedView) -> None:
        """Cache a view, unless it is too large."""
        if len(found.seen.records) > _LARGE:
            self._looks.pop(place, None)
            return
        if len(self._looks) >= _LOOKS and place not in self._looks:
            self._looks.clear()
        self._looks[place] = found

    def drop(self, place: CacheKey) -> None:
        """Remove a view that is no longer true."""
        self._looks.pop(place, None)


def with_own_changes(seen: ViewData, docs: KnowledgeByKey, records: Mapping[int, Record]) -> ViewData:
    """Return view data with this process's own changes merged in, without what belongs to a single call."""
    known = {**seen.known, **docs}
    needed = {int(act.id) for one in known.values() for act in one.acts}
    every = {**seen.records, **records}
    kept = {id: one for id, one in every.items() if id in needed or one.action.state in LIVE}
    return replace(seen, known=known, records=kept, earlier=None, answer=b"", unreported=[])


class ServerTime:
    """Estimate the server's clock from its answers and this process's monotonic clock.

    The machine's own clock may be wrong by days; it is not used.
    """

    def __init__(self) -> None:
        self._offset: float | None = None
        self._taken = 0.0

    def heard(self, moment: int) -> None:
        """Update the estimate with the moment in an answer that has just arrived. The best of recent ones is kept.

        The moment counts from the arrival, so a slow answer puts the estimate behind the server's clock, never
        ahead of it: an estimate ahead would make running leases look expired.
        """
        came = time.monotonic()
        offset, known = moment - came * SECOND, self._offset
        if known is None or offset > known or known - offset > SECOND or came - self._taken > _STALE:
            self._offset, self._taken = offset, came

    def now(self) -> int | None:
        """Return the estimated moment in microseconds, None before the first answer."""
        return None if self._offset is None else int(self._offset + time.monotonic() * SECOND)
