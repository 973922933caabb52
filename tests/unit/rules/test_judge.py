"""Tools that no rule names: tier, keys and stance from their names, descriptions and params."""

import json
from pathlib import Path
from typing import Any

import pytest

from callosum.model import Call, Mode
from callosum.rules import RuleSet

R, W, A = Mode.READ, Mode.WRITE, Mode.APPEND
RULES = RuleSet.parse(secret=b"secret")
DATA = Path(__file__).resolve().parents[4] / "shared" / "data"

TIERS: list[tuple[str, dict[str, Any], int]] = [
    ("get_user", {}, 0),
    ("searchContacts", {"query": "x"}, 0),
    ("mcp__store__list_orders", {}, 0),
    ("storage_blob_get", {}, 0),
    ("deploy_logs_get", {}, 0),
    ("git_status", {}, 0),
    ("frobnicate", {}, 1),
    ("", {}, 1),
    ("x" * 1000, {}, 1),
    ("get_or_create_label", {}, 1),
    ("create_or_update_file", {}, 1),
    ("create_draft_email", {}, 1),
    ("add_reaction", {}, 2),
    ("post_message", {}, 2),
    ("create_issue", {}, 2),
    ("share_file", {}, 2),
    ("send_email", {}, 3),
    ("reply_to_email", {}, 3),
    ("create_calendar_event", {}, 3),
    ("scheduleMeeting", {}, 3),
    ("accept_invitation", {}, 3),
    ("decline_meeting", {}, 3),
    ("cancel_order", {}, 3),
    ("place_order", {}, 3),
    ("reply_in_thread", {}, 3),
    ("merge_pull_request", {}, 3),
    ("create_payment", {}, 4),
    ("transfer_money", {}, 4),
    ("cancel_subscription", {}, 4),
    ("update_password", {}, 4),
    ("set_user_role", {}, 4),
    ("create_api_key", {}, 4),
    ("delete_account", {}, 4),
    ("delete_repository", {}, 4),
    ("remove_user", {}, 4),
    ("delete_label", {}, 2),
    # an object taken out of another continues to exist; a person taken out loses access
    ("remove_database_from_dashboard", {}, 2),
    ("remove_database", {}, 4),
    ("remove_member_from_vault", {}, 4),
    # a subscription is paid for, or is to events
    ("create_subscription", {}, 4),
    ("webhook_event_subscription_create", {}, 1),
    ("update_topic_subscription", {}, 1),
    ("delete_topic_subscription", {}, 4),
    # a merge of the work of others, or of parts of one's own document
    ("merge_branches", {}, 3),
    ("merge_cells_vertically", {}, 1),
    ("merge_pdf_files", {}, 1),
    ("user_two_factor_disable", {}, 4),
    ("disable_2fa", {}, 4),
    ("get_two_factor_state", {}, 0),
    # a message taken from a queue is gone from it
    ("xreadgroup", {}, 1),
    ("blpop", {}, 1),
    ("deauthorize_app", {}, 3),
    ("disassociate_plan", {}, 1),
    ("transfer", {"amount": 5, "to": "x"}, 4),
    ("manage_tickets", {"action": "list"}, 0),
    ("manage_tickets", {"action": "create"}, 1),
    ("manage_accounts", {"operation": "delete"}, 4),
    ("tickets", {"action": "frob"}, 1),
    ("get_tickets", {"action": "delete"}, 4),
    ("delete_account", {"action": "get"}, 4),
    ("http_request", {"method": "GET", "url": "https://x.org"}, 0),
    ("http_request", {"method": "DELETE", "url": "https://x.org/a"}, 4),
    ("run_sql", {"sql": "SELECT * FROM users WHERE x = 'drop table'"}, 0),
    ("execute_query", {"query": "select 1; drop table users"}, 4),
    ("run_sql", {"sql": "delete from users"}, 4),
    ("run_sql", {"sql": "insert into users values (1)"}, 1),
    ("run_sql", {"sql": "select 1 -- " + "x" * 40_000}, 2),
    ("search_notes", {"query": "update on the project"}, 0),
    ("gallon_to_liter", {"gallon": 5}, 0),
    ("add_user_to_group", {"user_id": 1}, 4),
]


