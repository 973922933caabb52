"""Short ids of calls that wait for a person: four characters such as ``a7k2`` for the long number.

A short id is computed from the long one, so it never changes and is not stored. There are about 34,000 of them. If one
means two calls it is refused, and the error names both long ids.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from callosum.errors import ConfigError
from callosum.model import SECOND, Event, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from callosum.gate import LocalGate

LETTERS: Final = "abcdefghjkmnpqrstuvwxyz"
DIGITS: Final = "23456789"
"""Digits, beside letters, that cannot be mistaken for one another."""
_PAIR: Final = len(LETTERS) * len(DIGITS)
_SHORT: Final = re.compile(f"(?:[{LETTERS}][{DIGITS}]){{2}}", re.IGNORECASE)
_MIX: Final = 0x9E3779B97F4A7C15
"""An odd number that spreads neighbouring ids over all short ids."""
_BACK: Final = 3600 * SECOND
"""Microseconds for which a block can be overridden, and for which the journal is searched for short ids."""


def short_of(id: int) -> str:
    """Return the short id of a call: letter, digit, letter, digit."""
    number = ((id * _MIX) % (1 << 64) >> 32) % (_PAIR * _PAIR)
    return "".join(LETTERS[pair // len(DIGITS)] + DIGITS[pair % len(DIGITS)] for pair in divmod(number, _PAIR))


def is_short(text: str) -> bool:
    """Return True if the text has the form of a short id."""
    return _SHORT.fullmatch(text) is not None


def read_id(text: str) -> str:
    """Return an id as it was typed, long or short. Raises ``ValueError`` if it is neither."""
    if is_short(text) or (text.isascii() and text.isdigit() and int(text) > 0):
        return text.lower()
    raise ValueError


def full_id(gate: LocalGate, typed: str, namespace: str) -> int:
    """Return the long id that ``typed`` means: itself, or the one call that is shown under this short id.

    Searches open, waiting and unknown actions, and calls that were asked or blocked within the last hour. Raises
    ``ConfigError`` if there is none or more than one.
    """
    if typed.isdigit():
        return int(typed)
    found = sorted({id for id in _shown(gate, namespace) if short_of(id) == typed})
    if not found:
        raise ConfigError("no call that waits has this short id; callosum status shows them", at=typed)
    if len(found) > 1:
        raise ConfigError(f"means {len(found)} calls: say {' or '.join(map(str, found))}", at=typed)
    return found[0]


def _shown(gate: LocalGate, namespace: str) -> Iterator[int]:
    status = gate.status(namespace=namespace)
    for holdings in (status.asked, status.unknown, status.locks, status.waiting):
        yield from (holding.id for holding in holdings)
    after = gate.store.now() - _BACK
    while page := gate.entries(after=after, namespace=namespace):
        after = page[-1].seq
        for entry in page:
            if entry.event is Event.INTERCEPT and entry.verdict in (Verdict.ASK, Verdict.BLOCK):
                yield entry.seq if entry.verdict is Verdict.BLOCK else entry.action or entry.seq
