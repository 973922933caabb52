"""Watch the write-ahead log: whether it was removed or cut off while a connection relies on it.

SQLite finds its frames by an index in shared memory and never asks whether the file still has them. A log that
somebody truncated goes on growing behind a hole, and everything in it is gone once the processes end.
"""

from __future__ import annotations

import os
from typing import Final

_HEADER: Final = 32
_FRAME: Final = 24
"""Bytes of a frame's header, in front of its page."""
_SALTS: Final = slice(16, 24)
"""Where the log's header has the two numbers that each of its frames repeats."""
_FRAME_SALTS: Final = slice(8, 16)


class Watch:
    """What one connection saw last of the log that is open as ``file``."""

    __slots__ = ("_at", "_emptied", "_header", "_salts", "_size", "file", "inode")

    def __init__(self, file: int) -> None:
        self.file = file
        self.inode = os.fstat(file).st_ino
        self._header = self._salts = b""
        self._size = self._at = 0
        self._emptied = False

    def is_whole(self, size: int) -> bool:
        """Return whether everything is still there that was there at the last look, and look anew.

        ``size`` is the log's size in bytes now. An empty log counts as whole: a checkpoint may have just moved all of
        it into the database.
        """
        self._emptied = not size and self._size > 0
        at = self._at
        if at:
            frame = os.pread(self.file, _FRAME, at)
            if frame[_FRAME_SALTS] == self._salts and size >= self._size:  # so the log's header is the same, too
                return size == self._size or self._advance(size) or self._look(size)
            # What stands there may change, where a transaction was undone; a hole is no frame.
            if not any(frame) and not self._restarted():
                return False
            if size == self._size:
                return True
        return self._look(size)

    def _look(self, size: int) -> bool:
        """Return whether the log begins as it should, and find its last frame."""
        header = os.pread(self.file, _HEADER, 0)
        if header == self._header and size == self._size and not self._at:
            return True
        if size and not any(header):
            return False
        if header == self._header and size < self._size:
            return False
        self._header, self._salts, self._size, self._at = header, header[_SALTS], size, 0
        self._advance(size)
        return True

    def _advance(self, size: int) -> bool:
        """Go to the last frame; returns whether it is one of this log, and not left from an older one."""
        stride = _FRAME + int.from_bytes(self._header[8:12], "big")
        at = _HEADER + ((size - _HEADER) // stride - 1) * stride
        if at < _HEADER or os.pread(self.file, _FRAME, at)[_FRAME_SALTS] != self._salts:
            return False
        self._size, self._at = size, at
        return True

    def _restarted(self) -> bool:
        """Whether the log began anew since the last look, so that its old frames may be gone."""
        header = os.pread(self.file, _HEADER, 0)
        return header != self._header and (any(header) or not os.fstat(self.file).st_size)

    @property
    def emptied(self) -> bool:
        """Whether the log was found empty after it had frames: a checkpoint did that, or somebody else."""
        return self._emptied

    def take(self) -> bytes:
        """Return all that is in the log, and leave it empty."""
        found = os.pread(self.file, os.fstat(self.file).st_size, 0)
        os.ftruncate(self.file, 0)
        return found
