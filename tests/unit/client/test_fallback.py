"""The table for the time without a gate: what is in it, what counts as 3, where it comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callosum.client.fallback import SHELLS, Table, load_table, tier_of
from callosum.model import Call
from callosum.rules import RuleSet

TABLE = {"Read": 0, "Write": 1, "message": 3, "wipe": 4, "Bash": 1, "mcp__box__exec": 0}


@pytest.mark.parametrize(
    ("tool", "params", "tier"),
    [
        ("Read", {}, 0),
        (" Read ", {}, 0),
        ("read", {}, 3),
        ("Write", {}, 1),
        ("message", {}, 3),
        ("wipe", {}, 4),
        ("nobody knows", {}, 3),
        ("", {}, 3),
        (5, {}, 3),
        ("Bash", {}, 3),
        ("mcp__box__exec", {}, 3),
        ("Read", {"_tier": 4}, 4),
        ("Read", {"_tier": 2}, 2),
        ("Read", {"_tier": "2"}, 2),
        ("Read", {"_tier": 1.5}, 2),
        ("Read", {"_tier": 99}, 4),
        ("Write", {"_tier": 0}, 1),
        ("Write", {"_tier": -4}, 1),
        ("Write", {"_tier": True}, 1),
        ("Write", {"_tier": float("nan")}, 1),
        ("Write", {"_tier": "x"}, 1),
        ("Write", None, 1),
        ("Write", [4], 1),
    ],
)
def test_the_tier_of_a_call(tool: Any, params: Any, tier: int) -> None:
    assert tier_of(TABLE, tool, params) == tier


@pytest.mark.parametrize("said", [0, 1, 2, 3, 4, 5, 2.5, "3", " 4 ", "12345678", "123456789", True, None, -1, [3], "x"])
def test_what_a_call_says_of_itself_is_read_as_the_rules_read_it(said: Any) -> None:
    rules = RuleSet.parse(json.dumps({"rules": [{"tool": "look", "tier": 0}]}))
    call = Call("mira", "look", {"_tier": said})
    assert tier_of({"look": 0}, "look", call.params) == rules.classify(call).tier


def test_every_shell_that_the_rules_know_is_one_here() -> None:
    shipped = json.loads((Path(__file__).parents[3] / "callosum/rules/tiers.json").read_text())
    named = {
        tool.lower()
        for rule in shipped["rules"]
        if "commandPattern" in rule and isinstance(rule.get("tool"), list)
        for tool in rule["tool"]
    }
    assert named
    assert named <= SHELLS


def write(path: Path, tools: object) -> Path:
    path.write_text(json.dumps({"tools": tools}))
    return path


def test_a_table_that_is_given_comes_first(tmp_path: Path) -> None:
    write(tmp_path / "fallback.json", {"look": 1})
    table = Table({"look": 2}, str(tmp_path))
    table.learn({"tools": {"look": 0}})
    assert (table.tier("look"), table.wanted()) == (2, False)


def test_then_the_file_beside_the_gate_as_it_is_now(tmp_path: Path) -> None:
    table = Table(None, str(tmp_path))
    assert (table.tier("look"), table.wanted()) == (3, True)
    table.learn({"tools": {"look": 0}})
    assert table.tier("look") == 0
    write(tmp_path / "fallback.json", {"look": 1})
    assert (table.tier("look"), table.wanted()) == (1, False)
    write(tmp_path / "fallback.json", {"look": 2})
    assert table.tier("look") == 2


def test_a_file_that_is_named(tmp_path: Path) -> None:
    assert Table(write(tmp_path / "mine.json", {"look": 1}), None).tier("look") == 1


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "{}", '{"tools": []}', '{"tools": {"look": 5}}', '{"tools": {"look": -1}}',
        '{"tools": {"look": true}}', '{"tools": {"look": "1"}}', '{"tools": {"look": 1.0}}', "[" * 100_000, "\udc80",
    ],
)  # fmt: skip
def test_a_bad_file_lets_nothing_through_that_it_should_not(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "fallback.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError):
        load_table(path)
    table = Table(None, str(tmp_path))
    assert table.tier("look") == 3
    assert "cannot be used" in caplog.text
    table.learn({"tools": {"look": 0}})
    assert table.tier("look") == 0


def test_a_table_without_end_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "fallback.json", {"look": 1, "x" * 4_000_000: 1})
    with pytest.raises(ValueError, match="longer"):
        load_table(tmp_path / "fallback.json")
