"""Which side a call takes, and when two sides are opposed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callosum.gate import LocalGate
from callosum.model import Call, Decision, Kind
from callosum.rulebook import Rulebook
from callosum.rules import RuleSet
from callosum.rules.opposites import SIDES, contrary
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore
from callosum.testing import ManualClock
from tests.support.world import gate_time, kinds

RULES = RuleSet.parse(secret=b"secret")


def stance(tool: str, params: dict[str, Any] | None = None) -> str:
    return RULES.classify(Call("a", tool, params or {})).content.stance


PAIRS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("accept_meeting", {}, "decline_meeting", {}),
    ("accept_invitation", {}, "decline_invitation", {}),
    ("accept_meeting", {}, "cancel_event", {}),
    ("create_calendar_event", {}, "delete_calendar_event", {}),
    ("schedule_meeting", {}, "cancel_meeting", {}),
    ("attend_event", {}, "leave_event", {}),
    ("calendar", {"action": "accept"}, "calendar", {"action": "decline_event"}),
    ("respond_to_invitation", {"response": "accepted"}, "respond_to_invitation", {"response": "declined"}),
    ("respond_to_event", {"response_status": "yes"}, "respond_to_event", {"response_status": "No"}),
    ("update_event_rsvp", {"attending": True}, "update_event_rsvp", {"attending": False}),
    ("rsvp", {"response": "going"}, "decline_event", {}),
    ("confirm_attendance", {"attending": True}, "confirm_attendance", {"attending": False}),
    ("reply_to_meeting_invite", {"status": "accepted"}, "reply_to_meeting_invite", {"status": "not going"}),
    ("book_flight", {}, "cancel_booking", {}),
    ("reserve_hotel", {}, "cancel_hotel", {}),
    ("place_order", {}, "cancel_order", {}),
    ("accept_order", {}, "reject_order", {}),
    ("order_item", {}, "cancel_item", {}),
    ("create_branch", {}, "delete_branch", {}),
    ("create_user", {}, "terminate_user", {}),
    ("restore_page", {}, "purge_page", {}),
    ("approve_request", {}, "reject_request", {}),
    ("approve_expense", {}, "decline_expense", {}),
    ("accept_request", {}, "deny_request", {}),
    ("review_request", {"decision": "approved"}, "review_request", {"decision": "request_changes"}),
    ("review_request", {"decision": "APPROVE"}, "review_request", {"decision": "REQUEST_CHANGES"}),
    ("decide_application", {"approved": True}, "decide_application", {"approved": False}),
    ("merge_pull_request", {}, "update_pull_request", {"state": "closed"}),
    ("merge_pull_request", {}, "close_pull_request", {}),
    ("approve_pull_request", {}, "close_pull_request", {}),
    ("reopen_pull_request", {}, "close_pull_request", {}),
    ("merge_branch", {}, "revert_branch", {}),
    ("enable_flag", {}, "disable_flag", {}),
    ("activate_user", {}, "deactivate_user", {}),
    ("update_flag", {"enabled": True}, "update_flag", {"enabled": False}),
    ("update_flag", {"enabled": True}, "disable_flag", {}),
    ("set_alarm", {"state": "on"}, "set_alarm", {"state": "off"}),
    ("update_webhook", {"is_active": True}, "update_webhook", {"disabled": True}),
    ("reopen_issue", {}, "update_issue", {"state": "closed"}),
    ("open_ticket", {}, "resolve_ticket", {}),
    ("update_ticket", {"status": "open"}, "update_ticket", {"status": "Resolved"}),
    ("lock_thread", {}, "unlock_thread", {}),
    ("update_document", {"locked": True}, "unlock_document", {}),
    ("subscribe_user", {}, "unsubscribe_user", {}),
    ("create_subscription", {}, "cancel_subscription", {}),
    ("mute_channel", {}, "unmute_channel", {}),
    ("follow_user", {}, "unfollow_user", {}),
    ("start_server", {}, "stop_server", {}),
    ("resume_job", {}, "pause_job", {}),
    ("archive_project", {}, "unarchive_project", {}),
    ("update_project", {"archived": True}, "unarchive_project", {}),
    ("publish_post", {}, "unpublish_post", {}),
    ("grant_access", {}, "revoke_access", {}),
    ("assign_task", {}, "unassign_task", {}),
    ("deploy_service", {}, "rollback_service", {}),
    ("pay_invoice", {}, "refund_invoice", {}),
    ("pin_message", {}, "unpin_message", {}),
    ("connect_device", {}, "disconnect_device", {}),
    ("register_user", {}, "unregister_user", {}),
    ("add_user_to_channel", {"channel": "c", "user": "u"}, "remove_user_from_channel", {"channel": "c", "user": "u"}),
    ("add_to_watchlist", {"stock": "A"}, "remove_stock_from_watchlist", {"symbol": "A"}),
]


@pytest.mark.parametrize(("one", "params", "other", "others"), PAIRS, ids=lambda value: str(value)[:40])
def test_verbs_with_two_sides_are_recognised(
    one: str, params: dict[str, Any], other: str, others: dict[str, Any]
) -> None:
    mine, theirs = stance(one, params), stance(other, others)
    assert mine.startswith("+"), mine
    assert contrary(mine) == theirs
    assert contrary(theirs) == mine


AGREE: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("accept_meeting", {}, "create_event", {}),
    ("respond_to_event", {"response": "yes"}, "respond_to_event", {"response": "accepted"}),
    ("approve_pull_request", {}, "merge_pull_request", {}),
    ("close_pull_request", {}, "update_pull_request", {"state": "closed"}),
    ("book_flight", {}, "confirm_booking", {}),
    ("disable_flag", {}, "update_flag", {"enabled": False}),
    ("create_issue", {}, "create_issue", {"state": "closed"}),
]


@pytest.mark.parametrize(("one", "params", "other", "others"), AGREE, ids=lambda value: str(value)[:40])
def test_verbs_with_one_side_are_recognised(
    one: str, params: dict[str, Any], other: str, others: dict[str, Any]
) -> None:
    assert stance(one, params) == stance(other, others) != ""


NONE: list[tuple[str, dict[str, Any]]] = [
    ("get_event", {"status": "accepted"}),
    ("list_orders", {"status": "cancelled"}),
    ("search_issues", {"state": "closed"}),
    ("update_issue", {"issue_id": 1, "title": "x"}),
    ("update_issue", {"state": "in_progress"}),
    ("respond_to_invitation", {"response": "tentative"}),
    ("respond_to_invitation", {"response": "no, " + "because " * 20}),
    ("send_email", {"to": "a@x.org", "body": "I decline"}),
    ("update_event", {"status": ["accepted"]}),
    ("update_event", {"status": None}),
    ("update_event", {"attending": "maybe"}),
    ("add_label", {"issue_id": 1}),
    ("write_file", {"path": "/a", "content": "closed"}),
    ("frobnicate", {}),
    ("", {"status": ""}),
]


@pytest.mark.parametrize(("tool", "params"), NONE)
def test_other_verbs_have_no_side(tool: str, params: dict[str, Any]) -> None:
    assert stance(tool, params) == ""


def test_every_side_has_its_contrary() -> None:
    sides = set(SIDES.values())
    assert {contrary(side) for side in sides} == sides
    assert contrary("") == contrary("attend") == ""


class TwoSessions:
    """Two sessions at one gate."""

    def __init__(self, folder: Path, rules: str | None = None) -> None:
        self.clock = ManualClock()
        path = folder / "tiers.json"
        if rules is not None:
            path.write_text(rules)
        self.gate = LocalGate(
            settings=Settings(state=folder), store=MemoryStore(clock=self.clock), rules=Rulebook(path, secret=b"s" * 32)
        )
        self.calls = 0

    def ask(self, who: str, tool: str, params: dict[str, Any]) -> Decision:
        self.clock.advance(30)
        self.calls += 1
        return self.gate.intercept(Call(who, tool, params, call_id=f"c{self.calls}", pause=True))

    def do(self, who: str, tool: str, params: dict[str, Any]) -> None:
        decision = self.ask(who, tool, params)
        assert decision.proceed, decision.warning
        self.gate.complete(who, id=decision.id)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[TwoSessions]:
    desk = TwoSessions(tmp_path)
    with gate_time(desk.clock):
        yield desk


OPPOSED: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("accept_meeting", {"event_id": 7}, "decline_meeting", {"event_id": 7}),
    ("respond_to_event", {"event_id": 7, "response": "accepted"}, "respond_to_event", {"event_id": 7, "response": "declined"}),
    ("respond_to_event", {"event_id": 7, "attending": True}, "respond_to_event", {"event_id": 7, "attending": False}),
    ("confirm_booking", {"booking_id": 7}, "cancel_booking", {"booking_id": 7}),
    ("approve_request", {"request_id": 7}, "reject_request", {"request_id": 7}),
    ("merge_pull_request", {"owner": "o", "repo": "r", "pull_number": 7}, "decline_pull_request", {"owner": "o", "repo": "r", "pull_number": 7}),
    ("create_repository", {"name": "site"}, "delete_repository", {"name": "site"}),
    ("pay_invoice", {"invoice_id": 7}, "refund_invoice", {"invoice_id": 7}),
    ("add_user_to_channel", {"channel": "c", "user": "u"}, "remove_user_from_channel", {"channel": "c", "user": "u"}),
]  # fmt: skip


@pytest.mark.parametrize(("one", "params", "other", "others"), OPPOSED, ids=lambda value: str(value)[:40])
def test_contrary_stance_of_another_session_is_a_conflict(
    desk: TwoSessions, one: str, params: dict[str, Any], other: str, others: dict[str, Any]
) -> None:
    desk.do("mira", one, params)
    decision = desk.ask("doug", other, others)
    assert not decision.proceed
    assert Kind.OPPOSED in kinds(decision)
    assert "; this call " in (decision.warning or "")


def test_the_same_session_may_change_its_mind(desk: TwoSessions) -> None:
    desk.do("mira", "accept_meeting", {"event_id": 7})
    assert desk.ask("mira", "decline_meeting", {"event_id": 7}).conflicts == ()


NOT_OPPOSED: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("accept_meeting", {"event_id": 7}, "decline_meeting", {"event_id": 8}),
    ("accept_meeting", {"event_id": 7}, "accept_meeting", {"event_id": 7}),
    ("create_branch", {"owner": "o", "repo": "r", "branch": "a"}, "delete_branch", {"owner": "o", "repo": "r", "branch": "b"}),
    ("create_issue", {"owner": "o", "repo": "r", "title": "A new one"}, "delete_issue", {"owner": "o", "repo": "r", "issue_number": 3}),
    ("create_comment", {"issue_id": 7, "body": "x"}, "delete_issue", {"issue_id": 7}),
    ("create_issue", {"owner": "o", "repo": "r", "title": "A new one"}, "delete_repository", {"owner": "o", "repo": "r"}),
    ("add_user_to_channel", {"channel": "c", "user": "u"}, "remove_user_from_channel", {"channel": "c", "user": "v"}),
    ("book_table", {"restaurant_id": 5}, "cancel_table", {"restaurant_id": 5}),
    ("update_ticket", {"ticket_id": 7, "status": "in_progress"}, "close_ticket", {"ticket_id": 7}),
]  # fmt: skip


@pytest.mark.parametrize(("one", "params", "other", "others"), NOT_OPPOSED, ids=lambda value: str(value)[:40])
def test_stances_on_different_keys_are_not_opposed(
    desk: TwoSessions, one: str, params: dict[str, Any], other: str, others: dict[str, Any]
) -> None:
    desk.do("mira", one, params)
    assert Kind.OPPOSED not in kinds(desk.ask("doug", other, others))


def test_stance_can_be_declared(tmp_path: Path) -> None:
    rules = {
        "rules": [
            {"name": tool, "tier": 3, "tool": tool, "contextKey": "launch:{params.launch}", "stance": side}
            for tool, side in (("greenlight", "+go"), ("scrub", "-go"))
        ]
        + [{"name": "append", "tier": 3, "tool": "append", "contextKey": {"key": "launch:{params.launch}", "mode": "append"}, "stance": "+go"}]
    }  # fmt: skip
    desk = TwoSessions(tmp_path, json.dumps(rules))
    with gate_time(desk.clock):
        desk.do("mira", "greenlight", {"launch": "x"})
        assert Kind.OPPOSED in kinds(desk.ask("doug", "scrub", {"launch": "x"}))
        assert kinds(desk.ask("ines", "scrub", {"launch": "y"})) == set()
        desk.do("mira", "append", {"launch": "z"})
        assert Kind.OPPOSED in kinds(desk.ask("doug", "scrub", {"launch": "z"}))  # a rule decides
