"""Sources of a target's choices: bytes that a fuzzer mutates, or Hypothesis.

A target draws numbers and bytes and builds its input from them. Everything drawn can be written as bytes that draw the
same again. So whichever tool found a fault, it can be kept as one small file and tried again without either tool. Zero
is the plainest choice, and exhausted bytes yield it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

T = TypeVar("T")
_REST = 300
"""Number of bytes that Hypothesis draws when a target takes all that is left."""


class Source(ABC):
    """A sequence of choices."""

    @abstractmethod
    def number(self, most: int) -> int:
        """Return a number from 0 to ``most``, both included."""

    @abstractmethod
    def data(self, most: int) -> bytes:
        """Return at most ``most`` bytes."""

    @abstractmethod
    def rest(self) -> bytes:
        """Return all remaining bytes: the last thing a target draws."""

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


class Bytes(Source):
    """Choices from bytes, front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        self._at += count
        return found

    def number(self, most: int) -> int:
        return int.from_bytes(self._take(_width(most)), "big") % (most + 1) if most else 0

    def data(self, most: int) -> bytes:
        return self._take(self.number(most))

    def rest(self) -> bytes:
        return self._take(len(self._data))


class Drawn(Source):
    """Choices from Hypothesis. ``written`` draws the same from ``Bytes``."""

    def __init__(self, data: DataObject) -> None:
        self._drawn = data
        self._written = bytearray()

    @property
    def written(self) -> bytes:
        """Return what was drawn so far."""
        return bytes(self._written)

    def number(self, most: int) -> int:
        from hypothesis import strategies as st  # noqa: PLC0415 - a campaign needs no Hypothesis

        found: int = self._drawn.draw(st.integers(0, most))
        if most:
            self._written += found.to_bytes(_width(most), "big")
        return found

    def data(self, most: int) -> bytes:
        found = self._bytes(most)
        self._written += len(found).to_bytes(_width(most), "big") + found
        return found

    def rest(self) -> bytes:
        found = self._bytes(_REST)
        self._written += found
        return found

    def _bytes(self, most: int) -> bytes:
        from hypothesis import strategies as st  # noqa: PLC0415 - as above

        text = st.text(st.characters(codec="utf-8"), max_size=most).map(str.encode)
        found: bytes = self._drawn.draw(st.binary(max_size=most) | text)
        return found[:most]


def _width(most: int) -> int:
    return (most.bit_length() + 7) // 8
