"""Every row of the tier tables: the seeds' own rules, the default set, the protocol's additions."""

import json
from pathlib import Path
from typing import Any

import pytest

from callosum.errors import ConfigError
from callosum.model import HOUR, Call, Mode, Verdict
from callosum.rules import RuleSet

R, W, A = Mode.READ, Mode.WRITE, Mode.APPEND
SEEDS = Path(__file__).with_name("original.json").read_bytes()
"""A rules file as the first version of the program took it: its fields, its tools and its templates."""
RULES = RuleSet.parse(secret=b"secret")


def call(tool: str, params: dict[str, Any] | None = None, **more: Any) -> Call:
    return Call("mira", tool, params or {}, **more)


# The original rules, as they were written; (tool, params) -> tier, key.
ORIGINAL = [
    ("message", {"action": "channel-delete"}, 4, "message:channel-delete"),
    ("message", {"action": "category-delete"}, 4, "message:category-delete"),
    ("gateway", {"action": "config.apply"}, 4, "gateway:config.apply"),
    ("gateway", {"action": "update.run"}, 4, "gateway:update.run"),
    ("exec", {"command": "curl smtp://mx --mail-rcpt bob@example.com"}, 3, "email:bob@example.com"),
    ("exec", {"command": "himalaya -a me message send 'To: bob@example.com'"}, 3, "email:bob@example.com"),
    ("cron", {"action": "add"}, 3, "cron:new"),
    ("cron", {"action": "update", "jobId": "j1"}, 3, "cron:j1"),
    ("message", {"action": "send", "target": "andy"}, 2, "channel:andy"),
    ("message", {"action": "edit", "channel": "#general"}, 2, "channel:#general"),
    ("message", {"action": "react", "target": "andy"}, 2, "channel:andy"),
    ("message", {"action": "thread-reply", "target": "andy"}, 2, "channel:andy"),
    ("message", {"action": "thread-create", "target": "andy"}, 2, "channel:andy"),
    ("message", {"action": "poll", "target": 12345}, 2, "channel:12345"),
    ("message", {"action": "send"}, 2, None),
    ("sessions_send", {"sessionKey": "agent:main:x"}, 2, "session:agent:main:x"),
    ("sessions_spawn", {"label": "research"}, 2, "session:research"),
    ("sessions_spawn", {}, 2, None),
    ("write", {"path": "/a/b.md"}, 1, "file:/a/b.md"),
    ("edit", {"file_path": "README.md"}, 1, "file:README.md"),
    ("exec", {"command": "make"}, 1, None),
    ("web_search", {"query": "weather"}, 0, None),
]


@pytest.mark.parametrize(("tool", "params", "tier", "key"), ORIGINAL)
def test_original_rules_alone_give_the_original_tiers(
    tool: str, params: dict[str, Any], tier: int, key: str | None
) -> None:
    rules = RuleSet.parse(SEEDS, defaults=False)
    seen = rules.classify(call(tool, params))
    assert (seen.tier, seen.keys[0].name if seen.keys else None) == (tier, key)
    assert seen.rule
    assert seen.gap == (tier >= 2 and key is None)


@pytest.mark.parametrize(("tool", "params", "tier", "key"), ORIGINAL)
def test_default_rules_agree_with_the_original_rules(
    tool: str, params: dict[str, Any], tier: int, key: str | None
) -> None:
    seen = RULES.classify(call(tool, params))
    assert (seen.tier, seen.keys[0].name if seen.keys else None) == (tier, key)


def test_the_original_catch_all_is_a_floor_over_the_default_set() -> None:
    rules = RuleSet.parse(SEEDS)
    assert rules.classify(call("web_search", {"query": "x"})).tier == 0
    assert rules.classify(call("some_unknown_thing", {})).tier == 1
    assert rules.classify(call("delete_repository", {"owner": "o", "repo": "r"})).tier == 4
    assert rules.classify(call("Bash", {"command": "git push --force"})).tier == 4


