"""A clock that is set by hand, so that no test has to wait."""

from __future__ import annotations

from typing import Final

from callosum.model import SECOND

START: Final = 1_800_000_000 * SECOND
"""The moment at which every manual clock starts, in microseconds since 1970."""


class ManualClock:
    """A clock for stores (call it) and a ``sleep`` for gates. ``now`` is in microseconds.

    Each look at it moves it on by ``tick`` microseconds (default 0: it stands still).
    """

    def __init__(self, now: int = START, *, tick: int = 0) -> None:
        self.now = now
        self.tick = tick

    def __call__(self) -> int:
        """Now, in microseconds since 1970."""
        self.now += self.tick
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the clock by ``seconds``; a negative number sets it back."""
        self.now += round(seconds * SECOND)

    def sleep(self, seconds: float) -> None:
        """Lets ``seconds`` pass at once. Hand it to a gate in place of ``time.sleep``."""
        self.advance(max(0.0, seconds))
