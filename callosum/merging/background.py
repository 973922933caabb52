"""Work that no call waits for, done by a thread that lives while there is some."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

_EVERY: Final = 0.05
"""Seconds between two looks."""
_MOST: Final = 8_000_000
"""Bytes that wait at most; what comes on top is done at once."""


class BackgroundQueue:
    """A queue of small works, done in order. ``finish`` does what waits, for whoever needs it done."""

    def __init__(self) -> None:
        self.begin_anew()
        _ALL.add(self)

    def begin_anew(self) -> None:
        """Forget what waits, in a forked child: that is the parent's to do."""
        self._waiting: deque[tuple[Callable[[], None], int]] = deque()
        self._guard = threading.Lock()
        self._working = threading.Lock()
        self._size = 0
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[], None], size: int) -> None:
        """Take a work that holds ``size`` bytes. It must not raise."""
        self._waiting.append((work, size))
        self._size += size
        if self._size > _MOST:
            self.finish()
        elif self._thread is None:
            self._wake()

    def finish(self) -> None:
        """Do what waits, in this thread."""
        with self._working:
            while self._waiting:
                work, size = self._waiting.popleft()
                self._size -= size
                work()

    def _wake(self) -> None:
        with self._guard:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="callosum-later", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no thread can be had: the next work tries again, or there are too many bytes
                self._thread = None

    def _run(self) -> None:
        rest = threading.Event()
        mine = threading.current_thread()
        while True:
            rest.wait(_EVERY)
            self.finish()
            with self._guard:
                if self._thread is not mine:
                    return
                if not self._waiting:  # whoever adds after this starts another
                    self._thread = None
                    return


_ALL: Final[WeakSet[BackgroundQueue]] = WeakSet()


def _begin_anew() -> None:
    for one in list(_ALL):
        one.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
