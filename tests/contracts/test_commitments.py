"""Commitments outlive rules' windows, rotation, restarts and copies, and end when they should."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.model import DAY, SECOND, Action, Call, Commits, Decision, Kind, Verdict
from callosum.policy.commitments import LASTS
from callosum.rulebook import Rulebook
from callosum.settings import Settings
from callosum.stores import copy as copies
from callosum.stores.base import Store
from callosum.stores.memory import MemoryStore
from callosum.stores.postgres import PostgresStore
from callosum.stores.redis import RedisStore
from callosum.stores.sqlite import SqliteStore
from callosum.testing import ManualClock

RULES = Rulebook(None, secret=b"s" * 32)
_SETTINGS = Settings(state=Path("nowhere"), corpus_log=False, journal_age=36500 * 86400.0)
ACCEPT, DECLINE = "accept_invitation", "decline_invitation"


class Desk:
    """Sessions of a gate on one store, with a clock that is set by hand."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.clock = clock
        self.store = store
        self.gate = LocalGate(settings=_SETTINGS, store=store, rules=RULES, sleep=clock.sleep)

    def ask(self, actor: str, tool: str, *, pause: bool = True, **params: Any) -> Decision:
        instance, _, session = actor.partition("/")
        commits = params.pop("commits", None)
        namespace = params.pop("namespace", "default")
        self.clock.advance(2)
        return self.gate.intercept(
            Call(instance, tool, params, session=session, pause=pause, commits=commits, namespace=namespace)
        )

    def do(self, actor: str, tool: str, *, result: Any = None, outcome: str | None = None, **params: Any) -> Decision:
        decision = self.ask(actor, tool, **params)
        assert decision.proceed, decision
        instance, _, session = actor.partition("/")
        report = self.gate.complete(
            instance, id=decision.id, session=session, result=result, outcome=outcome,
            namespace=params.get("namespace", "default"),
        )  # fmt: skip
        assert report.ok, report
        return decision

    def days(self, number: float, *, rotates: bool = True) -> None:
        """Let days pass in which another session works on another key, and upkeep and rotation run every night."""
        while number > 0:
            self.clock.advance(86_400 * min(number, 1))
            number -= 1
            self.do("anna/desk", "create_note", note_id="n", text=f"day {self.clock.now}")
            if rotates:
                until, horizon = self.clock.now, self.clock.now - 7 * DAY
                for _ in range(4):
                    self.store.maintain(horizon)
                self.store.take(until, horizon, delete=True)

    def commitment_ids(self, *keys: str) -> list[int]:
        return [action.id for action in self.store.commitments("default", keys or None)]


@pytest.fixture(params=["memory", "sqlite"])
def opens(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Callable[[], Store]]:
    """Yield a function that opens the same store again, as a new process would."""
    opened: list[Store] = []
    memory = MemoryStore(clock=clock)
    redis = request.getfixturevalue("redis_server").url() if request.param == "redis" else ""

    def open_() -> Store:
        store: Store
        if request.param == "memory":
            store = memory
        elif request.param == "redis":
            store = RedisStore(redis, clock=clock)
        elif request.param == "postgres":
            store = PostgresStore(request.getfixturevalue("postgres_url"), clock=clock)
        else:
            store = SqliteStore(tmp_path / "g.db", clock=clock)
        opened.append(store)
        return store

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def desk(opens: Callable[[], Store], clock: ManualClock) -> Desk:
    return Desk(opens(), clock)


def opposed(decision: Decision) -> list[int]:
    return [conflict.id for conflict in decision.conflicts if conflict.kind is Kind.OPPOSED]


def test_a_side_taken_on_monday_pauses_the_contrary_on_tuesday(desk: Desk) -> None:
    monday = desk.do("mira/chat", ACCEPT, event_id="e1")
    desk.days(1)
    tuesday = desk.ask("doug/mail", DECLINE, event_id="e1", pause=False)
    assert tuesday.verdict is Verdict.CONFIRM
    assert opposed(tuesday) == [monday.id]
    assert 'mira/chat already accepted "event:e1"' in (tuesday.warning or "")
    assert "; this call declines it" in (tuesday.warning or "")


