"""Campaigns with real processes, shortly: one that holds, one with a store that is broken, and what the command says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.campaigns import CAMPAIGNS, TORN, Campaign
from chaos.estate import Estate
from chaos.run import main, run
from chaos.scene import Scene

TRIES = 4


@pytest.fixture(scope="module")
def estate() -> Iterator[Estate]:
    with Estate() as estate:
        yield estate


def named(name: str) -> Campaign:
    return next(one for one in CAMPAIGNS if one.name == name)


def test_nothing_is_lost_when_sessions_die(estate: Estate) -> None:
    outcome = run(named("sqlite-killed"), estate, seed=1, seconds=0.5)
    assert outcome.violations == []
    assert outcome.faults >= 2
    assert outcome.acknowledged > 20


def test_a_store_that_decides_outside_of_its_transaction_is_caught(estate: Estate) -> None:
    """The negative control: by what the sessions saw, and by its own journal."""
    rules: set[str] = set()
    for seed in range(TRIES):
        outcome = run(TORN, estate, seed=seed, seconds=1)
        told = [one.told for one in outcome.violations if one.rule == "exclusion"]
        rules |= {"journal" if text.startswith("journal") else "history" for text in told}
        if len(rules) == 2:
            return
    pytest.fail(f"found by {rules or 'nothing'}")


def test_a_campaign_in_which_nothing_is_broken_does_not_pass(estate: Estate) -> None:
    """Nor one in which nobody is let through afterwards."""

    def alone(scene: Scene) -> None:
        scene.spawn(1)

    outcome = run(Campaign("unbroken", "sqlite", alone, load=0), estate, seed=1, seconds=0)
    assert [one.rule for one in outcome.violations] == ["a real campaign"]


def test_the_command_names_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "oracle"]) == 2
    said = capsys.readouterr().out
    assert all(one.name in said for one in CAMPAIGNS)


def test_each_store_meets_each_sort_of_fault() -> None:
    names = {one.name for one in CAMPAIGNS}
    assert len(names) == len(CAMPAIGNS)
    for engine in ("postgres", "redis"):
        assert {f"{engine}-{sort}" for sort in ("crash", "network", "bits-tls", "clock", "sets")} <= names
