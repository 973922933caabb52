"""What wakes those who wait: a message of the server, whichever process ended something.

One thread with a connection of its own subscribes, from the first wait on. While it cannot, waits end by their time:
who waits looks again anyway, so a message that was lost costs time and nothing else.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from redis import exceptions as faults

from callosum.stores.redis.link import Link

_LOOK_UP: Final = 0.5
"""After how many seconds the thread sees that it is to stop."""
_LAST_PAUSE: Final = 5.0


class Wake:
    """Waits for the messages of all namespaces of one store."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._pattern = f"{link.prefix}:{{*}}:wake"
        self._begin()

    def _begin(self) -> None:
        self._heard = threading.Condition()
        self._count = 0
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._subscribed = threading.Event()
        self._pid = os.getpid()

    def wait(self, seconds: float) -> None:
        """Waits for a message, no longer than ``seconds``."""
        if self._pid != os.getpid():
            self._begin()  # the thread stayed behind in the process that was forked
        with self._heard:
            if self._thread is None:
                self._stop.clear()
                self._thread = threading.Thread(target=self._listen, name="callosum-wake", daemon=True)
                self._thread.start()
            known = self._count
            self._heard.wait_for(lambda: self._count != known, max(seconds, 0))

    def subscribed(self, seconds: float) -> bool:
        """Whether messages arrive by now; waits for that no longer than ``seconds``."""
        return self._subscribed.wait(seconds)

    def close(self) -> None:
        """Ends the thread; a later wait starts another."""
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None and self._pid == os.getpid():
            thread.join(timeout=5)

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
                        self._ring()  # also once it is subscribed: something may have ended before
            except (faults.RedisError, OSError):
                self._subscribed.clear()
                stop.wait(pause)
                pause = min(pause * 2, _LAST_PAUSE)
        self._subscribed.clear()

    def _ring(self) -> None:
        with self._heard:
            self._count += 1
            self._heard.notify_all()
