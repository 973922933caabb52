"""Text from elsewhere made fit for a terminal.

Names, keys and params come from agents. On a screen they must not move the cursor, colour, hide or
reorder anything: controls, changes of direction and unseen characters are taken out, one line is kept.
"""

from __future__ import annotations

import re
from typing import Any, Final

from callosum.redact import quote

_PLAIN: Final = re.compile(r"[ -~]*\Z")
"""What stays as it is."""


def clean(text: str, limit: int = 80) -> str:
    """Return ``text`` as one harmless line of at most ``limit`` characters, cut with an ellipsis."""
    if len(text) <= limit and _PLAIN.match(text):
        return text.strip()
    return quote(text, limit)[1:-1]


def harmless(value: Any) -> Any:
    """Return a JSON value with every text in it cleaned, name of members too."""
    if isinstance(value, str):
        return clean(value, 500)
    if isinstance(value, dict):
        return {clean(str(name), 200): harmless(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [harmless(inner) for inner in value]
    return value