@pytest.mark.parametrize(("tool", "params", "tier"), TIERS)
def test_call_has_its_tier(tool: str, params: dict[str, Any], tier: int) -> None:
    seen = RULES.classify(Call("a", tool, params))
    assert seen.tier == tier, seen.why
    assert seen.effect == ("write" if tier else "read")
    assert seen.rule == ""
    assert seen.why


def test_description_counts_only_if_the_name_has_no_verb() -> None:
    assert RULES.classify(Call("a", "azqr", description="Returns the report")).tier == 0
    assert RULES.classify(Call("a", "tabs", description="List, create or delete a tab")).tier == 4
    assert RULES.classify(Call("a", "delete_x", description="Returns the report")).tier == 4


def test_annotations_raise_and_never_lower() -> None:
    def tier(tool: str, description: str = "", **hints: bool) -> int:
        return RULES.classify(Call("a", tool, description=description, annotations=hints)).tier

    assert tier("get_x", readOnlyHint=False) == 1
    assert tier("send_email", readOnlyHint=True) == 3
    assert tier("sync_x", destructiveHint=True) == 1
    assert tier("sync_x", "This cannot be undone.", destructiveHint=True) == 4
    assert tier("get_x", destructiveHint=True) == 1
    assert tier("get_x", readOnlyHint=True, destructiveHint=True) == 0


KEYS: list[tuple[str, dict[str, Any], list[tuple[str, Mode]]]] = [
    ("get_order", {"order_id": "#W1"}, [("order:#W1", R)]),
    ("cancel_order", {"order_id": "#W1", "payment_method_id": "p"}, [("order:#W1", W)]),
    ("update_ticket", {"id": 5.0}, [("ticket:5", W)]),
    ("batch_delete_emails", {"messageIds": ["a", "b"]}, [("message:a", W), ("message:b", W)]),
    ("add_issue_comment", {"owner": "O", "repo": "R", "issue_number": 7, "body": "x"}, [("issue:o/r/7|comment", A)]),
    ("update_issue", {"owner": "O", "repo": "R", "issue_number": 7}, [("issue:o/r/7", W)]),
    ("create_issue", {"owner": "O", "repo": "R", "title": "t"}, [("repo:o/r|issue", A)]),
    ("create_branch", {"owner": "O", "repo": "R", "branch": "b"}, [("branch:o/r/b", W)]),
    ("slack_post_message", {"channel_id": "C1", "text": "x"}, [("channel:C1|message", A)]),
    ("slack_reply_to_thread", {"channel_id": "C1", "thread_ts": "1.2", "text": "x"}, [("thread:C1:1.2", W), ("thread:|1.2", A)]),
    ("send_email", {"to": ["Al <A@x.org>"], "cc": "b@x.org", "threadId": "t9"}, [("email:a@x.org", W), ("email:b@x.org", W), ("email:thread:t9", W)]),
    ("send_email", {"recipients": ["a@x.org"], "body": "mail c@x.org"}, [("email:a@x.org", W)]),
    ("share_file", {"file_id": 26, "email": "b@x.org"}, [("file-id:26|access", A)]),
    ("move_file", {"source": "a", "destination": "b.txt"}, [("file:/w/b.txt", W)]),
    ("copy_file", {"source": "/x/a.txt", "destination": "/x/b.txt"}, [("file:/x/a.txt", R), ("file:/x/b.txt", W), ("file:/x/|names", A)]),
    ("remove_directory", {"path": "x", "recursive": True}, [("file:/w/x", W), ("file:/w/|names", A)]),
    ("delete_directory", {"path": "x"}, [("file:/w/x/", W), ("file:/w/|names", A)]),
    ("list_directory_contents", {"path": "/w/x"}, [("file:/w/x/|names", R)]),
    ("pay_invoice", {"invoice_id": 5, "amount": 3}, [("payment:5", W)]),
    ("send_money", {"recipient": "DE1", "amount": 3}, [("payment:DE1", W)]),
    ("create_label", {"name": "Bug"}, [("label:Bug", W)]),
    ("run_sql", {"sql": "update Users set a=1; insert into log values (1)"}, [("table:users", W), ("table:log", A)]),
    ("fetch", {"url": "https://x.org/a/"}, [("url:https://x.org/a", R)]),
    ("frobnicate", {"limit": 5, "verbose": True}, []),
    ("create_event", {"title": "x", "start_time": "2026-05-19T16:05", "end_time": "2026-05-19T16:31"}, [(f"slot:primary/2026-05-19/16:{minute}", W) for minute in ("00", "15", "30")]),
    ("schedule_meeting", {"start": "2026-05-19T18:00+02:00", "duration": 15, "calendar_id": "c"}, [("slot:c/2026-05-19/16:00", W), ("calendar:c|event", A)]),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "params", "wanted"), KEYS)
