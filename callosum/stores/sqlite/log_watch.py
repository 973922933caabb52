"""Watch the write-ahead log: detect that it was removed or truncated while a connection relies on it.

SQLite finds its frames by an index in shared memory and never checks whether the file still has them. A log that
something truncated keeps growing behind a hole, and everything in it is lost once the processes end.

A log is a header and frames, each of which repeats two numbers of the header (salts)::

    header | frame 0 | frame 1 | ... | the last one | frames of an older log, with other salts

Once all of it is in the database, SQLite starts again with another header and overwrites the older frames.
"""

from __future__ import annotations

import os
from typing import Final

_HEADER: Final = 32
_FRAME: Final = 24
"""Length in bytes of a frame's header, which precedes its page."""
_PAGE: Final = slice(8, 12)
"""Position of the page size in the log's header."""
_SALTS: Final = slice(16, 24)
_FRAME_SALTS: Final = 8
"""Position of the salts in a frame's header. They are eight bytes."""


class LogWatch:
    """What one connection last saw of the log that is open as ``file``."""

    __slots__ = ("_count", "_grew", "_header", "_left", "_salts", "_stride", "emptied", "file", "inode")

    def __init__(self, file: int) -> None:
        self.file = file
        self.inode = os.fstat(file).st_ino
        self._header = self._salts = b""
        self._stride = _FRAME
        self._count = 0
        """Number of frames without a gap, from the first one on."""
        self._grew = 1
        """Number of new frames at the last check that found some; mostly the same number comes again."""
        self._left = 0
        """Number of frames that fitted in at the first check. A crash of the machine may leave some behind a gap."""
        self.emptied = False
        """True if the log was found empty after it had content: a checkpoint did that, or something else."""

    def is_whole(self) -> bool:
        """Return True if everything from the last check is still there, and check again.

        An empty log counts as whole, because a checkpoint may have just moved all of it into the database.
        """
        while True:
            header = os.pread(self.file, _HEADER, 0)
            if self._look(header):
                return True
            if os.pread(self.file, _HEADER, 0) == header:  # otherwise the log started again meanwhile
                return False

    def _look(self, header: bytes) -> bool:
        known, self._header = self._header, header
        self._salts = header[_SALTS]
        self.emptied = bool(known) and not header
        fitting = (os.lseek(self.file, 0, os.SEEK_END) - _HEADER) // self._stride
        count = self._count
        if header != known:
            self._stride = _FRAME + int.from_bytes(header[_PAGE], "big")
            self._count = self._far(0) if any(header) and len(header) == _HEADER else 0
            self._left = (os.lseek(self.file, 0, os.SEEK_END) - _HEADER) // self._stride
            return not header or (any(header) and len(header) == _HEADER)
        if count and not self._has(count - 1):
            return False
        if fitting > max(count, self._left) and self._has(fitting - 1):  # it grew: the last frame is at its end
            self._count = fitting
            return self._has(count)  # otherwise there is a gap
        if fitting != count and header:
            self._count = self._far(count)
        return True

    def _far(self, count: int) -> int:
        """Return the number of frames. ``count`` are known; there may be thousands more."""
        first, step = count, self._grew
        if self._has(count + step - 1):
            count, step = count + step, 1
            while self._has(count + step - 1):
                count, step = count + step, step * 2
        end = count + step - 1  # this frame is absent, and so are all after it
        while count < end:
            middle = (count + end) // 2
            if self._has(middle):
                count = middle + 1
            else:
                end = middle
        self._grew = count - first or self._grew
        return count

    def _has(self, number: int) -> bool:
        """Return True if there is a frame of this log, rather than one of an older log or nothing."""
        return os.pread(self.file, 8, _HEADER + number * self._stride + _FRAME_SALTS) == self._salts

    def take(self) -> bytes:
        """Return the whole log and leave it empty."""
        found = os.pread(self.file, os.fstat(self.file).st_size, 0)
        os.ftruncate(self.file, 0)
        return found
