"""Send spooled records in the background, so that the gate receives them soon after it is reachable again."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

logger = logging.getLogger("callosum")

EVERY: Final = 1.0
"""Seconds between two attempts."""


class BackgroundSender:
    """Runs one thread that retries while records are ``waiting`` and ends when none are.

    ``carry`` makes one attempt; exceptions it raises are logged. Usable from any thread and after a fork.
    """

    def __init__(self, waiting: Callable[[], bool], carry: Callable[[], object]) -> None:
        self._waiting = waiting
        self._carry = carry
        self._clear()

    def _clear(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Start the thread unless it is running. If no thread can be started, the next call tries again."""
        if self._pid != os.getpid():
            self._clear()
        with self._lock:
            if self._stopped.is_set() or (self._thread is not None and self._thread.is_alive()):
                return
            thread = threading.Thread(target=self._run, name="callosum-sender", daemon=True)
            with suppress(RuntimeError):  # no thread available; the records are on disk
                thread.start()
                self._thread = thread

    def stop(self) -> None:
        """Stop retrying. Idempotent."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(EVERY):
            with self._lock:
                if not self._waiting():
                    self._thread = None
                    return
            try:
                self._carry()
            except Exception:
                logger.exception("spooled calls could not be sent to the gate")
