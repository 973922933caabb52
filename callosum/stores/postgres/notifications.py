"""Wake waiters by a notification of the database (``LISTEN``), whichever server ended an action."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import msgspec
import psycopg
from psycopg import sql

from callosum.stores.notifications import Notifier
from callosum.stores.postgres.connections import PostgresConnections

_CHECK_STOP: Final = 1.0
"""Seconds after which the listener notices that it must stop."""
_LONGEST: Final = 7900
"""Maximum number of bytes of a notification; PostgreSQL refuses 8000."""
_decode = msgspec.json.Decoder(list[str]).decode


def notice(namespace: str, keys: Sequence[str]) -> str:
    """Encode where an action ended: namespace and keys, or only the namespace if the keys do not fit."""
    encoded = msgspec.json.encode([namespace, *keys])
    return (encoded if len(encoded) <= _LONGEST else msgspec.json.encode([namespace])).decode()


def _decoded(notice: str) -> tuple[str | None, tuple[str, ...]]:
    try:
        namespace, *keys = _decode(notice)
    except (msgspec.DecodeError, ValueError):
        return None, ()  # from an older version of Callosum
    return namespace, tuple(keys)


class PostgresNotifier(Notifier):
    """Receive notifications on the channel of one schema."""

    faults = (psycopg.Error, OSError)

    def __init__(self, connections: PostgresConnections) -> None:
        super().__init__()
        self._connections = connections
        self.channel = f"callosum_{connections.address.schema}"

    def follow(self, stop: threading.Event) -> None:
        """Listen over a separate connection until ``stop`` is set."""
        with self._connections.alone() as connection:
            connection.execute(sql.SQL("listen {}").format(sql.Identifier(self.channel)))
            self.begin()
            while not stop.is_set():
                for notification in connection.notifies(timeout=_CHECK_STOP, stop_after=1):
                    self.notify(*_decoded(notification.payload))
