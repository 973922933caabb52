"""Put foreign text into a sentence as harmless data."""

from __future__ import annotations

from typing import Final

from callosum.characters import with_hidden

_QUOTES: Final = frozenset('"“”„‟«»\uff02″❝❞')


def quote(text: str, limit: int = 80) -> str:
    """Return ``text`` in double quotes, harmless inside a sentence that an agent reads.

    The text came from another session or an argument, so it is data: one line of at most ``limit`` characters, without
    control, direction and invisible characters, and without a double quote that could end it. A cut text ends in an
    ellipsis.
    """
    if len(text) <= limit and text.isascii() and text.isprintable() and '"' not in text and "  " not in text:
        return f'"{text.strip()}"'
    window = text[: 8 * limit]
    shown = " ".join(_seen(window).split())
    if len(shown) > limit or len(window) < len(text):
        shown = shown[: limit - 1].rstrip() + "…"
    return f'"{shown}"'


def visible(text: str) -> str:
    """Return ``text`` without invisible characters: between the letters of a secret they would hide it."""
    return with_hidden(text, lambda char: char if char.isspace() else "")


def _seen(text: str) -> str:
    text = with_hidden(text, lambda char: " " if char.isspace() else "")
    return "".join(["'" if char in _QUOTES else char for char in text])
