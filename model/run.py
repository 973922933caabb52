"""Explore the named configurations, and report how far each went and what it found."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from callosum.model import SECOND
from model.configurations import CONFIGURATIONS
from model.explore import Explored, Violation, explore
from model.promises import PROMISES
from model.world import Taken

_HEAD: Final = f"{'configuration':15}   states  transitions  depth  seconds  outcome"


def main(argv: Sequence[str] | None = None) -> int:
    """Explore. Return 0 if every promise held, 1 if one was broken, 2 if there is no such configuration."""
    parser = argparse.ArgumentParser(prog="python -m model", description="Explore every state of small worlds.")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="names that begin so; repeatable")
    parser.add_argument("--states", type=int, help="stop each configuration at so many states")
    asked = parser.parse_args(argv)
    chosen = {name: one for name, one in CONFIGURATIONS.items() if not asked.only or name.startswith(tuple(asked.only))}
    if not chosen:
        print(f"no such configuration; there are {', '.join(CONFIGURATIONS)}")
        return 2
    print(_HEAD, flush=True)
    bad = 0
    for name, bounds in chosen.items():
        explored = explore(bounds, PROMISES, states=asked.states)
        print(line_of(name, explored), flush=True)
        if explored.violation is not None:
            bad += 1
            print(words_of(explored.violation), flush=True)
    return 1 if bad else 0


def line_of(name: str, explored: Explored) -> str:
    """Return the result of a configuration in one line, with the bound that cut it off, if any."""
    if explored.violation is not None:
        outcome = f"BROKEN: {explored.violation.promise}"
    elif explored.exhausted:
        outcome = "every state explored"
    else:
        outcome = f"cut off by the bound; every state of depth {explored.depth} was met"
    numbers = f"{explored.states:>9,} {explored.transitions:>12,} {explored.depth:>6} {explored.seconds:>8.1f}"
    return f"{name:15}{numbers}  {outcome}"


def words_of(violation: Violation) -> str:
    """Return a violation with the shortest path to it, one transition per line."""
    start = violation.trace[0].before.clock
    lines = [f"  {violation.promise}: {violation.wrong}"]
    for number, taken in enumerate(violation.trace, 1):
        at = (taken.before.clock - start) / SECOND
        lines.append(f"  {number:>2}. at {at:g} s: {told(taken)}")
    return "\n".join(lines)


def told(taken: Taken) -> str:
    """Return a transition and its answer in words."""
    transition, who = taken.transition, taken.transition.who
    action = next((one for one in taken.before.acted if one.id == transition.id), None)
    named = f"{action.session}'s {action.choice}" if action is not None else ""
    does = {
        "intercept": f"{who} calls {transition.choice}",
        "poll": f"{who} asks whether it is its turn",
        "crash": f"{who} crashes",
        "complete": f"{who} reports its {action.choice if action else ''} as {transition.text}",
        "report late": f"{who}'s spool reports its {action.choice if action else ''} as {transition.text}",
        "renew": f"{who} renews its {action.choice if action else ''}",
        "resolve": f"a person says of {named}: {transition.text}",
        "approve": f"a person approves {who}'s call",
        "refuse": f"a person refuses {who}'s call",
        "sweep": "the gate settles what ran out",
        "rotate": "the journal is rotated",
        "time": f"{transition.time / SECOND:g} s pass",
    }[transition.what]
    if taken.decision is not None:
        kinds = ", ".join(f"{one.kind} by {one.instance} ({one.tool})" for one in taken.decision.conflicts)
        return f"{does}: {taken.decision.verdict}" + (f" ({kinds})" if kinds else "")
    if taken.choice is not None:
        return f"{does}: it waits in the queue"
    if taken.report is not None:
        return f"{does}: " + ("taken" if taken.report.ok else f"not taken, {taken.report.note}")
    return does
