"""Calls whose params say that nothing changes, or that name no thing: rows of the shipped rules."""

import pytest

from callosum import Call
from callosum.rules import RuleSet

FILE = ("file:/w/a.py", "read")


@pytest.mark.parametrize(
    ("tool", "params", "tier", "keys"),
    [
        ("str_replace_based_edit_tool", {"command": "view", "path": "/w/a.py"}, 0, [FILE]),
        ("mcp__developer__text_editor", {"command": "view", "path": "/w/a.py"}, 0, [FILE]),
        ("mcp__filesystem__edit_file", {"path": "/w/a.py", "edits": [{"oldText": "a"}], "dryRun": True}, 0, [FILE]),
        ("mcp__playwright__browser_click", {"element": "Send", "ref": "e12"}, 1, []),
        ("mcp__playwright__browser_drag", {"startRef": "e1", "endRef": "e2"}, 1, []),
        ("mcp__review__create_inline_comment", {"pr_number": "12", "path": "a.py"}, 2, [("pr:some/some#12", "append")]),
    ],
)
def test_32_b6_looks_dry_runs_elements_and_comments_on_a_file_write_no_file(
    tool: str, params: dict[str, object], tier: int, keys: list[tuple[str, str]]
) -> None:
    found = RuleSet.parse().classify(Call("mira", tool, params, cwd="/w"))
    assert (found.tier, [(key.name, key.mode.value) for key in found.keys]) == (tier, keys)


@pytest.mark.parametrize(
    ("tool", "params"),
    [
        ("str_replace_based_edit_tool", {"command": "create", "path": "/w/a.py"}),
        ("mcp__filesystem__edit_file", {"path": "/w/a.py", "dryRun": False}),
        ("mcp__filesystem__edit_file", {"path": "/w/a.py", "dryRun": "false"}),
    ],
)
def test_other_calls_of_these_tools_write(tool: str, params: dict[str, object]) -> None:
    found = RuleSet.parse().classify(Call("mira", tool, params, cwd="/w"))
    assert (found.effect, found.keys[0].name) == ("write", "file:/w/a.py")
