"""Read JSON of a call that a strict parser refuses, so that the call is judged and not waved through.

A lone surrogate, bytes that are not UTF-8, a number too large for a float and a value nested too deeply become texts;
different input becomes different text. An object that has a name twice has one reading for each value, and the rules
judge all of them. This module imports only from the standard library, because a hook process starts with it.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

UNREAD: Final = "callosum:unread"
"""Name of the param that says what of a call was not read; callosum/budget.py has its form."""
READINGS: Final = "callosum:readings"
"""Name of the param of a call that was no clean JSON: a list of its other readings, ``[tool, params]``.

Such a call runs as it was written: it is never merged, and no standing approval lifts it.
"""
MAX_DEPTH: Final = 200
"""Number of containers in one another that are read."""
MAX_READINGS: Final = 8
"""Number of values of one name that are read."""

_LONE: Final = re.compile("[\ud800-\udfff]")
_BRACKETS: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_DIGITS: Final = 18
"""Digits of a whole number that every program reads alike."""


def repaired(text: str) -> str:
    """Return the text with each lone surrogate as U+FFFD and its number, so that different texts stay different."""
    return _LONE.sub(lambda lone: f"\ufffd{ord(lone[0]):x}", text)


def readings(body: bytes) -> tuple[list[Any], frozenset[str], bool]:
    """Return all that a body may mean, as a parser that takes the last of several values does first.

    Also returns the names that the outermost object has twice, and whether all was read. Raises ``ValueError`` for a
    body that is not JSON.
    """
    text, whole = _shallow(body.decode("utf-8", "surrogateescape"))
    twice, most = frozenset[str](), 1

    def reading(at: int) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
        def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            nonlocal twice, most
            values: dict[str, list[Any]] = {}
            for name, value in pairs:
                values.setdefault(repaired(name), []).append(value)
            twice = frozenset(name for name, found in values.items() if len(found) > 1)
            most = max([most, *map(len, values.values())])
            return {name: found[max(0, len(found) - 1 - at)] for name, found in values.items()}

        return members

    found: list[Any] = []
    while len(found) < min(most, MAX_READINGS):
        value = json.loads(
            text,
            object_pairs_hook=reading(len(found)),
            parse_constant=str,
            parse_int=lambda digits: int(digits) if len(digits) <= _DIGITS else digits,
            parse_float=lambda digits: number if abs(number := float(digits)) < float("inf") else digits,
        )
        found.append(without_surrogates(value))
    return found, twice, whole and most <= MAX_READINGS


def with_readings(
    call: dict[str, Any], others: list[dict[str, Any]], tool: str, params: str, *, whole: bool
) -> dict[str, Any]:
    """Return the call with its other readings, and a marker if not all was read, in the field ``params``."""
    given = call.get(params)
    if not isinstance(given, dict):
        return call
    marks: dict[str, Any] = {READINGS: [[one.get(tool), one.get(params)] for one in others]}
    if not whole:
        marks[UNREAD] = {"in": [], "digest": _digest(json.dumps(given).encode())}
    return {**call, params: {**given, **marks}}


def _digest(content: bytes) -> str:
    from hashlib import blake2b  # noqa: PLC0415 - a hook process rarely needs it

    return blake2b(content, digest_size=16).hexdigest()


def _shallow(text: str) -> tuple[str, bool]:
    """Return JSON text with what is nested too deeply replaced by a digest, and whether nothing was."""
    pieces, last, depth = [], 0, 0
    for match in _BRACKETS.finditer(text) if max(text.count("["), text.count("{")) > MAX_DEPTH // 2 else ():
        if match[0] in "[{":
            depth += 1
            if depth == MAX_DEPTH + 1:
                pieces.append(text[last : match.start()])
                last = match.start()
        elif match[0] in "]}":
            if depth == MAX_DEPTH + 1:
                digest = _digest(text[last : match.end()].encode("utf-8", "surrogateescape"))
                pieces.append(f'"(nested too deeply: {digest})"')
                last = match.end()
            depth -= 1
    return "".join([*pieces, text[last:]]) if pieces else text, not pieces


def call_in(payload: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the tool and the params that the payload of a hook names."""
    tool, params = payload.get("tool_name"), payload.get("tool_input")
    return tool if isinstance(tool, str) else "", params if isinstance(params, dict) else {}


def without_surrogates(value: Any) -> Any:
    """Return a value of JSON in which all texts are ``repaired``."""
    if isinstance(value, str):
        return repaired(value)
    if isinstance(value, list):
        return [without_surrogates(one) for one in value]
    if isinstance(value, dict):
        return {name: without_surrogates(one) for name, one in value.items()}
    return value
