"""Wake waiters by a message of the server, whichever process ended an action."""

from __future__ import annotations

import threading
from typing import Final
from urllib.parse import unquote

import msgspec
from redis import exceptions as faults

from callosum.stores.notifications import Notifier
from callosum.stores.redis.connection import RedisConnection

_CHECK_STOP: Final = 0.5
"""Seconds after which the thread notices that it must stop."""
_decode = msgspec.msgpack.Decoder(list[str]).decode


def _decoded(channel: bytes, data: bytes) -> tuple[str | None, tuple[str, ...]]:
    """Return the namespace and the keys on which an action ended.

    The channel names the namespace; the message lists the changed names (``names.names_of_change``), of which those
    without a marker character are keys.
    """
    written = channel.partition(b":{")[2].rpartition(b"}")[0]
    namespace = unquote(written.decode())
    try:
        names = _decode(data)
    except (msgspec.DecodeError, ValueError):
        return namespace, ()  # from an older version of Callosum
    return namespace, tuple(name for name in names if "\0" not in name and name[:1] != "\1" and name[-1:] != "|")


class RedisNotifier(Notifier):
    """Receive the messages of all namespaces of one store."""

    faults = (faults.RedisError, faults.RedisClusterException, OSError)

    def __init__(self, link: RedisConnection) -> None:
        super().__init__()
        self._link = link
        self._pattern = f"{link.prefix}:{{*}}:wake"

    def follow(self, stop: threading.Event) -> None:
        """Subscribe over a separate connection until ``stop`` is set."""
        with self._link.client.pubsub() as messages:
            messages.psubscribe(self._pattern)
            while not stop.is_set():
                message = messages.get_message(timeout=_CHECK_STOP)
                if message is None:
                    continue
                if message["type"] == "psubscribe":
                    self.begin()
                else:
                    self.notify(*_decoded(message["channel"], message["data"]))
