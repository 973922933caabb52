"""Keys of calls that name their target in few words: a thread, a name, a reference, a container."""

from typing import Any

import pytest

from callosum.model import Call, Mode, overlap
from callosum.rules import RuleSet, keys

RULES = RuleSet.parse(None, secret=b"s" * 32)
R, W, A = Mode.READ, Mode.WRITE, Mode.APPEND


def keyed(tool: str, params: dict[str, Any], rules: RuleSet = RULES) -> dict[str, Mode]:
    return {key.name: key.mode for key in rules.classify(Call("mira", tool, params)).keys}


def tier(tool: str, params: dict[str, Any]) -> int:
    return RULES.classify(Call("mira", tool, params)).tier


@pytest.mark.parametrize(
    ("tool", "params", "wanted"),
    [
        # a thread alone may be one of mails or of a chat; a mail says so
        ("send_reply", {"thread_id": "t1", "content": "Yes"}, {"thread:|t1": W, "email:thread:t1": W}),
        ("reply_to_thread", {"thread_id": "t1", "message": "Yes"}, {"thread:|t1": W, "email:thread:t1": W}),
        ("reply_to_mail", {"thread_id": "t1", "body": "Yes"}, {"email:thread:t1": W}),
        ("gmail_reply", {"threadId": "t1", "body": "Yes"}, {"email:thread:t1": W}),
        ("email_reply", {"thread_id": "t1", "body": "Yes"}, {"email:thread:t1": W}),
        ("send_email", {"to": "a@x.org", "thread_id": "t1"}, {"email:a@x.org": W, "email:thread:t1": W}),
        # whoever says with whom the thread is only appends to the thread alone
        ("message", {"action": "send", "target": "andy", "replyTo": "m1"}, {"thread:andy:m1": W, "thread:|m1": A}),
        ("send_message", {"channel": "C7", "thread_id": "t1", "text": "Yes"}, {"thread:C7:t1": W, "thread:|t1": A}),
        ("get_thread", {"thread_id": "t1"}, {"thread:|t1": R, "email:thread:t1": R}),
        ("archive_thread", {"thread_id": "t1"}, {"thread:|t1": W, "email:thread:t1": W}),
        # a draft says nothing yet
        ("draft_email", {"to": "a@x.org", "threadId": "t1"}, {"email:a@x.org": W, "email:thread:t1": W}),
        # where answers go, and who sends it
        ("send_email", {"to": "a@x.org", "replyTo": "desk@x.org"}, {"email:a@x.org": W}),
        ("send_email", {"to": "a@x.org", "from": "mira@x.org"}, {"email:a@x.org": W}),
        ("send_email", {"to": "a@x.org", "in_reply_to": "<1@x.org>"}, {"email:a@x.org": W, "email:thread:<1@x.org>": W}),
        # channels and people by name
        ("send_message", {"channel": "general"}, {"channel:general|message": A, "channel:#general|message": A}),
        ("slack_send_message", {"channel": "#ops"}, {"channel:#ops|message": A}),
        ("send_discord_message", {"channel": "1184"}, {"channel:1184|message": A}),
        ("send_message", {"user": "Bob Hill", "text": "Yes"}, {"channel:Bob Hill|message": A}),
        ("send_sms", {"contact": "Anna", "message": "Yes"}, {"channel:Anna|message": W}),
        # what is paid or taken back
        ("create_refund", {"charge": "ch_1", "amount": 5}, {"payment:ch_1": W}),
        ("create_refund", {"payment_intent": "pi_1", "amount": 5}, {"payment:pi_1": W}),
        ("create_refund", {"charge": "ch_1", "order": "o-1"}, {"payment:o-1": W, "payment:ch_1": W}),
        ("pay_bill", {"to": "acme", "charge": 12.5, "bill": "12.50"}, {"payment:acme": W}),
        ("delete_disk", {"disk_id": "d1", "subscription": "s1"}, {"disk:d1": W}),
        # ids by the shape of their names
        ("start_vm", {"vmid": 100}, {"vm:100": W}),
        ("delete_user", {"uid": "u1"}, {"user:u1": W}),
        ("update_post", {"slug": "hello"}, {"post:hello": W}),
        ("update_dashboard", {"dashboardUid": "d1"}, {"dashboard:d1": W}),
        ("update_issue", {"issue_key": "S-7"}, {"issue:S-7": W}),
        ("click", {"uid": "1_5"}, {}),
        # content is no key
        ("set_version", {"version": 16}, {}),
        ("upgrade_version", {"version": 16, "server": "a"}, {}),
        ("update_range", {"spreadsheet_id": "s1", "range": "A1"}, {"spreadsheet:s1": W}),
        ("set_paid", {"paid": "2024-05-01"}, {}),
        ("set_hybrid", {"hybrid": "on"}, {}),
        ("set_label", {"issue_id": "7", "label": "bug"}, {"issue:7": W}),
        ("update_item", {"item_id": "i1", "sort_key": "s", "range_key": "r"}, {"item:i1": W}),
        ("update_order", {"order_id": "o1", "idempotency_key": "k1"}, {"order:o1": W}),
        # nor is what redaction hides
        ("update_site", {"slug": "a", "api_key": "k-123456789"}, {"site:a": W}),
        ("update_card", {"card_id": "c1", "card_number": "4111111111111111"}, {"card:c1": W}),
        ("verify_card", {"card_number": "4111111111111111"}, {"card:/|some": R}),
        ("update_repo", {"repo_id": "r1", "deploy_key": "ssh-rsa AAAA"}, {"repo:r1": W}),
        # containers
        ("airtable_update", {"baseId": "b", "recordId": "r"}, {"record:r": W, "base:b/record:r": W}),
        ("airtable_update", {"baseId": "b", "tableId": "t"}, {"table:t": W, "base:b/table:t": W}),
        ("update_base", {"base_id": "b"}, {"base:b": W}),
        ("delete_base", {"base_id": "b"}, {"base:b": W, "base:b/": W}),
        ("put_object", {"bucket": "b", "key": "k"}, {"bucket:b/object:k": W, "object:k": A}),
        ("get_object", {"bucket": "b", "key": "k"}, {"bucket:b/object:k": R, "object:k": R}),
        ("update_row", {"spreadsheet_id": "s", "row": 5}, {"spreadsheet:s/row:5": W, "row:5": A}),
    ],
)  # fmt: skip
def test_tool_has_its_named_keys(tool: str, params: dict[str, Any], wanted: dict[str, Mode]) -> None:
    assert keyed(tool, params) == wanted


