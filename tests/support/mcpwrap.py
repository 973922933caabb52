"""The wrap as an MCP client sees it: a child with pipes, and the log of its server."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import forking

ROOT = Path(__file__).resolve().parents[2]
SERVER = (sys.executable, str(ROOT / "tests" / "support" / "mcpserver.py"))
CALLOSUM = (sys.executable, "-m", "callosum.cli")
LIMIT = 30.0
"""Seconds after which somebody who does not answer has failed."""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test-client", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Wrapped:
    """The client's end. ``modern``: it uses the protocol of 2026, without a handshake."""

    def __init__(
        self, command: tuple[str, ...], environ: dict[str, str], log: Path | None = None, *, modern: bool = False
    ) -> None:
        self.process = forking.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, env=environ
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.to, self.back, self.said = self.process.stdin, self.process.stdout, self.process.stderr
        self.log = log
        self.modern = modern
        self.kept: list[Any] = []
        self._rest = b""
        self._number = 0
        if not modern:
            info = {"name": "test-client", "version": "1"}
            asked = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
            assert self.ask("initialize", asked)["serverInfo"]
            self.notify("notifications/initialized")

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self.to.write(left) :]

    def send(self, method: str, params: dict[str, Any] | None = None, id: Any = None) -> Any:
        """Send a request and return its id."""
        if id is None:
            self._number += 1
            id = self._number
        params = {**({"_meta": META} if self.modern else {}), **(params or {})}
        self.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n")
        return id

    def notify(self, method: str, **params: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")

    def line(self) -> bytes:
        """Return the next line unchanged; ``b""`` at the end."""
        while b"\n" not in self._rest:
            assert select.select([self.back], [], [], LIMIT)[0], "nothing came"
            more = os.read(self.back.fileno(), 1 << 20)
            if not more:
                return b""
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line + b"\n"

    def answer(self, id: Any) -> Any:
        """Return the response to a request; messages that come before it are kept in ``kept``."""
        for found in self.kept:
            if isinstance(found, dict) and found.get("id") == id and "method" not in found:
                self.kept.remove(found)
                return found
        while True:
            line = self.line()
            assert line, f"it ended: {self.said.read().decode()}"
            found = json.loads(line)
            if isinstance(found, dict) and found.get("id") == id and "method" not in found:
                return found
            self.kept.append(found)

    def ask(self, method: str, params: dict[str, Any] | None = None, id: Any = None) -> Any:
        found = self.answer(self.send(method, params, id))
        return found.get("result", found)

    def call(self, tool: str, arguments: dict[str, Any] | None = None, meta: Mapping[str, Any] | None = None) -> Any:
        """Return the result of a tool."""
        return self.ask("tools/call", self.params(tool, arguments, meta))

    def params(
        self, tool: str, arguments: dict[str, Any] | None = None, meta: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        said = {**(META if self.modern else {}), **(meta or {})}
        return {"name": tool, "arguments": arguments or {}, **({"_meta": said} if said else {})}

    def seen(self) -> list[Any]:
        """Return the messages that the server got."""
        assert self.log is not None
        return [json.loads(line) for line in self.log.read_bytes().splitlines() if line.strip()]

    def calls(self) -> list[Any]:
        """Return the calls that the server got."""
        return [one for one in self.seen() if isinstance(one, dict) and one.get("method") == "tools/call"]

    def end(self) -> int:
        """Close the input and return the exit code."""
        self.to.close()
        while self.line():
            pass
        return self.process.wait(LIMIT)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LIMIT)
        for pipe in (self.to, self.back, self.said):
            pipe.close()


def text_of(result: Any) -> str:
    """Return the text of a result."""
    return "\n".join(block["text"] for block in result["content"])


@contextmanager
def wrapped(
    state: Path,
    *options: str,
    server: tuple[str, ...] | None = None,
    modern: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Wrapped]:
    """Run the test server (or ``server``) behind the wrap."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    variables = forking.shared_environ(kept) | {"CALLOSUM_STATE": str(state)} | dict(environ or {})
    log = state.parent / f"seen-{os.urandom(4).hex()}.jsonl"
    log.touch()
    behind = server if server is not None else ("--", *SERVER, str(log))
    client = Wrapped((*CALLOSUM, "mcp", *options, *behind), variables, log, modern=modern)
    try:
        yield client
    finally:
        client.close()


Start = Callable[..., Wrapped]