DEFAULTS = [
    # tool, params, tier, keys
    ("message", {"action": "send", "target": "andy", "replyTo": "msg-500"}, 3, [("thread:andy:msg-500", W), ("thread:|msg-500", A)]),
    ("message", {"action": "thread-reply", "channel": "c", "replyTo": "7"}, 3, [("thread:c:7", W), ("thread:|7", A)]),
    ("message", {"action": "send", "target": "andy", "replyTo": " "}, 2, [("channel:andy", A)]),
    ("message", {"action": "send", "target": " #general "}, 2, [("channel:#general", A)]),
    ("message", {"action": "send", "target": "unknown"}, 2, []),
    ("write", {"path": "a.txt"}, 1, [("file:/w/a.txt", W)]),
    ("Write", {"file_path": "/w//x/../a.txt"}, 1, [("file:/w/a.txt", W)]),
    ("Edit", {"file_path": "./a.txt"}, 1, [("file:/w/a.txt", W)]),
    ("MultiEdit", {"file_path": "/w/a.txt", "edits": []}, 1, [("file:/w/a.txt", W)]),
    ("NotebookEdit", {"notebook_path": "n.ipynb"}, 1, [("file:/w/n.ipynb", W)]),
    (
        "apply_patch",
        {"input": "*** Begin Patch\n*** Update File: a.py\n@@\n*** Add File: b/c.py\n*** End Patch"},
        1,
        [("file:/w/a.py", W), ("file:/w/b/c.py", W)],
    ),
    ("read", {"path": "a.txt"}, 0, [("file:/w/a.txt", R)]),
    ("Read", {"file_path": "/w/a.txt"}, 0, [("file:/w/a.txt", R)]),
    ("Grep", {"pattern": "x", "path": "/w"}, 0, []),
    ("WebSearch", {"query": "x"}, 0, []),
    ("bash", {"command": "ls -la"}, 0, []),
    ("Bash", {"command": "rm -r build"}, 1, [("file:/w/build/", W)]),
    ("Bash", {"command": "cd sub && sudo rm -rf x y/*.o"}, 1, [("file:/w/sub/x/", W), ("file:/w/sub/y/", W)]),
    ("Bash", {"command": "rm a.txt"}, 1, [("file:/w/a.txt", W)]),
    ("Bash", {"command": "git push origin main"}, 2, [("git:/w|remote:origin/main", W)]),
    ("Bash", {"command": "git -C sub push"}, 2, [("git:/w|remote:origin/", W)]),
    ("Bash", {"command": "git push --force origin main"}, 4, [("git:/w|remote:origin/main", W)]),
    ("Bash", {"command": "git push -f"}, 4, [("git:/w|remote:origin/", W)]),
    ("Bash", {"command": "git push origin +main"}, 4, [("git:/w|remote:origin/main", W)]),
    ("Bash", {"command": "git push --follow-tags"}, 2, [("git:/w|remote:origin/", W)]),
    ("Bash", {"command": "gh repo delete Owner/Name --yes"}, 4, [("repo:owner/name", W)]),
    ("exec", {"command": "gh api -X DELETE repos/o/n"}, 4, [("repo:o/n", W)]),
    ("bash", {"command": "curl smtps://mx --mail-from me@x.org --mail-rcpt A@x.org --mail-rcpt '<b@x.org>'"}, 3, [("email:a@x.org", W), ("email:b@x.org", W)]),
    (
        "shell",
        {"command": "printf 'To: Ann <ann@x.org>, bob@x.org\\nCc: c@x.org\\nFrom: me@x.org\\n\\nhi' | sendmail -t"},
        3,
        [("email:ann@x.org", W), ("email:bob@x.org", W), ("email:c@x.org", W)],
    ),
    ("exec", {"command": "echo hi | mail -s hello -r me@x.org ann@x.org bob@x.org"}, 3, [("email:ann@x.org", W), ("email:bob@x.org", W)]),
    ("exec", {"command": "himalaya message reply 42 -H 'To: ann@x.org'; himalaya send"}, 3, [("email:ann@x.org", W), ("email:thread:42", W)]),
    ("exec", {"command": "himalaya template send < mail.eml"}, 3, []),
    ("delete_repository", {"owner": "O", "repo": "R"}, 4, [("repo:o/r", W)]),
    ("mcp__github__delete_repository", {"owner": "O", "repo": "R"}, 4, [("repo:o/r", W)]),
    ("send_payment", {"recipient": "DE89 3704", "amount": 5}, 4, [("payment:DE89 3704", W)]),
    ("gateway", {"action": "config.get"}, 0, []),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "params", "tier", "keys"), DEFAULTS)
