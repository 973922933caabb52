"""Finds among many lines of JSON those in which there may be a secret.

``summarise`` looks at one structure value by value, which is thorough and slow. Here each pattern that may match goes
over thousands of lines at once; only the lines that are named need that look. Some are named too many, none too few:
whatever ``summarise`` would hide, by its shape or for the name it stands under, is in a line named here.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from callosum.redact.disguises import undisguised
from callosum.redact.randomness import looks_random
from callosum.redact.secret_names import (
    CODE_KINDS,
    HARD_STEMS,
    KEY_KINDS,
    PAIR_VALUES,
    RANDOM_STEMS,
    SOFT_STEMS,
    Concealment,
    cover,
    cover_of_pair,
    is_secret_pair,
    names_secret,
)
from callosum.redact.secret_shapes import REDACTOR, compile_linear, is_plain

if TYPE_CHECKING:
    from collections.abc import Callable

_INSIDE: Final = rb'(?:[^"\\\n]|\\.)*'
"""The rest of a string of JSON."""
_BETWEEN: Final = rb'(?:[^A-Za-z"\\\n]|\\u[0-9a-f]{4}|\\.)*'
"""What may stand between two words of a name."""
_HARD: Final = (
    f"{HARD_STEMS}|(?:{KEY_KINDS})".encode()
    + _BETWEEN
    + rb"key|card"
    + _BETWEEN
    + rb"number|(?:"
    + CODE_KINDS.encode()
    + b")"
    + _BETWEEN
    + b"codes?|key"
    + _BETWEEN
    + b"(?:data|material)|app"
    + _BETWEEN
    + b"certificate|snmp"
    + _BETWEEN
    + b"community"
)
_SOFT: Final = SOFT_STEMS.encode()
"""Under these only texts are hidden, not numbers."""
_NAMES: Final = (
    rb"(?i:(?:" + _HARD + rb")" + _INSIDE + rb'":'
    rb"|(?:" + _SOFT + rb")" + _INSIDE + rb'":["\[{]'
    rb'|(?i:"-{1,2}' + _INSIDE + rb"(?:" + _HARD + b"|" + _SOFT + rb")" + _INSIDE + rb'",)'  # an option in a list
    rb"|(?:" + RANDOM_STEMS.encode() + rb')[^A-Za-z"\\]{0,8}":["\[{]'
    rb'|\["'
    + _INSIDE
    + rb"(?:"
    + _HARD
    + b"|"
    + _SOFT
    + rb")"
    + _INSIDE
    + rb'","'
    + _INSIDE
    + rb'"\]'  # a pair as a list
    rb'|"(?:'
    + "|".join(sorted(PAIR_VALUES)).encode()
    + rb')":)'  # perhaps a pair spelled out: {"name": "Authorization", "value": "..."}
)
"""Names under which something is hidden: a wider net than ``names.cover``, on JSON as it is written."""


@cache
def _names() -> Any:
    return compile_linear(_NAMES, capture=False)


_OTHER: Final = b"\1"
"""What stands for any other escaped character: most are controls."""

_DEEP: Final = 50
"""Deeper structures are left to ``summarise``."""
_CONTROL: Final = re.compile(rb"\\(?:u[0-9a-f]{4}|.)")


def suspects(data: bytes) -> list[int]:
    """Returns the numbers (from 0, ascending) of the lines that may hold a secret.

    ``data`` are lines that end in a newline, each with JSON as ``msgspec`` writes it, and perhaps other text
    before that. Linear in the length of ``data``.
    """
    found = _shaped(data) | _lines_with(_names().search, data)
    if b"\\" in data:
        as_read = _as_read(data)
        found |= _shaped(as_read)
        if _OTHER in as_read:
            found |= _shaped(as_read.replace(_OTHER, b""))
    if not data.isascii():
        bare = undisguised(data.decode("utf-8", "replace")).encode()
        found |= _shaped(bare) | _lines_with(_names().search, bare)
        if b"\\" in bare:
            found |= _shaped(_as_read(bare))
    return sorted(found)


def _shaped(data: bytes) -> set[int]:
    """Return the numbers of the lines that hold the shape of a secret."""
    found: set[int] = set()
    number = place = 0
    while place < len(data):
        end = data.find(b"\n", place + _CHUNK) + 1 or len(data)
        chunk = data[place:end]
        found.update(number + line for line in _shaped_in(chunk))
        number, place = number + chunk.count(b"\n"), end
    return found


def _shaped_in(data: bytes) -> set[int]:
    """Return the same for few lines, in which few patterns may match."""
    found: set[int] = set()
    for number in REDACTOR.with_literal(data):
        found |= _lines_with(partial(REDACTOR.search, number), data)
    for clue, numbers in REDACTOR.clues:
        if there := sorted(_lines_with(clue.search, data)):
            lines = data.split(b"\n")
            some = b"\n".join([lines[line] for line in there])
            for number in numbers:
                found.update(there[line] for line in _lines_with(partial(REDACTOR.search, number), some))
    return found


_CHUNK: Final = 4096
"""Bytes of lines that are searched together."""


def is_harmless(value: Any) -> bool:
    """Returns whether a value read from JSON surely holds no secret: whether ``summarise`` in full would leave it."""
    texts: list[str] = []
    return _collect(value, texts, 0) and is_plain("\n".join(texts))


def _collect(value: Any, texts: list[str], depth: int) -> bool:
    """Collects the texts in a value; False if something in it must be looked at with care."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        if depth > _DEEP or (not PAIR_VALUES.isdisjoint(value) and cover_of_pair(value.items())):
            return False
        for name, inner in value.items():
            if not isinstance(name, str):
                return False  # no JSON: params of a program
            hide = cover(name)
            if (
                hide is Concealment.RANDOM
                and isinstance(inner, str)
                and not looks_random(inner.strip().encode("utf-8", "replace"))
            ):
                hide = Concealment.NOTHING
            if hide and not (hide < Concealment.ALL and isinstance(inner, int | float)):
                return False
            texts.append(name)
            if not _collect(inner, texts, depth + 1):
                return False
    elif isinstance(value, list):
        return (
            depth <= _DEEP
            and not any(map(names_secret, value))
            and not is_secret_pair(value)
            and all(_collect(inner, texts, depth + 1) for inner in value)
        )
    return True


def _lines_with(search: Callable[[bytes, int], Any], data: bytes) -> set[int]:
    """Return the numbers of the lines in which a match begins."""
    found: set[int] = set()
    number = place = 0
    while (match := search(data, place)) is not None:
        start = match.start()
        number += data.count(b"\n", place, start)
        found.add(number)
        end = data.find(b"\n", start)
        if end < 0:
            break
        number, place = number + 1, end + 1
    return found


def _as_read(data: bytes) -> bytes:
    r"""The lines with the texts in them as they are, not as JSON writes them.

    In ``"line\nghp_..."`` the letter of the escape stands before the token and hides where it begins. A newline
    becomes a carriage return, which no shape tells from it, and the lines stay the same lines.
    """
    data = data.replace(b"\\\\", b"\0").replace(b'\\"', b'"')
    data = data.replace(b"\\n", b"\r").replace(b"\\r", b"\r").replace(b"\\t", b"\t").replace(b"\\f", b"\f")
    if b"\\" in data:
        data = _CONTROL.sub(lambda _: _OTHER, data)
    return data.replace(b"\0", b"\\")
