"""Remove characters that hide a secret from a search but not from its user."""

from __future__ import annotations

import unicodedata
from typing import Final

from callosum.characters import without_hidden

UNDISGUISED: Final = bytes(range(0x20, 0x7F)) + b"\t\n\r"
"""Characters that disguise nothing: visible ASCII, blanks and breaks. A text of these alone needs no closer look."""


def undisguised(text: str) -> str:
    """Return ``text`` without invisible characters, and with full-width letters as ASCII.

    Tabs and line breaks stay. A text without a disguise is returned as the same object.
    """
    if text.isascii() and not text.encode().translate(None, UNDISGUISED):
        return text
    bare = without_hidden(text, keep="\t\n\r")
    return bare if bare.isascii() else unicodedata.normalize("NFKC", bare)