def test_the_default_set(tool: str, params: dict[str, Any], tier: int, keys: list[tuple[str, Mode]]) -> None:
    seen = RULES.classify(call(tool, params, cwd="/w"))
    assert (seen.tier, [(key.name, key.mode) for key in seen.keys]) == (tier, keys)
    assert seen.effect == ("write" if tier else "read")
    assert seen.gap == (tier >= 2 and not keys)
    assert seen.why


REPEATS = [
    ("message", {"action": "send", "target": "a", "message": "x"}, True),
    ("message", {"action": "send", "target": "a", "replyTo": "1", "message": "x"}, True),
    ("message", {"action": "react", "target": "a"}, False),
    ("exec", {"command": "himalaya send 'To: a@x.org'"}, True),
    ("bash", {"command": "git push"}, False),
    ("write", {"path": "a", "content": "b"}, False),
    ("read", {"path": "a"}, False),
    ("send_payment", {"recipient": "a", "amount": 1}, True),
    ("book_flight", {"flight_id": 1}, True),
    ("create_issue", {"owner": "o", "repo": "r", "title": "t"}, True),
    ("update_issue", {"issue_id": 1, "title": "t"}, False),
    ("delete_file", {"file_id": 1}, False),
    ("add_label", {"issue_id": 1, "label": "x"}, False),
]


@pytest.mark.parametrize(("tool", "params", "repeats"), REPEATS)
def test_effect_of_a_repeat_is_classified(tool: str, params: dict[str, Any], repeats: bool) -> None:
    assert RULES.classify(call(tool, params)).content.repeats is repeats


def test_action_field_of_the_wire_counts_as_a_param() -> None:
    seen = RULES.classify(call("message", {"target": "andy"}, action="send"))
    assert (seen.tier, seen.keys[0].name) == (2, "channel:andy")
    same = RULES.classify(call("message", {"target": "andy", "action": "send"}))
    assert seen.content.digest == same.content.digest == RULES.digest("message", {"target": "andy"}, "send")


def test_higher_tier_of_two_actions_counts() -> None:
    for action, other in (("send", "channel-delete"), ("channel-delete", "send")):
        assert RULES.classify(call("message", {"action": other, "target": "a"}, action=action)).tier == 4


def test_a_named_key_comes_first_and_the_rules_stay_beside_it() -> None:
    seen = RULES.classify(call("message", {"action": "send", "target": "a", "_contextKey": "project: Apollo "}))
    assert [key.name for key in seen.keys] == ["project:Apollo", "channel:a"]
    assert seen.keys[0].mode is W
    seen = RULES.classify(call("write", {"path": "x", "_contextKey": "email:Al <AL@x.org>"}, cwd="/w"))
    assert [key.name for key in seen.keys] == ["email:al@x.org", "file:/w/x"]


@pytest.mark.parametrize("bad", ["", "  ", None, 7, ["a"], {"a": 1}, True, "channel:unknown"])
def test_a_bad_named_key_is_ignored_with_a_reason(bad: Any) -> None:
    seen = RULES.classify(call("message", {"action": "send", "target": "a", "_contextKey": bad}))
    assert [key.name for key in seen.keys] == ["channel:a"]
    assert any("_contextKey" in one for one in seen.why)


@pytest.mark.parametrize(
    ("said", "tier"),
    [
        *((3, 3), (4, 4), (2, 2), (0, 2), (-1, 2), (7, 4), (2.5, 3), (1e300, 4), (float("nan"), 2), (float("inf"), 4)),
        *(("3", 3), ("high", 2), (True, 2), (None, 2), ([4], 2), (10**400, 4)),
    ],
)
def test_declared_tier_raises_and_never_lowers(said: Any, tier: int) -> None:
    assert RULES.classify(call("message", {"action": "send", "target": "a", "_tier": said})).tier == tier


def test_a_raised_read_is_a_write() -> None:
    seen = RULES.classify(call("read", {"path": "/a", "_tier": 3}))
    assert (seen.tier, seen.effect, seen.keys[0].mode) == (3, "write", W)


