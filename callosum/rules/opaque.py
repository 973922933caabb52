"""Arguments that hold the arguments: ``{"params": {...}}``, JSON in a string, a GraphQL document, a pipeline.

Some tools have one argument for everything, or are there to call other tools. What is looked for
by name lies a level deeper there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from callosum.rules import lexicon as lex
from callosum.rules.lexicon import lists

MAX_TEXT: Final = 16_384
"""How many characters of JSON in a string are parsed; longer ones stay text."""
MAX_INNER: Final = 256
_MOST: Final = 4
"""A wrapper has few neighbours; among many, it is an argument like the others."""

DOCUMENTED: Final = frozenset(lists.GRAPHQL_PARAMS)
_STARTS: Final = re.compile(
    r"(?:[\s,\ufeff]++|#[^\n]*+\n?)*+(?:(?:query|mutation|subscription)\b\s*+(?:[A-Za-z_]\w*+\s*+)?[({@]"
    r"|fragment\s++\w++\s++on\b|(\{)\s*+[A-Za-z_#.])"
)
"""How a GraphQL document begins; with a brace alone an object may begin as well."""
_TOKEN: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)|"(?:[^"\\\n]|\\.)*+"?|#[^\n]*+|[{}()\[\]:@]|\.\.\.|[A-Za-z_]\w{0,127}',
    re.DOTALL,
)

PIPELINED: Final = frozenset(lists.PIPELINE_PARAMS)
_STAGES: Final = 256


def unwrap(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the params with those that a wrapper among them holds; their own names come first."""
    for _ in range(2):
        if lex.WRAPPER_PARAMS.isdisjoint(params) or len(params) > _MOST:
            return params
        for name, value in params.items():
            if name in lex.WRAPPER_PARAMS and (inner := held(value)):
                rest = {other: item for other, item in params.items() if other != name}
                params = {**dict(islice(inner.items(), MAX_INNER)), **rest}
                break
        else:
            return params
    return params


def held(value: Any) -> Mapping[str, Any] | None:
    """Return the object that a value is or, as JSON in a text, holds; None for any other value."""
    if isinstance(value, str):
        value = parsed(value, MAX_TEXT) if value[:1] == "{" else None
    return value if isinstance(value, Mapping) else None


def parsed(value: Any, limit: int) -> Any:
    """Return what a text of at most ``limit`` characters holds as JSON, None if it only begins so; else the value."""
    if isinstance(value, str) and len(value) <= limit and value.lstrip()[:1] in ("{", "["):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
    return value


class Operation(NamedTuple):
    """A GraphQL operation: ``query``, ``mutation`` or ``subscription``, and its first-level fields."""

    kind: str
    fields: tuple[str, ...]


def graphql(params: Mapping[str, Any], *, named: bool) -> Operation | None:
    """Return the gravest operation of a GraphQL document among the params, None where there is none.

    ``named``: the tool says that it speaks GraphQL. Of several operations a mutation counts, whichever is
    asked for by name. What lies beyond ``MAX_TEXT`` is not read; where it speaks of a mutation, it is taken for one.
    """
    if DOCUMENTED.isdisjoint(params):
        return None
    for name in lists.GRAPHQL_PARAMS:
        value = params.get(name)
        if type(value) is str and "{" in value and (match := _STARTS.match(value)):
            if match.group(1) and name in ("query", "operation") and not named:
                continue
            found = _document(value[:MAX_TEXT])
            if len(value) > MAX_TEXT and found.kind != "mutation" and "mutation" in value[MAX_TEXT:]:
                found = Operation("mutation", ())
            return found
    return None


@lru_cache(maxsize=128)
def _document(text: str) -> Operation:
    kinds: list[str] = []
    fields: dict[str, None] = {}
    depth = nested = 0
    kind = last = ""
    for match in _TOKEN.finditer(text):
        word = match.group()
        if word in "([":
            nested += 1
        elif word in ")]":
            nested = max(0, nested - 1)
        elif nested:
            pass
        elif word == "{":
            if depth == 0:
                kinds.append(kind or "query")
            depth += 1
        elif word == "}":
            depth = max(0, depth - 1)
            kind = kind if depth else ""
        elif depth == 0:
            kind = kind or (word if word in lex.GRAPHQL_OPERATIONS else "")
        elif word == ":" and depth == 1:
            fields.pop(last, None)  # it was an alias
        elif depth == 1 and kind == "mutation" and word[0] not in '"#.@':
            fields[word] = None
            last = word
    for kind in ("mutation", "subscription"):
        if kind in kinds:
            return Operation(kind, tuple(fields)[:_MOST_FIELDS])
    return Operation("query", ())


_MOST_FIELDS: Final = 64


def stored(params: Mapping[str, Any]) -> str:
    """Return the stage by which a pipeline of MongoDB writes (``$out``, ``$merge``), ``""`` where it only looks."""
    if PIPELINED.isdisjoint(params):
        return ""
    for name in lists.PIPELINE_PARAMS:
        value = params.get(name)
        if type(value) is str:
            found = _WRITING.search(value)
            if found:
                return found.group(1)
        elif isinstance(value, (list, tuple)):
            for stage in value[-_STAGES:]:  # the last stage of a pipeline is the one that may write
                if isinstance(stage, Mapping):
                    for item in ("$out", "$merge"):
                        if item in stage:
                            return item
    return ""


_WRITING: Final = re.compile(r"[\"'{,\s](\$out|\$merge)[\"']?\s*+:")
