"""Commands that settings, variables and options hand to other programs, and text in code that is no statement."""

import json
from pathlib import Path

import pytest

from callosum.model import Call
from callosum.rules import RuleSet
from callosum.rules.shell import judge

RULES = RuleSet.parse(secret=b"secret")
TOLD = json.loads(Path(__file__).with_name("told.json").read_text("utf-8"))
"""The tiers of command lines, and of tools by their names and descriptions. Add a case there."""


@pytest.mark.parametrize(
    ("tier", "command"), [(int(tier), one) for tier, lines in TOLD["lines"].items() for one in lines]
)
def test_line_has_the_tier_of_what_it_makes_other_programs_do(tier: int, command: str) -> None:
    found = judge(command, "/w")
    assert found.tier == tier, found.why
    assert found.effect == ("write" if tier else "read")


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("npm version patch", "file:/w/package.json"),
        ("poetry version patch", "file:/w/pyproject.toml"),
        ("mkdir -p /var/log/x", "file:/var/log/x"),
    ],
)
def test_written_file_is_a_key(command: str, key: str) -> None:
    assert [one.name for one in judge(command, "/w").keys] == [key]


@pytest.mark.parametrize(("tool", "description", "tier"), TOLD["names"])
def test_verb_is_not_mistaken_for_a_noun(tool: str, description: str, tier: int) -> None:
    found = RULES.classify(Call("a", tool, {"id": "5"}, description=description or None))
    assert found.tier == tier, found.why
    assert found.effect == ("write" if tier else "read")
