"""What the disk of this machine tells of a call: the repositories of its folders, and the homes that it names.

The rules touch no disk, so whoever runs on the machine of the tool says it with the call (``Call.worktree``,
``Call.worktrees``, ``Call.home``, ``Call.homes``): the gate in a process of the host, the client of a server. What
``git`` keeps in ``.git`` is read without running it. A folder is looked at again after ``KEPT`` seconds.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from callosum.model import Call, Worktree

if TYPE_CHECKING:
    from pathlib import Path

KEPT: Final = 5.0
"""How long what was found of a folder counts, in seconds: somebody may make a repository, or remove one."""
_MOST: Final = 1024
_FILE: Final = 8192
"""Longest file of git's that is read, in bytes; what it holds is one path."""
_READ: Final = 65_536
"""Longest command line that is searched for homes and folders, in characters."""
_PATH: Final = 1024
"""Longest other text that is taken for a path, in characters."""
_LINES: Final = frozenset("command cmd script shell_command commandLine command_line".split())
"""Params that hold a command line."""
_FOLDERS: Final = frozenset(
    "workdir cwd working_directory workingDirectory working_dir workingDir directory repo_path repoPath "
    "repository_path repositoryPath".split()
)
"""Params that hold the folder in which a command runs."""
_TELLING: Final = _LINES | _FOLDERS
_HOME: Final = re.compile(r"\bcd\s*(?:$|[;&|)\n])")
"""Finds a ``cd`` without a folder, which goes home."""
_USER: Final = re.compile(r"(?:^|[\s=\"'(,:])~([A-Za-z_][\w.-]{0,31})")
_MOST_USERS: Final = 8

_known: dict[str, tuple[float, Worktree | None]] = {}
_writing: Final = threading.Lock()


def located(call: Call) -> Call:
    """Return the call with what this machine's disk tells of it, as far as nobody has said it before.

    That is the worktree that its ``cwd`` lies in, those of the other folders in which its command line uses git, and,
    if it names a home, the home of this process and those of the users it names. Never raises.
    """
    told: dict[str, Any] = {}
    cwd = call.cwd
    if type(cwd) is not str:
        cwd = None
    if cwd and call.worktree is None and (found := worktree_of(cwd)) is not None:
        told["worktree"] = found
    params = call.params
    if type(params) is dict:
        named, goes = _speaks_of(params)
        if named:
            if call.home is None and (home := home_of()):
                told["home"] = home
            if call.homes is None and (users := _users(params)):
                told["homes"] = users
        if goes and call.worktrees is None and (elsewhere := _elsewhere(call, told)):
            told["worktrees"] = elsewhere
    return replace(call, **told) if told else call


def at_home(call: Call, home: str | None) -> Call:
    """Return the call with the caller's home if it speaks of one and nobody has said which."""
    if home is None or call.home is not None or type(call.params) is not dict or not _speaks_of(call.params)[0]:
        return call
    return replace(call, home=home)


def _speaks_of(params: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether params may name a home, and whether they may use the repository of another folder."""
    if _TELLING.isdisjoint(params):  # nearly all, and texts alone
        try:
            together = "\n".join(params.values())
        except TypeError:
            together = "~"
        if "~" not in together and "HOME" not in together:
            return False, False
    named = goes = False
    for name, value in params.items():
        kind = type(value)
        if kind is str:
            if name in _LINES:
                if len(value) <= _READ:
                    goes = goes or _goes(value)
                    named = named or "~" in value or "HOME" in value or ("cd" in value and bool(_HOME.search(value)))
            elif ("~" in value or "HOME" in value or name in _FOLDERS) and len(value) <= _PATH:
                named = named or "~" in value or "HOME" in value
                goes = goes or name in _FOLDERS
        elif kind is list or kind is dict:
            named = True
            goes = goes or kind is dict or name in _LINES  # an object may be the params of a call within the call
    return named, goes


def _goes(line: str) -> bool:
    """Return whether a command line may use a repository other than that of its folder. Costs half a microsecond."""
    return (
        "cd" in line
        or "-C" in line
        or "pushd" in line
        or "GIT_" in line
        or "git-dir" in line
        or "work-tree" in line
        or "foreach" in line
        or "chdir" in line
    )


def _elsewhere(call: Call, told: Mapping[str, Any]) -> dict[str, Worktree | None]:
    """Return the folders other than ``cwd`` in which a call uses git, each with its worktree."""
    from callosum.rules.checkout import folders  # noqa: PLC0415 - a client whose calls go nowhere starts without it

    home = call.home or told.get("home")
    homes = call.homes or told.get("homes") or {}
    found: dict[str, Worktree | None] = {}
    try:
        asked = folders(replace(call, home=home))
    except (ValueError, TypeError, RecursionError):  # of params that the gate refuses
        return found
    for folder in asked:
        path = folder
        if folder[:1] == "~":
            user, _, rest = folder[1:].partition("/")
            place = homes.get(user) if user else home
            if not place:
                continue
            path = f"{place}/{rest}"
        found[folder] = worktree_of(path)
    return found


def home_of(user: str = "") -> str | None:
    """Return the home of this process, or that of another user of this machine; None where it is not known."""
    if user:
        return _home_of(user)
    home = os.path.expanduser("~")  # noqa: PTH111 - never raises
    return home if _is_path(home) else None


@lru_cache(maxsize=256)
def _home_of(user: str) -> str | None:
    home = os.path.expanduser(f"~{user}")  # noqa: PTH111
    return home if _is_path(home) else None


def _is_path(home: str) -> bool:
    return os.path.isabs(home) and home.isprintable() and len(home) <= 4096  # noqa: PTH117


def _users(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the homes of other users that the texts among some params name."""
    found: dict[str, str] = {}
    for value in params.values():
        if type(value) is str and "~" in value and len(value) <= _READ:
            for user in _USER.findall(value)[:_MOST_USERS]:
                if home := home_of(user):
                    found[user] = home
    return found


def worktree_of(folder: str) -> Worktree | None:
    """Returns the worktree that an absolute folder lies in, None outside of any or where the disk does not tell.

    Never raises. ``root`` is spelled as ``folder`` is; ``repository`` is free of symbolic links, so that all of a
    repository's worktrees give the same. Of a bare repository both are its own folder.
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
        if (root / "HEAD").is_file() and (root / "objects").is_dir() and (root / "refs").is_dir():
            return Worktree(str(root), _name(root))
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
