"""Read the journal in order, so that a reader who continues after the last entry misses nothing."""

from __future__ import annotations

from typing import Final

from callosum.model import DEFAULT_NAMESPACE, SECOND, Entry
from callosum.stores.redis.connection import Script
from callosum.stores.redis.names import NamespaceKeys
from callosum.stores.redis.reads import PAGE
from callosum.stores.redis.records import entry_of
from callosum.stores.redis.spaces import Namespaces
from callosum.stores.redis.transactions import LATE

TAIL: Final = Script("tail")
_FOREVER: Final = 2**62


class RedisJournal:
    """Read entries of all namespaces, and the store's time."""

    def __init__(self, spaces: Namespaces) -> None:
        self._spaces = spaces
        self._link = spaces.link

    def now(self) -> int:
        with self._link.explained():
            spaces = self._spaces.all() if self._link.cluster else [self._spaces.of(DEFAULT_NAMESPACE)]
            last = max((int(self._link.client.get(self._spaces.clock_of(space)) or 0) for space in spaces), default=0)
            return max(self.today(), last)

    def today(self) -> int:
        """Return the clock's current moment, in microseconds."""
        if self._spaces.clock is not None:
            return self._spaces.clock()
        space = self._spaces.of(DEFAULT_NAMESPACE)
        return int(self._spaces.run(TAIL, space, "", "-", "-", 1, "0")[0])

    def server_time(self) -> int:
        """Return the Redis server's time in Unix microseconds."""
        seconds, micros = self._link.client.time(**({"target_nodes": "random"} if self._link.cluster else {}))
        return int(seconds) * SECOND + int(micros)

    def entries(
        self,
        *,
        after: int = 0,
        limit: int = 500,
        namespace: str | None = None,
        session: str | None = None,
        key: str | None = None,
        newest: bool = False,
    ) -> list[Entry]:
        result: list[Entry] = []
        with self._link.explained():
            # A later entry gets a later moment, so everything up to here is complete. In a cluster, where each
            # namespace has its own clock, only somewhat older moments are complete, in new namespaces too.
            horizon = _FOREVER
            if namespace is None:
                horizon = self.server_time() - LATE if self._link.cluster else self._last()
            for space in self._spaces.all(namespace):
                until, chunk = self.page(space, after, limit, session, key, newest=newest)
                if namespace is None and self._link.cluster:
                    horizon = min(horizon, until)
                result += chunk
        result = sorted((entry for entry in result if entry.seq <= horizon), key=lambda entry: entry.seq)
        if newest:
            return result[-limit:]
        # In a cluster two namespaces may share a moment: a reader that continues after it must have seen both.
        return (
            [entry for entry in result if entry.seq <= result[limit - 1].seq]
            if len(result) > limit > 0
            else result[:limit]
        )

    def _last(self) -> int:
        """Return the last moment used on a single server."""
        return int(self._link.client.get(f"{self._link.prefix}:clock") or 0)

    def page(
        self, space: NamespaceKeys, after: int, limit: int, session: str | None, key: str | None, *, newest: bool
    ) -> tuple[int, list[Entry]]:
        """Return entries of one namespace, and the moment up to which no further entry can appear in it."""
        low, high = (f"({after}" if after > 0 else "-"), "+"
        result: list[Entry] = []
        horizon = 0
        size = limit if session is None and key is None else max(limit, PAGE)
        while len(result) < limit:
            now, last, rows = self._spaces.run(
                TAIL, space, self._spaces.now_or_empty(), low, high, size, "1" if newest else "0"
            )
            horizon = horizon or max(int(last), int(now) - LATE)
            entries = [entry_of(id, fields) for id, fields in rows]
            result += [
                entry
                for entry in entries
                if session in (None, entry.session)
                and (key is None or (bool(entry.keys) and entry.keys[0].name == key))
            ]
            if len(rows) < size:
                break
            if newest:
                high = f"({entries[-1].seq}"
            else:
                low = f"({entries[-1].seq}"
        return horizon, result[:limit]
