"""Every framework under its adapter, in every behaviour; the docs claim exactly what is tested here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters import matrix
from tests.adapters.behaviours import CHECKS, Bench, modes_of
from tests.adapters.harness import BEHAVIOURS, Framework, Mode, every_framework

REQUIRED = os.environ.get("CALLOSUM_FRAMEWORK")
"""The extra of the framework that this environment is for (``make adapters``): its absence fails, and others are left out."""


def left_out(framework: Framework) -> None:
    """Skip a test of a framework that this environment is not for; where it is, a framework that is missing fails."""
    if REQUIRED not in (None, framework.extra):
        pytest.skip(f"this environment is for {REQUIRED}")
    if REQUIRED is None and not framework.installed():
        where = "make test" if framework.main else f"make adapters ARGS={framework.extra}"
        pytest.skip(f"{framework.name} is not installed here: `{where}` tests it")


def cases() -> Iterator[object]:
    for extra, framework in every_framework().items():
        if REQUIRED not in (None, extra):
            continue
        for behaviour in BEHAVIOURS:
            for mode in modes_of(behaviour, framework):
                marks = [pytest.mark.filterwarnings(one) for one in framework.warnings]
                yield pytest.param(framework, behaviour, mode, id=f"{extra}-{behaviour}-{mode}", marks=marks)


@pytest.mark.parametrize(("framework", "behaviour", "mode"), list(cases()))
def test_behaviour_holds(framework: Framework, behaviour: str, mode: Mode, tmp_path: Path) -> None:
    left_out(framework)
    if behaviour in framework.cannot:
        pytest.skip(f"{framework.name}: {framework.cannot[behaviour]}")
    bench = Bench(framework, mode, tmp_path)
    with bench.gate:
        CHECKS[behaviour](bench)


def test_every_behaviour_is_checked_and_every_exception_names_one() -> None:
    assert list(CHECKS) == list(BEHAVIOURS)
    for framework in every_framework().values():
        assert {*framework.cannot, *framework.notes} <= BEHAVIOURS.keys(), framework.name
        assert not framework.cannot.keys() & framework.notes.keys(), framework.name
        assert framework.modes, framework.name


def test_docs_match_the_tested_behaviours() -> None:
    assert matrix.PAGE.read_text() == matrix.written(matrix.PAGE.read_text()), "python -m tests.adapters.matrix"
