"""The layouts that are simulated, and the curves that come out.

Machines of their own for servers and stores, a network between them, and sessions that pause between calls: what is
assumed stands in the constants here, everything else was measured.
"""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bench.scale.layout import Costs, Layout, Outcome
from bench.scale.measured import Measured
from bench.scale.model import Simulation
from bench.scale.traffic import Traffic
from callosum.server.writer import LATE

LAN: Final = 0.0005
"""A round trip between two machines of one site, in seconds."""
THINK: Final = 10.0
"""How long a session does other things between two calls, in seconds: recordings of calls hold no times."""
CORES: Final = 8
"""Processors of a PostgreSQL server's machine. Here it had two, shared; that more serve in proportion is assumed."""
DEADLINE: Final = 1.0
"""How long a client waits for an answer (its default)."""
FLEET: Final = 500
"""Sessions that share a namespace."""
FULL: Final = 600
"""Sessions that ask without a pause: enough to have everything busy."""
SESSIONS: Final = (300, 1_000, 3_000, 10_000, 30_000, 60_000)
MOST: Final = 6_000
"""After so many calls a point is known well enough."""

Job = tuple[Layout, float, float]
"""What is simulated: how long to warm up, and for how long at most, in seconds."""


@dataclass(frozen=True)
class Curve:
    """One layout, and what became of it along an axis."""

    name: str
    points: tuple[tuple[float, Outcome], ...]


@dataclass(frozen=True)
class Axis:
    """What is varied. ``pick`` is what is drawn over it."""

    name: str
    title: str
    along: str
    up: str
    pick: Callable[[Outcome], float]
    curves: tuple[Curve, ...]
    log_x: bool = False
    log_y: bool = False


def layouts() -> dict[str, Layout]:
    """The layouts that are compared, by name."""
    base = Layout("sqlite", 0, think=THINK, rtt=LAN, store_rtt=LAN, cores=CORES, deadline=DEADLINE)
    return {
        "one machine, SQLite": replace(base, engine="sqlite"),
        "1 server, PostgreSQL": replace(base, engine="postgres"),
        "8 servers, PostgreSQL": replace(base, engine="postgres", servers=8),
        "8 servers, Redis": replace(base, engine="redis", servers=8, stick="namespace"),
        "32 servers, Redis Cluster of 4": replace(base, engine="redis", servers=32, shards=4, stick="namespace"),
    }


