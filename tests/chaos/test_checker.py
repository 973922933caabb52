"""The checker on handwritten histories: sound ones pass, and it finds one violation of each sort."""

from collections.abc import Callable
from typing import Any

import pytest

from callosum.model import Entry, Key, Outcome, Verdict
from callosum.model import Event as Did
from chaos.checker import Promise, check, meet
from chaos.history import Event
from chaos.resource import Written
from chaos.run import contended

TTL = 1.0
FILE, TREE, OTHER = "file:/c/a/x", "file:/c/a/", "file:/c/b/x"


class CheckedHistory:
    """A history, its journal and its counters, in milliseconds. Everything is sound unless a test says otherwise."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.journal: list[Entry] = []
        self.counters: dict[str, list[Written]] = {}
        self.promise = Promise(ttl=TTL)

    def on(self, at: float, who: str, what: Any, verb: Any, op: str = "", **facts: Any) -> None:
        self.events.append(Event(int(at * 1e6), who, what, verb, op, **facts))

    def entry(self, seq: int, event: Did, who: str, key: str = FILE, tier: int = 4, **facts: Any) -> None:
        self.journal.append(Entry(event, who, seq=seq * 1000, tier=tier, keys=(Key(key),), **facts))

    def grant(self, at: float, who: str, op: str, id: int, key: str = FILE, tier: int = 4, **facts: Any) -> None:
        """Asked for at ``at``, answered a millisecond later as ``id``, and journalled."""
        self.on(at, who, "invoke", "intercept", op, keys=(key,), tier=tier, ttl=TTL, **facts)
        self.on(at + 1, who, "answer", "intercept", op, ok=True, id=id * 1000)
        self.opens(id, who, op, key, tier)

    def opens(self, id: int, who: str, op: str, key: str = FILE, tier: int = 4) -> None:
        self.entry(id, Did.INTERCEPT, who, key, tier, action=id * 1000, verdict=Verdict.ALLOW, body={"callId": op})

    def ends(self, at: float, who: str, op: str, id: int, seq: int, outcome: str = "done", key: str = FILE) -> None:
        self.on(at, who, "invoke", "complete", op, id=id * 1000, outcome=outcome)
        self.on(at + 1, who, "answer", "complete", op, ok=True, id=id * 1000, state=outcome)
        self.entry(seq, Did.COMPLETE, who, key, action=id * 1000, outcome=Outcome(outcome))

    def found(self) -> set[str]:
        events = sorted(self.events, key=lambda event: event.at)
        journal = sorted(self.journal, key=lambda entry: entry.seq)
        return {violation.rule for violation in check(events, journal, self.counters, self.promise)}


def one_after_another(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.ends(10, "mira", "m1", 1, 5)
    told.grant(12, "doug", "d1", 10)
    told.ends(20, "doug", "d1", 10, 15)


def taken_over_when_it_ran_out(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.entry(1005, Did.LAPSE, "mira", action=1000, outcome=Outcome.UNKNOWN, body={"note": "the lease ran out"})
    told.grant(1010, "doug", "d1", 1010)
    told.ends(1020, "doug", "d1", 1010, 1021)


def light_call_again_when_its_time_has_run_out(told: CheckedHistory) -> None:
    told.opens(1, "mira", "m1", tier=1)
    told.opens(1001, "mira", "m1", tier=1)


def both_only_warn(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1, tier=3)
    told.grant(2, "doug", "d1", 2, tier=3)


def other_things(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1, TREE)
    told.grant(2, "doug", "d1", 2, OTHER)


def nobody_knows_whether_it_was_granted(told: CheckedHistory) -> None:
    told.on(0, "mira", "invoke", "intercept", "m1", keys=(FILE,), tier=4, ttl=TTL)
    told.on(5, "mira", "unknown", "intercept", "m1")
    told.grant(2, "doug", "d1", 2)


def nobody_knows_whether_it_ended(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.on(5, "mira", "invoke", "complete", "m1", id=1000, outcome="done")
    told.entry(6, Did.COMPLETE, "mira", action=1000, outcome=Outcome.DONE)
    told.on(500, "mira", "unknown", "complete", "m1")
    told.grant(8, "doug", "d1", 8)


def died_and_its_host_with_it(told: CheckedHistory) -> None:
    told.grant(0, "w1:mira", "m1", 1, host=True)
    told.on(5, "w1", "note", "killed")
    told.on(4, "w1:mira", "invoke", "begin", "m1", keys=(FILE,), id=1000)
    told.entry(6, Did.LAPSE, "w1:mira", action=1000, outcome=Outcome.UNKNOWN, body={"note": "the host process ended"})
    told.grant(7, "doug", "d1", 8)


def a_retry_that_is_answered_as_before(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.on(3, "mira", "invoke", "intercept", "m1", keys=(FILE,), tier=4, ttl=TTL)
    told.on(4, "mira", "answer", "intercept", "m1", ok=True, id=1000, repeated=True)
    told.ends(10, "mira", "m1", 1, 5)


def an_unknown_release_may_come_later(told: CheckedHistory) -> None:
    for at, op, id in ((0, "m1", 1), (20, "m2", 20)):
        told.on(at, "mira", "invoke", "lock", op, keys=(FILE,), tier=4, ttl=TTL)
        told.on(at + 1, "mira", "answer", "lock", op, ok=True, id=id * 1000)
        told.entry(id, Did.LOCK, "mira", action=id * 1000, verdict=Verdict.ALLOW)
        told.entry(id + 5, Did.RELEASE, "mira", action=id * 1000, outcome=Outcome.CANCELLED)
        if not at:
            told.on(2, "mira", "invoke", "release", op, keys=(FILE,), id=1000)
            told.on(9, "mira", "unknown", "release", op)
    told.grant(30, "doug", "d1", 30)


def locked_again_by_its_holder(told: CheckedHistory) -> None:
    """Make the old token live, although the session's own later call has a greater one."""
    for at, op in ((0, "m1"), (20, "m3")):
        told.on(at, "mira", "invoke", "lock", op, keys=(FILE,), tier=4, ttl=TTL)
        told.on(at + 1, "mira", "answer", "lock", op, ok=True, id=1000)
    told.entry(1, Did.LOCK, "mira", action=1000, verdict=Verdict.ALLOW)
    told.grant(5, "mira", "m2", 5)
    told.on(25, "mira", "invoke", "write", "m3", keys=(FILE,), id=1000)
    told.on(26, "mira", "answer", "write", "m3", id=1000, text="1000 after 5000")


