"""The conditions of ``shapes.toml`` that a match must meet to be a secret. Some are patterns there, others are here."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final

from callosum.redact.randomness import holds_word, looks_random
from callosum.redact.secret_names import NAME_LIMIT, Concealment, cover
from callosum.redact.shape_table import TABLE, compile_linear, expand, words

Condition = Callable[[Any, bytes], bool]
"""Return True if a match, whose secret without quotes is given, meets the condition."""

_STRING_KINDS: Final = b"@$bBeEfFLNrRuU"
"""Letters before a quote that make another kind of string: ``N'X'`` in SQL, ``b"X"`` in Python."""
_OPENING: Final = re.compile(rb"""(?:[@$bBeEfFLNrRuU]{1,2})?\\{0,3}["']""")
_DIGIT: Final = re.compile(rb"[0-9]")
_FEWEST_DIGITS: Final = 3
"""Fewest different digits in the number of a card: a row of zeros is an example."""
_DRIVE: Final = (28, 33, 44)
"""Lengths of document identifiers, which begin with 1 or 0."""
_DATA: Final = (b"iVBORw0KGgo", b"AAMk", b"JVBERi0")
"""Beginnings of pictures, documents and mail identifiers in base64."""
_SHORTEST_TAIL: Final = 20
_SHORTEST_PLAIN_TAIL: Final = 30
"""Shortest tail in one case, such as hexadecimal digits, after a prefix that does not say what it is."""
_THINGS: Final = words("things")
_PARTS: Final = re.compile(r"[_-]")
_TELLING: Final = re.compile(rb"(?:api|sdk|pat|key|tok|tkn|token|sk|secret|live|prod|auth|cred)[0-9]{0,2}[_.-]")
_RUN: Final = re.compile(expand(TABLE.clues["run"]).encode())


def _opening_of(value: bytes) -> bytes:
    """Return the quote that a value begins with, if any, with the letters and backslashes before it."""
    found = _OPENING.match(value)
    return found[0] if found else b""


def _closing_of(opening: bytes) -> bytes:
    """Return the quote that ends a value with this beginning."""
    return opening.lstrip(_STRING_KINDS)


def bare(value: bytes) -> bytes:
    """Return a value without its quotes."""
    opening = _opening_of(value)
    return value[len(opening) :].removesuffix(_closing_of(opening))


def quoted(value: bytes, mark: Callable[[bytes], bytes]) -> bytes:
    """Return the mark of a value, in the quotes that the value had."""
    opening = _opening_of(value)
    closing = _closing_of(opening)
    closed = bool(closing) and len(value) > len(opening) and value.endswith(closing)
    return opening + mark(bare(value)) + (closing if closed else b"")


def _cover_of(name: bytes) -> Concealment:
    """Return how much to hide under a name in a text."""
    return cover(name[-NAME_LIMIT:].decode("ascii", "replace"))


def is_secret(name: bytes, value: bytes) -> bool:
    """Return True if a value without quotes reveals something under a name."""
    hide = _cover_of(name)
    if not value or hide is Concealment.NOTHING or (hide is Concealment.STRINGS and value.isdigit()):
        return False
    if hide is Concealment.RANDOM:
        return looks_random(value)
    return not (condition("word")(None, value) or condition("variable")(None, value))


def _random_word(_match: Any, word: bytes) -> bool:
    """Return True for a long word of letters in both cases and digits, in which no part reads like a word."""
    if word in (word.lower(), word.upper()) or len(_DIGIT.findall(word)) < max(2, len(word) // 16):
        return False
    if not looks_random(word) or word.startswith(_DATA):
        return False
    return not any(part[:1] in b"10" and len(part) in _DRIVE for part in word.split(b"/"))


def _random_tail(match: Any, _word: bytes) -> bool:
    """Return True for a prefix and a long tail that looks random, unless the prefix says that this is an identifier."""
    prefix, tail = match.group(b"prefix"), match.group(b"tail")
    if _TELLING.search(prefix.lower()):
        return (len(_DIGIT.findall(tail)) > 1 and not holds_word(tail)) or looks_random(tail)
    if not _THINGS.isdisjoint(_PARTS.split(prefix.decode().lower())) or not looks_random(tail):
        return False
    mixed = tail != tail.lower() and tail != tail.upper()
    return len(tail) >= (_SHORTEST_TAIL if mixed else _SHORTEST_PLAIN_TAIL) and (mixed or prefix[-1:] == b"_")


def _random_pair(match: Any, _word: bytes) -> bool:
    """Return True for two random words joined by a dot: an identifier and its secret."""
    rest = match.group(b"rest")
    return _RUN.search(rest) is not None and all(map(looks_random, rest.split(b".")))


def _card(_match: Any, number: bytes) -> bool:
    """Return True for the number of a payment card: its last digit checks the others (ISO/IEC 7812)."""
    digits = [int(digit) for digit in number.decode() if digit.isdigit()]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[-2::-2]]
    return len(set(digits)) >= _FEWEST_DIGITS and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


@cache
def _public_search() -> Any:
    return compile_linear("|".join([f"(?:{expand(row.pattern)})" for row in TABLE.rows["public"]]))


@lru_cache(maxsize=1)
def _public_in(text: bytes) -> list[tuple[int, int]]:
    """Return where the hashes, public keys and identifiers of a text begin and end, in ascending order."""
    return [found.span() for found in _public_search().finditer(text)]


def _public(match: Any, _value: bytes) -> bool:
    """Return True if a match touches a hash, a public key or an identifier."""
    spans = _public_in(match.string)
    at = bisect_right(spans, (match.end() - 1, 1 << 62)) - 1
    return at >= 0 and spans[at][1] > match.start()


_CONDITIONS: Final[dict[str, Condition]] = {
    "named": lambda match, value: is_secret(match.group(b"name"), value),
    "named as a whole": lambda match, _: _cover_of(match.group(b"name")) is Concealment.ALL,
    "public": _public,
    "random": lambda _, value: looks_random(value),
    "random name": lambda match, value: _cover_of(match.group(b"name")) is Concealment.RANDOM and looks_random(value),
    "random or digits": lambda _, value: looks_random(value) or len(_DIGIT.findall(value)) > 1,
    "random rest": lambda match, _: looks_random(match.group(b"tail").strip(b":_./+~=-")),
    "random word": _random_word,
    "random tail": _random_tail,
    "random pair": _random_pair,
    "card": _card,
    "count": lambda match, value: value.isdigit() and b"token" in match.group().lower(),
}


@cache
def condition(name: str) -> Condition:
    """Return the condition of a row by its name. Raises ``ValueError`` for one that does not exist."""
    if name.startswith("not "):
        positive = condition(name.removeprefix("not "))
        return lambda match, value: not positive(match, value)
    if name in _CONDITIONS:
        return _CONDITIONS[name]
    if name not in TABLE.conditions:
        known = ", ".join(sorted({*_CONDITIONS, *TABLE.conditions}))
        raise ValueError(f"shapes.toml: when: expected conditions out of {known}, got {name!r}")
    search = re.compile(expand(TABLE.conditions[name]).encode()).search
    return lambda _, value: search(value) is not None
