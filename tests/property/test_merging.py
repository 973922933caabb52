"""A clean merge holds every change of both sides once. ``bench.merging`` shows the same for many more."""

from pathlib import Path

import pytest

from bench.merging import Fault, Triple, check, halves, run, run_generated

BASE = ["a", "b", "c", "d"]


def test_generated_merges_and_chains_hold_each_change_once(tmp_path: Path) -> None:
    made, clean = run_generated(120, tmp_path)
    assert made > clean > 40


@pytest.mark.parametrize("shared", [0, 1])
def test_halves_of_a_change_merge_to_the_whole(tmp_path: Path, shared: int) -> None:
    before = [f"line {number}" for number in range(40)]
    after = ["new", *before[:10], "changed", *before[11:20], *before[23:39], "last"]
    mine, theirs = halves(before, after, shared)
    assert after not in (mine, theirs)
    assert run(Triple(before, mine, theirs, after), tmp_path) == after
    with pytest.raises(Fault):
        run(Triple(before, mine, theirs, before), tmp_path)


@pytest.mark.parametrize(
    "merged",
    [
        pytest.param(["mine", "a", "b", "c", "d"], id="lost"),
        pytest.param(["mine", "a", "b", "c", "theirs", "theirs", "d"], id="doubled"),
        pytest.param(["a", "b", "mine", "c", "theirs", "d"], id="moved"),
        pytest.param(["mine", "a", "b", "theirs", "d"], id="line gone"),
        pytest.param(["mine", "a", "b", "c", "theirs", "d", "x"], id="line from nowhere"),
    ],
)
def test_checker_finds_faults(merged: list[str]) -> None:
    triple = Triple(BASE, ["mine", *BASE], ["a", "b", "c", "theirs", "d"])
    check(triple, ["mine", "a", "b", "c", "theirs", "d"])
    with pytest.raises(Fault):
        check(triple, merged)
