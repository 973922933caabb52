"""Telling the gate what it does not know yet, beside the calls, so that it knows soon after it is back."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

logger = logging.getLogger("callosum")

EVERY: Final = 1.0
"""Seconds between two tries."""


class BackgroundSender:
    """One thread that tries again and again while something is ``waiting``, and ends when nothing is.

    ``carry`` tries once; what it raises is logged. Usable from any thread and after a fork.
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
        """Begin to try, unless a thread does. Where none can be started, the next call of this does."""
        if self._pid != os.getpid():
            self._clear()
        with self._lock:
            if self._stopped.is_set() or (self._thread is not None and self._thread.is_alive()):
                return
            thread = threading.Thread(target=self._run, name="callosum-sender", daemon=True)
            with suppress(RuntimeError):  # no threads left: what waits is on disk
                thread.start()
                self._thread = thread

    def stop(self) -> None:
        """End the tries. Idempotent."""
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
                logger.exception("what happened without the gate could not be sent")
