"""What a tool shows besides its name: descriptions, schemas, arguments that hold the arguments, money."""

from typing import Any

import pytest

from callosum.model import Call, Classification
from callosum.rules import RuleSet
from callosum.rules.name import read_name

RULES = RuleSet.parse(secret=b"secret")


def judged(tool: str, params: dict[str, Any] | None = None, description: str = "", **more: Any) -> Classification:
    return RULES.classify(Call("a", tool, params or {}, description=description or None, **more))


def schema(*names: str, **kinds: str) -> dict[str, Any]:
    return {
        "properties": {**{name: {"type": "string"} for name in names}, **{n: {"type": k} for n, k in kinds.items()}}
    }


VERBS: list[tuple[str, str, str]] = [
    # a catalogue of noun_verb names: the verb at the end, unless it may be a noun
    ("loadtest_import_get", "get", ""),
    ("backup_restore_describe", "describe", ""),
    ("board_add_list", "add", "list"),
    ("mail_mark_read", "mark", "read"),
    ("export_get", "export", "get"),
    ("user_delete", "delete", ""),
    ("list_delete_markers", "list", ""),
    # what follows a preposition says which ones, not what is done
    ("find_user_by_name_zip", "find", ""),
    ("list_users_to_delete", "list", ""),
    ("mark_as_read", "mark", ""),
    ("post_tweet", "post", ""),
    ("merge_merge_request", "merge", ""),
    # what another verb only begins, where it is graver
    ("submit_mass_delete", "delete", ""),
    ("trigger_wipe", "wipe", ""),
    ("start_stop_clock", "start", ""),
    ("start_job_to_purge_rows", "start", ""),
    ("submit_tenant_deletion", "deletion", ""),
    ("request_profile_deletion", "deletion", ""),
    ("profile_deletion", "deletion", ""),
    ("schedule_tenant_termination", "termination", ""),
    ("schedule_data_retrieval", "schedule", ""),
    ("check_tenant_deletion", "check", ""),
    # the asynchronous twin, and the third person
    ("aget_invoice", "get", ""),
    ("aremove_card", "remove", ""),
    ("awipe", "wipe", ""),
    ("amount_due", "", ""),
    ("ahead_of_time", "", ""),
    ("deletes_the_shelf", "delete", ""),
    ("retrieves_a_shelf", "retrieve", ""),
    ("likes_list", "list", ""),
]


@pytest.mark.parametrize(("name", "verb", "rival"), VERBS)
def test_decisive_verb_is_chosen(name: str, verb: str, rival: str) -> None:
    seen = read_name(name)
    assert seen.verb == verb
    if rival:
        assert seen.rival == rival


DESCRIBED: list[tuple[str, str, int]] = [
    # between two verbs of a name
    ("board_add_list", "Adds a list to the board.", 1),
    ("export_list", "Lists the exports that were run.", 0),
    ("export_list", "", 1),
    # a name that is more of a noun
    ("site_design", "Recommends a layout.", 0),
    ("site_design", "", 1),
    ("progress_status", "Read or update the progress.", 1),
    ("progress_status", "Shows the progress.", 0),
    ("progress_status", "", 0),
    ("inference", "Run a model.", 0),
    ("page_screenshot", "Export an image of the page.", 0),
    # reads that also do something
    ("search_product", "Search for products or create one if not found.", 1),
    ("test_workflow", "Run a workflow.", 1),
    ("test_connection", "Run a connection check.", 0),
    ("verify_domain", "Triggers a verification and waits for it.", 1),
    ("verify_domain", "Checks a domain.", 0),
    # two words that make one verb
    ("watch_shelf", "Sets up a channel that tells of each change.", 1),
    ("watch_shelf", "Looks up a shelf.", 0),
    ("shelf_design", "Checks out a shelf.", 1),
    ("test_connection", "Run a test.", 0),
    # a plain verb decides, whatever the description says
    ("get_report", "Creates a report from the data.", 0),
    ("delete_report", "Returns the deleted report.", 4),
    # a further action in the description
    ("get_mails", "Returns the mails. They are marked as read after this call.", 1),
    ("get_mails", "Returns mails that were marked as read.", 0),
    ("list_orders", "Lists orders and also notifies the owner.", 1),
    ("get_unread_messages", "", 1),
    ("get_unread_messages", "Returns the messages that nobody has read.", 0),
]


@pytest.mark.parametrize(("tool", "description", "tier"), DESCRIBED)
def test_descriptions_decide_the_effect(tool: str, description: str, tier: int) -> None:
    seen = judged(tool, description=description)
    assert seen.tier == tier, seen.why
    assert seen.effect == ("write" if tier else "read")


def test_read_that_leaves_a_file_is_a_write() -> None:
    assert judged("audit_site", schema=schema("url", "outputDir")).tier == 1
    assert judged("audit_site", {"url": "https://x.org", "save_to": "/tmp/x"}).tier == 1
    assert judged("audit_site", {"url": "https://x.org"}).tier == 0
    assert judged("take_screenshot", {"path": "/tmp/x.png"}).tier == 1
    assert judged("take_screenshot").tier == 0
    assert judged("echo", {"text": "x", "file_name": "a.txt"}).tier == 1
    assert judged("audit_site", schema={"properties": {"params": schema("outputDir")}}).tier == 1


