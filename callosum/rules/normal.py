"""A call in one spelling: equal bytes for calls of one tool that say the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from callosum.rules import lexicon as lex

MAX_TEXT: Final = 16_384
"""How many characters are taken of the text of an object that JSON does not know."""
MAX_NODES: Final = 20_000
"""How many lists, objects and what is in them are put into one spelling; the rest counts as it came."""
MAX_DEPTH: Final = 40
"""How many levels of lists and objects are told apart. A limit of its own: Python's depends on who calls."""
_WIDEST: Final = 1_000_000
"""How many lists and objects of one level are looked at for how deep they go; more count as too deep."""

_FEW: Final = 64
_TEXTS: Final = {str}
_strip: Final = str.strip


def said(names: Iterable[Any]) -> bool:
    """Return True if all params of these names say what a call does: none is about the attempt or for the gate."""
    given = set(names)
    if set(map(type, given)) - _TEXTS or "" in given or not _BESIDES.isdisjoint(given):
        return False
    return "\0_" not in "\0" + "\0".join(given)  # in one go: there may be a great many


def encode(tool: str, params: Mapping[str, Any], *, whole: bool = False) -> bytes:
    """Return the normalised call as bytes, whatever the params hold. Never raises. ``whole``: as ``said`` tells."""
    try:
        flat: dict[str, Any] = {}
        if not whole:
            left_out = _BESIDES if "command" in params else lex.ATTEMPT_PARAMS
            params = {name: item for name, item in params.items() if name[0] != "_" and name not in left_out}
        for name, value in params.items():
            if value is None:
                continue
            kind = type(value)
            if kind is str:
                flat[name] = value.strip()
            elif kind is int or kind is bool:
                flat[name] = value
            elif kind is list and len(value) <= _FEW and set(map(type, value)) == _TEXTS:
                flat[name] = list(map(_strip, value))
            else:
                flat[name] = _normal(value)
        return _encode((tool, flat))
    except (TypeError, ValueError, LookupError, OverflowError, RecursionError, AttributeError):
        return _slow(tool, params)


def _normal(value: Any) -> Any:
    """Return a nested value without nulls and without differences that mean nothing."""
    left = MAX_NODES

    def walk(value: Any, depth: int) -> Any:
        nonlocal left
        kind = type(value)
        if kind is str:
            return value.strip()
        if kind is int or kind is bool or value is None:
            return value
        if kind is float:
            return int(value) if value.is_integer() and abs(value) < 2**53 else value
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            if _deeper(value, MAX_DEPTH - depth):
                raise ValueError("nested too deep")
            return value  # as it came: still the same for the same bytes
        if kind is dict:
            left -= len(value)
            return {name: walk(held, depth + 1) for name, held in value.items() if held is not None}
        if kind is list or kind is tuple:
            left -= len(value)
            if left < 0:
                return walk(value, depth)
            return [walk(item, depth + 1) for item in value]
        return value

    return walk(value, 0)


def _deeper(value: Any, levels: int) -> bool:
    """Return True if lists and objects are nested deeper than so many levels, or are too many to tell."""
    layer = [value] if type(value) in _NESTED else []
    while layer and levels >= 0 and len(layer) < _WIDEST:
        levels -= 1
        layer = [
            inner
            for item in layer
            for inner in (item.values() if type(item) is dict else item)
            if type(inner) in _NESTED
        ]
    return bool(layer)


_NESTED: Final = frozenset((dict, list, tuple))


def _plain(value: Any) -> str:
    """Return text for an object that JSON does not know: never an address in memory."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if all(getattr(kind, method) is getattr(object, method) for method in ("__str__", "__repr__")):
        return name
    try:
        return f"{name}:{str(value)[:MAX_TEXT]}"
    except Exception:  # noqa: BLE001 - whatever a stranger's __str__ raises
        return name


_BESIDES: Final = lex.ATTEMPT_PARAMS | lex.COMMAND_NOTE_PARAMS
_encode: Callable[[Any], bytes] = msgspec.json.Encoder(order="deterministic", enc_hook=_plain).encode


def _slow(tool: str, params: Mapping[str, Any]) -> bytes:
    """Encode what the fast encoder refuses: lone surrogates, strange keys and types, great depth."""
    left = MAX_NODES

    def walk(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            return "..."
        if isinstance(value, str):
            return str.__str__(value).strip()
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return hex(value)
        if isinstance(value, float):
            return walk(int(value), depth) if value.is_integer() and abs(value) < 2**53 else repr(value)
        if isinstance(value, Mapping):
            return {
                str.__str__(name) if isinstance(name, str) else _plain(name): walk(held, depth + 1)
                for name, held in value.items()
                if held is not None
            }
        if isinstance(value, (list, tuple)):
            return [walk(item, depth + 1) for item in value]
        if isinstance(value, (set, frozenset)):
            return sorted(json.dumps(walk(item, depth + 1), sort_keys=True) for item in value)
        if isinstance(value, (bytes, bytearray)):
            return bytes(value).hex()
        return _plain(value)

    left_out = _BESIDES if "command" in params else lex.ATTEMPT_PARAMS
    kept = {
        name: value
        for name, value in params.items()
        if not (isinstance(name, str) and (name[:1] == "_" or name in left_out))
    }
    return json.dumps([tool, walk(kept, 0)], sort_keys=True, separators=(",", ":")).encode()
