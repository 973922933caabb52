"""How the time to classify a call grows with the number of rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import calls
from bench.harness import Case, Operation, Report, side_by_side
from callosum import Call
from callosum.rules import RuleSet

FEW, MANY = 10, 1000


def mixed(number: int) -> dict[str, Any]:
    """Rules as people write them: for one tool, for a family of tools, for params, for commands."""
    forms: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: {"tool": f"service_{number}_update", "contextKey": f"service:{number}:{{params.id}}"},
        lambda: {"tool": f"mcp__service{number}__*", "contextKey": "{tool}"},
        lambda: {"tool": "message", "params": {"action": "send", "target": f"room-{number}"}},
        lambda: {"tool": "exec", "commandPattern": rf"\bservice{number}\s+(?:deploy|remove)\b"},
        lambda: {"tool": ["write", "edit"], "params": {"path": f"/etc/service-{number}.conf"}},
    )
    return {"name": f"rule-{number}", "tier": 2 + number % 3, **forms[number % len(forms)]()}


def commands(number: int) -> dict[str, Any]:
    """Measure the hardest case: every rule inspects the command of the same tool."""
    return {
        "name": f"rule-{number}",
        "tier": 3,
        "tool": "exec",
        "commandPattern": rf"\bservice{number}\b.*--(?:force|yes)\b",
    }


def command(count: int) -> tuple[str, dict[str, object]]:
    """A command line that only a default rule names."""
    return "exec", {"command": f"cd /srv/site-{count} && make build && rsync -a out/ host:/srv/www && git status"}


def ruleset(make: Callable[[int], dict[str, Any]], count: int) -> RuleSet:
    """This many rules of the user before the default set."""
    return RuleSet.parse(json.dumps({"rules": [make(number) for number in range(count)]}))


def classify(rules: RuleSet, makes: Sequence[calls.Make]) -> Operation:
    """Classify one new call of each kind; none is named by a rule of the user."""

    def operation(count: int) -> None:
        for make in makes:
            tool, params = make(count)
            rules.classify(Call(instance="mira", tool=tool, params=params))

    return operation


def run(folder: Path, rounds: int) -> Report:
    """Measure both kinds of rules."""
    report = Report("rules")
    several = (calls.read, calls.write_deep, calls.post, calls.reply, command)
    kinds = (
        ("mixed rules, five calls", mixed, several),
        ("command patterns, one command", commands, (command,)),
    )
    for name, make, makes in kinds:
        cases = [Case(str(count), classify(ruleset(make, count), makes), 200) for count in (FEW, MANY)]
        found = side_by_side(cases, rounds)
        few, many = found[str(FEW)], found[str(MANY)]
        report.add(f"{name}: {FEW} rules, median", few.median, "us")
        report.add(f"{name}: {MANY} rules, median", many.median, "us")
        report.add(f"{name}: {MANY} / {FEW} rules", many.over(few), at_most=3)
    return report
