"""Add to a call what only this machine's disk shows: the repositories of its folders, and the homes that it names.

The rules never read the disk, so a process on the tool's machine adds these facts to the call (``Call.worktree``,
``Call.worktrees``, ``Call.home``, ``Call.homes``): the gate in a process of the host, or the client of a server. The
content of ``.git`` is read without running ``git``. A folder is read again after ``KEPT`` seconds.
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
"""Seconds for which the facts about a folder are cached. A repository may be created or removed meanwhile."""
_MOST: Final = 1024
_FILE: Final = 8192
"""Maximum length in bytes of a git file that is read; such a file contains one path."""
_READ: Final = 65_536
"""Maximum length in characters of a command line that is searched for homes and folders."""
_PATH: Final = 1024
"""Maximum length in characters of another text that may be a path."""
_LINES: Final = frozenset("command cmd script shell_command commandLine command_line".split())
"""Params that contain a command line."""
_FOLDERS: Final = frozenset(
    "workdir cwd working_directory workingDirectory working_dir workingDir directory repo_path repoPath "
    "repository_path repositoryPath".split()
)
"""Params that contain the folder in which a command runs."""
_TELLING: Final = _LINES | _FOLDERS
_HOME: Final = re.compile(r"\bcd\s*(?:$|[;&|)\n])")
"""Matches a ``cd`` without a folder, which changes to the home folder."""
_USER: Final = re.compile(r"(?:^|[\s=\"'(,:])~([A-Za-z_][\w.-]{0,31})")
_MOST_USERS: Final = 8

_known: dict[str, tuple[float, Worktree | None]] = {}
_writing: Final = threading.Lock()


def located(call: Call) -> Call:
    """Return the call with the facts from this machine's disk that it does not have yet.

    These are the worktree of its ``cwd``, the worktrees of other folders in which its command line uses git and, if it
    names a home, the home of this process and of the users it names. Never raises.
    """
    facts: dict[str, Any] = {}
    cwd = call.cwd
    params = call.params
    if cwd and type(cwd) is str and call.worktree is None and (worktree := worktree_of(cwd)) is not None:
        facts["worktree"] = worktree
    names_home, uses_other_folder = _speaks_of(params) if type(params) is dict else (False, False)
    if names_home:
        if call.home is None and (home := home_of()):
            facts["home"] = home
        if call.homes is None and (users := _users(params)):
            facts["homes"] = users
    if uses_other_folder and call.worktrees is None and (elsewhere := _elsewhere(call, facts)):
        facts["worktrees"] = elsewhere
    return replace(call, **facts) if facts else call


def at_home(call: Call, home: str | None) -> Call:
    """Return the call with the caller's home, if it mentions a home and has none yet."""
    if home is None or call.home is not None or type(call.params) is not dict or not _speaks_of(call.params)[0]:
        return call
    return replace(call, home=home)


def _speaks_of(params: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether params may name a home, and whether they may use the repository of another folder."""
    if _TELLING.isdisjoint(params):  # most calls; only texts
        try:
            joined = "\n".join(params.values())
        except TypeError:
            joined = "~"
        if "~" not in joined and "HOME" not in joined:
            return False, False
    names_home = uses_other_folder = False
    for name, value in params.items():
        kind = type(value)
        if kind is str:
            if name in _LINES:
                if len(value) <= _READ:
                    uses_other_folder = uses_other_folder or _goes(value)
                    names_home = (
                        names_home or "~" in value or "HOME" in value or ("cd" in value and bool(_HOME.search(value)))
                    )
            elif ("~" in value or "HOME" in value or name in _FOLDERS) and len(value) <= _PATH:
                names_home = names_home or "~" in value or "HOME" in value
                uses_other_folder = uses_other_folder or name in _FOLDERS
        elif kind is list or kind is dict:
            names_home = True
            uses_other_folder = (
                uses_other_folder or kind is dict or name in _LINES
            )  # an object may be the params of a nested call
    return names_home, uses_other_folder


def _goes(line: str) -> bool:
    """Return True if a command line may use the repository of another folder. Costs half a microsecond."""
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


def _elsewhere(call: Call, facts: Mapping[str, Any]) -> dict[str, Worktree | None]:
    """Return the folders other than ``cwd`` in which a call uses git, each with its worktree."""
    from callosum.rules.checkout import folders  # noqa: PLC0415 - rarely needed by a client

    home = call.home or facts.get("home")
    homes = call.homes or facts.get("homes") or {}
    worktrees: dict[str, Worktree | None] = {}
    try:
        wanted = folders(replace(call, home=home))
    except (ValueError, TypeError, RecursionError):  # the gate refuses these params
        return worktrees
    for folder in wanted:
        path = folder
        if folder[:1] == "~":
            user, _, rest = folder[1:].partition("/")
            base = homes.get(user) if user else home
            if not base:
                continue
            path = f"{base}/{rest}"
        worktrees[folder] = worktree_of(path)
    return worktrees


def home_of(user: str = "") -> str | None:
    """Return the home of this process, or of another user of this machine; None if it is unknown."""
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
    """Return the homes of other users that the texts among the params name."""
    homes: dict[str, str] = {}
    for value in params.values():
        if type(value) is str and "~" in value and len(value) <= _READ:
            for user in _USER.findall(value)[:_MOST_USERS]:
                if home := home_of(user):
                    homes[user] = home
    return homes


def worktree_of(folder: str) -> Worktree | None:
    """Return the worktree that contains an absolute folder, or None if there is none or the disk does not show it.

    Never raises. ``root`` is spelled like ``folder``. ``repository`` has its symbolic links resolved, so that all
    worktrees of a repository share it. For a bare repository both are its own folder.
    """
    now = time.monotonic()
    cached = _known.get(folder)
    if cached is not None and now < cached[0]:
        return cached[1]
    try:
        worktree = _look(folder)
    except (OSError, ValueError):  # no permission, or an impossible file name
        worktree = None
    with _writing:
        if len(_known) >= _MOST:
            _known.clear()
        _known[folder] = (now + KEPT, worktree)
    return worktree


def _look(folder: str) -> Worktree | None:
    from pathlib import Path  # noqa: PLC0415 - not needed by calls without a folder

    start = Path(os.path.normpath(folder))
    if not start.is_absolute():
        return None
    for root in (start, *start.parents):
        git_folder = root / ".git"
        if git_folder.is_dir():
            if (git_folder / "HEAD").exists():
                return Worktree(str(root), _name(git_folder))
        elif git_folder.is_file() and (git := _said(git_folder, "gitdir:")):
            common = git / "commondir"
            return Worktree(str(root), _name((_said(common, "") if common.is_file() else None) or git))
        if (root / "HEAD").is_file() and (root / "objects").is_dir() and (root / "refs").is_dir():
            return Worktree(str(root), _name(root))
    return None


def _said(file: Path, label: str) -> Path | None:
    """Return the path behind ``label`` in a git file, or None if there is none."""
    with file.open("rb") as stream:
        text = os.fsdecode(stream.read(_FILE)).strip()
    path = text.removeprefix(label).strip()
    if not text.startswith(label) or not path or "\n" in path or "\0" in path:
        return None
    return file.parent / path


def _name(common: Path) -> str:
    """Return the name of a repository: the folder that contains ``.git``, or the bare repository itself."""
    real = os.path.realpath(common)
    return real.removesuffix("/.git") or "/"
