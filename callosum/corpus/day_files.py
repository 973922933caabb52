"""One file a day, to which several processes append: ``<folder>/YYYY-MM-DD.log.md``.

::

    ## 2026-05-16

    09:15:02 | input.received | {"content":"What PRs need review?","channelId":"desktop"}

The file is opened for each batch, so it and its folder may be deleted at any time. A batch is one write at the end of
the file, under a lock that the kernel releases when a process dies. If a full disk or a killed process left half a
line, the next writer removes it.

A file has a size limit. Its last tenth is reserved for safety events and for the log's messages about itself, so that a
flood of other events leaves room for them.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

try:
    import fcntl
except ImportError:  # pragma: no cover - without fcntl only one process may write to a folder
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE: Final = 2.0
"""Seconds to wait for other writers."""
_NAME: Final = re.compile(r"(\d{4}-\d\d-\d\d)\.log\.md")
_RESERVE: Final = 10
"""Divisor of a file's size: one part in this many is reserved for lines that ``is_reserved`` accepts."""
_KIND: Final = len("09:15:02")
"""Offset of the event's type in its line, in bytes."""
_RESERVED: Final = (b" | safety.", b' | health.warning | {"resource":"log')
_TAIL: Final = 1024 * 1024
"""Bytes before the end of the file that are searched for the end of the last whole line. No line is nearly as long."""


def is_reserved(line: bytes) -> bool:
    """Return True for a line that is dropped last: a safety event, or a warning about the log itself."""
    return line.startswith(_RESERVED, _KIND)


class DayFiles:
    """The files of one folder. Not safe for concurrent use.

    ``keep``: number of days before today whose files are kept. ``size``: most bytes of one file.
    """

    def __init__(self, folder: Path, keep: int, size: int) -> None:
        self.folder = folder
        self._keep = keep
        self._size = size
        self._handle: int | None = None

    def path(self, day: str) -> Path:
        """Return the path of a day's file."""
        return self.folder / f"{day}.log.md"

    def append(self, day: str, lines: list[bytes]) -> int:
        """Write whole lines at the end of the day's file; return how many were dropped because the file is full.

        Writes all lines that fit, or none and raises ``OSError``. Creates the folder, the file and its heading if they
        are missing.
        """
        with self._opened(self.path(day)) as handle:
            end = _whole_end(handle, head := f"## {day}\n\n".encode())
            text = b"".join(lines)
            dropped = 0
            if end + len(text) > self._size - self._size // _RESERVE:
                fitting = self._fitting(lines, end)
                dropped = len(lines) - len(fitting)
                text = b"".join(fitting)
            try:
                _write(handle, text if end else head + text)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(handle, end)
                raise
            return dropped

    def _fitting(self, lines: list[bytes], end: int) -> list[bytes]:
        """Return the lines that a file of ``end`` bytes still takes, in order."""
        fitting = []
        for line in lines:
            if end + len(line) <= (self._size if is_reserved(line) else self._size - self._size // _RESERVE):
                fitting.append(line)
                end += len(line)
        return fitting

    def clean(self, today: date) -> None:
        """Remove files of days more than ``keep`` before today. Files that cannot be removed stay."""
        oldest = today - timedelta(days=self._keep)
        with suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                match = _NAME.fullmatch(entry.name)
                with suppress(OSError, ValueError):
                    if match and date.fromisoformat(match[1]) < oldest:
                        Path(entry.path).unlink()

    def after_fork(self) -> None:
        """Close, in a child, the file that the parent had open: its lock must end when the parent releases it."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(OSError):
                os.close(handle)

    @contextmanager
    def _opened(self, path: Path) -> Iterator[int]:
        """Open the file and hold its lock."""
        ends = time.monotonic() + PATIENCE
        while True:
            self._handle = handle = self._open(path)
            try:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise OSError(errno.EINVAL, "not a regular file", str(path))
                _lock(handle, path, ends)
                if os.fstat(handle).st_nlink:  # 0 links: it was deleted just before it was locked
                    yield handle
                    return
            finally:
                self._handle = None
                if fcntl is not None:
                    with suppress(OSError):
                        # closing is not enough: a forked child may still have it open
                        fcntl.flock(handle, fcntl.LOCK_UN)
                os.close(handle)

    def _open(self, path: Path) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return os.open(path, flags, 0o600)


def _lock(handle: int, path: Path, ends: float) -> None:
    """Take the lock; raise ``TimeoutError`` if another process keeps it until ``ends``."""
    if fcntl is None:  # pragma: no cover
        return
    pause = 0.001
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                raise TimeoutError(errno.ETIMEDOUT, "another process keeps it locked", str(path)) from None
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        else:
            return


def _whole_end(handle: int, head: bytes) -> int:
    """Return the offset of the next line; 0 if the heading is missing. Remove the half line of a writer that died."""
    size = os.fstat(handle).st_size
    if 0 < size < len(head) and head.startswith(os.pread(handle, size, 0)):
        os.ftruncate(handle, 0)
        return 0
    if not size or os.pread(handle, 1, size - 1) == b"\n":
        return size
    start = max(0, size - _TAIL)
    last = os.pread(handle, size - start, start).rfind(b"\n")
    if last < 0:  # not a line of ours: leave it
        return size + os.write(handle, b"\n")
    os.ftruncate(handle, start + last + 1)
    return start + last + 1


def _write(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
