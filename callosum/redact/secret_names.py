"""Decide from a name whether its value is a secret."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from callosum.redact.disguises import undisguised
from callosum.redact.shape_table import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NAME_LIMIT: Final = 80
"""Longest name that is examined, in characters; only the end of a longer one counts."""


class Concealment(IntEnum):
    """How much of a name's value is hidden: nothing, text that looks random, all text, numbers too."""

    NOTHING = 0
    RANDOM = 1
    STRINGS = 2
    ALL = 3


_SECRETS: Final = words("secret")
_ENDINGS: Final = tuple(words("endings"))
_KEYS: Final = words("keys")
_SOFT: Final = words("soft")
_CODES: Final = words("codes")
_RANDOM: Final = words("random")
_UNITS: Final = words("units")
_ABOUT: Final = words("about")
_PUBLIC: Final = words("public")
_FOLDERS: Final = frozenset(["PWD", "OLDPWD"])
"""A shell's variables for its working folders."""
PAIR_VALUES: Final = words("values")
"""Names under which an object that names its value holds that value."""
_LABELS: Final = words("labels")
_PAGE_PARTS: Final = words("page")

_FIELD_WORDS: Final = re.compile(r"(?i)\b(?:field|input|box)\W*\Z")
_NO_WORD: Final = re.compile(r"[0-9!@#$%^&*+=]|[a-z][A-Z]|[-_.][^-_.]+[-_.]")
"""Features of a value that is not an ordinary word; a list of two may also be two names."""
_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


@lru_cache(maxsize=4096)
def _cover(name: str) -> Concealment:
    parts = [word.lower() for word in _WORD.findall(name)]
    if not parts or parts[-1] in _ABOUT or name in _FOLDERS:
        return Concealment.NOTHING
    if any(word in _SECRETS or word.endswith(_ENDINGS) for word in parts):
        return Concealment.ALL
    for first, second in pairwise(parts):
        if second in ("key", "keys") and first in _KEYS:
            return Concealment.ALL
        if (first, second) in (("card", "number"), ("key", "data"), ("key", "material"), ("app", "certificate")):
            return Concealment.ALL
        if (second in ("code", "codes") and first in _CODES) or (first, second) == ("snmp", "community"):
            return Concealment.ALL
    if any(word in _SOFT or word.endswith(("token", "pw")) for word in parts):
        return Concealment.NOTHING if _UNITS.intersection(parts) else Concealment.STRINGS
    return Concealment.RANDOM if parts[-1] in _RANDOM and _PUBLIC.isdisjoint(parts) else Concealment.NOTHING


def cover(name: str) -> Concealment:
    """Return how much to hide under ``name``, whatever its case and separators."""
    name = name[-NAME_LIMIT:]
    return _cover(name if name.isascii() else undisguised(name))


def names_secret(item: object) -> bool:
    """Return True if a list item is an option (``--password``) whose argument, the next item, is a secret."""
    return (
        isinstance(item, str) and item[:1] == "-" and len(item) <= NAME_LIMIT and "=" not in item and bool(cover(item))
    )


def cover_of_pair(items: Iterable[tuple[object, object]]) -> Concealment:
    """Return how much to hide of an object's value, by its label: ``{"name": "Authorization", "value": "..."}``."""
    most = Concealment.NOTHING
    for name, value in items:
        if type(name) is str and type(value) is str:
            low = name.lower()
            if low in _LABELS:
                most = max(most, cover(value))
            elif low in _PAGE_PARTS:
                most = max(most, cover(_FIELD_WORDS.sub("", value[-NAME_LIMIT:])))
    return most


def is_secret_pair(items: Sequence[object]) -> bool:
    """Return True if a list is a name and its secret: ``["X-Api-Key", "..."]`` in a list of headers."""
    if len(items) != 2:
        return False
    name, value = items
    return (
        type(name) is str
        and type(value) is str
        and len(name) <= NAME_LIMIT
        and cover(name) > Concealment.RANDOM
        and _NO_WORD.search(value) is not None
    )