def test_call_whose_result_is_not_stored_is_no_write() -> None:
    assert judged("create_completion", {"prompt": "x"}).tier == 0
    assert judged("generate_uuid").tier == 0
    assert judged("resolve_library_id", {"name": "x"}).tier == 0
    assert judged("resolve_conflict", {"id": 1}).tier == 1
    assert judged("capture_screenshot").tier == 0
    assert judged("capture_payment", {"id": 1}).tier > 0
    assert judged("gallon_to_liter", schema=schema(gallon="number")).tier == 0
    assert judged("user_to_group", schema=schema(user="string")).tier == 1


OPAQUE: list[tuple[str, dict[str, Any], int, list[str]]] = [
    ("send", {"params": {"to": "a@x.org", "subject": "x"}}, 2, ["email:a@x.org"]),
    ("update_ticket", {"request": '{"ticket_id": 5}'}, 1, ["ticket:5"]),
    ("update_ticket", {"params": {"args": {"ticket_id": 5}}}, 1, ["ticket:5"]),
    ("update_ticket", {"ticket_id": 5, "data": {"ticket_id": 6}}, 1, ["ticket:5"]),
    ("update_ticket", {"request": '{"ticket_id": '}, 1, []),
    ("update_ticket", {"request": "{" * 20_000}, 1, []),
    ("run_sql", {"params": {"sql": "drop table x"}}, 4, ["table:x"]),
    ("execute_tool", {"tool_name": "delete_account", "arguments": {"account_id": 5}}, 4, ["account:5"]),
    ("execute_tool", {"tool_name": "get_account", "arguments": {"account_id": 5}}, 0, ["account:5"]),
    ("get_tool_help", {"tool_name": "delete_account"}, 0, []),
    ("graphql", {"query": "mutation Undo($id: ID!) { deleteIssue(id: $id) { id } }"}, 4, []),
    ("graphql", {"query": "mutation { x: frob { id } }"}, 1, []),
    ("graphql", {"query": "query { issues { id } }"}, 0, []),
    ("graphql", {"query": "mutation " + "(" * 100_000}, 1, []),
    ("fetch", {"url": "https://x.org"}, 0, ["url:https://x.org"]),
    ("fetch", {"url": "https://x.org", "body": "x"}, 1, ["url:https://x.org"]),
]


@pytest.mark.parametrize(("tool", "params", "tier", "keys"), OPAQUE)
def test_wrapped_arguments_are_read(tool: str, params: dict[str, Any], tier: int, keys: list[str]) -> None:
    seen = judged(tool, params)
    assert seen.tier == tier, seen.why
    if keys:
        assert [key.name for key in seen.keys][: len(keys)] == keys


MONEY: list[tuple[str, dict[str, Any], int]] = [
    ("initiate", {"amount": 5, "iban": "DE1"}, 4), ("frobnicate", {"amount": 5, "paymentMethodId": "c1"}, 4),
    ("update_limit", {"amount": 5}, 1), ("get_quote", {"amount": 5, "iban": "DE1"}, 0),
    ("settle_payment", {"id": 5}, 4), ("create_reimbursement", {"id": 5}, 4), ("tip_driver", {"driver_id": 5}, 4),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "params", "tier"), MONEY)
def test_payment_under_another_name_is_recognised(tool: str, params: dict[str, Any], tier: int) -> None:
    seen = judged(tool, params)
    assert seen.tier == tier, seen.why


@pytest.mark.parametrize("tool", ["list_issues", "create_issue", "Bash", "delete"])
@pytest.mark.parametrize("param", ["state", "status", "id", "command", "params", "labels", "filter"])
def test_a_list_that_holds_itself_is_judged(tool: str, param: str) -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert judged(tool, {param: endless}).tier >= 0


def test_hints_in_a_call_hide_no_wrapped_params() -> None:
    wrapped = {"data": {"action": "rm -rf *"}, "a": 1, "b": 2}
    assert judged("message", wrapped).tier == judged("message", {**wrapped, "_tier": "", "_contextKey": ""}).tier == 4


def test_hints_in_a_call_are_no_params() -> None:
    tool: dict[str, Any] = {"description": "Read-only. Gets a thing.", "schema": schema("output_path")}
    assert judged("get_thing", **tool).tier == judged("get_thing", {"_tier": ""}, **tool).tier == 1


def test_endless_structure_is_bounded() -> None:
    endless: dict[str, Any] = {}
    endless["params"] = endless
    assert judged("update_x", endless).tier == 1


@pytest.mark.parametrize(
    ("description", "given", "tier"),
    [
        ("Returns the attachment in base64.", schema("attachment_id"), 0),
        ("Triggers the event that counts downloads.", schema("attachment_id"), 1),
        ("Returns the attachment in base64.", None, 1),  # the tool's parameters are not known
        ("", schema("attachment_id"), 1),
        ("Returns the attachment, or saves it.", schema("attachment_id"), 1),
        ("Downloads an attachment to a local directory.", schema("attachment_id"), 1),
        ("Returns the attachment.", schema("attachment_id", "local_path"), 1),
        ("Returns the attachment.", schema("attachment_id", "outputDir"), 1),
    ],
)
def test_download_is_a_write_unless_the_description_says_it_is_returned(
    description: str, given: dict[str, Any] | None, tier: int
) -> None:
    assert judged("download_attachment", None, description, schema=given).tier == tier


def test_file_that_the_call_does_not_name_makes_no_write() -> None:
    told = schema("filename", "element")
    assert judged("take_snapshot", {}, "Captures a snapshot.", schema=told).tier == 1  # the arguments are not known
    assert judged("take_snapshot", {"element": "b"}, "Captures a snapshot.", schema=told).tier == 0
    assert judged("take_snapshot", {"filename": "b.png"}, "Captures a snapshot.", schema=told).tier == 1
