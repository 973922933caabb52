"""The files that no call may change: Callosum's own, and the settings of the hosts that call it.

``Protected`` compares paths by their spelling. It touches no disk: ``callosum.gate.links`` follows symbolic links.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, NamedTuple

from callosum.programs import HOSTS
from callosum.rules import keys
from callosum.rules import lexicon as lex
from callosum.rules.lexicon import lists

GUARDS: Final = "the gate guards itself: "
"""How the reason of a call begins that the guard refuses."""
STATE: Final = "Callosum's state folder"
RULES: Final = "Callosum's rules"
SETTINGS: Final = "Callosum's settings"
SOCKET: Final = "Callosum's socket"
PROGRAM: Final = "Callosum's own program"
MAX_PARTS: Final = 64
"""Number of folders of a path that are compared."""
MAX_PATTERN: Final = 256
"""Longest pattern of one folder name that is compared, in characters; a longer one fits nothing."""

_SETTINGS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    *((tuple(path.rstrip("/").split("/")), f"the settings of {host.title}") for host in HOSTS for path in host.guards),
    (("callosum.toml",), SETTINGS),
)
_FOLDERS: Final = {host.folder: f"the settings of {host.title}" for host in HOSTS}
_TREES: Final = tuple(
    (*path.rsplit("/", 2)[:2], host.title) for host in HOSTS for path in host.guards if path[-1] == "/"
)
"""Folders that are guarded with all below them, each with the folder that holds it and the title of its host."""
TREES: Final = tuple(tree for _, tree, _ in _TREES)
_HOLDERS: Final = frozenset(holder for holder, *_ in _TREES)
_LAST: Final = frozenset(tail[-1] for tail, _ in _SETTINGS) | {"tiers.json"}
_RULES: Final = re.compile(r"(?:^|/)\.?callosum/(?:[^/]+/){0,16}tiers\.json$")
_HOME: Final = re.compile(r"(?:/home/[^/]+|/Users/[^/]+|/root)(?=/|$)")
_USER: Final = frozenset(("$USER", "${USER}", "$LOGNAME", "$(whoami)", "$(id -un)"))
OPEN: Final = re.compile(r"[*?\[$`]")
"""What stands in a word of a command for a text that the word does not show."""
_GLOB: Final = re.compile(r"[*?\[]")


class Root(NamedTuple):
    """A protected file or folder: the parts of its path, and a description of it."""

    parts: tuple[str, ...]
    what: str


class ProtectedEntry(NamedTuple):
    """A file or folder that a search below some folder would find."""

    path: str
    folder: bool
    depth: int


class Protected:
    """Paths that must not change. ``paths`` maps absolute paths to what they are, in words for people."""

    __slots__ = ("_above", "_named", "homes", "names", "roots", "texts")

    def __init__(self, paths: Mapping[str, str]) -> None:
        spelled: dict[str, str] = {}
        homes: dict[str, None] = {}
        for given, what in paths.items():
            if not given.strip():
                continue
            path = keys.path(given).rstrip("/") or "/"
            spelled.setdefault(path, what)
            home = _HOME.match(path)
            if home is not None:
                spelled.setdefault("~" + path[home.end() :], what)
                homes[home.group()] = None
        kept = [
            spelling
            for spelling in spelled
            if not any(spelling != other and spelling.startswith(other + "/") for other in spelled)
        ]
        self.roots: tuple[Root, ...] = tuple([Root(_cut(spelling), spelled[spelling]) for spelling in kept])
        self.homes: tuple[str, ...] = tuple(homes)
        self.texts: tuple[str, ...] = tuple([spelling for spelling in kept if spelling != "/"])
        last = {*(text.rsplit("/", 1)[-1] for text in self.texts), *_LAST, *_FOLDERS, "callosum"} - {""}
        least = sorted(item for item in last if not any(other in item for other in last if other != item))
        self.names: str = "|".join(map(re.escape, least))
        """The names of which one stands in every spelling of a protected path, as a regular expression."""
        self._named = re.compile(self.names)
        self._above = {
            "/".join(root.parts[:size]) or "/": root
            for root in reversed(self.roots)
            for size in range(1, len(root.parts))
        }

    def touched(self, path: str, *, whole: bool = False) -> str:
        """Return what a change of ``path`` would change, in words; ``""`` if it is nothing protected.

        ``path`` is canonical and may hold patterns and variables. ``whole``: everything below it changes as well.
        """
        if self._is_far(path):
            root = self._above.get(path.rstrip("/") or "/") if whole else None
            return _told(root) if root is not None else ""
        parts = _cut(path)
        if not parts or len(parts) > MAX_PARTS:
            return ""
        first = parts[0]
        guess = False
        if first[:1] == "~" and len(first) > 1 and any(home.endswith("/" + first[1:]) for home in self.homes):
            parts = ("~", *parts[1:])
        elif first[:1] == "$" and len(parts) > 1:  # a folder that nobody knows: perhaps a home
            parts, whole, guess = ("~", *parts[1:]), False, True
        for root in self.roots:
            if _meets(parts, root.parts, whole=whole):
                return _told(root)
        return _settings(parts, whole=whole and not guess)

    def _is_far(self, path: str) -> bool:
        """Return True for most paths: none of their parts is protected, a pattern or another user's home."""
        return (
            self._named.search(path) is None
            and OPEN.search(path) is None
            and not (path[:1] == "~" and path[1:2] not in ("", "/"))
        )

    def mentioned(self, text: str) -> str:
        """Return what protected thing a text names anywhere, ``""`` if none; for program text and SQL."""
        for root in self.roots:
            tail = root.parts[1:] if root.parts[0] == "~" else root.parts
            if len(tail) > 1 and _names(text, "/".join(tail)):
                return _told(root)
        for tail, what in _SETTINGS:
            if tail[-1] in text and _names(text, "/".join(tail)):
                return f"{what} ({'/'.join(tail)})"
        return ""

    def below(self, start: str) -> list[ProtectedEntry]:
        """Return the protected entries that a search from ``start`` would meet, with their depth below it."""
        base = _cut(start)
        if (start.rstrip("/") or "/") not in self._above and self._is_far(start):
            return []
        found: list[ProtectedEntry] = []
        for root in self.roots:
            parts = root.parts
            inside = [(*parts, *item.split("/")) for item in lists.STATE_FILES] if root.what == STATE else []
            folders = {parts[:size] for size in range(1, len(parts) + bool(inside))}
            folders |= {item[:-1] for item in inside}
            found += [
                ProtectedEntry("/".join(item) or "/", item in folders, len(item) - len(base))
                for item in [*sorted(folders), parts, *inside]
                if item[: len(base)] == base
            ]
        for home in ("~", *self.homes):
            for tail, _ in _SETTINGS:
                value = (*_cut(home), *tail)
                if len(tail) > 1 and value[: len(base)] == base:
                    found.append(ProtectedEntry("/".join(value), False, len(value) - len(base)))
        if _cut(start)[-1:] and _cut(start)[-1] in _FOLDERS:
            found += [
                ProtectedEntry(f"{start.rstrip('/')}/{tail[1]}", False, 1)
                for tail, _ in _SETTINGS
                if tail[0] == base[-1]
            ]
        return list(dict.fromkeys(found))


