"""Wake waiters by a message of the server, whichever process ended an action."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from redis import exceptions as faults

from callosum.stores.notifications import CHECK_STOP, Notifier, notice
from callosum.stores.port import Written
from callosum.stores.redis.connection import RedisConnection


def notices(entries: Sequence[Written]) -> set[str]:
    """Return the messages for entries about actions: whatever a waiter waits for comes with one."""
    told = [(one.entry.namespace, one.about.keys) for one in entries if one.about is not None]
    return {notice(namespace, [key.name for key in keys]) for namespace, keys in told}


class RedisNotifier(Notifier):
    """Receive the messages of all namespaces of one store."""

    faults = (faults.RedisError, faults.RedisClusterException, OSError)

    def __init__(self, link: RedisConnection) -> None:
        super().__init__()
        self._link = link

    def follow(self, stop: threading.Event) -> None:
        """Subscribe over a separate connection until ``stop`` is set."""
        with self._link.client.pubsub() as messages:
            messages.subscribe(self._link.channel)
            while not stop.is_set():
                message = messages.get_message(timeout=CHECK_STOP)
                if message is None:
                    continue
                if message["type"] == "subscribe":
                    self.begin()
                else:
                    self.notify(message["data"])
