"""The simulation beside what was measured as a whole: a check that can fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.scale.layout import Costs, Layout, Outcome
from bench.scale.measured import Measured, Run
from bench.scale.model import Simulation
from bench.scale.traffic import Traffic

MIX: Final = (6, 6, 4, 3, 1)
"""The tiers of twenty calls that ``bench/load.py`` makes."""
RATE: Final = 1.4
"""The simulated throughput and median must be within this factor of the measured ones, either way."""
TAIL: Final = 2.5
"""And the 99th percentile within this one."""
QUIET: Final = 0.35
"""A run is not judged where others had more of the processors than this."""


@dataclass(frozen=True)
class Beside:
    """One run, and what the simulation makes of it."""

    run: Run
    found: Outcome

    @property
    def ratios(self) -> tuple[float, float, float]:
        """Simulated over measured: calls a second, p50, p99."""
        run, found = self.run, self.found
        return found.calls / run.calls, found.p50 / run.p50, found.p99 / run.p99

    @property
    def judged(self) -> bool:
        """Whether the machine was quiet enough for times of the clock to say anything."""
        return self.run.others <= QUIET

    @property
    def within(self) -> bool:
        rate, half, tail = self.ratios
        return all(1 / bound <= ratio <= bound for ratio, bound in ((rate, RATE), (half, RATE), (tail, TAIL)))


def beside(found: Measured, traffic: Traffic, run: Run, *, seed: int = 1) -> Beside:
    """Simulates one of the measured runs."""
    mix = Traffic("bench/load.py", 20, 1, 1, [share / 20 for share in MIX], [0.0, 1.0], 0.0, run.keys)
    server = run.way == "server"
    layout = Layout(
        run.engine,
        sessions=run.workers,
        rate=run.rate,
        servers=run.processes,
        lanes=1 if server else run.workers,
        batch=64 if server else 1,
        shared=int(found.about["processors"]),
        others=run.others,
        loader=run.loader,
        store_rtt=run.rtt or Layout.store_rtt,
        rtt=Layout.rtt if server else 0.0,
        tier=run.tier,
        keys=run.keys,
        keys_per_call=1,
        again=20 if server else 0,
        own=not server and run.keys == run.workers,
        stick="" if server else "session",
    )
    costs = Costs.of(found, run.engine) if server else Costs.local(found, run.engine)
    return Beside(
        run, Simulation(costs, mix if server else traffic_flat(traffic), layout, seed).run(warm=0.5, seconds=4)
    )


def traffic_flat(traffic: Traffic) -> Traffic:
    """With all keys as popular as each other."""
    return Traffic(traffic.source, traffic.calls, traffic.tasks, 1, traffic.tiers, traffic.keys, 0.0, traffic.distinct)
