"""What is done with names and errors before they leave: sessions chose them, so they are data.

A monitoring system keeps a series for every value that it ever saw. What becomes a label of a metric is
therefore one of few.
"""

from __future__ import annotations

import re
import threading
from typing import Final

from callosum.model import MAX_NAME
from callosum.redact import quote

LIMIT: Final = 200
FEWER: Final = 50
"""For what stands beside another label: a metric has a series for each pair."""
OTHER: Final = "other"

_CLASS: Final = re.compile(r"((?:[A-Za-z_]\w{0,40}\.){0,5}[A-Z][A-Za-z]{2,60})(?::|\Z)", re.ASCII)
_WORDS: Final = {
    "cancelled": "cancelled",
    "failed": "failed",
    "nobody knows how it ended": "unknown",
    "timeout": "timeout",
}


class LabelLimit:
    """Lets the first ``limit`` different names through, as one harmless line each; any other is ``other``.

    May be called from several threads.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._known: dict[str, str] = {}
        self._guard = threading.RLock()

    def __call__(self, name: str | None) -> str:
        """The name, or ``other``; "" stays, and stands for None too."""
        if not name:
            return ""
        known = self._known.get(name)
        if known is not None:
            return known
        with self._guard:
            if len(self._known) >= self._limit:
                return OTHER
            return self._known.setdefault(name, line(name))


def line(text: str) -> str:
    """The text as one line of at most ``MAX_NAME`` characters without any that are not seen."""
    if len(text) <= MAX_NAME and text.isascii() and text.isprintable():
        return text
    return quote(text, MAX_NAME)[1:-1]


def error_type(error: str) -> str:
    """What sort of error this is, in one word without content: a class (``TimeoutError``) where the text names one.

    Else ``cancelled``, ``failed``, ``timeout``, ``unknown`` (nobody knows how the call ended), ``_OTHER``.
    """
    found = _CLASS.match(error)
    if found:
        return found[1]
    return _WORDS.get(error.partition(":")[0].lower(), "_OTHER")
