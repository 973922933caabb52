"""What the leases guard: counters that are read, thought about and written back, with a fence.

A counter is a file of lines, ``begin TOKEN`` and ``write TOKEN VALUE OP``. Who reads shows his token, and from then on
no smaller one is taken: so of two holders the one whose lease ended is refused, whenever it wakes. The read and the
write are two steps with time in between; nothing but the lease and the fence keeps two sessions apart.
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
    """A greater token was here."""


class Written(NamedTuple):
    """One line that counts: ``value`` was written under ``token`` by ``op``."""

    token: int
    value: int
    op: str


class Counter:
    """One counter in a file that many processes open."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, token: int) -> int:
        """Returns the value, and refuses smaller tokens from here on. Raises ``Fenced``."""
        with self._alone() as file:
            last, value = _last(file)
            if last > token:
                raise Fenced(f"{token} after {last}")
            os.write(file, f"begin {token} {value} -\n".encode())
            return value

    def write(self, token: int, value: int, op: str) -> None:
        """Sets the value. Raises ``Fenced``."""
        with self._alone() as file:
            last, _ = _last(file)
            if last > token:
                raise Fenced(f"{token} after {last}")
            os.write(file, f"write {token} {value} {op}\n".encode())

    def writes(self) -> list[Written]:
        """All that was ever written, oldest first."""
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
    """The last token and the value."""
    size = os.fstat(file).st_size
    if not size:
        return 0, 0
    tail = os.pread(file, _TAIL, max(0, size - _TAIL))
    _, token, value, _ = tail.splitlines()[-1].split()
    return int(token), int(value)


def units(keys: Sequence[str], places: Sequence[str]) -> list[str]:
    """Which of ``places`` (keys of single things) a set of keys covers: itself, or what lies below a tree."""
    return [
        place for place in places if any(place == key or (key[-1] == "/" and place.startswith(key)) for key in keys)
    ]
