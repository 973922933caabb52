"""Inspect a host's settings file before a change to it takes effect."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from callosum.hosts.hook_adapter import HookAdapter

INSTALLED: Final = "installed.json"
"""Name of a file in the state folder: ``{"files": {"/home/me/.agent/settings.json": {"host": HOST, ...}}}``."""
_LONGEST: Final = 50_000_000


def fault_of(state: Path, adapter: HookAdapter, path: str) -> str:
    """Return why the settings in ``path`` may not take effect, or "" if they may or cannot be read.

    The host reads the file itself, so a file that the host cannot read changes nothing. A missing or empty file has no
    settings, and therefore none of the gate's entries.
    """
    if not path:
        return ""
    settings = _object_in(Path(path))
    if settings is None:
        return ""
    files = (_object_in(state / INSTALLED) or {}).get("files")
    installed_paths = {os.path.realpath(name) for name in files} if isinstance(files, dict) else frozenset[str]()
    return adapter.refuses(settings, ours=os.path.realpath(path) in installed_paths)


def _object_in(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST)
        content_object = json.loads(content) if content.strip() else {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        return None
    return content_object if isinstance(content_object, dict) else None
