"""Accept connections only while there are files for them.

The event loop accepts whatever comes, and resets it where the process has no file left for it. Where the limit of open
files (``ulimit -n``) is below the number of connections that the server takes, this module accepts in the loop's place:
a connection for which there is no room waits in the kernel's queue until there is.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final

_AT_ONCE: Final = 64
"""Most connections that are accepted between two turns of the loop."""
_PAUSE: Final = 0.02
"""Seconds until a full server looks for room again."""


class Acceptor:
    """Accept connections of ``listener`` while fewer than ``room`` are open.

    ``count`` returns how many are open. ``handshake`` is the most seconds of a TLS handshake. Has what
    ``uvicorn.Server`` asks of the servers that it closes.
    """

    def __init__(
        self,
        listener: socket.socket,
        make: Callable[[], asyncio.Protocol],
        *,
        room: int,
        count: Callable[[], int],
        tls: ssl.SSLContext | None,
        handshake: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._make = make
        self._room = room
        self._count = count
        self._tls = tls
        self._handshake = handshake
        self._starting: set[asyncio.Task[None]] = set()
        """Connections that are accepted and not open yet."""
        self._paused: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._loop.add_reader(listener.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more connections. Those that are open stay open."""
        if self._paused is not None:
            self._paused.cancel()
            self._paused = None
        self._loop.remove_reader(self._listener.fileno())

    async def wait_closed(self) -> None:
        """Return once every connection that was accepted is open or gone."""
        if self._starting:
            await asyncio.wait(self._starting)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            if self._count() + len(self._starting) >= self._room:
                self._pause()
                return
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no files or no memory just now: whoever wants to connect waits
                self._pause()
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._open(accepted))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _open(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._make,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake if self._tls is not None else None,
            )
        except OSError:  # the client is gone, or no TLS was spoken
            accepted.close()

    def _pause(self) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._paused = self._loop.call_later(_PAUSE, self._resume)

    def _resume(self) -> None:
        self._paused = None
        self._loop.add_reader(self._listener.fileno(), self._accept)
        self._accept()


def open_files() -> int:
    """Return how many files this process has open; 0 where the system does not tell."""
    try:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208  names are all that is needed
    except OSError:
        return 0
