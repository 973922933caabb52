"""Where a path lies, by its spelling alone: in the working folder, among temporary files, elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from callosum.rules import keys
from callosum.rules.shell import programs

if TYPE_CHECKING:
    from callosum.rules.shell.judgement import ShellPolicy

INSIDE: Final = "in the working folder"
WHOLE: Final = "the whole working folder"
HISTORY: Final = "the repository's own data"
SHORT_LIVED: Final = "among temporary files"
OUTSIDE: Final = "outside of the working folder"
SYSTEM: Final = "where the machine keeps its programs and configuration"
KEPT_KEYS: Final = "where keys are kept"
DEVICE: Final = "a device"
NOWHERE: Final = "nowhere"
UNKNOWN: Final = "a place that the command does not tell"

MAX_PATH: Final = 1024
"""Longest path that is followed, in characters."""
_STARS: Final = str.maketrans("", "", "*/.")
_OPEN_END: Final = re.compile(r"[*?\[{$`]|^!")
_SYSTEM: Final = re.compile(
    r"/(?:etc|bin|sbin|lib|lib32|lib64|libexec|boot|sys|proc|efi|System|Library|usr(?!/local/|/src/)"
    r"|var/(?:lib|spool|run|log)|private/etc)(?:/|$)|[a-z]:/(?i:windows|program files)"
)
_SECRET: Final = re.compile(
    r"/\.(?:ssh|gnupg|aws|kube|azure|docker/config\.json|netrc|pgpass)(?:/|$)|/(?:id_rsa|id_ed25519|authorized_keys)$"
)
_CACHE: Final = re.compile(
    r"(?:/var/cache|/var/lib/apt/lists|(?:~|/root|/(?:home|Users)/[^/]+)/(?:\.cache|Library/Caches))/[^/]"
)
"""What lies in a folder for caches, which by the standards of those folders is made again."""
_NO_DISK: Final = re.compile(
    r"/dev/(?:null|zero|full|u?random|std(?:in|out|err)|tty|pts|ptmx|fd|console|tcp|udp|snd|video|input|dri|net)\b"
)
_DRIVE: Final = re.compile(r"[A-Z]:(?![/\\:])")
_GIT: Final = re.compile(r"(?:^|/)\.git(?:/|$)")


class Place(NamedTuple):
    """``kind`` is one of the constants above; ``path`` is canonical, ``""`` where it is not known.

    ``tree``: more than one file is meant (a pattern, a trailing slash). ``part``: some of what lies
    there, not all. ``rest``: the end of the word, from the first part of it that is a pattern.
    """

    kind: str
    path: str
    tree: bool
    part: bool
    rest: str = ""


def place(word: str, here: str | None, root: str | None, policy: ShellPolicy, *, lost: bool = False) -> Place:
    """Return where a word of a command points.

    ``here`` is the folder at this point of the line, ``root`` the working folder of the call.
    ``lost``: the line has gone to a folder that its text does not name.
    """
    if word[1:2] == ":" and _DRIVE.match(word):
        word = f"{word[:2]}/{word[2:]}"  # what a backslash parted, the shell has put together
    tree, part, rest = word[-1:] == "/", False, ""
    match = _OPEN_END.search(word)
    if match:
        if word[0] == "$":
            name = word[2:] if word[:2] == "${" else word[1:]
            if re.split(r"\W", name, maxsplit=1)[0] in programs.TEMPORARY_VARIABLES:
                return Place(SHORT_LIVED, "", True, True, word)
        cut = word.rfind("/", 0, match.start() + 1) + 1
        rest = word[cut:]
        sign = match.group()
        if not cut and sign in ("$", "`") and match.start() == 0:
            return Place(UNKNOWN, "", True, True, word)
        part = rest.translate(_STARS) not in ("", "[!]", "{,}") and word[0] != "!"
        word, tree = word[:cut] or "./", True
    if lost and word[:1] not in ("/", "~"):
        return Place(UNKNOWN, "", tree, part, rest)
    path = keys.path(keys.clean(word) or ".", here)
    if path[-1] == "/" and path != "/":
        path, tree = path[:-1], True
    kind = _kind(path, root, policy, everything=match is not None and not part, part=part)
    return Place(kind, path, tree, part, rest)


def _kind(path: str, root: str | None, policy: ShellPolicy, *, everything: bool, part: bool) -> str:
    if path == "/":
        return SYSTEM
    if path[:5] == "/dev/" and path[5:8] != "shm":
        return NOWHERE if _NO_DISK.match(path) else DEVICE
    if path[:1] != "/" and path[:1] != "~" and path[1:2] != ":":
        if path == "." or path[:2] == "..":
            return INSIDE if path == "." and part else WHOLE if path == "." else OUTSIDE
        return HISTORY if _GIT.search(path) else INSIDE
    for folder in (root, *policy.folders):
        if folder is None:
            continue
        bare = folder.rstrip("/")
        if path == bare:
            return INSIDE if part else WHOLE
        if path.startswith(bare + "/"):
            return HISTORY if ".git" in path and _GIT.search(path) else INSIDE
        if bare.startswith(path.rstrip("/") + "/") and not part and folder is root:
            return OUTSIDE
    for folder in policy.temporary_folders:
        if path.startswith(folder + "/") or (path == folder and (everything or part)):
            return SHORT_LIVED
    if _CACHE.match(path if not (everything or part) else f"{path}/*"):
        return SHORT_LIVED
    if _SECRET.search(path):
        return KEPT_KEYS
    if _SYSTEM.match(path):
        return SYSTEM
    return OUTSIDE
