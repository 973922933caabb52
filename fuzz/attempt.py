"""One try of one target, and what is kept of a fault: its signature and the smallest input that shows it."""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from fuzz.check import Broken
from fuzz.source import Source
from fuzz.target import Target

CRASHES: Final = Path(__file__).parent / "crashes"
"""Inputs that once showed a fault, in a folder per target. The tests try them again."""
CORPUS: Final = Path(__file__).parent / "corpus"
"""Inputs to start with, in a folder per target."""
SLOW: Final = 400
"""Maximum time for one input, in rounds of a fixed piece of work: a few seconds."""
_SHRINKS: Final = 400
_SHRINKING: Final = 10.0


class Fault(NamedTuple):
    """A fault. ``sign`` is the same for the same fault, whatever the input. ``told`` is the full report."""

    sign: str
    told: str


def attempt(target: Target, data: bytes) -> Fault | None:
    """Try a target with an input. Return what went wrong, None if nothing did."""
    try:
        _timed(target, data)
    except Exception as error:  # noqa: BLE001  any exception is what is looked for
        return Fault(_sign(error), "".join(traceback.format_exception(error)))
    return None


def _timed(target: Target, data: bytes) -> None:
    took = _seconds(target, data)
    if took > _limit():
        took = min(took, *(_seconds(target, data) for _ in range(2)))
    if took > _limit():
        raise Broken(f"an input takes bounded time\n  {len(data)} bytes: {took:.1f} s, at most {_limit():.1f} s")


def _seconds(target: Target, data: bytes) -> float:
    began = time.process_time()
    target.run(Source(data))
    return time.process_time() - began


@cache
def _limit() -> float:
    """Return the limit in seconds of CPU time, measured by a fixed piece of work on this machine."""
    return SLOW * min(_round() for _ in range(5))


def _round() -> float:
    began = time.process_time()
    total = 0
    for one in range(100_000):
        total += one & 3
    return time.process_time() - began


def _sign(error: BaseException) -> str:
    """Return the broken check, or the kind of the error and the place in the gate that raised it."""
    if isinstance(error, Broken):
        return str(error).partition("\n")[0]
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "callosum" in one.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
    return f"{type(error).__name__} in {place}"


def shrink(data: bytes, shows: Callable[[bytes], bool]) -> bytes:
    """Return a smaller input that still shows the fault. Parts are left out, large ones first."""
    ends = time.monotonic() + _SHRINKING
    left = _SHRINKS
    size = max(1, len(data) // 2)
    while size:
        at = 0
        while at < len(data) and left and time.monotonic() < ends:
            left -= 1
            less = data[:at] + data[at + size :]
            if shows(less):
                data = less
            else:
                at += size
        size //= 2
    return data


def keep(target: Target, data: bytes, fault: Fault, folder: Path = CRASHES) -> Path:
    """Write the smallest input that shows a fault to the target's folder. Return its path."""
    small = shrink(data, lambda one: (seen := attempt(target, one)) is not None and seen.sign == fault.sign)
    path = folder / target.name / hashlib.sha256(small).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(small)
    return path