def _names(text: str, path: str) -> bool:
    """Return True if ``path`` stands in ``text`` as a whole, and not as the beginning of a longer name."""
    at = text.find(path)
    for _ in range(MAX_PARTS):
        if at < 0:
            return False
        end = at + len(path)
        if not (text[end : end + 1].isalnum() or text[end : end + 1] in ("-", "_", ".")) and not (
            path[0] != "/" and at and (text[at - 1].isalnum() or text[at - 1] in "-_")
        ):
            return True
        at = text.find(path, end)
    return True


def _cut(path: str) -> tuple[str, ...]:
    parts = path.rstrip("/").split("/", MAX_PARTS)
    return tuple(parts) if parts != [""] or path[:1] == "/" else ()


def _meets(parts: tuple[str, ...], root: tuple[str, ...], *, whole: bool) -> bool:
    """Return True if a path lies at or below a root, or with ``whole`` above it."""
    size, least = len(parts), len(root)
    if size < least and not whole:
        return False
    for at in range(min(size, least)):
        part = parts[at]
        if part == root[at]:
            continue
        unknown = "$" in part or "`" in part
        if unknown and part not in _USER:
            if at == least - 1 or at == size - 1:
                return False  # the name that matters is not in the text
        elif not unknown and not (_GLOB.search(part) and _fits(part, root[at])):
            return False
    return True


