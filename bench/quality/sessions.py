"""Whole sessions of recorded traffic: strangers interleaved at random, twins in lockstep, and calls with keys."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from bench.quality import baselines, data
from bench.quality.data import TEST, TUNING, Recorded
from bench.quality.figures import Part, Row, Share, Table, Tally, percent
from bench.quality.judges import Scene, judge
from callosum.model import Decision, Kind

PAIRS: Final = 1500
"""Pairs of strangers for each half, at most."""
STEP: Final = 5.0
"""Seconds between two calls."""
APART: Final = ("email:", "thread:", "channel:", "session:")
_TOKEN: Final = re.compile(r"[^\s'\"`|;&<>()$=]+")


def ids(call: Recorded) -> set[str]:
    """What in a call could name a thing: words that hold a digit, a dot, a slash or an at, and values of id params."""
    found = set()
    for name, value in baselines.values(call.args):
        if baselines.names_a_thing(name):
            found.add(value)
        found |= {word for word in _TOKEN.findall(value) if len(word) > 1 and re.search(r"[0-9./@#_]", word)}
    return found


def _alarm(decision: Decision) -> bool:
    """Told of anything but ``recent`` on an addressee or a thread."""
    return any(one.kind is not Kind.RECENT or not one.key.startswith(APART) for one in decision.conflicts)


def interleaved(one: list[Recorded], two: list[Recorded], chance: random.Random) -> str:
    """Plays two sessions shuffled into one another; returns the first alarm in words, ``""`` for none."""
    scene = Scene()
    left = {"one": list(one), "two": list(two)}
    while left["one"] or left["two"]:
        who = chance.choice([name for name, calls in left.items() for _ in calls])
        call = left[who].pop(0)
        scene.after(STEP)
        decision = scene.do(who, call.tool, call.args)
        if _alarm(decision):
            return f"{_words(decision)}: {call}"
    return ""


def lockstep(calls: list[Recorded]) -> bool:
    """Let two sessions make the same calls, turn by turn; return whether either gets a conflict."""
    scene = Scene()
    for call in calls:
        for who in ("one", "two"):
            scene.after(STEP)
            if scene.do(who, call.tool, call.args).conflicts:
                return True
    return False


def _words(decision: Decision) -> str:
    return ", ".join(f"{one.kind.value} {one.key}" for one in decision.conflicts[:3])


def run(folder: Path) -> Part:
    part = Part("sessions", "Sessions: recorded traffic as a whole")
    tasks = data.traces(folder)
    _strangers(part, tasks)
    _twins(part, tasks)
    _keys(part, tasks)
    return part


def _strangers(part: Part, tasks: list[list[Recorded]]) -> None:
    chance = random.Random("strangers")
    alarms, base = Tally(), Tally()
    suites: dict[str, Tally] = defaultdict(Tally)
    named = {id(task): set().union(*map(ids, task)) for task in tasks}
    for half in (TUNING, TEST):
        groups: dict[str, list[list[Recorded]]] = defaultdict(list)
        for task in tasks:
            if data.half_of_task(task) == half:
                groups[f"{task[0].source}/{task[0].suite}"].append(task)
        rooms = [name for name, group in groups.items() if len(group) > 1]
        for number in range(PAIRS):
            suite = rooms[number % len(rooms)]
            one, two = chance.sample(groups[suite], 2)
            if not named[id(one)].isdisjoint(named[id(two)]):
                continue
            said = interleaved(one, two, chance)
            alarms.add(half, bool(said))
            suites[suite].add(half, bool(said))
            base.add(half, any(baselines.any_equal((a.tool, a.args), (b.tool, b.args)) for a in one for b in two))
            if said:
                part.mistake(half, "sessions.strangers", f"{suite} {one[0].task} / {two[0].task}", said)
    part.rows += [
        Row("strangers with no id in common, interleaved: alarm", "Callosum", alarms.halves, None, "at most"),
        Row("strangers with no id in common, interleaved: alarm", "any equal argument", base.halves, None, "at most"),
    ]
    part.tables.append(_by_suite("Strangers interleaved: pairs with an alarm", suites))


def _twins(part: Part, tasks: list[list[Recorded]]) -> None:
    known, judged = Tally(), Tally()
    suites: dict[str, Tally] = defaultdict(Tally)
    for task in tasks:
        changed = any(call.changed for call in task)
        unknown = all(call.changed is None for call in task)
        if not changed and not (unknown and any(judge(call.tool, call.args).effect == "write" for call in task)):
            continue
        half = data.half_of_task(task)
        said = lockstep(task)
        (known if changed else judged).add(half, said)
        suites[f"{task[0].source}/{task[0].suite}"].add(half, said)
        if not said and changed:
            calls = "\n      ".join(str(call)[:160] for call in task if call.changed)
            part.mistake(half, "sessions.twins", f"{task[0].suite} {task[0].task}", calls)
    part.rows += [
        Row("twins in lockstep that change something: alarm", "Callosum", known.halves),
        Row("twins in lockstep, changes not recorded but judged so: alarm", "Callosum", judged.halves),
    ]
    part.tables.append(_by_suite("Twins in lockstep: sessions with an alarm", suites))


def _by_suite(title: str, suites: dict[str, Tally]) -> Table:
    rows = []
    for suite, tally in sorted(suites.items()):
        share = tally.halves.get(TEST, Share(0, 0))
        rows.append((suite, f"{share.hits}/{share.total}", percent(share.value)))
    return Table(title, ("suite", "count", "share"), rows)


def _keys(part: Part, tasks: list[list[Recorded]]) -> None:
    keyed, changes = Tally(), Tally()
    tiers: Counter[tuple[int, bool]] = Counter()
    gaps: dict[str, tuple[int, str]] = {}
    for task in tasks:
        half = data.half_of_task(task)
        for call in task:
            found = judge(call.tool, call.args)
            has = bool(found.keys)
            keyed.add(half, has)
            if half == TEST:
                tiers[found.tier, has] += 1
            if call.changed:
                changes.add(half, has)
                if not has and half == TUNING:
                    count, example = gaps.get(call.tool, (0, str(call)[:200]))
                    gaps[call.tool] = count + 1, example
    for count, example in sorted(gaps.values(), reverse=True):
        part.mistake(TUNING, "sessions.keys", example, f"{count} calls of this tool changed something and have no key")
    part.rows += [
        Row("calls with a key", "Callosum", keyed.halves),
        Row("calls that changed something, with a key", "Callosum", changes.halves),
    ]
    rows = []
    for tier in range(5):
        share = Share(tiers[tier, True], tiers[tier, True] + tiers[tier, False])
        if share.total:
            rows.append((str(tier), f"{share.hits}/{share.total}", percent(share.value)))
    part.tables.append(Table("Calls with a key, by tier", ("tier", "count", "share"), rows))
