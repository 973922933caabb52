"""What a process knows without asking the server: decoded records by revision, the server's time, and its own turns."""

from __future__ import annotations

import threading
import time
from collections import deque
from itertools import islice
from typing import Any, Final

from callosum.model import SECOND

_MOST: Final = 20_000
"""Number of records that a process keeps at most."""
_MAX_ESTIMATE_AGE: Final = 10.0
"""Seconds after which an estimate of the server's time is replaced even by a worse one."""
_LINES: Final = 1024
_LONGEST: Final = 2.0
"""Seconds that a thread waits for its turn at most. Then it competes with the others, which is only slower."""


class RecordCache:
    """Decoded records with their revisions. One that is outdated is noticed at the commit. Safe for threads."""

    def __init__(self) -> None:
        self.found: dict[bytes, tuple[bytes, Any]] = {}
        self._lock = threading.Lock()

    def keep(self, new: dict[bytes, tuple[bytes, Any]]) -> None:
        """Add records; the oldest half goes when there are too many."""
        self.found.update(new)
        if len(self.found) > _MOST:
            with self._lock:
                for name in list(islice(self.found, max(0, len(self.found) - _MOST // 2))):
                    self.found.pop(name, None)

    def drop(self, names: Any) -> None:
        """Forget these records."""
        for name in names:
            self.found.pop(name, None)


class ServerTime:
    """Estimate the server's clock from its answers and this process's monotonic clock.

    The machine's own clock may be wrong by days; it is not used.
    """

    def __init__(self) -> None:
        self._offset: float | None = None
        self._taken = 0.0

    def update(self, moment: int, *, anew: bool = False) -> None:
        """Update the estimate with the moment in an answer that has just arrived. The best of recent ones is kept.

        The moment counts from the arrival, so a slow answer puts the estimate behind the server's clock, never
        ahead of it: an estimate ahead would make running leases look expired. ``anew``: the estimate was wrong.
        """
        arrived = time.monotonic()
        offset, previous = moment - arrived * SECOND, self._offset
        if (
            anew
            or previous is None
            or offset > previous
            or previous - offset > SECOND
            or arrived - self._taken > _MAX_ESTIMATE_AGE
        ):
            self._offset, self._taken = offset, arrived

    def now(self) -> int | None:
        """Return the estimated moment in microseconds, None before the first answer."""
        return None if self._offset is None else int(self._offset + time.monotonic() * SECOND)


class Turns:
    """Let the threads of a process that work on the same keys take turns, in the order in which they came.

    The server would notice that one overtook another, but each of them would have to run again. Which keys share a line
    is left to chance.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[int, deque[threading.Event]] = {}

    def take(self, names: set[tuple[str, str]]) -> list[tuple[int, threading.Event]]:
        """Wait for the turn on all of these; return what ``give`` needs."""
        until = time.monotonic() + _LONGEST
        taken = []
        for at in sorted({hash(name) % _LINES for name in names}):
            mine = threading.Event()
            with self._lock:
                line = self._lines.setdefault(at, deque())
                line.append(mine)
                is_first = line[0] is mine
            taken.append((at, mine))
            if not is_first:
                mine.wait(max(0.0, until - time.monotonic()))
        return taken

    def give(self, taken: list[tuple[int, threading.Event]]) -> None:
        """Let the next ones go on."""
        with self._lock:
            for at, mine in taken:
                line = self._lines[at]
                line.remove(mine)
                if line:
                    line[0].set()
                else:
                    del self._lines[at]