@lru_cache(maxsize=1024)
def _fits(pattern: str, name: str) -> bool:
    """Return True if a shell would put ``name`` in the place of a pattern."""
    if len(pattern) > MAX_PATTERN or (name[:1] == "." and pattern[:1] in "*?["):
        return False
    return fnmatchcase(name, pattern)


def _told(root: Root) -> str:
    path = "/".join(root.parts)
    home = _HOME.match(path)
    shown = keys.clean("~" + path[home.end() :] if home else path)[:200]
    return f"{root.what} ({shown})"


def _settings(parts: tuple[str, ...], *, whole: bool) -> str:
    """Return which settings of a host, or which rules, a path is; they are known by name in every folder."""
    last = parts[-1]
    pattern = _GLOB.search(last) is not None
    if last not in _LAST and not pattern and last not in _FOLDERS and _HOLDERS.isdisjoint(parts):
        return ""
    if whole and last in _FOLDERS:
        return f"{_FOLDERS[last]} ({last}/)"
    for tail, what in _SETTINGS:
        size = len(tail)
        alike = last == tail[-1] or (size > 1 and pattern and _fits(last, tail[-1]))
        if alike and len(parts) >= size and parts[-size:-1] == tail[:-1]:
            return f"{what} ({'/'.join(tail)})"
    for holder, tree, title in _TREES:
        if holder in parts:
            at = parts.index(holder)
            if parts[at + 1 : at + 2] == (tree,):
                return f"the settings of {title} ({holder}/{tree})"
    if last == "tiers.json" and _RULES.search("/".join(parts)):
        return f"{RULES} (tiers.json)"
    return ""


_OR: Final = frozenset(("-o", "-or"))


def admits(argv: list[str], found: ProtectedEntry) -> bool:
    """Return True if the tests of a ``find`` command let an entry pass, as far as its path tells."""
    several = not _OR.isdisjoint(argv)
    named: list[bool] = []
    negated = False
    name = found.path.rsplit("/", 1)[-1]
    for at, word in enumerate(argv[:-1]):
        value = argv[at + 1]
        passed: bool | None = None
        if word in ("!", "-not"):
            negated = True
            continue
        if word in lex.FIND_NAME_TESTS:
            text, pattern = (name, value) if "name" in word and "whole" not in word else (found.path, value)
            if word[1] == "i":
                text, pattern = text.lower(), pattern.lower()
            passed = len(pattern) <= MAX_PATTERN and fnmatchcase(text, pattern)
            if several:
                named.append(passed or negated)
                passed = None
        elif word == "-type":
            passed = value == "d" if found.folder else value[:1] == ("s" if name.endswith(".sock") else "f")
        elif word == "-maxdepth" and value.isdecimal():
            passed = found.depth <= int(value[:9])
        elif word == "-mindepth" and value.isdecimal():
            passed = found.depth >= int(value[:9])
        if passed is not None and passed is negated:
            return False
        if word[:1] == "-":
            negated = False
    return "-empty" not in argv and (not named or any(named))
