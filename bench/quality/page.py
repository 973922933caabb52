"""The page of the documentation: the figures of the half that was never inspected, with the command and the date."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from bench.quality.figures import Number, Part, Row, Share, Table, bar_of, percent
from bench.quality.picture import Point, draw

COMMAND: Final = 'make bench-quality ARGS="--markdown docs/quality.md --svg docs/quality.svg"'
PICTURE_TITLE: Final = "Pairs of calls: collisions found against false alarms (test half)"

_HEAD: Final = """# How well it judges

This page is written by `{command}`.
Its figures are of {date}; {about}.

With no configuration at all: the rules that ship, and a real gate over a store in memory. What is judged is
traffic that nobody here wrote: catalogues of tools and recorded calls of AgentDojo, tau-bench, BFCL, InterCode,
SWE-agent, ToolSandbox, the GitHub MCP server and some forty other MCP servers, and the shell commands of the test
suites of destructive_command_guard and shellfirm. It is not part of this repository: name its folder with
`--data DIR`. The incidents are scenarios of our own, told after real reports, and so are the pairs of the part on keys.

**Each set is split by a hash into two halves.** Of the one the benchmark shows what came out wrong (`--mistakes`), for
the rules to be worked on; of the other it tells figures alone, and those stand here, except where a target is marked
"whole": it speaks of all rows and of the lower end of the interval. Intervals are 95 %, by Wilson. "Miss" is a target
that is not reached.

The baselines are what one would write in an afternoon: the *verb in the name* of a tool; *any equal argument*
of two calls, one of which writes by its verb; the *same id under the same name* of a param; for commands *a word of
destruction* anywhere in the line.
"""

_ABOUT: Final = {
    "tools": """Tools of the catalogues, judged by name, description and schema, without arguments. Labels come from
running the tool, from its authors' types, or from MCP hints; where they come from hints, the hints are hidden. Hints
are claims, and some are wrong: a tool that sends SMS is declared to be read-only, a search is not. Those count as
misses here.""",
    "conflicts": """Pairs of calls of two different tasks. Both orders were run from one state; the label is what came
out. A pair is played without regard to its label. Two changes: one session's is done, and half a minute later the
other asks, in both orders; it counts as found if in both the one who asks is told, and as a false alarm if in either.
A look and a change: found (or a false alarm) if the keys of the two meet, which is what makes the look stale; the
ids in what the look brought back count where the recording holds it (a field `result` beside `args`).
`recent` on a shared addressee or thread is asked for and counted apart.

![Collisions found against false alarms](quality.svg)""",
    "shell": """A command is dangerous where a rule of the suite fires; "safe" says only that none does. Left out of
the first two lines is what is a matter of policy, decided by what the command does: removing named things below the
working folder or anything below `/tmp`, pushing to a protected branch without force, deleting or moving another
branch.""",
    "acts": """The same act as a tool and as a command line; forty grave and forty mild verbs, each with thirty-two
objects, as tools; rows by class and after public reports; fourteen more catalogues. The acts and verbs were written for
this measure. Of each recorded set the test half is a third, by catalogue or kind.""",
    "incidents": """Real reports, played call by call with a host that pauses. Opposites are scenarios of our own.""",
    "keys": """Pairs of calls of two sessions that name what they act on in few words, written by hand before the code
they judge: a reply that names only its thread, a channel or a person by name, a payment by its reference, a thing by an
id whose param only looks like one, a container and what is in it. Found: the second session is told, in both orders. A
false alarm: it is told in either, though the two act on different things.""",
    "folders": """One session's call after another's, in nested folders. A conflict is found if the second call is
stopped with a warning; any warning for an unrelated call is a false alarm. Where the order does not matter both are
played.""",
    "sessions": """Recorded sessions as a whole. Strangers: two tasks of one suite whose calls have no id, path or
address in common, shuffled into one another at random; an alarm is anything told. Twins: two sessions make the same
calls turn by turn, so one of them should be told.""",
    "speed": """On the machine named above, in one thread.""",
}

_LONG: Final = 12
"""Tables with more rows are folded away."""


def points(part: Part) -> list[Point]:
    """What the picture shows, from the part on conflicts: the test half of each judge."""
    found: dict[tuple[str, str], Share] = {(row.what, row.who): row.test for row in part.rows}
    whos = list(dict.fromkeys(row.who for row in part.rows))
    whats = ("duplicate and write_write found", "stale_read found")
    return [
        Point(who, what.removesuffix(" found"), found[what, who], found["false alarms", who])
        for who in whos
        for what in whats
        if (what, who) in found and ("false alarms", who) in found
    ]


def picture(parts: Sequence[Part]) -> str | None:
    """The picture, None where the conflicts were not measured."""
    shown = [point for part in parts if part.name == "conflicts" for point in points(part)]
    return draw(shown, PICTURE_TITLE) if shown else None


def page(about: Mapping[str, str], parts: Sequence[Part]) -> str:
    """The whole page."""
    where = ", ".join(value for name, value in about.items() if name != "date")
    pieces = [_HEAD.format(command=COMMAND, date=about["date"], about=where)]
    for part in parts:
        pieces += [f"## {part.title}\n", _ABOUT[part.name] + "\n"]
        if part.rows:
            pieces.append(_rows(part.rows))
        if part.numbers:
            pieces.append(_numbers(part.numbers))
        pieces += [_table(table) for table in part.tables]
        pieces += [f"{note}\n" for note in part.notes]
    return "\n".join(pieces)


def _rows(rows: Sequence[Row]) -> str:
    lines = ["| what | judge | share | 95 % | count | target | |", "|---|---|--:|---|--:|---|---|"]
    for row in rows:
        share = row.whole if row.on == "whole" else row.test
        low, high = share.interval
        span = f"{100 * low:.1f} to {100 * high:.1f}" if share.total else ""
        what = row.what + (f" ({row.note})" if row.note else "")
        counts = f"{share.hits}/{share.total}"
        lines.append(
            f"| {what} | {row.who} | {percent(share.value)} | {span} | {counts} | {bar_of(row)} | {_met(row.met)} |"
        )
        if row.on == "whole":  # the half beside it
            low, high = row.test.interval
            lines.append(
                f"| ... of the test half | {row.who} | {percent(row.test.value)} | {100 * low:.1f} to {100 * high:.1f} "
                f"| {row.test.hits}/{row.test.total} | | |"
            )
    return "\n".join(lines) + "\n"


def _met(met: bool | None) -> str:
    return {None: "", True: "pass", False: "**miss**"}[met]


def _numbers(numbers: Sequence[Number]) -> str:
    lines = ["| what | figure | target | |", "|---|--:|---|---|"]
    for one in numbers:
        target = "" if one.target is None else f"<= {one.target:g} {one.unit}"
        lines.append(f"| {one.what} | {one.value:.1f} {one.unit} | {target} | {_met(one.met)} |")
    return "\n".join(lines) + "\n"


def _table(table: Table) -> str:
    lines = [f"| {' | '.join(table.header)} |", "|" + "---|" * len(table.header)]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in table.rows]
    body = "\n".join(lines)
    if len(table.rows) <= _LONG:
        return f"**{table.title}**\n\n{body}\n"
    return f"<details><summary>{table.title}</summary>\n\n{body}\n\n</details>\n"


def _cell(text: str) -> str:
    return re.sub(r"[|\n]", " ", text)
