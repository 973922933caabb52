"""Pool of one process's connections to one server: limited by the URL, and counted."""

from __future__ import annotations

import threading
from typing import Any, Final

import redis
from redis import exceptions as faults

from callosum.stores.base import Pool

CONNECTIONS: Final = 16
"""Maximum number of connections of one process to one server, unless the URL sets ``pool=N``."""


class PoolExhausted(faults.MaxConnectionsError):  # type: ignore[misc]
    """All connections stayed in use for the whole time that a thread may wait for one."""


class LimitedPool(redis.ConnectionPool):  # type: ignore[misc]
    """Connections of redis-py, each lent to one thread at a time.

    A thread that finds none free waits up to ``wait`` seconds; then ``PoolExhausted`` is raised. A connection is lent
    unchecked: one that died meanwhile fails on its first use, and its borrower reopens it. From the first wait on,
    one connection listens for notifications.
    """

    def __init__(self, *args: Any, limit: int = CONNECTIONS, wait: float = 5.0, **kwargs: Any) -> None:
        self.limit = limit
        self.wait = wait
        super().__init__(*args, max_connections=limit, **kwargs)

    def reset(self) -> None:
        """Forget every connection. redis-py calls it at the start and after a fork."""
        self.waiting = self.waits = self.timeouts = self.lost = self.made = 0
        self._free = threading.Semaphore(self.limit)
        super().reset()

    def get_connection(self, *_: Any, **__: Any) -> Any:
        """Lend a connection; open it first if it is closed."""
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
        """Take a connection back."""
        self._checkpid()
        with self._lock:
            if connection not in self._in_use_connections:
                return  # it was lent before a fork, or forgotten by reset
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
        """Return figures on the connections as they are now."""
        with self._lock:
            idle = sum(map(_is_open, self._available_connections))
            used = sum(map(_is_open, self._in_use_connections))
            return Pool(self.limit, idle + used, idle, self.waiting, self.waits, self.timeouts, self.lost)


def _is_open(connection: Any) -> bool:
    return connection._sock is not None  # noqa: SLF001 - only newer versions of the driver have a public name for it
