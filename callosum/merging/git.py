"""Find the git that the gate may start: one of the system, or the one that was recorded.

``PATH`` does not count. A folder of a project may be in it, as after an activated ``.venv`` or by ``npx``, and whoever
writes there would run a program as the gate's user.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from callosum.launch import recorded_path

_SYSTEM: Final = (
    ("/usr/bin/git", "/bin/git", "/usr/local/bin/git", "/run/current-system/sw/bin/git")
    if os.name == "posix"
    else (r"C:\Program Files\Git\cmd\git.exe",)
)


def git_of(state: str | Path) -> str:
    """Return the path of the git that the gate of a state folder may start, "" if there is none.

    It is one that only root can change, else the one that ``callosum install`` recorded.
    """
    return next(filter(_is_roots, _SYSTEM), "") or recorded_path(state, "git") or ""


def _is_roots(program: str) -> bool:
    """Return True if a program exists that only root can change: it, and each folder above it, with links resolved."""
    try:
        path = Path(program).resolve(strict=True)
        parts = (path, *path.parents) if os.name == "posix" else ()
        return all(facts.st_uid == 0 and not facts.st_mode & 0o022 for facts in map(Path.stat, parts))
    except OSError:
        return False
