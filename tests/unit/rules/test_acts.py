"""The verb among the arguments: actions, HTTP methods, other tools, SQL, GraphQL, pipelines; names in any script."""

from typing import Any

import pytest

from callosum.model import Call, Classification
from callosum.rules import RuleSet
from callosum.rules.name import words
from tests.support.cpu import cpu_within

RULES = RuleSet.parse(secret=b"secret")
M = 1_000_000


def judged(tool: str, params: dict[str, Any] | None = None, **more: Any) -> Classification:
    return RULES.classify(Call("a", tool, params or {}, **more))


ACTS: list[tuple[str, dict[str, Any], int]] = [
    # an action
    ("files", {"action": "read"}, 0),
    ("files", {"operation": "ls"}, 0),
    ("manage_user", {"action": "delete user"}, 4),
    ("manage_cron", {"action": "status"}, 0),
    ("issues", {"method": "update", "state": "closed"}, 2),
    ("browser", {"action": "screenshot"}, 0),
    ("browser", {"action": "click"}, 1),
    # where actions are searched, a verb is a filter
    ("search_audit_log", {"action": "delete"}, 0),
    ("list_events", {"action": "delete"}, 0),
    ("search_audit_log", {"method": "DELETE"}, 4),
    # HTTP
    ("http_request", {"method": "DELETE", "url": "https://x.org/y"}, 4),
    ("http_request", {"httpMethod": "GET", "url": "https://x.org/y"}, 0),
    ("api_request", {"http_method": "POST", "url": "https://x.org/y"}, 2),
    # databases
    ("redis", {"command": "FLUSHALL"}, 4),
    ("redis_command", {"command": "DEL user:1"}, 4),
    ("redis", {"command": ["DEL", "x"]}, 4),
    ("redis", {"command": "GET a"}, 0),
    ("redis_execute", {"command": "HGETALL x"}, 0),
    ("redis_execute", {"command": "HSET x y 1"}, 1),
    ("redis", {"command": "GET a\nFLUSHALL"}, 1),
    ("zzz", {"command": "ls; rm -rf /"}, 4),
    ("zzz", {"command": ["ls", "-l"]}, 1),
    ("mongodb_admin", {"command": {"dropDatabase": 1}}, 4),
    ("aggregate", {"collection": "c", "pipeline": [{"$match": {}}]}, 0),
    ("aggregate", {"collection": "c", "pipeline": [{"$match": {}}, {"$out": "d"}]}, 3),
    ("aggregate", {"collection": "c", "pipeline": '[{$match: {}}, {"$merge": {into: "x"}}]'}, 1),
    # JSON-RPC, and tools that call tools
    ("rpc", {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "delete_account", "arguments": {}}}, 4),
    ("rpc", {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "list_accounts", "arguments": {}}}, 0),
    ("rpc", {"jsonrpc": "2.0", "method": "tools/call"}, 1),
    ("rpc", {"jsonrpc": "2.0", "method": "tools/list"}, 0),
    ("rpc", {"jsonrpc": "2.0", "method": "eth_getBalance", "params": [{}]}, 0),
    ("rpc", {"jsonrpc": "2.0", "method": "eth_sendTransaction", "params": [{}]}, 3),
    ("run_function", {"name": "delete_user", "args": {}}, 4),
    ("call_tool", {"name": "get_user", "arguments": {}}, 0),
    ("create_customer", {"name": "Delete Me"}, 2),
    # several calls in one: the gravest
    ("parallel", {"tool_calls": [{"name": "get_x", "arguments": {}}, {"name": "delete_user", "arguments": {}}]}, 4),
    ("parallel", {"tool_calls": [{"function": {"name": "delete_user", "arguments": "{}"}}]}, 4),
    ("parallel", {"tool_calls": [{"name": "get_x", "arguments": {}}]}, 1),
    ("batch", {"operations": [{"action": "list"}, {"action": "delete", "id": 5}]}, 4),
    ("update_page", {"requests": [{"deleteContentRange": {"range": {}}}]}, 4),
    ("get_x", {"calls": [{"action": "get"}] * 65}, 1),
    ("get_x", {"calls": [{"action": "get"}] * 64}, 0),
    ("create_tasks", {"tasks": [{"name": "Delete old mails"}]}, 1),
]


@pytest.mark.parametrize(("tool", "params", "tier"), ACTS)
def test_verb_in_an_argument_decides_the_effect(tool: str, params: dict[str, Any], tier: int) -> None:
    seen = judged(tool, params)
    assert seen.tier == tier, seen.why
    assert seen.effect == ("write" if tier else "read")


