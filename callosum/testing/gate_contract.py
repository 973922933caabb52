"""The contract of a gate as a test class: what every gate does, embedded or over a wire.

The complete test of a gate::

    class TestMyGate(GateContract):
        @pytest.fixture
        def gate(self, clock: ManualClock) -> Iterator[Gate]:
            with my_gate(rules=RULES, clock=clock) as gate:
                yield gate

The gate applies ``RULES`` before all other rules and takes its time from ``clock``.
"""
# ruff: noqa: S101 - tests assert

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from callosum import wire
from callosum.errors import ConfigError
from callosum.gate import Gate
from callosum.model import MAX_KEY, MAX_NAME, Call, Decision, Kind, Outcome, State, Verdict
from callosum.process import own_session
from callosum.testing.clock import ManualClock

_KEYS: Final = ["doc:{params.on}", "doc:{params.also}"]
RULES: Final = json.dumps(
    {
        "rules": [
            {"name": "contract-look", "tool": "look", "tier": 0, "contextKey": "doc:{params.on}"},
            {"name": "contract-edit", "tool": "edit-doc", "tier": 1, "contextKey": _KEYS, "repeats": False},
            {"name": "contract-post", "tool": "post", "tier": 2, "contextKey": _KEYS, "repeats": True},
            {"name": "contract-mail", "tool": "mail", "tier": 3, "contextKey": _KEYS, "repeats": True},
            {"name": "contract-wipe", "tool": "wipe", "tier": 4, "contextKey": _KEYS, "repeats": True},
            {"name": "contract-asked", "tool": "asked", "tier": 3, "contextKey": _KEYS, "verdict": "ask"},
            {"name": "contract-bare", "tool": "bare", "tier": 3, "repeats": True},
        ]
    }
)
"""The rules that the suite is written for, as a rules file."""


