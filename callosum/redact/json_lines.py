"""Find the lines of JSON that may hold a secret, among many.

``summarise`` examines one structure value by value, which is thorough and slow. Here each pattern that may match is
applied to thousands of lines at once; only the lines it names need the slow way. Some are named too many, none too few:
whatever ``summarise`` would hide, by shape or by name, is in a named line.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from callosum.redact.disguises import undisguised
from callosum.redact.randomness import looks_random
from callosum.redact.redactor import REDACTOR, is_plain
from callosum.redact.secret_names import (
    PAIR_VALUES,
    Concealment,
    cover,
    cover_of_pair,
    is_secret_pair,
    names_secret,
)
from callosum.redact.shape_table import compile_linear, expand

_INSIDE: Final = r'(?:[^"\\\n]|\\.)*'
"""The rest of a JSON string."""
_BETWEEN: Final = r'(?:[^A-Za-z"\\\n]|\\u[0-9a-f]{4}|\\.)*'
"""Characters that may separate two words of a name."""
_HARD: Final = (
    rf"<HARD>|(?:<KEYS>){_BETWEEN}key|card{_BETWEEN}number|(?:<CODES>){_BETWEEN}codes?|key{_BETWEEN}(?:data|material)"
    rf"|app{_BETWEEN}certificate|snmp{_BETWEEN}community"
)
_NAMES: Final = (
    rf'(?i:(?:{_HARD}){_INSIDE}":'
    rf'|(?:<SOFT>){_INSIDE}":["\[{{]'
    rf'|"-{{1,2}}{_INSIDE}(?:{_HARD}|<SOFT>|<RANDOM>){_INSIDE}",'  # an option
    r'|(?:<RANDOM>)[^A-Za-z"\\]{0,8}":["\[{]'
    rf'|\["{_INSIDE}(?:{_HARD}|<SOFT>){_INSIDE}","{_INSIDE}"\]'  # a pair as a list
    rf'|"(?:{"|".join(sorted(PAIR_VALUES))})":)'  # perhaps {"name": "Authorization", "value": "..."}
)
"""Names under which something is hidden: a wider pattern than ``secret_names.cover``, for encoded JSON."""


@cache
def _names() -> Any:
    return compile_linear(expand(_NAMES), capture=False)


_OTHER: Final = b"\1"
"""Replacement for any other escaped character; most are control characters."""

_DEEP: Final = 50
"""Levels beyond which structures are left to ``summarise``."""
_CONTROL: Final = re.compile(rb"\\(?:u[0-9a-f]{4}|.)")


def suspects(data: bytes) -> list[int]:
    """Return the numbers (from 0, ascending) of the lines that may hold a secret.

    ``data`` consists of lines that end in a newline, each with JSON as ``msgspec`` writes it, possibly after other
    text. Linear in the length of ``data``.
    """
    numbers = _shaped(data) | _named(data)
    if b"\\" in data:
        as_read = _as_read(data)
        numbers |= _shaped(as_read)
        if _OTHER in as_read:
            numbers |= _shaped(as_read.replace(_OTHER, b""))
    if not data.isascii():
        bare = undisguised(data.decode("utf-8", "replace")).encode()
        numbers |= _shaped(bare) | _named(bare)
        if b"\\" in bare:
            numbers |= _shaped(_as_read(bare))
    return sorted(numbers)


def _shaped(data: bytes) -> set[int]:
    """Return the numbers of the lines that hold the shape of a secret."""
    numbers: set[int] = set()
    number = offset = 0
    while offset < len(data):
        end = data.find(b"\n", offset + _CHUNK) + 1 or len(data)
        chunk = data[offset:end]
        lines = chunk.split(b"\n") if REDACTOR.possible(chunk) else ()
        numbers.update(
            number + at for at, line in enumerate(lines) if any(rule.search(line) for rule in REDACTOR.possible(line))
        )
        number, offset = number + chunk.count(b"\n"), end
    return numbers


_CHUNK: Final = 4096
"""Bytes of lines that are searched together at first."""


def is_harmless(value: Any) -> bool:
    """Return True if a value read from JSON surely holds no secret: ``summarise`` in full would not change it."""
    texts: list[str] = []
    return _collect(value, texts, 0) and is_plain(*texts)


def _collect(value: Any, texts: list[str], depth: int) -> bool:
    """Collect the texts in a value; return False if something in it needs a closer look."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        if depth > _DEEP or (not PAIR_VALUES.isdisjoint(value) and cover_of_pair(value.items())):
            return False
        for name, inner in value.items():
            if not isinstance(name, str):
                return False  # not JSON: params from a program
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


def _named(data: bytes) -> set[int]:
    """Return the numbers of the lines in which a name of a secret begins."""
    numbers: set[int] = set()
    number = offset = 0
    while (match := _names().search(data, offset)) is not None:
        start = match.start()
        number += data.count(b"\n", offset, start)
        numbers.add(number)
        end = data.find(b"\n", start)
        if end < 0:
            break
        number, offset = number + 1, end + 1
    return numbers


def _as_read(data: bytes) -> bytes:
    r"""Return the lines with their texts as they are, not as JSON encodes them.

    In ``"line\nghp_..."`` the letter of the escape stands before the token and hides its beginning. A newline becomes a
    carriage return, which every shape treats the same, so that the line numbers stay the same.
    """
    data = data.replace(b"\\\\", b"\0").replace(b'\\"', b'"')
    data = data.replace(b"\\n", b"\r").replace(b"\\r", b"\r").replace(b"\\t", b"\t").replace(b"\\f", b"\f")
    if b"\\" in data:
        data = _CONTROL.sub(lambda _: _OTHER, data)
    return data.replace(b"\0", b"\\")
