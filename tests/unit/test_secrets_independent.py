"""The independent set of made-up secrets: its form, and how many of them the redactor finds.

A third of the cases, of every kind, is tried here; ``bench.redaction`` tries all of them, with more seeds.
"""

from __future__ import annotations

import json

import pytest

from bench import redaction, secrets_fourth, secrets_third
from bench.secrets_independent import Case, Tables, cases, half, kinds, make, survives

FLOOR = {1: 0.98, 2: 0.97}
"""Least share of hidden secrets for each half: the measurement of 2026-11-23, less one to three points."""
FLOOR_OF_THIRD = {1: 0.98, 2: 0.95}
"""The same for the third set."""
FLOOR_OF_FOURTH = {1: 0.98, 2: 0.89}
"""The same for the fourth set."""


def test_generators_make_repeatable_values_with_named_secret_parts() -> None:
    for kind in kinds():
        first, again, other = make(kind, 1), make(kind, 1), make(kind, 2)
        assert first == again, kind
        assert first.text != other.text, kind
        assert "[[" not in first.text, kind
        assert first.secrets, kind
        assert all(len(secret) >= 3 and secret in first.text for secret in first.secrets), kind
        assert survives(first.secrets, first.text), kind


def test_each_case_contains_its_secret() -> None:
    def shown(case: Case) -> str:
        return json.dumps([case.params, case.result], ensure_ascii=False)

    assert [case for case in cases(3) if not survives(case.secrets, shown(case))] == []


def test_survivor_of_six_characters_is_noticed() -> None:
    assert survives(("abcdefgh",), "..cdefgh..")
    assert not survives(("abcdefgh",), "..defgh..")


@pytest.mark.parametrize("number", [1, 2])
def test_redactor_hides_as_many_independent_secrets_as_measured(number: int) -> None:
    tally = redaction.of_independent(number, seed=1, every=3)
    assert tally.all > 300
    assert tally.share >= FLOOR[number], tally.others


@pytest.mark.parametrize("number", [1, 2])
def test_redactor_hides_as_many_secrets_of_the_third_set_as_measured(number: int) -> None:
    tally = redaction.of_independent(number, 1, secrets_third.TABLES, every=3)
    assert tally.all > 200
    assert tally.share >= FLOOR_OF_THIRD[number], tally.others


@pytest.mark.parametrize("number", [1, 2])
def test_redactor_hides_as_many_secrets_of_the_fourth_set_as_measured(number: int) -> None:
    tally = redaction.of_independent(number, 1, secrets_fourth.TABLES, every=3)
    assert tally.all > 100
    assert tally.share >= FLOOR_OF_FOURTH[number], tally.others


@pytest.mark.parametrize("tables", [secrets_third.TABLES, secrets_fourth.TABLES])
def test_kinds_have_names_of_their_own(tables: Tables) -> None:
    assert len(kinds(tables)) == sum(map(len, tables.values()))


def test_halves_are_of_similar_size() -> None:
    sizes = [sum(half(kind) == number for kind in kinds()) for number in (1, 2)]
    assert min(sizes) >= 0.4 * sum(sizes)
