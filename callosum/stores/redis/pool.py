"""The connections of one process to one server: no more than the URL allows, and counted."""

from __future__ import annotations

import threading
from typing import Any, Final

import redis
from redis import exceptions as faults

from callosum.stores.base import Pool

CONNECTIONS: Final = 16
"""The most connections of one process to one server, unless the URL says otherwise (``pool=N``)."""


class PoolExhausted(faults.MaxConnectionsError):  # type: ignore[misc]
    """Every connection stayed in use for as long as one may be waited for."""


class LimitedPool(redis.ConnectionPool):  # type: ignore[misc]
    """Connections of redis-py, lent to one thread at a time; who finds none free waits up to ``wait`` seconds.

    A connection is lent as it is: one that died meanwhile fails on its first use, and whoever has it opens it again.
    One of them listens for what wakes waiters, from the first wait on. Raises ``PoolExhausted``.
    """

    def __init__(self, *args: Any, limit: int = CONNECTIONS, wait: float = 5.0, **kwargs: Any) -> None:
        self.limit = limit
        self.wait = wait
        super().__init__(*args, max_connections=limit, **kwargs)

    def reset(self) -> None:
        """Forgets every connection; redis-py calls it in the beginning and after a fork."""
        self.waiting = self.waits = self.timeouts = self.lost = self.made = 0
        self._free = threading.Semaphore(self.limit)
        super().reset()

    def get_connection(self, *_: Any, **__: Any) -> Any:
        """Lends a connection, which may have to be opened first."""
        self._checkpid()
        if not self._free.acquire(blocking=False):
            self._await()
        connection = None
        try:
            with self._lock:
                connection = self._available_connections.pop() if self._available_connections else None
                if connection is None:
                    connection = self.make_connection()
                    connection.retry.belong(connection)
                    connection.register_connect_callback(self._count)
                self._in_use_connections.add(connection)
            if not _is_open(connection):
                connection.connect()
        except BaseException:
            if connection is None:
                self._free.release()
            else:
                self.release(connection)
            raise
        return connection

    def release(self, connection: Any) -> None:
        """Takes a connection back."""
        self._checkpid()
        with self._lock:
            if connection not in self._in_use_connections:
                return  # lent before a fork, or forgotten
            self._in_use_connections.remove(connection)
            self._available_connections.append(connection)
        self._free.release()

    def _count(self, _: Any) -> None:
        self.made += 1

    def _await(self) -> None:
        with self._lock:
            self.waiting += 1
            self.waits += 1
        free = self._free.acquire(timeout=self.wait)
        with self._lock:
            self.waiting -= 1
            self.timeouts += not free
        if not free:
            raise PoolExhausted(
                f"all {self.limit} connections of this process stayed in use for {self.wait:g} s; "
                f"allow more with pool=N in the store's URL"
            )

    def state(self) -> Pool:
        """The connections as they are now."""
        with self._lock:
            idle = sum(map(_is_open, self._available_connections))
            used = sum(map(_is_open, self._in_use_connections))
            return Pool(self.limit, idle + used, idle, self.waiting, self.waits, self.timeouts, self.lost)


def _is_open(connection: Any) -> bool:
    return connection._sock is not None  # noqa: SLF001 - the driver tells it by name only in its newer versions
