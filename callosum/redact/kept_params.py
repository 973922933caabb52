"""The form of a call's params that the journal keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from callosum.redact.randomness import looks_random
from callosum.redact.redactor import MARKER, REDACTOR, SHORT, is_plain, marker
from callosum.redact.secret_names import (
    NAME_LIMIT,
    PAIR_VALUES,
    Concealment,
    cover,
    cover_of_pair,
    is_secret_pair,
    names_secret,
)

_MARGIN: Final = 256
"""Characters at the end of an examined text that are dropped: a secret cut there may have lost its shape."""


class _Limits(NamedTuple):
    """How much is kept: characters of a string, items of a container, levels; values and characters in total."""

    text: int
    items: int
    depth: int
    values: int
    characters: int


_NO_LIMIT: Final = 1 << 62
_TEXT: Final = 200
_SUMMARY: Final = _Limits(text=_TEXT, items=30, depth=6, values=400, characters=16_384)
_FULL: Final = _Limits(_NO_LIMIT, items=1_000_000, depth=64, values=1_000_000, characters=_NO_LIMIT)
_NUMBERS: Final = (-(2**63), 2**64 - 1)
"""Range of whole numbers; most JSON readers cannot represent others."""


def summarise(params: Mapping[str, Any], *, mode: Literal["summary", "full", "none"] = "summary") -> Any:
    """Return what the journal keeps of ``params``: plain JSON values, secrets redacted.

    ``summary`` cuts strings at 200 characters, and long or deep structures, each with a count of what there was;
    ``full`` keeps everything up to a million values; ``none`` returns None. No input makes it raise: bytes become their
    count, an object that JSON cannot represent the name of its type, a container inside itself ``<cycle>``.
    """
    if mode == "none":
        return None
    if mode == "full":
        return _Walk(_FULL).of(params, Concealment.NOTHING, 0)
    texts: list[str] = []
    try:  # harmless strings, numbers and small containers, which nearly all params are, are copied
        summary = _copy(params, texts, _SUMMARY.depth)
    except _Hard:
        return _Walk(_SUMMARY).of(params, Concealment.NOTHING, 0)
    # One container without others is never too long.
    too_long = texts[_SUMMARY.items + 1 :] and sum(map(len, texts)) + len(texts) > _SUMMARY.characters
    return summary if not too_long and is_plain(*texts) else _Walk(_SUMMARY).of(params, Concealment.NOTHING, 0)


def secrets_in(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the secrets that a summary of ``params`` would hide, longest first.

    Only the beginning of a long text is examined.
    """
    walk = _Walk(_SUMMARY)
    walk.of(params, Concealment.NOTHING, 0)
    return tuple(sorted(walk.hidden, key=len, reverse=True))


class _Hard(Exception):
    """Something must be redacted, left out or named."""


def _copy(value: Any, texts: list[str], depth: int) -> Any:
    """Copy ``value``, collecting its strings; other values add an empty string, because their number counts."""
    kind = type(value)
    if kind is str:
        if len(value) > _TEXT:
            texts.append(value[:SHORT])
            return f"{value[:_TEXT]}… ({len(value)} characters)"
        texts.append(value)
        return value
    if kind is dict or kind is list:
        if len(value) > _SUMMARY.items or texts[_SUMMARY.values :] or not depth:
            raise _Hard
        if kind is list:
            if any(map(names_secret, value)) or is_secret_pair(value):
                raise _Hard
            texts.append("")
            return [_copy(item, texts, depth - 1) for item in value]
        if not _HARMLESS.issuperset(value):
            _learn(value)
        if (kinds := {*map(type, items := value.values())}) <= _FLAT:
            said = ["", *(items if kinds == _TEXTS else [item if type(item) is str else "" for item in items])]
            if max(map(len, said)) <= _TEXT:
                texts += said
                return {**value}
        texts.append("")
        return {name: _copy(item, texts, depth - 1) for name, item in value.items()}
    texts.append("")
    if value is None or kind is bool or ((kind is int or kind is float) and -1e15 < value < 1e15):
        return value
    raise _Hard


_FLAT: Final = {str, bool, type(None)}
_TEXTS: Final = {str}
_HARMLESS: Final[set[str]] = set()
"""Names met so far that do not announce a secret. Bounded."""


def _learn(names: Mapping[Any, Any]) -> None:
    """Add names to the harmless ones. Raise ``_Hard`` if a value under one of them must be hidden."""
    if len(_HARMLESS) > 4096:
        _HARMLESS.clear()
    if not PAIR_VALUES.isdisjoint(names) and cover_of_pair(names.items()):
        raise _Hard
    for name, value in names.items():
        if name in PAIR_VALUES or name in _HARMLESS:
            continue
        if type(name) is not str or len(name) > NAME_LIMIT or not is_plain(name):
            raise _Hard
        hide = cover(name)
        if hide is Concealment.NOTHING:
            _HARMLESS.add(name)
        elif hide is not Concealment.RANDOM or type(value) is not str or _looks_random(value):
            raise _Hard


