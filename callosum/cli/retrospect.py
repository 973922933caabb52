"""Print the gaps of the rules and the trial of other rules."""

from __future__ import annotations

import json
from textwrap import indent
from typing import Any, Final

import msgspec

from callosum.cli import show
from callosum.cli.text import harmless
from callosum.cli.times import clock
from callosum.retrospect import BlindTool, Gaps, Trial

_SHOWN: Final = 15
"""Maximum number of rows of a table."""


def show_gaps(found: Gaps) -> None:
    """Print gaps, and what to do about them."""
    if not found.calls:
        show.line("No calls are recorded for this time.")
        return
    show.line(f"{found.calls} calls were looked at.", "bold")
    if found.nothing:
        show.line(
            "No gaps: a rule names every tool, what changes something has a key, and sessions share keys.", "green"
        )
        return
    if found.keyless:
        show.line()
        note = f"{found.keyless_calls} calls: only the same content can be told, and nothing at tier 1"
        _print_tools("Calls that change something and have no key", note, found.keyless)
        show.line("Give the tool a rule with a contextKey that names what is changed:")
        rule = json.dumps(harmless(dict(found.keyless[0].rule)), indent=2)
        show.line(indent(rule, "    "), "cyan")
    if found.judged:
        show.line()
        note = f"{found.judged_calls} calls, by 'callosum explain TOOL' you see why"
        _print_tools("Tools that no rule names, judged by what they show", note, found.judged)
        show.line("Where a tier is wrong, write a rule for the tool; where it is right, nothing is to be done.")
    if found.unshared:
        show.line()
        rows = []
        for one in found.unshared[:_SHOWN]:
            keys = f"{one.keys}{' of more' if one.sampled else ''}"
            sessions = f"{one.sessions}{' or more' if one.sessions >= 64 else ''}"
            rows.append((one.family, one.calls, keys, sessions, "  ".join(one.examples)))
        columns = ("keys:60", ">calls", ">different", ">sessions", "for example:120")
        show.put(show.table("Keys that no two sessions ever shared", columns, rows, note=_more(found.unshared)))
        show.line(
            "Fine, if your sessions never meet there. If they do, something in the key is new each time (a date, the "
            "number of a run, a copy of the file): leave it out of the contextKey."
        )
    if found.left_out:
        show.line(f"{found.left_out} calls of further tools and keys were not told apart.", "dim")


def _print_tools(title: str, note: str, tools: tuple[BlindTool, ...]) -> None:
    rows = []
    for one in tools[:_SHOWN]:
        tiers = ", ".join(tier if len(one.tiers) == 1 else f"{tier} ({n})" for tier, n in one.tiers.items())
        first = msgspec.json.encode(one.examples[0]).decode() if one.examples else None
        rows.append((one.tool, one.calls, tiers, first))
    columns = ("tool:60", ">calls", ">tier", "for example:120")
    show.put(show.table(title, columns, rows, note=f"{note}{_more(tools)}"))


def _more(found: tuple[Any, ...]) -> str:
    return f"; {len(found) - _SHOWN} more with --json" if len(found) > _SHOWN else ""


_PARTED = {
    "paused": "would be paused, asked for or blocked",
    "allowed": "would go through",
    "warned": "would get a warning",
    "quiet": "would get no warning",
}


def show_trial(found: Trial) -> None:
    """Print what other rules would have decided."""
    if not found.calls:
        show.line("No calls are recorded for this time.")
        return
    if found.nothing:
        show.line(f"None of {found.calls} recorded calls would be judged otherwise.", "green")
    else:
        show.line(
            f"{found.shifted} of {found.calls} recorded calls would be judged otherwise; of {found.played} that share "
            f"a key with them {found.paused} would be stopped that went through, {found.allowed} go through that were "
            "stopped.",
            "bold",
        )
        _print_differences(found)
        if found.shifts:
            show.line()
            rows = [(one.tool, one.calls, one.what, one.before, one.after) for one in found.shifts[:_SHOWN]]
            columns = ("tool:50", ">calls", "what", "now:100", "then:100")
            note = _more(found.shifts).removeprefix("; ")
            show.put(show.table("What is judged otherwise", columns, rows, note=note))
    if found.touched > found.played:
        show.line(
            f"Only the newest {found.played} of {found.touched} calls were played: see --most and --since.", "yellow"
        )
    if found.unreadable:
        show.line(f"{found.unreadable} calls could not be judged: the journal has not their params.", "yellow")
    if found.cut:
        show.line(
            f'Of {found.cut} calls the journal has the params cut or redacted; with journal.params = "full" it keeps '
            "all but secrets.",
            "dim",
        )
    if found.as_recorded is not None and found.as_recorded < 1:
        show.line(
            f"The rules in force answer {100 * found.as_recorded:.1f} % of the played calls as they were then.", "dim"
        )


def _print_differences(found: Trial) -> None:
    for what, title in _PARTED.items():
        mine = tuple(one for one in found.differences if one.what == what)
        if not mine:
            continue
        show.line()
        rows = []
        for one in mine[:_SHOWN]:
            first, answers = one.examples[0], f"{one.before} -> {one.after}"
            rules = " -> ".join(dict.fromkeys(name or "(judged)" for name in one.rules))
            shown = f"{clock(first['at'])} {first['session']} {msgspec.json.encode(first['params']).decode()}"
            rows.append((one.tool, one.calls, answers, ", ".join(one.kinds), rules, shown))
        columns = ("tool:50", ">calls", "<answer", "for", "rule:80", "for example:120")
        show.put(show.table(f"What {title}", columns, rows, note=_more(mine).removeprefix("; ")))
