"""Follow symbolic links for the guard: a file may be one of Callosum's under another name.

The rules compare paths by spelling and read no disk. A gate in the process of a tool, and the hooks of a host on this
machine, check each file that a call writes. A server never follows a path that a remote client names.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING, Final

from callosum.model import Mode

if TYPE_CHECKING:
    from callosum.model import Call, Classification
    from callosum.rules import RuleSet

KEEP_SECONDS: Final = 5.0
"""Seconds for which a folder's path without links is kept, as long as the folder stays the same one."""
_MOST: Final = 4096
"""Maximum number of folders that are kept."""
_FILE: Final = "file:"
_KIND: Final = 0o170000
_READ: Final = Mode.READ  # an enum's attributes are slow

_folders: dict[str, tuple[float, tuple[int, int] | None, str]] = {}
"""For each folder: until when it is kept, its device and inode (None if it does not exist), its path without links."""


def guarded_classification(rules: RuleSet, call: Call, found: Classification) -> Classification:
    """Return a call's classification, or the guard's if the call writes a protected file under another name."""
    for key in found.keys:
        name = key.name
        if key.mode is _READ or name[:5] != _FILE:
            continue
        if (real := _resolved(name[5:])) and (what := rules.protects(real)):
            return rules.refused(call, f"through a link, it would change {what}")
    return found


def _resolved(path: str) -> str:
    """Return a path without its links, "" if it holds none that can be read."""
    if path[:1] == "~":
        path = os.path.expanduser(path)  # noqa: PTH111
    if path[:1] != "/":
        return ""
    folder, _, name = path.rpartition("/")
    folder = folder or "/"
    try:
        status = os.stat(folder)  # noqa: PTH116 - half the time of a Path's
        here = status.st_dev, status.st_ino
    except (OSError, ValueError):  # no such folder, no permission, or not a possible file name
        here = None
    kept = _folders.get(folder)
    if kept is None or kept[1] != here or time.monotonic() >= kept[0]:
        try:
            real = os.path.realpath(folder)
        except (OSError, ValueError):
            return ""
        if len(_folders) >= _MOST:
            _folders.clear()
        kept = _folders[folder] = (time.monotonic() + KEEP_SECONDS, here, real)
    try:
        if here is not None and (os.lstat(path).st_mode & _KIND) == stat.S_IFLNK:
            return os.path.realpath(path)
    except (OSError, ValueError):
        pass
    return "" if kept[2] == folder else f"{kept[2]}/{name}".rstrip("/")
