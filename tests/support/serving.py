"""A real server in a process of its own, and one plain HTTP request to it."""

import asyncio
import http.client
import json
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from callosum.brain import Brain
from callosum.corpus.bus import Corpus
from callosum.gate import LocalGate
from callosum.server.listeners import address_of, heard, listen, running
from callosum.server.run import ServerOptions, serve_gate
from callosum.server.tokens import FILE as TOKENS
from callosum.server.tokens import Tokens
from tests.support import forking

SECONDS = 60.0
"""How long a server may take to start or to stop."""


class Server:
    """A running server: its process, its state folder and its address."""

    def __init__(self, process: subprocess.Popen[bytes], state: Path, address: str, log: Path) -> None:
        self.process = process
        self.state = state
        self.address = address
        self.log = log

    @property
    def host_and_port(self) -> tuple[str, int]:
        """Return host and port."""
        host, _, port = self.address.partition("://")[2].rpartition(":")
        return host, int(port)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
        token: str | None = None,
        timeout: float = 30,
    ) -> Any:
        """Send one request on a connection of its own; return ``status``, ``headers`` and ``body`` (JSON parsed)."""
        connection: http.client.HTTPConnection
        if self.address.startswith("unix:"):
            connection = _Unix(self.address.removeprefix("unix:"), timeout)
        else:
            connection = http.client.HTTPConnection(*self.host_and_port, timeout=timeout)
        sent = raw if raw is not None else None if body is None else json.dumps(body).encode()
        try:
            said = dict(headers or {})
            if token is not None:
                said["Authorization"] = f"Bearer {token}"
            connection.request(method, path, sent, said)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        kind = answer.headers.get_content_type()
        return SimpleNamespace(
            status=answer.status,
            headers=answer.headers,
            text=content.decode("utf-8", "replace"),
            body=json.loads(content) if kind == "application/json" else None,
        )

    def post(self, path: str, body: Any = None, **more: Any) -> Any:
        """Return the JSON of the response to a POST that must be a 200."""
        found = self.ask("POST", path, {} if body is None else body, **more)
        assert found.status == 200, (found.status, found.text)
        return found.body

    def get(self, path: str, **more: Any) -> Any:
        """Return the JSON of the response to a GET that must be a 200."""
        found = self.ask("GET", path, **more)
        assert found.status == 200, (found.status, found.text)
        return found.body

    def kill(self) -> None:
        """Kill the server, as a crash would."""
        self.process.kill()
        self.process.wait(SECONDS)

    def stop(self) -> int:
        """Ask the server to stop, wait, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def launch(
    state: Path, *options: str, environ: Mapping[str, str] | None = None, before: Callable[[], object] | None = None
) -> Server:
    """Start a server on a free port of the loopback (or as the options say) and wait until it answers.

    ``before`` is called in the new process, before it becomes the server.
    """
    state.mkdir(parents=True, exist_ok=True)
    read, write = os.pipe()
    log = state.parent / f"{state.name}-server.log"
    where = () if any(o in ("--socket", "--host", "--port") for o in options) else ("--port", "0")
    command = [sys.executable, "-m", "callosum.cli", "serve", "--state", str(state), *where, *options]
    with log.open("ab") as errors:
        process = forking.Popen(
            [*command, "--ready-fd", str(write)],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            pass_fds=(write,),
            env=forking.shared_environ(os.environ) | dict(environ or {}),
            preexec_fn=before,
        )
    os.close(write)
    address = heard(read, SECONDS)
    if not address:
        process.kill()
        process.wait()
        raise AssertionError(f"the server did not start: {log.read_text()[-2000:]}")
    return Server(process, state, address, log)


@contextmanager
def serving(
    state: Path, *options: str, environ: Mapping[str, str] | None = None, before: Callable[[], object] | None = None
) -> Iterator[Server]:
    """Run a server for the length of a block; it must not fail on its own. ``before`` is that of ``launch``."""
    server = launch(state, *options, environ=environ, before=before)
    try:
        yield server
        if server.process.poll() is None:
            assert server.stop() == 0, server.log.read_text()[-3000:]
    finally:
        if server.process.poll() is None:
            server.kill()
    assert "Traceback" not in server.log.read_text(), server.log.read_text()[-3000:]


def until(true: Any, seconds: float = SECONDS) -> Any:
    """Repeat the check, ever more slowly, until it is true: for results that another process produces in its own time."""
    began = time.monotonic()
    while not (found := true()):
        waited = time.monotonic() - began
        assert waited < seconds, "it did not come true in time"
        select.select([], [], [], min(0.01 + waited / 20, 0.1))
    return found


def end_gates(state: Path) -> None:
    """End the gates that serve a state folder, by pid, and wait for them. A stopped process is continued first."""
    for one in running(state):
        with suppress(ProcessLookupError):
            os.kill(one.process.pid, signal.SIGTERM)
            os.kill(one.process.pid, signal.SIGCONT)
    until(lambda: not running(state))


@contextmanager
def hosted(
    gate: LocalGate,
    state: Path,
    corpus: Callable[[Corpus], object] = lambda corpus: None,
    beside: Callable[[], Coroutine[Any, Any, object]] = lambda: asyncio.sleep(0),
) -> Iterator[str]:
    """Serve a gate of this process in a thread; yield the address. The server uses ``corpus``, ``beside`` its loop."""
    opened = listen("127.0.0.1", 0)
    address = address_of(opened, tls=False)
    begun: queue.Queue[Callable[[], None] | BaseException] = queue.Queue()

    async def main(brain: Brain) -> None:
        other = asyncio.ensure_future(beside())
        try:
            await serve_gate(brain, Tokens(state / TOKENS), ServerOptions(), opened, begun.put)
        finally:
            other.cancel()

    def run() -> None:
        try:
            with Brain(gate) as brain:
                corpus(brain.corpus)
                asyncio.run(main(brain))
        except BaseException as error:
            begun.put(error)
            raise

    thread = threading.Thread(target=run, name="server")
    thread.start()
    stop = begun.get(timeout=SECONDS)
    if isinstance(stop, BaseException):
        raise stop
    try:
        yield address
    finally:
        stop()
        thread.join(SECONDS)
        assert not thread.is_alive()
