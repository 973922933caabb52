"""Keys of calls about a database's tables and collections, named by params such as ``database`` and ``collection``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from callosum.model import Key
from callosum.rules import keys
from callosum.rules import lexicon as lex
from callosum.rules.keys import APPEND, READ, WRITE
from callosum.rules.lexicon import lists

if TYPE_CHECKING:
    from callosum.rules.arguments import Arguments
    from callosum.rules.name import Name

STORES: Final = {
    "collection": ("collection", "collection_name", "collectionName"),
    "table": ("table", "table_name", "tableName"),
}
"""What rows are in, with the params that name it."""
STORED: Final = frozenset(one for names in STORES.values() for one in names)


def looked_at(params: Mapping[str, Any], found: Arguments, name: Name) -> list[Key]:
    """Return the key of a look at a table or collection, or at those of a database; none for any other look."""
    if found.ids.keys() - lex.TABLE_NOUNS:
        return []
    if stored := _stored(params):
        return [Key(stored, READ)]
    where = _database(params) if name.head in STORES else ""
    return [Key(keys.fit(f"{name.head}:{where}/"), READ)] if where else []


def changed(params: Mapping[str, Any], found: Arguments, name: Name, verb: str) -> list[Key]:
    """Return the key of a change of a table or collection, none for any other: what is only added is a row more."""
    if found.ids.keys() - lex.TABLE_NOUNS or not (stored := _stored(params)):
        return []
    if verb in lex.ADDS and name.head not in STORES:
        return [Key(keys.fit(f"{stored}|row"), APPEND)]
    return [Key(stored, WRITE)]


def _stored(params: Mapping[str, Any]) -> str:
    """Return the table or collection that a call names, as keys spell it; ``""`` where it names none."""
    for entity, names in STORES.items():
        value = _first(params, names)
        if value:
            where = _database(params)
            return keys.fit(f"{entity}:{where}/{keys.clean(value)}" if where else f"{entity}:{keys.clean(value)}")
    return ""


def _database(params: Mapping[str, Any]) -> str:
    return keys.clean(_first(params, lists.DATABASE_PARAMS)).lower().replace("/", "%2F")


def _first(params: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return the first of some params that has a short text."""
    return next((text for one in names if (text := keys.text(params.get(one))) and len(text) <= 256), "")