def test_within_the_window_of_the_rule_a_commitment_changes_nothing(desk: Desk) -> None:
    desk.do("mira/chat", ACCEPT, event_id="e1")
    assert desk.ask("doug/mail", DECLINE, event_id="e1", pause=False).verdict is Verdict.WARN


def test_repeat_proceeds_and_ends_the_commitment(desk: Desk) -> None:
    first = desk.do("mira/chat", ACCEPT, event_id="e1")
    desk.days(3)
    assert not desk.ask("doug/mail", DECLINE, event_id="e1").proceed
    assert desk.commitment_ids() == [first.id]
    second = desk.do("doug/mail", DECLINE, event_id="e1")
    assert desk.commitment_ids() == [second.id]
    desk.days(2)
    assert desk.ask("carl/desk", DECLINE, event_id="e1").proceed
    opposed_ids = opposed(desk.ask("dora/desk", ACCEPT, event_id="e1"))
    assert second.id in opposed_ids
    assert first.id not in opposed_ids


def test_contrary_action_that_failed_does_not_end_the_commitment(desk: Desk) -> None:
    first = desk.do("mira/chat", ACCEPT, event_id="e1")
    desk.days(2)
    desk.ask("doug/mail", DECLINE, event_id="e1")
    desk.do("doug/mail", DECLINE, event_id="e1", outcome="failed")
    assert desk.commitment_ids() == [first.id]
    assert opposed(desk.ask("carl/desk", DECLINE, event_id="e1")) == [first.id]


def test_owner_may_reverse_its_commitment_without_a_conflict(desk: Desk) -> None:
    desk.do("mira/chat", ACCEPT, event_id="e1")
    desk.days(2)
    again = desk.do("mira/chat", DECLINE, event_id="e1")
    assert desk.commitment_ids() == [again.id]
    desk.days(1)
    assert desk.ask("doug/mail", DECLINE, event_id="e1").proceed


@pytest.mark.parametrize("days", [8, 20, 29])
def test_rotation_and_upkeep_keep_a_commitment_that_counts(desk: Desk, days: int) -> None:
    first = desk.do("mira/chat", ACCEPT, event_id="e1")
    desk.days(days)
    assert desk.store.action("default", first.id) is not None
    assert desk.commitment_ids("event:e1") == [first.id]
    assert opposed(desk.ask("doug/mail", DECLINE, event_id="e1")) == [first.id]


def test_commitment_ends_and_leaves_after_thirty_days(desk: Desk) -> None:
    first = desk.do("mira/chat", ACCEPT, event_id="e1")
    desk.days(40)
    assert desk.store.action("default", first.id) is None
    assert desk.commitment_ids() == []
    assert desk.ask("doug/mail", DECLINE, event_id="e1").verdict is Verdict.ALLOW


@pytest.mark.parametrize("opens", ["sqlite", "redis", "postgres"], indirect=True)
def test_commitment_survives_opening_the_store_again(opens: Callable[[], Store], clock: ManualClock) -> None:
    first = Desk(opens(), clock).do("mira/chat", ACCEPT, event_id="e1")
    later = Desk(opens(), clock)
    later.days(2)
    assert opposed(later.ask("doug/mail", DECLINE, event_id="e1")) == [first.id]


