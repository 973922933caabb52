"""Define the result of one check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from callosum.programs.program import Program

Level = Literal["ok", "advice", "wrong"]


class Finding(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Report what one check found.

    ``check`` names the check. The levels ``ok`` and ``advice`` are fine, ``wrong`` is not. ``host`` is the host that
    the finding is about, or "".
    """

    check: str
    level: Level
    says: str
    advice: str = ""
    host: str = ""


def say(host: Program, check: str, level: Level, says: str, advice: str = "") -> Finding:
    """Return a finding about a host."""
    return Finding(f"{host.name} {check}", level, says, advice, host.name)


def ago(seconds: float) -> str:
    """Return how long ago something happened, in the largest unit that fits."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} s ago"