@pytest.mark.parametrize(
    ("tool", "params", "wanted"),
    [
        ("send_reply", {"thread_id": "t1", "content": "Yes"}, 3),
        ("send_message", {"channel": "ops", "thread_ts": "1.2", "text": "Yes"}, 3),
        ("send_message", {"channel": "ops", "text": "Yes"}, 2),
        ("resolve_review_thread", {"threadId": "t1"}, 2),
        ("create_comment", {"threadId": "t1", "body": "Yes"}, 2),
        ("get_thread", {"thread_id": "t1"}, 0),
    ],
)
def test_message_in_a_thread_is_tier_3(tool: str, params: dict[str, Any], wanted: int) -> None:
    assert tier(tool, params) == wanted


def test_user_rule_for_a_thread_with_its_addressee_also_gives_the_thread() -> None:
    rules = RuleSet.parse(
        '{"rules": [{"tier": 3, "tool": "talk", "contextKey": "thread:{params.who}:{params.thread|params.id}"}]}'
    )
    assert keyed("talk", {"who": "andy", "id": "m1"}, rules) == {"thread:andy:m1": W, "thread:|m1": A}
    assert keyed("talk", {"who": "andy"}, rules) == {}


@pytest.mark.parametrize("name", ["thread:|msg-500", "base:b/", "base:b/record:r", "bucket:b/object:a b"])
def test_key_returned_by_the_gate_stays_unchanged(name: str) -> None:
    assert keys.named(name) == (name,)


def test_deleting_a_base_conflicts_only_with_its_own_records_and_tables() -> None:
    base = keyed("delete_base", {"base_id": "b"})

    def meets(tool: str, params: dict[str, Any]) -> bool:
        return any(overlap(one, other) for one in base for other in keyed(tool, params))

    assert meets("update_record", {"base_id": "b", "table_id": "t", "record_id": "r"})
    assert meets("delete_table", {"base_id": "b", "table_id": "t"})
    assert meets("create_record", {"base_id": "b", "table_id": "t"})
    assert not meets("update_record", {"base_id": "b2", "table_id": "t", "record_id": "r"})
