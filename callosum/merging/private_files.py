"""A folder of private files that are written as a whole, and forgotten by age and in all.

A file holds a digest of its bytes before them, so that one that was cut short by a crash of the machine counts as none.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

MAX_AGE: Final = 24 * 3600.0
"""Seconds for which a file is kept."""
MAX_FILE: Final = 256_000
"""Bytes up to which a file is copied or merged."""
MAX_ALL: Final = 64_000_000
"""Bytes that all copies take at most."""
_LEFT: Final = 48_000_000
"""Bytes that are left when the oldest are removed."""
_LOOK_AFTER: Final = 8_000_000
"""Bytes and, as 1/8000, files that a process adds between two looks at the whole folder."""
_DIGEST: Final = 16
_FRESH: Final = ".new"


class PrivateFiles:
    """Private files by name. Nothing here raises ``OSError``: a file that cannot be kept is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._base = f"{path}/"
        self._added = _LOOK_AFTER
        self._process = f"{os.getpid():x}"

    def write(self, name: str, data: bytes) -> bool:
        """Write a file as a whole; return whether it was kept."""
        fresh = f"{self._base}{secrets.token_hex(8)}{_FRESH}"
        content = blake2b(data, digest_size=_DIGEST).digest() + data
        self._added += len(content) + 1000
        if self._added > _LOOK_AFTER:
            self._added = 0
            self.prune()
        for _ in range(2):
            try:
                handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                with suppress(OSError):
                    self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
                continue
            except OSError:
                return False
            try:
                try:
                    left = memoryview(content)
                    while left:
                        left = left[os.write(handle, left) :]
                finally:
                    os.close(handle)
                os.rename(fresh, self._base + name)  # noqa: PTH104
            except OSError:
                self.remove(os.path.basename(fresh))  # noqa: PTH119
                return False
            return True
        return False

    def read(self, name: str) -> bytes | None:
        """Return what a file holds; None if there is none, or if it is damaged."""
        try:
            with open(self._base + name, "rb") as file:  # noqa: PTH123
                content = file.read()
        except OSError:
            return None
        data = content[_DIGEST:]
        return data if content[:_DIGEST] == blake2b(data, digest_size=_DIGEST).digest() else None

    def rename(self, old: str, new: str) -> bool:
        """Rename a file; return whether it was there."""
        try:
            os.rename(self._base + old, self._base + new)  # noqa: PTH104
        except OSError:
            return False
        return True

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(OSError):
            os.unlink(self._base + name)  # noqa: PTH108

    def names(self, start: str = "") -> list[str]:
        """Return the names of the files that begin so, sorted."""
        try:
            return sorted(n for n in os.listdir(self.path) if n.startswith(start) and not n.endswith(_FRESH))  # noqa: PTH208
        except OSError:
            return []

    def changed(self) -> dict[str, int]:
        """Return by name when each file was written, in nanoseconds."""
        return {name: facts.st_mtime_ns for name, facts in self._files() if not name.endswith(_FRESH)}

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        with suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                with suppress(OSError):
                    yield entry.name, entry.stat(follow_symlinks=False)

    def prune(self) -> None:
        """Remove what is too old, and the oldest of what is too much."""
        found = sorted((facts.st_mtime, facts.st_size, name) for name, facts in self._files())
        total = sum(size for _, size, _ in found)
        limit = _LEFT if total > MAX_ALL - _LOOK_AFTER else total
        oldest = time.time() - MAX_AGE
        for changed, size, name in found:
            if changed < oldest or total > limit:
                self.remove(name)
                total -= size
