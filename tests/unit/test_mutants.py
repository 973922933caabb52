"""The table of mutants fits the source: each changes a text that occurs once, and breaks a promise that exists."""

from pathlib import Path

import pytest

from tests.mutants.__main__ import Result, killer_in, outcomes
from tests.mutants.table import ROOT, Mutant, mutants, mutated
from tests.unit.test_promises_pinned import rows

LEAST = 20


def test_every_mutant_changes_one_text_of_its_file() -> None:
    for mutant in mutants():
        assert mutated(mutant, ROOT) != (ROOT / mutant.file).read_text("utf-8"), mutant.name


def test_every_mutant_breaks_a_promise_that_has_a_row() -> None:
    promises = {mutant.promise for mutant in mutants()}
    assert promises <= rows().keys()
    assert len(promises) >= LEAST
    assert all(mutant.breaks.endswith(".") for mutant in mutants())


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("gone.py", "a", "b", "no file gone.py"),
        ("a.py", "absent", "b", "occurs 0 times in a.py"),
        ("a.py", "twice", "b", "occurs 2 times in a.py"),
        ("a.py", "once = 1", "once = (", "does not compile"),
    ],
)
def test_mutant_that_does_not_fit_is_named(tmp_path: Path, file: str, old: str, new: str, reason: str) -> None:
    (tmp_path / "a.py").write_text("once = 1\ntwice = 2\ntwice = 3\n")
    with pytest.raises(ValueError, match=reason) as error:
        mutated(Mutant("p-some", file, old, new, "It breaks."), tmp_path)
    assert "p-some" in str(error.value)


REPORT = """<testsuites><testsuite>
<testcase name="test_passes"/>
<testcase name="test_fails"><failure message="AssertionError: assert 1 == 2">...</failure></testcase>
<testcase name="test_fails_by_a_wrong_mutant"><failure message="NameError: name 'x' is not defined">...</failure></testcase>
<testcase name="test_whose_fixture_raises"><error message="failed on setup">...</error></testcase>
<testcase name="test_is_skipped"><skipped message="not here"/></testcase>
</testsuite></testsuites>"""


def test_only_a_failed_test_kills() -> None:
    passed, failed = outcomes(REPORT)
    assert (passed, failed) == (("test_passes",), ("test_fails",))
    assert killer_in(Result(1, passed, failed, "")) == "test_fails"
    assert not killer_in(Result(1, passed, (), "")), "errors alone"
    assert not killer_in(Result(2, passed, failed, "")), "pytest was interrupted: a module could not be collected"
    assert not killer_in(Result(0, passed, (), ""))
