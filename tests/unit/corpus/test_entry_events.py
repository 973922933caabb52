"""From the actions of sessions and people at the gate, through the journal, to events."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from callosum.corpus.entry_events import OpeningCalls, events_of
from callosum.corpus.events import CorpusEvent, ToolCompleted, encode
from callosum.errors import StoreUnavailable
from callosum.model import SECOND, Conflict, Entry, Event, Key, Kind, Mode, Outcome, State, Verdict
from tests.support.world import World


def corpus_events(world: World, act: Callable[[], Any]) -> list[CorpusEvent]:
    """Return the events of the action's journal entries, without those of leases."""
    return [event for event in all_told(world, act) if not event.dotted.startswith("lease.")]


def all_told(world: World, act: Callable[[], Any]) -> list[CorpusEvent]:
    before = world.store.entries(limit=1, newest=True)
    act()
    entries = world.store.entries(after=before[-1].seq if before else 0)
    return [event for entry in entries for event in events_of(entry)]


def leases(world: World, act: Callable[[], Any]) -> list[tuple[str, str, int | None, str | None]]:
    """Return the lease events: name, session, action and cause."""
    found = [event for event in all_told(world, act) if event.dotted.startswith("lease.")]
    return [(event.dotted, event.instance or "", event.id, event.cause) for event in found]


def event_payloads(events: list[CorpusEvent]) -> list[tuple[str, dict[str, Any]]]:
    """Return names and payloads, without the common fields."""
    base = ("at", "instance", "namespace", "callId", "id", "cause")
    plain = [(event.dotted, json.loads(encode(event))) for event in events]
    return [(name, {key: value for key, value in payload.items() if key not in base}) for name, payload in plain]


def test_allowed_call_has_its_events(world: World) -> None:
    called, allowed = corpus_events(world, lambda: world.ask("mira", "act3", "plan", namespace="work"))
    assert event_payloads([called, allowed]) == [
        ("tool.called", {"name": "act3", "args": {"on": "plan"}}),
        ("safety.allowed", {"toolName": "act3", "classification": "high"}),
    ]
    seq = world.store.entries()[-1].seq
    for event in (called, allowed):
        assert (event.at, event.instance, event.namespace, event.id) == (seq / SECOND, "mira", "work", seq)
    assert (called.cause, allowed.cause) == (None, f"{seq}.0")


@pytest.mark.parametrize(
    ("tool", "word"), [("look", "safe"), ("act1", "low"), ("act2", "medium"), ("act3", "high"), ("act4", "critical")]
)
def test_classification_names_the_tier(world: World, tool: str, word: str) -> None:
    events = corpus_events(world, lambda: world.ask("mira", tool, "plan"))
    assert event_payloads(events)[1] == ("safety.allowed", {"toolName": tool, "classification": word})


def test_a_call_that_is_warned_is_allowed(world: World) -> None:
    world.do("doug", "act3", "plan")
    events = corpus_events(world, lambda: world.ask("mira", "act3", "plan"))
    assert [event.dotted for event in events] == ["tool.called", "safety.allowed"]


def test_event_of_a_warned_call_has_the_warning_and_its_reason(world: World) -> None:
    world.do("doug", "act3", "plan")
    decisions = []
    events = corpus_events(world, lambda: decisions.append(world.ask("mira", "act3", "plan")))
    payload = event_payloads(events)[1][1]
    assert payload == {
        "toolName": "act3", "classification": "high", "verdict": "warn", "reason": decisions[0].warning,
    }  # fmt: skip
    assert "doug" in payload["reason"]


@pytest.mark.parametrize(("tool", "state"), [("sure", "confirm"), ("asked", "ask"), ("never", "block")])
def test_refused_call_has_its_events(world: World, tool: str, state: str) -> None:
    decisions = []
    events = corpus_events(world, lambda: decisions.append(world.ask("mira", tool, "plan")))
    assert decisions[0].verdict == state
    assert [event.dotted for event in events] == ["tool.called", "safety.blocked"]
    assert event_payloads(events)[1][1] == {"toolName": tool, "reason": decisions[0].warning, "verdict": state}
    assert events[1].id == decisions[0].id, "what a person approves"