def waited_in_turn(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    for at, who, op in ((2, "doug", "d1"), (6, "anna", "a1")):
        told.on(at, who, "invoke", "intercept", op, keys=(FILE,), tier=4, wait=1.0)
        told.entry(at + 1, Did.QUEUE, who, action=(at + 1) * 1000)
        told.on(at + 2, who, "note", "queued", op)
    told.ends(10, "mira", "m1", 1, 10)
    for at, who, op in ((12, "doug", "d1"), (20, "anna", "a1")):
        told.on(at + 1, who, "answer", "intercept", op, ok=True, id=at * 1000)
        told.opens(at, who, op)
        told.ends(at + 3, who, op, at, at + 3)


def by_the_stores_clock(told: CheckedHistory) -> None:
    """Answer a retry with the moment of the first try."""
    told.on(0, "mira", "invoke", "intercept", "m1", keys=(FILE,), tier=4, ttl=TTL)
    told.on(100, "mira", "unknown", "intercept", "m1")
    told.opens(1_001, "mira", "m1")
    told.on(200, "mira", "invoke", "intercept", "m1", keys=(FILE,), tier=4, ttl=TTL)
    told.on(201, "mira", "answer", "intercept", "m1", ok=True, id=1_001_000, repeated=True)
    told.promise = Promise(ttl=TTL, clock=1_000_000_000)


def counted(told: CheckedHistory) -> None:
    one_after_another(told)
    for at, who, op, id in ((2, "mira", "m1", 1), (14, "doug", "d1", 10)):
        told.on(at, who, "invoke", "write", op, keys=(FILE,), id=id * 1000)
        told.on(at + 1, who, "answer", "write", op, ok=True, id=id * 1000)
    told.counters[FILE] = [Written(1000, 1, "m1"), Written(10_000, 2, "d1")]


def given_up_and_cancelled(told: CheckedHistory) -> None:
    told.on(0, "mira", "invoke", "intercept", "m1", keys=(FILE,), tier=4, ttl=TTL)
    told.on(300, "mira", "unknown", "intercept", "m1")
    told.opens(1, "mira", "m1")
    told.entry(400, Did.COMPLETE, "mira", action=1000, outcome=Outcome.CANCELLED)
    told.promise = Promise(ttl=TTL, spools=True)


def reported_while_the_gate_was_away(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.on(5, "mira", "invoke", "complete", "m1", id=1000, outcome="done")
    told.on(305, "mira", "unknown", "complete", "m1")
    told.entry(400, Did.COMPLETE, "mira", action=1000, outcome=Outcome.DONE)
    told.promise = Promise(ttl=TTL, spools=True)


def ran_without_the_gate(told: CheckedHistory) -> None:
    told.on(5, "mira", "note", "late", "m1")
    told.entry(400, Did.LATE, "mira", tier=1, action=400_000, body={"callId": "m1"})
    told.promise = Promise(ttl=TTL, spools=True)


def given_up_by_a_process_that_was_killed(told: CheckedHistory) -> None:
    told.on(0, "w1:mira", "invoke", "intercept", "m1", keys=(FILE,), tier=4, ttl=TTL)
    told.on(300, "w1:mira", "unknown", "intercept", "m1")
    told.on(301, "w1", "note", "killed")
    told.opens(1, "w1:mira", "m1")
    told.entry(1005, Did.LAPSE, "w1:mira", action=1000, body={"note": "the lease ran out"})
    told.promise = Promise(ttl=TTL, spools=True)


def taken_back_and_decided_again(told: CheckedHistory) -> None:
    told.opens(1, "mira", "m1")
    told.entry(2, Did.COMPLETE, "mira", action=1000, outcome=Outcome.CANCELLED)
    told.opens(5, "mira", "m1")
    told.entry(9, Did.COMPLETE, "mira", action=5000, outcome=Outcome.DONE)


def left_the_queue_when_its_deadline_passed(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.entry(3, Did.QUEUE, "doug", action=3000)
    told.entry(5, Did.REFUSE, "doug", body={"reason": "expired", "callId": "d1"})
    told.ends(10, "mira", "m1", 1, 10)
    told.grant(12, "anna", "a1", 12)


def sent_twice_and_refused_once(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.entry(3, Did.QUEUE, "doug", action=3000)
    told.entry(4, Did.REFUSE, "doug", body={"reason": "expired", "callId": "d1"})
    told.entry(5, Did.QUEUE, "anna", action=5000)
    told.ends(10, "mira", "m1", 1, 10)
    told.grant(12, "doug", "d1", 12)


GOOD = (
    sent_twice_and_refused_once, one_after_another, taken_over_when_it_ran_out, both_only_warn, other_things,
    nobody_knows_whether_it_was_granted, nobody_knows_whether_it_ended, died_and_its_host_with_it,
    a_retry_that_is_answered_as_before, an_unknown_release_may_come_later, locked_again_by_its_holder,
    waited_in_turn, by_the_stores_clock, counted, taken_back_and_decided_again,
    left_the_queue_when_its_deadline_passed, given_up_and_cancelled, reported_while_the_gate_was_away,
    ran_without_the_gate, given_up_by_a_process_that_was_killed, light_call_again_when_its_time_has_run_out,
)  # fmt: skip


@pytest.mark.parametrize("write", GOOD, ids=lambda write: write.__name__)
def test_valid_history_passes(write: Callable[[CheckedHistory], None]) -> None:
    told = CheckedHistory()
    write(told)
    assert told.found() == set()


def held_by_two(told: CheckedHistory) -> None:
    """Record two sessions that each hold the lease alone.

    Such a store's journal would agree, so it is left out.
    """
    told.grant(0, "mira", "m1", 1)
    told.grant(5, "doug", "d1", 5)
    told.journal.clear()


def tree_and_file(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1, TREE)
    told.grant(5, "doug", "d1", 5)
    told.journal.clear()


def held_after_a_renewal(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.on(900, "mira", "invoke", "renew", "m1", id=1000)
    told.on(901, "mira", "answer", "renew", "m1", ok=True, id=1000)
    told.grant(1500, "doug", "d1", 1500)
    told.journal.clear()


def warned_beside_a_hard_one(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.grant(5, "doug", "d1", 5, tier=3)
    told.journal.clear()


def let_in_by_the_journal_alone(told: CheckedHistory) -> None:
    """Let two calls in by the journal; neither got an answer."""
    told.opens(1, "mira", "m1")
    told.opens(5, "doug", "d1", TREE)


def ran_out_too_soon(told: CheckedHistory) -> None:
    told.opens(1, "mira", "m1")
    told.entry(400, Did.LAPSE, "mira", action=1000, body={"note": "the lease ran out"})


def smaller_token(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 9)
    told.ends(3, "mira", "m1", 9, 10)
    told.grant(5, "doug", "d1", 5)


def token_given_twice(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.ends(3, "mira", "m1", 1, 3)
    told.on(5, "doug", "invoke", "intercept", "d1", keys=(FILE,), tier=4, ttl=TTL)
    told.on(6, "doug", "answer", "intercept", "d1", ok=True, id=1000)


def decision_lost(told: CheckedHistory) -> None:
    one_after_another(told)
    told.journal = told.journal[2:]


def refusal_lost(told: CheckedHistory) -> None:
    told.on(0, "mira", "invoke", "intercept", "m1", keys=(FILE,), tier=4, ttl=TTL)
    told.on(1, "mira", "answer", "intercept", "m1", id=1000)


def another_decision_in_its_place(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.journal.clear()
    told.opens(1, "doug", "d1")


def report_lost(told: CheckedHistory) -> None:
    one_after_another(told)
    told.journal.pop()


def renewal_lost(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.on(5, "mira", "invoke", "renew", "m1", id=1000)
    told.on(6, "mira", "answer", "renew", "m1", ok=True, id=1000)


def decided_twice(told: CheckedHistory) -> None:
    told.opens(1, "mira", "m1")
    told.opens(5, "mira", "m1")


def light_call_decided_twice_while_it_is_open(told: CheckedHistory) -> None:
    told.opens(1, "mira", "m1", tier=1)
    told.opens(1000, "mira", "m1", tier=1)


def ended_twice(told: CheckedHistory) -> None:
    one_after_another(told)
    told.entry(30, Did.COMPLETE, "doug", action=10_000, outcome=Outcome.FAILED)


def another_outcome(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.ends(5, "mira", "m1", 1, 5)
    told.journal[-1] = Entry(Did.COMPLETE, "mira", seq=5000, action=1000, tier=4, outcome=Outcome.FAILED)


def two_outcomes_told(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.ends(5, "mira", "m1", 1, 5)
    told.on(8, "mira", "invoke", "complete", "m1", id=1000, outcome="failed")
    told.on(9, "mira", "answer", "complete", "m1", id=1000, state="failed")


def ended_and_never_open(told: CheckedHistory) -> None:
    told.entry(5, Did.COMPLETE, "mira", action=1000, outcome=Outcome.DONE)


def retry_opened_another(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.on(3, "mira", "invoke", "intercept", "m1", keys=(FILE,), tier=4, ttl=TTL)
    told.on(4, "mira", "answer", "intercept", "m1", ok=True, id=3000)
    told.journal.clear()


def retry_refused(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.ends(5, "mira", "m1", 1, 5)
    told.on(8, "mira", "invoke", "intercept", "m1", keys=(FILE,), tier=4, ttl=TTL)
    told.on(9, "mira", "answer", "intercept", "m1", id=8000)


def refused_for_what_had_ended(told: CheckedHistory) -> None:
    one_after_another(told)
    told.on(30, "anna", "invoke", "lock", "a1", keys=(FILE,), tier=4, ttl=TTL)
    told.on(31, "anna", "answer", "lock", "a1", holder=10_000)


def overtaken_in_line(told: CheckedHistory) -> None:
    told.entry(1, Did.QUEUE, "doug", action=1000)
    told.opens(5, "anna", "a1", TREE)


def overtaken_by_a_later_waiter(told: CheckedHistory) -> None:
    told.entry(1, Did.QUEUE, "doug", action=1000)
    told.entry(3, Did.QUEUE, "anna", action=3000)
    told.opens(5, "anna", "a1")


def later_and_in_front(told: CheckedHistory) -> None:
    waited_in_turn(told)
    for number, who in ((1, "anna"), (4, "doug")):
        told.journal = [entry for entry in told.journal if entry.event is not Did.QUEUE or entry.session != who]
        told.entry(number, Did.QUEUE, who, action=number * 1000)


def lost_update(told: CheckedHistory) -> None:
    told.counters[FILE] = [Written(1, 1, "m1"), Written(2, 1, "d1")]


def increment_lost(told: CheckedHistory) -> None:
    counted(told)
    told.counters[FILE].pop()


def fenced_while_it_holds(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 1)
    told.on(5, "mira", "invoke", "write", "m1", keys=(FILE,), id=1000)
    told.on(6, "mira", "answer", "write", "m1", id=1000, text="1000 after 2000")
    told.ends(9, "mira", "m1", 1, 9)


def moment_of_another_clock(told: CheckedHistory) -> None:
    """Put the store's clock a second ahead of the history's, and one decision a second before that."""
    told.grant(0, "mira", "m1", 1_001)
    told.grant(2, "mira", "m2", 3, OTHER)
    told.promise = Promise(ttl=TTL, clock=1_000_000_000)


def moment_that_has_not_come(told: CheckedHistory) -> None:
    told.grant(0, "mira", "m1", 100)
    told.promise = Promise(ttl=TTL, clock=0)


def entry_twice(told: CheckedHistory) -> None:
    told.opens(1, "mira", "m1", tier=1)
    told.opens(1, "doug", "d1", tier=1)


def never_came_back(told: CheckedHistory) -> None:
    told.on(0, "mira", "invoke", "intercept", "m1", keys=(FILE,), tier=4)


def fell_over(told: CheckedHistory) -> None:
    told.on(0, "mira", "note", "crash", text="KeyError")


def given_up_and_left_to_run_out(told: CheckedHistory) -> None:
    given_up_and_cancelled(told)
    told.journal.pop()
    told.entry(1005, Did.LAPSE, "mira", action=1000, body={"note": "the lease ran out"})


def report_that_never_arrived(told: CheckedHistory) -> None:
    reported_while_the_gate_was_away(told)
    told.journal.pop()
    told.entry(1005, Did.LAPSE, "mira", action=1000, body={"note": "the lease ran out"})


def late_call_that_never_arrived(told: CheckedHistory) -> None:
    told.on(5, "mira", "note", "late", "m1")
    told.promise = Promise(ttl=TTL, spools=True)


BAD = (
    (held_by_two, "exclusion"),
    (tree_and_file, "exclusion"),
    (held_after_a_renewal, "exclusion"),
    (warned_beside_a_hard_one, "exclusion"),
    (let_in_by_the_journal_alone, "exclusion"),
    (ran_out_too_soon, "exclusion"),
    (smaller_token, "tokens"),
    (token_given_twice, "tokens"),
    (decision_lost, "nothing lost"),
    (refusal_lost, "nothing lost"),
    (another_decision_in_its_place, "nothing lost"),
    (report_lost, "nothing lost"),
    (renewal_lost, "nothing lost"),
    (decided_twice, "nothing doubled"),
    (light_call_decided_twice_while_it_is_open, "nothing doubled"),
    (ended_twice, "nothing doubled"),
    (another_outcome, "outcomes"),
    (two_outcomes_told, "outcomes"),
    (ended_and_never_open, "outcomes"),
    (retry_opened_another, "idempotence"),
    (retry_refused, "idempotence"),
    (refused_for_what_had_ended, "refusals"),
    (overtaken_in_line, "line"),
    (overtaken_by_a_later_waiter, "line"),
    (later_and_in_front, "line"),
    (lost_update, "no lost update"),
    (increment_lost, "no lost update"),
    (fenced_while_it_holds, "fence"),
    (moment_of_another_clock, "clock"),
    (moment_that_has_not_come, "clock"),
    (given_up_and_left_to_run_out, "no stray lease"),
    (report_that_never_arrived, "no lost report"),
    (late_call_that_never_arrived, "no lost late call"),
    (entry_twice, "order"),
    (never_came_back, "no hang"),
    (fell_over, "no crash"),
)


@pytest.mark.parametrize(("plant", "rule"), BAD, ids=[plant.__name__ for plant, _ in BAD])
def test_a_planted_violation_is_found(plant: Callable[[CheckedHistory], None], rule: str) -> None:
    told = CheckedHistory()
    plant(told)
    assert rule in told.found()


def test_data_that_a_store_does_not_promise_to_keep_may_be_lost() -> None:
    told = CheckedHistory()
    told.grant(0, "mira", "m1", 1, tier=1)
    told.journal.clear()
    assert told.found() == {"nothing lost"}
    told.promise = Promise(ttl=TTL, tier=3)
    assert told.found() == set()


def test_keys_conflict_as_in_the_gate() -> None:
    assert meet((TREE,), (FILE,))
    assert meet((FILE,), (OTHER, TREE))
    assert not meet((FILE,), (OTHER,))
    assert not meet(("file:/c/a",), (FILE,))


def test_operations_count_as_contended_while_another_session_wants_or_has_the_key() -> None:
    told = CheckedHistory()
    told.grant(0, "mira", "m1", 1)
    told.on(5, "doug", "invoke", "intercept", "d1", keys=(TREE,), tier=4, ttl=TTL)
    told.on(6, "doug", "answer", "intercept", "d1", holder=1000)
    told.ends(10, "mira", "m1", 1, 11)
    told.on(20, "doug", "invoke", "intercept", "d2", keys=(FILE,), tier=4, ttl=TTL)
    told.on(21, "doug", "answer", "intercept", "d2", ok=True, id=20_000)
    told.on(22, "anna", "invoke", "intercept", "a1", keys=(OTHER,), tier=4, ttl=TTL)
    assert contended(sorted(told.events, key=lambda event: event.at)) == 1
