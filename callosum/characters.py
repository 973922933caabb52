r"""Characters that nobody sees, that turn the direction of a text, or that a terminal obeys: one list for all.

``tokens`` says about how many tokens of a model a text is.

The list holds Unicode's categories Cc, Cf, Cs, Co, Zl and Zp, its property Default_Ignorable_Code_Point, and what
shows as nothing although it is a letter or a symbol there (U+2800). A test compares it with ``unicodedata``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

HIDDEN: Final = (
    r"\x00-\x1f\x7f-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    r"\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0f\ufeff"
    r"\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # as they are, since JSON
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"  # Schema knows no escape for them
)
"""The list, as the inside of a character class of Python and of JSON Schema."""
SIXTHS: Final = 6
"""``measure`` counts in so many parts of a token."""
_HIDDEN: Final = re.compile(f"[{HIDDEN}]")


def is_shown(text: str) -> bool:
    """Return whether every character of ``text`` is one that a reader sees as it is."""
    if text.isascii():
        return text.isprintable()
    return _HIDDEN.search(text) is None


def with_hidden(text: str, shown: Callable[[str], str]) -> str:
    """Return ``text`` with what ``shown`` returns in place of hidden and unassigned characters and odd blanks."""
    text = _HIDDEN.sub(lambda match: shown(match[0]), text)
    return text if text.isprintable() else "".join([char if char.isprintable() else shown(char) for char in text])


def without_hidden(text: str, *, keep: str = "") -> str:
    """Return ``text`` without hidden characters, except those in ``keep``."""
    return _HIDDEN.sub(lambda match: match[0] if match[0] in keep else "", text)


def escaped(text: str) -> str:
    r"""Return ``text`` with each hidden character as JSON writes it: ``\u202e``, beyond the first plane as two."""
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def tokens(text: str) -> int:
    """Return about how many tokens a text is, rather too many than too few.

    An estimate without any model's vocabulary: a token for three ASCII characters, or for two bytes of
    anything else. English prose has four characters a token or more; paths, ids and numbers about three; other
    scripts one to two tokens a character.
    """
    return -(-measure(text) // SIXTHS)


def measure(text: str) -> int:
    """Return the same in sixths of a token, which add up exactly: of two texts, of the lines of one."""
    size = len(text.encode("utf-8", "replace"))
    plain = size if size == len(text) else len(text.encode("ascii", "ignore"))
    return 2 * plain + 3 * (size - plain)
