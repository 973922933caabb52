"""Takes off what hides a secret from whoever looks for its shape, but not from whoever uses it."""

from __future__ import annotations

import unicodedata

from callosum.characters import without_hidden


def undisguised(text: str) -> str:
    """Return ``text`` without characters that nobody sees, and with full-width letters as ASCII.

    Tabs and line breaks stay. A text without a disguise is returned as the same object.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").replace("\r", "").isprintable():
        return text
    bare = without_hidden(text, keep="\t\n\r")
    return bare if bare.isascii() else unicodedata.normalize("NFKC", bare)
