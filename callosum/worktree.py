"""Which repository a folder belongs to: what ``git`` keeps in ``.git`` on the disk, read without running it.

The rules touch no disk, so whoever knows a session's folder says it with the call (``Call.worktree``): the gate in
a process of the host, the client of a server. A folder is looked at again after ``KEPT`` seconds.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from callosum.model import Call, Worktree

if TYPE_CHECKING:
    from pathlib import Path

KEPT: Final = 5.0
"""How long what was found of a folder counts, in seconds: somebody may make a repository, or remove one."""
_MOST: Final = 1024
_FILE: Final = 8192
"""Longest file of git's that is read, in bytes; what it holds is one path."""

_known: dict[str, tuple[float, Worktree | None]] = {}
_writing: Final = threading.Lock()


def located(call: Call) -> Call:
    """Returns the call with the worktree its ``cwd`` lies in, if it names none and there is one on this machine."""
    cwd = call.cwd
    if not cwd or call.worktree is not None or type(cwd) is not str:
        return call
    found = worktree_of(cwd)
    return call if found is None else replace(call, worktree=found)


def worktree_of(folder: str) -> Worktree | None:
    """Returns the worktree that an absolute folder lies in, None outside of any or where the disk does not tell.

    Never raises. ``root`` is spelled as ``folder`` is; ``repository`` is free of symbolic links, so that all of a
    repository's worktrees give the same.
    """
    now = time.monotonic()
    known = _known.get(folder)
    if known is not None and now < known[0]:
        return known[1]
    try:
        found = _look(folder)
    except (OSError, ValueError):  # no right to look, a name that no file can have
        found = None
    with _writing:
        if len(_known) >= _MOST:
            _known.clear()
        _known[folder] = (now + KEPT, found)
    return found


def _look(folder: str) -> Worktree | None:
    from pathlib import Path  # noqa: PLC0415 - a client whose calls name no folder starts without it

    here = Path(os.path.normpath(folder))
    if not here.is_absolute():
        return None
    for root in (here, *here.parents):
        place = root / ".git"
        if place.is_dir():
            if (place / "HEAD").exists():
                return Worktree(str(root), _name(place))
        elif place.is_file() and (git := _said(place, "gitdir:")):
            common = git / "commondir"
            return Worktree(str(root), _name((_said(common, "") if common.is_file() else None) or git))
    return None


def _said(file: Path, label: str) -> Path | None:
    """Returns the path that a file of git's holds behind ``label``, None if it holds none."""
    with file.open("rb") as opened:
        text = os.fsdecode(opened.read(_FILE)).strip()
    path = text.removeprefix(label).strip()
    if not text.startswith(label) or not path or "\n" in path or "\0" in path:
        return None
    return file.parent / path


def _name(common: Path) -> str:
    """Returns what names a repository: the folder that holds ``.git``, or the bare repository itself."""
    real = os.path.realpath(common)
    return real.removesuffix("/.git") or "/"
