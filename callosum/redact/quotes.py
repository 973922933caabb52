"""Puts text from elsewhere into a sentence without letting it speak."""

from __future__ import annotations

from typing import Final

from callosum.characters import with_hidden

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
    kept = " ".join(_seen(window).split())
    if len(kept) > limit or len(window) < len(text):
        kept = kept[: limit - 1].rstrip() + "…"
    return f'"{kept}"'


def visible(text: str) -> str:
    """Return ``text`` without the characters that nobody sees: between the letters of a secret they would hide it."""
    return with_hidden(text, lambda char: char if char.isspace() else "")


def _seen(text: str) -> str:
    text = with_hidden(text, lambda char: " " if char.isspace() else "")
    return "".join(["'" if char in _QUOTES else char for char in text])
