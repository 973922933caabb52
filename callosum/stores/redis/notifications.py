"""Wake waiters by a message of the server, whichever process ended an action."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import msgspec
from redis import exceptions as faults

from callosum.stores.notifications import Notifier
from callosum.stores.port import Written
from callosum.stores.redis.connection import RedisConnection

_CHECK_STOP: Final = 0.5
"""Seconds after which the thread notices that it must stop."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[str]).decode


def channel_of(link: RedisConnection) -> str:
    """Return the channel of a store. A cluster carries its messages to all servers."""
    return f"{link.prefix}:{{}}:wake"


def notices(entries: Sequence[Written]) -> list[bytes]:
    """Return the messages for entries about actions: whatever a waiter waits for comes with one."""
    told = {(one.entry.namespace, *[key.name for key in one.about.keys]) for one in entries if one.about is not None}
    return [_encode(one) for one in sorted(told)]


def decoded(data: bytes) -> tuple[str | None, tuple[str, ...]]:
    """Return the namespace and the keys on which something ended."""
    try:
        namespace, *keys = _decode(data)
    except (msgspec.DecodeError, ValueError):
        return None, ()  # from another version of Callosum
    return namespace, tuple(keys)


class RedisNotifier(Notifier):
    """Receive the messages of all namespaces of one store."""

    faults = (faults.RedisError, faults.RedisClusterException, OSError)

    def __init__(self, link: RedisConnection) -> None:
        super().__init__()
        self._link = link

    def follow(self, stop: threading.Event) -> None:
        """Subscribe over a separate connection until ``stop`` is set."""
        with self._link.client.pubsub() as messages:
            messages.subscribe(channel_of(self._link))
            while not stop.is_set():
                message = messages.get_message(timeout=_CHECK_STOP)
                if message is None:
                    continue
                if message["type"] == "subscribe":
                    self.begin()
                else:
                    self.notify(*decoded(message["data"]))
