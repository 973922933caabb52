"""The examples of the documentation are rules that work."""

import re
import tomllib
from pathlib import Path

from callosum.model import Call
from callosum.rules import RuleSet
from callosum.rules.fields import FIELDS
from callosum.rules.shell import ShellPolicy

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "rules.md").read_text("utf-8")


def test_example_on_the_page_is_a_valid_rules_file() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    rules = RuleSet.parse(example)
    seen = rules.classify(Call("a", "mcp__crm__send_note", {"kind": "mail", "to": "A@x.org", "customer": {"id": 5}}))
    assert [key.name for key in seen.keys] == ["email:a@x.org", "crm:5"]
    assert rules.classify(Call("a", "Bash", {"command": "terraform apply"}, cwd="/w")).keys[0].name == "terraform:/w"


def test_page_lists_the_policy_with_its_defaults() -> None:
    section = TEXT.partition("| `[shell]` |")[2].partition("\n\n")[0]
    told: dict[str, object] = {}
    for row in section.split("\n")[2:]:
        names, said = (re.findall(r"`([^`]+)`", cell) or cell.split(", ") for cell in row.split(" | ")[:2])
        values = [int(one) if one.isdecimal() else one for one in map(str.strip, said)]
        told |= (
            {names[0]: () if values == ["none"] else tuple(values)}
            if len(names) < len(values) or (values == ["none"])
            else dict(zip(names, values, strict=True))
        )
    assert told == {name: getattr(ShellPolicy(), name) for name in ShellPolicy.__struct_fields__}
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert set(tomllib.loads(example)["shell"]) <= set(told)


def test_page_describes_every_field() -> None:
    assert all(f"`{name}`" in TEXT for name in FIELDS)
