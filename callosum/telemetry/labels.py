"""Names and errors as labels. Sessions chose them, so they are treated as data.

A monitoring system keeps a series for every value that it ever saw, so the number of values of a label is limited.
"""

from __future__ import annotations

import re
import threading
from typing import Final

from callosum.model import MAX_NAME
from callosum.redact import quote

LIMIT: Final = 200
FEWER: Final = 50
"""Limit for a label that is combined with another one: a metric has a series for each pair."""
OTHER: Final = "other"

_CLASS: Final = re.compile(r"((?:[A-Za-z_]\w{0,40}\.){0,5}[A-Z][A-Za-z]{2,60})(?::|\Z)", re.ASCII)
_WORDS: Final = {
    "cancelled": "cancelled",
    "failed": "failed",
    "nobody knows how it ended": "unknown",
    "timeout": "timeout",
}


class LabelLimit:
    """Pass the first ``limit`` different names, each as one harmless line; any other becomes ``other``.

    May be called from several threads.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._known: dict[str, str] = {}
        self._guard = threading.RLock()

    def __call__(self, name: str | None) -> str:
        """Return the name, or ``other``; "" stays, and replaces None."""
        if not name:
            return ""
        label = self._known.get(name)
        if label is not None:
            return label
        with self._guard:
            if len(self._known) >= self._limit:
                return OTHER
            return self._known.setdefault(name, line(name))


def line(text: str) -> str:
    """Return the text as one line of at most ``MAX_NAME`` characters, without invisible ones."""
    if len(text) <= MAX_NAME and text.isascii() and text.isprintable():
        return text
    return quote(text, MAX_NAME)[1:-1]


def error_type(error: str) -> str:
    """Return the kind of an error as one word without content: a class (``TimeoutError``) if the text names one.

    Otherwise ``cancelled``, ``failed``, ``timeout``, ``unknown`` (the outcome is unknown) or ``_OTHER``.
    """
    match = _CLASS.match(error)
    if match:
        return match[1]
    return _WORDS.get(error.partition(":")[0].lower(), "_OTHER")
