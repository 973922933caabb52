"""Ids in what a look brought back: a session that listed orders has looked at each of them.

The keys are spelled as a change of the same thing spells them, so that ``list_orders`` (with an
``{"id": "W1"}`` in its result) and ``cancel_order(order_id="W1")`` meet on ``order:W1``. Nothing else
of a result is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from callosum.model import Key
from callosum.rules import keys, many
from callosum.rules import lexicon as lex
from callosum.rules.arguments import role_of
from callosum.rules.keys import READ
from callosum.rules.lexicon import maps
from callosum.rules.name import read_name
from callosum.rules.opaque import parsed

MAX_NODES: Final = 5_000
"""How many values of a result are looked at."""
MAX_TEXT: Final = 262_144
"""How many characters of a result that is a text are read; a longer one has no ids."""
MAX_LINED: Final = 65_536
"""How many characters of a text that is no JSON are read line by line; a longer one has no ids."""
MAX_LINES: Final = 2_000
"""How many lines ``name: value`` of a text are looked at."""
_ENOUGH: Final = 4 * keys.MAX_KEYS
_MAX_DEPTH: Final = 12
_LONGEST: Final = 512

_FIELD: Final = re.compile(
    r"^([ \t]{0,64}(?:[-*][ \t]{1,4})?)[\"'`*]{0,2}([A-Za-z][A-Za-z0-9_ .-]{0,40}?)[\"'`*]{0,2}[ \t]?[:=][ \t]{0,4}"
    r"[\"'`*]{0,2}([^\s\"'`*,{\[|>][^\s\"'`*,]{0,255})[\"'`*,]{0,3}[ \t]*$",
    re.MULTILINE,
)


def harvest(tool: str, looked: tuple[Key, ...], result: Any) -> tuple[Key, ...]:
    """Return the keys, all ``read``, of the things in the result of a look; at most ``MAX_KEYS``.

    ``looked`` are the keys of the look itself. Only things of the kind that it is about are taken: an
    order's ``customer_id`` is a reference. A text is read as JSON, or line by line as ``name: value``.
    Never raises; takes a few milliseconds at most, whatever the result holds.
    """
    if not result or isinstance(result, (bool, int, float)):
        return ()
    prefix, names = _about(tool, looked)
    if not prefix:
        return ()
    made: dict[str, None] = {}
    for value in _ids(parsed(result, MAX_TEXT), names):
        spelled = keys.clean(value).rstrip("/ ")
        if spelled and len(spelled) <= _LONGEST:
            made[keys.fit(prefix + spelled)] = None
            if len(made) >= keys.MAX_KEYS:
                break
    return tuple([Key(item, READ) for item in made])


@lru_cache(maxsize=1024)
def _about(tool: str, looked: tuple[Key, ...]) -> tuple[str, frozenset[str]]:
    """Return what the keys of the things found begin with, and which fields ``<name>_id`` hold their ids.

    ``""`` for a look at one thing: what it brings back are its parts.
    """
    entity = _kind(tool, looked)
    return (f"{entity}:{_where(looked)}", frozenset(_names(entity))) if entity else ("", frozenset())


def _kind(tool: str, looked: tuple[Key, ...]) -> str:
    """Return what the look is about, as keys spell it: by its tree, else by the tool's name."""
    for key in looked:
        entity, _, value = key.name.partition(":")
        if value[:1] == "/" and entity not in lex.KINDS_WITHOUT_REPOSITORY and entity != "repo":
            return entity
    name = read_name(tool if len(tool) <= 256 else tool[:256])
    if name.verb not in lex.SEARCHES and any("|" not in key.name and key.name[-1] != "/" for key in looked):
        return ""  # one thing, no tree and no facet of either
    noun = many.kind(name)
    return "file-id" if noun == "file" else noun


def _where(looked: tuple[Key, ...]) -> str:
    """Return the repository in which the look was, with a slash behind it; ``""`` where there is none."""
    for key in looked:
        entity, _, value = key.name.partition(":")
        value = value.partition("|")[0]
        if entity == "repo":
            return f"{value}/"
        if entity not in lex.KINDS_WITHOUT_REPOSITORY and value.count("/") > 1:
            return value.rpartition("/")[0] + "/"
    return ""


def _names(kind: str) -> set[str]:
    """Return which fields ``<name>_id`` hold the id of such a thing."""
    noun = kind.removeprefix("scheduled-").removesuffix("-id")
    return {kind, noun, *(other for other, listed in maps.LISTED.items() if listed == noun)}


def _ids(result: Any, nouns: frozenset[str]) -> list[str]:
    """Return the values of the fields that name one of the things, level by level.

    Below a thing that has its id only a field that says whose id it holds is one: the other ids there
    are those of its parts.
    """
    found: list[str] = []  # some things are named more than once
    level: list[tuple[Any, bool]] = [(result, False)]
    seen = 0
    for _ in range(_MAX_DEPTH):
        below: list[tuple[Any, bool]] = []
        for value, within in level:
            seen += 1
            if seen > MAX_NODES or len(found) > _ENOUGH:
                return found
            if isinstance(value, Mapping):
                named, plain = _own(value, nouns)
                item = named or ("" if within else plain)
                if item:
                    found.append(item)
                inner = within or bool(item)
                below += [
                    (part, inner) for part in value.values() if isinstance(part, (Mapping, list, tuple, str)) and part
                ]
            elif isinstance(value, (list, tuple)):
                below += [(part, within) for part in value[: MAX_NODES - seen]]
            elif isinstance(value, str) and len(value) <= MAX_TEXT:
                if value.lstrip()[:1] in ("{", "["):
                    below.append((parsed(value, MAX_TEXT), within))
                elif "\n" in value and not within and len(value) <= MAX_LINED:
                    found += _lines(value, nouns)
        level = below
        if not level:
            break
    return found


def _own(value: Mapping[str, Any], nouns: frozenset[str]) -> tuple[str, str]:
    """Return the id of one thing as ``<noun>_id`` and as a bare ``id``; ``""`` where it has none."""
    plain = ""
    for name, item in value.items():
        if type(name) is not str or len(name) > 64 or isinstance(item, (Mapping, list, tuple, bool)):
            continue
        entity = role_of(name)
        if entity is not None and (entity in nouns or (not entity and not plain)) and (text := keys.text(item)):
            if entity:
                return text, ""
            plain = text
    return "", plain


def _lines(text: str, nouns: frozenset[str]) -> list[str]:
    """Return the ids in a text of lines ``name: value``, such as YAML: the bare ones that stand farthest out."""
    named: list[str] = []
    plain: dict[int, list[str]] = {}
    for number, match in enumerate(_FIELD.finditer(text)):
        if number >= MAX_LINES:
            break
        margin, name, value = match.groups()
        entity = role_of(name.replace(" ", "_"))
        if entity is None:
            continue
        if entity in nouns:
            named.append(value)
        elif not entity:
            plain.setdefault(len(margin), []).append(value)
    return named or (plain[min(plain)] if plain else [])


def first_id(result: Any, kind: str) -> str:
    """Return the id of the thing of a kind that a call has made, as its result tells it; ``""`` if it does not."""
    if not result or isinstance(result, (bool, int, float)):
        return ""
    found = next(
        (keys.clean(value).strip("/ ") for value in _ids(parsed(result, MAX_TEXT), frozenset(_names(kind)))), ""
    )
    return found if len(found) <= _LONGEST else ""
