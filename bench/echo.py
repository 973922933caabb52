"""The web stack alone: reads the same calls, and answers with decisions that a gate once gave.

The same uvicorn, uvloop, httptools, Starlette and msgspec as the server uses, set up as it sets them up;
nothing is decided, checked or kept. ``samples`` is a JSON file with bodies of real answers, which are given
in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import socket
from pathlib import Path

import msgspec
import uvicorn
import uvloop
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from callosum.model import Call, Decision, Report
from callosum.wire import Complete, encode


class Echo:
    """The ASGI application."""

    def __init__(self, samples: dict[str, list[str]]) -> None:
        self._call = msgspec.json.Decoder(Call).decode
        self._complete = msgspec.json.Decoder(Complete).decode
        self._decisions = itertools.cycle([msgspec.json.decode(one, type=Decision) for one in samples["intercept"]])
        self._reports = itertools.cycle([msgspec.json.decode(one, type=Report) for one in samples["complete"]])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        body = await request.body()
        answer: Decision | Report
        if scope["path"] == "/intercept":
            self._call(body)
            answer = next(self._decisions)
        elif scope["path"] == "/complete":
            self._complete(body)
            answer = next(self._reports)
        else:
            await Response(status_code=404)(scope, receive, send)
            return
        await Response(encode(answer), 200, media_type="application/json")(scope, receive, send)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: int, address: str) -> None:
        super().__init__(config)
        self._ready, self._address = ready, address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        os.write(self._ready, self._address.encode() + b"\n")
        os.close(self._ready)


def listen(path: str | None) -> tuple[socket.socket, str]:
    """Where it listens, and what clients call that."""
    if path is None:
        listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
        return listening, f"http://127.0.0.1:{listening.getsockname()[1]}"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(2048)
    return listening, f"unix:{path}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--socket", help="a Unix socket in place of a port")
    parser.add_argument("--ready-fd", type=int, required=True)
    chosen = parser.parse_args()
    listening, address = listen(chosen.socket)
    config = uvicorn.Config(
        Echo(json.loads(chosen.samples.read_text())),
        http="httptools",
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=600,
    )
    server = _Server(config, chosen.ready_fd, address)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve(sockets=[listening]))


if __name__ == "__main__":
    main()
