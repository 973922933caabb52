"""The fallback table: its contents, the calls that count as tier 3, and its sources."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from callosum.client.fallback import READS, SHELLS, TierTable, load_table, runs_commands, tier_of
from callosum.model import Call
from callosum.rulebook import Rulebook
from callosum.rules import RuleSet

TABLE = {"Read": 0, "Write": 1, "message": 3, "wipe": 4, "Bash": 1, "mcp__box__exec": 0}


@pytest.mark.parametrize(
    ("tool", "params", "tier"),
    [
        ("Read", {}, 0), (" Read ", {}, 0), ("read", {}, 3), ("Write", {}, 1), ("message", {}, 3), ("wipe", {}, 4),
        ("nobody knows", {}, 3), ("", {}, 3), (5, {}, 3), ("Bash", {}, 3), ("mcp__box__exec", {}, 3),
        ("Read", {"_tier": 4}, 4), ("Read", {"_tier": 2}, 2), ("Read", {"_tier": "2"}, 2), ("Read", {"_tier": 1.5}, 2),
        ("Read", {"_tier": 99}, 4), ("Write", {"_tier": 0}, 1), ("Write", {"_tier": -4}, 1),
        ("Write", {"_tier": True}, 1), ("Write", {"_tier": float("nan")}, 1), ("Write", {"_tier": "x"}, 1),
        ("Write", None, 1), ("Write", [4], 1),
    ],
)  # fmt: skip
def test_table_gives_the_tier_of_a_call(tool: Any, params: Any, tier: int) -> None:
    assert tier_of(TABLE, tool, params) == tier


@pytest.mark.parametrize("said", [0, 1, 2, 3, 4, 5, 2.5, "3", " 4 ", "12345678", "123456789", True, None, -1, [3], "x"])
def test_hints_of_a_call_are_read_as_the_rules_read_them(said: Any) -> None:
    rules = RuleSet.parse(json.dumps({"rules": [{"tool": "look", "tier": 0}]}))
    call = Call("mira", "look", {"_tier": said})
    assert tier_of({"look": 0}, "look", call.params) == rules.classify(call).tier


def test_fallback_knows_every_shell_of_the_rules() -> None:
    shipped = json.loads((Path(__file__).parents[3] / "callosum/rules/tiers.json").read_text())
    named = {
        tool
        for rule in shipped["rules"]
        if "commandPattern" in rule and isinstance(rule.get("tool"), list)
        for tool in rule["tool"]
    }
    assert named
    assert all(map(runs_commands, named))


@pytest.mark.parametrize(
    ("tool", "does"),
    [
        ("run_terminal_cmd", True), ("PowerShell", True), ("mcp__box__Run-Command", True), ("functions.exec", True),
        ("box:ssh", True), ("shell_", True), ("BashOutput", False), ("ssh_keys_list", False), ("", False),
        ("__", False),
    ],
)  # fmt: skip
def test_tools_that_run_any_command_are_recognised(tool: str, *, does: bool) -> None:
    assert runs_commands(tool) is does
    assert tier_of({tool: 1}, tool) == (3 if does else 1)


@pytest.mark.parametrize("client", ["clients/javascript/callosum.js", "callosum/hosts/openclaw/tiers.js"])
def test_every_client_treats_the_same_tools_as_shells(client: str) -> None:
    text = (Path(__file__).parents[3] / client).read_text("utf-8")
    (listed,) = re.findall(r"const SHELLS = new Set\(\s*`([^`]*)`\.split\(/\\s\+/\),?\s*\);", text)
    assert set(listed.split()) == SHELLS
    assert 'tool.split(/__|[.:/]/).findLast((part) => part !== "") ?? ""' in text
    assert 'SHELLS.has(last.toLowerCase().replace(/[\\s_-]/g, ""))' in text


def test_the_shipped_table_holds_only_tools_that_read_by_the_default_rules() -> None:
    tiers = Rulebook(None, secret=b"s" * 32).current().highest_tiers()
    assert set(READS.values()) == {0}
    assert {tool: tiers.get(tool) for tool in READS} == dict(READS)


@pytest.mark.parametrize("client", ["clients/javascript/callosum.js", "callosum/hosts/openclaw/tiers.js"])
def test_every_client_ships_the_same_table(client: str) -> None:
    text = (Path(__file__).parents[3] / client).read_text("utf-8")
    (listed,) = re.findall(r"const READS = new (?:Set|Map)\(\s*`([^`]*)`", text)
    assert set(listed.split()) == set(READS)


@pytest.mark.parametrize("folder", [True, False])
def test_without_a_table_the_reads_of_hosts_are_tier_0_and_all_else_is_tier_3(tmp_path: Path, folder: bool) -> None:
    table = TierTable(None, str(tmp_path) if folder else None)
    assert [table.tier(tool) for tool in ("Read", "read_file", "Grep")] == [0, 0, 0]
    assert [table.tier(tool) for tool in ("reads", "Write", "message", "Bash", "mcp__x__read")] == [3] * 5
    assert table.tier("Read", {"_tier": 4}) == 4
    table.learn({"tools": {"Write": 1}})
    assert [table.tier(tool) for tool in ("Write", "Read")] == [1, 3], "the gate's own table stands alone"


def write(path: Path, tools: object) -> Path:
    path.write_text(json.dumps({"tools": tools}))
    return path


def test_given_table_comes_first(tmp_path: Path) -> None:
    write(tmp_path / "fallback.json", {"look": 1})
    table = TierTable({"look": 2}, str(tmp_path))
    table.learn({"tools": {"look": 0}})
    assert (table.tier("look"), table.wanted()) == (2, False)


def test_table_file_of_the_gate_comes_second_and_is_read_again(tmp_path: Path) -> None:
    table = TierTable(None, str(tmp_path))
    assert (table.tier("look"), table.wanted()) == (3, True)
    table.learn({"tools": {"look": 0}})
    assert table.tier("look") == 0
    write(tmp_path / "fallback.json", {"look": 1})
    assert (table.tier("look"), table.wanted()) == (1, False)
    write(tmp_path / "fallback.json", {"look": 2})
    assert table.tier("look") == 2


def test_named_table_file_is_used(tmp_path: Path) -> None:
    assert TierTable(write(tmp_path / "mine.json", {"look": 1}), None).tier("look") == 1


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "{}", '{"tools": []}', '{"tools": {"look": 5}}', '{"tools": {"look": -1}}',
        '{"tools": {"look": true}}', '{"tools": {"look": "1"}}', '{"tools": {"look": 1.0}}', "[" * 100_000, "\udc80",
    ],
)  # fmt: skip
def test_malformed_table_file_allows_nothing_risky(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "fallback.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError):
        load_table(path)
    table = TierTable(None, str(tmp_path))
    assert table.tier("look") == 3
    assert "cannot be used" in caplog.text
    table.learn({"tools": {"look": 0}})
    assert table.tier("look") == 0


def test_endless_table_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "fallback.json", {"look": 1, "x" * 4_000_000: 1})
    with pytest.raises(ValueError, match="longer"):
        load_table(tmp_path / "fallback.json")
