"""A server that is a child of the wrap: its pipes, its signals, its end.

The child's standard error is the wrap's own. When the client closes the wrap's input the child's is closed, after
all that came before; signals that end programs are handed on; the wrap ends as the child did.
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
"""Signals that the child gets in place of the wrap."""
DRAIN_SECONDS: Final = 5.0
"""How long after the child's end its last words are waited for, where a process of its own keeps its output open."""
OWN: Final = "CALLOSUM_"
"""How the names of Callosum's own variables begin. The child gets none: a token or a store's URL is a secret."""


class Child:
    """The running server. ``client`` writes to the wrap's own output."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], client: LineWriter) -> None:
        """Starts it. Raises ``OSError``."""
        self._client = client
        kept = {name: value for name, value in environ.items() if not name.startswith(OWN)}
        self._process = subprocess.Popen(  # noqa: S603 - what the user says
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=kept, bufsize=0
        )
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        assert self._process.stdout is not None  # noqa: S101
        self._out = self._process.stdout.fileno()
        self.write = LineWriter(os.dup(self._process.stdin.fileno()))
        self._process.stdin.close()
        for number in HANDED_ON:
            signal.signal(number, self._hand_on)

    def run(self, tap: Proxy, source: int) -> int:
        """Pipes until the child ends; returns its exit code, the negative number of a signal that ended it.

        ``source`` is the wrap's own input.
        """
        threading.Thread(target=self._up, args=(tap, source), name="callosum-up", daemon=True).start()
        down = threading.Thread(target=self._down, args=(tap,), name="callosum-down", daemon=True)
        down.start()
        code = self._process.wait()
        down.join(DRAIN_SECONDS)
        self.write.close()
        tap.lost()
        return code

    def _up(self, tap: Proxy, source: int) -> None:
        reader = LineReader(source)
        while True:
            try:
                for line in reader:
                    tap.up(line)
                break
            except LineTooLong as error:
                text = f"{error}: nobody has looked at it, so it is not passed on"
                self._client(messages.fault(b"null", messages.INVALID_REQUEST, text) + b"\n")
                for _ in reader.pieces():
                    pass
        tap.finish()
        self.write.close()

    def _down(self, tap: Proxy) -> None:
        reader = LineReader(self._out)
        while True:
            try:
                for line in reader:
                    tap.down(line)
                break
            except LineTooLong as error:
                logger.warning("the server wrote a line of more than %d bytes: it is passed on unread", MAX_LINE)
                self._client.long(error.start, reader.pieces())
        tap.lost()
        self._client.close()

    def _hand_on(self, number: int, _: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)


def end_like(code: int) -> int:
    """Ends this process by the signal that ended the child; returns the exit code where it was none."""
    if code >= 0:
        return code
    number = -code
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
