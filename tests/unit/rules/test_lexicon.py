"""Each row of the tables of words decides something: its ``match`` is judged otherwise without it, its ``not_match`` not."""

import re
import sys
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import msgspec
import pytest

from callosum import Call
from callosum.model import Classification
from callosum.rules import RuleSet
from callosum.rules import lexicon as lex
from callosum.rules.shell import line, programs


class Cells(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The schema of a row; a cell holds one word, or several words separated by white space."""

    words: str = ""
    tier: Literal[0, 1, 2, 3, 4] | None = None
    weight: Literal["strong", "loose", "weak", ""] = ""
    traits: str = ""
    judge: str = ""
    order: str = ""
    by: dict[str, str] = {}
    to: dict[str, str] = {}
    rank: dict[str, str] = {}
    says: dict[str, str] = {}
    about: str = ""
    match: list[str] = []
    not_match: list[str] = []


RULES = Path(lex.__file__).parent
FILES = {lex: (RULES / "acts.toml", RULES / "objects.toml"), programs: (RULES / "shell" / "programs.toml",)}
ROWS = {home: lex.read("callosum.rules", *(str(path.relative_to(RULES)) for path in paths)) for home, paths in FILES.items()}  # fmt: skip
TYPED = {home: {key: row for path in paths for key, row in msgspec.toml.decode(path.read_bytes(), type=dict[str, Cells]).items()} for home, paths in FILES.items()}  # fmt: skip
FULL = {home: lex.compiled(rows) for home, rows in ROWS.items()}
KINDS = ("lists", "maps", "tiers", "groups")
RULESET = RuleSet.parse()
CACHES = [one for name, module in sys.modules.items() if name.startswith("callosum.rules") for one in vars(module).values() if hasattr(one, "cache_clear")]  # fmt: skip


@pytest.fixture(autouse=True)
def whole() -> Iterator[None]:
    yield
    for home in ROWS:
        put(home, FULL[home])


def put(home: ModuleType, tables: Any) -> None:
    """Give a module of words other tables; a set that has no row any more is empty."""
    vars(home).update({name: tables.sets.get(name, frozenset()) for name in FULL[home].sets})
    for kind in KINDS:
        entries = vars(getattr(tables, kind))
        vars(getattr(home, kind)).update({name: entries.get(name, type(one)()) for name, one in vars(getattr(FULL[home], kind)).items()})  # fmt: skip
    if home is lex:
        lex.VERBS.clear()
        lex.VERBS.update(tables.verbs)
    else:
        line.HANDLERS.clear()
        line.HANDLERS.update({one: attrgetter(name)(line._JUDGES) for one, name in tables.judges.items()})
    for cache in CACHES:
        cache.cache_clear()


def judged(text: str) -> Classification:
    """Return what the rules make of a call: ``$ `` and ``PS> `` begin a command line, else it is a tool and its params."""
    tool, _, rest = text.partition(" ")
    params: dict[str, Any] = dict(one.split("=", 1) for one in rest.split()) if tool not in ("$", "PS>") else {"command": rest}  # fmt: skip
    return RULESET.classify(Call("m", {"$": "Bash", "PS>": "PowerShell"}.get(tool, tool), params, cwd="/w/app"))


@pytest.mark.parametrize("home", ROWS, ids=lambda home: home.__name__)
def test_row_decides_what_it_matches_and_nothing_of_what_it_does_not(home: ModuleType) -> None:
    put(home, FULL[home])
    before = {one: judged(one) for row in TYPED[home].values() for one in (*row.match, *row.not_match)}
    wrong = []
    for key, row in TYPED[home].items():
        if row.match:
            put(home, lex.compiled({name: other for name, other in ROWS[home].items() if name != key}))
            calls = [*((one, True) for one in row.match), *((one, False) for one in row.not_match)]
            wrong += [f"{key}: {one}" for one, differs in calls if (judged(one) != before[one]) != differs]
    assert wrong == []


@pytest.mark.parametrize("home", ROWS, ids=lambda home: home.__name__)
def test_every_table_is_read_and_every_name_has_a_table(home: ModuleType) -> None:
    text = "\n".join(path.read_text("utf-8") for folder in (RULES, RULES.parent / "gate", RULES.parent / "retrospect") for path in folder.rglob("*.py"))  # fmt: skip
    alias = "programs" if home is programs else "lex"
    assert {*re.findall(rf"\b{alias}\.([A-Z][A-Z0-9_]+)", text)} - {"VERBS", "STRONG", "LOOSE", "WEAK", "HANDLERS"} == {*FULL[home].sets}  # fmt: skip
    for kind in KINDS:
        both = {name for one in FULL.values() for name in vars(getattr(one, kind))}
        assert {*re.findall(rf"\b{kind}\.([A-Z][A-Z0-9_]+)", text)} == both


def test_rows_are_read_as_toml_reads_them() -> None:
    for home, rows in TYPED.items():
        columns = {key: {name: cell for name, cell in msgspec.to_builtins(row).items() if name not in ("about", "match", "not_match")} for key, row in rows.items()}  # fmt: skip
        plain = {key: {name: {word: text.strip() for word, text in cell.items()} for name, cell in row.items() if name != "about"} for key, row in ROWS[home].items()}  # fmt: skip
        assert plain == {key: {name: {word: text.strip() for word, text in (cell if isinstance(cell, dict) else {"": str(cell)}).items()} for name, cell in row.items()} for key, row in columns.items()}  # fmt: skip


def test_word_is_in_one_row_of_verbs() -> None:
    verbs = [
        word
        for row in lex.read("callosum.rules", "acts.toml").values()
        for word in row.get("words", {"": ""})[""].split()
    ]
    assert len(verbs) == len({*verbs})
