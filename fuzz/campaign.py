"""A campaign: every target in its own process, with one line for what was tried and found."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final, NamedTuple

from fuzz.attempt import CORPUS, CRASHES, attempt
from fuzz.targets import TARGETS, Target

ROOT: Final = Path(__file__).parent.parent
KEPT: Final = ROOT / ".fuzz"
"""Folder for inputs with which the next campaign should start; not part of the project."""
MINUTE: Final = 75
"""Maximum seconds of the short campaign, without the time that processes take to start.

A machine that is too busy for all inputs tries only the first of them.
"""
_PATIENCE: Final = 120
"""Seconds that a process may take to start and to end, besides its working time."""
_SHOWN: Final = 12
_RUNS: Final = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_FIRST: Final = re.compile(r"INITED.*?cov: (\d+)")
_LAST: Final = re.compile(r"#\d+\s+\w+\s+cov: (\d+)")
_WITHOUT: Final = (
    "atheris is not installed here (it has wheels for Linux on x86-64 and Python 3.11 to 3.14: pip install '.[fuzz]'). "
    "Inputs are made by chance and led by no coverage."
)


class Outcome(NamedTuple):
    """The result for one target. ``coverage`` is the number of places reached that the seeds did not reach."""

    name: str
    runs: int
    coverage: int | None
    seconds: float
    found: list[dict[str, Any]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a campaign. Return 0 if everything held, 1 if a fault was found, 2 if it cannot be tried."""
    asked = _parser().parse_args(argv)
    every = (*TARGETS, *(importlib.import_module(asked.more).TARGETS if asked.more else ()))
    targets = [one for one in every if not asked.only or one.name in asked.only]
    unknown = set(asked.only).difference(one.name for one in every)
    if unknown or not targets:
        print(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(one.name for one in every)}")
        return 2
    if asked.input:
        return _again(asked.input, targets)
    plain = asked.plain or asked.minute or importlib.util.find_spec("atheris") is None
    if plain:
        chosen = asked.plain or asked.minute
        print("Inputs are made by chance and led by no coverage." if chosen else _WITHOUT, flush=True)
    print(f"{'target':12} {'executions':>10} {'new coverage':>12} {'seconds':>8} {'crashes':>7}", flush=True)
    outcomes = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        waiting = [pool.submit(_try, one, asked, len(targets), plain=plain) for one in targets]
        for done in as_completed(waiting):
            outcomes.append(outcome := done.result())
            coverage = "-" if outcome.coverage is None else f"{outcome.coverage:,}"
            numbers = f"{outcome.runs:>10,} {coverage:>12} {outcome.seconds:>8.1f} {len(outcome.found):>7}"
            print(f"{outcome.name:12} {numbers}", flush=True)
    found = [one for outcome in outcomes for one in outcome.found]
    for one in found[:_SHOWN]:
        print(f"\n{one['sign']}\n{one['told'].rstrip()}\nagain: python -m fuzz --input {one['file']}", flush=True)
    if len(found) > _SHOWN:
        print(f"\n... and {len(found) - _SHOWN} more")
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description="Tries the gate with whatever can be sent to it."
    )
    parser.add_argument("--seconds", type=int, default=600, help="for all targets together (default 600)")
    parser.add_argument(
        "--minute", action="store_true", help="a fixed number of inputs for each target, the same on every machine"
    )
    parser.add_argument("--only", action="append", default=[], metavar="TARGET", help="this target; can be given again")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="targets at once (default 2)")
    parser.add_argument("--seed", type=int, default=1, help="where chance begins (default 1)")
    parser.add_argument("--runs", type=int, default=-1, help="most inputs for each target")
    parser.add_argument("--timeout", type=int, default=60, help="seconds that one input may take before it is stopped")
    parser.add_argument("--crashes", type=Path, default=CRASHES, help="where inputs that show a fault are written")
    parser.add_argument("--more", default="", metavar="MODULE", help="a module with further TARGETS")
    parser.add_argument("--plain", action="store_true", help="inputs by chance, even where there is atheris")
    parser.add_argument("--input", type=Path, metavar="FILE", help="try this one input again")
    return parser


def _again(path: Path, targets: Sequence[Target]) -> int:
    """Try one kept input with the target whose folder contains it."""
    chosen = [one for one in targets if one.name == path.parent.name] or targets
    data = path.read_bytes()
    for target in chosen:
        fault = attempt(target, data)
        print(f"{target.name}: {'all held' if fault is None else fault.told}")
        if fault is not None:
            return 1
    return 0


def _try(target: Target, asked: argparse.Namespace, count: int, *, plain: bool) -> Outcome:
    """Run one target's process and read its output."""
    runs = target.minute if asked.minute else asked.runs
    seconds = MINUTE if asked.minute else asked.seconds
    seconds = max(1, seconds // -(-count // asked.jobs))  # each process runs several targets in turn
    with tempfile.TemporaryDirectory(prefix="callosum-fuzz-") as made:
        work = Path(made) if asked.minute or asked.more else KEPT / target.name
        (work / "corpus").mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "fuzz.one", target.name, "--work", str(work), "--crashes", str(asked.crashes)]
        command += ["--seed", str(asked.seed), "--runs", str(runs), "--seconds", str(seconds)]
        command += ["--timeout", str(asked.timeout), "--more", asked.more, *(["--plain"] if plain else [])]
        # a fixed order of sets makes a target treat an input the same every time
        environ = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
        began = time.monotonic()
        try:
            done = subprocess.run(
                command, capture_output=True, cwd=ROOT, env=environ, check=False, timeout=seconds + _PATIENCE
            )
            told, errors, status = done.stdout, done.stderr, str(done.returncode) if done.returncode else ""
        except subprocess.TimeoutExpired as late:
            told, errors, status = late.stdout or b"", late.stderr or b"", "did not end"
        took = time.monotonic() - began
        found = [json.loads(line) for line in told.decode().splitlines() if line.startswith("{")]
        text = errors.decode("utf-8", "replace")
        if status:
            found.append(_died(target, work, text, status, asked.crashes))
    first, last, executed = _FIRST.search(text), _LAST.findall(text), _RUNS.search(text)
    coverage = int(last[-1]) - int(first[1]) if first and last else None
    return Outcome(target.name, int(executed[1]) if executed else 0, coverage, took, found)


def _died(target: Target, work: Path, errors: str, status: str, crashes: Path) -> dict[str, Any]:
    """Return what is known of a process that ended badly: its current input, if libFuzzer kept it."""
    lines = [
        one for one in errors.splitlines() if not one.startswith(("INFO: Instrumenting", "WARNING: Failed to find"))
    ]
    told = "\n".join(lines[-30:])
    path = None
    for left in sorted(work.glob("died-*")):
        data = left.read_bytes()
        path = crashes / target.name / hashlib.sha256(data).hexdigest()[:12]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        left.unlink()
    return {
        "sign": f"{target.name}: the process ended with {status}",
        "told": told,
        "file": str(path or "(no input was kept)"),
    }


__all__ = ["CORPUS", "Outcome", "main"]
