"""Accept connections only while the process has file descriptors left for them.

The event loop accepts every connection and resets it if the process has no file descriptor left. If the limit of open
files (``ulimit -n``) is below the server's limit of connections, this module accepts in place of the event loop:
a connection without room waits in the kernel's queue until there is room.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final

_AT_ONCE: Final = 64
"""Number of connections accepted at most in one turn of the loop."""
_PAUSE: Final = 0.02
"""Seconds until a full server checks for room again."""


class Acceptor:
    """Accept connections of ``listener`` while fewer than ``room`` are open.

    ``count`` returns the number of open connections. ``handshake`` is the maximum of seconds for a TLS handshake. The
    class has the methods that ``uvicorn.Server`` calls on the servers it closes.
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
        """Connections that are accepted but not open yet."""
        self._paused: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._loop.add_reader(listener.fileno(), self._accept)

    def close(self) -> None:
        """Stop accepting. Open connections stay open."""
        if self._paused is not None:
            self._paused.cancel()
            self._paused = None
        self._loop.remove_reader(self._listener.fileno())

    async def wait_closed(self) -> None:
        """Return once every accepted connection is open or closed."""
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
            except OSError:  # no file descriptors or memory at the moment: new clients wait
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
        except OSError:  # the client has disconnected, or did not speak TLS
            accepted.close()

    def _pause(self) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._paused = self._loop.call_later(_PAUSE, self._resume)

    def _resume(self) -> None:
        self._paused = None
        self._loop.add_reader(self._listener.fileno(), self._accept)
        self._accept()


def open_files() -> int:
    """Return the number of open files of this process; 0 if the system does not report it."""
    try:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208  names are enough
    except OSError:
        return 0
