"""Keys of calls that no rule names: lists and searches, times, places, created and owned objects."""

from typing import Any

import pytest

from callosum.gate import LocalGate
from callosum.model import MAX_KEY, Call, Classification, Key, Kind, Mode, overlap, sees
from callosum.rules import RuleSet
from callosum.stores.memory import MemoryStore
from callosum.testing import ManualClock

R, W, A = Mode.READ, Mode.WRITE, Mode.APPEND
RULES = RuleSet.parse(secret=b"secret")
REPO = {"owner": "Acme", "repo": "Site"}


def classified(tool: str, params: dict[str, Any], cwd: str | None = "/w") -> Classification:
    return RULES.classify(Call("a", tool, params, cwd=cwd))


def keys(tool: str, params: dict[str, Any], cwd: str | None = "/w") -> list[tuple[str, Mode]]:
    return [(key.name, key.mode) for key in classified(tool, params, cwd).keys]


def calls_conflict(one: Classification, other: Classification) -> bool:
    """Return whether two calls conflict on a key: a list does not depend on attachments of its objects."""
    return any(
        overlap(mine.name, theirs.name) and not hidden(mine, theirs) and not hidden(theirs, mine)
        for mine in one.keys
        for theirs in other.keys
        if mine.mode is not theirs.mode or mine.mode is W
    )


def hidden(look: Key, change: Key) -> bool:
    return look.mode is R and look.name.endswith("/") and "|" in change.name and not sees(look.name, change.name)


