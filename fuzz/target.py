"""The type of a target. It imports nothing of the gate, so that a process loads only what its own target needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fuzz.source import Source


class Target(NamedTuple):
    """One target.

    ``words`` are what a fuzzer may insert when it mutates text. ``minute`` is the number of inputs that a short
    campaign tries, about five seconds of work.
    """

    name: str
    about: str
    run: Callable[[Source], None]
    words: tuple[str, ...] = ()
    minute: int = 5000
