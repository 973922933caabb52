"""Bounds on processor time that hold on slow machines too, because the machine is timed first."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

HANG: Final = 60.0
"""Seconds after which whatever should have ended by itself counts as hung, however busy the machine is."""
SLACK: Final = 10.0
"""Seconds that a busy machine may add to a deadline. Levels of retries that multiply take twice as long."""
_ROUND: Final = 50_000
_ROUND_TAKES: Final = 0.008
"""The seconds that ``_ROUND`` steps take where the bounds were set."""


def slowness() -> float:
    """Return how many times slower this machine is than the one on which the bounds were set; at least 1."""
    began, total = time.thread_time(), 0
    for step in range(_ROUND):
        total += step * step
    return max(1.0, (time.thread_time() - began) / _ROUND_TAKES)


@contextmanager
def cpu_within(seconds: float) -> Iterator[None]:
    """Fail if the block takes this thread more than ``seconds`` of processor time, on a machine of usual speed.

    Older objects are exempt from garbage collection during the block: after thousands of tests, one full collection
    takes half a second, and the next allocation would pay for it.
    """
    before = slowness()
    gc.freeze()
    began = time.thread_time()
    try:
        yield
        took = time.thread_time() - began
    finally:
        gc.unfreeze()
    slower = max(before, slowness())
    assert took < seconds * slower, f"it took {took:.3f} s, on a machine {slower:.1f} times as slow as usual"