def test_the_users_rules_come_first_and_the_first_match_wins() -> None:
    rules = RuleSet.parse(
        json.dumps(
            {
                "rules": [
                    {
                        "name": "a", "tool": "mcp__github__*", "tier": 3, "contextKey": "gh:{params.x.y}",
                        "recentWindowMs": 0,
                    },
                    {
                        "name": "b",
                        "tool": ["mcp__github__x", "write"],
                        "tier": 4,
                        "verdict": "ask",
                        "cells": {"stale": "block"},
                    },
                    {
                        "name": "c",
                        "tool": "deploy?",
                        "tier": 2,
                        "contextKey": [{"key": "env:{params.env}", "mode": "append"}, "x:{tool}"],
                    },
                ]
            }
        )
    )  # fmt: skip
    seen = rules.classify(call("mcp__github__x", {"x": {"y": 5}}))
    assert (seen.rule, seen.tier, seen.keys[0].name, seen.window) == ("a", 3, "gh:5", 0)
    seen = rules.classify(call("write", {"path": "/a"}))
    assert (seen.rule, seen.tier, seen.verdict, dict(seen.cells or {}), seen.window) == (
        "b",
        4,
        Verdict.ASK,
        {"stale": "block"},
        HOUR,
    )
    seen = rules.classify(call("deploy1", {"env": "prod"}))
    assert [(key.name, key.mode) for key in seen.keys] == [("env:prod", A), ("x:deploy1", W)]
    assert rules.classify(call("read", {"path": "/a"})).rule == "file-read"


def test_the_longest_window_counts_every_rule() -> None:
    assert RULES.longest_window == HOUR
    longer = RuleSet.parse('{"rules": [{"tier": 1, "tool": "x", "recentWindowMs": 7200000}]}')
    assert longer.longest_window == 2 * HOUR


def test_exact_params_tell_one_from_true_and_take_lists() -> None:
    rules = RuleSet.parse(
        '{"rules": [{"name": "t", "tier": 4, "tool": "x", "params": {"a": true}},'
        ' {"name": "n", "tier": 3, "tool": "x", "params": {"a": [1, null]}, "contextKey": "k:1"}]}'
    )
    assert rules.classify(call("x", {"a": True})).rule == "t"
    assert rules.classify(call("x", {"a": 1.0})).rule == "n"
    assert rules.classify(call("x", {"a": None})).rule == "n"
    assert rules.classify(call("x", {"a": [1]})).rule == ""
    assert rules.classify(call("x", {})).rule == ""


@pytest.mark.parametrize("tool", ["message", "update_document", "read", "exec"])
@pytest.mark.parametrize(
    ("hint", "least"),
    [
        ({"_commitment": True}, 3),
        ({"_commitment": "accept"}, 3),
        ({"_irreversible": True}, 4),
        ({"_irreversible": True, "_commitment": True, "_tier": 1}, 4),
        ({"_irreversible": False, "_commitment": None}, 0),
        ({"_irreversible": ""}, 0),
    ],
)
def test_hints_of_the_agent_raise_the_tier_and_never_lower_it(tool: str, hint: dict[str, Any], least: int) -> None:
    params = {"action": "send", "target": "a", "path": "/a", "command": "ls", "document_id": "d"}
    before = RULES.classify(call(tool, params))
    after = RULES.classify(call(tool, {**params, **hint}))
    assert after.tier == max(before.tier, least)
    assert after.effect == ("write" if least > before.tier else before.effect)


def test_global_window_applies_to_rules_without_one() -> None:
    rules = [
        {"name": "own", "tool": "own", "tier": 3},
        {"name": "short", "tool": "short", "tier": 3, "recentWindowMs": 5},
    ]
    found = RuleSet.parse(json.dumps({"recentWindowMs": 600_000, "rules": rules}))
    windows = {tool: found.classify(call(tool, {"action": "send", "target": "a"})).window for tool in ("own", "short")}
    assert windows == {"own": 600_000_000, "short": 5000}
    for tool in ("message", "no_rule_names_this_tool"):
        assert found.classify(call(tool, {"action": "send", "target": "a"})).window == 600_000_000
    assert found.longest_window == 3_600_000_000
    assert RuleSet.parse(json.dumps({"recentWindowMs": 7_200_000, "rules": []})).longest_window == 7_200_000_000
    with pytest.raises(ConfigError, match="recentWindowMs"):
        RuleSet.parse('{"recentWindowMs": "long", "rules": []}')
