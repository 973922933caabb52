"""Foreign text in Markdown, shown literally and without effect."""

from __future__ import annotations

import re
from typing import Final

from callosum.redact import quote, redact_text

_TICKS: Final = re.compile("`+")


def code(text: str, limit: int = 80) -> str:
    """Return ``text`` as a code span: one line of at most ``limit`` characters, secrets redacted.

    No part of it acts as Markdown or HTML, and it cannot end the span, because the span's delimiters are longer than
    any run of backticks in it. Control, direction and invisible characters are removed.
    """
    shown = quote(redact_text(text[: 16 * limit]), limit)[1:-1] or "(nothing)"
    ticks = "`" * (1 + max((len(run) for run in _TICKS.findall(shown)), default=0))
    room = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{ticks}{room}{shown}{room}{ticks}"


def times(count: int) -> str:
    """Return how often, in words: ``once``, ``3 times``."""
    return "once" if count == 1 else f"{count:,} times"


def many(count: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 call``, ``1,200 calls``."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"
