"""Tell random text from written text."""

from __future__ import annotations

import re
from typing import Final

_SHORTEST: Final = 16
"""Bytes below which a text is not judged: a version or a date looks random."""
_LONGEST: Final = 256
"""Bytes that are examined."""
_TOKEN: Final = re.compile(rb"[A-Za-z0-9+/=_.~%!-]+")
_UUID: Final = re.compile(rb"[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}")
_PAIRS: Final = re.compile(rb"(?=[A-Za-z0-9]{2})")
_CHANGES: Final = re.compile(rb"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")
_WORDS: Final = re.compile(rb"[A-Za-z][a-z]+")
_LONGEST_WORD: Final = 11
"""Letters beyond which a run in one case is a word and not random, if it can be pronounced."""
_UNSPOKEN: Final = re.compile(rb"[bcdfghjklmnpqrstvwxz]{6}")
"""More consonants in a row than words have."""
_MIXED: Final = 0.36
_ONE_CASE: Final = 0.22
"""Least share of neighbours of different kinds (small, capital, digit). Random text has 0.62 in two cases, 0.4 in one.
"""


def holds_word(text: bytes) -> bool:
    """Return True if a part of ``text`` reads like a word."""
    return any(len(run) > _LONGEST_WORD and not _UNSPOKEN.search(run) for run in _WORDS.findall(text))


def looks_random(text: bytes) -> bool:
    """Return True if ``text`` is one random word of at least 16 characters. A UUID names a thing: False."""
    text = text[:_LONGEST]
    if len(text) < _SHORTEST or _TOKEN.fullmatch(text) is None or _UUID.fullmatch(text) is not None:
        return False
    pairs = len(_PAIRS.findall(text))
    if pairs < len(text) // 2 or holds_word(text):
        return False
    mixed = text != text.lower() and text != text.upper()
    return len(_CHANGES.findall(text)) >= (_MIXED if mixed else _ONE_CASE) * pairs
