"""Bounds with a wide margin: no input of an agent makes the gate slow."""

import json
import statistics
import sys
import time
from typing import Any

import pytest

from callosum.model import Call
from callosum.redact import summarise
from callosum.rules import RuleSet
from tests.support.cpu import cpu_within
from tests.support.opcodes import counting

RULES = RuleSet.parse(secret=b"secret", protected=("/home/u/.state",))
M = 1_000_000

HUGE: dict[str, Call] = {
    "content": Call("a", "write", {"path": "/a", "content": "x" * M}),
    "words": Call("a", "message", {"action": "send", "target": "a", "message": " ".join(f"w{i}x" for i in range(M // 8))}),
    "command": Call("a", "Bash", {"command": "x" * M}),
    "quotes": Call("a", "Bash", {"command": "callosum " + '\'"\\"' * (M // 4)}),
    "recipients": Call("a", "Bash", {"command": "curl smtp://x " + "To: a@b.c, --mail-rcpt a@b.c " * (M // 29)}),
    "removed": Call("a", "Bash", {"command": "rm -rf " + "a/* " * (M // 4)}),
    "addresses": Call("a", "send_email", {"to": "a@" * (M // 2)}),
    "path": Call("a", "write", {"path": "/../a" * (M // 5)}),
    "rules path": Call("a", "write", {"path": "/callosum/" * (M // 10) + "tiers.json"}),
    "ids": Call("a", "delete_x", {"ids": list(range(M // 7))}),
    "nested": Call("a", "foo", {"a": [[[{"b": i}]] for i in range(M // 20)]}),
    "params": Call("a", "foo", {f"k{i}_id": i for i in range(M // 20)}),
    "sql": Call("a", "run_sql", {"sql": "select 1 " + "select into /* '" * (M // 16)}),
    "tool": Call("a", "get_" * (M // 4), {"x": 1}),
    "description": Call("a", "zzz", {"x": 1}, description="a," * (M // 2)),
    "wide": Call("a", "message", {"action": "send", "target": "a", "message": "\u6f22" * M}),
    "inner": Call("a", "foo", {"params": {f"k{i}_id": i for i in range(M // 20)}}),
    "json": Call("a", "foo", {"params": "{" * M}),
    "nested json": Call("a", "foo", {"params": '{"params":' * 5_000}),
    "document": Call("a", "graphql", {"query": "mutation(" * (M // 9)}),
    "description of marks": Call("a", "get_x", {}, description="are marked " * (M // 11)),
    "schema": Call("a", "get_x", {}, schema={"properties": {f"p{i}": {} for i in range(M // 20)}}),
    "dates": Call("a", "list_events", {f"start_{i}": "2026-05-19" for i in range(M // 20)}),
    "attendees": Call("a", "invite", {"attendees": [f"a{i}@x.org" for i in range(100_000)]}),
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE)
def test_a_megabyte_is_bounded(name: str) -> None:
    with cpu_within(1.0):
        RULES.classify(HUGE[name])


def test_new_names_compile_nothing() -> None:
    many: list[dict[str, Any]] = [{"tier": 2, "tool": "*", "commandPattern": f"cmd{i}[a-z]+"} for i in range(500)]
    rules = RuleSet.parse(json.dumps({"rules": many}))
    rules.classify(Call("a", "warm", {"command": "ls"}))
    with cpu_within(2.0):
        for i in range(2000):
            rules.classify(Call("a", f"tool_{i}", {"command": "ls"}))


def best(rules: RuleSet, call: Call) -> float:
    times = []
    for _ in range(30):
        started = time.thread_time()
        for _ in range(50):
            rules.classify(call)
        times.append(time.thread_time() - started)
    return min(times)


@pytest.mark.parametrize("kind", ["tool", "pattern", "params", "present", "glob"])
def test_a_thousand_rules_cost_about_as_much_as_ten(kind: str) -> None:
    def one(i: int) -> dict[str, Any]:
        rule: dict[str, Any] = {"tier": 2, "tool": "exec"}
        if kind == "tool":
            rule["tool"] = f"tool{i}"
        elif kind == "pattern":
            rule["commandPattern"] = f"cmd{i}[a-z]+"
        elif kind == "params":
            rule["params"] = {"host": "x", "action": f"a{i}"}
        elif kind == "present":
            rule["present"] = f"p{i}"
        else:
            rule["tool"] = f"*tool{i}*"
        return rule

    call = Call("a", "exec", {"command": "ls -la", "host": "x", "action": "none"})
    ten, thousand = (RuleSet.parse(json.dumps({"rules": [one(i) for i in range(count)]})) for count in (10, 1000))
    assert best(thousand, call) < 5 * best(ten, call)


PLAIN = [
    Call("a", "get_order_details", {"order_id": "W1"}),
    Call("a", "exchange_order_items", {"order_id": "W1", "item_ids": ["1", "2"], "payment_method_id": "card"}),
    Call("a", "list_tickets", {"status": "open", "limit": 5}),
]


@pytest.mark.parametrize("call", PLAIN, ids=lambda call: call.tool)
def test_a_plain_call_is_judged_in_few_steps(call: Call) -> None:
    RULES.classify(call)  # the meaning of its names is computed once
    steps = 0

    def count(_frame: Any, event: str, _of: Any) -> None:
        nonlocal steps
        steps += event == "call"

    sys.setprofile(count)
    try:
        RULES.classify(call)
    finally:
        sys.setprofile(None)
    assert 10 < steps <= 45


OPTIONS = [
    ("ls {n}/src -l", "ls {n}/src -r"), ("ls -la {n}", "ls -ra {n}"), ("mkdir -p build/{n}", "mkdir -v build/{n}"),
    ("sort -u names-{n}", "sort -r names-{n}"), ("git log -p {n}", "git log -s {n}"), ("ps -W -u {n}", "ps -w -x {n}"),
    ("wc -l {n} && sort -u {n}", "wc -c {n} && sort -r {n}"),
]  # fmt: skip
"""Command lines with an option that is some program's option for a user or a password, and the same without it."""


@pytest.mark.parametrize(("with_one", "without"), OPTIONS)
def test_options_of_other_programs_cost_no_search_for_passwords(with_one: str, without: str) -> None:
    def steps(line: str, number: int) -> int:
        params = {"command": line.format(n=number)}
        with counting() as steps:
            RULES.classify(Call("a", "Bash", params, cwd="/home/u/site"))
            summarise(params)
        return steps[0]

    for number in range(20):  # load what a line loads, and learn its words
        steps(with_one, number), steps(without, number)
    ratios = [steps(with_one, number) / steps(without, number) for number in range(20, 25)]
    assert statistics.median(ratios) <= 1.1
