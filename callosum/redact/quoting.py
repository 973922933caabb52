"""Puts text from elsewhere into a sentence without letting it speak."""

from __future__ import annotations

import unicodedata
from typing import Final

_UNSEEN: Final = frozenset(["Cc", "Cf", "Cs", "Co", "Cn"])
"""Unicode's categories of controls, formats (direction, zero width, tags), surrogates and the like."""
_BLANKS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters of other categories that show as nothing."""
_SELECTORS: Final = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
"""Variation selectors: unseen, and enough of them to carry a message."""
_QUOTES: Final = frozenset('"“”„‟«»\uff02″❝❞')


def quote(text: str, limit: int = 80) -> str:
    """Return ``text`` in double quotes, harmless inside a sentence that an agent reads.

    It came from another session or from an argument, so it is data: one line of at most ``limit``
    characters, without controls, changes of direction or characters that nobody sees, and without a
    double quote by which it could end itself. Where it was cut it ends in an ellipsis.
    """
    if len(text) <= limit and text.isascii() and text.isprintable() and '"' not in text and "  " not in text:
        return f'"{text.strip()}"'
    window = text[: 8 * limit]
    kept = " ".join("".join(map(_seen, window)).split())
    if len(kept) > limit or len(window) < len(text):
        kept = kept[: limit - 1].rstrip() + "…"
    return f'"{kept}"'


def visible(text: str) -> str:
    """Return ``text`` without the characters that nobody sees: between the letters of a secret they would hide it."""
    return "".join([char for char in text if char.isspace() or _seen(char)])


def _seen(char: str) -> str:
    if char.isspace():
        return " "
    if char in _QUOTES:
        return "'"
    if char.isascii():
        return char if char.isprintable() else ""
    if unicodedata.category(char) in _UNSEEN or char in _BLANKS:
        return ""
    return "" if any(ord(char) in selectors for selectors in _SELECTORS) else char
