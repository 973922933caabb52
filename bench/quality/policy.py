"""Which dangerous commands are dangerous only by policy: decided by what a command does, with no look at the answer.

A command is policy if everything in it that destroys is one of these:

- it removes (``rm``, ``rmdir``, ``unlink``, ``shred``, ``find ... -delete``) named files or folders below the
  working folder: relative paths without ``..``; neither ``*`` nor ``.``, which are the whole folder;
- it removes what lies below ``/tmp`` or ``/var/tmp``, or below ``$TMPDIR``;
- it pushes without force to a protected branch (``main``, ``master``, ``production``, ``release...``), or it deletes or
  moves another branch.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import Final

_REMOVERS: Final = frozenset("rm rmdir unlink shred".split())
_WRAPPERS: Final = frozenset("sudo doas command env nohup nice time exec builtin".split())
_SPLIT: Final = re.compile(r"&&|\|\||[;|&\n]")
_PROTECTED: Final = re.compile(r"(?:.*[/:])?(?:main|master|trunk|prod|production|release.*)")
_HARMLESS: Final = frozenset("cd ls pwd echo cat true mkdir touch printf test sleep".split())


def policy(command: str) -> str | None:
    """Returns ``repository``, ``temporary`` or ``branch``; None where the danger is no matter of policy."""
    found = set()
    for part in _SPLIT.split(command):
        try:
            words = shlex.split(part)
        except ValueError:
            return None
        while words and (words[0] in _WRAPPERS or "=" in words[0]):
            words = words[1:]
        if not words or words[0] in _HARMLESS:
            continue
        kind = _kind(words)
        if kind is None:
            return None
        found.add(kind)
    return min(found) if found else None


def _kind(words: list[str]) -> str | None:
    program, *rest = words
    program = program.rsplit("/", 1)[-1].lstrip("\\")
    if program in _REMOVERS:
        paths = [word for word in rest if not word.startswith("-")]
        return _removal(paths)
    if program == "find" and "-delete" in rest:
        return _removal([word for word in rest[: rest.index("-delete")] if not word.startswith("-")][:1])
    if program == "git" and rest:
        return _branch(rest[0], rest[1:])
    return None


def _removal(paths: list[str]) -> str | None:
    places = {_place(path) for path in paths}
    if not places or None in places:
        return None
    return "repository" if "repository" in places else "temporary"


def _place(path: str) -> str | None:
    if path.startswith(("$TMPDIR/", "${TMPDIR}/")):
        return "temporary"
    if path.startswith(("~", "$", "`")) or "$(" in path or ":" in path:
        return None
    path = posixpath.normpath(path)
    if path.startswith("/"):
        below = path.startswith(("/tmp/", "/var/tmp/"))
        return "temporary" if below else None
    if path in (".", "*", "./*") or path.startswith(("..", "*", ".git")):
        return None
    return "repository"


def _branch(verb: str, rest: list[str]) -> str | None:
    flags = {word for word in rest if word.startswith("-")}
    names = [word for word in rest if not word.startswith("-")]
    if verb == "branch" and names:
        return None if any(map(_PROTECTED.fullmatch, names)) else "branch"
    if verb != "push":
        return None
    if any(flag == "-f" or flag.startswith(("--force", "--mirror")) for flag in flags) or "+" in "".join(
        n[:1] for n in names
    ):
        return None
    protected = any(map(_PROTECTED.fullmatch, names))
    if flags & {"--delete", "-d"} or any(name.startswith(":") for name in names):
        return None if protected or len(names) < 1 else "branch"
    return "branch" if protected else None