class GateContract:
    """The contract's tests. A subclass provides the fixture ``gate`` and nothing else."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return the gate's clock."""
        return ManualClock()

    @pytest.fixture
    def gate(self, clock: ManualClock) -> Gate:
        """Return the gate under test, which applies ``RULES`` and takes its time from ``clock``."""
        raise NotImplementedError("provide the fixture gate(clock) -> Gate")

    @pytest.fixture
    def ask(self, gate: Gate) -> Callable[..., Decision]:
        """Return a function ``ask(instance, tool, on)`` that makes a call, under a new call id unless it gets one."""
        count = iter(range(1_000_000))

        def ask(instance: str, tool: str, on: str | None = "plan", **more: Any) -> Decision:
            more.setdefault("call_id", f"call-{next(count)}")
            params: Mapping[str, Any] = more.pop("params", {})
            all_params = params if on is None else {"on": on, **params}
            return gate.intercept(Call(instance, tool, all_params, **more))

        return ask

    # --- intercept -------------------------------------------------------------------------------

    def test_a_decision_has_the_classification_of_the_call(self, ask: Callable[..., Decision]) -> None:
        """Return tier, keys, rule, id and verdict in the decision."""
        decision = ask("mira", "mail", params={"also": "second"})
        assert (decision.proceed, decision.verdict, decision.tier) == (True, Verdict.ALLOW, 3)
        assert decision.context_key == "doc:plan"
        assert decision.context_keys == ("doc:plan", "doc:second")
        assert decision.rule == "contract-mail"
        assert decision.id > 0
        assert decision.conflicts == ()
        assert decision.warning is None

    @pytest.mark.parametrize(
        ("tool", "leased"), [("look", False), ("edit-doc", False), ("post", False), ("mail", True), ("wipe", True)]
    )
    def test_tiers_3_and_4_get_a_lease(
        self, ask: Callable[..., Decision], clock: ManualClock, tool: str, leased: bool
    ) -> None:
        """Grant a lease with an expiry and a fencing token from tier 3 on, and none below."""
        lease = ask("mira", tool).lease
        assert (lease is not None) is leased
        if lease is not None:
            assert lease.token > 0
            assert lease.expires > clock.now / 1_000_000

    def test_a_changed_file_is_replaced_unread_on_the_fourth_attempt(
        self, gate: Gate, ask: Callable[..., Decision], clock: ManualClock
    ) -> None:
        """Pause an unread overwrite three times, then let it through; after a read, let it through at once."""

        def write(session: str, path: str) -> Decision:
            clock.advance(2)
            return ask(session, "Write", on=None, params={"file_path": path, "content": f"by {session}"}, pause=True)

        def read(path: str) -> None:
            clock.advance(2)
            gate.complete("mira", id=ask("mira", "Read", on=None, params={"file_path": path}).id)

        unread, seen = __file__, __file__.replace("gate_contract", "store_contract")  # both exist
        for path in (unread, seen):
            read(path)
            clock.advance(2)
            assert gate.complete("doug", id=write("doug", path).id).ok
        assert [write("mira", unread).verdict for _ in range(4)] == [*[Verdict.CONFIRM] * 3, Verdict.ALLOW]
        assert write("mira", seen).verdict is Verdict.CONFIRM
        read(seen)
        assert write("mira", seen).verdict is Verdict.ALLOW

    def test_a_call_without_a_key(self, ask: Callable[..., Decision]) -> None:
        """Return no key in the decision of a call that has none."""
        decision = ask("mira", "bare", on=None)
        assert (decision.context_key, decision.context_keys) == (None, ())

    def test_a_call_of_tier_3_without_a_key_is_pointed_out_once_for_each_tool_and_session(
        self, ask: Callable[..., Decision]
    ) -> None:
        """Add a sentence to the first such decision of a session and tool, and let the call through."""
        first = ask("mira", "bare", on=None, params={"text": "one"})
        assert first.proceed
        assert first.verdict is Verdict.ALLOW
        assert first.warning
        assert ask("mira", "bare", on=None, params={"text": "two"}).warning is None
        assert ask("doug", "bare", on=None, params={"text": "three"}).warning
        assert ask("doug", "mail", "plan").warning is None

    def test_a_block_is_returned_as_a_decision(self, ask: Callable[..., Decision]) -> None:
        """Return a block as a decision with its conflicts and a sentence; raise nothing."""
        held = ask("doug", "wipe")
        decision = ask("mira", "wipe", params={"n": 2})
        assert (decision.proceed, decision.verdict, decision.lease) == (False, Verdict.BLOCK, None)
        assert decision.conflict_count == len(decision.conflicts) == 1
        (conflict,) = decision.conflicts
        assert (conflict.kind, conflict.instance, conflict.id, conflict.key) == (
            Kind.HELD, f"doug/{own_session()}", held.id, "doc:plan",
        )  # fmt: skip
        assert decision.warning is not None
        assert decision.warning.startswith("[Callosum] ")

    def test_calls_are_idempotent_by_call_id(self, ask: Callable[..., Decision]) -> None:
        """Repeat the first decision to its dispatch alone; the same id with other params is a new call."""
        first = ask("mira", "mail", call_id="c", dispatch="d")
        again = ask("mira", "mail", call_id="c", dispatch="d")
        assert (again.id, again.proceed, again.repeated, again.lease) == (first.id, True, True, first.lease)
        other = ask("mira", "mail", call_id="c", dispatch="e")
        assert (other.id, other.proceed, other.state, other.retryable) == (first.id, False, State.OPEN, True)
        assert ask("mira", "mail", "two", call_id="c2", params={"n": 1}).id != first.id
        assert ask("mira", "mail", call_id="c", params={"n": 1}).id != first.id

    def test_a_call_that_is_over_does_not_run_again(self, ask: Callable[..., Decision], gate: Gate) -> None:
        """Answer no to a call id whose action is done or unknown, and decide one that failed afresh."""
        for number, outcome in enumerate((Outcome.DONE, Outcome.UNKNOWN, Outcome.FAILED)):
            first = ask("mira", "mail", f"plan-{number}", call_id=f"c-{number}")
            assert gate.complete("mira", id=first.id, outcome=outcome).ok
            again = ask("mira", "mail", f"plan-{number}", call_id=f"c-{number}")
            if outcome is Outcome.FAILED:
                assert (again.proceed, again.repeated) == (True, False)
            else:
                assert (again.proceed, again.verdict, again.state) == (False, Verdict.BLOCK, State(outcome.value))

    def test_an_id_that_recurs_identifies_nothing(self, ask: Callable[..., Decision], gate: Gate) -> None:
        """Decide a call afresh whose id the session has used for another call too."""
        for params in ({"n": 1}, {"n": 2}):
            gate.complete("mira", id=ask("mira", "post", call_id="call_0", params=params).id)
        again = ask("mira", "post", call_id="call_0", params={"n": 1})
        assert (again.proceed, again.repeated) == (True, False)

    def test_a_blocked_call_takes_no_key(self, ask: Callable[..., Decision]) -> None:
        """Take no lease on any key of a call that is blocked for one of its keys."""
        ask("doug", "wipe", "one")
        assert not ask("mira", "wipe", "two", params={"also": "one"}).proceed
        assert ask("anna", "wipe", "two").proceed

    def test_ids_and_tokens_grow(self, ask: Callable[..., Decision], gate: Gate, clock: ManualClock) -> None:
        """Give out growing ids and tokens even if the clock is set back."""
        tokens = []
        for _ in range(5):
            decision = ask("mira", "mail")
            assert decision.lease is not None
            tokens.append(decision.lease.token)
            gate.complete("mira", id=decision.id)
            clock.advance(-10)
        assert tokens == sorted(set(tokens))

    def test_repeating_a_paused_call_confirms_it(self, ask: Callable[..., Decision], clock: ManualClock) -> None:
        """Let a paused call through if the session repeats it under another call id after it received the decision."""
        ask("doug", "post")
        clock.advance(30)
        assert ask("mira", "mail", pause=True).verdict is Verdict.CONFIRM
        clock.advance(5)
        assert ask("mira", "mail", pause=True).proceed

    def test_namespaces_are_separate(self, ask: Callable[..., Decision]) -> None:
        """Hide calls of one namespace from all others."""
        ask("doug", "wipe", namespace="one")
        assert ask("mira", "wipe", namespace="two").verdict is Verdict.ALLOW
        assert ask("mira", "wipe", namespace="one").verdict is Verdict.BLOCK

    def test_sessions_of_one_instance_are_separate_actors(self, ask: Callable[..., Decision], gate: Gate) -> None:
        """Keep sessions of one instance apart, in calls and in reports."""
        decision = ask("mira", "wipe", session="a")
        assert not ask("mira", "wipe", session="b", params={"n": 2}).proceed
        assert not gate.complete("mira", id=decision.id, session="b").ok
        assert gate.complete("mira", id=decision.id).ok, "any process of the instance may report"

    # --- complete --------------------------------------------------------------------------------

    def test_complete_by_id(self, ask: Callable[..., Decision], gate: Gate) -> None:
        """Accept the first report only; refuse another session's report and an id that does not exist."""
        decision = ask("mira", "mail")
        assert not gate.complete("doug", id=decision.id).ok
        report = gate.complete("mira", id=decision.id, result={"sent": 1})
        assert (report.ok, report.id, report.state, report.late) == (True, decision.id, State.DONE, False)
        second = gate.complete("mira", id=decision.id, outcome="failed")
        assert (second.ok, second.state) == (False, State.DONE)
        assert not gate.complete("mira", id=1).ok

    def test_complete_by_key(self, ask: Callable[..., Decision], gate: Gate) -> None:
        """Complete the session's newest open action on the key, then the one before it, then none."""
        older, newer = ask("mira", "mail"), ask("mira", "mail", params={"n": 1})
        ask("doug", "post")
        for decision in (newer, older):
            assert gate.complete("mira", context_key="doc:plan").id == decision.id
        assert not gate.complete("mira", context_key="doc:plan").ok

    def test_complete_without_a_key(self, ask: Callable[..., Decision], gate: Gate) -> None:
        """Complete the session's newest action without a key; the method asks for an id if several are open."""
        keyed, bare = ask("mira", "mail"), ask("mira", "bare", on=None)
        with pytest.raises(ConfigError, match=rf"2 actions .*{keyed.id}, {bare.id}"):
            gate.complete("mira")
        asked = wire.Complete(instance="mira", session=own_session())
        assert gate.handle(asked).id == bare.id
        assert not gate.handle(asked).ok
        assert not gate.complete("mira").ok

    def test_complete_by_tool_and_params(self, ask: Callable[..., Decision], gate: Gate) -> None:
        """Complete the oldest open action with this tool and these params."""
        decisions = [ask("mira", "post", call_id=None) for _ in range(2)]
        for decision in decisions:
            assert gate.complete("mira", tool="post", params={"on": "plan"}).id == decision.id
        assert not gate.complete("mira", tool="post", params={"on": "plan"}).ok

    @pytest.mark.parametrize(
        ("result", "outcome", "state"),
        [
            ({"error": "refused"}, None, State.FAILED),
            ({"error": "refused"}, "done", State.FAILED),
            ({"ok": 1}, None, State.DONE),
            (None, "cancelled", State.CANCELLED),
            (None, "unknown", State.UNKNOWN),
        ],
    )
    def test_outcome_of_a_report(
        self, ask: Callable[..., Decision], gate: Gate, result: Any, outcome: str | None, state: State
    ) -> None:
        """Record ``failed`` if the result has an ``error``; otherwise record ``outcome``, by default ``done``."""
        decision = ask("mira", "mail")
        assert gate.complete("mira", id=decision.id, result=result, outcome=outcome).state is state

    def test_a_search_reads_the_things_in_its_result(
        self, ask: Callable[..., Decision], gate: Gate, clock: ManualClock
    ) -> None:
        """Raise ``stale`` for a session that found a thing by searching and changes it after another session did."""
        result_of_search = {"orders": [{"id": "W1", "note": "a word of its text"}, {"id": "W2"}]}
        for session, report in (("mira", "by id"), ("nora", "by call"), ("otto", "failed"), ("pia", "never")):
            read = ask(session, "search_orders", None, params={"query": "late"})
            if report == "by id":
                assert gate.complete(session, id=read.id, result=result_of_search).ok
            elif report == "by call":
                assert gate.complete(
                    session, tool="search_orders", params={"query": "late"}, result=result_of_search
                ).ok
            elif report == "failed":
                assert gate.complete(session, id=read.id, result={"error": "no", **result_of_search}).ok
        clock.advance(3600)
        change = ask("doug", "update_order", None, params={"order_id": "W1", "note": "x"})
        gate.complete("doug", id=change.id, outcome="done")
        clock.advance(3 * 3600)

        def kinds_of_conflict(session: str, order: str) -> set[Kind]:
            decision = ask(session, "update_order", None, params={"order_id": order, "note": session})
            gate.complete(session, id=decision.id, outcome="cancelled")
            return {conflict.kind for conflict in decision.conflicts}

        assert kinds_of_conflict("mira", "W1") == {Kind.STALE}
        assert kinds_of_conflict("nora", "W1") == {Kind.STALE}
        assert (
            kinds_of_conflict("mira", "W2")
            == kinds_of_conflict("otto", "W1")
            == kinds_of_conflict("pia", "W1")
            == set()
        )

    def test_a_read_counts_from_its_start(self, ask: Callable[..., Decision], gate: Gate, clock: ManualClock) -> None:
        """Date a read from its start: its result may lack what changed while it ran. A newer read mark is kept."""
        first = ask("mira", "search_orders", None, params={"query": "late"})
        clock.advance(10)
        change = ask("doug", "update_order", None, params={"order_id": "W1", "note": "x"})
        gate.complete("doug", id=change.id, outcome="done")
        clock.advance(10)
        second = ask("nora", "search_orders", None, params={"query": "late"})
        gate.complete("nora", id=second.id, result=[{"id": "W1"}])
        gate.complete("mira", id=first.id, result=[{"id": "W1"}])
        clock.advance(3 * 3600)
        kinds = {
            session: {
                conflict.kind for conflict in ask(session, "update_order", None, params={"order_id": "W1"}).conflicts
            }
            for session in ("nora", "mira")
        }
        assert Kind.STALE in kinds["mira"]
        assert Kind.STALE not in kinds["nora"]

    def test_a_late_report_is_marked_late(self, ask: Callable[..., Decision], gate: Gate, clock: ManualClock) -> None:
        """Mark a report after the lease's expiry as late, and let it end the unknown state."""
        decision = ask("mira", "wipe")
        clock.advance(100_000)
        assert Kind.UNKNOWN in {c.kind for c in ask("doug", "wipe", params={"n": 2}).conflicts}
        report = gate.complete("mira", id=decision.id, outcome="failed")
        assert (report.ok, report.late, report.state) == (True, True, State.FAILED)
        assert ask("doug", "wipe", params={"n": 2}).proceed

    # --- requests --------------------------------------------------------------------------------

    def test_handle_does_what_the_methods_do(self, gate: Gate) -> None:
        """Serve every operation that needs no person, except a brief, through ``handle``."""
        decision = gate.handle(Call("mira", "mail", {"on": "plan"}))
        assert decision.proceed
        assert gate.handle(wire.ReadStatus(context_key="doc:plan")).locks[0].id == decision.id
        assert gate.handle(wire.Renew(instance="mira", id=decision.id, ttl=60)).ok
        assert gate.handle(wire.Complete(instance="mira", id=decision.id)).ok
        assert not gate.status("doc:plan").locks
        assert gate.handle(wire.Lock(instance="mira", context_key="k:1")).acquired
        assert not gate.lock("doug", "k:1").acquired
        assert gate.handle(wire.ReleaseAt(instance="mira", context_key="k:1")).ok
        assert gate.lock("doug", "k:1").acquired
        asked = gate.handle(Call("mira", "asked", {"on": "plan"}))
        assert [approval.id for approval in gate.handle(wire.ApprovalsQuery()).approvals] == [asked.id]
        assert gate.handle(wire.JournalQuery(limit=1)).entries[0].seq == decision.id

    # --- leases ----------------------------------------------------------------------------------

    def test_lock_and_release(self, gate: Gate) -> None:
        """Allow one holder at a time; only the holder may release the lock, and the holder may lock again."""
        first = gate.lock("mira", "k:1")
        assert first.acquired
        assert first.lease is not None
        second = gate.lock("doug", "k:1")
        assert (second.acquired, second.lease) == (False, None)
        assert second.conflict is not None
        assert (second.conflict.kind, second.conflict.instance) == (Kind.HELD, f"mira/{own_session()}")
        assert gate.lock("mira", "k:1").acquired
        assert not gate.release("doug", "k:1").ok
        assert gate.release("mira", "k:1").ok
        third = gate.lock("doug", "k:1")
        assert third.lease is not None
        assert third.lease.token > first.lease.token

    def test_a_lock_ends_after_its_ttl(self, gate: Gate, clock: ManualClock) -> None:
        """End a lock after ``ttl`` seconds."""
        gate.lock("mira", "k:1", ttl=20)
        clock.advance(19)
        assert not gate.lock("doug", "k:1").acquired
        clock.advance(2)
        assert gate.lock("doug", "k:1").acquired

    def test_a_lock_of_tier_4_blocks_calls(self, ask: Callable[..., Decision], gate: Gate) -> None:
        """Block calls on a key locked at tier 4, and only warn them at tier 3."""
        gate.lock("doug", "doc:hard", 4)
        gate.lock("doug", "doc:soft", 3)
        assert ask("mira", "mail", "hard").verdict is Verdict.BLOCK
        assert ask("mira", "mail", "soft").verdict is Verdict.WARN

    def test_keys_are_normalized_in_every_operation(self, ask: Callable[..., Decision], gate: Gate) -> None:
        """Normalize a key in locks, releases, reports and status queries as in calls, whatever its spelling."""
        assert gate.lock("doug", "Doc: plan ", 4).acquired
        assert not ask("mira", "mail").proceed
        assert [lock.context_key for lock in gate.status("DOC:plan").locks] == ["doc:plan"]
        assert gate.release("doug", "Doc:plan").ok
        assert ask("mira", "mail").proceed
        assert gate.complete("mira", context_key="DOC:plan").ok
        with pytest.raises(ConfigError) as caught:
            gate.lock("doug", "email:a@example.com, b@example.com")
        assert caught.value.at == "contextKey"

    def test_locking_again_at_a_higher_tier_raises_the_lock(
        self, ask: Callable[..., Decision], gate: Gate, clock: ManualClock
    ) -> None:
        """Replace the lease by a new one when its holder locks again at a higher tier."""
        first = gate.lock("mira", "doc:plan", tier=3)
        clock.advance(1)
        raised = gate.lock("mira", "doc:plan", tier=4)
        assert first.lease is not None
        assert raised.lease is not None
        assert raised.lease.token > first.lease.token
        assert [(lock.id, lock.tier) for lock in gate.status().locks] == [(raised.id, 4)]
        assert not ask("doug", "mail").proceed
        assert gate.release("mira", "doc:plan").ok
        assert ask("doug", "mail").proceed

    def test_renew(self, ask: Callable[..., Decision], gate: Gate, clock: ManualClock) -> None:
        """Move the expiry to ``ttl`` seconds from now, but not for another session nor after the action ended."""
        decision = ask("mira", "wipe")
        report = gate.renew("mira", decision.id, 1000)
        assert report.ok
        assert report.lease is not None
        assert report.lease.expires == pytest.approx(clock.now / 1_000_000 + 1000, abs=1)
        assert not gate.renew("doug", decision.id).ok
        clock.advance(900)
        assert Kind.HELD in {c.kind for c in ask("doug", "wipe", params={"n": 2}).conflicts}
        gate.complete("mira", id=decision.id)
        assert not gate.renew("mira", decision.id).ok

    # --- people ----------------------------------------------------------------------------------

    def test_resolve(self, ask: Callable[..., Decision], gate: Gate, clock: ManualClock) -> None:
        """End an unknown action; refuse any other state."""
        decision = ask("mira", "wipe")
        assert not gate.resolve(decision.id, happened=False).ok
        clock.advance(100_000)
        assert gate.resolve(decision.id, happened=False, by="kim").ok
        assert ask("doug", "wipe", params={"n": 2}).proceed

    def test_approve(self, ask: Callable[..., Decision], gate: Gate, clock: ManualClock) -> None:
        """Let an approved call run once."""
        asked = ask("mira", "asked")
        assert (asked.verdict, asked.proceed) == (Verdict.ASK, False)
        assert gate.approve(asked.id, by="kim").ok
        clock.advance(5)
        assert ask("mira", "asked").proceed
        assert not gate.approve(asked.id).ok

    def test_deny(self, ask: Callable[..., Decision], gate: Gate, clock: ManualClock) -> None:
        """Keep a denied call blocked, and show the agent the person's note."""
        asked = ask("mira", "asked")
        assert gate.deny(asked.id, by="kim", note="use the \u202esandbox").ok
        clock.advance(5)
        again = ask("mira", "asked")
        assert not again.proceed
        assert 'They say: "use the sandbox"' in (again.warning or "")

    # --- status ----------------------------------------------------------------------------------

    def test_status(self, ask: Callable[..., Decision], gate: Gate, clock: ManualClock) -> None:
        """Return live leases and recent actions, of one key or of all."""
        held = ask("doug", "wipe", "one")
        done = ask("mira", "post", "two")
        gate.complete("mira", id=done.id)
        asked = ask("mira", "asked", "three")
        status = gate.status()
        assert [(h.id, h.instance, h.context_key, h.tier) for h in status.locks] == [
            (held.id, f"doug/{own_session()}", "doc:one", 4)
        ]
        assert {r.id for r in status.recent_actions} >= {held.id, done.id}
        assert [h.id for h in status.asked] == [asked.id]
        assert [r.id for r in gate.status("doc:two").recent_actions] == [done.id]
        assert gate.status("doc:two").locks == ()
        assert gate.status(namespace="elsewhere").locks == ()
        clock.advance(100_000)
        status = gate.status()
        assert status.locks == ()
        assert [h.id for h in status.unknown] == [held.id]

    # --- bad input -------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("instance", ""), ("instance", "x" * (MAX_NAME + 1)), ("instance", "a\nb"), ("instance", "a\x00b"),
            ("instance", "a\udc80b"), ("tool", ""), ("tool", "x" * (MAX_NAME + 1)), ("tool", "a\x1bb"),
            ("session", ""), ("session", "a\nb"), ("namespace", ""), ("namespace", "a\x1fb"),
            ("namespace", "x" * 300), ("call_id", ""), ("call_id", "x" * (MAX_NAME + 1)), ("run", "a\nb"),
            ("parent", ""), ("continues", "\x7f"), ("origin", ""), ("wait", -1), ("wait", 61), ("wait", float("nan")),
            ("wait", "5"), ("wait", None), ("timeout", 0), ("timeout", -5), ("timeout", 1e9), ("timeout", "5"),
            ("cwd", 5), ("after", "5"), ("instance", None), ("tool", 5), ("params", None), ("params", [1]),
            ("origin", 5),
        ],
    )  # fmt: skip
    def test_an_invalid_call_is_refused_with_the_field(self, gate: Gate, field: str, value: Any) -> None:
        """Name the invalid field in the error and record nothing."""
        facts: dict[str, Any] = {"instance": "mira", "tool": "post", "params": {"on": "x"}, field: value}
        with pytest.raises(ConfigError) as caught:
            gate.intercept(Call(**facts))
        assert caught.value.at == {"call_id": "callId"}.get(field, field)
        assert gate.status().recent_actions == ()

    @pytest.mark.parametrize("key", ["", "a\nb", "x" * (MAX_KEY + 1), "x" * 10_000, "a\x00b", "a\udc80"])
    def test_an_invalid_key_is_refused(self, gate: Gate, key: str) -> None:
        """Refuse an invalid key in a lock or a release."""
        for act in (gate.lock, gate.release):
            with pytest.raises(ConfigError) as caught:
                act("mira", key)
            assert caught.value.at == "contextKey"

    @pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), 1e9])
    def test_an_invalid_ttl_is_refused(self, gate: Gate, ttl: float) -> None:
        """Refuse an invalid ``ttl`` in a lock."""
        with pytest.raises(ConfigError) as caught:
            gate.lock("mira", "k:1", ttl=ttl)
        assert caught.value.at == "ttl"

    @pytest.mark.parametrize("tier", [-1, 5])
    def test_an_invalid_tier_is_refused(self, gate: Gate, tier: int) -> None:
        """Refuse an invalid tier in a lock."""
        with pytest.raises(ConfigError) as caught:
            gate.lock("mira", "k:1", tier)
        assert caught.value.at == "tier"

    @pytest.mark.parametrize("id", [0, -1, 2**63, 2**200])
    def test_an_invalid_id_is_refused(self, gate: Gate, id: int) -> None:
        """Refuse an invalid id in a report, a renewal, a resolution, an approval and a denial."""
        acts: tuple[Callable[[], object], ...] = (
            lambda: gate.complete("mira", id=id),
            lambda: gate.renew("mira", id),
            lambda: gate.resolve(id, happened=True),
            lambda: gate.approve(id),
            lambda: gate.deny(id),
        )
        for act in acts:
            with pytest.raises(ConfigError) as caught:
                act()
            assert caught.value.at == "id"

    def test_an_invalid_outcome_is_refused(self, ask: Callable[..., Decision], gate: Gate) -> None:
        """Refuse an invalid outcome, and leave the action open."""
        decision = ask("mira", "mail")
        with pytest.raises(ConfigError) as caught:
            gate.complete("mira", id=decision.id, outcome="maybe")
        assert caught.value.at == "outcome"
        assert gate.complete("mira", id=decision.id).ok

    @pytest.mark.parametrize(
        "value",
        [
            "line\nbreak", "nul\x00", "x" * 10_000, 1e308, -(2**62), True, None,
            ["list", {"deep": [[[[1]]]]}], {"on": "map"}, "", " ", "../..", "a/b/", "|", "=", "\u202e",
        ],
    )  # fmt: skip
    def test_params_of_any_content_are_accepted(self, ask: Callable[..., Decision], gate: Gate, value: Any) -> None:
        """Decide a call and accept its report whatever a model writes into the params."""
        decision = ask("mira", "post", on=None, params={"on": value, "text": value, "odd \n name": value})
        assert decision.proceed
        for key in decision.context_keys:
            assert not {"Cc", "Cs", "Zl", "Zp"}.intersection(map(unicodedata.category, key)), (
                "no control, no line break"
            )
            assert len(key) <= MAX_KEY
        assert gate.complete("mira", id=decision.id, result={"text": value}).ok

    def test_results_of_any_content_are_accepted(self, ask: Callable[..., Decision], gate: Gate) -> None:
        """Accept a report whatever the tool returns."""
        for result in ("lone \udc80 surrogate", {"text": "nul\x00"}, 2**80, [None], b"\xff", object()):
            decision = ask("mira", "mail")
            assert gate.complete("mira", id=decision.id, result=result, outcome="failed").ok

    def test_huge_params_are_refused(self, gate: Gate) -> None:
        """Refuse params over the size limit, name the field and record nothing."""
        with pytest.raises(ConfigError) as caught:
            gate.intercept(Call("mira", "post", {"text": "x" * 5_000_000}))
        assert caught.value.at == "params"
        assert gate.status().recent_actions == ()
