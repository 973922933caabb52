"""Small worlds are exhausted without a violation, merged states behave alike, and the command reports its run."""

import pytest

from callosum.model import Kind, Verdict
from callosum.policy import admit, table
from model.configurations import CONFIGURATIONS, SMALL
from model.explore import explore
from model.promises import PROMISES
from model.run import main, words_of
from model.states import fingerprint
from model.world import State, World

LEAST = 1_000
"""A world with fewer states has shown nothing."""


@pytest.mark.parametrize("name", SMALL)
def test_a_small_world_is_exhausted_and_every_promise_holds(name: str) -> None:
    explored = explore(SMALL[name], PROMISES)
    assert explored.violation is None, words_of(explored.violation)
    assert explored.exhausted
    assert explored.states > LEAST


@pytest.mark.parametrize("name", SMALL)
def test_states_that_are_merged_behave_alike(name: str) -> None:
    """Whatever can happen next in one of them can happen in the other, and leads to states that count as one again."""
    bounds = SMALL[name]
    world = World(bounds)

    def next_forms(state: State) -> list[bytes]:
        return sorted(fingerprint(world.take(state, one).after, bounds) for one in world.transitions(state))

    pairs = explore(bounds, (), states=3_000, alike=400).alike
    assert len(pairs) > 20
    for one, other in pairs:
        assert next_forms(one) == next_forms(other)


def test_command_reports_how_far_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "small-leases", "--states", "300"]) == 0
    said = capsys.readouterr().out
    assert "300" in said
    assert "cut off by the bound; every state of depth 5 was met" in said


def test_command_describes_a_violation_in_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = table.cell
    monkeypatch.setattr(
        admit, "cell", lambda tier, kind, *more: Verdict.ALLOW if kind is Kind.HELD else real(tier, kind, *more)
    )
    assert main(["--only", "small-leases"]) == 1
    said = capsys.readouterr().out
    assert "BROKEN: leases_exclude" in said
    assert "both hold a tier 4 lease on file:/r/a" in said
    assert "1. at 0 s: mira calls write4 on file:/r/a: allow" in said
    assert "2. at 0 s: doug calls write4 on file:/r/a: allow" in said


def test_command_lists_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "oracle"]) == 2
    said = capsys.readouterr().out
    assert all(name in said for name in CONFIGURATIONS)
