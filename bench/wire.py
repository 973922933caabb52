"""A distant network: a proxy in a process of its own that delays data and counts round trips."""

from __future__ import annotations

import multiprocessing
import select
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


class Wire:
    """What is known of a running proxy. ``trips``: how often some client began to wait for an answer."""

    def __init__(self, trips: Any) -> None:
        self._trips = trips

    @property
    def trips(self) -> int:
        return int(self._trips.value)


@contextmanager
def far_away(target: Path, path: Path, delay: float) -> Iterator[Wire]:
    """A Unix socket at ``path`` that leads to the one at ``target``, each way ``delay`` seconds later."""
    context = multiprocessing.get_context("spawn")
    trips, ready = context.Value("q", 0, lock=False), context.Event()
    process = context.Process(target=_serve, args=(str(target), str(path), delay, trips, ready), daemon=True)
    process.start()
    try:
        if not ready.wait(30):
            raise RuntimeError("the proxy does not start")
        yield Wire(trips)
    finally:
        process.terminate()
        process.join()


def _serve(target: str, path: str, delay: float, trips: Any, ready: Any) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(256)
    ready.set()
    other: dict[socket.socket, socket.socket] = {}
    asking: dict[socket.socket, bool] = {}
    """Of each client: whether what passed last was its own."""
    waiting: deque[tuple[float, socket.socket, bytes]] = deque()
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        # Not epoll: it waits by whole milliseconds.
        readable, _, _ = select.select([listener, *other], (), (), left)
        now = time.monotonic()
        for source in readable:
            if source is listener:
                client, _ = listener.accept()
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(target)
                other[client], other[upstream] = upstream, client
                asking[client] = False
                continue
            try:
                data = source.recv(1 << 18)
            except OSError:
                data = b""
            if source in asking:
                trips.value += bool(data) and not asking[source]
                asking[source] = bool(data)
            elif other[source] in asking:
                asking[other[source]] = False
            waiting.append((now + delay, other[source], data))
            if not data:
                del other[source]
                asking.pop(source, None)
        while waiting and waiting[0][0] <= time.monotonic():
            _, goal, data = waiting.popleft()
            with suppress(OSError):
                if data:
                    goal.sendall(data)
                else:
                    goal.shutdown(socket.SHUT_WR)
