"""Short campaigns with real processes: one that holds, one with a broken store, and the output of the command."""

import os
import threading
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.connection import wait

import pytest

from chaos.campaigns import CAMPAIGNS, TORN, UNWATCHED, Campaign
from chaos.estate import Estate
from chaos.run import COUNTED, main, run
from chaos.scene import Scene, WorkerProcess

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
    assert outcome.faults.total() >= 2
    assert outcome.acknowledged > 20


def test_store_that_decides_outside_its_transaction_is_detected(estate: Estate) -> None:
    """Negative control: the records of the sessions and the store's own journal both show it."""
    rules: set[str] = set()
    for seed in range(TRIES):
        outcome = run(TORN, estate, seed=seed, seconds=1)
        told = [one.told for one in outcome.violations if one.rule == "exclusion"]
        rules |= {"journal" if text.startswith("journal") else "history" for text in told}
        if len(rules) == 2:
            return
    pytest.fail(f"found by {rules or 'nothing'}")


def test_campaign_that_breaks_nothing_does_not_pass(estate: Estate) -> None:
    """A campaign in which no call is let through afterwards does not pass either."""

    def alone(scene: Scene) -> None:
        scene.spawn(1)

    outcome = run(Campaign("unbroken", "sqlite", alone, load=0), estate, seed=1, seconds=0)
    assert [one.rule for one in outcome.violations] == ["a real campaign"]


def test_exit_code_of_a_worker_is_read_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lane polls the workers of all lanes. Here one does while another reads the code."""
    process = WorkerProcess(target=os.getpid)
    process.start()
    assert wait([process.sentinel], 60)
    other, read, is_second = threading.Thread(target=process.is_alive), forkserver.read_signed, threading.Event()

    def reading(fd: int) -> int:
        if threading.current_thread() is other:
            is_second.set()
        else:
            other.start()
            assert not is_second.wait(0.3)
        return int(read(fd))

    monkeypatch.setattr(forkserver, "read_signed", reading)
    assert process.exitcode == 0
    other.join(60)


def test_command_lists_the_campaigns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "oracle"]) == 2
    said = capsys.readouterr().out
    assert all(one.name in said for one in CAMPAIGNS)


def test_each_store_is_tested_with_each_kind_of_fault() -> None:
    names = {one.name for one in CAMPAIGNS}
    assert len(names) == len(CAMPAIGNS)
    for engine in ("postgres", "redis"):
        assert {f"{engine}-{sort}" for sort in ("crash", "network", "bits-tls", "clock", "sets")} <= names


def test_gates_that_do_not_check_a_replaced_database_are_detected(estate: Estate) -> None:
    """The negative control of `sqlite-changed` and `server-changed`."""
    rules: set[str] = set()
    for seed in range(TRIES):
        outcome = run(UNWATCHED, estate, seed=seed, seconds=2, each=2)
        rules |= {one.rule for one in outcome.violations}
        if {"nothing lost", "exclusion"} <= rules:
            return
    pytest.fail(f"found by {rules or 'nothing'}")


def test_no_call_is_acknowledged_in_a_replaced_database(estate: Estate) -> None:
    outcome = run(named("sqlite-changed"), estate, seed=1, seconds=0.5)
    assert outcome.violations == []
    assert all(outcome.faults[kind] for kind in COUNTED if kind.startswith("database"))


def test_thorough_run_that_reaches_too_little_fails_and_says_what_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["--thorough", "--seconds", "3", "--only", "sqlite-sets"])
    said = capsys.readouterr().out
    assert code == 1
    assert "NOT REACHED: 0 of 10,000 contended operations on redis" in said
    assert "NOT REACHED: 0 of 50 database removed" in said
    assert "0 double admissions" in said
    assert "0 lost acknowledgements" in said
