"""Work that no call waits for, done by a thread that exists while there is work."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

_REST: Final = 0.05
"""Seconds without a new job after which the waiting ones are done: until then calls need the interpreter."""
_RESTS: Final = 40
"""Most rests of the thread in a row, if jobs keep coming."""
_MOST: Final = 8_000_000
"""Most bytes that wait; when there are more, all work is done at once. The thread stops resting at a quarter."""


class BackgroundQueue:
    """A queue of small jobs, done in order. ``finish`` does all waiting jobs now, for a caller that needs them done."""

    def __init__(self) -> None:
        self.begin_anew()
        _ALL.add(self)

    def begin_anew(self) -> None:
        """Discard waiting jobs in a forked child: the parent does them."""
        self._waiting: deque[tuple[Callable[[], None], int]] = deque()
        self._guard = threading.Lock()
        self._working = threading.Lock()
        self._size = self._added = 0
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[], None], size: int) -> None:
        """Queue a job that holds ``size`` bytes. It must not raise."""
        self._waiting.append((work, size))
        self._size += size
        self._added += 1
        if self._size > _MOST:
            self.finish()
        elif self._thread is None:
            self._wake()

    def finish(self) -> None:
        """Do the waiting jobs, in this thread."""
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
            except RuntimeError:  # no thread can be started: the next job tries again, or too many bytes force the work
                self._thread = None

    def _run(self) -> None:
        rest = threading.Event()
        this_thread = threading.current_thread()
        while True:
            for _ in range(_RESTS):
                before = self._added
                rest.wait(_REST)
                if self._added == before or self._size > _MOST // 4:
                    break
            self.finish()
            with self._guard:
                if self._thread is not this_thread:
                    return
                if not self._waiting:  # a job added after this starts another thread
                    self._thread = None
                    return


_ALL: Final[WeakSet[BackgroundQueue]] = WeakSet()


def _begin_anew() -> None:
    for queue in list(_ALL):
        queue.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
