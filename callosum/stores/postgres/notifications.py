"""What ends a wait: a notice of the database (``LISTEN``), whichever server changed something."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import msgspec
import psycopg
from psycopg import sql

from callosum.stores.notifications import Notifier
from callosum.stores.postgres.connections import PostgresConnections

_LOOK_UP: Final = 1.0
"""After how many seconds the listener sees that it is to stop."""
_LONGEST: Final = 7900
"""How many bytes a notice may have; PostgreSQL refuses eight thousand."""
_decode = msgspec.json.Decoder(list[str]).decode


def notice(namespace: str, keys: Sequence[str]) -> str:
    """What a notice says: where something ended; without the keys where they are too many to be said."""
    said = msgspec.json.encode([namespace, *keys])
    return (said if len(said) <= _LONGEST else msgspec.json.encode([namespace])).decode()


def _said(notice: str) -> tuple[str | None, tuple[str, ...]]:
    try:
        namespace, *keys = _decode(notice)
    except (msgspec.DecodeError, ValueError):
        return None, ()  # an older server's
    return namespace, tuple(keys)


class PostgresNotifier(Notifier):
    """Waits for notices on the channel of one schema."""

    faults = (psycopg.Error, OSError)

    def __init__(self, connections: PostgresConnections) -> None:
        super().__init__()
        self._connections = connections
        self.channel = f"callosum_{connections.address.schema}"

    def follow(self, stop: threading.Event) -> None:
        """Listens over a connection of its own."""
        with self._connections.alone() as connection:
            connection.execute(sql.SQL("listen {}").format(sql.Identifier(self.channel)))
            self.begun()
            while not stop.is_set():
                for told in connection.notifies(timeout=_LOOK_UP, stop_after=1):
                    self.ring(*_said(told.payload))
