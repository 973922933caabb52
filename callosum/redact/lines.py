"""Finds among many lines of JSON those in which there may be a secret.

``summarise`` looks at one structure value by value, which is thorough and slow. Here one automaton goes over
thousands of lines at once; only the lines that it names need that look. It names some too many, never one too
few: whatever ``summarise`` would hide, by its shape or for the name it stands under, is in a line named here.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from callosum.redact.disguise import undisguised
from callosum.redact.names import HARD_STEMS, KEY_KINDS, PAIR_NAMES, SOFT_STEMS, Cover, cover, names_secret
from callosum.redact.shapes import REDACTOR, compile_linear, is_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

_INSIDE: Final = rb'(?:[^"\\\n]|\\.)*'
"""The rest of a string of JSON."""
_BETWEEN: Final = rb'(?:[^A-Za-z"\\\n]|\\u[0-9a-f]{4}|\\.)*'
"""What may stand between two words of a name."""
_HARD: Final = f"{HARD_STEMS}|(?:{KEY_KINDS})".encode() + _BETWEEN + rb"key|card" + _BETWEEN + rb"number"
_SOFT: Final = SOFT_STEMS.encode()
"""Under these only texts are hidden, not numbers."""
_NAMES: Final = (
    rb"(?i:(?:" + _HARD + rb")" + _INSIDE + rb'":'
    rb"|(?:" + _SOFT + rb")" + _INSIDE + rb'":["\[{]'
    rb'|(?i:"-{1,2}' + _INSIDE + rb"(?:" + _HARD + b"|" + _SOFT + rb")" + _INSIDE + rb'",)'  # an option in a list
    rb'|"(?:value|selector|element|locator)":)'  # perhaps a pair spelled out: {"name": "Authorization", "value": "..."}
)
"""Names under which something is hidden: a wider net than ``names.cover``, on JSON as it is written."""

_SHAPE: Final = b"|".join(b"(?:" + pattern + b")" for pattern in REDACTOR.patterns)


@cache
def _shape_or_name() -> Any:
    return compile_linear(_SHAPE + b"|" + _NAMES, capture=False)


@cache
def _only_shape() -> Any:
    return compile_linear(_SHAPE, capture=False)


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
    found = set(_lines_with(_shape_or_name(), data))
    if b"\\" in data:
        as_read = _as_read(data)
        found.update(_lines_with(_only_shape(), as_read))
        if _OTHER in as_read:
            found.update(_lines_with(_only_shape(), as_read.replace(_OTHER, b"")))
    if not data.isascii():
        bare = undisguised(data.decode("utf-8", "replace")).encode()
        found.update(_lines_with(_shape_or_name(), bare))
        if b"\\" in bare:
            found.update(_lines_with(_only_shape(), _as_read(bare)))
    return sorted(found)


def is_harmless(value: Any) -> bool:
    """Returns whether a value read from JSON surely holds no secret: whether ``summarise`` in full would leave it."""
    texts: list[str] = []
    return _collect(value, texts, 0) and is_plain("\n".join(texts))


def _collect(value: Any, texts: list[str], depth: int) -> bool:
    """Collects the texts in a value; False if something in it must be looked at with care."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        if not PAIR_NAMES.isdisjoint(value) or depth > _DEEP:
            return False
        for name, inner in value.items():
            if not isinstance(name, str):
                return False  # no JSON: params of a program
            hide = cover(name)
            if hide and not (hide is Cover.STRINGS and isinstance(inner, int | float)):
                return False
            texts.append(name)
            if not _collect(inner, texts, depth + 1):
                return False
    elif isinstance(value, list):
        return (
            depth <= _DEEP
            and not any(map(names_secret, value))
            and all(_collect(inner, texts, depth + 1) for inner in value)
        )
    return True


def _lines_with(pattern: Any, data: bytes) -> Iterator[int]:
    number = place = 0
    while (match := pattern.search(data, place)) is not None:
        start = match.start()
        number += data.count(b"\n", place, start)
        yield number
        end = data.find(b"\n", start)
        if end < 0:
            return
        number, place = number + 1, end + 1


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
