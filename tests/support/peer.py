"""A small server on a real socket that answers from a script: what a client meets when things go wrong."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

Script = Callable[["Request"], None]
"""Answers one request by writing to ``request.peer``'s connection; raising ``Hang`` leaves it without an answer."""

DECISION = {
    "proceed": True, "tier": 3, "contextKey": "doc:plan", "id": 7, "verdict": "allow", "contextKeys": [], "rule": "",
}  # fmt: skip


class Request:
    """A received request: ``method``, ``target``, ``headers`` (lower case), ``body``; and how to answer it."""

    def __init__(self, connection: socket.socket, head: bytes, body: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = first.split(" ")
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.body = body
        self.connection = connection

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def raw(self, data: bytes) -> None:
        self.connection.sendall(data)

    def reply(self, value: Any = DECISION, status: int = 200, **headers: str) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        lines = [f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}", "Content-Type: application/json"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


class Hang(Exception):
    """Keep the connection open and send nothing more on it."""


class Close(Exception):
    """Close the connection."""


def close(request: Request) -> None:
    raise Close


def hang(request: Request) -> None:
    raise Hang


class Peer:
    """Answers each request with the next of ``scripts``, repeating the last one. ``seen`` holds the requests."""

    def __init__(self, *scripts: Script, path: Path | None = None, port: int = 0, wrap: Any = None) -> None:
        self.scripts = list(scripts or [Request.reply])
        self.seen: list[Request] = []
        self.connections = 0
        self.came = threading.Condition()
        self._wrap = wrap
        self._path = path
        self._open: set[socket.socket] = set()
        self._stopped = False
        if path is None:
            self._listener = socket.create_server(("127.0.0.1", port), backlog=64)
            self.url = f"{'https' if wrap else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(path))
            self._listener.listen(64)
            self.url = f"unix:{path}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close everything, as a killed server does."""
        self._stopped = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def hang_up(self) -> None:
        """Close all open connections now."""
        for connection in tuple(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def wait(self, count: int) -> None:
        """Return once ``count`` requests have arrived."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.seen) >= count, 10)

    def bodies(self, target: str) -> list[Any]:
        """Return the bodies that were sent to ``target``."""
        return [request.json for request in self.seen if request.target == target]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._wrap is not None:
                connection = self._wrap(connection)
        except OSError:
            connection.close()
            return
        self._open.add(connection)
        try:
            self._talk(connection)
        except (OSError, Close):
            pass
        except Hang:
            with suppress(OSError):
                connection.recv(1)  # until the other side or ``stop`` closes
        finally:
            self._open.discard(connection)
            connection.close()

    def _talk(self, connection: socket.socket) -> None:
        data = b""
        while not self._stopped:
            while b"\r\n\r\n" not in data:
                more = connection.recv(65536)
                if not more:
                    return
                data += more
            head, _, data = data.partition(b"\r\n\r\n")
            request = Request(connection, head, b"")
            length = int(request.headers.get("content-length", 0))
            while len(data) < length:
                more = connection.recv(65536)
                if not more:
                    return
                data += more
            request.body, data = data[:length], data[length:]
            with self.came:
                script = self.scripts[min(len(self.seen), len(self.scripts) - 1)]
                self.seen.append(request)
                self.came.notify_all()
            script(request)


def by_target(**scripts: Script) -> Script:
    """Return one script that answers by the first word of the path; ``other`` for the rest."""

    def answer(request: Request) -> None:
        name = request.target.split("?")[0].strip("/").split("/")[0]
        (scripts.get(name) or scripts.get("other") or _not_found)(request)

    return answer


def _not_found(request: Request) -> None:
    request.reply({"error": "there is no such endpoint", "at": "path"}, 404)


def replies(value: Any = DECISION, status: int = 200) -> Script:
    return lambda request: request.reply(value, status)


def sends_bytes(data: bytes, *, then: Script = close) -> Script:
    """Return a script that sends these bytes for every request."""

    def answer(request: Request) -> None:
        request.raw(data)
        then(request)

    return answer


@contextmanager
def full_backlog() -> Iterator[str]:
    """Return the URL of a port that accepts no connection because its backlog is full."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting: list[socket.socket] = []
    try:
        for _ in range(16):
            sock = socket.socket()
            waiting.append(sock)
            sock.settimeout(0.05)
            try:
                sock.connect(listener.getsockname())
            except TimeoutError:
                break
        else:
            raise AssertionError("the queue takes everybody")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        for sock in (listener, *waiting):
            sock.close()


def free_port() -> int:
    """Return a port on which most likely nothing listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def lines_of(folder: Path, names: Sequence[str] = ("late*.jsonl",)) -> list[Any]:
    """Return the contents of the files of late calls."""
    found = []
    for name in names:
        for path in sorted(folder.glob(name)):
            found += [json.loads(line) for line in path.read_text().split("\n") if line]
    return found