def test_date_in_the_call_ends_the_commitment(desk: Desk) -> None:
    soon, far = (desk.clock.now // SECOND + days * 86_400 for days in (3, 45))
    desk.do("mira/chat", "accept_event", event_id="soon", end=_iso(soon))
    first = desk.do("mira/chat", "accept_event", event_id="far", end=_iso(far))
    desk.days(40)
    assert desk.commitment_ids() == [first.id]
    assert desk.ask("doug/mail", "decline_event", event_id="soon").proceed
    assert opposed(desk.ask("doug/mail", "decline_event", event_id="far")) == [first.id]
    desk.days(6)
    assert first.id not in desk.commitment_ids()


def test_date_in_the_result_ends_the_commitment(desk: Desk) -> None:
    soon = _iso(desk.clock.now // SECOND + 2 * 86_400)
    first = desk.do("mira/chat", "accept_event", event_id="e1", result={"event": {"id": "e1", "end": soon}})
    assert desk.commitment_ids() == [first.id]
    desk.days(3)
    assert desk.commitment_ids() == []
    assert desk.ask("doug/mail", "decline_event", event_id="e1").proceed


def test_two_different_bookings_of_one_slot_are_opposed(desk: Desk) -> None:
    at: dict[str, Any] = {"start": _iso(desk.clock.now // SECOND + 5 * 86_400)}
    first = desk.do("mira/chat", "create_event", title="Bank", **at)
    desk.days(2)
    second = desk.ask("doug/mail", "create_event", title="Dentist", **at)
    assert opposed(second) == [first.id]
    assert "this call books it for something else" in (second.warning or "")


def test_created_thing_is_found_by_the_id_in_the_result(desk: Desk) -> None:
    at: dict[str, Any] = {"start": _iso(desk.clock.now // SECOND + 15 * 86_400)}
    first = desk.do("mira/chat", "create_event", title="Bank", result={"id": "new-1"}, **at)
    desk.days(9)
    assert desk.commitment_ids("event:new-1") == [first.id]
    assert opposed(desk.ask("doug/mail", "cancel_event", event_id="new-1")) == [first.id]
    desk.do("doug/mail", "cancel_event", event_id="new-1")
    assert first.id not in desk.commitment_ids()
    assert desk.ask("carl/desk", "create_event", title="Dentist", **at).proceed


def test_moving_a_meeting_frees_its_slot(desk: Desk) -> None:
    day = desk.clock.now // SECOND + 5 * 86_400
    desk.do("mira/chat", "create_event", title="Bank", start=_iso(day), result={"id": "new-1"})
    moved = desk.do("doug/mail", "update_event", event_id="new-1", start=_iso(day + 86_400))
    desk.days(1)
    assert desk.ask("carl/desk", "create_event", title="Dentist", start=_iso(day)).proceed
    assert opposed(desk.ask("dora/x", "create_event", title="Choir", start=_iso(day + 86_400))) == [moved.id]


def test_instance_owns_a_commitment_after_its_session_has_ended(desk: Desk) -> None:
    first = desk.do("mira/chat", ACCEPT, event_id="e1")
    desk.days(1)
    assert opposed(desk.ask("mira/other", DECLINE, event_id="e1")) == [first.id]
    desk.gate.heard("mira", "SessionEnd", {}, session="chat")
    assert opposed(desk.ask("doug/mail", DECLINE, event_id="e1")) == [first.id]
    assert desk.ask("mira/third", DECLINE, event_id="e1").verdict is Verdict.ALLOW


def test_end_of_another_session_does_not_hand_on_the_commitment(desk: Desk) -> None:
    first = desk.do("mira/chat", ACCEPT, event_id="e1")
    desk.gate.heard("mira", "SessionEnd", {}, session="mail")
    desk.days(1)
    assert opposed(desk.ask("mira/other", DECLINE, event_id="e1")) == [first.id]


def test_contrary_call_of_tier_4_asks_if_the_host_can_pause_and_never_blocks(desk: Desk) -> None:
    first = desk.do("mira/chat", "accept_event", event_id="e1")
    desk.days(1)
    asked = desk.ask("doug/mail", "delete_event", event_id="e1")
    assert (asked.tier, asked.verdict, opposed(asked)) == (4, Verdict.ASK, [first.id])
    paused = desk.ask("carl/desk", "delete_event", event_id="e1", pause=False)
    assert (paused.tier, paused.verdict) == (4, Verdict.CONFIRM)
    assert desk.ask("carl/desk", "delete_event", event_id="e1", pause=False).proceed


def test_a_declared_commitment_counts_on_any_key(desk: Desk) -> None:
    declared = Commits("approve", what="the offer's text", to="the bank")
    first = desk.do("mira/chat", "update_document", document_id="d1", commits=declared)
    desk.days(9)
    (commitment,) = desk.store.commitments("default")
    assert (commitment.id, commitment.content.commitment and commitment.content.commitment.to) == (first.id, "the bank")
    contrary = desk.ask("doug/mail", "update_document", document_id="d1", commits=Commits("reject"))
    assert (contrary.verdict, opposed(contrary)) == (Verdict.CONFIRM, [first.id])
    assert '"the offer\'s text"' in (contrary.warning or "")
    assert desk.ask("doug/mail", "update_document", document_id="d1").verdict is not Verdict.CONFIRM


def test_declared_commitment_may_last_longer_than_thirty_days(desk: Desk) -> None:
    until = (desk.clock.now + 2 * LASTS) / SECOND
    first = desk.do("mira/chat", "update_document", document_id="d1", commits=Commits("accept", until=until))
    desk.days(45)
    assert desk.commitment_ids() == [first.id]


@pytest.mark.parametrize(
    ("declared", "at"),
    [
        (Commits("perhaps"), "commits.side"), (Commits(""), "commits.side"),
        (Commits("accept", until=float("inf")), "commits.until"), (Commits("accept", until=-3), "commits.until"),
        (Commits("accept", until=True), "commits.until"), (Commits("accept", what="x" * 300), "commits.what"),
        ({"side": "accept"}, "commits"),
    ],
)  # fmt: skip
def test_invalid_declaration_is_refused(clock: ManualClock, declared: Any, at: str) -> None:
    with pytest.raises(ConfigError) as error:
        Desk(MemoryStore(clock=clock), clock).ask("mira/chat", "update_document", document_id="d1", commits=declared)
    assert error.value.at == at


def test_commitments_are_listed_by_namespace_and_key(desk: Desk) -> None:
    first = desk.do("mira/chat", ACCEPT, event_id="e1")
    second = desk.do("mira/chat", "confirm_booking", booking_id="b1")
    other = desk.do("mira/chat", ACCEPT, event_id="e1", namespace="other")
    desk.do("mira/chat", "enable_feature", feature_id="f1")

    def ids(actions: list[Action]) -> list[int]:
        return [action.id for action in actions]

    assert ids(desk.store.commitments("default")) == [first.id, second.id]
    assert ids(desk.store.commitments("default", ["booking:b1", "event:e9"])) == [second.id]
    assert ids(desk.store.commitments("other", ["event:e1"])) == [other.id]
    assert ids(desk.store.commitments(None)) == [first.id, second.id, other.id]


def test_opposite_sides_without_a_commitment_are_allowed_after_the_window(desk: Desk) -> None:
    """This is the negative control: opposite sides on a thing that everybody may change."""
    desk.do("mira/chat", "enable_feature", feature_id="f1")
    desk.days(1)
    assert desk.ask("doug/mail", "disable_feature", feature_id="f1").verdict is Verdict.ALLOW


@pytest.mark.parametrize("engine", ["sqlite", "redis", "postgres"])
def test_store_copy_keeps_commitments(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, engine: str
) -> None:
    source = SqliteStore(tmp_path / "from" / "gate.db", clock=clock)
    desk = Desk(source, clock)
    at: dict[str, Any] = {"start": _iso(clock.now // SECOND + 15 * 86_400)}
    first = desk.do("mira/chat", ACCEPT, event_id="e1")
    second = desk.do("mira/chat", "create_event", title="Bank", result={"id": "new-1"}, **at)
    source.close()
    there = Settings(state=tmp_path / "to")
    if engine == "redis":
        there = Settings(state=tmp_path / "to", store=request.getfixturevalue("redis_server").url())
    elif engine == "postgres":
        there = Settings(state=tmp_path / "to", store=request.getfixturevalue("postgres_url"))
    with (
        closing(copies.opened(Settings(state=tmp_path / "from"))) as one,
        closing(copies.opened(there, create=True)) as other,
    ):
        assert copies.copy(one.engine, other.engine).verified
    store = _opened(engine, there, clock)
    try:
        desk = Desk(store, clock)
        store.accept(proven=True)
        desk.days(10)
        assert desk.commitment_ids() == [first.id, second.id]
        assert opposed(desk.ask("doug/mail", DECLINE, event_id="e1")) == [first.id]
        assert opposed(desk.ask("doug/mail", "cancel_event", event_id="new-1")) == [second.id]
    finally:
        store.close()


def _opened(engine: str, settings: Settings, clock: ManualClock) -> Store:
    if engine == "sqlite":
        return SqliteStore(settings.state / "gate.db", clock=clock)
    if engine == "redis":
        return RedisStore(settings.store, clock=clock)
    return PostgresStore(settings.store, clock=clock)


def _iso(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds // 900 * 900, UTC):%Y-%m-%dT%H:%M:00Z}"
