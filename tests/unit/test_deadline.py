"""When a request expires, and how a decision is taken back that no client waits for."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callosum import wire
from callosum.bootclock import boot_id, boot_now
from callosum.deadline import MAX_TIMEOUT_MS, Expiry, expires_at, stamp
from callosum.errors import ConfigError, Expired
from callosum.gate import Caller, LocalGate
from callosum.guards import guard
from callosum.model import Call, Event, Outcome, Verdict
from callosum.server.arrivals import ArrivalClock
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore

REPLY = {"action": "send", "target": "andy", "replyTo": "m-1", "message": "On it, I will look into it"}


class Clock:
    """A boot clock that shows its moments one after another, and then the last one."""

    def __init__(self, *moments: float) -> None:
        self.moments = list(moments)

    def __call__(self) -> float:
        return self.moments.pop(0) if len(self.moments) > 1 else self.moments[0]


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[LocalGate]:
    settings = Settings(state=tmp_path)
    with LocalGate(settings=settings, store=MemoryStore()) as made:
        yield made


def ask_at(gate: LocalGate, call: Call, *moments: float, ends: float = 10.0) -> Any:
    """Intercepts a call whose client waits until 10, while the clock shows these moments."""
    return gate._drive(gate.operations.intercept(call, Expiry(ends, now=Clock(*moments))))


def locked(gate: LocalGate, *moments: float) -> None:
    """Ask for a lock whose client waits until 10, while the clock shows these moments."""
    request = wire.Lock(instance="mira", context_key="doc:plan", tier=4)
    gate.handle(request, Caller(expiry=Expiry(10.0, now=Clock(*moments))))


def test_deadline_of_this_boot_holds_and_another_is_ignored() -> None:
    assert expires_at(f"{boot_id()}:12.5", 1000) == 12.5
    assert expires_at("another-boot:12.5", 1000, arrived=40.0) == 41.0
    assert expires_at("another-boot:12.5", None) is None
    assert expires_at(None, None) is None


def test_timeout_counts_from_arrival() -> None:
    assert expires_at(None, 1500, arrived=40.0) == 41.5
    now = expires_at(None, 1500)
    assert now is not None
    assert 0 <= boot_now() + 1.5 - now < 60


def test_stamp_is_read_back_as_the_same_moment() -> None:
    before = boot_now()
    deadline, timeout_ms = stamp(1.5)
    moment = expires_at(deadline, timeout_ms)
    assert timeout_ms == 1500
    assert moment is not None
    assert before + 1.4 < moment <= boot_now() + 1.51


def test_stamp_stays_within_the_accepted_range() -> None:
    assert stamp(-5)[1] == stamp(0)[1] == 1
    assert stamp(10**9)[1] == MAX_TIMEOUT_MS


@pytest.mark.parametrize("deadline", ["", "boot", "boot:", ":5", "boot:5.", "boot:-5", "bo ot:5", "boot:٥", "x:inf"])
def test_deadline_that_cannot_be_read_is_refused(deadline: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expires_at(deadline, None)
    assert caught.value.at == "deadline"


@pytest.mark.parametrize("timeout_ms", [0, -1, True, 1.5, MAX_TIMEOUT_MS + 1])
def test_timeout_out_of_range_is_refused(gate: LocalGate, timeout_ms: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        gate.intercept(Call("mira", "message", REPLY, timeout_ms=timeout_ms))
    assert caught.value.at == "timeoutMs"


def test_expired_call_opens_nothing_and_is_journalled(gate: LocalGate) -> None:
    with pytest.raises(Expired):
        ask_at(gate, Call("mira", "message", REPLY, call_id="c-1"), 11.0)
    (entry,) = gate.entries()
    assert (entry.event, entry.tool, entry.tier, entry.verdict) == (Event.REFUSE, "message", 3, None)
    assert (entry.body["reason"], entry.body["callId"]) == ("expired", "c-1")
    assert "warning" not in entry.body
    assert not gate.status().locks
    assert gate.intercept(Call("doug", "message", REPLY)).verdict is Verdict.ALLOW


def test_call_in_time_is_decided(gate: LocalGate) -> None:
    assert ask_at(gate, Call("mira", "message", REPLY), 9.9).verdict is Verdict.ALLOW


def test_call_of_the_embedded_gate_may_have_a_deadline_of_its_own(gate: LocalGate) -> None:
    with pytest.raises(Expired):
        gate.intercept(Call("mira", "message", REPLY, deadline=f"{boot_id()}:0.5"))
    assert gate.intercept(Call("mira", "message", REPLY, timeout_ms=60_000)).proceed


def test_decision_that_came_too_late_is_taken_back(gate: LocalGate) -> None:
    """The process was stopped between the check inside the transaction and its end."""
    with pytest.raises(Expired):
        ask_at(gate, Call("mira", "message", REPLY), 9.0, 11.0)
    opened, undone = gate.entries()
    assert (opened.event, undone.event, undone.outcome) == (Event.INTERCEPT, Event.COMPLETE, Outcome.CANCELLED)
    assert undone.body["note"] == "expired"
    assert gate.intercept(Call("doug", "message", REPLY)).verdict is Verdict.ALLOW


def test_pause_that_came_too_late_does_not_count_as_notified(gate: LocalGate) -> None:
    gate.intercept(Call("doug", "message", REPLY))
    call = Call("mira", "message", REPLY, pause=True)
    for moments in ((11.0,), (9.0, 11.0)):
        with pytest.raises(Expired):
            ask_at(gate, call, *moments)
    assert gate.intercept(Call("mira", "message", REPLY, pause=True, after=2**62)).verdict is Verdict.CONFIRM
    assert gate.intercept(Call("mira", "message", REPLY, pause=True, after=2**62)).proceed  # the negative control


def test_question_that_came_too_late_is_not_left_pending(gate: LocalGate, tmp_path: Path) -> None:
    rules = '{"rules": [{"name": "ask", "tool": "pay", "tier": 4, "contextKey": "pay", "verdict": "ask"}]}'
    (tmp_path / "rules.json").write_text(rules)
    settings = Settings(state=tmp_path, rules=tmp_path / "rules.json")
    with LocalGate(settings=settings, store=MemoryStore()) as asking:
        with pytest.raises(Expired):
            ask_at(asking, Call("mira", "pay", {"amount": 5}), 9.0, 11.0)
        assert not asking.status().asked
        assert asking.entries()[-1].event is Event.LAPSE


def test_lock_that_came_too_late_is_taken_back(gate: LocalGate) -> None:
    for moments in ((11.0,), (9.0, 11.0)):
        with pytest.raises(Expired):
            locked(gate, *moments)
    assert not gate.status().locks
    assert gate.lock("doug", "doc:plan", 4).acquired


def test_renewed_lock_is_not_lost_with_its_late_response(gate: LocalGate) -> None:
    lock = gate.lock("mira", "doc:plan", 4)
    with pytest.raises(Expired):
        locked(gate, 9.0, 11.0)
    assert [held.id for held in gate.status().locks] == [lock.id]


def test_waiter_whose_deadline_passes_leaves_the_queue(gate: LocalGate) -> None:
    held = gate.intercept(Call("anna", "delete_repository", {"repository": "acme/site"}))
    with pytest.raises(Expired):
        ask_at(gate, Call("mira", "delete_repository", {"repository": "acme/site"}, wait=5), 9.0, 9.0, 11.0)
    assert not gate.status().waiting
    gate.complete("anna", id=held.id, outcome="cancelled")
    assert gate.intercept(Call("doug", "delete_repository", {"repository": "acme/site"})).verdict is Verdict.ALLOW


def test_cancelled_call_is_decided_anew_under_its_id(gate: LocalGate) -> None:
    call = Call("mira", "message", REPLY, call_id="c-1")
    first = gate.intercept(call)
    assert gate.intercept(call).repeated
    gate.complete("mira", id=first.id, outcome="cancelled")
    again = gate.intercept(call)
    assert (again.repeated, again.proceed) == (False, True)
    assert again.id != first.id


def test_guard_treats_an_expired_call_as_an_unreachable_gate(gate: LocalGate) -> None:
    late = f"{boot_id()}:0.5"
    with guard(gate, Call("mira", "read_file", {"path": "/a"}, deadline=late)) as running:
        assert running.decision is not None
        assert running.decision.fallback
    assert [entry for entry in gate.entries() if entry.event is Event.REFUSE]


def test_disconnected_client_counts_only_before_the_decision(gate: LocalGate) -> None:
    """A disconnected client may repeat the call under the same id, so its decision stays open."""
    gone = iter([False, True])
    decision = gate._drive(gate.operations.intercept(Call("mira", "message", REPLY), Expiry(None, lambda: next(gone))))
    assert decision.proceed
    with pytest.raises(Expired):
        gate._drive(gate.operations.intercept(Call("doug", "message", REPLY), Expiry(None, lambda: True)))


class Loop:
    """The timers of an event loop, run by hand."""

    def __init__(self) -> None:
        self.later: list[Any] = []

    def call_later(self, _seconds: float, callback: Any) -> Any:
        self.later.append(callback)
        return asyncio.TimerHandle(0, callback, (), self)  # type: ignore[arg-type]

    def get_debug(self) -> bool:
        return False

    def turn(self) -> None:
        self.later.pop(0)()


def test_requests_after_a_standstill_count_as_having_arrived_when_it_began() -> None:
    now, loop = [100.0], Loop()
    arrivals = ArrivalClock(loop, lambda: now[0])  # type: ignore[arg-type]
    now[0] = 100.5
    loop.turn()
    assert arrivals.arrived() == 100.5
    now[0] = 103.0  # a request is read before the timer runs
    assert arrivals.arrived() == 100.5
    loop.turn()
    now[0] = 103.2
    assert arrivals.arrived() == 100.5, "more of those that waited"
    now[0] = 103.3
    assert arrivals.arrived() == 103.3


def test_timer_that_runs_before_the_first_request_notes_the_standstill_too() -> None:
    now, loop = [100.0], Loop()
    arrivals = ArrivalClock(loop, lambda: now[0])  # type: ignore[arg-type]
    now[0] = 101.5
    loop.turn()
    assert arrivals.arrived() == 100.0


def test_short_delays_are_no_standstill() -> None:
    now, loop = [100.0], Loop()
    arrivals = ArrivalClock(loop, lambda: now[0])  # type: ignore[arg-type]
    now[0] = 100.9
    assert arrivals.arrived() == 100.9
