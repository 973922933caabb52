"""What Callosum is held against: the verb in the name, any equal argument, the same id.

They are what one would write in an afternoon. They know nothing of Callosum's rules and share no code with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_LOOKS: Final = frozenset(
    "get list read search find fetch query view show describe check count lookup look retrieve browse inspect "
    "calculate convert estimate is has exists validate verify compare summarize diff ls grep log tail schema stats "
    "status usage details explain".split()
)
_CHANGES: Final = frozenset(
    "create add update set delete remove send post put edit modify write insert upload move rename copy cancel book "
    "pay transfer schedule reply publish start stop enable disable run execute apply merge close open".split()
)
_DESTROYS: Final = frozenset("delete remove drop destroy purge wipe terminate cancel pay transfer refund".split())
_SENDS: Final = frozenset("send reply email mail schedule book invite order".split())
_POSTS: Final = frozenset("post comment publish push message notify".split())
_ID: Final = re.compile(
    r"(?:^|_|\b)(?:ids?|uuid|number|ref|slug|iban|key|symbol|path|file|folder|dir|directory|name|url|email|to|channel)$",
    re.IGNORECASE,
)


def words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def effect(tool: str) -> str:
    """Return ``read`` if the name has a verb that only reads and no verb before it that changes something."""
    for word in words(tool):
        if word in _CHANGES:
            return "write"
        if word in _LOOKS:
            return "read"
    return "write"


def tier(tool: str) -> int:
    """By the verb alone."""
    spoken = set(words(tool))
    if effect(tool) == "read":
        return 0
    return 4 if spoken & _DESTROYS else 3 if spoken & _SENDS else 2 if spoken & _POSTS else 1


_DANGER: Final = re.compile(
    r"\b(?:rm|rmdir|shred|mkfs|dd|delete|destroy|drop|purge|wipe|terminate|truncate|prune|remove|force|kill|reset)\b",
    re.IGNORECASE,
)


def dangerous(command: str) -> bool:
    """A word of destruction anywhere in the line."""
    return bool(_DANGER.search(command))


def values(args: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Return all scalars among the arguments with the names of their params."""
    if isinstance(args, dict):
        for key, value in args.items():
            yield from values(value, str(key))
    elif isinstance(args, list):
        for value in args:
            yield from values(value, name)
    elif args is not None and not isinstance(args, bool) and str(args).strip():
        yield name.lower(), str(args).strip().lower()


def names_a_thing(param: str) -> bool:
    """Whether a param of this name holds an id, an address, a path or the like."""
    return bool(_ID.search(param))


def any_equal(a: tuple[str, dict[str, Any]], b: tuple[str, dict[str, Any]]) -> bool:
    """Two calls, one of them a write, have any argument value in common."""
    if effect(a[0]) == effect(b[0]) == "read":
        return False
    return not {value for _, value in values(a[1])}.isdisjoint(value for _, value in values(b[1]))


def same_key(a: tuple[str, dict[str, Any]], b: tuple[str, dict[str, Any]]) -> bool:
    """Two calls, one of them a write, have the same value under the same name of a param that names a thing."""
    if effect(a[0]) == effect(b[0]) == "read":
        return False
    one, other = ({pair for pair in values(args) if names_a_thing(pair[0])} for _, args in (a, b))
    return not one.isdisjoint(other)
