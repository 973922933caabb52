"""Set one deadline for a whole operation, however often the driver retries inside it.

redis-py retries on three levels, one inside the other: a command, the connection it needs, that connection's handshake.
If a server does not answer, each try lasts until its timeout, and the levels multiply. A cluster adds another level:
before each try of a command the driver asks every node for the nodes of all slots. There the connections themselves
know the deadline, and none starts anything after it.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import redis
from redis import exceptions as faults
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry

TIMEOUT: Final = 5.0
"""Seconds that one answer of the server may take."""
CONNECT: Final = 2.5
"""Seconds that opening a connection may take."""
PATIENCE: Final = 8.0
"""Seconds that a whole operation may take while the server does not answer."""
_RETRIES: Final = 7
"""Number of retries after the first try; against a server that refuses connections they take about one second."""
LEAST: Final = 0.05
"""Minimum number of seconds that the last try gets."""


class _Operation(threading.local):
    until = 0.0


_operation: Final = _Operation()


@contextmanager
def bounded() -> Iterator[float]:
    """Set one deadline, by the monotonic clock, for the block. A nested block keeps the outer block's deadline."""
    if _operation.until:
        yield _operation.until
        return
    _operation.until = time.monotonic() + PATIENCE
    try:
        yield _operation.until
    finally:
        _operation.until = 0.0


class BoundedRetry(Retry):  # type: ignore[misc]
    """The driver's retries, none of which begins after the deadline of the operation or lasts much beyond it."""

    def __init__(self) -> None:
        super().__init__(ExponentialWithJitterBackoff(base=0.01, cap=0.5), _RETRIES)
        self._connection: Callable[[], Any] = lambda: None

    def belong(self, connection: Any) -> None:
        """Limit the timeouts of this connection, which owns this copy of the pool's retry object."""
        self._connection = weakref.ref(connection)

    def call_with_retry(self, do: Callable[[], Any], fail: Callable[..., Any], *more: Any, **named: Any) -> Any:
        """Call ``do`` with retries, as the driver does."""
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
        if connection._sock is not None:  # noqa: SLF001 - only newer versions of the driver have a public name for it
            connection._sock.settimeout(TIMEOUT)  # noqa: SLF001


class _Ended(Exception):
    """The operation's deadline has passed. This is no driver error, so that an outer retry loop ends too."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


# --- clusters -----------------------------------------------------------------------------------------


class ClusterClient(redis.RedisCluster):  # type: ignore[misc]
    """A cluster's client whose commands end at the deadline of their operation, and raise the driver's own errors."""

    def __init__(self, **settings: Any) -> None:
        with _ending():
            super().__init__(connection_pool_class=ClusterPool, **settings)

    def execute_command(self, *words: Any, **named: Any) -> Any:
        """Send one command. Raises the driver's errors."""
        with _ending():
            return super().execute_command(*words, **named)

    def pipeline(self, *words: Any, **named: Any) -> Any:
        pipe = super().pipeline(*words, **named)
        execute = pipe.execute

        def bounded_execute(*words: Any, **named: Any) -> Any:
            with _ending():
                return execute(*words, **named)

        pipe.execute = bounded_execute
        return pipe


@contextmanager
def _ending() -> Iterator[None]:
    with bounded() as until:
        try:
            yield
        except _Ended as end:
            raise end.error from None
        except faults.RedisClusterException as error:  # not a RedisError; only its text says what happened
            if time.monotonic() >= until:
                raise _late() from error
            raise faults.ConnectionError(str(error)) from error


def _late() -> Exception:
    late: Exception = faults.TimeoutError(f"no answer within {PATIENCE:.0f} s")
    return late


class _Limited:
    """A mixin for the driver's connections: their timeouts end with the running operation."""

    _sock: Any

    @property
    def socket_timeout(self) -> float:
        return min(TIMEOUT, _left())

    @socket_timeout.setter
    def socket_timeout(self, _: float) -> None:
        """Ignore the value: the driver sets its configured timeout, but the deadline decides."""

    @property
    def socket_connect_timeout(self) -> float:
        return min(CONNECT, _left())

    @socket_connect_timeout.setter
    def socket_connect_timeout(self, _: float) -> None:
        """Ignore the value, as above."""

    def send_packed_command(self, *words: Any, **named: Any) -> Any:
        if self._sock is not None:
            self._sock.settimeout(self.socket_timeout)
        return super().send_packed_command(*words, **named)  # type: ignore[misc]


class _Connection(_Limited, redis.Connection):  # type: ignore[misc]
    """A connection over TCP."""


class _SecureConnection(_Limited, redis.SSLConnection):  # type: ignore[misc]
    """A connection over TLS."""


class ClusterPool(redis.ConnectionPool):  # type: ignore[misc]
    """A pool of connections to one node of a cluster."""

    def __init__(self, connection_class: type[Any] = redis.Connection, **settings: Any) -> None:
        secure = issubclass(connection_class, redis.SSLConnection)
        super().__init__(connection_class=_SecureConnection if secure else _Connection, **settings)


def _left() -> float:
    """Return the seconds left for this thread's operation. Raises ``_Ended``, after which the driver stops retrying."""
    if not _operation.until:
        return PATIENCE
    left = _operation.until - time.monotonic()
    if left <= 0:
        raise _Ended(_late())
    return max(LEAST, left)
