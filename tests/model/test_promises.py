"""Every promise of the checker can be broken: each has a mutant of the policy, found by the shortest path.

A mutant replaces one function of the policy. The world is just large enough to show it, and the number of transitions
is the smallest possible, so a checker that finds the violation later, or finds another one, fails too.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from callosum.model import Change, Kind, Opening, State, Verdict
from callosum.policy import admit, evidence, lifecycle, marks, waiting
from model.configurations import THREE, TREE, A, B
from model.explore import explore
from model.promises import PROMISES
from model.run import words_of
from model.world import Bounds, Choice

Patch = Callable[[pytest.MonkeyPatch], None]


class Mutant(NamedTuple):
    """A fault in the policy, the promise that it breaks, and the number of transitions that show it."""

    promise: str
    steps: int
    patch: Patch
    bounds: Bounds
    told: str


def _replaced(module: Any, name: str, made: Callable[[Any], Any]) -> Patch:
    """Replace a function of the policy by the one that ``made`` makes from it."""
    return lambda patch: patch.setattr(module, name, made(getattr(module, name)))


def _tier_4_ignores_leases(real: Any) -> Any:
    return lambda tier, kind, *more: Verdict.ALLOW if kind is Kind.HELD else real(tier, kind, *more)


def _no_renewal_is_late(real: Any) -> Any:
    def renew(who: Any, ttl: int, view: Any) -> Change:
        return real(who, ttl, replace(view, keys=()))  # type: ignore[no-any-return]

    return renew


def _leases_that_run_out_are_free(real: Any) -> Any:
    def lapses(view: Any) -> Any:
        settles, entries = real(view)
        return [replace(one, state=State.CANCELLED, ended=view.now) for one in settles], entries

    return lapses


def _refusals_open(real: Any) -> Any:
    def conclude(ask: Any, view: Any, case: Any) -> Change:
        change: Change = real(ask, view, case)
        return change if case.verdict.proceed else replace(change, open=Opening(State.OPEN, view.now + ask.ttl))

    return conclude


def _told_of_one_told_of_all(real: Any) -> Any:
    def newest_notified_id(ask: Any, view: Any, item: Any) -> int:
        return view.now if real(ask, view, item) or view.keys[item.key_index].mark.notified else 0

    return newest_notified_id


def _approvals_outlive_news(real: Any) -> Any:
    def needs_a_person(ask: Any, view: Any, case: Any) -> Change:
        return real(ask, view, replace(case, items=()))  # type: ignore[no-any-return]

    return needs_a_person


def _waiters_are_not_held(real: Any) -> Any:
    return lambda action, now: action.state is not State.QUEUED and real(action, now)


A_PAUSE = Choice("write3", A, pause=True)
MUTANTS = {
    "tier 4 ignores leases": Mutant(
        "leases_exclude",
        2,
        _replaced(admit, "cell", _tier_4_ignores_leases),
        Bounds(calls=1, choices=(Choice("write4", A), Choice("write4", TREE))),
        "both hold a tier 4 lease on file:/r/",
    ),
    "a lapsed lease is renewed over a newer one": Mutant(
        "tokens_grow",
        5,
        _replaced(lifecycle, "renew", _no_renewal_is_late),
        Bounds(calls=1, choices=(Choice("write3", A),), renews=True),
        "comes after token",
    ),
    "leases that run out are free": Mutant(
        "unknown_stays",
        4,
        _replaced(waiting, "lapses", _leases_that_run_out_are_free),
        Bounds(calls=1, choices=(Choice("write4", A),)),
        "has no outcome, and is cancelled",
    ),
    "a refused call opens": Mutant(
        "blocked_opens_nothing",
        2,
        _replaced(admit, "_conclude", _refusals_open),
        Bounds(calls=1, choices=(A_PAUSE,)),
        "the call was answered confirm, and opened an action that is open",
    ),
    "to be told of one action confirms all": Mutant(
        "confirmed_what_was_shown",
        3,
        _replaced(marks, "newest_notified_id", _told_of_one_told_of_all),
        Bounds(choices=(A_PAUSE,)),
        "was never shown to",
    ),
    "two calls of one turn confirm each other": Mutant(
        "confirmed_what_was_shown",
        3,
        _replaced(marks, "_made_after_notification", lambda real: lambda *facts: True),
        Bounds(choices=(A_PAUSE,)),
        "is in the way",
    ),
    "an approval holds whatever is newer": Mutant(
        "confirmed_what_was_shown",
        5,
        _replaced(admit, "_needs_a_person", _approvals_outlive_news),
        Bounds(sessions=THREE, calls=2, choices=(Choice("write4", A), Choice("write3", A)), answers=(True,)),
        "is newer than what the person was asked about",
    ),
    "opposed sides are no conflict": Mutant(
        "opposed_are_seen",
        2,
        _replaced(evidence, "_opposed", lambda real: lambda *facts: None),
        Bounds(calls=1, choices=(Choice("accept3", A), Choice("decline3", A))),
        "took the contrary side",
    ),
    "waiters can be overtaken": Mutant(
        "waiters_keep_order",
        4,
        _replaced(evidence, "holds_lease", _waiters_are_not_held),
        Bounds(sessions=THREE, calls=1, choices=(Choice("write4", A, wait=2),), outcomes=("failed",)),
        "overtook",
    ),
    "a lost place is kept": Mutant(
        "waiters_keep_order",
        8,
        _replaced(waiting, "WAITER_TTL", lambda real: 100 * real),
        Bounds(calls=1, choices=(Choice("write4", A, wait=60),), renews=True),
        "and kept its place",
    ),
    "nobody looks for deadlocks": Mutant(
        "no_deadlock",
        3,
        _replaced(admit, "_deadlocks", lambda real: lambda held, view: False),
        Bounds(choices=(Choice("write4", A, wait=2), Choice("write4", B, wait=2))),
        "doug, mira wait for each other",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught_by_the_shortest_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    mutant.patch(monkeypatch)
    violation = explore(mutant.bounds, PROMISES, states=20_000).violation
    assert violation is not None, "the mutant was not caught"
    assert (violation.promise, len(violation.trace)) == (mutant.promise, mutant.steps), words_of(violation)
    assert mutant.told in violation.wrong


@pytest.mark.parametrize("name", MUTANTS)
def test_the_policy_itself_breaks_nothing_there(name: str) -> None:
    explored = explore(MUTANTS[name].bounds, PROMISES, states=600)
    assert explored.violation is None, words_of(explored.violation)


def test_every_promise_has_a_mutant() -> None:
    assert {mutant.promise for mutant in MUTANTS.values()} == {promise.__name__ for promise in PROMISES}