CASES: list[tuple[str, dict[str, Any], list[tuple[str, Mode]]]] = [
    # lists and searches
    ("list_orders", {}, [("order:/", R)]),
    ("list_orders", {"limit": 5}, [("order:/|some", R), ("order:/|new", R)]),
    ("list_orders", {"status": "open"}, [("order:/", R)]),
    ("list_orders", {"status": ["Pending", "closed"]}, [("order:/", R)]),
    ("list_orders", {"status": "shipped"}, [("order:/|some", R)]),
    ("list_orders", {"status": "open", "city": "Oslo"}, [("order:/|some", R)]),
    ("list_orders", {"status": "open", "limit": 5}, [("order:/|some", R), ("order:/|new", R)]),
    ("list_orders", {"updated_after": "2026-05-19", "since": "2026"}, [("order:/", R)]),
    ("search_users", {"state": "CA"}, [("user:/|some", R)]),
    ("get_state", {"state": "CA"}, [("state:CA", R)]),
    ("search_contacts", {"query": "ann"}, [("contact:/|some", R)]),
    ("get_orders_for_customer", {"customer_id": 4}, [("customer:4|order", R)]),
    ("get_order_details", {"order_id": "W1"}, [("order:W1", R)]),
    ("get_order", {"name": "first"}, [("order:first", R)]),
    ("list_issues", REPO, [("issue:acme/site/", R), ("repo:acme/site|issue", R)]),
    ("list_issues", {**REPO, "state": "open"}, [("issue:acme/site/", R), ("repo:acme/site|issue", R)]),
    ("list_issues", {**REPO, "state": "closed"}, [("issue:acme/site/|some", R)]),
    # a project that counts its things for itself
    ("update_issue", {"project_id": "G/p", "issue_iid": 7, "title": "x"}, [("issue:g/p/7", W), ("project:G/p/issue:g/p/7", W)]),
    ("merge_merge_request", {"project_id": "g/p", "merge_request_iid": 7}, [("pr:g/p/7", W), ("project:g/p/pr:g/p/7", W)]),
    ("create_merge_request_note", {"project_id": "g/p", "merge_request_iid": 7, "body": "b"}, [("pr:g/p/7|note", A), ("project:g/p/pr:g/p/7|note", A)]),
    ("list_merge_requests", {"project_id": "g/p"}, [("project:g/p|pr", R), ("pr:g/p/", R)]),
    ("update_task", {"project_id": "p", "task_id": "t"}, [("task:t", W), ("project:p/task:t", W)]),
    # what lies in another thing is the one that is changed, but several are parts of what holds them
    ("update_issue_note", {"issue_id": 7, "note_id": 9, "body": "x y"}, [("note:9", W), ("issue:7|note", A), ("issue:7|note/9", W)]),
    ("delete_calendar_event", {"calendarId": "c", "eventId": "e"}, [("event:e", W), ("calendar:c/event:e", W), ("calendar:c|event", A), ("calendar:c|event/e", W)]),
    ("exchange_order_items", {"order_id": "W1", "item_ids": ["5"], "payment_method_id": "p"}, [("order:W1", W)]),
    ("update_order_item", {"order_id": "W1", "item_id": "5"}, [("order:W1|item", A), ("order:W1|item/5", W)]),
    ("remove_order_item", {"order_id": "W1", "item_id": "5"}, [("order:W1|item", A), ("order:W1|item/5", W)]),
    ("set_issue_milestone", {"issue_id": 7, "milestone_id": 4}, [("issue:7", W)]),
    ("set_message_reaction", {"channel_id": "c", "message_id": "m"}, [("message:m", W)]),
    ("transfer_ticket_to_agent", {"ticket_id": 7, "agent_id": 4}, [("ticket:7", W)]),
    ("create_team_channel", {"teamId": "t"}, [("team:t|channel", A)]),
    ("create_child_folder", {"folder_id": "f"}, [("directory:f|directory", A)]),
    ("create_label", {"project_id": "P", "name": "bug"}, [("project:P|label", A), ("project:P|label/bug", W)]),
    ("create_branch", {"project_id": "P", "branch": "main"}, [("branch:p/main", W), ("project:P/branch:p/main", W)]),
    ("delete_release", {"project_id": "P", "tag_name": "v1"}, [("project:P|release", W)]),
    ("format_range", {"driveId": "d", "driveItemId": "i"}, [("item:i", W), ("drive:d/item:i", W)]),
    # whom it is for; what is said is no key, nor what nobody may read
    ("send_message", {"receiver_id": "U2", "message": "see you there"}, [("channel:U2|message", A)]),
    ("send_message", {"receiver_id": "U2", "message": "ok"}, [("channel:U2|message", A)]),
    ("delete_message", {"message": "msg-500"}, [("message:msg-500", W)]),
    ("update_customer", {"customer_id": 4, "secret": "m@x.org"}, [("customer:4", W)]),
    ("reset_device", {"pin": "a@b.c"}, []),
    ("login", {"username": "ann", "password": "x"}, []),
    ("follow_user", {"username_to_follow": "bob"}, [("user:bob", W)]),
    ("get_user_posts", {"username": "bob"}, [("user:bob|post", R)]),
    ("add_contact", {"user_name": "bob"}, [("contact:bob", W)]),
    ("invite_user_to_team", {"user": "bob", "email": "b@x.org"}, [("email:b@x.org", W), ("user:bob", W)]),
    ("book_reservation", {"user_id": "u1", "origin": "OSL"}, [("user:u1|booking", W)]),
    ("post_tweet", {"content": "a b c"}, [("tweet:/|new", A)]),
    ("get_repo", REPO, [("repo:acme/site", R)]),
    ("list_transactions", {"n": 9}, [("transaction:/|some", R), ("transaction:/|new", R), ("payment:/", R)]),
    ("get_scheduled_payments", {}, [("scheduled-transaction:/", R)]),
    ("get_drafts", {}, [("draft:/", R)]),
    ("list_files", {}, [("file-id:/", R), ("file:/w/|names", R)]),
    ("list_folder", {"path": "x/"}, [("file:/w/x/|names", R)]),
    ("list_everything", {}, [("everything:/", R)]),
    ("get", {}, []),
    # created, owned, or changed as a whole
    ("create_task", {"title": "t"}, [("task:/|new", A)]),
    ("create_task", {"user_id": 5}, [("user:5|task", A)]),
    ("delete_all_tasks", {}, [("task:/", W)]),
    ("update_profile", {"city": "x"}, [("profile:/|own", W)]),
    ("update_user_info", {"city": "x"}, [("user:/|own", W)]),
    ("add_to_cart", {"sku": "s"}, [("cart:/|own", A), ("cart:/|own/s", A)]),
    ("remove_from_cart", {"product_id": "P1"}, [("cart:/|own", A), ("cart:/|own/P1", W)]),
    ("set_budget_limit", {"access_token": "t1", "budget_limit": 5}, [("budget:/|own@bf025ad2", W)]),
    ("get_budget", {"access_token": "t1"}, [("budget:/|own@bf025ad2", R)]),
    ("get_cart", {}, [("cart:/|own", R)]),
    ("get_accounts", {}, [("account:/", R)]),
    ("get_account_balance", {}, [("balance:/|own", R), ("payment:/", R)]),
    ("update_plan", {"steps": [{"a": 1}]}, []),
    # a container and an object put into it
    ("add_user_to_channel", {"user": "Bob", "channel": "general"}, [("channel:general|user", A), ("channel:general|user/Bob", A)]),
    ("remove_user_from_channel", {"user": "Bob", "channel": "general"}, [("channel:general|user", A), ("channel:general|user/Bob", W)]),
    ("get_users_in_channel", {"channel": "general"}, [("channel:general|user", R)]),
    ("add_item_to_cart", {"item_id": 5, "cart_id": 7}, [("cart:7|item", A), ("cart:7|item/5", A)]),
    ("create_bucket", {"bucket_name": "b"}, [("bucket:b", W)]),
    ("update_person", {"person_id": 4, "first_name": "x"}, [("user:4", W)]),
    # mail
    ("delete_email", {"email_id": 7}, [("message:7", W)]),
    ("get_thread", {"thread_id": "t9"}, [("thread:|t9", R), ("email:thread:t9", R)]),
    ("get_thread_replies", {"channel_id": "C", "thread_ts": "1.2"}, [("thread:C:1.2", R), ("thread:|1.2", R), ("channel:C|reply", R)]),
    ("invite_people", {"attendees": ["A@x.org", "b@x.org"]}, [("email:a@x.org", W), ("email:b@x.org", W)]),
    # times
    ("get_calendar_events", {"day": "2026-05-19"}, [("slot:primary/2026-05-19/", R)]),
    ("list_events", {"start": "2026-05-19", "end": "2026-05-20T10:00"}, [("slot:primary/2026-05-19/", R), ("slot:primary/2026-05-20/", R)]),
    ("list_events", {"time_min": "2026-05-19", "time_max": "2026-06-20"}, [("slot:primary/", R)]),
    ("search_events", {"query": "lunch", "date": "2026-05-19"}, [("slot:primary/2026-05-19/|some", R)]),
    ("search_events", {"query": "lunch"}, [("event:/|some", R)]),
    ("list_events", {}, [("event:/", R), ("slot:/", R)]),
    (
        "reschedule_event",
        {"event_id": 5, "new_start_time": "2026-05-19 10:00", "new_end_time": "2026-05-19 10:15"},
        [("event:5", W), ("slot:primary/2026-05-19/10:00", W)],
    ),
    ("create_event", {"start": {"date": "2026-05-19"}, "end": {"date": "2026-05-19"}}, [("slot:primary/2026-05-19/|event", A)]),
    ("create_event", {"title": "x", "start": "soon"}, [("event:/|new", A)]),
    ("reserve_room", {"room_id": 7, "start": "2026-05-19T10:00", "duration": 15}, [("slot:room-7/2026-05-19/10:00", W), ("room:7|booking", A)]),
    ("cancel_event", {"event_id": 5, "start": "2026-05-19T10:00"}, [("event:5", W)]),
    # money
    ("send_money", {"iban": "DE1", "amount": 3}, [("payment:DE1", W)]),
    ("schedule_transfer", {"recipient": "DE1", "amount": 3}, [("payment:DE1|planned", W), ("scheduled-transaction:/|new", A)]),
    ("update_scheduled_transaction", {"id": 7, "note": "x"}, [("scheduled-transaction:7", W)]),
    ("withdraw_from_account", {"amount": 3}, [("account:/|own", A)]),
    # reads that also change something
    ("take_screenshot", {"path": "a.png"}, [("file:/w/a.png", W)]),
    ("audit_site", {"site_id": 5, "outputDir": "/r"}, [("file:/r", W), ("site:5", R)]),
    ("get_unread_emails", {}, [("message:/|some", A), ("message:/", R)]),
    # places on the machine
    ("start_server", {"port": 3000}, [("port:3000", W)]),
    ("run_migrations", {"project_path": "db/.."}, [("database:/w", W), ("migration:/w", W)]),
    ("create_migration", {"sql_text": "x"}, [("migration:/w", W)]),
    ("run_sql", {"database": "Shop", "sql": "update t set a=1"}, [("table:shop/t", W)]),
    ("find_documents", {"database": "Shop", "collection": "c", "filter": {}}, [("collection:shop/c", R)]),
    ("insert_documents", {"database": "Shop", "collection": "c", "documents": [{"a": 1}]}, [("collection:shop/c|row", A)]),
    ("delete_documents", {"database": "Shop", "collection": "c"}, [("collection:shop/c", W)]),
    ("list_collections", {"database": "Shop"}, [("collection:shop/", R)]),
    ("git_status", {"repo_path": "/r"}, [("git:/r|HEAD", R), ("git:/r|index", R)]),
    ("git_commit", {"repo_path": "/r/", "message": "x"}, [("git:/r|HEAD", A), ("git:/r|index", W)]),
    ("git_create_branch", {"repo_path": "/r", "branch_name": "b"}, [("git:/r|branch:b", W)]),
    ("cd", {"folder": ".."}, []),
    ("change_directory", {"path": "/x"}, []),
    ("update_password", {"password": "hunter2"}, [("password:/|own", W)]),
    # names of an object without an id
    ("edit_note", {"title": "Plan", "content": "x"}, [("note:Plan", W)]),
    ("get_stock_info", {"symbol": "AAPL"}, [("stock:AAPL", R)]),
    ("create_page", {"parent_id": "P", "title": "x"}, [("parent:P|page", A)]),
    ("get_page", {"page_id": "P"}, [("page:P", R)]),
    ("list_tickets", {"page_number": 2}, [("ticket:/|some", R), ("ticket:/|new", R)]),
    ("withdraw_funds", {"amount": 5}, [("account:/|own", A)]),
    ("set_alarm", {"time": "07:00"}, [("alarm:/|new", A)]),
    ("reserve_hotel", {"hotel": "Ritz", "start_day": "2026-05-19"}, [("hotel:Ritz|booking", A)]),
    # a repository, however it is named
    ("list_issues", {"repo": "https://GitHub.com/Acme/Site.git"}, [("issue:acme/site/", R), ("repo:acme/site|issue", R)]),
    ("create_issue", {"repo": "git@github.com:Acme/Site.git", "title": "t"}, [("repo:acme/site|issue", A)]),
    ("create_issue", {"owner": "Acme", "repo": "Acme/Site", "title": "t"}, [("repo:acme/site|issue", A)]),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "params", "wanted"), CASES)
