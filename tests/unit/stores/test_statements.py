"""The statements of the SQL stores: each is used, and each that is used exists."""

import re
import sqlite3
from pathlib import Path

import pytest

import callosum.stores
from callosum.stores.postgres.export import PostgresExport
from callosum.stores.postgres.statements import SQL as POSTGRES
from callosum.stores.rows import PARTS
from callosum.stores.sqlite.apply import _MARK_ROW
from callosum.stores.sqlite.export import SqliteExport
from callosum.stores.sqlite.statements import SQL as SQLITE
from callosum.stores.sqlite.store import SqliteStore
from callosum.stores.statements import load

FOLDER = Path(callosum.stores.__file__).parent
GAPS = {
    "changed, crowd) values {}": f"changed, crowd) values {_MARK_ROW}",
    "values {}": "values (?, ?, ?)",
    "({})": "(?)",
    "({prints})": "(?4)",
    " {}": "",
}


_USE = r'(?:SQL|sql)\["(\w+)"|_rows\(\s*"(\w+)"|_select\("(\w+)"'


def _code(folder: Path) -> str:
    return "\n".join(file.read_text("utf-8") for file in (*folder.glob("*.py"), *FOLDER.glob("sql_*.py")))


def _said(folder: Path) -> set[str]:
    """Return all quoted words in modules, and all parts of statements in ``.sql`` files."""
    parts = "\n".join(file.read_text("utf-8") for file in folder.glob("*.sql"))
    return {*re.findall(r'"(\w+)"', _code(folder)), *re.findall(r"{(\w+)}", parts)}


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        (FOLDER / "sqlite", SQLITE),
        (FOLDER / "postgres", POSTGRES),
        (FOLDER, SqliteExport.shared),
        (FOLDER, PostgresExport.shared),
    ],
)
def test_every_statement_is_used(folder: Path, found: dict[str, str]) -> None:
    # A condition's name contains the word for its use; an ending distinguishes two statements.
    named = {*_said(folder), *(f"{name}_all" for name in _said(folder))}
    assert found.keys() - named == set()


@pytest.mark.parametrize(
    ("folder", "found", "how"),
    [
        (FOLDER / "sqlite", SQLITE, _USE),
        (FOLDER / "postgres", POSTGRES, _USE),
        (FOLDER, SqliteExport.shared, r'shared\["(\w+)"|_among\(\s*"(\w+)"'),
    ],
)
def test_every_name_has_a_statement(folder: Path, found: dict[str, str], how: str) -> None:
    names = {name for groups in re.findall(how, _code(folder)) for name in groups if name}
    assert len(names) > 10
    assert names - found.keys() - PARTS.keys() == set()


def test_statements_of_sqlite_can_be_run() -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript((FOLDER / "sqlite" / "schema.sql").read_text("utf-8"))
    ran = 0
    for text in [*SqliteStore.sql.values(), *SqliteExport.shared.values()]:
        if text.partition(" ")[0] in ("select", "insert", "update", "delete"):
            for gap, filled in GAPS.items():
                text = text.replace(gap, filled)  # noqa: PLW2901
            names = re.findall(r"(?<!:):([a-z]\w*)", text)
            count = 0
            for number in re.findall(r"\?(\d*)", text):
                count = max(count, int(number)) if number else count + 1
            connection.execute(f"explain {text}", dict.fromkeys(names) if names else [None] * count)
            ran += 1
    assert ran > 100
    connection.close()


def test_unknown_part_of_a_statement_is_an_error() -> None:
    with pytest.raises(KeyError, match="most_marks"):
        load("callosum.stores.sqlite", "statements.sql", PARTS)
