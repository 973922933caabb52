"""The client's own transport beside HTTP libraries: one request and its answer over a Unix socket.

The answer comes from a plain loop in another process, so that what is measured is the client and two system calls.
``urllib3`` and ``http.client`` get the few lines that they need for a Unix socket, and none for a deadline.
"""

from __future__ import annotations

import http.client
import multiprocessing
import selectors
import socket
import time
from pathlib import Path
from typing import Any, Final

import httpx
import urllib3

from bench.harness import Case, Report, side_by_side
from callosum.client.transport import Transport

VERSIONS: Final = ("httpx", "urllib3")
BLOCK: Final = 200
_BODY: Final = b'{"instance":"mira","tool":"write_file","params":{"path":"/srv/agents/notes.md","text":"On it"}}'
_ANSWER: Final = b'{"verdict":"allow","proceed":true,"id":1795352944361458,"tier":2,"contextKeys":["file:/srv/agents"]}'
_SECONDS: Final = 5.0


def answer(listener: socket.socket) -> None:
    """Answer each request with the same decision, until the process is killed."""
    said = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        len(_ANSWER),
        _ANSWER,
    )
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    heard: dict[int, bytes] = {}
    while True:
        for key, _ in waiting.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                waiting.register(connection, selectors.EVENT_READ, connection)
                continue
            connection = key.data
            got = connection.recv(65_536)
            if not got:
                waiting.unregister(connection)
                connection.close()
                continue
            data = heard.pop(key.fd, b"") + got
            body = data.partition(b"\r\n\r\n")[2]
            if len(body) < len(_BODY):
                heard[key.fd] = data
            else:
                connection.sendall(said)


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str, **_: Any) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class _UnixPool(urllib3.HTTPConnectionPool):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def _new_conn(self) -> Any:
        connection = urllib3.connection.HTTPConnection("localhost", timeout=_SECONDS)

        def connect() -> None:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(_SECONDS)
            connection.sock.connect(self._path)

        connection.connect = connect  # type: ignore[method-assign]
        return connection


def run(folder: Path, rounds: int) -> Report:
    """Median time of a request over a kept connection, as ratios to ``http.client``."""
    report = Report("transport")
    path = str(folder / "sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    server = multiprocessing.get_context("fork").Process(target=answer, args=(listener,), daemon=True)
    server.start()
    ours = Transport(f"unix:{path}")
    plain = _Unix(path)
    pool = _UnixPool(path)
    client = httpx.Client(transport=httpx.HTTPTransport(uds=path), base_url="http://localhost", timeout=_SECONDS)
    kind = {"Content-Type": "application/json"}

    def by_plain(_: int) -> None:
        plain.request("POST", "/intercept", _BODY, kind)
        plain.getresponse().read()

    cases = [
        Case("ours", lambda _: ours.request("POST", "/intercept", _BODY, deadline=time.monotonic() + _SECONDS), BLOCK),
        Case("http.client", by_plain, BLOCK),
        Case("urllib3", lambda _: pool.urlopen("POST", "/intercept", _BODY, headers=kind).data, BLOCK),
        Case("httpx", lambda _: client.post("/intercept", content=_BODY, headers=kind).content, BLOCK),
    ]
    try:
        found = side_by_side(cases, rounds)
    finally:
        server.kill()
        server.join()
        for one in (ours, plain, pool, client, listener):
            one.close()
    for name in ("http.client", "urllib3", "httpx"):
        report.add(f"{name}, over this client's own transport", found[name].over(found["ours"]))
    report.add("this client's own transport", found["ours"].median, "us", note="with a deadline; the others have none")
    return report
