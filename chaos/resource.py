"""What the leases guard: counters that are read, changed after a while and written back, with a fence.

A counter is a file of lines, ``begin TOKEN`` and ``write TOKEN VALUE OP``. A session that reads shows its token, and
from then on no smaller one is accepted. So of two holders the one whose lease ended is refused, whenever it continues.
The read and the write are two steps with time in between; only the lease and the fence keep two sessions apart.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

_TAIL: Final = 512


class Fenced(Exception):
    """A greater token was used before."""


class Written(NamedTuple):
    """One line that counts: ``op`` wrote ``value`` under ``token``."""

    token: int
    value: int
    op: str


class Counter:
    """One counter in a file that many processes open."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, token: int) -> int:
        """Return the value, and refuse smaller tokens from now on.

        Raises:
            Fenced: A greater token was used before.
        """
        with self._alone() as file:
            last, value = _last(file)
            if last > token:
                raise Fenced(f"{token} after {last}")
            os.write(file, f"begin {token} {value} -\n".encode())
            return value

    def write(self, token: int, value: int, op: str) -> None:
        """Set the value.

        Raises:
            Fenced: A greater token was used before.
        """
        with self._alone() as file:
            last, _ = _last(file)
            if last > token:
                raise Fenced(f"{token} after {last}")
            os.write(file, f"write {token} {value} {op}\n".encode())

    def writes(self) -> list[Written]:
        """Return all writes, oldest first."""
        if not self.path.exists():
            return []
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return [Written(int(token), int(value), op) for what, token, value, op in lines if what == "write"]

    @contextmanager
    def _alone(self) -> Iterator[int]:
        file = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)


def _last(file: int) -> tuple[int, int]:
    """Return the last token and the value."""
    size = os.fstat(file).st_size
    if not size:
        return 0, 0
    tail = os.pread(file, _TAIL, max(0, size - _TAIL))
    _, token, value, _ = tail.splitlines()[-1].split()
    return int(token), int(value)


def units(keys: Sequence[str], places: Sequence[str]) -> list[str]:
    """Return which of ``places`` (keys of single things) a set of keys covers: equal keys, or those below a tree."""
    return [
        place for place in places if any(place == key or (key[-1] == "/" and place.startswith(key)) for key in keys)
    ]
