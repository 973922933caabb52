"""Hearing what a store's server says of what ended: one thread for all who wait or listen in a process.

Where nothing can be heard, waits just end by their time: who waits looks again anyway, so a lost notice costs time
and nothing else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from callosum.stores.base import Heard

_LAST_PAUSE: Final = 5.0
"""The longest pause between two tries to hear, in seconds."""


class Notifier:
    """Waits for notices. A store says how it hears them: ``follow``.

    The thread starts with the first wait or listener, and anew in a forked process.
    """

    faults: tuple[type[Exception], ...] = (OSError,)
    """What ``follow`` may raise where nothing can be heard just now; it is called again after a pause."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._told = threading.Condition()
        self._count = 0
        self._heard: tuple[Heard, ...] = ()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._hearing = threading.Event()
        self._pid = os.getpid()

    def follow(self, stop: threading.Event) -> None:
        """Hears until ``stop`` is set: calls ``begun`` once notices arrive, and ``ring`` for each."""
        raise NotImplementedError

    # --- for who waits --------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Wait for a notice, at most ``seconds``."""
        self._start()
        with self._told:
            before = self._count
            self._told.wait_for(lambda: self._count != before, max(seconds, 0))

    def listen(self, heard: Heard) -> Callable[[], None]:
        """As ``Waking.listen``."""
        self._start()
        with self._told:
            self._heard = (*self._heard, heard)
            hearing = self._hearing.is_set()

        def end() -> None:
            with self._told:
                self._heard = tuple(one for one in self._heard if one is not heard)

        if hearing:
            heard(None, ())
        return end

    def hears(self) -> bool:
        """Whether notices arrive just now."""
        return self._pid == os.getpid() and self._hearing.is_set()

    def hearing(self, seconds: float) -> bool:
        """Whether notices arrive by now; waits for that at most ``seconds``."""
        return self._hearing.wait(seconds)

    def close(self) -> None:
        """End the thread; a later wait starts another."""
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None and self._pid == os.getpid():
            thread.join(timeout=5)

    # --- for who hears --------------------------------------------------------------------------------

    def begun(self) -> None:
        """Notices arrive from here on; something may have ended before."""
        self._tell(None, (), begun=True)

    def ring(self, namespace: str | None, keys: tuple[str, ...]) -> None:
        """Tells all of a notice: where something ended, None and no keys where that is not known."""
        self._tell(namespace, keys)

    def _tell(self, namespace: str | None, keys: tuple[str, ...], *, begun: bool = False) -> None:
        with self._told:
            if begun:  # in one step with who is told, so that a new listener is told once
                self._hearing.set()
            self._count += 1
            self._told.notify_all()
            heard = self._heard
        for one in heard:
            one(namespace, keys)

    def _start(self) -> None:
        """Start the thread, if none runs in this process. Where that cannot be, the next wait tries again."""
        if self._pid != os.getpid():
            self._begin()  # the thread stayed behind in the process that was forked
        with self._told:
            if self._thread is None or not self._thread.is_alive():
                self._stop = threading.Event()  # another one: the thread before may still be about to end
                thread = threading.Thread(target=self._run, args=(self._stop,), name="callosum-word", daemon=True)
                with suppress(RuntimeError):  # no threads left: until there are, whoever waits looks now and then
                    thread.start()
                    self._thread = thread

    def _run(self, stop: threading.Event) -> None:
        pause = 0.1
        while not stop.is_set():
            try:
                self.follow(stop)
            except self.faults:
                if self._hearing.is_set():
                    pause = 0.1
                self._hearing.clear()
                stop.wait(pause)
                pause = min(pause * 2, _LAST_PAUSE)
        self._hearing.clear()