SQL: list[tuple[str, int]] = [
    ("select 1", 0),
    ("(select 1) union (select 2)", 0),
    ("values (1)", 0),
    ("show tables", 0),
    # comments and strings
    ("/* x */ drop table a", 4),
    ("/** x * y **/ drop table a", 4),
    ("-- x\ndelete from a where id = 1", 3),
    ("# x\ndelete from a where id = 1", 3),
    ("/*! drop table a */", 4),
    ("/*!50001 drop table a */", 4),
    ("select a from t -- drop table a", 0),
    ("select/**/1 from t; drop/**/table a", 4),
    ("select 'it''s; drop table a'", 0),
    ("select '\\''; drop table a; --'", 4),
    ("select \"it's\"; drop table a; --'", 4),
    ("select * from a where note = 'without end; drop table a", 4),
    ("select $$ drop table a $$ from t", 0),
    # several statements, statements within others
    ("select 1; drop table a", 4),
    ("begin; update a set b = 1 where c = 2; commit", 1),
    ("with gone as (delete from a where id = 1 returning *) select * from gone", 3),
    ("do $$ begin delete from a where b = 1; end $$", 3),
    ("do $$ begin delete from a; end $$", 4),
    # a statement that is explained does not run, unless it is measured
    ("explain delete from a", 0),
    ("explain analyze delete from a", 4),
    ("explain (analyze, buffers) update a set b = 1 where c = 2", 1),
    ("explain select 1; drop table a", 4),
    # statements that look like reads and are none
    ("select * into b from a", 2),
    ("select * from a for update", 1),
    ("select nextval('s')", 1),
    ("select pg_terminate_backend(5)", 3),
    ("exec xp_cmdshell 'dir'", 4),
    ("copy a to program 'x'", 4),
    # functions and columns with the names of verbs
    ("select replace(a, 'x', 'y'), truncate(b, 2) from t", 0),
    ("select deleted, created from updates", 0),
    # everything at once
    ("update users set a = 1", 3),
    ("update users set a = 1 where id = 2", 1),
    ("delete from a; select 1 from b where c = 1", 4),
    ("truncate a", 4),
    # settings
    ("select 1; set search_path to a", 0),
    ("set global a = 1", 4),
    ("alter system set a = 1", 4),
    # Cypher
    ("match (n) return n", 0),
    ("match (n) set n.x = 1", 1),
    ("match (n) detach delete n", 3),
]


@pytest.mark.parametrize(("statement", "tier"), SQL)
def test_sql_statement_has_its_effect(statement: str, tier: int) -> None:
    assert judged("run_sql", {"sql": statement}).tier == tier
    assert judged("run_sql", {"sql": statement.upper()}).tier == tier


def test_the_gravest_of_several_statements_counts() -> None:
    assert judged("mysql", {"query": "select 1", "statement": "drop table a"}).tier == 4
    assert judged("read_cypher", {"query": "match (n) detach delete n"}).tier == 3


GRAPHQL: list[tuple[str, int]] = [
    ("query { issues { id } }", 0),
    ("{ issues { id } }", 0),
    ("# a mutation\n{ issues { id } }", 0),
    ('query Q($a: [ID!] = ["mutation"]) @live { deleteIssue { id } }', 0),
    ("# x\nmutation { deleteIssue(id: 1) { id } }", 4),
    ('query A { a } mutation B { createIssue(title: "}") { id } }', 2),
    ("fragment F on I { id } mutation { x: addComment(b: 1) { ...F } y: deleteRepository(id: 2) { id } }", 4),
    ("subscription { issues { id } }", 0),
    ("query { a } " + " " * 20_000 + " mutation { deleteX }", 1),
    ("mutation {", 1),
]


@pytest.mark.parametrize(("document", "tier"), GRAPHQL)
def test_graphql_document_has_its_effect(document: str, tier: int) -> None:
    assert judged("graphql", {"query": document}).tier == tier


def test_a_brace_alone_is_no_document() -> None:
    assert judged("frobnicate", {"query": "{ name: 1 }"}).tier == 1


TOLD: list[tuple[str, str, int]] = [
    # name and description call it by one word
    ("fleet_boost_status", "Boosts a status.", 1),
    ("order_status", "Order status of a customer.", 0),
    ("order_status", "Orders of a customer, with their status.", 0),
    # the first words of a description
    ("zzz", "Use this tool to delete a page.", 4),
    ("zzz", "**Purpose:** List the pages.", 0),
    ("zzz", "Permanently deletes a page.", 4),
    ("zzz", "Hot posts of a group.", 1),
    ("zzz", "Contains a host.", 1),
    ("zzz", "Remove and return the last one.", 1),
    ("vacuum_return_to_base", "Returns the vacuum to its base.", 3),
    # gone for good
    ("remove_page", "Removes a page. This cannot be undone.", 4),
    ("remove_page", "Removes a page.", 1),
    # verbs that mean different actions
    ("convert_currency", "", 0),
    ("convert_lead", "", 1),
    ("select_rows", "", 0),
    ("select_option", "", 1),
    ("watch_prices", "", 0),
    ("watch_repository", "", 1),
    ("log_meal", "", 1),
    ("log_entries", "", 0),
    ("call_customer", "", 3),
    ("call_tool", "", 1),
    ("generate_sql_query", "", 0),
    ("generate_report_index", "", 1),
]


