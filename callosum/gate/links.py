"""Follow symbolic links for the guard: a file may be one of Callosum's under another name.

The rules compare paths by spelling and read no disk. A gate in the process of a tool, and the hooks of a host on this
machine, check each file that a call writes. A server never follows a path that a remote client names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from callosum.model import Mode

if TYPE_CHECKING:
    from callosum.model import Call, Classification, Key
    from callosum.rules import RuleSet

KEEP_SECONDS: Final = 5.0
"""Seconds for which the resolved name of a path is kept."""
_MOST: Final = 4096
"""Maximum number of resolved names that are kept."""
_FILE: Final = "file:"
_READ: Final = Mode.READ  # an enum's attributes are slow

Writes = Callable[["Call", "Classification", "Key"], object]

_known: dict[str, tuple[float, str]] = {}


def guarded_classification(
    rules: RuleSet, call: Call, found: Classification, writes: Writes | None = None
) -> Classification:
    """Return a call's classification, or the guard's if the call writes a protected file under another name.

    ``writes`` is called with each file that the call does write.
    """
    for key in found.keys:
        name = key.name
        if key.mode is _READ or name[:5] != _FILE:
            continue
        path = name[5:]
        known = _known.get(path)
        real = known[1] if known is not None and time.monotonic() < known[0] else _look(path)
        if real and (what := rules.protects(real)):
            return rules.refused(call, f"through a link, it would change {what}")
        if writes is not None:
            writes(call, found, key)
    return found


def _look(path: str) -> str:
    """Resolve the links of a path and keep the result; ``""`` if the path holds none that can be read."""
    full = os.path.expanduser(path) if path[:1] == "~" else path  # noqa: PTH111
    real = ""
    if full[:1] == "/":
        try:
            found = os.path.realpath(full)
        except (OSError, ValueError):  # no permission, or not a possible file name
            found = full
        real = found if found != full.rstrip("/") else ""
    if len(_known) >= _MOST:
        _known.clear()
    _known[path] = (time.monotonic() + KEEP_SECONDS, real)
    return real
