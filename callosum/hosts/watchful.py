"""Looks at a host's settings file before a change of it takes effect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from callosum.hosts.told import Adapter

INSTALLED: Final = "installed.json"
"""In the state folder: ``{"files": {"/home/me/.claude/settings.json": {"host": "claude-code", ...}}}``."""
_LONGEST: Final = 4_000_000


def fault_of(state: Path, adapter: Adapter, path: str) -> str:
    """Why the settings in ``path`` may not take effect, "" if they may, or if they cannot be read.

    The host reads them by itself; what it cannot read either changes nothing.
    """
    settings = _object_in(Path(path)) if path else None
    if settings is None:
        return ""
    files = (_object_in(state / INSTALLED) or {}).get("files")
    return adapter.refuses(settings, ours=isinstance(files, dict) and path in files)


def _object_in(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_LONGEST))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
