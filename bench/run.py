"""Runs the cases and prints their figures beside the targets: ``python -m bench.run --help``."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.cases import (
    adapters,
    brief,
    console,
    corpus,
    crowd,
    endurance,
    growth,
    leases,
    log,
    memory,
    pair,
    parts,
    postgres,
    redis_store,
    rules,
    server,
    stream,
    transport,
)
from bench.harness import Line, Report
from bench.peers import version_of

CASES: Mapping[str, Callable[[Path, int], Report]] = {
    "pair": pair.run,
    "parts": parts.run,
    "rules": rules.run,
    "crowd": crowd.run,
    "log": log.run,
    "memory": memory.run,
    "growth": growth.run,
    "leases": leases.run,
    "server": server.run,
    "endurance": endurance.run,
    "stream": stream.run,
    "console": console.run,
    "transport": transport.run,
    "corpus": corpus.run,
    "brief": brief.run,
    "redis": redis_store.run,
    "postgres": postgres.run,
    "adapters": adapters.run,
}
HEAVY = ("memory", "growth", "endurance", "brief")
"""They take minutes each; together less than alone, for the first makes what the others need."""


def machine() -> dict[str, str]:
    """What the figures depend on, besides the code."""
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "platform": platform.platform(terse=True),
        "processors": str(os.cpu_count()),
        "peers": ", ".join(
            [
                *map(
                    version_of,
                    (*pair.VERSIONS, *server.VERSIONS, *corpus.VERSIONS, *transport.VERSIONS, *adapters.VERSIONS),
                ),
                _redis_version(),
            ]
        ),
    }


def _redis_version() -> str:
    try:
        told = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "redis-server (not installed)"
    return "redis-server " + next((word[2:] for word in told.split() if word.startswith("v=")), "?")


def show(report: Report, console: Console) -> None:
    """Print one group of figures."""
    table = Table(title=report.name, title_justify="left", title_style="bold")
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_column("target", justify="right")
    table.add_column("")
    table.add_column("note")
    for line in report.lines:
        target = "" if line.target is None else f"{line.sense} {line.target:g}"
        verdict = {None: "", True: "[green]pass", False: "[red]miss"}[line.met]
        table.add_row(line.name, figure(line), target, verdict, line.note)
    console.print(table)
    for missing in report.missing:
        console.print(f"[yellow]not measured: {missing}")


def figure(line: Line) -> str:
    """A figure with its unit, to three digits or so."""
    value = line.figure
    digits = 0 if abs(value) >= 1000 or value == int(value) else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {line.unit}"


def main(argv: list[str] | None = None) -> int:
    """Run what was asked for; 1 if a target was missed, 3 if something could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--only", action="append", choices=CASES, help="run this group (may be repeated)")
    parser.add_argument("--light", action="store_true", help=f"leave out {' and '.join(HEAVY)}")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each comparison (default 15)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file too")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables of README.md to a file")
    parser.add_argument("--folder", type=Path, help="where to put the files (default: the temporary folder)")
    chosen = parser.parse_args(argv)
    wanted = chosen.only or [name for name in CASES if not (chosen.light and name in HEAVY)]
    names = [name for name in CASES if name in wanted]

    console = Console(width=None if sys.stdout.isatty() else 120)
    about = machine()
    console.print(" · ".join(f"{name} {value}" for name, value in about.items()))
    reports: list[Report] = []
    with tempfile.TemporaryDirectory(prefix="callosum-bench-", dir=chosen.folder) as root:
        for name in names:
            folder = Path(root, name)
            folder.mkdir()
            began = time.perf_counter()
            report = CASES[name](folder, chosen.rounds)
            show(report, console)
            console.print(f"{time.perf_counter() - began:.0f} s\n")
            reports.append(report)
            if chosen.json:
                chosen.json.write_text(json.dumps(_as_json(about, reports), indent=2) + "\n")
    if chosen.markdown:
        chosen.markdown.write_text(markdown(about, reports))
    missed = [line for report in reports for line in report.lines if line.met is False]
    console.print(f"{len(missed)} of {sum(line.met is not None for r in reports for line in r.lines)} targets missed")
    return 1 if missed else 3 if any(report.missing for report in reports) else 0


def markdown(about: Mapping[str, str], reports: list[Report]) -> str:
    """The tables as README.md shows them."""
    parts = [" · ".join(f"{name} {value}" for name, value in about.items())]
    for report in reports:
        rows = [f"| {report.name} | figure | target | |", "|---|--:|--:|---|"]
        for line in report.lines:
            target = "" if line.target is None else f"{line.sense} {line.target:g}"
            verdict = {None: line.note, True: "pass", False: "**miss**"}[line.met]
            rows.append(f"| {line.name} | {figure(line)} | {target} | {verdict} |")
        rows += [f"\nNot measured: {missing}" for missing in report.missing]
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _as_json(about: Mapping[str, str], reports: list[Report]) -> dict[str, Any]:
    groups = [
        {
            "name": report.name,
            "missing": report.missing,
            "lines": [asdict(line) | {"met": line.met} for line in report.lines],
        }
        for report in reports
    ]
    return {**about, "groups": groups}


if __name__ == "__main__":
    sys.exit(main())
