"""Foreign text or an error as one harmless line without secrets."""

from __future__ import annotations

from typing import Final

from callosum.redact.quotes import quote, visible
from callosum.redact.secret_shapes import redact_text

_LIMIT: Final = 300
_MARGIN: Final = 256
"""Characters at the end of the examined text that are dropped: a secret cut there may have lost its shape."""


def said(what: str | BaseException, limit: int = _LIMIT) -> str:
    """Return a text, or an error's message (its type if it has none), in at most ``limit`` characters.

    The result is one line as ``quote`` makes it, without the quotes, secrets redacted. Only the beginning of a long
    text is examined. An error whose ``str`` fails is shown by its type.
    """
    text = what if isinstance(what, str) else _of(what)
    window = text[: 8 * limit + _MARGIN]
    shown = redact_text(visible(window))
    if len(window) < len(text):
        shown = shown[:-_MARGIN] + "…"
    return quote(shown, limit)[1:-1]


def _of(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - str() of a foreign error may fail too
        return type(error).__name__
