"""Remove characters that hide a secret from a search but not from its user."""

from __future__ import annotations

import unicodedata

from callosum.characters import without_hidden


def undisguised(text: str) -> str:
    """Return ``text`` without invisible characters, and with full-width letters as ASCII.

    Tabs and line breaks stay. A text without a disguise is returned as the same object.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").replace("\r", "").isprintable():
        return text
    bare = without_hidden(text, keep="\t\n\r")
    return bare if bare.isascii() else unicodedata.normalize("NFKC", bare)
