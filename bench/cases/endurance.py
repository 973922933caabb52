"""The server over a long journal, and after a million requests."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

from bench.cases import growth
from bench.harness import Measured, Report
from bench.load import Load, Plan
from bench.serving import callosum

EARLY, LATE, STEP = 10_000, 1_000_000, 90_000
ALONE, CROWD = 1, 64
KEEP = {"CALLOSUM_JOURNAL_SIZE": "1000GB"}
"""A journal that is not rotated: by itself it is long before a million rows."""


def flat(report: Report, folder: Path, rounds: int) -> None:
    """Tier 3 over a long journal beside a short one: one client on keys with a past, 64 connections on fresh keys."""
    small, large = folder / "small", folder / "large"
    growth.build(small, growth.SMALL_ROWS, 100)
    if (folder.parent / "growth" / "large").exists():  # that group has one that will do
        large = folder.parent / "growth" / "large"
    else:
        growth.build(large, growth.LARGE_ROWS, growth.LARGE_KEYS)
    rows = {place: growth.rows_of(place)[0] for place in (small, large)}
    report.add("few: rows in the journal", rows[small], "rows")
    report.add("many: rows in the journal", rows[large], "rows")

    with ExitStack() as stack:
        load = stack.enter_context(Load())
        for name, state in (("few", small), ("many", large)):
            served = stack.enter_context(callosum(state, environ=KEEP))
            load.connect(f"{name} alone", served.address, ALONE)
            load.connect(f"{name} crowd", served.address, CROWD)
        # few calls a block: the short journal must stay short
        plans = {
            "few alone": Plan("pairs", requests=60, kind="raised post", keys=100),
            "many alone": Plan("pairs", requests=60, kind="raised post", keys=growth.LARGE_KEYS),
            "few crowd": Plan("decide", requests=640),
            "many crowd": Plan("decide", requests=640),
        }
        found = blocks(load, plans, rounds)
    for name, measured in found.items():
        report.add(f"{name}: tier 3 decision, p50", measured.median, "ms")
    ratio = found["many alone"].over(found["few alone"])
    report.add("1,000,000 rows, one client going round 100,000 keys / few rows", ratio, at_most=1.25)
    report.add("1,000,000 rows, 64 connections / few rows", found["many crowd"].over(found["few crowd"]), at_most=1.25)


def blocks(load: Load, plans: dict[str, Plan], rounds: int) -> dict[str, Measured]:
    """The medians of each, in milliseconds, in the same rounds."""
    chance = random.Random(1)
    medians: dict[str, list[float]] = {name: [] for name in plans}
    for turn in range(rounds + 1):
        for name in chance.sample(list(plans), len(plans)):
            found = load.run(name, plans[name])
            if plans[name].what == "decide":
                load.run(name, Plan("complete"))
            if turn:  # the first is a warm-up
                medians[name].append(found.p50)
    return {name: Measured(tuple(values)) for name, values in medians.items()}


def memory(report: Report, folder: Path) -> None:
    """Measure the memory of a server with its defaults after a million requests: all tiers, intercept and complete."""
    with callosum(folder / "state") as served, Load() as load:
        load.connect("gate", served.address, CROWD)
        done = load.run("gate", Plan("mixed", requests=EARLY)).requests
        first = served.memory()
        seconds, half = 0.0, first
        while done < LATE:
            found = load.run("gate", Plan("mixed", requests=STEP))
            done, seconds = done + found.requests, seconds + found.seconds
            if done < LATE // 2 + STEP:
                half = served.memory()
        last = served.memory()
    report.add(f"USS after {EARLY:,} requests", first[0], "MB")
    note = f"{(LATE - EARLY) / seconds:,.0f} requests a second"
    report.add(f"USS after {LATE:,} requests, more", last[0] - first[0], "MB", at_most=20, note=note)
    report.add("of that in the second half", last[0] - half[0], "MB", at_most=2)
    report.add(f"RSS after {EARLY:,} requests", first[1], "MB")
    report.add(f"RSS after {LATE:,} requests, more", last[1] - first[1], "MB")


def run(folder: Path, rounds: int) -> Report:
    """A long journal, then a long life."""
    report = Report("endurance")
    flat(report, folder, rounds)
    memory(report, folder)
    return report
