"""What an SQL statement does: by its keywords, outside of strings and comments."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import re2

from callosum.model import Key, Mode
from callosum.rules import keys
from callosum.rules.lexicon import SQL_PARAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SQL: Final = 32_768
"""How many characters are read; a longer statement is no mere look."""
_PARAMS: Final = frozenset(SQL_PARAMS)

_STARTS: Final = re.compile(
    r"\s*(?:select|insert|update|delete|with|create|drop|alter|truncate|merge|replace|grant|revoke|show|explain|describe|"
    r"pragma|call|exec|vacuum|copy|begin|set)\b(?=\s|\(|;|$)",
    re.IGNORECASE,
)
_SHAPE: Final = re.compile(
    r"\b(?:from|into|set|table|database|schema|index|view|values|where|tables|databases|on|as|user|role)\b|[*;()]|\d",
    re.IGNORECASE,
)
# RE2: an unclosed comment or quote must not make it scan to the end again and again.
_BLANK: Final = re2.compile(r"(?s)'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|\$\$.*?\$\$")
_SELECT_INTO: Final = re2.compile(r"(?i)\bselect\b[^;]*\binto\b")
_VERB: Final = re.compile(
    r"\b(insert|update|delete|merge|replace|drop|truncate|alter|create|grant|revoke|call|exec|vacuum|copy)\b",
    re.IGNORECASE,
)
_TARGET: Final = re.compile(
    r"\b(into|update|from|join|table(?:\s+if(?:\s+not)?\s+exists)?|truncate)\s+"
    r"(?!select\b|table\b|into\b)([\w.\"`\[\]]{1,256})",
    re.IGNORECASE,
)
_TIER: Final = {
    "insert": 1, "update": 1, "merge": 1, "replace": 1, "create": 2, "copy": 1, "vacuum": 1, "call": 2, "exec": 2,
    "alter": 3, "delete": 3, "grant": 4, "revoke": 4, "drop": 4, "truncate": 4,
}  # fmt: skip


class Statement(NamedTuple):
    """The gravest verb of a statement, its tier, and its tables as keys."""

    verb: str
    tier: int
    keys: tuple[Key, ...]


def statement(params: Mapping[str, Any], *, loosely: bool) -> Statement | None:
    """Returns what the SQL among a call's params does, None where there is none.

    ``loosely``: a param named ``query`` counts too, which elsewhere holds words to search for.
    """
    if _PARAMS.isdisjoint(params):
        return None
    for name in SQL_PARAMS:
        if not loosely and name in ("query", "queries"):
            continue
        value = params.get(name)
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            value = ";\n".join(value)
        if type(value) is str and (match := _STARTS.match(value)) and _SHAPE.search(value, match.end()):
            seen = _read(value[:MAX_SQL].encode("utf-8", "replace").decode())
            return seen if len(value) <= MAX_SQL else seen._replace(tier=max(seen.tier, 2))
    return None


def within(found: tuple[Key, ...], params: Mapping[str, Any]) -> tuple[Key, ...]:
    """Returns the tables' keys with the database that the params name, if they name one."""
    for name in _DATABASES:
        database = keys.text(params.get(name))
        if database:
            where = keys.clean(database).lower().replace("/", "%2F")
            return tuple(Key(keys.fit(f"table:{where}/{key.name[6:]}"), key.mode) for key in found)
    return found


_DATABASES: Final = (
    "database", "db", "db_name", "dbname", "dbName", "database_name", "databaseName", "database_id", "databaseId",
)  # fmt: skip


@lru_cache(maxsize=256)
def _read(text: str) -> Statement:
    bare = _BLANK.sub(" ", text)
    verbs = [one.lower() for one in _VERB.findall(bare)]
    if _SELECT_INTO.search(bare) and not verbs:
        verbs.append("create")
    worst = max(verbs, key=lambda one: _TIER[one], default="select")
    tier = _TIER.get(worst, 0)
    if worst == "delete" and not re.search(r"\bwhere\b", bare, re.IGNORECASE):
        tier = 4
    found: list[Key] = []
    for match in islice(_TARGET.finditer(bare), 64):
        word, table = match.group(1).split()[0].lower(), match.group(2)
        table = keys.clean(table.translate(_QUOTES)).lower().strip(".")
        before = bare[max(0, match.start() - 12) : match.start()].lower().rstrip()
        if not table or table in ("select", "set", "only"):
            continue
        if word == "into":
            mode = Mode.APPEND if "insert" in verbs else Mode.WRITE
        elif word in ("update", "table", "truncate") or (word == "from" and before.endswith("delete")):
            mode = Mode.WRITE
        else:
            mode = Mode.READ
        if mode is not Mode.READ or not tier:
            found.append(Key(keys.fit(f"table:{table}"), mode))
    merged, _ = keys.merge(found)
    return Statement(worst, tier, merged)


_QUOTES: Final = str.maketrans("", "", '"`[]')
