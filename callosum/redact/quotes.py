"""Put foreign text or an error into a sentence as harmless data: one line, without secrets if it is said."""

from __future__ import annotations

from typing import Final

from callosum.characters import with_hidden
from callosum.redact.redactor import redact_text

_QUOTES: Final = frozenset('"“”„‟«»\uff02″❝❞')
_LIMIT: Final = 300
_MARGIN: Final = 256
"""Characters at the end of the examined text that are dropped: a secret cut there may have lost its shape."""


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


def _visible(text: str) -> str:
    """Return ``text`` without invisible characters: between the letters of a secret they would hide it."""
    return with_hidden(text, lambda char: char if char.isspace() else "")


def _seen(text: str) -> str:
    text = with_hidden(text, lambda char: " " if char.isspace() else "")
    return "".join(["'" if char in _QUOTES else char for char in text])


def said(what: str | BaseException, limit: int = _LIMIT) -> str:
    """Return a text, or an error's message (its type if it has none), in at most ``limit`` characters.

    The result is one line as ``quote`` makes it, without the quotes, secrets redacted. Only the beginning of a long
    text is examined. An error whose ``str`` fails is shown by its type.
    """
    text = what if isinstance(what, str) else _of(what)
    window = text[: 8 * limit + _MARGIN]
    shown = redact_text(_visible(window))
    if len(window) < len(text):
        shown = shown[:-_MARGIN] + "…"
    return quote(shown, limit)[1:-1]


def _of(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - str() of a foreign error may fail too
        return type(error).__name__
