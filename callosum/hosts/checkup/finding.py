"""What one check found."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Level = Literal["ok", "advice", "wrong"]


class Finding(Struct, frozen=True, rename="camel", omit_defaults=True):
    """``check``: what was looked at. ``level``: ``ok`` and ``advice`` are fine, ``wrong`` is not.

    ``host``: the host that it is about, "" if it is about none.
    """

    check: str
    level: Level
    says: str
    advice: str = ""
    host: str = ""