def test_without_a_warning_the_reason_is_made_from_the_conflicts() -> None:
    conflict = Conflict(Kind.HELD, "doug", "act4", 4, "doc:plan", 7, State.OPEN, 3.0, 20.0)
    for conflicts in ((conflict,), json.loads(json.dumps([{"kind": "held", "instance": "doug", "tool": "act4", "tier": 4, "key": "doc:plan", "id": 7, "state": "open", "age": 3.0}]))):  # fmt: skip
        entry = Entry(Event.INTERCEPT, "mira", seq=9, tool="act4", tier=4, verdict=Verdict.BLOCK, body={"conflicts": conflicts})  # fmt: skip
        reason = event_payloads(list(events_of(entry)))[1][1]["reason"]
        assert 'doug has an active action on "doc:plan"' in reason
    odd = Entry(Event.INTERCEPT, "mira", seq=9, tool="act4", tier=4, verdict=Verdict.BLOCK, body={"conflicts": [3], "params": 7})  # fmt: skip
    assert event_payloads(list(events_of(odd))) == [
        ("tool.called", {"name": "act4", "args": {}}),
        ("safety.blocked", {"toolName": "act4", "reason": "[Callosum] Tier 4 action blocked.", "verdict": "block"}),
    ]


def test_completed_call_has_its_event(world: World) -> None:
    decision = world.ask("mira", "act3", "plan")
    world.after(1.25)
    (event,) = corpus_events(world, lambda: world.end("mira", decision, result={"lines": 3, "token": "abc123"}))
    ((name, payload),) = event_payloads([event])
    assert (name, payload["name"], payload["output"]) == ("tool.completed", "act3", {"lines": 3, "token": "[redacted]"})
    assert payload["duration"] == pytest.approx(1250, abs=1), "milliseconds"
    assert (event.id, event.cause, event.instance) == (decision.id, f"{decision.id}.0", "mira")


@pytest.mark.parametrize(
    ("outcome", "result", "error"),
    [
        ("failed", {"error": "no such file"}, "no such file"),
        ("failed", {"error": {"code": 5}}, '{"code":5}'),
        ("failed", "went wrong", "went wrong"),
        ("failed", None, "failed"),
        ("unknown", None, "nobody knows how it ended"),
        ("cancelled", None, "cancelled: it was let through and did not run"),
    ],
)
def test_failed_call_and_unknown_outcome_have_their_events(world: World, outcome: str, result: Any, error: str) -> None:
    decision = world.ask("mira", "act3", "plan")
    events = corpus_events(world, lambda: world.end("mira", decision, outcome, result=result))
    assert event_payloads(events) == [("tool.failed", {"name": "act3", "error": error})]


def test_first_attempt_is_left_out_on_the_wire() -> None:
    entry = Entry(Event.COMPLETE, "mira", seq=9, action=3, tool="t", outcome=Outcome.FAILED)
    (event,) = events_of(entry)
    assert event.attempt == 1  # type: ignore[attr-defined]


def test_expired_lease_and_its_resolution_have_their_events(world: World) -> None:
    decision = world.ask("doug", "act3", "plan")
    world.after(3600)
    lapse, *_ = corpus_events(world, lambda: world.ask("mira", "act3", "plan"))
    assert event_payloads([lapse]) == [
        ("tool.failed", {"name": "act3", "error": "nobody knows how it ended: the lease ran out"})
    ]
    assert (lapse.instance, lapse.id, lapse.cause) == ("doug", decision.id, f"{decision.id}.0")
    events = corpus_events(world, lambda: world.gate.resolve(decision.id, happened=True, by="anna"))
    assert event_payloads(events) == [("tool.completed", {"name": "act3"})]


def test_action_that_did_not_happen_failed(world: World) -> None:
    decision = world.ask("doug", "act3", "plan")
    world.after(3600)
    events = corpus_events(world, lambda: world.gate.resolve(decision.id, happened=False, note="the file is not there"))
    assert event_payloads(events) == [("tool.failed", {"name": "act3", "error": "the file is not there"})]


def test_a_released_call_counts_as_done(world: World) -> None:
    world.ask("mira", "act3", "plan")
    events = corpus_events(world, lambda: world.gate.release("mira", "doc:plan"))
    assert [event.dotted for event in events] == ["tool.completed"]


