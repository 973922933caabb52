"""Receive a store's notifications that an action ended. One thread per process serves all waiters and listeners.

Without notifications a wait simply ends by its time: waiters poll anyway, so a lost notification only costs time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from callosum.stores.base import OnEnded

_LONGEST: Final = 7900
"""Maximum number of bytes of a notification; PostgreSQL refuses 8000."""
_decode: Final = msgspec.json.Decoder(list[str]).decode
CHECK_STOP: Final = 0.5
"""Seconds after which ``follow`` notices that it must stop."""
_LONGEST_PAUSE: Final = 5.0
"""Longest pause between two attempts to connect, in seconds."""


def notice(namespace: str, keys: Sequence[str]) -> str:
    """Encode where an action ended: namespace and keys, or only the namespace if the keys do not fit."""
    encoded = msgspec.json.encode([namespace, *keys])
    return (encoded if len(encoded) <= _LONGEST else msgspec.json.encode([namespace])).decode()


class Notifier:
    """Receives notifications. A store implements ``follow``, which receives them from its server.

    The thread starts with the first wait or listener, and anew in a forked process.
    """

    faults: tuple[type[Exception], ...] = (OSError,)
    """What ``follow`` may raise while notifications cannot be received; it is called again after a pause."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._notified = threading.Condition()
        self._count = 0
        self._listeners: tuple[OnEnded, ...] = ()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._connected = threading.Event()
        self._pid = os.getpid()

    def follow(self, stop: threading.Event) -> None:
        """Receive until ``stop`` is set. Call ``begin`` once notifications arrive, and ``notify`` for each."""
        raise NotImplementedError

    # --- Used by waiters and listeners ---------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Wait for a notification, at most ``seconds``."""
        self._start()
        with self._notified:
            before = self._count
            self._notified.wait_for(lambda: self._count != before, max(seconds, 0))

    def listen(self, on_ended: OnEnded) -> Callable[[], None]:
        """Call ``on_ended`` for each notification, as ``Notifying.listen`` describes."""
        self._start()
        with self._notified:
            self._listeners = (*self._listeners, on_ended)
            connected = self._connected.is_set()

        def end() -> None:
            with self._notified:
                self._listeners = tuple(listener for listener in self._listeners if listener is not on_ended)

        if connected:
            on_ended(None, ())
        return end

    def is_connected(self) -> bool:
        """Return True if notifications are arriving now."""
        return self._pid == os.getpid() and self._connected.is_set()

    def wait_until_connected(self, seconds: float) -> bool:
        """Wait at most ``seconds`` until notifications arrive. Return True if they do."""
        return self._connected.wait(seconds)

    def close(self) -> None:
        """End the thread. A later wait starts another."""
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None and self._pid == os.getpid():
            thread.join(timeout=5)

    # --- Used by ``follow`` --------------------------------------------------------------------------

    def begin(self) -> None:
        """Note that notifications arrive from now on. Something may have ended before."""
        self._tell(None, (), begins=True)

    def notify(self, data: str | bytes) -> None:
        """Tell all waiters and listeners where something ended, as ``notice`` encoded it."""
        try:
            namespace, *keys = _decode(data)
        except (msgspec.DecodeError, ValueError):
            self._tell(None, ())  # from an older version of Callosum, or not known
        else:
            self._tell(namespace, tuple(keys))

    def _tell(self, namespace: str | None, keys: tuple[str, ...], *, begins: bool = False) -> None:
        with self._notified:
            if begins:  # in the same step as reading the listeners, so that a new listener is called once
                self._connected.set()
            self._count += 1
            self._notified.notify_all()
            listeners = self._listeners
        for on_ended in listeners:
            on_ended(namespace, keys)

    def _start(self) -> None:
        """Start the thread if none runs in this process. If that fails, the next wait tries again."""
        if self._pid != os.getpid():
            self._begin()  # the thread stayed in the process that was forked
        with self._notified:
            if self._thread is None or not self._thread.is_alive():
                self._stop = threading.Event()  # a new one, because the previous thread may be about to end
                thread = threading.Thread(
                    target=self._run, args=(self._stop,), name="callosum-notifications", daemon=True
                )
                with suppress(RuntimeError):  # no thread can be started now; until then waiters poll
                    thread.start()
                    self._thread = thread

    def _run(self, stop: threading.Event) -> None:
        pause = 0.1
        while not stop.is_set():
            try:
                self.follow(stop)
            except self.faults:
                if self._connected.is_set():
                    pause = 0.1
                self._connected.clear()
                stop.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        self._connected.clear()