@pytest.mark.parametrize(("tool", "description", "tier"), TOLD)
def test_verbs_and_descriptions_decide_the_effect(tool: str, description: str, tier: int) -> None:
    seen = judged(tool, description=description or None)
    assert seen.tier == tier, seen.why


NAMES: list[tuple[str, list[str]]] = [
    ("check_in_guest", ["checkin", "guest"]),
    ("check.in.guest", ["checkin", "guest"]),
    ("check_inventory", ["check", "inventory"]),
    ("assign_incident", ["assign", "incident"]),
    ("LOG_INFO", ["log", "info"]),
    ("userSignIn", ["user", "login"]),
    ("set_update_time", ["set", "update", "time"]),
    ("\uff44\uff45\uff4c\uff45\uff54\uff45_x", ["delete", "x"]),
    ("d\u0435l\u0435te_x", ["delete", "x"]),
    ("de\u200blete_x", ["delete", "x"]),
]


@pytest.mark.parametrize(("name", "wanted"), NAMES)
def test_name_is_split_into_words(name: str, wanted: list[str]) -> None:
    assert words(name) == wanted


@pytest.mark.parametrize(
    "name",
    ["", " ", "\x00", "\ud800", "\u83b7\u53d6", "\u0443\u0434\u0430\u043b\u0438\u0442\u044c", "___", "123", "::", "/"],
)
def test_a_name_that_says_nothing_is_a_write(name: str) -> None:
    assert judged(name).effect == "write"


def test_name_too_long_to_be_read_is_not_a_read() -> None:
    assert judged("get_" + "x" * 300).effect == "write"
    assert judged("get_" + "x" * 300 + "_delete").effect == "write"
    assert judged("delete_account_" + "x" * 300).tier == 4


def test_hints_of_any_kind_never_raise_an_error() -> None:
    hints: list[Any] = [None, "false", 0, [], {}]
    for hint in hints:
        seen = judged("get_x", annotations={"readOnlyHint": hint, "destructiveHint": hint})
        assert seen.effect == "read"


def test_endless_schema_is_bounded() -> None:
    schema: dict[str, Any] = {"properties": {"params": {"type": "object"}}}
    schema["properties"]["params"]["properties"] = schema["properties"]
    assert judged("update_x", {}, schema=schema).tier == 1
    odds: list[Any] = [{"properties": []}, {"properties": {"a": None}}, {"properties": {1: {}}}, {"properties": "x"}]
    for odd in odds:
        assert judged("get_x", {}, schema=odd).tier == 0
        assert judged("zzz", {}, schema=odd).tier == 1


def test_a_tool_without_a_verb_is_a_write_whatever_its_params_look_like() -> None:
    assert judged("knowledge_base", {"query": "x", "limit": 3}).tier > 0


SLOW: dict[str, tuple[str, dict[str, Any]]] = {
    "spaces in a statement": ("run_sql", {"sql": "explain " + " " * M + ";x"}),
    "parens": ("run_sql", {"sql": "select " + "( " * (M // 2)}),
    "comments": ("run_sql", {"sql": "/*" * (M // 2)}),
    "comment ends": ("run_sql", {"sql": "/**/" * (M // 4)}),
    "quotes": ("run_sql", {"sql": "select " + "'\"`" * (M // 3)}),
    "backslashes": ("run_sql", {"sql": "select '" + "\\'" * (M // 2)}),
    "updates": ("run_sql", {"sql": "update a set " * (M // 13)}),
    "braces": ("graphql", {"query": "mutation " + "{" * M}),
    "triple quotes": ("graphql", {"query": 'mutation { a(x: """' + '"' * M}),
    "fields": ("graphql", {"query": "mutation {" + "delete_x " * (M // 9)}),
    "a query without its brace": ("graphql", {"query": "query " * (M // 6) + "{"}),
    "a pipeline": ("aggregate", {"pipeline": "$out " * (M // 5)}),
    "stages": ("aggregate", {"pipeline": [{"$match": {}}] * 100_000}),
    "calls": ("batch", {"operations": [{"action": "get"}] * 100_000}),
    "a command": ("redis", {"command": "x" * M}),
    "a name": ("\u0430" * M, {}),
    "a ligature that grows": ("\ufdfa" * M, {}),
}


@pytest.mark.parametrize("case", SLOW)
def test_a_megabyte_is_bounded(case: str) -> None:
    tool, params = SLOW[case]
    with cpu_within(0.5):
        assert judged(tool, params).effect == "write" or case in ("parens", "stages", "a pipeline", "comments")
