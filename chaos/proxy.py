"""A TCP proxy that treats connections as networks do: it delays, goes silent, resets and flips bits.

It runs on an event loop in its own thread. Its mode can be changed at any moment. Connections that went silent stay
silent, as when a firewall has forgotten them: neither end is notified, and each must notice by itself.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from contextlib import suppress
from typing import Final, Literal, Self

Mode = Literal["plain", "delay", "silent", "reset", "corrupt"]
MODES: Final[tuple[Mode, ...]] = ("delay", "silent", "reset", "corrupt")
_PIECE: Final = 65_536
_LINGER: Final = struct.pack("ii", 1, 0)
"""On, with no time: closing sends RST and drops unsent data."""


class _Pair:
    """A client's connection, and the one behind it."""

    def __init__(self, writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
        self.writers = writers
        self.silent = False


class Proxy:
    """Listens on a free port of the loopback in front of ``target`` (host and port, or the path of a Unix socket).

    In mode ``delay`` each piece is kept for ``delay`` seconds. In mode ``corrupt`` one piece in ``one_in`` has a
    flipped bit. ``faults`` counts what was really done: pieces delayed, swallowed or corrupted, connections reset.
    """

    def __init__(self, target: tuple[str, int] | str, *, seed: int = 1, delay: float = 0.05, one_in: int = 20) -> None:
        self._target = target
        self._random = random.Random(seed)
        self._delay = delay
        self._one_in = one_in
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.mode: Mode = "plain"
        self.faults = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._listener = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        self.port = int(self._listener.sockets[0].getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def set(self, mode: Mode) -> None:
        """Switch to a mode. ``reset`` resets existing connections, ``silent`` silences them permanently."""
        asyncio.run_coroutine_threadsafe(self._set(mode), self._loop).result(10)

    def stop(self) -> None:
        """Close everything."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def _set(self, mode: Mode) -> None:
        self.mode = mode
        for pair in tuple(self._pairs):
            if mode == "reset":
                self._reset(pair)
            elif mode == "silent":
                pair.silent = True

    async def _stop(self) -> None:
        self._listener.close()
        for pair in tuple(self._pairs):
            self._reset(pair)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def _reset(self, pair: _Pair) -> None:
        self.faults += 1
        self._pairs.discard(pair)
        for writer in pair.writers:
            sock = writer.get_extra_info("socket")
            if sock is not None and sock.family != socket.AF_UNIX:
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            if isinstance(self._target, str):
                behind = await asyncio.open_unix_connection(self._target)
            else:
                behind = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair((writer, behind[1]))
        self._pairs.add(pair)
        if self.mode == "reset":
            self._reset(pair)
            return
        pair.silent = self.mode == "silent"
        await asyncio.gather(self._pump(reader, behind[1], pair), self._pump(behind[0], writer, pair))
        self._pairs.discard(pair)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, pair: _Pair) -> None:
        try:
            while data := await source.read(_PIECE):
                if pair.silent:
                    self.faults += 1
                    continue
                if self.mode == "delay":
                    self.faults += 1
                    await asyncio.sleep(self._delay)
                elif self.mode == "corrupt" and self._random.randrange(self._one_in) == 0:
                    self.faults += 1
                    data = self._flipped(data)
                if pair.silent:
                    continue
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            if not pair.silent:
                # Closing one side closes the other, except in silent mode.
                with suppress(OSError):
                    target.close()

    def _flipped(self, data: bytes) -> bytes:
        """Return the piece with one flipped bit."""
        place = self._random.randrange(len(data))
        return data[:place] + bytes([data[place] ^ (1 << self._random.randrange(8))]) + data[place + 1 :]
