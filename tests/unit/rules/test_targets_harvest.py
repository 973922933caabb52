"""Ids in results: spelled as a change of the same thing spells them."""

import json
from typing import Any

import pytest

from callosum.model import Call, Mode
from callosum.rules import RuleSet
from callosum.rules.harvest import harvest
from callosum.rules.keys import MAX_KEYS
from tests.support.cpu import cpu_within

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
    ("list_issues", {**REPO, "state": "open"}, [{"number": 7}], "update_issue", {**REPO, "issue_number": 7}),
    ("list_issue_comments", {**REPO, "issue_number": 7}, [{"id": 9}], "update_comment", {**REPO, "comment_id": 9}),
    ("find_customer_orders", {"status": "open"}, {"results": [{"order_id": "W1"}]}, "cancel_order", {"order_id": "W1"}),
    ("search_calendar_events", {"query": "x", "date": "2026-05-15"}, [{"id_": "24"}], "cancel_event", {"event_id": 24}),
    ("list_people", {}, [{"person_id": 5}], "update_user", {"user_id": 5}),
]


def harvested_keys(tool: str, params: dict[str, Any], result: Any) -> list[str]:
    """Return the keys in the result of a read, as the gate computes them: by the read's own keys."""
    harvested = harvest(tool, RULES.classify(Call("a", tool, params, cwd="/w")).keys, result)
    assert {key.mode for key in harvested} <= {Mode.READ}
    return [key.name for key in harvested]


@pytest.mark.parametrize(("tool", "params", "result", "changing", "changed"), CASES)
def test_listed_objects_count_as_read(
    tool: str, params: dict[str, Any], result: Any, changing: str, changed: dict[str, Any]
) -> None:
    change = RULES.classify(Call("a", changing, changed))
    assert change.keys[0].name in harvested_keys(tool, params, result)


def test_ids_of_references_are_not_harvested() -> None:
    assert harvested_keys("list_orders", {}, [{"order_id": 1, "customer_id": 5, "id": 9}]) == ["order:1"]
    assert harvested_keys("list_orders", {}, [{"customer_id": 5}]) == []


def test_ids_of_the_parts_of_an_object_are_not_harvested() -> None:
    order = {"id": "W1", "customer": {"id": 5}, "items": [{"id": 8}], "linked": {"order_id": "W2"}}
    assert harvested_keys("list_orders", {}, {"orders": [order]}) == ["order:W1", "order:W2"]


def test_a_text_is_read_line_by_line() -> None:
    """YAML and what looks like it; the ids that stand farthest out, unless they say whose they are."""
    yaml = "- content: |\n    id: 99\n  filename: a.docx\n  id_: '3'\n- filename: b.docx\n  id_: '4'\n"
    assert harvested_keys("search_files", {"query": "x"}, yaml) == ["file-id:3", "file-id:4"]
    assert harvested_keys("list_orders", {}, "Order ID: W1\nCustomer ID: 5\nid: 7\n") == ["order:W1"]
    assert harvested_keys("list_orders", {}, "nothing to see\nnor here\n") == []


def test_read_of_one_object_gives_no_further_ids() -> None:
    assert harvested_keys("get_order", {"order_id": "W1"}, {"id": "W1", "items": [{"id": 8}]}) == []
    assert harvested_keys("read_file", {"path": "/w/a.yml"}, "id: 5\nfile_id: 7\n") == []
    assert harvested_keys("search_files_by_filename", {"filename": "a.docx"}, [{"id": 3}]) == ["file-id:3"]


@pytest.mark.parametrize(
    "result", [None, "", "no json", "{", "[" * 100_000, 5, True, [[]], {"id": None}, {"id": [1]}, {5: 6}, {"ok": True}]
)
def test_result_without_ids_gives_none(result: Any) -> None:
    assert harvested_keys("list_orders", {}, result) == []
    assert harvested_keys("frobnicate", {}, result) == []


def test_harvest_is_bounded() -> None:
    with cpu_within(2.0):
        assert len(harvested_keys("list_orders", {}, [{"id": i} for i in range(200_000)])) == MAX_KEYS
        assert harvested_keys("list_orders", {}, json.dumps([{"id": i} for i in range(200_000)])) == []
        endless: dict[str, Any] = {"id": "W1"}
        endless["more"] = [endless, endless]
        assert harvested_keys("list_orders", {}, endless) == ["order:W1"]
        lines = "".join(f"id: {i}\n" for i in range(5_000))
        assert len(harvested_keys("list_orders", {}, lines)) == MAX_KEYS
        for hostile in ('id: "' * 40_000, " " * 200_000 + "\n", "a " * 100_000 + "\n:", ("x" * 40 + "\n") * 6_000):
            assert harvested_keys("list_orders", {}, hostile) == []
