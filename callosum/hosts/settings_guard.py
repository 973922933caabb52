"""Looks at a host's settings file before a change of it takes effect."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from callosum.hosts.hook_adapter import HookAdapter

INSTALLED: Final = "installed.json"
"""In the state folder: ``{"files": {"/home/me/.agent/settings.json": {"host": HOST, ...}}}``."""
_LONGEST: Final = 50_000_000


def fault_of(state: Path, adapter: HookAdapter, path: str) -> str:
    """Why the settings in ``path`` may not take effect, "" if they may, or if they cannot be read.

    The host reads them by itself; what it cannot read either changes nothing. A file that is gone or empty has no
    settings, and so none of the gate's entries.
    """
    if not path:
        return ""
    settings = _object_in(Path(path))
    if settings is None:
        return ""
    files = (_object_in(state / INSTALLED) or {}).get("files")
    known = {os.path.realpath(one) for one in files} if isinstance(files, dict) else frozenset[str]()
    return adapter.refuses(settings, ours=os.path.realpath(path) in known)


def _object_in(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST)
        found = json.loads(content) if content.strip() else {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
