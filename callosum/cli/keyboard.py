"""Read single keys from the terminal, without waiting for the end of a line."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Final, Self

_ARROWS: Final = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down"}


class Keyboard:
    """Reads keys while it is open. At the end the terminal is restored.

    Without a terminal on standard input ``read`` only waits.
    """

    def __init__(self) -> None:
        self._handle = sys.stdin.fileno()
        self._before: list[Any] | None = None
        self._pressed = b""

    def __enter__(self) -> Self:
        if os.isatty(self._handle):
            self._before = termios.tcgetattr(self._handle)
            tty.setcbreak(self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            termios.tcsetattr(self._handle, termios.TCSADRAIN, self._before)

    def read(self, seconds: float) -> str:
        """Return the next key (``"up"`` and ``"down"`` for arrows), ``""`` if none comes in time."""
        if not self._pressed:
            ready, _, _ = select.select([self._handle] if self._before is not None else [], [], [], seconds)
            if not ready:
                return ""
            self._pressed = os.read(self._handle, 64) or b"q"  # the terminal is gone: quit
        length = 3 if self._pressed[:3] in _ARROWS else 1
        key, self._pressed = self._pressed[:length], self._pressed[length:]
        return _ARROWS.get(key) or key.decode("ascii", "replace").lower()
