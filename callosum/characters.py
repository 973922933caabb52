r"""Characters that are invisible, change the direction of a text or control a terminal, in one list for all modules.

``tokens`` estimates how many tokens of a model a text takes.

The list holds Unicode's categories Cc, Cf, Cs, Co, Zl and Zp, its property Default_Ignorable_Code_Point, the
noncharacters of the first plane, and letters and symbols that are displayed as nothing (U+2800) or stand for any object
(U+FFFC). A test compares it with ``unicodedata``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

HIDDEN: Final = (
    r"\x00-\x1f\x7f-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    r"\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0f\ufeff"
    r"\uffa0\ufdd0-\ufdef\ufff0-\ufffc\ufffe\uffff"
    "\U00016fe4\U0001d159"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # unescaped, since JSON
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"  # Schema has no escape for them
)
"""The list, as the inside of a character class of Python and of JSON Schema."""
SIXTHS: Final = 6
"""Number of parts of a token in which ``measure`` counts."""
_HIDDEN: Final = re.compile(f"[{HIDDEN}]")


def is_shown(text: str) -> bool:
    """Return True if every character of ``text`` is displayed as it is."""
    if text.isascii():
        return text.isprintable()
    return _HIDDEN.search(text) is None


def with_hidden(text: str, shown: Callable[[str], str]) -> str:
    """Return ``text`` with hidden and unassigned characters and unusual blanks replaced by what ``shown`` returns."""
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
    """Return the approximate number of tokens of a text, rather too many than too few.

    This is an estimate without any model's vocabulary: a token for three ASCII characters, or for two bytes of
    anything else. English prose has four characters a token or more; paths, ids and numbers about three; other
    scripts one to two tokens a character.
    """
    return -(-measure(text) // SIXTHS)


def measure(text: str) -> int:
    """Return the estimate in sixths of a token. They add up exactly over two texts, or over the lines of one."""
    size = len(text.encode("utf-8", "replace"))
    plain = size if size == len(text) else len(text.encode("ascii", "ignore"))
    return 2 * plain + 3 * (size - plain)
