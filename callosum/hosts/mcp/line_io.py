"""Lines between processes, byte for byte: a reader of a descriptor, and a writer that many threads share."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Final

MAX_LINE: Final = 64_000_000
"""Longest line that is looked at, in bytes."""
_PIECE: Final = 1 << 18


class LineTooLong(Exception):
    """A line of more than ``MAX_LINE`` bytes; ``start`` is what has come of it."""

    def __init__(self, start: bytes) -> None:
        super().__init__(f"a line of more than {MAX_LINE} bytes")
        self.start = start


class LineReader:
    """The lines of a descriptor, their ends included; the last may have none."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    def __iter__(self) -> Iterator[bytes]:
        """Yields line after line until the end. Raises ``LineTooLong``; ``skip`` or ``rest`` go on from there."""
        pieces: list[bytes] = []
        size = 0
        data, self._rest = self._rest, b""
        while data or (data := self._more()):
            while (end := data.find(b"\n")) >= 0:
                line, data = data[: end + 1], data[end + 1 :]
                if pieces:
                    line = b"".join((*pieces, line))
                    pieces, size = [], 0
                self._rest = data
                yield line
                data, self._rest = self._rest, b""
            if data:
                pieces.append(data)
                size += len(data)
                if size > MAX_LINE:
                    raise LineTooLong(b"".join(pieces))
            data = b""
        if pieces:
            yield b"".join(pieces)

    def pieces(self) -> Iterator[bytes]:
        """Yields what is left of the line that was too long, in pieces as they come, its end included."""
        while data := self._more():
            line, end, self._rest = data.partition(b"\n")
            yield line + end
            if end:
                return

    def _more(self) -> bytes:
        try:
            return os.read(self._descriptor, _PIECE)
        except OSError:
            return b""


class LineWriter:
    """Whole lines to a descriptor, one at a time. Once nobody reads them any more the rest is dropped."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self, line: bytes) -> None:
        """Writes a line to its end. Never raises."""
        with self._lock:
            self._write(line)

    def long(self, start: bytes, pieces: Iterator[bytes]) -> None:
        """Writes a line as it comes."""
        with self._lock:
            self._write(start)
            for piece in pieces:
                self._write(piece)

    def close(self) -> None:
        """Closes the descriptor: who reads sees the end. Idempotent."""
        with self._lock:
            self._end()

    def _write(self, line: bytes) -> None:
        view = memoryview(line)
        try:
            while view and not self._closed:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            self._end()

    def _end(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._descriptor)
