"""The examples of the documentation are rules that work."""

import re
from pathlib import Path

from callosum.model import Call
from callosum.rules import RuleSet
from callosum.rules.fields import FIELDS

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "rules.md").read_text("utf-8")


def test_the_example_is_a_rules_file() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    rules = RuleSet.parse(example)
    seen = rules.classify(Call("a", "mcp__crm__send_note", {"kind": "mail", "to": "A@x.org", "customer": {"id": 5}}))
    assert [key.name for key in seen.keys] == ["email:a@x.org", "crm:5"]
    assert rules.classify(Call("a", "Bash", {"command": "terraform apply"}, cwd="/w")).keys[0].name == "terraform:/w"


def test_every_field_is_told() -> None:
    assert all(f"`{name}`" in TEXT for name in FIELDS)
