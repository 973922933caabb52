"""One deadline for everything an operation does, however often the driver tries again inside it.

redis-py retries on three levels, one inside the other: a command, the connection it needs, that connection's handshake.
On a server that does not answer each try lasts until its timeout, and the levels multiply.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry

TIMEOUT: Final = 5.0
"""Seconds that one answer of the server may take."""
CONNECT: Final = 2.5
"""Seconds that opening a connection may take."""
PATIENCE: Final = 8.0
"""Seconds that an operation may take in all, while the server does not answer."""
_RETRIES: Final = 7
"""Number of tries after the first one: where the server refuses connections, they take about a second."""
LEAST: Final = 0.05
"""Seconds that a last try gets, at the least."""


class _Operation(threading.local):
    until = 0.0


_operation: Final = _Operation()


@contextmanager
def bounded() -> Iterator[float]:
    """Give what is done in the block one deadline, by the monotonic clock; in another such block that one's."""
    if _operation.until:
        yield _operation.until
        return
    _operation.until = time.monotonic() + PATIENCE
    try:
        yield _operation.until
    finally:
        _operation.until = 0.0


class Bounded(Retry):  # type: ignore[misc]
    """The driver's retries, none of which begins after the deadline of the operation or lasts much beyond it."""

    def __init__(self) -> None:
        super().__init__(ExponentialWithJitterBackoff(base=0.01, cap=0.5), _RETRIES)
        self._connection: Callable[[], Any] = lambda: None

    def belong(self, connection: Any) -> None:
        """Limit the timeouts of this connection; it has a copy of the pool's retries for itself."""
        self._connection = weakref.ref(connection)

    def call_with_retry(self, do: Callable[[], Any], fail: Callable[..., Any], *more: Any, **named: Any) -> Any:
        """As the driver's."""
        with bounded() as until:
            limited = False

            def attempt() -> Any:
                nonlocal limited
                left = until - time.monotonic()
                connection = self._connection()
                if connection is not None and (limited or left < TIMEOUT):
                    limited = True
                    connection.socket_timeout = min(TIMEOUT, max(LEAST, left))
                    connection.socket_connect_timeout = min(CONNECT, connection.socket_timeout)
                return do()

            def failed(error: Exception, *count: Any) -> None:
                fail(error, *count)
                if time.monotonic() >= until:
                    raise _Ended(error)

            try:
                return super().call_with_retry(attempt, failed, *more, **named)
            except _Ended as end:
                raise end.error from None
            finally:
                if limited:
                    self._release()

    def _release(self) -> None:
        connection = self._connection()
        if connection is None:
            return
        connection.socket_timeout, connection.socket_connect_timeout = TIMEOUT, CONNECT
        if connection._sock is not None:  # noqa: SLF001 - the driver tells it by name only in its newer versions
            connection._sock.settimeout(TIMEOUT)  # noqa: SLF001


class _Ended(Exception):
    """The deadline of the operation has passed. No error of the driver's, lest a retry around this one goes on."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error
