"""A host's program at a pseudo-terminal, with its output and the keys that a person presses."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.e2e.home import PATIENCE, until

ESCAPE = "\x1b"
ENTER = "\r"
_PRESS_AGAIN = 5.0
"""Seconds after which keys that had no effect are pressed again."""
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


class Terminal:
    """A program that runs at a pseudo-terminal until ``close``."""

    def __init__(self, command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._ours = ours
        self._shown = b""
        self._read_to = 0
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environ, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._ours, 65536)
            except OSError:  # Linux reports so that the other end is closed
                return
            if not piece:
                return
            self._shown += piece

    def text(self) -> str:
        """Return all output without blanks and control sequences, in which programs differ."""
        return re.sub(r"\s+", "", _SEQUENCE.sub("", self._shown.decode(errors="replace")))

    def wait(self, words: str) -> None:
        """Wait until these words are shown, after those of the last ``wait``."""
        try:
            until(lambda: self.shows(words), words)
        except AssertionError:
            raise AssertionError(f"{words!r} was never shown: {self.text()[-3000:]}") from None

    def shows(self, words: str) -> bool:
        """Return True if these words appear after the last ones that were found."""
        wanted = words.replace(" ", "")
        at = self.text().find(wanted, self._read_to)
        if at >= 0:
            self._read_to = at + len(wanted)
        return at >= 0

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def press_until(self, keys: str, happened: Callable[[], object], what: str) -> None:
        """Press keys until something has happened: a program may overlook those that come as its dialog opens."""
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            self.press(keys)
            with suppress(AssertionError):
                until(happened, what, _PRESS_AGAIN)
                return
        raise AssertionError(f"{what}: not within {PATIENCE:.0f} s: {self.text()[-3000:]}")

    def close(self) -> None:
        """End the program, if it still runs. May be called twice."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(5)
        if self._ours >= 0:
            os.close(self._ours)
        self._ours = -1
