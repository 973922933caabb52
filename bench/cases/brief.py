"""How long a brief takes over a long journal: put together and cut to its budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from bench import calls
from bench.cases import growth
from bench.harness import Report, percentile
from callosum import Call, LocalGate
from callosum.corpus.bus import Corpus
from callosum.regions.budget import RAS
from callosum.regions.context import Prefrontal

BUDGET_MS = 5.0
KEYS = 24
"""Keys that the session has touched lately, and keys that its host names."""
BRIEFS = 40
"""Briefs of each sort in a round."""
CROWD = 10_000
"""Other sessions that hold a lease, or have acted on one key."""

Make = Callable[[int], object]


def stored(folder: Path) -> Path:
    """The journal of ``growth``: as the group that ran before has left it, or made anew."""
    place = folder / "large"
    for made in (folder.parent / "growth" / "large", folder.parent / "memory" / "large"):
        if made.exists():
            made.rename(place)
            return place
    growth.build(place, growth.LARGE_ROWS, growth.LARGE_KEYS)
    return place


def work(gate: LocalGate, session: str) -> None:
    """A session that has posted to some of the channels to which the others have posted, too."""
    operation = calls.gated(gate, growth.post_over(growth.LARGE_KEYS), instance=session)
    for count in range(KEYS):
        operation(count)


def hold(gate: LocalGate) -> None:
    """Very many sessions with a lease of their own, and as many that have acted on one key."""
    for number in range(CROWD):
        instance = f"crowd-{number}"
        params = {"action": "send", "target": "andy", "replyTo": f"c{number}", "message": f"On it {number}"}
        gate.intercept(Call(instance, "message", params, call_id=f"hold-{number}"))
        calls.gated(gate, growth.post_to("plaza"), instance=instance)(number)


def timed(make: Make, rounds: int) -> list[float]:
    """Milliseconds of each, after one round that does not count."""
    taken = []
    for number in range((rounds + 1) * BRIEFS):
        began = time.perf_counter_ns()
        make(number)
        if number >= BRIEFS:
            taken.append((time.perf_counter_ns() - began) / 1e6)
    return taken


def run(folder: Path, rounds: int) -> Report:
    """Briefs for a session at work, for one that begins, and for both amid a crowd."""
    report = Report("brief")
    place = stored(folder)
    corpus = Corpus()
    with LocalGate(settings=calls.settings(place, rotate=False)) as gate:
        prefrontal, ras = Prefrontal(corpus, store=gate.store), RAS(corpus)

        def brief(instance: str) -> Make:
            return lambda _: ras.trim(prefrontal.brief(instance, cwd="/srv/agents"))

        def named(number: int) -> object:
            """Keys in an order that no cache foresees."""
            first = number * KEYS * 7919
            keys = [f"channel:team-{(first + place * 7919) % growth.LARGE_KEYS}" for place in range(KEYS)]
            return ras.trim(prefrontal.brief("otto/new", keys=keys))

        work(gate, "mira/work")
        sorts: dict[str, Make] = {
            f"a session with {KEYS} keys of its own": brief("mira/work"),
            "a session that has not called yet": brief("vera/new"),
            f"a session whose host names {KEYS} keys": named,
        }
        _add(report, sorts, rounds, at_most=BUDGET_MS)
        rows, size = growth.rows_of(place)
        report.add("rows in the journal", rows, "rows", note=f"file of {size} MB")
        hold(gate)
        calls.gated(gate, growth.post_to("plaza"), instance="mira/work")(0)
        amid = {f"{name}, amid {CROWD:,} leases": make for name, make in sorts.items()}
        _add(report, amid, rounds)
        prefrontal.close()
    corpus.close()
    return report


def _add(report: Report, sorts: dict[str, Make], rounds: int, at_most: float | None = None) -> None:
    for name, make in sorts.items():
        taken = timed(make, rounds)
        report.add(f"{name}, p50", percentile(taken, 0.5), "ms", at_most=at_most)
        report.add(f"{name}, p99", percentile(taken, 0.99), "ms")
