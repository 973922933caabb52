"""Pairs of calls of two tasks: is the second session told of the first, and only where they collide?

A pair is played without regard to its label. Two changes: one session's is done, then the other asks, in
both orders; it counts as found if in both orders the one who asks is told. A look and a change: the look is
stale if their keys meet (the gate tells its session as soon as it writes what it has seen), those of what it
brought back included where the recording holds its result. Two looks never collide.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.quality import baselines, data
from bench.quality.data import TEST, Pair, Recorded
from bench.quality.figures import Part, Row, Share, Table, Tally, matrix, percent
from bench.quality.judges import Scene, judge, looked_at, meeting, told
from callosum.model import Classification, Kind
from callosum.rules.ruleset import WHOLE

BOTH_WRITE: Final = 0.98
STALE: Final = 0.88
FALSE_ALARMS: Final = 0.007
APART: Final = 30.0
"""Seconds between the two calls."""
LATER: Final = 7200.0
"""Seconds after which a reader comes back to write: nothing but a stale look can be in the way then."""
WRITES: Final = ("duplicate", "write_write")
ASKED_FOR: Final = ("email:", "thread:", "channel:", "session:")
"""Keys of addressees and threads: there the seeds ask for ``recent``."""


@dataclass(frozen=True)
class Finding:
    """What came out of one pair.

    ``kinds`` of both orders; ``apart``: only ``recent`` on an addressee or a thread.
    """

    found: bool
    kinds: frozenset[Kind] = frozenset()
    apart: bool = False
    once: bool = False
    why: str = ""


def play(pair: Pair) -> Finding:
    """Plays a pair on the gate."""
    one, other = judge(pair.a.tool, pair.a.args), judge(pair.b.tool, pair.b.args)
    reads = (one.effect == "read") + (other.effect == "read")
    if reads == 2:
        return Finding(found=False, why=_keys(one, other))
    if reads == 1:
        one, other = _with_result(one, pair.a), _with_result(other, pair.b)
        met = meeting(one, other)
        kinds = frozenset({Kind.STALE}) if met else frozenset[Kind]()
        return Finding(bool(met), kinds, once=bool(met), why=_keys(one, other))
    asked = [_after(first, second) for first, second in ((pair.a, pair.b), (pair.b, pair.a))]
    (first, where), (second, back) = asked
    kinds = first | second
    keys = (*where, *back)
    apart = kinds == {Kind.RECENT} and all(key.startswith(ASKED_FOR) for key in keys)
    return Finding(bool(first and second), kinds, apart, bool(kinds), _keys(one, other))


def _with_result(found: Classification, call: Recorded) -> Classification:
    return looked_at(found, call.tool, call.result) if found.effect == "read" else found


def _after(first: Recorded, second: Recorded) -> tuple[frozenset[Kind], list[str]]:
    scene = Scene()
    scene.do("one", first.tool, first.args)
    scene.after(APART)
    decision = scene.ask("two", second.tool, second.args)
    return told(decision), [one.key for one in decision.conflicts]


def _keys(one: Classification, other: Classification) -> str:
    return " <> ".join(
        f"tier {found.tier} {found.effect} [{', '.join(f'{key.mode.value} {key.name}' for key in found.keys)}]"
        for found in (one, other)
    )


def reader_returns(look: Recorded, change: Recorded) -> bool:
    """Let a session read, another change something, and the first change it in other words two hours later."""
    scene = Scene()
    scene.do("reader", look.tool, look.args, look.result)
    scene.after(APART)
    scene.do("other", change.tool, change.args)
    scene.after(LATER)
    return Kind.STALE in told(scene.ask("reader", change.tool, _reworded(change.args)))


def _reworded(args: Mapping[str, Any]) -> dict[str, Any]:
    """Other content for the same thing: equal bytes would not be stale."""
    return {
        name: f"{value}, and more" if name in WHOLE and isinstance(value, str) else value
        for name, value in args.items()
    }


class _Counts:
    """The counts of one judge."""

    def __init__(self) -> None:
        self.writes, self.stale, self.alarms = Tally(), Tally(), Tally()

    def add(self, pair: Pair, *, found: bool, alarm: bool) -> None:
        if pair.label in WRITES:
            self.writes.add(pair.half, found)
        elif pair.label == "stale_read":
            self.stale.add(pair.half, found)
        else:
            self.alarms.add(pair.half, alarm)


def run(folder: Path) -> Part:
    part = Part("conflicts", "Conflicts: pairs of calls that collide, and pairs that do not")
    ours, any_, same = _Counts(), _Counts(), _Counts()
    apart, once, returned = Tally(), Tally(), Tally()
    missed = unconnected = 0
    cells: list[tuple[str, str]] = []
    sources: dict[tuple[str, str], Tally] = defaultdict(Tally)
    for pair in data.pairs(folder):
        finding = play(pair)
        alarm = finding.once and not finding.apart
        ours.add(pair, found=finding.found, alarm=alarm)
        calls = (pair.a.tool, pair.a.args), (pair.b.tool, pair.b.args)
        for counts, judged in ((any_, baselines.any_equal(*calls)), (same, baselines.same_key(*calls))):
            counts.add(pair, found=judged, alarm=judged)
        _note(part, pair, finding)
        collides = not pair.label.startswith("none_")
        hit = finding.found if collides else alarm
        sources[f"{pair.source}/{pair.suite}", "found" if collides else "false alarm"].add(pair.half, hit)
        if pair.half == TEST:
            cells.append((pair.label, _name(finding)))
        if pair.label in WRITES:
            once.add(pair.half, finding.once)
        elif pair.label == "stale_read":
            returned.add(pair.half, _returned(pair))
            missed += not finding.found
            unconnected += not finding.found and _words(pair.a).isdisjoint(_words(pair.b))
        else:
            apart.add(pair.half, finding.apart)
    part.rows += [
        *_rows(ours, "Callosum", judged=True),
        Row("duplicate and write_write, told in one order at least", "Callosum", once.halves),
        Row("stale_read, told when the reader writes", "Callosum", returned.halves),
        Row("recent on a shared addressee or thread", "Callosum", apart.halves, note="asked for, no false alarm"),
        *_rows(any_, "any equal argument", judged=False),
        *_rows(same, "same id under the same name", judged=False),
    ]
    kinds = ("nothing", *(kind.value for kind in Kind), "recent apart")
    part.tables.append(matrix("What the pairs' sessions are told (the gravest kind)", cells, kinds))
    part.tables.append(_by_source(sources))
    part.notes.append(
        f"Of the {missed} stale looks of both halves that are not found, {unconnected} have no word in common with the "
        "change: what was found by its name is changed by its id. Only what the look brought back connects the two, "
        "and the recording does not hold it. A gate whose host reports results has it."
    )
    return part


def _words(call: Recorded) -> set[str]:
    """The words and numbers among the arguments of a call."""
    return set(re.findall(r"\w+", json.dumps(list(call.args.values()), ensure_ascii=False).lower()))


def _rows(counts: _Counts, who: str, *, judged: bool) -> list[Row]:
    rows = [
        Row("duplicate and write_write found", who, counts.writes.halves),
        Row("stale_read found", who, counts.stale.halves),
        Row("false alarms", who, counts.alarms.halves, FALSE_ALARMS if judged else None, "at most"),
    ]
    if judged:
        for row, target in zip(rows, (BOTH_WRITE, STALE), strict=False):
            row.target, row.bound, row.on = target, "low", "whole"
    return rows


def _returned(pair: Pair) -> bool:
    look, change = (pair.a, pair.b) if judge(pair.a.tool, pair.a.args).effect == "read" else (pair.b, pair.a)
    return reader_returns(look, change)


def _name(finding: Finding) -> str:
    if finding.apart:
        return "recent apart"
    if not finding.once:
        return "nothing"
    return max(finding.kinds, key=lambda kind: kind.gravity).value


def _note(part: Part, pair: Pair, finding: Finding) -> None:
    text = f"{pair.label}: {pair.a}\n    {pair.b}"
    if pair.label.startswith("none_"):
        if finding.once and not finding.apart:
            part.mistake(pair.half, "conflicts.alarm", text, f"{_name(finding)}; {finding.why}")
    elif not finding.found:
        measure = "conflicts.stale" if pair.label == "stale_read" else "conflicts.write"
        part.mistake(pair.half, measure, text, finding.why)


def _by_source(sources: dict[tuple[str, str], Tally]) -> Table:
    rows = []
    for (source, what), tally in sorted(sources.items()):
        share = tally.halves.get(TEST, Share(0, 0))
        if share.total:
            low, high = share.interval
            span = f"{100 * low:.1f} to {100 * high:.1f} %"
            rows.append((source, what, f"{share.hits}/{share.total}", percent(share.value), span))
    return Table("Conflicts by source", ("source", "what", "count", "share", "95 %"), rows)
