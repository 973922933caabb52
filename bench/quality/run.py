"""Measures how well Callosum judges, beside three baselines: ``python -m bench.quality --help``."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from bench.quality import acts, conflicts, data, folders, incidents, keys, sessions, shell, speed, tools
from bench.quality.figures import Part, bar_of, shown
from bench.quality.page import page, picture

PARTS: Mapping[str, Callable[[Path], Part]] = {
    "tools": tools.run,
    "conflicts": conflicts.run,
    "shell": shell.run,
    "acts": acts.run,
    "incidents": incidents.run,
    "keys": keys.run,
    "folders": folders.run,
    "sessions": sessions.run,
    "speed": speed.run,
}


def show(part: Part, console: Console) -> None:
    """Print one part."""
    if part.rows:
        grid = Grid(title=part.title, title_justify="left", title_style="bold")
        for name in ("what", "who", "tuning half", "test half", "whole"):
            grid.add_column(name, justify="right" if "half" in name or name == "whole" else "left")
        grid.add_column("target")
        grid.add_column("")
        for row in part.rows:
            verdict = {None: "", True: "[green]pass", False: "[red]miss"}[row.met]
            shares = (shown(row.tuning), shown(row.test), shown(row.whole))
            grid.add_row(row.what, row.who, *map(Text, shares), bar_of(row), verdict)
        console.print(grid)
    if part.numbers:
        grid = Grid(title="" if part.rows else part.title, title_justify="left", title_style="bold")
        for name in ("what", "figure", "target", "", "note"):
            grid.add_column(name, justify="right" if name == "figure" else "left")
        for number in part.numbers:
            verdict = {None: "", True: "[green]pass", False: "[red]miss"}[number.met]
            target = "" if number.target is None else f"<= {number.target:g} {number.unit}"
            grid.add_row(number.what, f"{number.value:.1f} {number.unit}", target, verdict, number.note)
        console.print(grid)
    for table in part.tables:
        grid = Grid(title=f"{table.title} (test half)" if table.split else table.title, title_justify="left")
        for name in table.header:
            grid.add_column(name)
        for cells in table.rows:
            grid.add_row(*map(Text, cells))
        console.print(grid)
    for note in part.notes:
        console.print(Text(note))
    for missing in part.missing:
        console.print(Text(f"NOT MEASURED: {part.name}: {missing}", style="bold yellow"))


def mistakes(part: Part, wanted: str) -> None:
    """Print the tuning half's mistakes of the measures whose name begins so."""
    for one in part.mistakes:
        if one.measure.startswith(wanted):
            print(f"[{one.measure}] {one.text}\n      -> {one.because}")


def about() -> dict[str, str]:
    """What the figures depend on, besides the code."""
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "python": f"Python {platform.python_version()}",
        "processors": f"{os.cpu_count()} processors",
        "platform": f"{platform.system()} {platform.machine()}",
    }


def as_json(known: Mapping[str, str], parts: list[Part]) -> dict[str, Any]:
    """All figures of both halves. The mistakes are those of the tuning half."""
    return {
        **known,
        "parts": [
            {
                "name": part.name,
                "title": part.title,
                "rows": [row.as_json() for row in part.rows],
                "numbers": [asdict(number) | {"met": number.met} for number in part.numbers],
                "tables": [asdict(table) for table in part.tables],
                "notes": part.notes,
                "missing": part.missing,
            }
            for part in parts
        ],
    }


def measure(name: str, folder: Path) -> Part:
    """One part; where its data are not there, an empty one that says so."""
    try:
        return PARTS[name](folder)
    except data.Missing as missing:
        return Part(name, name.capitalize(), missing=[str(missing)])


def main(argv: list[str] | None = None) -> int:
    """Run what was asked for. Missed targets are marked and are no failure: 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="run this part (may be repeated)")
    parser.add_argument("--data", type=Path, default=data.DEFAULT, metavar="DIR", help="the recorded traffic")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the picture: recall against false alarms")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page of the documentation")
    parser.add_argument(
        "--mistakes",
        nargs="?",
        const="",
        metavar="NAME",
        help="print the tuning half's mistakes of the measures that begin so (shell.safe, tools, ...; default all)",
    )
    chosen = parser.parse_args(argv)
    console = Console(width=None if sys.stdout.isatty() else 200)
    known = about()
    console.print(Text(" · ".join(known.values())))
    parts: list[Part] = []
    for name in [name for name in PARTS if not chosen.only or name in chosen.only]:
        began = time.perf_counter()
        part = measure(name, chosen.data)
        parts.append(part)
        if chosen.mistakes is not None:
            mistakes(part, chosen.mistakes)
        show(part, console)
        console.print(f"{time.perf_counter() - began:.1f} s\n")
    met = [met for part in parts for met in part.met]
    console.print(f"{met.count(False)} of {len(met)} targets missed")
    if chosen.json:
        chosen.json.write_text(json.dumps(as_json(known, parts), indent=1) + "\n")
    return _publish(parser, chosen, known, parts)


def _publish(
    parser: argparse.ArgumentParser, chosen: argparse.Namespace, known: Mapping[str, str], parts: list[Part]
) -> int:
    """Writes page and picture, but no half of them over a whole one."""
    gaps = [missing for part in parts for missing in part.missing]
    if chosen.markdown:
        if gaps or len(parts) < len(PARTS):
            parser.error(f"{chosen.markdown} stays as it is: the page needs all parts, and all their data")
        chosen.markdown.write_text(page(known, parts))
    if chosen.svg:
        drawn = picture(parts)
        if drawn is None:
            parser.error(f"{chosen.svg} stays as it is: the picture needs the conflicts")
        chosen.svg.write_text(drawn)
    return 0
