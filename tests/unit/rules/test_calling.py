"""Calls within calls: a tool that calls another is judged as that call, a git tool as the git command."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from callosum.model import Call, Classification, Verdict
from callosum.rules import RuleSet

RULES = RuleSet.parse(secret=b"secret")
Form = Callable[[str, dict[str, Any]], tuple[str, dict[str, Any]]]


def judged(tool: str, params: dict[str, Any], rules: RuleSet = RULES) -> Classification:
    return rules.classify(Call("a", tool, params, cwd="/w"))


INNER: list[tuple[str, dict[str, Any]]] = [
    ("Bash", {"command": "rm -rf /srv"}),
    ("exec", {"command": "git push --force"}),
    ("send_email", {"to": "alice@example.com", "body": "See you at 5"}),
    ("message.send", {"target": "general", "replyTo": "7"}),
    ("delete_file", {"path": "/w/a"}),
    ("run_sql", {"sql": "drop table users"}),
    ("git_reset", {"mode": "hard", "repo_path": "/w"}),
    ("write_file", {"path": "/w/a.py", "content": "x"}),
    ("send_money", {"recipient": "DE1", "amount": 5}),
]
FORMS: dict[str, Form] = {
    "by name": lambda tool, given: ("call_tool", {"name": tool, "arguments": given}),
    "beside a server": lambda tool, given: ("use_mcp_tool", {"server": "s", "tool_name": tool, "arguments": given}),
    "as JSON": lambda tool, given: ("execute_tool", {"tool_name": tool, "tool_args": json.dumps(given)}),
    "by JSON-RPC": lambda tool, given: ("rpc", {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": tool, "arguments": given}}),
    "in a request": lambda tool, given: ("proxy", {"request": {"tool": tool, "input": given}}),
    "in a list": lambda tool, given: ("parallel", {"tool_uses": [{"recipient_name": "functions.get_x", "parameters": {}}, {"name": tool, "arguments": given}]}),
    "as a function": lambda tool, given: ("run_all", {"tool_calls": [{"function": {"name": tool, "arguments": json.dumps(given)}}]}),
    "twice": lambda tool, given: ("call_tool", {"name": "call_tool", "arguments": {"name": tool, "arguments": given}}),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("tool", "params"), INNER, ids=[tool for tool, _ in INNER])
def test_call_within_a_call_has_at_least_the_tier_of_the_inner_call(
    form: str, tool: str, params: dict[str, Any]
) -> None:
    direct, called = judged(tool, params), judged(*FORMS[form](tool, params))
    assert called.tier >= direct.tier, called.why
    if called.tier == direct.tier:
        assert {one.name for one in direct.keys} <= {one.name for one in called.keys}
        assert (called.effect, called.content.repeats) == (direct.effect, direct.content.repeats)


def test_several_inner_calls_give_their_highest_tier_and_all_their_keys() -> None:
    calls = [{"name": "read_file", "arguments": {"path": "a"}}, {"name": "delete_file", "arguments": {"path": "b"}}]
    found = judged("parallel", {"tool_calls": calls})
    assert found.tier == judged("delete_file", {"path": "b"}).tier
    assert found.keys[0].name == "file:/w/b"
    assert "file:/w/a" in {one.name for one in found.keys}


def test_inner_call_that_would_harm_the_gate_is_blocked() -> None:
    found = judged("call_tool", {"name": "Bash", "arguments": {"command": "callosum off"}})
    assert (found.tier, found.verdict) == (4, Verdict.BLOCK)


def test_user_rule_that_names_the_outer_tool_decides_alone() -> None:
    rules = RuleSet.parse('{"rules": [{"tool": "call_tool", "tier": 1}]}', secret=b"secret")
    assert judged("call_tool", {"name": "Bash", "arguments": {"command": "rm -rf /srv"}}, rules).tier == 1
    blocked = judged("call_tool", {"name": "Bash", "arguments": {"command": "callosum off"}}, rules)
    assert (blocked.tier, blocked.verdict) == (4, Verdict.BLOCK)


def test_user_rule_that_names_the_inner_tool_applies() -> None:
    rules = RuleSet.parse('{"rules": [{"tool": "ship", "tier": 4, "verdict": "ask"}]}', secret=b"secret")
    found = judged("call_tool", {"name": "ship", "arguments": {}}, rules)
    assert (found.tier, found.verdict) == (4, Verdict.ASK)


def test_digest_is_of_the_outer_call() -> None:
    params = {"name": "Bash", "arguments": {"command": "rm -rf /srv"}}
    assert judged("call_tool", params).content.digest == RULES.digest("call_tool", params)


def test_endlessly_nested_calls_are_not_reads() -> None:
    params: dict[str, Any] = {"name": "get_x", "arguments": {}}
    for _ in range(50):
        params = {"name": "call_tool", "arguments": params}
    assert judged("call_tool", params).tier >= 3


@pytest.mark.parametrize(
    ("tool", "params", "tier"),
    [
        ("create_tool", {"tool_name": "delete_user", "parameters": {"type": "object"}}, 1),
        ("get_tool", {"tool_name": "delete_user", "input": {}}, 0),
        ("validate_tool_call", {"tool_name": "delete_user", "arguments": {"id": 1}}, 0),
        ("create_customer", {"name": "Delete Me", "data": {"a": 1}}, 2),
    ],
)
def test_text_that_only_mentions_a_tool_is_no_inner_call(tool: str, params: dict[str, Any], tier: int) -> None:
    assert judged(tool, params).tier == tier


GIT: list[tuple[str, dict[str, Any], int]] = [
    ("git_push", {"force": True}, 4),
    ("git_push", {"forceWithLease": "true"}, 4),
    ("git_push", {"remote": "origin", "branch": "main", "delete": True}, 4),
    ("git_push", {"refspec": "+main"}, 4),
    ("git_push", {"force": False}, 2),
    ("git_push", {"dryRun": True}, 0),
    ("mcp__git__push", {"force": True}, 4),
    ("git_reset", {"mode": "hard"}, 4),
    ("git_reset", {"hard": True}, 4),
    ("git_reset_hard", {}, 4),
    ("git_reset", {"mode": "soft"}, 1),
    ("git_reset", {}, 1),
    ("git_clean", {"force": True}, 4),
    ("git_clean", {"dry_run": True}, 0),
    ("git_checkout", {"branch": "x"}, 1),
    ("git_checkout", {"target": "x", "force": True}, 4),
    ("git_checkout", {"paths": ["a.py"]}, 4),
    ("git_checkout", {"target": "x", "createBranch": True}, 1),
    ("git_branch", {"mode": "delete", "branchName": "x", "force": True}, 4),
    ("git_branch", {"mode": "delete", "branchName": "x"}, 1),
    ("git_branch", {"mode": "list"}, 0),
    ("git_stash", {"mode": "drop"}, 4),
    ("git_stash_drop", {}, 4),
    ("git_stash", {"mode": "list"}, 0),
    ("git_worktree", {"mode": "remove", "worktreePath": "x", "force": True}, 4),
    ("git_worktree", {"mode": "remove", "worktreePath": "x"}, 1),
    ("git_tag", {"mode": "delete", "tagName": "v1"}, 2),
    ("git_restore", {"files": ["a"]}, 4),
    ("git_restore", {"files": ["a"], "staged": True}, 1),
    ("git_merge", {"branch": "x"}, 1),
    ("git_cherry_pick", {"commits": ["x"]}, 1),
    ("git_commit", {"message": "x", "amend": True}, 1),
    ("git_fetch", {}, 1),
    ("git_status", {}, 0),
    ("git_log", {"maxCount": 5}, 0),
    ("git", {"args": ["push", "--force"]}, 4),
    ("git", {"command": "git reset --hard"}, 4),
    ("run_git_command", {"command": "push --force"}, 4),
    ("git", {"command": "status"}, 0),
]


@pytest.mark.parametrize(("tool", "params", "tier"), GIT)
def test_git_tool_is_judged_as_the_git_command(tool: str, params: dict[str, Any], tier: int) -> None:
    found = judged(tool, params)
    assert found.tier == tier, found.why
    assert found.effect == ("write" if tier else "read")


def test_git_tool_that_names_its_folder_has_the_keys_of_the_command() -> None:
    found = judged("git_reset", {"mode": "hard", "repo_path": "/w"})
    command = judged("Bash", {"command": "git reset --hard"})
    assert [one.name for one in found.keys] == [one.name for one in command.keys]


def test_text_of_a_git_tool_cannot_bypass_the_shell_rules() -> None:
    assert judged("git", {"command": "status; rm -rf /srv"}).tier == 4
    assert judged("git_bash", {"command": "git status; rm -rf /srv"}).tier == 4


SHELL = "mcp__shell__run_command"
DECOYS: list[tuple[dict[str, Any], int]] = [
    ({"command": "ls", "cmd": "git push --force origin main"}, 4),
    ({"commandLine": "rm -rf /srv", "command": "ls"}, 4),
    ({"shell_command": "rm -rf /srv", "cmd": "ls"}, 4),
    ({"command": "ls", "script": "rm -rf /srv"}, 4),
    ({"command": "ls", "commands": ["pwd", "rm -rf /srv"]}, 4),
    ({"command": "ls", "input": "rm -rf /srv"}, 4),
    ({"command": "ls", "code": "rm -rf /srv"}, 4),
    ({"command": "ls", "Command": "rm -rf /srv"}, 4),
    ({"command": "ls", "argv": ["rm", "-rf", "/srv"]}, 4),
    ({"command": "rm -rf .", "cwd": "/w/build/x", "workdir": "/srv"}, 4),
    ({"commands": ["rm -rf /srv"]}, 4),
    ({"command": "ls", "cmd": "pwd"}, 0),
]


@pytest.mark.parametrize(("params", "tier"), DECOYS, ids=str)
@pytest.mark.parametrize("tool", [SHELL, "mcp__shell__execute", "exec"])
def test_decoy_param_hides_no_command(tool: str, params: dict[str, Any], tier: int) -> None:
    found = judged(tool, params)
    assert found.tier == tier
    assert found.keys or not tier
    assert found.content.digest != judged(tool, {**params, "note": "x"}).content.digest


def test_rule_of_the_users_is_asked_of_each_line() -> None:
    asked = {"name": "d", "tool": SHELL, "commandPattern": "^deploy", "tier": 3, "verdict": "ask"}
    allowed = {"name": "l", "tool": SHELL, "commandPattern": "^ls", "tier": 0}
    rules = RuleSet.parse(json.dumps({"rules": [allowed, asked]}))
    assert judged(SHELL, {"command": "ls", "cmd": "deploy"}, rules).verdict is Verdict.ASK
