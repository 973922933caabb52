"""Ids in what a look brought back: a session that listed orders has looked at each of them.

The keys are spelled as a change of the same thing spells them, so that ``list_orders`` (with an
``{"id": "W1"}`` in its result) and ``cancel_order(order_id="W1")`` meet on ``order:W1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from callosum.model import Key, Mode
from callosum.rules import keys, many
from callosum.rules import lexicon as lex
from callosum.rules.arguments import Arguments, role_of
from callosum.rules.name import read_name
from callosum.rules.opaque import unwrap

MAX_NODES: Final = 5_000
"""How many values of a result are looked at."""
MAX_TEXT: Final = 262_144
"""How many characters of a result that is a text are parsed as JSON; a longer one has no ids."""
_MAX_DEPTH: Final = 12


def harvest(tool: str, params: Mapping[str, Any], result: Any) -> tuple[Key, ...]:
    """Returns the keys, all ``read``, of the things in the result of a look; at most ``MAX_KEYS``.

    Only things of the kind that the tool is about are taken: an order's ``customer_id`` is a
    reference. A text is read as JSON where it is some. Never raises.
    """
    name = read_name(tool if len(tool) <= 256 else tool[:256])
    noun = many.kind(name)
    if not noun:
        return ()
    params = unwrap(params)
    found = Arguments(params, name.nouns)
    entity = "file-id" if noun == "file" else noun
    where = f"{found.where}/" if found.where else ""
    made: dict[str, None] = {}
    for value in _ids(_parsed(result), {noun, entity, *_other_names(noun)}):
        one = keys.clean(value).rstrip("/")
        if one and len(one) <= 512:
            made[keys.fit(f"{entity}:{where}{one}")] = None
            if len(made) >= keys.MAX_KEYS:
                break
    return tuple(Key(one, Mode.READ) for one in made)


def _other_names(noun: str) -> set[str]:
    return {other for other, listed in lex.LISTED.items() if listed == noun}


def _parsed(result: Any) -> Any:
    if isinstance(result, str) and result.lstrip()[:1] in ("{", "[") and len(result) <= MAX_TEXT:
        try:
            return msgspec.json.decode(result)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
    return result


def _ids(result: Any, nouns: set[str]) -> list[str]:
    """The values of the fields that name one of the things, level by level."""
    found: list[str] = []
    level, seen = [result], 0
    for _ in range(_MAX_DEPTH):
        below: list[Any] = []
        for value in level:
            seen += 1
            if seen > MAX_NODES:
                return found
            if isinstance(value, Mapping):
                found += _own(value, nouns)
                below += [one for one in value.values() if isinstance(one, (Mapping, list, tuple, str)) and _deep(one)]
            elif isinstance(value, (list, tuple)):
                below += value[: MAX_NODES - seen]
            elif isinstance(value, str) and _deep(value):
                below.append(_parsed(value))
        level = below
    return found


def _deep(value: Any) -> bool:
    return not isinstance(value, str) or (value[:1] in ("{", "[") and len(value) <= MAX_TEXT)


def _own(value: Mapping[str, Any], nouns: set[str]) -> list[str]:
    """The id of one thing: ``<noun>_id`` before ``id``."""
    plain = ""
    for name, one in value.items():
        if type(name) is not str or len(name) > 64 or isinstance(one, (Mapping, list, tuple, bool)):
            continue
        entity = role_of(name)
        if entity is not None and (entity in nouns or (not entity and not plain)) and (text := keys.text(one)):
            if entity:
                return [text]
            plain = text
    return [plain] if plain else []
