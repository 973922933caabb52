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

MAX_AGE: Final = 60.0
"""Seconds for which a cached view is used, unless the server refuses it before."""
_MAX_VIEWS: Final = 2_000
_MAX_ACTIONS: Final = 10_000
_MAX_RECORDS: Final = 32
"""Maximum number of records in a cached view. Busier keys change before such a view is used again."""
_MAX_ESTIMATE_AGE: Final = 10.0
"""Seconds after which an estimate of the server's time is replaced even by a worse one."""

CacheKey = tuple[str, str, tuple[Key, ...], bool, str, str]
"""Key of a cached view: namespace, session, keys, whether live actions are included, parent, predecessor."""
KnowledgeByKey = Mapping[tuple[str, str], KeyKnowledge]


class CachedView(Struct):
    """A cached view. ``names``: names it depends on. ``last``: moment up to which it is true.

    ``since``: when it was read or changed, by this process's monotonic clock.
    """

    data: ViewData
    names: frozenset[str]
    last: int
    since: float


class CachedAction(Struct):
    """An action that this process opened, kept for its report. ``cache_key``: key of the view it was opened with."""

    record: Record
    knowledge: KnowledgeByKey
    last: int
    since: float
    cache_key: CacheKey


def cache_key_of(scope: Scope) -> CacheKey | None:
    """Return the cache key of a scope's view, None if the scope needs data that no cached view has."""
    if scope.find is not None or scope.waits or not scope.keys:
        return None
    return scope.namespace, scope.session, scope.keys, scope.live, scope.parent, scope.continues


class RedisCache:
    """Cached views and opened actions of one process. Entries are replaced, never changed: threads need no lock."""

    def __init__(self) -> None:
        self._views: dict[CacheKey, CachedView] = {}
        self._opened: dict[tuple[str, int], CachedAction] = {}

    def clear(self) -> None:
        """Empty the cache."""
        self._views.clear()
        self._opened.clear()

    def view(self, cache_key: CacheKey | None) -> CachedView | None:
        """Return the cached view with this key, None if there is none or it is too old."""
        cached = self._views.get(cache_key) if cache_key is not None else None
        return cached if cached is not None and time.monotonic() - cached.since < MAX_AGE else None

    def take_action(self, scope: Scope) -> CachedAction | None:
        """Remove and return the action that a scope reports; None if the scope needs anything else too."""
        find = scope.find
        if find is None or find.id is None or scope.keys or scope.waits or scope.call is not None:
            return None
        cached = self._opened.pop((scope.namespace, find.id), None)
        return cached if cached is not None and time.monotonic() - cached.since < MAX_AGE else None

    def keep_action(self, namespace: str, id: int, opened: CachedAction) -> None:
        """Cache an opened action."""
        if len(self._opened) >= _MAX_ACTIONS:
            self._opened.clear()
        self._opened[namespace, id] = opened

    def keep_view(self, cache_key: CacheKey, cached: CachedView) -> None:
        """Cache a view, unless it is too large."""
        if len(cached.data.records) > _MAX_RECORDS:
            self._views.pop(cache_key, None)
            return
        if len(self._views) >= _MAX_VIEWS and cache_key not in self._views:
            self._views.clear()
        self._views[cache_key] = cached

    def drop(self, cache_key: CacheKey) -> None:
        """Remove a view that is no longer true."""
        self._views.pop(cache_key, None)


def with_own_changes(data: ViewData, changes: KnowledgeByKey, records: Mapping[int, Record]) -> ViewData:
    """Return view data with this process's own changes merged in, without what belongs to a single call."""
    knowledge = {**data.knowledge, **changes}
    needed = {int(action.id) for record in knowledge.values() for action in record.actions}
    all_records = {**data.records, **records}
    needed_records = {id: record for id, record in all_records.items() if id in needed or record.action.state in LIVE}
    return replace(data, knowledge=knowledge, records=needed_records, earlier=None, answer=b"", unreported=[])


class ServerTime:
    """Estimate the server's clock from its answers and this process's monotonic clock.

    The machine's own clock may be wrong by days; it is not used.
    """

    def __init__(self) -> None:
        self._offset: float | None = None
        self._taken = 0.0

    def update(self, moment: int) -> None:
        """Update the estimate with the moment in an answer that has just arrived. The best of recent ones is kept.

        The moment counts from the arrival, so a slow answer puts the estimate behind the server's clock, never
        ahead of it: an estimate ahead would make running leases look expired.
        """
        arrived = time.monotonic()
        offset, previous = moment - arrived * SECOND, self._offset
        if (
            previous is None
            or offset > previous
            or previous - offset > SECOND
            or arrived - self._taken > _MAX_ESTIMATE_AGE
        ):
            self._offset, self._taken = offset, arrived

    def now(self) -> int | None:
        """Return the estimated moment in microseconds, None before the first answer."""
        return None if self._offset is None else int(self._offset + time.monotonic() * SECOND)
