"""Split the words of a command into options, their values and the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

NONE: Final[frozenset[str]] = frozenset()


class Options:
    """``args`` are the words that are no options, ``flags`` the options, ``values`` what some of them are given.

    Long options lose what follows ``=``; of ``-rf`` the flags are ``-r``, ``-f`` and ``-rf``.
    """

    __slots__ = ("args", "flags", "values")

    def __init__(self) -> None:
        self.args: list[str] = []
        self.flags: set[str] = set()
        self.values: dict[str, list[str]] = {}

    def has(self, *names: str) -> bool:
        """Return True if one of some options is given."""
        return not self.flags.isdisjoint(names)

    def value(self, *names: str) -> str:
        """Return the last value of the first of some options that has one, else ``""``."""
        for name in names:
            if name in self.values:
                return self.values[name][-1]
        return ""


def read(words: Iterable[str], takes: frozenset[str] = NONE, *, until: bool = False) -> Options:
    """Split ``words`` (without the program); options in ``takes`` are followed by a value.

    With ``until`` all words after the first that is no option are ``args``, as for a command within.
    """
    found = Options()
    args, flags = found.args, found.flags
    pending, rest = "", False
    for word in words:
        if rest:
            args.append(word)
        elif pending:
            found.values.setdefault(pending, []).append(word)
            pending = ""
        elif word[:1] != "-" or word == "-":
            args.append(word)
            rest = until
        elif word == "--":
            rest = True
        elif word[1] == "-":
            name, equals, value = word.partition("=")
            flags.add(name)
            if equals:
                found.values.setdefault(name, []).append(value)
            elif name in takes:
                pending = name
        else:
            pending = _short(word, takes, found)
    return found


def _short(word: str, takes: frozenset[str], found: Options) -> str:
    """Read ``-x``, ``-xyz``, ``-xvalue`` and ``-word=value``; return the option that awaits its value."""
    flags = found.flags
    if len(word) == 2:
        flags.add(word)
        return word if word in takes else ""
    name, equals, value = word.partition("=")
    flags.add(name)
    if word in takes:
        return word
    if equals:
        found.values.setdefault(name, []).append(value)
        return ""
    for at in range(1, min(len(word), 12)):
        letter = "-" + word[at]
        flags.add(letter)
        if letter in takes:
            if at + 1 < len(word):
                found.values.setdefault(letter, []).append(word[at + 1 :])
                return ""
            return letter
    return ""
