"""Read and write lines between processes, byte for byte. Many threads can share a writer."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Final

MAX_LINE: Final = 64_000_000
"""Maximum length in bytes of a line that is parsed."""
_PIECE: Final = 1 << 18


class LineTooLong(Exception):
    """Report a line of more than ``MAX_LINE`` bytes. ``start`` is the part that was read."""

    def __init__(self, start: bytes) -> None:
        super().__init__(f"a line of more than {MAX_LINE} bytes")
        self.start = start


class LineReader:
    """Read the lines of a descriptor, including their ends. The last line may have none."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    def __iter__(self) -> Iterator[bytes]:
        """Yield each line until the end. Raises ``LineTooLong``; ``pieces`` then continues from there."""
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
        """Yield the rest of the line that was too long in pieces as they arrive, including its end."""
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
    """Write whole lines to a descriptor, one at a time. Once the reader is gone, drop the rest."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self, line: bytes) -> None:
        """Write a whole line. Never raises."""
        with self._lock:
            self._write(line)

    def long(self, start: bytes, pieces: Iterator[bytes]) -> None:
        """Write a long line in pieces as they arrive."""
        with self._lock:
            self._write(start)
            for piece in pieces:
                self._write(piece)

    def close(self) -> None:
        """Close the descriptor, so that the reader sees the end. Idempotent."""
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
