"""What a target is. It imports none of the gate, so that a process loads only what its own target needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fuzz.source import Source


class Target(NamedTuple):
    """One target. ``words``: what a fuzzer may put in where it mutates text. ``minute``: how many inputs a short
    campaign tries, some five seconds' worth.
    """

    name: str
    about: str
    run: Callable[[Source], None]
    words: tuple[str, ...] = ()
    minute: int = 5000
