"""The words that decide what a call does: the rows of ``acts.toml`` and ``objects.toml``, compiled at import.

A row that has ``traits`` gives its words to each of them: ``lex.DESTROYS`` holds the words of all rows with the trait
``destroys``. Any other row is a table of its own, named by its id. The head of ``acts.toml`` explains the columns.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

STRONG: Final = 2
LOOSE: Final = 1
WEAK: Final = 0
_WEIGHTS: Final = {"strong": STRONG, "loose": LOOSE, "weak": WEAK}
_CELL: Final = re.compile(
    r"^(?:\[(?P<row>[^]\n]+)]|(?P<column>\w+)(?:\.(?P<name>[\w-]+|'[^'\n]+'|\"[^\"\n]+\"))? = "
    r"(?:'''\n(?P<long>.*?)'''|(?P<text>'[^'\n]*'|\"[^\"\n]*\"|\d+)))$",
    re.MULTILINE | re.DOTALL,
)
"""The form of TOML that the tables are written in, so that they are read without a library for TOML."""
_T = TypeVar("_T")
_Rows = dict[str, dict[str, dict[str, str]]]


class _Table(Generic[_T]):
    """Compiled rows of one kind, as attributes named by the rows' ids in capitals."""

    def __init__(self, entries: dict[str, _T]) -> None:
        vars(self).update(entries)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> _T: ...


class _Tables(NamedTuple):
    """Compiled rows. ``verbs`` maps a word to its tier and weight, ``judges`` a program to its function's name."""

    sets: dict[str, frozenset[str]]
    lists: _Table[tuple[str, ...]]
    maps: _Table[dict[str, str]]
    tiers: _Table[dict[str, int]]
    groups: _Table[dict[str, frozenset[str]]]
    verbs: dict[str, tuple[int, int]]
    judges: dict[str, str]


def read(package: str, *names: str) -> _Rows:
    """Return the rows of some TOML files of a package: id -> column -> name behind the column's dot -> text."""
    rows: _Rows = {}
    row: dict[str, dict[str, str]] = {}
    for name in names:
        for cell in _CELL.finditer(resources.files(package).joinpath(name).read_text("utf-8")):
            if cell["row"]:
                row = rows[cell["row"].strip("'\"")] = {}
            else:
                text = cell["long"] if cell["text"] is None else cell["text"].strip("'\"")
                row.setdefault(cell["column"], {})[(cell["name"] or "").strip("'\"")] = text
    return rows


def compiled(rows: _Rows) -> _Tables:
    """Return what rows compile to: each word of a row with ``traits`` is a member of each of those sets."""
    members: dict[str, list[str]] = {}
    verbs: dict[str, tuple[int, int]] = {}
    judges: dict[str, str] = {}
    others: dict[str, dict[str, Any]] = {"order": {}, "to": {}, "rank": {}, "by": {}}
    for key, row in rows.items():
        plain, name = {column: cells.get("", "") for column, cells in row.items()}, key.upper()
        words = plain.get("words", "").split()
        if "tier" in plain:
            verbs.update(dict.fromkeys(words, (int(plain["tier"]), _WEIGHTS[plain["weight"]])))
        if "judge" in plain:
            judges.update(dict.fromkeys(words, plain["judge"]))
        for trait in plain.get("traits", "" if "tier" in plain or "judge" in plain or not words else key).split():
            members.setdefault(trait.upper(), []).extend(words)
        if "order" in plain:
            others["order"][name] = tuple(plain["order"].split())
        if "to" in row:
            others["to"][name] = {word: value for value, said in row["to"].items() for word in said.split()}
        if "says" in row:
            others["to"][name] = row["says"]
        if "rank" in row:
            others["rank"][name] = {word: int(rank) for rank, said in row["rank"].items() for word in said.split()}
        if "by" in row:
            others["by"][name] = {value: frozenset(said.split()) for value, said in row["by"].items()}
    sets = {name: frozenset(words) for name, words in members.items()}
    lists, maps, tiers, groups = (_Table(others[column]) for column in ("order", "to", "rank", "by"))
    return _Tables(sets, lists, maps, tiers, groups, verbs, judges)


_TABLES: Final = compiled(read(__package__, "acts.toml", "objects.toml"))
lists: Final = _TABLES.lists
maps: Final = _TABLES.maps
tiers: Final = _TABLES.tiers
groups: Final = _TABLES.groups
VERBS: Final = _TABLES.verbs
"""Verb -> (tier, weight)."""
globals().update(_TABLES.sets)

if TYPE_CHECKING:

    def __getattr__(name: str) -> frozenset[str]: ...
