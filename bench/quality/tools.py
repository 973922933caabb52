"""Tools of catalogues that no rule names: read or write, and which tier."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.quality import baselines, data
from bench.quality.data import TEST, Tool
from bench.quality.figures import Part, Row, Share, Table, Tally, matrix, percent
from bench.quality.judges import judge
from callosum.model import Classification

EFFECT: Final = 0.975
CALLED_READS: Final = 0.02
TIER: Final = 0.97


def _hidden(tool: Tool) -> Classification:
    return judge(tool.name, {}, description=tool.description, schema=tool.schema)


def _shown(tool: Tool) -> Classification:
    return judge(tool.name, {}, description=tool.description, schema=tool.schema, annotations=tool.annotations)


def run(folder: Path) -> Part:
    part = Part("tools", "Tools: read or write, and how grave")
    rows = data.tools(folder)
    labelled = [tool for tool in rows if tool.effect]
    ways: list[tuple[str, Callable[[Tool], tuple[str, int, str]], list[Tool]]] = [
        ("Callosum, hints hidden", lambda tool: _said(_hidden(tool)), labelled),
        (
            "Callosum, hints shown",
            lambda tool: _said(_shown(tool)),
            # Where the label is the hint, a judge that is shown it is shown the answer.
            [tool for tool in labelled if tool.basis != "annotation"],
        ),
        ("verb in the name", lambda tool: (baselines.effect(tool.name), baselines.tier(tool.name), ""), labelled),
    ]
    for who, answer, over in ways:
        _effects(part, who, answer, over)
    for who, answer, _ in ways:
        _tiers(part, who, answer, [tool for tool in rows if tool.tiers])
    _calls(part, folder)
    _called(part, folder)
    part.notes.append(
        "Hints shown: only tools whose label does not come from their own hints. "
        "Tools are judged without arguments, by name, description and schema."
    )
    return part


_FORMS: Final[tuple[Callable[[str, dict[str, Any]], tuple[str, dict[str, Any]]], ...]] = (
    lambda tool, given: ("call_tool", {"name": tool, "arguments": given}),
    lambda tool, given: ("execute_tool", {"tool_name": tool, "tool_args": json.dumps(given)}),
    lambda tool, given: ("rpc", {"method": "tools/call", "params": {"name": tool, "arguments": given}}),
    lambda tool, given: ("parallel", {"tool_uses": [{"recipient_name": tool, "parameters": given}]}),
)
"""How a tool is called by another."""


def _called(part: Part, folder: Path) -> None:
    """Recorded calls, made by a tool that calls others."""
    below = Tally()
    seen = set()
    for task in data.traces(folder):
        for call in task:
            tool = "Bash" if call.tool == "bash" else call.tool
            known = (tool, json.dumps(call.args, sort_keys=True))
            if known in seen:
                continue
            seen.add(known)
            found = judge(tool, call.args)
            milder = any(judge(*form(tool, call.args)).tier < found.tier for form in _FORMS)
            half = data.half_of_task(task)
            below.add(half, milder)
            if milder:
                part.mistake(half, "tools.called", str(call)[:300], f"tier {found.tier} where it is called directly")
    part.rows.append(
        Row(
            "recorded calls made by a tool that calls others: below the call itself",
            "Callosum",
            below.halves,
            0,
            "at most",
        )
    )


def _said(found: Classification) -> tuple[str, int, str]:
    return found.effect, found.tier, "; ".join(found.why)


def _effects(part: Part, who: str, answer: Callable[[Tool], tuple[str, int, str]], over: list[Tool]) -> None:
    right, lost, raised = Tally(), Tally(), Tally()
    cells = []
    suites: dict[str, Tally] = defaultdict(Tally)
    ours = who.startswith("Callosum, hints hidden")
    for tool in over:
        effect, tier, why = answer(tool)
        right.add(tool.half, effect == tool.effect)
        suites[f"{tool.source}/{tool.suite}"].add(tool.half, effect == tool.effect)
        (lost if tool.effect == "write" else raised).add(tool.half, effect != tool.effect)
        if tool.half == TEST:
            cells.append((str(tool.effect), effect))
        if ours and effect != tool.effect:
            measure = "tools.write-called-read" if tool.effect == "write" else "tools.read-called-write"
            part.mistake(tool.half, measure, _told(tool), f"tier {tier}: {why}")
    part.rows += [
        Row("read or write", who, right.halves, EFFECT if ours else None),
        Row("writes called reads", who, lost.halves, CALLED_READS if ours else None, "at most"),
        Row("reads called writes", who, raised.halves, None, "at most"),
    ]
    if ours:
        part.tables.append(matrix("Read or write, hints hidden", cells, ("read", "write")))
        part.tables.append(
            Table(
                "Read or write by catalogue, hints hidden",
                ("catalogue", "right", "share"),
                [(suite, f"{share.hits}/{share.total}", percent(share.value)) for suite, share in _sorted(suites)],
            )
        )


def _sorted(tallies: dict[str, Tally]) -> list[tuple[str, Share]]:
    found = [(name, tally.halves.get(TEST, Share(0, 0))) for name, tally in sorted(tallies.items())]
    return [(name, share) for name, share in found if share.total]


def _tiers(part: Part, who: str, answer: Callable[[Tool], tuple[str, int, str]], over: list[Tool]) -> None:
    right, low = Tally(), Tally()
    cells = []
    for tool in over:
        _, tier, why = answer(tool)
        right.add(tool.half, tier in tool.tiers)
        low.add(tool.half, tier < min(tool.tiers))
        if tool.half == TEST:
            cells.append((" or ".join(map(str, tool.tiers)), str(tier)))
        if who == "Callosum, hints hidden" and tier not in tool.tiers:
            part.mistake(tool.half, "tools.tier", f"{_told(tool)}  accepted {list(tool.tiers)}", f"tier {tier}: {why}")
    ours = who == "Callosum, hints hidden"
    part.rows += [
        Row("tier accepted", who, right.halves, TIER if ours else None),
        Row("tier below what is accepted", who, low.halves, None, "at most"),
    ]
    if ours:
        part.tables.append(matrix("Tier given, by what is accepted (hints hidden)", cells, tuple("01234")))


def _calls(part: Part, folder: Path) -> None:
    """Recorded calls with their arguments that were seen to change something."""
    ours, theirs = Tally(), Tally()
    seen = set()
    for task in data.traces(folder):
        for call in task:
            if not call.changed:
                continue
            half = data.half_of_task(task)
            found = judge(call.tool, call.args)
            ours.add(half, found.effect == "read")
            theirs.add(half, baselines.effect(call.tool) == "read")
            if found.effect == "read" and call.tool not in seen:
                seen.add(call.tool)
                part.mistake(half, "tools.change-called-read", str(call)[:300], "; ".join(found.why))
    part.rows += [
        Row("recorded calls that changed something, called reads", "Callosum", ours.halves, None, "at most"),
        Row("recorded calls that changed something, called reads", "verb in the name", theirs.halves, None, "at most"),
    ]


def _told(tool: Tool) -> str:
    about = " ".join((tool.description or "").split())[:160]
    return f"{tool.source}/{tool.suite} {tool.name}: {about}"