class _Walk:
    """One traversal of one structure, within ``limits``."""

    def __init__(self, limits: _Limits) -> None:
        self.limits = limits
        self.left = limits.values
        self.characters = limits.characters
        self.path: set[int] = set()
        self.hidden: dict[str, None] = {}
        """The secrets found so far."""

    def of(self, value: Any, hide: Concealment, depth: int) -> Any:
        """Return ``value`` as plain JSON; ``hide`` is how much the names above it hide."""
        self.left -= 1
        if value is None or isinstance(value, bool):
            return value
        if hide is Concealment.ALL and not _is_empty(value):
            self.hide(value)
            return MARKER
        if isinstance(value, str):
            if value and (hide > Concealment.RANDOM or (hide and _looks_random(value))):
                self.hide(value)
                return MARKER
            return self.text(str.__str__(value))
        if isinstance(value, int):
            return _whole_number(int.__int__(value))
        if isinstance(value, float):
            number = float.__float__(value)
            return number if math.isfinite(number) else str(number)
        if isinstance(value, bytes | bytearray | memoryview):
            return MARKER if hide > Concealment.RANDOM and len(value) else f"<{len(value)} bytes>"
        if isinstance(value, Mapping | list | tuple | AbstractSet):
            return self.container(value, hide, depth)
        return self.text(f"<{type(value).__name__}>")

    def hide(self, value: Any) -> None:
        """Record the secrets in a value that is hidden as a whole."""
        if isinstance(value, str):
            self.hidden[str.__str__(value)] = None
        elif isinstance(value, int) and not isinstance(value, bool):
            self.hidden[str(_whole_number(int.__int__(value)))] = None
        elif isinstance(value, list | tuple | dict):
            for inner in islice(value.values() if isinstance(value, dict) else value, self.limits.items):
                if isinstance(inner, str | int):
                    self.hide(inner)

    def mark(self, secret: bytes) -> bytes:
        """Record a secret in a text; return its replacement."""
        self.hidden[secret.decode("utf-8", "replace")] = None
        return marker(secret)

    def container(self, value: Any, hide: Concealment, depth: int) -> Any:
        """Enter a container, unless it is already being traversed or no room is left."""
        if id(value) in self.path:
            return "<cycle>"
        mapping = isinstance(value, Mapping)
        try:
            count = len(value)
            items = list(islice(value.items() if mapping else value, self.limits.items))
        except Exception:  # noqa: BLE001  a container of the caller's own may do anything
            return self.text(f"<{type(value).__name__}>")
        if count and (depth >= self.limits.depth or self.left <= 0):
            return f"{'{…}' if mapping else '[…]'} ({count} {'item' if count == 1 else 'items'})"
        self.path.add(id(value))
        result = self.mapping(items, count, hide, depth) if mapping else self.array(items, count, hide, depth)
        self.path.discard(id(value))
        return result

    def mapping(self, items: Sequence[tuple[Any, Any]], count: int, hide: Concealment, depth: int) -> Any:
        """Keep the items of a mapping under names that JSON can represent."""
        result: dict[str, Any] = {}
        named = cover_of_pair(items)
        done = 0
        for name, value in items:
            if self.left <= 0:
                break
            below = max(hide, _cover_of(name), named if name in PAIR_VALUES else Concealment.NOTHING)
            result[self.name(name)] = self.of(value, below, depth + 1)
            done += 1
        if count > done:
            result["…"] = f"({count - done} more)"
        return result

    def array(self, items: Sequence[Any], count: int, hide: Concealment, depth: int) -> list[Any]:
        """Keep the items of any other container."""
        result: list[Any] = []
        follows = is_secret_pair(items)
        first = follows
        for item in items:
            if self.left <= 0:
                break
            result.append(self.of(item, max(hide, Concealment.STRINGS) if follows and not first else hide, depth + 1))
            follows = first or names_secret(item)
            first = False
        if count > len(result):
            result.append(f"… ({count - len(result)} more)")
        return result

    def name(self, name: Any) -> str:
        """Return the key of a mapping as text."""
        if isinstance(name, str):
            return self.text(str.__str__(name))
        if name is None or isinstance(name, bool | float):
            return str(name)
        return str(_whole_number(name)) if isinstance(name, int) else f"<{type(name).__name__}>"

    def text(self, text: str) -> str:
        """Redact and cut one string. Of a long one, only the part that can be shown is examined."""
        limit = self.limits.text if self.characters > 0 else 0
        window = text[: limit + 4 * _MARGIN] if limit else ""
        self.characters -= len(window)
        if len(text) <= limit:
            return REDACTOR.redact(text, self.mark)
        shown = REDACTOR.redact(window, self.mark)
        if len(window) < len(text):
            shown = shown[:-_MARGIN]
        return f"{shown[:limit]}… ({len(text)} characters)"


def _looks_random(text: str) -> bool:
    return looks_random(text[:_TEXT].strip().encode("utf-8", "replace"))


def _cover_of(name: Any) -> Concealment:
    return cover(name) if isinstance(name, str) else Concealment.NOTHING


def _is_empty(value: Any) -> bool:
    return isinstance(value, str | bytes | list | tuple | dict) and not value


def _whole_number(value: int) -> int | str:
    low, high = _NUMBERS
    return value if low <= value <= high else f"<integer of {value.bit_length()} bits>"