def test_call_has_the_keys_of_its_targets(tool: str, params: dict[str, Any], wanted: list[tuple[str, Mode]]) -> None:
    assert keys(tool, params) == wanted


Call_ = tuple[str, dict[str, Any]]
MEETING: list[tuple[Call_, Call_]] = [
    (("list_orders", {}), ("cancel_order", {"order_id": "W1"})),
    (("list_orders", {}), ("create_order", {"item": "x"})),
    (("list_orders", {"limit": 3}), ("create_order", {"item": "x"})),
    (("list_orders", {"status": "open"}), ("create_order", {"item": "x"})),
    (("list_issues", {**REPO, "state": "open"}), ("update_issue", {**REPO, "issue_number": 7})),
    (("list_issues", {"project_id": "g/p"}), ("update_issue", {"project_id": "g/p", "issue_iid": 7, "title": "x"})),
    (("update_issue_note", {"issue_id": 7, "note_id": 9}), ("delete_issue_note", {"issue_id": 7, "note_id": 9})),
    (("get_issue_notes", {"issue_id": 7}), ("update_issue_note", {"issue_id": 7, "note_id": 9})),
    (("update_calendar_event", {"calendarId": "c", "eventId": "e"}), ("delete_event", {"eventId": "e"})),
    (("update_order_item", {"order_id": "W1", "item_id": "5"}), ("cancel_order", {"order_id": "W1"})),
    (("create_label", {"project_id": "P", "name": "a"}), ("create_label", {"project_id": "P", "name": "a"})),
    (("get_user", {"user_id": "u1"}), ("book_flight", {"user_id": "u1", "flight": "A"})),
    (("book_flight", {"user_id": "u1", "flight": "A"}), ("book_flight", {"user_id": "u1", "flight": "B"})),
    (("search_orders", {"query": "x"}), ("delete_all_orders", {})),
    (("list_issues", REPO), ("update_issue", {**REPO, "issue_number": 7})),
    (("list_issues", REPO), ("create_issue", {**REPO, "title": "x"})),
    (("list_transactions", {}), ("pay_invoice", {"invoice_id": 5, "amount": 3})),
    (("pay_invoice", {"invoice_id": 5, "amount": 3}), ("schedule_payment", {"invoice": "5", "amount": 3})),
    (("get_calendar_events", {"day": "2026-05-19"}), ("create_event", {"start": "2026-05-19T10:00"})),
    (("list_events", {}), ("create_event", {"start": "2026-05-19T10:00"})),
    (("create_event", {"start": "2026-05-19T10:00"}), ("create_event", {"start": "2026-05-19T10:15"})),
    (("get_unread_emails", {}), ("search_emails", {"query": "x"})),
    (("list_directory_contents", {"path": "/w/x"}), ("delete_directory", {"path": "/w"})),
    (("get_cart", {}), ("add_to_cart", {"sku": "s"})),
    (("delete_email", {"email_id": 7}), ("mark_email", {"message_id": 7})),
    (("list_directory_contents", {"path": "/w/x"}), ("move_file", {"source": "/w/x/a", "destination": "/w/x/b"})),
    (("list_files", {}), ("create_file", {"filename": "x.txt", "content": "x"})),
    (("ls", {}), ("mkdir", {"dir_name": "x"})),
    (("list_files", {}), ("append_to_file", {"file_id": 3, "content": "x"})),
    (("get_channel_messages", {"channel": "c"}), ("send_channel_message", {"channel": "c", "body": "x"})),
    (("read_inbox", {"user": "bob"}), ("send_direct_message", {"recipient": "bob", "body": "x"})),
    (("get_users_in_channel", {"channel": "c"}), ("remove_user_from_channel", {"user": "a", "channel": "c"})),
    (("remove_user_from_channel", {"user": "a", "channel": "c"}), ("add_user_to_channel", {"user": "a", "channel": "c"})),
    (("pay", {"recipient": "DE1", "amount": 3}), ("schedule_payment", {"recipient": "DE1", "amount": 3})),
    (("share_file", {"file_id": 26, "email": "b@x.org"}), ("delete_file", {"file_id": 26})),
    (("rename_board", {"board_gid": "7", "name": "x"}), ("get_board", {"board_gid": "7"})),
    (("block_guest", {"mac_address": "aa:01"}), ("unblock_guest", {"mac_address": "aa:01"})),
    (("block_guest", {"guest_mac": "aa:01"}), ("block_guest", {"mac": "aa:01"})),
    (("kill_process", {"pid": 12}), ("suspend_process", {"pid": 12})),
    (("hset", {"name": "cart:7", "key": "total", "value": 3}), ("hgetall", {"name": "cart:7"})),
    (("zadd", {"key": "board", "score": 3, "member": "ann"}), ("zrange", {"key": "board", "start": 0})),
    (("set", {"key": "cart:7", "value": "x"}), ("get", {"key": "cart:7"})),
    (("get_webpage", {"url": "https://x.org/a"}), ("update_webpage", {"url": "https://X.org/a/", "content": "x"})),
]  # fmt: skip
APART: list[tuple[Call_, Call_]] = [
    (("connect", {"key": "a-secret"}), ("connect", {"key": "a-secret"})),
    (("hset", {"name": "cart:7", "key": "total"}), ("hset", {"name": "cart:8", "key": "total"})),
    (("lpush", {"name": "mail", "value": "x"}), ("lpush", {"name": "mail", "value": "y"})),
    (("set", {"key": "cart:7", "value": "x"}), ("set", {"key": "cart:8", "value": "x"})),
    (("rename_board", {"board_gid": "7"}), ("rename_board", {"board_gid": "8"})),
    (("block_guest", {"mac_address": "aa:01"}), ("block_guest", {"mac_address": "aa:02"})),
    (("kill_process", {"pid": 12}), ("kill_process", {"pid": 13})),
    (("search_orders", {"query": "x"}), ("cancel_order", {"order_id": "W1"})),
    (("list_orders", {}), ("cancel_booking", {"booking_id": "W1"})),
    (("list_orders", {"status": "closed"}), ("create_order", {"item": "x"})),
    (("update_issue", {"project_id": "g/p", "issue_iid": 7}), ("update_issue", {"project_id": "g/q", "issue_iid": 7})),
    (("update_issue", {"project_id": "g/p", "issue_iid": 7}), ("update_issue", {"project_id": "g/p", "issue_iid": 8})),
    (("login", {"username": "ann"}), ("login", {"username": "ann"})),
    (("update_issue_note", {"issue_id": 7, "note_id": 9}), ("delete_issue_note", {"issue_id": 7, "note_id": 8})),
    (("create_team_channel", {"teamId": "t"}), ("create_team_channel", {"teamId": "t"})),
    (("create_label", {"project_id": "P", "name": "a"}), ("create_label", {"project_id": "Q", "name": "a"})),
    (("update_order_item", {"order_id": "W1", "item_id": "5"}), ("update_order_item", {"order_id": "W2", "item_id": "5"})),
    (("send_message", {"receiver_id": "a", "message": "ok then"}), ("send_message", {"receiver_id": "b", "message": "ok then"})),
    (("list_issues", REPO), ("create_branch", {**REPO, "branch": "b"})),
    (("list_issues", {**REPO, "repo": "other"}), ("update_issue", {**REPO, "issue_number": 7})),
    (("list_transactions", {}), ("update_scheduled_transaction", {"id": 7})),
    (("get_calendar_events", {"day": "2026-05-20"}), ("create_event", {"start": "2026-05-19T10:00"})),
    (("create_event", {"start": "2026-05-19T10:00"}), ("create_event", {"start": "2026-05-19T10:30"})),
    (("create_task", {"title": "a"}), ("create_task", {"title": "b"})),
    (("create_task", {"title": "a"}), ("update_task", {"task_id": 5})),
    (("reserve_room", {"room_id": 7, "start": "2026-05-19T10:00"}), ("reserve_room", {"room_id": 7, "start": "2026-05-19T11:00"})),
    (("add_user_to_channel", {"user": "a", "channel": "c"}), ("add_user_to_channel", {"user": "a", "channel": "d"})),
    (("list_emails", {}), ("send_email", {"to": "a@x.org"})),
    (("list_directory_contents", {"path": "/w/x"}), ("append_to_file", {"path": "/w/x/a", "content": "x"})),
    (("list_directory_contents", {"path": "/w/x"}), ("move_file", {"source": "/w/y/a", "destination": "/w/y/b"})),
    (("list_files", {}), ("share_file", {"file_id": 26, "email": "b@x.org"})),
    (("list_issues", REPO), ("add_issue_comment", {**REPO, "issue_number": 7, "body": "x"})),
    (("get_channels", {}), ("send_channel_message", {"channel": "c", "body": "x"})),
    (("get_users_in_channel", {"channel": "c"}), ("send_channel_message", {"channel": "c", "body": "x"})),
    (("list_transactions", {}), ("schedule_payment", {"recipient": "DE1", "amount": 3})),
    (("remove_stock_from_watchlist", {"symbol": "A"}), ("remove_stock_from_watchlist", {"symbol": "B"})),
    (("remove_user_from_channel", {"user": "a", "channel": "c"}), ("add_user_to_channel", {"user": "b", "channel": "c"})),
    (("set_budget", {"access_token": "one", "limit_usd": 5}), ("set_budget", {"access_token": "two", "limit_usd": 6})),
    (("create_file", {"path": "/w/a"}), ("create_file", {"path": "/w/b"})),
    (("change_directory", {"path": ".."}), ("delete_file", {"path": "/w/a"})),
    (("search_files", {"query": "x"}), ("create_file", {"path": "/w/a"})),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), MEETING)
