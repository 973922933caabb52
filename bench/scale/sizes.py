"""Bytes: of calls and leases in a store and its segments, of connections, waiters and readers in a server."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from bench.scale.backends import Backend
from bench.scale.blocks import gate_on
from bench.scale.measured import Figure
from bench.serving import Served
from callosum import Call
from callosum.journal import line_of
from tests.support.redis_server import RedisServer

READERS: Final = 300
LEASES: Final = 1000


def sizes(backend: Backend, state: Path, redis: RedisServer) -> dict[str, Figure]:
    """Bytes of a store for each call that it has taken, with its report."""
    with gate_on(backend.url, state) as gate:
        found = gate.store.check()
        per_entry = found.size / max(1, found.entries)
        said = {f"{backend.name}: store, a call": Figure.of([2 * per_entry])}
        if backend.name == "sqlite":
            lines = b"\n".join(line_of(entry) for entry in gate.store.entries(limit=2000, newest=True))
            said["segment, a call"] = Figure.of([2 * len(gzip.compress(lines, 6)) / 2000])
            said["segment, a call, not compressed"] = Figure.of([2 * len(lines) / 2000])
    if backend.name == "redis":
        with redis.client() as client:
            written = client.info("persistence")["aof_current_size"]
        said["redis: append-only file, a call"] = Figure.of([2 * written / max(1, found.entries)])
    return said


def leases(backends: Sequence[Backend], folder: Path) -> dict[str, Figure]:
    """Bytes of a store for each lease that is open, more than for a call that is done."""
    said = {}
    for backend in backends:
        with gate_on(backend.url, folder / f"leases-{backend.name}") as gate:
            sizes: list[float] = []
            for group in (False, True, False, True):
                before = backend.stored()
                for number in range(LEASES // 2):
                    params = {
                        "action": "send",
                        "target": "x",
                        "replyTo": f"{group}-{number}-{len(sizes)}",
                        "message": "y",
                    }
                    decision = gate.intercept(Call("keeper", "message", params))
                    if not group:
                        gate.complete("keeper", id=decision.id)
                sizes.append((backend.stored() - before) / (LEASES // 2))
            said[f"{backend.name}: store, an open lease"] = Figure.of(sizes[1::2])
    return said


def memory(served: Served) -> dict[str, Figure]:
    """Bytes of a server process for each connection, waiter and reader of the stream."""
    where = urlsplit(served.address)
    place = (where.hostname or "", where.port or 0)
    open_: list[socket.socket] = []

    def dial(request: bytes) -> None:
        one = socket.create_connection(place)
        one.sendall(request)
        open_.append(one)

    def post(path: str, body: dict[str, Any]) -> bytes:
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data

    def grown(make: Callable[[int], bytes]) -> float:
        before = served.memory()[0] * 1e6
        for number in range(READERS):
            dial(make(number))
        time.sleep(1.0)  # until the server has taken them in
        return (served.memory()[0] * 1e6 - before) / READERS

    stream = f"GET /events HTTP/1.1\r\nHost: {where.netloc}\r\nAccept: text/event-stream\r\n\r\n".encode()
    health = f"GET /health HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode()
    held = {"tool": "message", "params": {"action": "delete", "target": "andy", "messageId": "held"}}
    dial(post("/intercept", {"instance": "holder", "callId": "h", **held}))
    open_[-1].recv(1 << 16)
    found = {
        "server: an idle connection": grown(lambda number: health),
        "server: a reader of the event stream": grown(lambda number: stream),
        "server: a waiter": grown(
            lambda number: post("/intercept", {"instance": f"w{number}", "callId": f"w{number}", "wait": 30, **held})
        ),
    }
    for one in open_:
        one.close()
    return {name: Figure.of([max(0.0, value)]) for name, value in found.items()}
