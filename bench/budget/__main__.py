"""Measure everything, lower the figures of ``budget.toml`` that fell, and print the table: ``make budget``."""

from __future__ import annotations

import argparse
import sys

from bench.budget import calls, figures, loading, size


def main() -> int:
    """Return 1 if a measurement is above its figure or a figure rose without a heading."""
    parser = argparse.ArgumentParser(prog="python -m bench.budget", description=__doc__)
    parser.add_argument("--add", action="store_true", help="add a row for everything that has no figure")
    parser.add_argument("--only", choices=("size", "calls", "loading"), help="measure this part alone")
    options = parser.parse_args()
    file = figures.ROOT / figures.FILE
    measured: figures.Figures = {}
    if options.only in (None, "size"):
        measured |= size.measure(figures.ROOT, figures.read(figures.ROOT)[0])
    if options.only in (None, "calls"):
        measured |= calls.measure(figures.ROOT)
    if options.only in (None, "loading"):
        measured |= loading.measure(figures.ROOT)
    file.write_text(figures.lowered(file.read_text("utf-8"), measured, add=options.add), "utf-8")
    limits, _ = figures.read(figures.ROOT)
    for key, value in measured.items():
        if isinstance(value, int | float):
            most = figures.limit(key, limits[key]) if key in limits else float("nan")
            print(f"{key:<60} {value:>10g} {most:>10g}")
    past = figures.history(figures.ROOT)
    faults = figures.grown(figures.ROOT, measured, limits)
    faults += (
        [f"{figures.FILE}: not checked for figures that rose: {past}"]
        if isinstance(past, str)
        else (figures.unexplained(figures.ROOT, past))
    )
    print(*faults, sep="\n", file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
