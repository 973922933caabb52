"""The life of an action: idempotence, reports, unknown, waiting, leases (PROTOCOL section 6)."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from callosum.model import Applied, Commits, Event, Kind, State, Verdict
from callosum.process import alive, host_of
from callosum.stores.memory import MemoryStore
from tests.support.world import Host, World, gate_time, kinds

ALLOW, WARN, CONFIRM, ASK, BLOCK = Verdict
ON = "plan"
ONE = {"text": "the quarterly numbers are attached, have a look before noon"}
TWO = {"text": "lunch has moved to the garden because the kitchen is being painted"}


@pytest.mark.parametrize("tier", range(5))
def test_an_answer_that_opened_an_action_is_repeated(world: World, tier: int) -> None:
    first = world.ask("mira", f"send{tier}", ON, params=ONE, call_id="c", dispatch="d")
    world.after(20)
    again = world.ask("mira", f"send{tier}", ON, params=ONE, call_id="c", dispatch="d")
    assert (again.id, again.verdict, again.proceed, again.repeated) == (first.id, ALLOW, True, True)
    assert len(world.gate.entries()) == 1


def test_a_repeated_answer_shows_what_the_first_did(world: World) -> None:
    world.do("doug", "send2", ON)
    world.after(5)
    first = world.ask("mira", "send3", ON, call_id="c", dispatch="d")
    again = world.ask("mira", "send3", ON, call_id="c", dispatch="d")
    assert first.verdict is WARN
    assert (again.verdict, again.warning, again.conflicts) == (first.verdict, first.warning, first.conflicts)
    assert again.lease == first.lease


def test_the_same_id_with_other_params_is_another_call(world: World) -> None:
    first = world.ask("mira", "send3", ON, params=ONE, call_id="c")
    assert world.ask("mira", "send3", ON, params=TWO, call_id="c").id != first.id
    assert world.ask("mira", "send2", ON, params=ONE, call_id="c").id != first.id
    assert world.ask("anna", "send3", "x", params=ONE, call_id="c").id != first.id
    assert world.ask("mira", "send3", ON, params=ONE, call_id="c", namespace="n").id != first.id


@pytest.mark.parametrize("tier", [1, 2, 3, 4])
@pytest.mark.parametrize("state", [State.DONE, State.UNKNOWN])
def test_a_call_that_is_over_does_not_run_again(world: World, tier: int, state: State) -> None:
    """PROTOCOL 11.1: not for its own dispatch either, and no person is asked."""
    first = world.ask("mira", f"send{tier}", ON, call_id="c", dispatch="d")
    world.end("mira", first, state)
    world.after(3600)
    for dispatch in ("d", None):
        again = world.ask("mira", f"send{tier}", ON, call_id="c", dispatch=dispatch)
        assert (again.id, again.proceed, again.verdict, again.state) == (first.id, False, BLOCK, state)
        assert not again.retryable
        assert ("already done at" if state is State.DONE else "nobody knows how it ended") in (again.warning or "")
    assert not world.gate.approve(first.id).ok
    assert not world.gate.status().asked


@pytest.mark.parametrize("tier", [1, 2, 3, 4])
def test_an_open_call_is_repeated_only_to_the_dispatch_that_asked(world: World, tier: int) -> None:
    first = world.ask("mira", f"send{tier}", ON, call_id="c", dispatch="d")
    for other in ("e", None):
        again = world.ask("mira", f"send{tier}", ON, call_id="c", dispatch=other)
        assert (again.id, again.proceed, again.state, again.retryable) == (first.id, False, State.OPEN, True)
        assert 0 < (again.retry_after or 0) <= 10
        assert "does not start twice" in (again.warning or "")
    assert world.ask("mira", f"send{tier}", ON, call_id="c", dispatch="d").proceed
    assert len(world.gate.entries()) == 1


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_a_call_that_did_not_happen_runs_under_the_same_id(world: World, outcome: str) -> None:
    first = world.ask("mira", "send3", ON, call_id="c")
    world.end("mira", first, outcome)
    again = world.ask("mira", "send3", ON, call_id="c")
    assert (again.id != first.id, again.verdict, again.repeated) == (True, ALLOW, False)


@pytest.mark.parametrize("tool", ["look", "act0", "send0", "act1"])
def test_what_is_harmless_to_repeat_is_judged_afresh(world: World, tool: str) -> None:
    """Tier 0, and tier 1 if the act does not repeat; the dispatch that has an answer keeps it."""
    first = world.ask("mira", tool, ON, call_id="c", dispatch="d")
    assert [world.ask("mira", tool, ON, call_id="c", dispatch=other).id == first.id for other in "de"] == [True, False]
    world.do("mira", tool, ON, call_id="c2")
    again = world.ask("mira", tool, ON, call_id="c2")
    assert (again.proceed, again.repeated) == (True, False)


@pytest.mark.parametrize("tier", [1, 2])
def test_an_unreported_action_is_unknown_once_its_time_is_up(world: World, tier: int) -> None:
    """Where the gate cannot tell whether the process lives: 300 seconds."""
    world.ask("mira", f"send{tier}", ON, call_id="c", dispatch="d")
    for seconds, dispatch, state in ((299, None, State.OPEN), (2, "d", State.UNKNOWN), (0, None, State.UNKNOWN)):
        world.after(seconds)
        again = world.ask("mira", f"send{tier}", ON, call_id="c", dispatch=dispatch)
        assert (again.proceed, again.state, again.retryable) == (False, state, state is State.OPEN)


@pytest.mark.parametrize("tier", [1, 2])
def test_an_unreported_action_is_open_while_its_process_lives(world: World, tier: int) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        host = host_of(process.pid)
        world.ask("mira", f"send{tier}", ON, call_id="c", host=host)
        world.after(3 * 3600)
        assert world.ask("mira", f"send{tier}", ON, call_id="c").state is State.OPEN
        process.kill()
    assert world.ask("mira", f"send{tier}", ON, call_id="c").state is State.UNKNOWN


@pytest.mark.parametrize("tier", [1, 2, 3, 4])
def test_an_id_of_another_call_of_the_session_identifies_nothing(world: World, tier: int) -> None:
    """Providers that count their calls anew in each turn: ``call_0``."""
    first = world.do("mira", f"send{tier}", ON, params=ONE, call_id="call_0")
    assert world.ask("mira", f"send{tier}", ON, params=ONE, call_id="call_0").state is State.DONE
    world.do("mira", f"send{tier}", "lunch", params=TWO, call_id="call_0")
    world.after(3600)
    for _ in range(2):
        again = world.do("mira", f"send{tier}", ON, params=ONE, call_id="call_0")
        assert (again.id != first.id, again.repeated) == (True, False)
        world.after(3600)


def test_an_id_that_was_only_refused_for_another_call_still_identifies(world: World) -> None:
    world.ask("doug", "act4", "lunch")
    assert world.ask("mira", "act4", "lunch", call_id="c").verdict is BLOCK
    world.do("mira", "send3", ON, params=ONE, call_id="c")
    assert world.ask("mira", "send3", ON, params=ONE, call_id="c").state is State.DONE


def test_the_wrap_of_a_hooked_call_makes_no_recurring_id(world: World) -> None:
    world.do("mira", "mcp__plugin_mail__send_mail", params={"to": "a@b.example", **ONE}, call_id="c")
    world.ask("mira", "mcp__mail__send_mail", params={"to": "a@b.example", **ONE}, call_id="c", dispatch="d")
    again = world.ask("mira", "mcp__mail__send_mail", params={"to": "a@b.example", **ONE}, call_id="c")
    assert (again.proceed, again.state) == (False, State.OPEN)


def test_observe_mode_stops_no_repeat_and_marks_it(tmp_path: Path) -> None:
    world = World(tmp_path, mode="observe")
    first = world.do("mira", "send3", ON, call_id="c")
    again = world.ask("mira", "send3", ON, call_id="c")
    assert (again.id != first.id, again.proceed, again.observed) == (True, True, BLOCK)


def test_only_a_hold_is_retryable(world: World) -> None:
    """Time alone lets the call through; every other conflict needs somebody to look."""
    held = world.ask("doug", "act4", ON)
    refused = world.ask("mira", "act4", ON)
    assert (refused.verdict, refused.retryable, refused.retry_after) == (BLOCK, True, 10.0)
    world.end("doug", held)
    assert not world.ask("mira", "act4", ON).retryable


def test_an_answer_is_repeated_for_a_day(world: World) -> None:
    first = world.ask("mira", "send1", ON, call_id="c")
    world.after(25 * 3600)
    assert world.ask("mira", "send1", ON, call_id="c").id != first.id


def test_without_a_call_id_a_call_is_not_idempotent(world: World) -> None:
    first = world.ask("mira", "send2", ON, call_id=None)
    second = world.ask("mira", "send2", ON, call_id=None)
    assert second.id != first.id


def test_first_of_two_unknown_reports_counts(world: World) -> None:
    decision = world.ask("mira", "act3", "plan")
    assert world.end("mira", decision, "unknown").ok
    ended = world.store.action("default", decision.id)
    world.after(60)
    second = world.end("mira", decision, "unknown")
    assert (second.ok, second.late) == (True, False)
    assert "first report stands" in (second.note or "")
    assert world.store.action("default", decision.id) == ended
    definite = world.end("mira", decision, "done")
    assert (definite.ok, definite.state, definite.late) == (True, State.DONE, True)
    assert definite.note == "late: it was reported as unknown"


def test_report_of_another_session_is_refused(world: World) -> None:
    decision = world.ask("mira", "send4", ON)
    assert not world.gate.complete("doug", id=decision.id).ok
    assert world.ask("anna", "send4", ON).verdict is BLOCK


def test_ending_the_older_does_not_free_the_newer(world: World) -> None:
    older = world.ask("mira", "act4", ON)
    newer = world.ask("mira", "act4", ON)
    world.end("mira", older, "failed")
    assert [c.id for c in world.ask("doug", "act4", ON).conflicts if c.kind is Kind.HELD] == [newer.id]


@pytest.mark.parametrize(
    ("result", "outcome", "state"),
    [
        (None, None, State.DONE),
        ({"ok": True}, None, State.DONE),
        ({"error": "no such recipient"}, None, State.FAILED),
        ({"error": {"code": 5}}, None, State.FAILED),
        ({"error": None}, None, State.DONE),
        ({"error": "no"}, "done", State.FAILED),
        ({"error": "ETIMEDOUT: connection timed out"}, None, State.UNKNOWN),
        ({"error": "connection reset by peer"}, None, State.UNKNOWN),
        ({"error": {"code": "ETIMEDOUT", "syscall": "read"}}, None, State.UNKNOWN),
        ({"error": "socket hang up"}, None, State.UNKNOWN),
        ({"error": "rpc error: code = DeadlineExceeded desc = context deadline exceeded"}, None, State.UNKNOWN),
        ({"error": "('Connection aborted.', RemoteDisconnected('Remote end closed connection'))"}, None, State.UNKNOWN),
        ({"error": "write EPIPE"}, None, State.UNKNOWN),
        ({"error": "connect ECONNREFUSED 127.0.0.1:25"}, None, State.FAILED),
        (None, "cancelled", State.CANCELLED),
        (None, "unknown", State.UNKNOWN),
        ({"error": "?"}, "unknown", State.UNKNOWN),
    ],
)
def test_outcome_of_a_report(world: World, result: Any, outcome: str | None, state: State) -> None:
    decision = world.ask("mira", "send3", ON)
    assert world.gate.complete("mira", id=decision.id, result=result, outcome=outcome).state is state


def test_a_report_by_tool_and_params_of_a_call_with_an_id(world: World) -> None:
    decision = world.ask("mira", "send3", ON, params=ONE)
    assert world.gate.complete("mira", tool="send3", params={"on": ON, **ONE}).id == decision.id


def test_a_late_report_by_tool_and_params(world: World) -> None:
    decision = world.ask("mira", "send3", ON, params=ONE, call_id=None)
    world.after(400)
    world.ask("doug", "send3", ON, params=TWO)
    report = world.gate.complete("mira", tool="send3", params={"on": ON, **ONE})
    assert (report.ok, report.id, report.late) == (True, decision.id, True)


@pytest.mark.parametrize("tier", [3, 4])
def test_first_step_that_sees_a_lapsed_lease_journals_it_once(world: World, tier: int) -> None:
    opened = world.ask("doug", f"send{tier}", ON, params=ONE)
    world.after(301)
    for who in ("mira", "anna"):
        assert kinds(world.ask(who, "send4", ON, params=TWO)) == {Kind.UNKNOWN}
        world.after(1)
    lapses = [e for e in world.gate.entries() if e.event is Event.LAPSE]
    assert [(e.action, e.outcome) for e in lapses] == [(opened.id, "unknown")]
    action = world.store.action("default", opened.id)
    assert action is not None
    assert action.state is State.UNKNOWN


def test_unknown_never_expires(world: World) -> None:
    world.ask("doug", "send4", ON, params=ONE)
    for _ in range(60):
        world.after(86_400)
        world.store.maintain(world.clock.now - 7 * 86_400 * 1_000_000)
    decision = world.ask("mira", "send4", ON, params=TWO)
    assert (decision.verdict, kinds(decision)) == (BLOCK, {Kind.UNKNOWN})


@pytest.mark.parametrize(("happened", "verdict"), [(True, BLOCK), (False, ALLOW)])
def test_unknown_can_be_resolved(world: World, happened: bool, verdict: Verdict) -> None:
    opened = world.ask("doug", "send4", ON, params=ONE)
    world.after(301)
    report = world.gate.resolve(opened.id, happened=happened, by="person", note="looked")
    assert report.ok
    decision = world.ask("mira", "send4", ON, params=TWO)
    assert decision.verdict is verdict
    assert Kind.UNKNOWN not in kinds(decision)
    assert not world.gate.resolve(opened.id, happened=happened).ok


def test_a_contrary_commitment_that_is_done_does_not_end_it(world: World) -> None:
    """That doug declined does not say whether mira accepted."""
    accepted = world.ask("mira", "act3", ON, commits=Commits("accept"))
    world.after(301)
    declined = world.ask("doug", "act3", ON, params=TWO, commits=Commits("decline"))
    assert {Kind.UNKNOWN, Kind.OPPOSED} <= kinds(declined)
    assert world.end("doug", declined).ok
    action = world.store.action("default", accepted.id)
    assert action is not None
    assert action.state is State.UNKNOWN
    assert not any(event.event is Event.RESOLVE for event in world.gate.entries())


def test_waiting_ends_the_held_conflict(world: World) -> None:
    held = world.ask("doug", "now4", "/a")
    world.each_sleep = lambda: world.end("doug", held) if world.clock.now > start + 10_000_000 else None  # type: ignore[assignment]
    start = world.clock.now
    decision = world.ask("mira", "now4", "/a", wait=30)
    assert decision.verdict is ALLOW
    assert 10_000_000 <= world.clock.now - start < 12_000_000
    assert decision.lease is not None


def test_the_other_kinds_decide_after_the_wait(world: World) -> None:
    held = world.ask("doug", "send4", ON, params=ONE)
    world.each_sleep = lambda: world.end("doug", held)  # type: ignore[assignment]
    decision = world.ask("mira", "send4", ON, params=TWO, wait=30)
    assert (decision.verdict, kinds(decision)) == (BLOCK, {Kind.RECENT})


def test_waiting_has_a_limit(world: World) -> None:
    world.ask("doug", "send4", ON)
    start = world.clock.now
    decision = world.ask("mira", "send4", ON, wait=7)
    assert decision.verdict is BLOCK
    assert 7_000_000 <= world.clock.now - start < 8_000_000
    assert world.gate.status().waiting == ()


def test_only_held_can_be_waited_for(world: World) -> None:
    world.do("doug", "send2", ON)
    start = world.clock.now
    assert world.ask("mira", "send4", ON, wait=30).verdict is BLOCK
    assert world.clock.now == start


def test_waiters_are_let_in_in_order_of_arrival(world: World) -> None:
    """Anna asks while mira waits, so anna is behind mira although the lease is free by then."""
    held = world.ask("doug", "now4", "/a")
    seen: list[Any] = []

    def meanwhile() -> None:
        if not seen:
            world.end("doug", held)
            seen.append(world.ask("anna", "now4", "/a"))

    world.each_sleep = meanwhile
    decision = world.ask("mira", "now4", "/a", wait=30)
    assert decision.verdict is ALLOW
    assert seen[0].verdict is BLOCK
    assert [(c.kind, c.instance, c.state) for c in seen[0].conflicts] == [(Kind.HELD, "mira", State.QUEUED)]


def test_a_dead_waiter_is_passed_over_in_seconds(world: World) -> None:
    held = world.ask("doug", "now4", "/a")

    class Died(BaseException):
        pass

    def die() -> None:
        raise Died

    world.each_sleep = die
    with pytest.raises(Died):
        world.ask("mira", "now4", "/a", wait=30)
    world.each_sleep = lambda: None
    world.end("doug", held)
    assert world.ask("anna", "now4", "/a").verdict is BLOCK
    world.after(6)
    assert world.ask("anna", "now4", "/a").verdict is ALLOW


def test_repeated_call_takes_over_its_waiter(world: World) -> None:
    """After its server stopped or its connection broke, the same call under the same id keeps its queue position."""

    def stand(who: str, **more: Any) -> int:
        effects = world.gate.operations.intercept(world.call(who, "now4", "/a", wait=30, **more))
        (applied,) = world.store.transact([effects.send(None)])  # type: ignore[list-item]
        effects.close()  # and nothing polls for it any more
        assert isinstance(applied, Applied)
        place: int = applied.change.answer.waiter_id
        return place

    held = world.ask("doug", "now4", "/a")
    place = stand("mira", call_id="c")
    world.after(1)
    behind = stand("anna", call_id="c")
    assert behind > place
    world.after(1)
    assert stand("mira", call_id="c") == place
    other = stand("mira", call_id="d")
    assert other > behind, "another call has a place of its own"
    world.end("doug", held)
    world.after(2)  # mira's queue entry was renewed when she came again, anna's expired
    decision = world.ask("mira", "now4", "/a", wait=30, call_id="c")
    assert decision.verdict is ALLOW
    assert [waiter.id for waiter in world.gate.status().waiting] == [other]


@pytest.mark.parametrize(("held", "wanted"), [("/b", "/b"), ("/b/", "/b/file")])
def test_a_deadlock_is_refused_at_once(world: World, held: str, wanted: str) -> None:
    """Doug holds a and waits for b, or for a file in it. Mira holds b and wants a."""
    world.ask("mira", "now4", held)
    world.ask("doug", "now4", "/a")
    seen: list[Any] = []

    def meanwhile() -> None:
        if not seen:
            start = world.clock.now
            seen.append(None)
            seen[0] = (world.ask("mira", "now4", "/a", wait=30), world.clock.now - start)

    world.each_sleep = meanwhile
    world.ask("doug", "now4", wanted, wait=3)
    decision, took = seen[0]
    assert (decision.verdict, took) == (BLOCK, 0)


def test_waiter_is_queued_on_all_its_keys(world: World) -> None:
    held = world.ask("doug", "act4", "one")
    seen: list[Any] = []

    def meanwhile() -> None:
        if not seen:
            seen.append(world.ask("anna", "act3", "two"))
            world.end("doug", held, "failed")

    world.each_sleep = meanwhile
    assert world.ask("mira", "act4", "one", params={"also": "two"}, wait=30).verdict is ALLOW
    assert seen[0].verdict is BLOCK


def test_waiter_leaves_no_queue_entry_behind(world: World) -> None:
    held = world.ask("doug", "now4", "/a")
    world.each_sleep = lambda: world.end("doug", held)  # type: ignore[assignment]
    world.end("mira", world.ask("mira", "now4", "/a", wait=30))
    assert world.gate.status().waiting == ()
    assert world.ask("anna", "now4", "/a").verdict is ALLOW


def test_a_lock_is_refused_while_another_has_a_live_lease(world: World) -> None:
    opened = world.ask("doug", "act3", ON)
    result = world.gate.lock("mira", f"doc:{ON}")
    assert not result.acquired
    assert result.conflict is not None
    assert (result.conflict.kind, result.conflict.id) == (Kind.HELD, opened.id)
    world.end("doug", opened)
    assert world.gate.lock("mira", f"doc:{ON}").acquired


def test_locks_exclude_one_another_at_any_tier(world: World) -> None:
    assert world.gate.lock("doug", "k:1", 0).acquired
    assert not world.gate.lock("mira", "k:1", 0).acquired
    assert world.gate.status("k:1").locks[0].tier == 3


@pytest.mark.parametrize(("first", "second"), [("file:/r/", "file:/r/a"), ("file:/r/a", "file:/r/")])
def test_locks_on_a_tree_and_in_it(world: World, first: str, second: str) -> None:
    assert world.gate.lock("doug", first).acquired
    assert not world.gate.lock("mira", second).acquired


def test_locking_again_keeps_the_lease(world: World) -> None:
    first = world.gate.lock("mira", "k:1", ttl=10)
    world.after(5)
    again = world.gate.lock("mira", "k:1", ttl=10)
    assert first.lease is not None
    assert again.lease is not None
    assert (again.acquired, again.lease.token) == (True, first.lease.token)
    assert again.lease.expires == pytest.approx(first.lease.expires + 5, abs=0.01)


def test_a_raised_lock_stays_raised(world: World) -> None:
    raised = world.gate.lock("mira", "doc:plan", tier=4).lease
    again = world.gate.lock("mira", "doc:plan", tier=3).lease
    assert raised is not None
    assert again is not None
    assert again.token == raised.token
    assert [lock.tier for lock in world.gate.status().locks] == [4]


def test_a_lock_ends_with_its_time(world: World) -> None:
    world.gate.lock("doug", "k:1", ttl=10)
    world.after(11)
    assert world.gate.lock("mira", "k:1").acquired


def test_releasing_an_intercepted_call_erases_no_evidence(world: World) -> None:
    world.ask("doug", "send4", ON, params=ONE)
    report = world.gate.release("doug", f"doc:{ON}")
    assert (report.ok, report.state) == (True, State.DONE)
    world.after(1)
    assert kinds(world.ask("mira", "send4", ON, params=TWO)) == {Kind.RECENT}


def test_releasing_closes_the_lock_before_the_call(world: World) -> None:
    world.gate.lock("mira", f"doc:{ON}", 4)
    call = world.ask("mira", "act4", ON)
    world.gate.release("mira", f"doc:{ON}")
    held = [c.id for c in world.ask("doug", "act4", ON).conflicts if c.kind is Kind.HELD]
    assert held == [call.id]


def test_person_frees_the_leases_of_any_session(world: World) -> None:
    world.ask("doug", "act4", ON)
    world.gate.lock("doug", f"doc:{ON}", 4)
    assert world.gate.release("", f"doc:{ON}", by="person", force=True).ok
    assert world.gate.status(f"doc:{ON}").locks == ()


def test_complete_never_closes_a_lock(world: World) -> None:
    lock = world.gate.lock("mira", f"doc:{ON}")
    assert lock.id is not None
    assert not world.gate.complete("mira", context_key=f"doc:{ON}").ok
    assert not world.gate.complete("mira", id=lock.id).ok
    assert len(world.gate.status().locks) == 1


def test_late_renewal_is_accepted_if_no_other_session_has_opened(world: World) -> None:
    opened = world.ask("doug", "act4", ON)
    world.after(400)
    assert world.ask("mira", "act4", ON).verdict is BLOCK  # sees it lapse, and opens nothing
    report = world.gate.renew("doug", opened.id)
    assert (report.ok, report.late) == (True, True)
    assert Kind.HELD in kinds(world.ask("mira", "act4", ON))


def test_late_renewal_is_refused_after_another_session_has_opened(world: World) -> None:
    opened = world.ask("doug", "act3", ON)
    world.after(400)
    assert world.ask("mira", "act3", ON).proceed
    report = world.gate.renew("doug", opened.id)
    assert (report.ok, report.late) == (False, True)


def test_actions_that_cannot_be_renewed(world: World) -> None:
    opened = world.ask("doug", "act4", ON)
    assert not world.gate.renew("mira", opened.id).ok
    world.end("doug", opened)
    assert not world.gate.renew("doug", opened.id).ok
    low = world.ask("doug", "act2", "low")
    assert not world.gate.renew("doug", low.id).ok
    assert not world.gate.renew("doug", 99).ok


def test_lease_lasts_while_its_host_process_lives(world: World) -> None:
    host = Host(77, 1.0, "here")
    world.living[77] = True
    world.ask("doug", "act4", ON, host=host)
    world.after(1000)
    assert Kind.HELD in kinds(world.ask("mira", "act4", ON))
    world.living[77] = False
    assert kinds(world.ask("mira", "act4", ON)) >= {Kind.UNKNOWN}
    assert Kind.HELD not in kinds(world.ask("mira", "act4", ON))


def test_living_host_process_keeps_a_lease_up_to_the_tools_limit(world: World) -> None:
    world.living[77] = True
    world.ask("doug", "act4", ON, host=Host(77, 1.0, "here"), timeout=900)
    world.after(899)
    assert Kind.HELD in kinds(world.ask("mira", "act4", ON))
    world.after(2)
    assert Kind.UNKNOWN in kinds(world.ask("mira", "act4", ON))


def test_lease_without_a_known_host_lasts_its_ttl(world: World) -> None:
    world.ask("doug", "act4", ON, host=Host(88, 1.0, "elsewhere"))
    world.after(299)
    assert Kind.HELD in kinds(world.ask("mira", "act4", ON))
    world.after(2)
    assert Kind.UNKNOWN in kinds(world.ask("mira", "act4", ON))


@pytest.mark.parametrize("seconds", [10, 1000], ids=["before its time", "after its time"])
def test_a_lease_ends_with_a_real_process(tmp_path: Path, seconds: int) -> None:
    world = World(tmp_path, make_store=lambda clock, _: _with_real_probe(clock))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with gate_time(world.clock):
            opened = world.ask("doug", "act4", ON, host=host_of(child.pid))
            world.after(seconds)
            assert Kind.HELD in kinds(world.ask("mira", "act4", ON))
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            decision = world.ask("mira", "act4", ON)
            assert Kind.UNKNOWN in kinds(decision)
            assert Kind.HELD not in kinds(decision)
            (lapse,) = [entry for entry in world.gate.entries() if entry.event is Event.LAPSE]
            assert (lapse.action, lapse.body["note"]) == (opened.id, "the host process ended")
    finally:
        child.kill()
        child.communicate()


def _with_real_probe(clock: Any) -> Any:
    return MemoryStore(clock=clock, probe=alive)


def test_status_shows_a_lapsed_lease_as_unknown(world: World) -> None:
    """This holds even before any step has seen it, while the store still has ``open``."""
    world.ask("mira", "act3", "plan")
    assert [action.state for action in world.gate.status().recent_actions] == [State.OPEN]
    world.after(400)
    found = world.gate.status()
    assert [holding.state for holding in found.unknown] == [State.UNKNOWN]
    assert [action.state for action in found.recent_actions] == [State.UNKNOWN]
    assert found.locks == ()