def test_locks_renewals_and_queue_entries_are_no_tool_calls(world: World) -> None:
    def act() -> None:
        world.gate.lock("mira", "doc:plan", ttl=60)
        world.gate.lock("mira", "doc:plan", ttl=60)
        world.gate.release("mira", "doc:plan")
        world.gate.lock("mira", "doc:other", ttl=1)
        world.after(5)
        world.gate.lock("doug", "doc:other", ttl=1)
        world.gate.observe(60, by="anna")

    found = leases(world, act)
    first, second, third = (id for name, _, id, _ in found if name == "lease.taken")
    assert found == [
        ("lease.taken", "mira", first, None),
        ("lease.released", "mira", first, f"{first}.0"),
        ("lease.taken", "mira", second, None),
        ("lease.expired", "mira", second, f"{second}.0"),
        ("lease.taken", "doug", third, None),
    ]
    kinds = {entry.event for entry in world.store.entries()}
    assert kinds == {Event.LOCK, Event.RENEW, Event.RELEASE, Event.LAPSE, Event.OBSERVE}
    assert all(not events_of(entry) for entry in world.store.entries() if entry.event in (Event.RENEW, Event.OBSERVE))


@pytest.mark.parametrize("ends", ["complete", "release"])
def test_a_lease_of_a_call_is_taken_and_released(world: World, ends: str) -> None:
    decisions = []
    (taken,) = leases(world, lambda: decisions.append(world.ask("mira", "act3", "plan")))
    id = decisions[0].id
    assert taken == ("lease.taken", "mira", id, f"{id}.1")

    def end() -> None:
        world.end("mira", decisions[0]) if ends == "complete" else world.gate.release("mira", "doc:plan")

    assert leases(world, end) == [("lease.released", "mira", id, f"{id}.2")]


def test_expired_lease_is_reported_once_and_a_late_report_releases_nothing(world: World) -> None:
    decision = world.ask("doug", "act3", "plan")
    world.after(3600)
    found = leases(world, lambda: world.ask("mira", "act2", "plan"))
    assert found == [("lease.expired", "doug", decision.id, f"{decision.id}.2")]
    assert leases(world, lambda: world.end("doug", decision)) == []


@pytest.mark.parametrize("tool", ["look", "act2", "sure", "asked", "never"])
def test_call_without_a_lease_emits_no_lease_event(world: World, tool: str) -> None:
    assert leases(world, lambda: world.ask("mira", tool, "plan")) == []


@pytest.mark.parametrize(
    ("by", "channel", "shown_channel"),
    [
        ("anna", "console", "console"), ("", "cli", "cli"), ("anna", "", ""), ("anna (ops)", "chat", "chat"),
        ("anna (ops)", "", ""), ("", "", ""),
    ],
)  # fmt: skip
def test_answer_of_a_person_has_its_event(world: World, by: str, channel: str, shown_channel: str) -> None:
    for verb, name in ((world.gate.approve, "safety.approved"), (world.gate.deny, "safety.denied")):
        decision = world.ask("mira", "asked", name)
        (event,) = corpus_events(world, lambda verb=verb, decision=decision: verb(decision.id, by=by, channel=channel))  # type: ignore[misc]
        assert event_payloads([event]) == [(name, {"toolName": "asked", "channelId": shown_channel})]
        assert (event.instance, event.id, event.cause) == ("mira", decision.id, f"{decision.id}.1")


@pytest.mark.parametrize("event", list(Event))
@pytest.mark.parametrize("bare", [True, False])
def test_any_entry_can_be_derived(event: Event, bare: bool) -> None:
    body: dict[str, Any] = {} if bare else {"params": [1], "result": [object()], "by": 3, "note": 4, "warning": 5}
    entry = Entry(event, "mira", seq=9, body=body, keys=() if bare else (Key("a", Mode.READ),))
    for made in events_of(entry):
        assert json.loads(encode(made))["at"] == 9 / SECOND


def test_report_is_emitted_while_the_store_is_unreachable_and_named_afterwards() -> None:
    opening = Entry(Event.INTERCEPT, "mira", "default", 7, 7, "send", 3, Verdict.ALLOW, body={"callId": "c1"})
    report = Entry(Event.COMPLETE, "mira", "default", 8, 7, "send", 3, outcome=Outcome.DONE)
    away = [True]

    def find(seq: int) -> Entry | None:
        if away.pop():
            raise StoreUnavailable("the store is away")
        return opening if seq == 7 else None

    calls = OpeningCalls(find)
    (first,) = (event for event in calls.events_of(report) if isinstance(event, ToolCompleted))
    assert first.call_id is None
    away.append(False)
    (second,) = (event for event in calls.events_of(report) if isinstance(event, ToolCompleted))
    assert second.call_id == "c1"
