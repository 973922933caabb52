"""Wake waiters by a notification of the database (``LISTEN``), whichever server ended an action."""

from __future__ import annotations

import threading

import psycopg
from psycopg import sql

from callosum.stores.notifications import CHECK_STOP, Notifier
from callosum.stores.postgres.connections import PostgresConnections


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
                for notification in connection.notifies(timeout=CHECK_STOP, stop_after=1):
                    self.notify(notification.payload)
