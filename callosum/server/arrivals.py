"""Estimate when a request arrived, as far as an event loop can know.

If a loop stands still (a stopped process, a machine short of memory, a long computation), requests wait in the
sockets, and the loop does not see them arrive. Therefore, for a moment after each standstill, every request counts
as having arrived when the standstill began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from callosum.bootclock import boot_now

STANDSTILL: Final = 1.0
"""Seconds between two turns of the loop that count as a standstill."""
_EVERY: Final = 0.5
"""Seconds between two checks of the clock."""
_CATCHING_UP: Final = 0.25
"""Seconds after a standstill during which the loop still reads requests that waited in the sockets."""


class ArrivalClock:
    """Detect standstills of an event loop. ``now`` is the boot clock; tests replace it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float] = boot_now) -> None:
        self._loop = loop
        self._now = now
        self._turned = now()
        self._stood_since = 0.0
        self._caught_up = 0.0
        self._timer = loop.call_later(_EVERY, self._turn)

    def close(self) -> None:
        """Stop watching."""
        self._timer.cancel()

    def arrived(self) -> float:
        """Return the earliest time, on the boot clock, at which a request that is read now can have arrived."""
        now = self._now()
        self._note(now)
        return self._stood_since if now < self._caught_up else now

    def _turn(self) -> None:
        now = self._now()
        self._note(now)
        self._turned = now
        self._timer = self._loop.call_later(_EVERY, self._turn)

    def _note(self, now: float) -> None:
        if now - self._turned > STANDSTILL:
            self._stood_since, self._turned = self._turned, now
            self._caught_up = now + _CATCHING_UP
