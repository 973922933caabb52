"""Text from elsewhere, put into Markdown so that it shows as it is and does nothing."""

from __future__ import annotations

import re
from typing import Final

from callosum.redact import quote, redact_text

_TICKS: Final = re.compile("`+")


def code(text: str, limit: int = 80) -> str:
    """Returns ``text`` as a code span: one line of at most ``limit`` characters, secrets redacted.

    Nothing in it is Markdown or HTML to a reader, and it cannot end the span: the marks around it are longer
    than any in it. Controls, changes of direction and unseen characters are taken out.
    """
    shown = quote(redact_text(text[: 16 * limit]), limit)[1:-1] or "(nothing)"
    ticks = "`" * (1 + max((len(run) for run in _TICKS.findall(shown)), default=0))
    room = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{ticks}{room}{shown}{room}{ticks}"


def times(count: int) -> str:
    """How often, in words: ``once``, ``3 times``."""
    return "once" if count == 1 else f"{count:,} times"


def many(count: int, one: str, more: str = "") -> str:
    """A number with its noun: ``1 call``, ``1,200 calls``."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"
