"""Each row of ``callosum/redact/shapes.toml`` hides what its examples mark, and the loader names the place of a fault."""

from __future__ import annotations

import random
import re

import pytest

from bench.redaction import fill
from callosum.redact import MARKER, redact_text
from callosum.redact.conditions import condition
from callosum.redact.redactor import REDACTOR, marker
from callosum.redact.shape_table import TABLE, ShapeRow, _load, compile_linear, expand

ROWS = [row for kind, rows in TABLE.rows.items() if kind != "public" for row in rows]
RULES = {rule.id: rule for rule in REDACTOR.rules}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_row_hides_what_its_examples_mark_and_nothing_else(row: ShapeRow) -> None:
    rule = RULES[row.id]
    assert row.match
    for example in row.match:  # a text without guillemets is hidden as a whole
        marked = fill(example, random.Random(row.id))
        marked = marked if "«" in marked else f"«{marked}»"
        text = re.sub("[«»]", "", marked)
        assert rule in REDACTOR.possible(text.encode())
        assert rule.replaced(text.encode(), marker) != text.encode()
        assert redact_text(text) == re.sub("«[^»]*»", MARKER, marked)
    for text in row.not_match:
        assert rule.replaced(text.encode(), marker) == text.encode()
        assert redact_text(text) == text


@pytest.mark.parametrize("row", TABLE.rows["public"], ids=lambda row: row.id)
def test_public_row_keeps_its_examples_as_they_are(row: ShapeRow) -> None:
    assert row.match
    for example in row.match:
        for seed in range(20):
            text = fill(example, random.Random(seed))
            assert compile_linear(expand(row.pattern)).search(text.encode())
            assert redact_text(text) == text


ROW = '[fragments]\n[clues]\n[conditions]\n[each]\n[names]\n[kinds.shape]\n[[rows.shape]]\nid = "a"\n'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (ROW, r"shapes\.toml: .*`pattern` - at `\$\.rows\[\.\.\.\]\[0\]`"),
        (ROW + "pattern = 1", r"shapes\.toml: .*\$\.rows\[\.\.\.\]\[0\]\.pattern"),
        (ROW + "pattern = 'x'\ncolour = 1", r"shapes\.toml: .*`colour`"),
        (ROW + "pattern = 'x'\n[[rows.shape]]\nid = 'a'\npattern = 'y'", "an id of its own for each row, got 'a'"),
        (
            ROW + "pattern = 'x'\n[[rows.other]]\nid = 'b'\npattern = 'y'",
            r"rows\.other: expected one of the kinds, shape",
        ),
        (ROW + "pattern = 'x", r"shapes\.toml: .*end of document"),
    ],
)
def test_fault_in_the_table_is_an_error_with_its_place(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        _load(text)


def test_unknown_condition_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"expected conditions out of assignment, card.*, got 'hasty'"):
        condition("not hasty")