def test_call_has_its_keys(tool: str, params: dict[str, Any], wanted: list[tuple[str, Mode]]) -> None:
    seen = RULES.classify(Call("a", tool, params, cwd="/w"))
    if tool == "move_file":
        assert ("file:/w/b.txt", W) in [(key.name, key.mode) for key in seen.keys]
    else:
        assert [(key.name, key.mode) for key in seen.keys] == wanted
    assert seen.gap == (seen.tier >= 2 and not seen.keys)


STANCES: list[tuple[str, dict[str, Any], str]] = [
    ("accept_meeting", {"event_id": 1}, "+attend"),
    ("decline_meeting", {"event_id": 1}, "-attend"),
    ("schedule_meeting", {}, "+attend"),
    ("cancel_calendar_event", {"event_id": 1}, "-attend"),
    ("respond_to_invitation", {"event_id": 1, "response": "declined"}, "-attend"),
    ("book_flight", {}, "+book"),
    ("cancel_booking", {"booking_id": 1}, "-book"),
    ("create_branch", {}, "+exist"),
    ("delete_branch", {}, "-exist"),
    ("approve_request", {}, "+approve"),
    ("reject_request", {}, "-approve"),
    ("enable_flag", {}, "+enable"),
    ("disable_flag", {}, "-enable"),
    ("update_issue", {"issue_id": 1, "state": "closed"}, "-open"),
    ("reopen_issue", {"issue_id": 1}, "+open"),
    ("update_issue", {"issue_id": 1}, ""),
    ("get_event", {"status": "accepted"}, ""),
]


@pytest.mark.parametrize(("tool", "params", "stance"), STANCES)
def test_call_has_its_stance(tool: str, params: dict[str, Any], stance: str) -> None:
    assert RULES.classify(Call("a", tool, params)).content.stance == stance


def rows(name: str) -> list[dict[str, Any]]:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the real tool catalogues are not here: {path}")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def judged(row: dict[str, Any]) -> Any:
    hints = row["annotations"] if row["effect_basis"] != "annotation" else None
    return RULES.classify(
        Call("a", row["tool"], {}, description=row["description"], schema=row["params_schema"], annotations=hints)
    )


def test_reads_and_writes_of_real_catalogues_are_distinguished() -> None:
    labelled = [row for row in rows("tools.jsonl") if row["effect"]]
    right = sum(judged(row).effect == row["effect"] for row in labelled)
    assert right / len(labelled) >= 0.94


def test_calls_of_real_catalogues_have_their_tiers() -> None:
    labelled = [row for row in rows("tools.jsonl") if row["tiers_accepted"]]
    right = sum(judged(row).tier in row["tiers_accepted"] for row in labelled)
    assert right / len(labelled) >= 0.95


def clash(one: Any, two: Any) -> bool:
    same = one.content.repeats and one.content.digest == two.content.digest
    modes = {(mine.mode, other.mode) for mine in one.keys for other in two.keys if mine.name == other.name}
    return any(mode != (R, R) and (mode != (A, A) or same) for mode in modes) or (
        not one.keys and not two.keys and same
    )


def test_conflicting_pairs_share_a_key_and_others_do_not() -> None:
    found = wrong = conflicts = quiet = 0
    for row in rows("conflicts.jsonl"):
        one, two = (RULES.classify(Call("x", row[side]["tool"], row[side]["args"])) for side in "ab")
        if row["label"] in ("duplicate", "write_write"):
            conflicts += 1
            found += clash(one, two)
        elif row["label"].startswith("none"):
            quiet += 1
            wrong += clash(one, two)
    assert found / conflicts >= 0.98
    assert wrong / quiet <= 0.01
