"""What ends a wait: a notice of the database (``LISTEN``), whichever server changed something.

One thread and one connection of its own listen, from the first wait on. Where they fail, waits just end
by their time: who waits looks again anyway, so a lost notice costs time and nothing else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import psycopg
from psycopg import sql

from callosum.stores.base import Heard
from callosum.stores.postgres.link import Connections

_LOOK_UP: Final = 1.0
"""After how many seconds the listener sees that it is to stop."""
_LONGEST: Final = 7900
"""How many bytes a notice may have; PostgreSQL refuses eight thousand."""
_decode = msgspec.json.Decoder(list[str]).decode


def notice(namespace: str, keys: Sequence[str]) -> str:
    """What a notice says: where something ended; without the keys where they are too many to be said."""
    said = msgspec.json.encode([namespace, *keys])
    return (said if len(said) <= _LONGEST else msgspec.json.encode([namespace])).decode()


def _said(notice: str) -> tuple[str | None, tuple[str, ...]]:
    try:
        namespace, *keys = _decode(notice)
    except (msgspec.DecodeError, ValueError):
        return None, ()  # an older server's
    return namespace, tuple(keys)


class Bell:
    """Waits for notices on the channel of one schema."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.channel = f"callosum_{connections.address.schema}"
        self._start()

    def _start(self) -> None:
        self._rung = threading.Condition()
        self._count = 0
        self._heard: tuple[Heard, ...] = ()
        self._thread: threading.Thread | None = None
        self._listening = threading.Event()
        self._stopped = threading.Event()
        self._pid = os.getpid()

    def wait(self, seconds: float) -> None:
        """Waits for a notice, at most ``seconds``."""
        self._begin()
        with self._rung:
            before = self._count
            self._rung.wait_for(lambda: self._count != before, max(seconds, 0))

    def listen(self, heard: Heard) -> Callable[[], None]:
        """As ``Waking.listen``."""
        self._begin()
        with self._rung:
            self._heard = (*self._heard, heard)

        def end() -> None:
            with self._rung:
                self._heard = tuple(one for one in self._heard if one is not heard)

        if self._listening.is_set():
            heard(None, ())
        return end

    def hears(self) -> bool:
        """Whether notices arrive just now."""
        return self._pid == os.getpid() and self._listening.is_set()

    def listening(self, seconds: float) -> bool:
        """Whether notices arrive by now; waits for that at most ``seconds``."""
        return self._listening.wait(seconds)

    def close(self) -> None:
        """Ends the listening."""
        thread = self._thread
        self._stopped.set()
        if thread is not None and self._pid == os.getpid():
            thread.join(timeout=5)
        self._thread = None

    def _begin(self) -> None:
        """Starts the thread, if there is none in this process."""
        if self._pid != os.getpid():
            self._start()
        with self._rung:
            if self._thread is None:
                self._stopped.clear()
                self._thread = threading.Thread(target=self._listen, name="callosum-listen", daemon=True)
                self._thread.start()

    def _listen(self) -> None:
        pause = 0.1
        while not self._stopped.is_set():
            try:
                with self._connections.alone() as connection:
                    connection.execute(sql.SQL("listen {}").format(sql.Identifier(self.channel)))
                    self._listening.set()
                    self._ring(None, ())  # something may have ended before
                    pause = 0.1
                    while not self._stopped.is_set():
                        for told in connection.notifies(timeout=_LOOK_UP, stop_after=1):
                            self._ring(*_said(told.payload))
            except (psycopg.Error, OSError):
                self._listening.clear()
                self._stopped.wait(pause)
                pause = min(pause * 2, 5.0)
        self._listening.clear()

    def _ring(self, namespace: str | None, keys: tuple[str, ...]) -> None:
        with self._rung:
            self._count += 1
            self._rung.notify_all()
            heard = self._heard
        for one in heard:
            one(namespace, keys)
