"""A clock that is set by hand, so that no test has to wait."""

from __future__ import annotations

from typing import Final

from callosum.model import SECOND

START: Final = 1_800_000_000 * SECOND
"""The moment at which every manual clock starts, in microseconds since 1970."""


class ManualClock:
    """Serve as a store's clock (call it) and as a gate's ``sleep``. ``now`` is in microseconds.

    Each call moves the clock forward by ``tick`` microseconds (default 0: the clock does not move).
    """

    def __init__(self, now: int = START, *, tick: int = 0) -> None:
        self.now = now
        self.tick = tick

    def __call__(self) -> int:
        """Return the time in microseconds since 1970."""
        self.now += self.tick
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the clock by ``seconds``; a negative number sets it back."""
        self.now += round(seconds * SECOND)

    def sleep(self, seconds: float) -> None:
        """Advance the clock by ``seconds`` without waiting. Pass it to a gate in place of ``time.sleep``."""
        self.advance(max(0.0, seconds))
