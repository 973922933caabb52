"""Every promise of the pages has a row in docs/promises.md, and every row names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path
from posixpath import normpath
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/architecture.md", "SECURITY.md")
ANCHOR = re.compile(r'<a id="(p-[a-z0-9-]+)"></a>')
ROW = re.compile(
    r"^\| \[(?P<id>p-[a-z0-9-]+)\]\((?P<page>[^)#]+)#(?P<anchor>[^)]+)\) \| (?P<short>.+) \| (?P<tests>.*) \|$",
    re.MULTILINE,
)


class Row(NamedTuple):
    page: str
    anchor: str
    tests: tuple[str, ...]


@cache
def rows() -> dict[str, Row]:
    found = list(ROW.finditer((ROOT / "docs/promises.md").read_text("utf-8")))
    table = {
        row["id"]: Row(normpath("docs/" + row["page"]), row["anchor"], tuple(re.findall("`([^`]+)`", row["tests"])))
        for row in found
    }
    assert len(table) == len(found), "an id has two rows"
    return table


def faults(table: dict[str, Row], pages: dict[str, str]) -> list[str]:
    """Return what is wrong between the table and the pages, each with the id."""
    anchors = {page: ANCHOR.findall(text) for page, text in pages.items()}
    wrong = [f"{one}: no row" for ids in anchors.values() for one in ids if one not in table]
    wrong += [f"{one}: twice in {page}" for page, ids in anchors.items() for one in ids if ids.count(one) > 1]
    for one, row in table.items():
        if row.anchor != one or one not in anchors.get(row.page, ()):
            wrong.append(f"{one}: not in {row.page}")
        if not row.tests:
            wrong.append(f"{one}: no test")
        wrong += [f"{one}: {test} does not exist" for test in row.tests if not exists(test)]
    return wrong


@cache
def names_in(path: str) -> frozenset[str]:
    if not (ROOT / path).is_file():
        return frozenset()
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def exists(test: str) -> bool:
    path, _, name = test.rpartition("::")
    return name.startswith("test_") and Path(path).name.startswith("test_") and name in names_in(path)


def texts() -> dict[str, str]:
    return {page: (ROOT / page).read_text("utf-8") for page in PAGES}


def test_every_promise_has_a_row_and_every_row_its_promise_and_tests() -> None:
    assert len(rows()) >= 60
    assert faults(rows(), texts()) == []


def test_missing_row_anchor_and_test_are_found() -> None:
    """The negative control: each fault is planted once."""
    table, pages = rows(), texts()
    name, row = next(iter(table.items()))
    assert faults({k: v for k, v in table.items() if k != name}, pages) == [f"{name}: no row"]
    assert faults(table, {**pages, row.page: pages[row.page].replace(f'<a id="{name}"></a>', "")}) == [
        f"{name}: not in {row.page}"
    ]
    assert faults({**table, name: row._replace(tests=())}, pages) == [f"{name}: no test"]
    gone = "tests/unit/test_locks.py::test_that_is_gone"
    assert faults({**table, name: row._replace(tests=(gone,))}, pages) == [f"{name}: {gone} does not exist"]
