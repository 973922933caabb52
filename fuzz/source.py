"""The source of a target's choices: bytes that a fuzzer mutates, front to back.

A target draws numbers and bytes and builds its input from them. So a fault can be kept as one small file and tried
again without the tool that found it. Zero is the plainest choice, and exhausted bytes yield it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Source:
    """A sequence of choices."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        self._at += count
        return found

    def number(self, most: int) -> int:
        """Return a number from 0 to ``most``, both included."""
        return int.from_bytes(self._take((most.bit_length() + 7) // 8), "big") % (most + 1) if most else 0

    def data(self, most: int) -> bytes:
        """Return at most ``most`` bytes."""
        return self._take(self.number(most))

    def rest(self) -> bytes:
        """Return all remaining bytes: the last thing a target draws."""
        return self._take(len(self._data))

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[self.number(len(items) - 1)]

    def maybe(self, one_in: int = 2) -> bool:
        """Return True once in ``one_in`` times."""
        return self.number(one_in - 1) == one_in - 1

    def times(self, most: int) -> range:
        """Return a range of at most ``most`` steps."""
        return range(self.number(most))

    def text(self, most: int = 40) -> str:
        """Return a text of at most ``most`` characters. Bytes that are not UTF-8 become lone surrogates."""
        return self.data(most).decode("utf-8", "surrogateescape")

    def remaining(self) -> str:
        """Return ``rest`` as text."""
        return self.rest().decode("utf-8", "surrogateescape")
