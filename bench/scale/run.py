"""Measures, simulates, compares and writes: ``python -m bench.scale --help``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.scale import measured, traffic
from bench.scale.curves import Axis, axes
from bench.scale.page import Unmarked, put, section
from bench.scale.picture import draw
from bench.scale.plan import Units, units
from bench.scale.validate import QUIET, Beside, beside

TITLE = "What the gate can carry: simulated from service times measured on one machine"
DRAWN = ("sessions", "waits", "hot", "trip", "keys", "beyond")


def main(argv: Sequence[str] | None = None) -> int:
    """0; 1 if the simulation is off where it is judged; 3 if nothing could be measured or judged."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--measure", action="store_true", help=f"measure anew and write {measured.FILE.name} (3 min)")
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="before each block wait so long for a moment when nothing else runs on this machine (default 0)",
    )
    parser.add_argument("--check", action="store_true", help="only hold the simulation against what was measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes to a file too")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the curves")
    parser.add_argument("--docs", type=Path, metavar="FILE", help="write the tables between the marks of this page")
    chosen = parser.parse_args(argv)
    if chosen.measure:
        from bench.scale.backends import Absent  # noqa: PLC0415
        from bench.scale.blocks import Patience  # noqa: PLC0415 - as below
        from bench.scale.measure import measure  # noqa: PLC0415 - needs drivers that the rest does not

        try:
            measured.save(measure(_say, Patience(chosen.patience)))
        except Absent as absent:
            print(absent, file=sys.stderr)
            return 3
    try:
        found = measured.load()
    except FileNotFoundError:
        print(f"{measured.FILE} is not there: measure first, with --measure", file=sys.stderr)
        return 3
    asked = traffic.load()
    _say("the measured runs, simulated")
    compared = [beside(found, asked, run) for run in found.runs]
    drawn: list[Axis] = []
    carried = Units({})
    if not chosen.check:
        _say("what each unit can carry")
        carried = units(found, asked)
        _say("the curves")
        drawn = axes(found, asked)
        told = section(found, asked, compared, drawn, carried)
        print(told)
        if chosen.docs:
            try:
                chosen.docs.write_text(put(chosen.docs.read_text(), told))
            except Unmarked as fault:
                print(f"{chosen.docs}: {fault}", file=sys.stderr)
                return 2
        if chosen.svg:
            chosen.svg.write_text(draw([axis for axis in drawn if axis.name in DRAWN], TITLE))
    if chosen.json:
        chosen.json.write_text(json.dumps(_as_json(found, compared, drawn, carried), indent=1) + "\n")
    return verdict(compared)


def verdict(compared: Sequence[Beside]) -> int:
    """Tells how each run compares; the exit code."""
    judged = [one for one in compared if one.judged]
    off = [one for one in judged if not one.within]
    for one in compared:
        rate, half, tail = one.ratios
        mark = "not judged" if not one.judged else "within" if one.within else "OFF"
        print(f"{mark:10}  calls {rate:5.2f}  p50 {half:5.2f}  p99 {tail:5.2f}  {one.run.name}", file=sys.stderr)
    print(f"simulated / measured: {len(off)} of {len(judged)} judged runs are off", file=sys.stderr)
    if not judged:
        print(f"nothing was judged: others had more than {QUIET:g} processors throughout", file=sys.stderr)
        return 3
    return 1 if off else 0


def _say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


def _as_json(found: measured.Measured, compared: Sequence[Beside], drawn: Sequence[Axis], carried: Units) -> Any:
    return {
        "about": dict(found.about),
        "units": {name: asdict(outcome) for name, outcome in carried.found.items()},
        "runs": [
            {
                "name": one.run.name,
                "judged": one.judged,
                "within": one.within,
                "measured": {"calls": one.run.calls, "p50": one.run.p50, "p99": one.run.p99},
                "simulated": asdict(one.found),
            }
            for one in compared
        ],
        "curves": {
            axis.name: {
                curve.name: [{"at": x, **asdict(outcome)} for x, outcome in curve.points] for curve in axis.curves
            }
            for axis in drawn
        },
    }
