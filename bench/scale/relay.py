"""A process between a client and a store: adds a delay each way, and counts how often the client waited."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import psutil
import uvloop

_PIECE = 1 << 16


class Relay:
    """A running relay. It listens at its given address."""

    def __init__(self, pipe: Connection, process: psutil.Process) -> None:
        self._pipe = pipe
        self.process = process

    def trips(self) -> int:
        """How many times, since it began, the client said something after having been answered."""
        self._pipe.send(None)
        return int(self._pipe.recv())


@contextmanager
def relay(place: str | tuple[str, int], target: str | tuple[str, int], delay: float) -> Iterator[Relay]:
    """From ``place`` to ``target`` (a Unix socket's path, or host and port); ``delay`` in seconds, each way."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, place, target, delay), daemon=True)
    process.start()
    theirs.close()
    try:
        if ours.recv() != "ready":
            raise RuntimeError("the relay did not start")
        yield Relay(ours, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.join(10)


def _serve(pipe: Connection, place: str | tuple[str, int], target: str | tuple[str, int], delay: float) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_listen(pipe, place, target, delay))


async def _listen(pipe: Connection, place: str | tuple[str, int], target: str | tuple[str, int], delay: float) -> None:
    loop = asyncio.get_running_loop()
    trips = 0

    async def pump(
        source: asyncio.StreamReader, sink: asyncio.StreamWriter, last: list[str], *, up: bool, wait: float
    ) -> None:
        nonlocal trips
        while data := await source.read(_PIECE):
            if up and last[0] == "down":
                trips += 1
            last[0] = "up" if up else "down"
            if wait:
                loop.call_later(wait, sink.write, data)  # one clock for all: the order is kept
            else:
                sink.write(data)
        loop.call_later(wait, sink.close)

    async def meet(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if isinstance(target, str):
            far, there = await asyncio.open_unix_connection(target)
        else:
            far, there = await asyncio.open_connection(*target)
        last = ["down"]
        await asyncio.gather(
            pump(near, there, last, up=True, wait=delay),
            pump(far, back, last, up=False, wait=delay),
            return_exceptions=True,
        )

    if isinstance(place, str):
        await asyncio.start_unix_server(meet, place)
    else:
        await asyncio.start_server(meet, *place)
    asked = asyncio.Event()
    loop.add_reader(pipe.fileno(), asked.set)
    pipe.send("ready")
    while True:
        await asked.wait()
        asked.clear()
        try:
            pipe.recv()
        except EOFError:
            return
        pipe.send(trips)
