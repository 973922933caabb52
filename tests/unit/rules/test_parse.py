"""An invalid rules file is refused with the exact path of the error."""

import json
from typing import Any

import pytest

from callosum.errors import ConfigError
from callosum.model import Call
from callosum.rules import RuleSet
from tests.support.cpu import cpu_within


def rule(**fields: Any) -> str:
    good = {"name": "ok", "tier": 1, "tool": "x"}
    return json.dumps({"rules": [good, {**good, **fields}]})


BAD: list[tuple[str | bytes, str]] = [
    ("", "tiers.json:1:1"),
    ("[1]", "tiers.json"),
    ("{", "tiers.json:1:2"),
    (b"\xff\xfe", "tiers.json"),
    ("{}", "rules"),
    ('{"rules": {}}', "rules"),
    ('{"rules": [1]}', "rules[0]"),
    ('{"rules": [], "rules": []}', "rules"),
    ('{"rules": [{"tier": 1, "tool": "x", "tier": 2}]}', "rules[0].tier"),
    ('{"rules": [{"tier": 1, "tool": "x", "params": {"a": 1, "a": 2}}]}', "rules[0].params.a"),
    ('{"rules": [{"tier": NaN, "tool": "x"}]}', "tiers.json"),
    ('{"rules": [{"tier": ' + "1" * 5000 + ', "tool": "x"}]}', "tiers.json"),
    ("[" * 200_000, "tiers.json"),
    ('{"rules": [{"tool": "x"}]}', "rules[0].tier"),
    ('{"rules": [{"tier": 1}]}', "rules[0].tool"),
    (rule(tier=7), "rules[1].tier"),
    (rule(tier=-1), "rules[1].tier"),
    (rule(tier=True), "rules[1].tier"),
    (rule(tier="3"), "rules[1].tier"),
    (rule(tier=1.5), "rules[1].tier"),
    (rule(name=""), "rules[1].name"),
    (rule(name=5), "rules[1].name"),
    (rule(name="n" * 300), "rules[1].name"),
    (rule(tool=[]), "rules[1].tool"),
    (rule(tool=["a", 5]), "rules[1].tool[1]"),
    (rule(tool={}), "rules[1].tool"),
    (rule(tool=" "), "rules[1].tool"),
    (rule(params=[]), "rules[1].params"),
    (rule(params={"a": {}}), "rules[1].params.a"),
    (rule(params={"a": [1, []]}), "rules[1].params.a[1]"),
    (rule(params={"a": []}), "rules[1].params.a"),
    (rule(present=5), "rules[1].present"),
    (rule(commandPattern="("), "rules[1].commandPattern"),
    (rule(commandPattern="(?=a)b"), "rules[1].commandPattern"),
    (rule(commandPattern="(a)\\1"), "rules[1].commandPattern"),
    (rule(commandPattern=""), "rules[1].commandPattern"),
    (rule(commandPattern="a" * 5000), "rules[1].commandPattern"),
    (rule(commandPattern="(a{1000}){1000}"), "rules[1].commandPattern"),
    (rule(contextKey=5), "rules[1].contextKey"),
    (rule(contextKey=""), "rules[1].contextKey"),
    (rule(contextKey="a:{"), "rules[1].contextKey"),
    (rule(contextKey="a:}"), "rules[1].contextKey"),
    (rule(contextKey="a:{}"), "rules[1].contextKey"),
    (rule(contextKey="a:{x}"), "rules[1].contextKey"),
    (rule(contextKey="a:{params}"), "rules[1].contextKey"),
    (rule(contextKey="a:{params.x|}"), "rules[1].contextKey"),
    (rule(contextKey="a:{params.x|new|params.y}"), "rules[1].contextKey"),
    (rule(contextKey="a:{params.x|param.y}"), "rules[1].contextKey"),
    (rule(contextKey="unknown"), "rules[1].contextKey"),
    (rule(contextKey=["a:b", "a:{"]), "rules[1].contextKey[1]"),
    (rule(contextKey=[{"key": "a", "mode": "x"}]), "rules[1].contextKey[0].mode"),
    (rule(contextKey=[{"mode": "read"}]), "rules[1].contextKey[0].key"),
    (rule(contextKey={"key": "a", "more": 1}), "rules[1].contextKey.more"),
    (rule(contextKey=["a"] * 17), "rules[1].contextKey"),
    (rule(recentWindowMs=-1), "rules[1].recentWindowMs"),
    (rule(recentWindowMs=1e18), "rules[1].recentWindowMs"),
    (rule(recentWindowMs="1"), "rules[1].recentWindowMs"),
    (rule(verdict="no"), "rules[1].verdict"),
    (rule(cells={"held": "no"}), "rules[1].cells.held"),
    (rule(cells={"what": "ask"}), "rules[1].cells.what"),
    (rule(cells=[]), "rules[1].cells"),
    (rule(effect="maybe"), "rules[1].effect"),
    (rule(repeats=1), "rules[1].repeats"),
    (rule(stance="attend"), "rules[1].stance"),
    (rule(judge="no"), "rules[1].judge"),
    (rule(contextkey="a"), "rules[1].contextkey"),
]


@pytest.mark.parametrize(("text", "place"), BAD, ids=[f"{at}-{number}" for number, (_, at) in enumerate(BAD)])
def test_every_error_names_its_path(text: str | bytes, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RuleSet.parse(text)
    assert caught.value.at == place
    assert str(caught.value).startswith(f"{place}: ")


def test_the_message_says_what_was_expected() -> None:
    with pytest.raises(ConfigError) as caught:
        RuleSet.parse(rule(tier=7))
    assert str(caught.value) == "rules[1].tier: expected an integer from 0 to 4, got 7"


def test_absurd_sizes_are_refused() -> None:
    with pytest.raises(ConfigError):
        RuleSet.parse(b" " * 9_000_000)
    with pytest.raises(ConfigError):
        RuleSet.parse('{"rules": [' + ",".join(['{"tier":1,"tool":"x"}'] * 20_001) + "]}")


def test_harmless_metadata_is_accepted() -> None:
    rules = RuleSet.parse(
        '\ufeff{"$schema": "x", "description": "y", "version": 3, "rules": []}'.encode(), defaults=False
    )
    assert rules.rules == ()
    assert rules.classify(Call("a", "get_x")).tier == 0
    assert rules.classify(Call("a", "frobnicate")).tier == 1


def test_patterns_run_in_linear_time() -> None:
    rules = RuleSet.parse(rule(tool="exec", commandPattern="(a+)+$"))
    with cpu_within(1.0):
        rules.classify(Call("a", "exec", {"command": "a" * 100_000 + "b"}))


def test_globs_run_in_linear_time() -> None:
    rules = RuleSet.parse(rule(tool="*a" * 50 + "b"))
    with cpu_within(1.0):
        rules.classify(Call("a", "a" * 20_000, {}))


def test_many_patterns_are_matched_as_one_set() -> None:
    many = [{"name": f"r{i}", "tier": 2, "tool": "exec", "commandPattern": f"\\bcmd{i}\\b"} for i in range(300)]
    rules = RuleSet.parse(json.dumps({"rules": many}))
    assert rules.classify(Call("a", "exec", {"command": "run cmd217 now"})).rule == "r217"
    assert rules.classify(Call("a", "exec", {"command": "cmd299; cmd17"})).rule == "r17"
    assert rules.classify(Call("a", "exec", {"command": "ls"})).rule == "exec-general"