def test_calls_on_one_target_conflict(one: Call_, other: Call_) -> None:
    assert calls_conflict(classified(*one), classified(*other))
    assert calls_conflict(classified(*other), classified(*one))


@pytest.mark.parametrize(("one", "other"), APART)
def test_calls_on_different_targets_do_not_conflict(one: Call_, other: Call_) -> None:
    assert not calls_conflict(classified(*one), classified(*other))
    assert not calls_conflict(classified(*other), classified(*one))


@pytest.mark.parametrize(("tool", "params", "wanted"), CASES)
def test_reason_is_given_in_words(tool: str, params: dict[str, Any], wanted: list[tuple[str, Mode]]) -> None:
    why = classified(tool, params).why
    assert len(why) >= 2
    assert all(reason and reason.isprintable() for reason in why)


def test_a_directory_listed_does_not_count_as_its_files_read() -> None:
    """Otherwise a listing of a folder would hide that a file read before has changed since."""
    listed = classified("list_directory_contents", {"path": "/w/x/"})
    assert not any(overlap(key.name, "file:/w/x/a.py") for key in listed.keys)


def test_times_with_an_offset_are_compared_in_utc() -> None:
    one = keys("create_event", {"start": "2026-05-19T18:00+02:00", "duration": 15})
    assert one == keys("create_event", {"start": {"dateTime": "2026-05-19T16:00Z"}, "duration": 15})


