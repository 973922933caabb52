"""The clock of a SQLite store: the wall clock on which the processes that share the file agree.

The store keeps one pair of wall clock and boot clock, with the id of the boot. A process of the same boot whose own
pair differs uses the store's. So one wrong clock ends no leases early and makes none last too long.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callosum.bootclock import BOOT_CLOCK, boot_id, boot_now_ns, wall_offset
from callosum.model import SECOND
from callosum.stores.sqlite.statements import CLOCK, SET_FACT

if TYPE_CHECKING:
    from callosum.stores.sqlite.connection import Execute

_TOLERANCE: Final = 2 * SECOND
"""Microseconds by which two clocks may differ before one of them counts as wrong."""


class AgreedClock:
    """The time in microseconds since 1970. Between two calls of ``agree`` it follows the boot clock, which nobody sets.

    ``probe`` is a file that tells the machine's own time: touching it sets the time of its last change.
    """

    def __init__(self, probe: Path) -> None:
        self._probe = probe
        self._offset: int | None = None
        self.apart = 0
        """Microseconds by which this process's clock is ahead of the store's; 0 while they agree."""

    def __call__(self) -> int:
        offset = self._offset
        return time.time_ns() // 1000 if offset is None else time.clock_gettime_ns(BOOT_CLOCK) // 1000 + offset

    def agree(self, execute: Execute) -> None:
        """Compare this process's clock with the store's and follow the right one. Do not call it in a transaction."""
        boot = boot_id()
        if not boot:
            return
        with suppress(sqlite3.Error):  # a file that cannot be read or written now raises its own error later
            stored, leased, last = execute(CLOCK).fetchone()
            own_offset = wall_offset()
            stored_offset = _offset_of(stored, boot)
            if stored_offset is not None and abs(own_offset - stored_offset) <= _TOLERANCE:
                self._offset, self.apart = own_offset, 0
                return
            own_offset = self._machine(own_offset)
            if stored_offset is None or (
                not leased and abs(own_offset - stored_offset) > _TOLERANCE and own_offset + _boot() > (last or 0)
            ):
                now = _boot()
                execute(SET_FACT, ("clock", f"{boot} {own_offset + now} {now}"))
                stored_offset = own_offset
            self._offset, self.apart = stored_offset, wall_offset() - stored_offset
            if abs(self.apart) <= _TOLERANCE:
                self.apart = 0

    def _machine(self, own_offset: int) -> int:
        """Return the machine's difference of wall and boot clock, if only this process's difference is wrong."""
        before = _boot()
        try:
            os.utime(self._probe)
            touched = self._probe.stat().st_mtime_ns // 1000
        except OSError:
            return own_offset
        right = touched - _boot() - _TOLERANCE <= own_offset <= touched - before + _TOLERANCE
        return own_offset if right else touched - before


def _boot() -> int:
    return boot_now_ns() // 1000


def _offset_of(stored: object, boot: str) -> int | None:
    """Return the difference of wall and boot clock that the store keeps, None if it has none for this boot."""
    words = stored.split() if isinstance(stored, str) else []
    if len(words) != 3 or words[0] != boot or not (words[1] + words[2]).isdecimal():
        return None
    return int(words[1]) - int(words[2])
