"""One deadline for everything an operation does, however often the driver tries again inside it.

redis-py retries on three levels, one inside the other: a command, the connection it needs, that connection's handshake.
On a server that does not answer each try lasts until its timeout, and the levels multiply. In a cluster there are more:
each node is asked for the nodes of all slots, before each try of a command. There the connections themselves know the
deadline, and none begins anything after it.
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


class BoundedRetry(Retry):  # type: ignore[misc]
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


# --- clusters -----------------------------------------------------------------------------------------


class ClusterClient(redis.RedisCluster):  # type: ignore[misc]
    """A cluster's client whose commands end at the deadline of their operation, and raise the driver's own errors."""

    def __init__(self, **settings: Any) -> None:
        with _ending():
            super().__init__(connection_pool_class=ClusterPool, **settings)

    def execute_command(self, *words: Any, **named: Any) -> Any:
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
        except faults.RedisClusterException as error:  # this is no RedisError, and its text alone says what it is
            if time.monotonic() >= until:
                raise _late() from error
            raise faults.ConnectionError(str(error)) from error


def _late() -> Exception:
    late: Exception = faults.TimeoutError(f"no answer within {PATIENCE:.0f} s")
    return late


class _Limited:
    """A connection whose timeouts end with the operation under way; to be put before one of the driver's classes."""

    _sock: Any

    @property
    def socket_timeout(self) -> float:
        return min(TIMEOUT, _left())

    @socket_timeout.setter
    def socket_timeout(self, _: float) -> None:
        """Leave it: the driver sets what it was given, and this class knows better."""

    @property
    def socket_connect_timeout(self) -> float:
        return min(CONNECT, _left())

    @socket_connect_timeout.setter
    def socket_connect_timeout(self, _: float) -> None:
        """Leave it, as above."""

    def send_packed_command(self, *words: Any, **named: Any) -> Any:
        if self._sock is not None:
            self._sock.settimeout(self.socket_timeout)
        return super().send_packed_command(*words, **named)  # type: ignore[misc]


class _Connection(_Limited, redis.Connection):  # type: ignore[misc]
    """Over TCP."""


class _SecureConnection(_Limited, redis.SSLConnection):  # type: ignore[misc]
    """Over TLS."""


class ClusterPool(redis.ConnectionPool):  # type: ignore[misc]
    """Connections to one node of a cluster."""

    def __init__(self, connection_class: type[Any] = redis.Connection, **settings: Any) -> None:
        secure = issubclass(connection_class, redis.SSLConnection)
        super().__init__(connection_class=_SecureConnection if secure else _Connection, **settings)


def _left() -> float:
    """Return the seconds left to this thread's operation. Raises ``_Ended``, after which the driver tries nothing."""
    if not _operation.until:
        return PATIENCE
    left = _operation.until - time.monotonic()
    if left <= 0:
        raise _Ended(_late())
    return max(LEAST, left)
