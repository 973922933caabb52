"""Arguments that hold the arguments: ``{"params": {...}}``, JSON in a string, a GraphQL document.

Some tools have one argument for everything, or are there to call other tools. What is looked for
by name lies a level deeper there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

MAX_TEXT: Final = 16_384
"""How many characters of JSON in a string are parsed; longer ones stay text."""
MAX_INNER: Final = 256
WRAPPERS: Final = frozenset(
    "params parameters args arguments kwargs input inputs request payload body data options tool_args toolArgs "
    "tool_input toolInput tool_arguments toolArguments arguments_json argumentsJson params_json".split()
)
_MOST: Final = 4
"""A wrapper has few neighbours; among many, it is an argument like the others."""

_DOCUMENTS: Final = ("query", "mutation", "document", "graphql", "operation")
_DOCUMENTED: Final = frozenset(_DOCUMENTS)
_OPERATION: Final = re.compile(
    r"\s*(query|mutation|subscription)\b\s*[A-Za-z_0-9]{0,128}\s*(?:\([^)]{0,2048}\)\s*)?\{\s*"
    r"(?:[A-Za-z_0-9]{1,128}\s*:\s*)?([A-Za-z_0-9]{1,128})"
)


def unwrap(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the params with those that a wrapper among them holds; their own names come first."""
    for _ in range(2):
        if WRAPPERS.isdisjoint(params) or len(params) > _MOST:
            return params
        for name, value in params.items():
            if name in WRAPPERS and (inner := _object(value)):
                rest = {other: one for other, one in params.items() if other != name}
                params = {**dict(islice(inner.items(), MAX_INNER)), **rest}
                break
        else:
            return params
    return params


def _object(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, str) and value[:1] == "{" and len(value) <= MAX_TEXT:
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
    return value if isinstance(value, Mapping) and all(type(name) is str for name in islice(value, MAX_INNER)) else None


class Operation(NamedTuple):
    """A GraphQL operation: ``query``, ``mutation`` or ``subscription``, and its first field."""

    kind: str
    field: str


def graphql(params: Mapping[str, Any]) -> Operation | None:
    """Returns the operation of a GraphQL document among the params, None where there is none."""
    if _DOCUMENTED.isdisjoint(params):
        return None
    for name in _DOCUMENTS:
        value = params.get(name)
        if type(value) is str and "{" in value[:4096] and (match := _OPERATION.match(value[:4096])):
            return Operation(match.group(1), match.group(2))
    return None
