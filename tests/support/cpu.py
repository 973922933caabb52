"""Bounds on processor time that hold on a slow machine too: the machine is timed with them."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ROUND: Final = 50_000
_ROUND_TAKES: Final = 0.008
"""The seconds that ``_ROUND`` steps take where the bounds were set."""


def slowness() -> float:
    """How many times slower this machine is just now than the one where the bounds were set; at least 1."""
    began, total = time.thread_time(), 0
    for step in range(_ROUND):
        total += step * step
    return max(1.0, (time.thread_time() - began) / _ROUND_TAKES)


@contextmanager
def cpu_within(seconds: float) -> Iterator[None]:
    """Fails where the block takes this thread more processor time than ``seconds``, on a machine of usual speed.

    What lived before is kept out of garbage collection meanwhile: after thousands of tests one look through all of that
    takes half a second, and it falls to whoever allocates next.
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
