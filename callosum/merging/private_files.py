"""A folder of private files that are written once and removed by age and total size.

A file begins with a digest of its content, so a file that a crash of the machine cut short counts as missing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

MAX_AGE: Final = 24 * 3600.0
"""Seconds for which a file is kept."""
MAX_FILE: Final = 256_000
"""Most bytes of a file that is copied or merged."""
MAX_ALL: Final = 64_000_000
"""Most bytes of all copies together."""
_LEFT: Final = 48_000_000
"""Bytes that remain after the oldest files are removed."""
_LOOK_AFTER: Final = 8_000_000
"""Bytes that a process adds between two scans of the whole folder; a file counts for 1,000 bytes more than it has."""
_DIGEST: Final = 16


class PrivateFiles:
    """Private files by name. Nothing here raises ``OSError``: a file that cannot be stored is simply missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._base = f"{path}/"
        self._added = _LOOK_AFTER

    def write(self, name: str, data: bytes) -> bool:
        """Write a file that is never changed; return True if it is stored.

        Until the last byte is written, the file counts as missing. One of this name that is whole stays as it is,
        and its age begins anew.
        """
        content = blake2b(data, digest_size=_DIGEST).digest() + data
        self._added += len(content) + 1000
        if self._added > _LOOK_AFTER:
            self._added = 0
            self.prune()
        for _ in range(2):
            try:
                handle = os.open(self._base + name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                with suppress(OSError):
                    self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
                continue
            except FileExistsError:
                if self.read(name) is None:
                    self.remove(name)  # a crash cut it short
                    continue
                with suppress(OSError):
                    os.utime(self._base + name)  # its age counts from now
                return True
            except OSError:
                return False
            try:
                try:
                    rest = memoryview(content)
                    while rest:
                        rest = rest[os.write(handle, rest) :]
                finally:
                    os.close(handle)
            except OSError:
                self.remove(name)
                return False
            return True
        return False

    def read(self, name: str) -> bytes | None:
        """Return a file's content; None if it is missing or damaged."""
        try:
            with open(self._base + name, "rb") as file:  # noqa: PTH123
                content = file.read()
        except OSError:
            return None
        data = content[_DIGEST:]
        return data if content[:_DIGEST] == blake2b(data, digest_size=_DIGEST).digest() else None

    def rename(self, old: str, new: str) -> bool:
        """Rename a file; return True if it existed."""
        try:
            os.rename(self._base + old, self._base + new)  # noqa: PTH104
        except OSError:
            return False
        return True

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        with suppress(OSError):
            os.unlink(self._base + name)  # noqa: PTH108

    def names(self, start: str = "") -> list[str]:
        """Return the names of the files that begin with ``start``, sorted."""
        try:
            return sorted(name for name in os.listdir(self.path) if name.startswith(start))  # noqa: PTH208
        except OSError:
            return []

    def changed(self) -> dict[str, int]:
        """Return the time each file was written, in nanoseconds, by name."""
        return {name: facts.st_mtime_ns for name, facts in self._files()}

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        with suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                with suppress(OSError):
                    yield entry.name, entry.stat(follow_symlinks=False)

    def prune(self) -> None:
        """Remove files that are too old, and the oldest if there are too many bytes."""
        files = sorted((facts.st_mtime, facts.st_size, name) for name, facts in self._files())
        total = sum(size for _, size, _ in files)
        limit = _LEFT if total > MAX_ALL - _LOOK_AFTER else total
        oldest = time.time() - MAX_AGE
        for changed, size, name in files:
            if changed < oldest or total > limit:
                self.remove(name)
                total -= size
