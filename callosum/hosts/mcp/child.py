"""Run a server as a child process of the wrap: its pipes, its signals and its exit.

The child writes to the wrap's standard error. When the client closes the wrap's input, the child's input is closed
after everything that came before. Signals that end programs are passed on to the child. The wrap exits as the child
did.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from callosum.hosts.mcp import messages
from callosum.hosts.mcp.line_io import MAX_LINE, LineReader, LineTooLong, LineWriter

if TYPE_CHECKING:
    from types import FrameType

    from callosum.hosts.mcp.proxy import Proxy

logger = logging.getLogger("callosum")

HANDED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that are passed on to the child."""
DRAIN_SECONDS: Final = 5.0
"""Seconds that the wrap waits for output after the child's exit if another process keeps the output open."""
OWN: Final = "CALLOSUM_"
"""Prefix of Callosum's own variables. The child gets none of them, because a token or a store's URL is secret."""


def forward_client(source: int, proxy: Proxy, client: LineWriter) -> None:
    """Forward the client's lines from ``source`` until its end. Answer a line that is too long with an error."""
    reader = LineReader(source)
    while True:
        try:
            for line in reader:
                proxy.from_client(line)
            break
        except LineTooLong as error:
            text = f"{error}: it was not checked, so it is not passed on"
            client(messages.fault(b"null", messages.INVALID_REQUEST, text) + b"\n")
            for _ in reader.pieces():
                pass


class Child:
    """Run the server. ``client`` writes to the wrap's own output."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], client: LineWriter) -> None:
        """Start the server. Raises ``OSError``."""
        self._client = client
        kept = {name: value for name, value in environ.items() if not name.startswith(OWN)}
        self._process = subprocess.Popen(  # noqa: S603 - the user's command
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=kept, bufsize=0
        )
        assert self._process.stdin is not None  # noqa: S101 - requested above
        assert self._process.stdout is not None  # noqa: S101
        self._out = self._process.stdout.fileno()
        self.write = LineWriter(os.dup(self._process.stdin.fileno()))
        self._process.stdin.close()
        for number in HANDED_ON:
            signal.signal(number, self._hand_on)

    def run(self, proxy: Proxy, source: int) -> int:
        """Forward messages until the child exits. Return its exit code, or the negative number of its signal.

        ``source`` is the wrap's own input.
        """
        threading.Thread(target=self._forward_input, args=(proxy, source), name="callosum-up", daemon=True).start()
        down = threading.Thread(target=self._forward_output, args=(proxy,), name="callosum-down", daemon=True)
        down.start()
        code = self._process.wait()
        down.join(DRAIN_SECONDS)
        self.write.close()
        proxy.lost()
        return code

    def _forward_input(self, proxy: Proxy, source: int) -> None:
        forward_client(source, proxy, self._client)
        proxy.finish()
        self.write.close()

    def _forward_output(self, proxy: Proxy) -> None:
        reader = LineReader(self._out)
        while True:
            try:
                for line in reader:
                    proxy.from_server(line)
                break
            except LineTooLong as error:
                logger.warning("the server wrote a line of more than %d bytes: it is passed on unread", MAX_LINE)
                self._client.long(error.start, reader.pieces())
        proxy.lost()
        self._client.close()

    def _hand_on(self, number: int, _: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)


def end_like(code: int) -> int:
    """End this process by the signal that ended the child. Return the exit code if there was no such signal."""
    if code >= 0:
        return code
    number = -code
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