OVERLAPPING = [
    ({"start": "2026-05-19T10:00"}, {"start": "2026-05-19T10:29"}),  # without an end: half an hour
    ({"start": "2026-05-19T10:00", "end": "2026-05-19T11:00"}, {"start": "2026-05-19T10:59"}),
    ({"start": "2026-05-19T10:00", "duration_minutes": 90}, {"start": "2026-05-19T11:15"}),
    ({"start": "2026-05-19T18:00+02:00"}, {"start": "2026-05-19T16:15Z"}),
    ({"start": "2026-05-19T23:45", "end": "2026-05-20T00:15"}, {"start": "2026-05-20T00:00"}),
    ({"calendar_id": "Team", "start": "2026-05-19T10:00"}, {"calendarId": "Team", "startTime": "2026-05-19T10:00"}),
]
SEPARATE = [
    ({"start": "2026-05-19T10:00"}, {"start": "2026-05-19T10:30"}),
    ({"start": "2026-05-19T10:00", "end": "2026-05-19T11:00"}, {"start": "2026-05-19T11:00"}),
    ({"start": "2026-05-19T10:00"}, {"start": "2026-05-20T10:00"}),
    ({"start": "2026-05-19T18:00+02:00"}, {"start": "2026-05-19T18:00Z"}),
    ({"calendar_id": "team", "start": "2026-05-19T10:00"}, {"start": "2026-05-19T10:00"}),
    ({"start": {"date": "2026-05-19"}, "end": {"date": "2026-05-20"}}, {"start": "2026-05-19T10:00"}),  # all day
]