def fleet(layout: Layout, sessions: int) -> Layout:
    """The layout with so many sessions, in namespaces of ``FLEET``."""
    return replace(layout, sessions=sessions, namespaces=max(1, sessions // FLEET))


def full(layout: Layout, namespaces: int = 1) -> Layout:
    """The layout under sessions that never pause, to see what it can do at most."""
    return replace(layout, sessions=FULL * max(1, layout.servers // 4), think=0.0, deadline=0.0, namespaces=namespaces)


_found: Measured | None = None
_traffic: Traffic | None = None


def _start(found: Measured, traffic: Traffic) -> None:
    global _found, _traffic
    _found, _traffic = found, traffic


def _simulate(job: Job) -> Outcome:
    layout, warm, seconds = job
    if _found is None or _traffic is None:
        raise AssertionError("a worker was not started")
    costs = Costs.of(_found, layout.engine)
    return Simulation(costs, _traffic, layout).run(warm=warm, seconds=seconds, most=MOST)


def simulate(found: Measured, traffic: Traffic, jobs: Sequence[Job]) -> list[Outcome]:
    """All of these, on all processors; the outcomes do not depend on how many there are."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(os.cpu_count(), _start, (found, traffic)) as pool:
        return pool.map(_simulate, jobs, chunksize=1)


@dataclass(frozen=True)
class _Asked:
    name: str
    curve: str
    x: float
    job: Job


def _wanted() -> Iterator[_Asked]:
    """What every curve needs to know, in order."""
    known = layouts()
    for name, layout in known.items():
        for sessions in SESSIONS:
            if sessions <= 3_000 * max(4, 2 * layout.servers):  # beyond that it is far from what it can do
                yield _Asked("sessions", name, sessions, (fleet(layout, sessions), 2.0, 6.0))
    for name in ("one machine, SQLite", "8 servers, PostgreSQL", "8 servers, Redis"):
        layout = replace(full(known[name]), stick="")
        for share in (0.0, 0.05, 0.1, 0.2, 0.5, 1.0):
            yield _Asked("hot", name, 100 * share, (replace(layout, hot=share), 0.5, 4.0))
        for keys in (1, 2, 4, 8):
            yield _Asked("keys", name, keys, (replace(layout, keys_per_call=keys), 0.5, 4.0))
    single = {"1 server, PostgreSQL": known["1 server, PostgreSQL"], "1 server, Redis": known["8 servers, Redis"]}
    for name, layout in single.items():
        for rtt in (0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02):
            far = replace(full(replace(layout, servers=1)), store_rtt=rtt)
            yield _Asked("trip", name, rtt * 1000, (far, 0.5, 6.0))
    for spaces in (1, 4, 16, 64):
        layout = full(known["8 servers, Redis"], spaces)
        yield _Asked("spaces", "8 servers, Redis, any of them", spaces, (replace(layout, stick=""), 0.5, 4.0))
        yield _Asked("spaces", "8 servers, Redis, one for each namespace", spaces, (layout, 0.5, 4.0))


TITLES: Final = {
    "sessions": ("Calls a second", f"sessions ({THINK:g} s between calls)", "calls a second"),
    "waits": ("How long a decision takes", f"sessions ({THINK:g} s between calls)", "p99, ms"),
    "hot": ("One hot key", "share of calls on it, %", "calls a second"),
    "trip": ("Far from the store", "round trip to the store, ms", "calls a second"),
    "keys": ("Keys of a call", "keys", "calls a second"),
    "spaces": ("Namespaces on Redis", "namespaces", "calls a second"),
    "beyond": ("More than it can do", "calls offered, over what it can do", "answered in time, over what it can do"),
}


def axes(found: Measured, traffic: Traffic) -> list[Axis]:
    """Every curve, simulated."""
    asked = list(_wanted())
    outcomes = simulate(found, traffic, [one.job for one in asked])
    points: dict[str, dict[str, list[tuple[float, Outcome]]]] = {}
    for one, outcome in zip(asked, outcomes, strict=True):
        points.setdefault(one.name, {}).setdefault(one.curve, []).append((one.x, outcome))
    made = [
        _axis(name, {curve: tuple(at) for curve, at in points[name].items()}, lambda outcome: outcome.calls)
        for name in ("sessions", "hot", "trip", "keys", "spaces")
    ]
    waits = _axis("waits", {c.name: c.points for c in made[0].curves}, lambda outcome: 1000 * outcome.p99)
    return [made[0], waits, *made[1:], _beyond(found, traffic, _capacity(points))]


def _capacity(points: dict[str, dict[str, list[tuple[float, Outcome]]]]) -> float:
    """What the SQLite server can do at most, with no hot key."""
    return points["hot"]["one machine, SQLite"][0][1].calls


def _beyond(found: Measured, traffic: Traffic, most: float) -> Axis:
    """Simulate one server beyond its capacity: with its limits, and without refusing anything."""
    layout = replace(layouts()["one machine, SQLite"], sessions=FLEET)
    shares = (0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0)
    kinds = {"as it is": LATE, "if it turned nobody away": math.inf}
    jobs: list[Job] = [
        (replace(layout, rate=share * most, patience=patience), 4.0, 4.0)
        for patience in kinds.values()
        for share in shares
    ]
    outcomes = iter(simulate(found, traffic, jobs))
    curves = {name: tuple((share, next(outcomes)) for share in shares) for name in kinds}
    return _axis("beyond", curves, lambda outcome: outcome.calls / most)


def _axis(name: str, curves: dict[str, tuple[tuple[float, Outcome], ...]], pick: Callable[[Outcome], float]) -> Axis:
    title, along, up = TITLES[name]
    return Axis(
        name,
        title,
        along,
        up,
        pick,
        tuple(Curve(curve, points) for curve, points in curves.items()),
        log_x=name in ("sessions", "waits", "trip", "keys", "spaces"),
        log_y=name in ("sessions", "waits", "hot", "trip"),
    )
