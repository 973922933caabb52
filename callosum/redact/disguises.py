"""Remove characters that hide a secret from a search but not from its user."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from callosum.characters import without_hidden

UNDISGUISED: Final = bytes(range(0x20, 0x7F)) + "\t\n\r…".encode()
"""Bytes of characters that disguise nothing: visible ASCII, blanks, breaks, an ellipsis. Such texts need no more."""


_WORD: Final = re.compile(r"\w+")
_LETTER: Final = re.compile(r"[A-Za-z]")
_ALIKE: Final = str.maketrans(
    "аеорсхуіѕјԁһԛԝАЕОРСХУІКЅЈМТВНαορνικΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "aeopcxyisjdhqwAEOPCXYIKSJMTBHaopvikABEZHIKMNOPTYX"
)
"""Cyrillic and Greek letters that look like Latin ones."""


def undisguised(text: str) -> str:
    """Return ``text`` without invisible characters, with full-width letters and look-alikes in Latin words as ASCII.

    Tabs and line breaks stay. A text without a disguise is returned as the same object.
    """
    if text.isascii() and not text.encode().translate(None, UNDISGUISED):
        return text
    bare = without_hidden(text, keep="\t\n\r")
    return bare if bare.isascii() else _WORD.sub(_latin, unicodedata.normalize("NFKC", bare))


def _latin(word: re.Match[str]) -> str:
    latin = word[0].translate(_ALIKE)
    return latin if latin.isascii() and _LETTER.search(word[0]) else word[0]
