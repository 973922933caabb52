"""Ids in results: spelled as a change of the same thing spells them."""

import json
import time
from typing import Any

import pytest

from callosum.model import Call, Mode
from callosum.rules import RuleSet
from callosum.rules.harvest import harvest
from callosum.rules.keys import MAX_KEYS

RULES = RuleSet.parse(secret=b"secret")
REPO = {"owner": "Acme", "repo": "Site"}

CASES: list[tuple[str, dict[str, Any], Any, str, dict[str, Any]]] = [
    ("list_orders", {}, [{"id": "W1", "customer_id": 5}], "cancel_order", {"order_id": "W1"}),
    ("list_orders", {}, {"data": {"orders": [{"orderId": "W1"}]}}, "cancel_order", {"order_id": "W1"}),
    ("search_emails", {"query": "x"}, '{"result": [{"id": 7, "sender": "a@x.org"}]}', "delete_email", {"email_id": 7}),
    ("list_issues", REPO, [{"number": 7, "title": "x"}], "update_issue", {**REPO, "issue_number": 7}),
    ("get_calendar_events", {"day": "2026-05-19"}, [{"event_id": "24"}], "cancel_event", {"event_id": "24"}),
    ("search_files", {"query": "x"}, [{"file_id": "3", "name": "x"}], "append_to_file", {"file_id": "3"}),
    ("list_tickets", {}, {"content": [{"type": "text", "text": '[{"id": 5}]'}]}, "update_ticket", {"id": 5}),
    ("list_people", {}, [{"person_id": 5}], "update_user", {"user_id": 5}),
]


@pytest.mark.parametrize(("tool", "params", "result", "changing", "changed"), CASES)
def test_what_was_listed_was_looked_at(
    tool: str, params: dict[str, Any], result: Any, changing: str, changed: dict[str, Any]
) -> None:
    found = harvest(tool, params, result)
    assert {key.mode for key in found} == {Mode.READ}
    change = RULES.classify(Call("a", changing, changed))
    assert change.keys[0].name in {key.name for key in found}


def test_references_are_not_taken() -> None:
    assert [key.name for key in harvest("list_orders", {}, [{"order_id": 1, "customer_id": 5, "id": 9}])] == ["order:1"]
    assert harvest("list_orders", {}, [{"customer_id": 5}]) == ()


@pytest.mark.parametrize(
    "result", [None, "", "no json", "{", "[" * 100_000, 5, True, [[]], {"id": None}, {"id": [1]}, {5: 6}]
)
def test_nothing_to_find(result: Any) -> None:
    assert harvest("list_orders", {}, result) == ()


def test_bounds() -> None:
    started = time.process_time()
    assert len(harvest("list_orders", {}, [{"id": i} for i in range(200_000)])) == MAX_KEYS
    assert harvest("list_orders", {}, json.dumps([{"id": i} for i in range(200_000)])) == ()
    endless: dict[str, Any] = {"id": "W1"}
    endless["more"] = [endless, endless]
    assert [key.name for key in harvest("list_orders", {}, endless)] == ["order:W1"]
    assert time.process_time() - started < 1.0
