"""What a decision costs: less than a millisecond, and at most five times as much on a crowded key."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from callosum import Call, Decision, LocalGate

SECONDS = 0.001
ROUNDS = 12  # the quickest of them counts: other processes can only slow a round down
CALLS = 25


def round_of(act: Callable[[int], object], number: int) -> float:
    """Return the median processor time of a call of a round, in seconds."""
    times = []
    for n in range(number * CALLS, (number + 1) * CALLS):
        start = time.thread_time()
        act(n)
        times.append(time.thread_time() - start)
    return median(times)


def best_median(act: Callable[[int], object]) -> float:
    """Return the median processor time of a call in seconds, in the quickest of several rounds."""
    return min(round_of(act, number) for number in range(ROUNDS))


CALLS_OF_A_TIER: list[tuple[int, str, dict[str, str]]] = [
    (0, "read", {"path": "/a"}),
    (1, "write", {"path": "/{n}", "content": "number {n}"}),
    (2, "message", {"action": "send", "target": "#c", "text": "number {n}"}),
    (3, "send_email", {"to": "a{n}@example.com", "body": "number {n}"}),
    (4, "delete_repository", {"owner": "o", "repo": "r{n}"}),
]


@pytest.mark.parametrize(("tier", "tool", "params"), CALLS_OF_A_TIER)
def test_decision_takes_less_than_a_millisecond(tmp_path: Path, tier: int, tool: str, params: dict[str, str]) -> None:
    with LocalGate(tmp_path / "state") as gate:

        def decide(n: int) -> Decision:
            named = {name: value.format(n=n) for name, value in params.items()}
            return gate.intercept(Call("mira", tool, named, session="chat", call_id=str(n)))

        decision = decide(-1)
        assert (decision.tier, decision.proceed) == (tier, True)
        assert best_median(decide) < SECONDS


def test_decision_that_is_held_up_for_a_millisecond_is_found(tmp_path: Path) -> None:
    """The negative control: the same measurement with a gate that is busy for a millisecond more."""
    with LocalGate(tmp_path / "state") as gate:

        def decide(n: int) -> None:
            gate.intercept(Call("mira", "read", {"path": "/a", "text": f"number {n}"}, session="chat"))
            until = time.thread_time() + SECONDS
            while time.thread_time() < until:
                pass

        assert best_median(decide) > SECONDS


@pytest.mark.parametrize("is_notified", [True, False])
def test_call_on_a_crowded_key_costs_at_most_five_times_as_much(tmp_path: Path, *, is_notified: bool) -> None:
    """A session that was notified of the crowd decides again and again; one that was not weighs all of it each time."""

    def decide(gate: LocalGate, n: int) -> None:
        call = Call("mira", "send_email", {"to": "a@example.com", "body": str(-n)}, session="chat")
        (gate.intercept if is_notified else gate.explain)(call)

    with LocalGate(tmp_path / "alone") as alone, LocalGate(tmp_path / "crowded") as crowded:
        for gate, crowd in ((alone, 1), (crowded, 1000)):
            for n in range(crowd):
                gate.intercept(Call(f"i{n}", "send_email", {"to": "a@example.com", "body": str(n)}, session="s"))
        rounds = [[round_of(partial(decide, gate), n) for gate in (alone, crowded)] for n in range(ROUNDS)]
    assert min(many / one for one, many in rounds) <= 5  # each ratio is of two rounds in turn
