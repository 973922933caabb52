"""The named worlds to explore. Each is small enough to be exhausted, or names the bound that cuts it off."""

from __future__ import annotations

from typing import Final

from callosum.model import DAY, HOUR
from model.world import QUANTUM, Bounds, Choice

A: Final = "file:/r/a"
B: Final = "doc:b"
TREE: Final = "file:/r/"
"""The tree over ``A``."""
THREE: Final = ("mira", "doug", "anna")
OVER_AN_HOUR: Final = (HOUR // QUANTUM + 1) * QUANTUM
"""Microseconds: longer than an approval holds."""
OVER_A_WEEK: Final = (8 * DAY // QUANTUM + 1) * QUANTUM
"""Microseconds: longer than anything is evidence, except a change that a session has not read."""

SMALL: Final[dict[str, Bounds]] = {
    "leases": Bounds(calls=1, choices=(Choice("write4", A), Choice("write4", TREE)), renews=True, crashes=True),
    "confirming": Bounds(
        calls=1,
        choices=(Choice("write3", A, pause=True), Choice("write3", TREE)),
        outcomes=("done", "failed"),
    ),
    "unknown": Bounds(
        calls=1,
        choices=(Choice("write3", A), Choice("write4", A)),
        sweeps=True,
        resolves=(False,),
    ),
    "opposed": Bounds(
        calls=1,
        choices=(Choice("accept3", A, side="join"), Choice("decline3", A, side="leave"), Choice("decline4", A)),
    ),
    "queue": Bounds(sessions=THREE, calls=1, choices=(Choice("write4", A, wait=2),)),
    "deadlock": Bounds(
        sessions=THREE,
        choices=(
            Choice("write4", A, wait=2),
            Choice("write4", B, wait=2),
            Choice("write4", TREE, wait=2),
            Choice("write4", A, also=B, wait=2),
        ),
        outcomes=(),
        times=(),
    ),
    "approvals": Bounds(
        choices=(Choice("write4", A),),
        outcomes=(),
        answers=(True, False),
        times=(OVER_AN_HOUR,),
        oldest=OVER_AN_HOUR,
    ),
    "retention": Bounds(
        calls=1,
        choices=(Choice("look0", A), Choice("write3", TREE), Choice("write4", A)),
        rotates=True,
        times=(OVER_A_WEEK,),
        oldest=2 * OVER_A_WEEK,
    ),
}
"""What every change must pass."""

LARGE: Final[dict[str, Bounds]] = {
    "two-calls": Bounds(choices=(Choice("write4", A), Choice("write4", TREE)), states=250_000),
    "tiers": Bounds(
        calls=1,
        choices=(
            Choice("look0", A),
            *[Choice(f"write{tier}", A, pause=True) for tier in (1, 2, 3, 4)],
            Choice("write3", TREE),
            Choice("add3", A),
            Choice("write4", A, also=B),
        ),
        outcomes=("done", "failed"),
        renews=True,
        crashes=True,
        states=250_000,
    ),
    "milder": Bounds(
        choices=(Choice("write1", A), Choice("send2", A), Choice("add3", A), Choice("write3", A, pause=True)),
        states=250_000,
    ),
    "three": Bounds(
        sessions=THREE,
        calls=1,
        choices=(Choice("write3", A, pause=True), Choice("write4", TREE), Choice("send2", A)),
        crashes=True,
        states=250_000,
    ),
    "late": Bounds(
        calls=1,
        choices=(Choice("write3", A), Choice("write4", A), Choice("write3", TREE)),
        outcomes=("done", "failed", "unknown"),
        spooled=True,
        renews=True,
        crashes=True,
        sweeps=True,
        resolves=(True, False),
        states=250_000,
    ),
    "sides": Bounds(
        choices=(
            Choice("accept2", A),
            Choice("accept3", A, pause=True),
            Choice("decline3", A, side="leave"),
            Choice("accept3", A, side="join"),
        ),
        states=250_000,
    ),
    "three-wait": Bounds(
        sessions=THREE,
        calls=1,
        choices=(Choice("write4", A, wait=3), Choice("write4", TREE, wait=3), Choice("write3", A, wait=3)),
        crashes=True,
        states=250_000,
    ),
    "both-keys": Bounds(
        choices=(
            Choice("write4", A),
            Choice("write4", B, wait=2),
            Choice("write4", TREE, wait=2),
            Choice("write3", A, also=B, wait=2),
        ),
        renews=True,
        states=250_000,
    ),
    "asked": Bounds(
        calls=3,
        choices=(Choice("write4", A), Choice("write4", TREE), Choice("ask3", A)),
        answers=(True, False),
        times=(OVER_AN_HOUR,),
        oldest=2 * OVER_AN_HOUR,
        states=250_000,
    ),
    "weeks": Bounds(
        choices=(Choice("look0", A), Choice("write2", A), Choice("write3", TREE), Choice("write4", A)),
        outcomes=("done", "unknown"),
        rotates=True,
        times=(OVER_A_WEEK,),
        oldest=2 * OVER_A_WEEK,
        states=250_000,
    ),
}
"""What is explored besides, in minutes."""

CONFIGURATIONS: Final = {f"small-{name}": bounds for name, bounds in SMALL.items()} | LARGE
