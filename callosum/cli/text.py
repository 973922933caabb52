"""Make text from elsewhere safe for a terminal.

Names, keys and params come from agents. On a screen they must not move the cursor, colour, hide or reorder anything:
control characters, direction changes and invisible characters are removed, and one line is kept.
"""

from __future__ import annotations

import re
from typing import Any, Final

_PLAIN: Final = re.compile(r"[ -~]*\Z")
"""Matches text that needs no change."""


def clean(text: str, limit: int = 80) -> str:
    """Return ``text`` as one safe line of at most ``limit`` characters, cut with an ellipsis."""
    if len(text) <= limit and _PLAIN.match(text):
        return text.strip()
    from callosum.redact import quote

    return quote(text, limit)[1:-1]


def harmless(value: Any) -> Any:
    """Return a JSON value with every text in it cleaned, including names of members."""
    if isinstance(value, str):
        return clean(value, 500)
    if isinstance(value, dict):
        return {clean(str(name), 200): harmless(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [harmless(inner) for inner in value]
    return value
