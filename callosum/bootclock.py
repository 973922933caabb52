"""The boot clock: a clock that cannot be set, shared by all processes of one machine.

Wall clocks jump, and each process of a container may see its own. A moment on the boot clock means the
same to every process with the same boot id, so it serves for deadlines and for comparing clocks.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_LINUX: Final = sys.platform.startswith("linux")
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
BOOT_CLOCK: Final = time.CLOCK_BOOTTIME if _LINUX else time.CLOCK_MONOTONIC
"""The clock of ``boot_now``, for code that must avoid the cost of a function call."""

_TRIES: Final = 20
_CLOSE: Final = 100_000
"""Nanoseconds between two readings of the boot clock that count as one moment."""

_boot_id: str | None = None


def boot_id() -> str:
    """Return the id of this boot of this machine, or ``""`` if the system does not provide it.

    Two processes that return the same id, other than ``""``, read the same clock in ``boot_now``.
    """
    global _boot_id  # noqa: PLW0603 - one value for the life of a process
    if _boot_id is None:
        try:
            with open(_BOOT_ID, encoding="ascii") as file:  # noqa: PTH123 - a hook process imports no pathlib
                _boot_id = file.read().strip()
        except OSError:
            _boot_id = ""
    return _boot_id


def boot_now() -> float:
    """Return the seconds since this machine was booted, time asleep included. Setting the clock does not change it."""
    return time.clock_gettime(BOOT_CLOCK)


def boot_now_ns() -> int:
    """Return the same in nanoseconds."""
    return time.clock_gettime_ns(BOOT_CLOCK)


def wall_offset() -> int:
    """Return the microseconds by which the wall clock is ahead of the boot clock.

    A busy machine may pause a process between two readings, for longer than a lease may be wrong. So the wall clock is
    read between two readings of the boot clock, and of up to 20 tries the one with the shortest pause counts.
    """
    shortest, offset = 0, 0
    for tries in range(_TRIES):
        before, wall, after = boot_now_ns(), time.time_ns(), boot_now_ns()
        if not tries or after - before < shortest:
            shortest, offset = after - before, wall - (before + after) // 2
        if shortest < _CLOSE:
            break
    return offset // 1000