@pytest.mark.parametrize(("one", "other"), OVERLAPPING)
def test_overlapping_appointments_conflict(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert calls_conflict(classified("create_event", one), classified("create_meeting", other))


@pytest.mark.parametrize(("one", "other"), SEPARATE)
def test_appointments_at_other_times_do_not_conflict(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert not calls_conflict(classified("create_event", one), classified("create_meeting", other))


@pytest.mark.parametrize(
    "start", ["9999-12-31T23:50", "0001-01-01T00:00+14:00", "2026-02-30T10:00", "2026-05-19T", 5, [], {}]
)
def test_odd_times_have_no_slots(start: Any) -> None:
    assert all(not name.startswith("slot:") or mode for name, mode in keys("create_event", {"start": start}))
    keys("list_events", {"start": start, "end": start})


@pytest.mark.parametrize(
    ("tool", "given", "wanted"),
    [
        ("delete_file", "/a/../b/", "file:/b/"), ("list_files", "/a/../b", "file:/b"), ("delete_file", "/", "file:/"),
        ("delete_file", "abc-123", "file:abc-123"), ("get_url", "https://X.org/", "url:https://x.org"),
    ],
)  # fmt: skip
def test_an_id_that_is_a_path_or_an_address_is_spelled_as_one(tool: str, given: str, wanted: str) -> None:
    assert [name for name, _ in keys(tool, {"id": given})] == [wanted]


def test_long_calendar_name_gives_a_key_within_the_limit() -> None:
    given = {"start_date": "2026-05-19", "end_date": "2026-05-22", "title": "x", "calendar_id": "c" * 2000}
    found = keys("create_calendar_event", given)
    assert found
    assert all(len(name) <= MAX_KEY for name, _ in found)


def test_change_of_a_listed_object_is_stale_if_it_changed_since() -> None:
    clock = ManualClock()
    gate = LocalGate(store=MemoryStore(clock=clock))

    def do(who: str, tool: str, params: dict[str, Any]) -> set[Kind]:
        clock.advance(3600 * 3)
        decision = gate.intercept(Call(who, tool, params))
        if decision.proceed:
            gate.complete(who, id=decision.id, outcome="done")
        return {one.kind for one in decision.conflicts}

    assert do("one", "list_tickets", {}) == set()
    assert do("two", "update_ticket", {"ticket_id": 5, "title": "x"}) == set()
    assert do("one", "update_ticket", {"ticket_id": 6, "title": "y"}) == set()
    assert do("one", "update_ticket", {"ticket_id": 5, "title": "y"}) == {Kind.STALE}
    assert do("three", "update_ticket", {"ticket_id": 5, "title": "z"}) == set()


def test_creation_is_stale_if_the_name_was_taken_since_the_list_was_read() -> None:
    """A listing shows that a file does not exist yet: creating it afterwards would overwrite another session's."""
    clock = ManualClock()
    gate = LocalGate(store=MemoryStore(clock=clock))

    def do(who: str, tool: str, params: dict[str, Any]) -> set[Kind]:
        clock.advance(3600 * 3)
        decision = gate.intercept(Call(who, tool, params, cwd="/w"))
        gate.complete(who, id=decision.id, outcome="done")
        return {one.kind for one in decision.conflicts}

    assert do("one", "list_directory", {"path": "/w"}) == set()
    assert do("three", "list_directory", {"path": "/other"}) == set()
    assert do("two", "create_file", {"path": "/w/a", "content": "two"}) == set()
    assert do("one", "create_file", {"path": "/w/b", "content": "one"}) == set()
    assert do("three", "create_file", {"path": "/w/a", "content": "three"}) == set()
    assert do("one", "create_file", {"path": "/w/a", "content": "one"}) == {Kind.STALE}


def test_attachment_to_an_object_does_not_make_a_list_stale() -> None:
    clock = ManualClock()
    gate = LocalGate(store=MemoryStore(clock=clock))

    def do(who: str, tool: str, params: dict[str, Any]) -> set[Kind]:
        clock.advance(3600 * 3)
        decision = gate.intercept(Call(who, tool, params))
        gate.complete(who, id=decision.id, outcome="done")
        return {one.kind for one in decision.conflicts}

    for who, look, params in (("lists", "list_files", {}), ("reads", "get_file_info", {"file_id": 7})):
        assert do(who, look, params) == set()
    assert do("two", "share_file", {"file_id": 7, "email": "b@x.org"}) == set()
    assert do("lists", "rename_file", {"file_id": 7, "new_name": "x"}) == set()
    assert do("reads", "rename_file", {"file_id": 7, "new_name": "y"}) == {Kind.STALE}


@pytest.mark.parametrize("tool", ["pay", "pay_invoice", "create_payment"])
@pytest.mark.parametrize("payee", ["payee", "recipient", "supplier"])
def test_a_payee_is_no_target_beside_its_invoice(tool: str, payee: str) -> None:
    """Two invoices of one supplier are two payments; without an invoice the payee is what is paid."""
    both = classified(tool, {payee: "acme", "invoice": "INV-8", "amount": 5}).keys
    assert [key.name for key in both] == ["payment:INV-8"]
    if payee != "supplier":
        assert [key.name for key in classified(tool, {payee: "acme", "amount": 5}).keys] == ["payment:acme"]
