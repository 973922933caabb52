"""What wakes those who wait: a message of the server, whichever process ended something.

One thread with a connection of its own subscribes, from the first wait on. While it cannot, waits end by their time:
who waits looks again anyway, so a message that was lost costs time and nothing else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

import msgspec
from redis import exceptions as faults

from callosum.stores.base import Heard
from callosum.stores.redis.link import Link

_LOOK_UP: Final = 0.5
"""After how many seconds the thread sees that it is to stop."""
_LAST_PAUSE: Final = 5.0
_decode = msgspec.msgpack.Decoder(list[str]).decode


def _said(channel: bytes, data: bytes) -> tuple[str | None, tuple[str, ...]]:
    """Where something ended: the channel is the namespace's, and the message has the names of what was changed.

    Among these (``names.changed_by``) the keys themselves are those without a sign that says more.
    """
    written = channel.partition(b":{")[2].rpartition(b"}")[0]
    namespace = unquote(written.decode())
    try:
        names = _decode(data)
    except (msgspec.DecodeError, ValueError):
        return namespace, ()  # an older server's
    return namespace, tuple(name for name in names if "\0" not in name and name[:1] != "\1" and name[-1:] != "|")


class Wake:
    """Waits for the messages of all namespaces of one store."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._pattern = f"{link.prefix}:{{*}}:wake"
        self._begin()

    def _begin(self) -> None:
        self._told = threading.Condition()
        self._count = 0
        self._heard: tuple[Heard, ...] = ()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._subscribed = threading.Event()
        self._pid = os.getpid()

    def wait(self, seconds: float) -> None:
        """Waits for a message, no longer than ``seconds``."""
        self._start()
        with self._told:
            known = self._count
            self._told.wait_for(lambda: self._count != known, max(seconds, 0))

    def listen(self, heard: Heard) -> Callable[[], None]:
        """As ``Waking.listen``."""
        self._start()
        with self._told:
            self._heard = (*self._heard, heard)

        def end() -> None:
            with self._told:
                self._heard = tuple(one for one in self._heard if one is not heard)

        if self._subscribed.is_set():
            heard(None, ())
        return end

    def hears(self) -> bool:
        """Whether messages arrive just now."""
        return self._pid == os.getpid() and self._subscribed.is_set()

    def subscribed(self, seconds: float) -> bool:
        """Whether messages arrive by now; waits for that no longer than ``seconds``."""
        return self._subscribed.wait(seconds)

    def close(self) -> None:
        """Ends the thread; a later wait starts another."""
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None and self._pid == os.getpid():
            thread.join(timeout=5)

    def _start(self) -> None:
        """Starts the thread, if there is none in this process."""
        if self._pid != os.getpid():
            self._begin()  # the thread stayed behind in the process that was forked
        with self._told:
            if self._thread is None:
                self._stop.clear()
                self._thread = threading.Thread(target=self._listen, name="callosum-wake", daemon=True)
                self._thread.start()

    def _listen(self) -> None:
        stop, pause = self._stop, 0.1
        while not stop.is_set():
            try:
                with self._link.client.pubsub() as messages:
                    messages.psubscribe(self._pattern)
                    while not stop.is_set():
                        message = messages.get_message(timeout=_LOOK_UP)
                        if message is None:
                            continue
                        pause = 0.1
                        if message["type"] == "psubscribe":
                            self._subscribed.set()
                            self._ring(None, ())  # something may have ended before
                        else:
                            self._ring(*_said(message["channel"], message["data"]))
            except (faults.RedisError, OSError):
                self._subscribed.clear()
                stop.wait(pause)
                pause = min(pause * 2, _LAST_PAUSE)
        self._subscribed.clear()

    def _ring(self, namespace: str | None, keys: tuple[str, ...]) -> None:
        with self._told:
            self._count += 1
            self._told.notify_all()
            heard = self._heard
        for one in heard:
            one(namespace, keys)
