"""Send recorded tool traffic through the gate, by several sessions at once, and report what it said.

    python -m bench.replay FILE... [--sessions 8] [--pause] [--state DIR] [--json FILE]

The files are as ``bench/recorded.py`` describes them. No tool is run: a call that may run is reported as ``done``, or
as ``failed`` if an error was recorded. Tasks are spread over the sessions, and each session is a process. With
``--pause`` the gate pauses on warnings as for hosts, and each session repeats a paused call once. Without ``--state``
the gate's own state is deleted afterwards.
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from bench.recorded import BrokenLine, RecordedCall, read
from callosum import Call, LocalGate
from callosum.characters import escaped
from callosum.errors import CallosumError, ConfigError
from callosum.model import Classification, Observation, Outcome, Verdict

EXAMPLES: Final = 3
"""Number of examples that are kept for each tool without a key."""
_starting: Barrier
"""In a session's process: where sessions wait for one another before their first call."""


class SourceCounts(Struct, rename="camel"):
    """Numbers of calls of one source, of those that got a key, and of those that do not only read."""

    calls: int = 0
    keyed: int = 0
    writes: int = 0
    keyed_writes: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)


class Report(Struct, rename="camel"):
    """What the gate said. ``gaps`` are calls of tier 2 and up that write and got no key, by tool.

    ``decision_us`` holds the time of each decision in microseconds; ``began`` and ``ended`` are on the monotonic clock,
    in seconds. ``refused`` are errors.
    """

    calls: int = 0
    confirmed: int = 0
    began: float = 0.0
    ended: float = 0.0
    tiers: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    conflicts: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    gaps: Counter[str] = field(default_factory=Counter)
    sources: dict[str, SourceCounts] = field(default_factory=dict)
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    decision_us: list[int] = field(default_factory=list)


def merged(reports: Sequence[Report]) -> Report:
    """Return the sum of the sessions' reports."""
    total = Report(began=min(one.began for one in reports), ended=max(one.ended for one in reports))
    for one in reports:
        for name in ("calls", "confirmed", "refused", "decision_us"):
            setattr(total, name, getattr(total, name) + getattr(one, name))
        for name in ("tiers", "verdicts", "conflicts", "rules", "gaps"):
            getattr(total, name).update(getattr(one, name))
        for source, counts in one.sources.items():
            sum_ = total.sources.setdefault(source, SourceCounts())
            for name in ("calls", "keyed", "writes", "keyed_writes"):
                setattr(sum_, name, getattr(sum_, name) + getattr(counts, name))
            sum_.verdicts.update(counts.verdicts)
        for tool, examples in one.examples.items():
            total.examples[tool] = (total.examples.get(tool, []) + examples)[:EXAMPLES]
    return total


# --- in the process of a session ----------------------------------------------------------------------------


def enter(barrier: Barrier) -> None:
    global _starting  # noqa: PLW0603 - a process of the pool gets it once, when it starts
    _starting = barrier


def session(number: int, files: Sequence[Path], sessions: int, state: Path, mark: str, pause: bool) -> Report:
    """Make the calls of one session, from the moment when all sessions are ready."""
    seen: list[Classification] = []

    def observe(observation: Observation) -> None:
        if observation.classification is not None:
            seen.append(observation.classification)

    report = Report()
    try:
        with LocalGate(state, observer=observe) as gate:
            gate.status()  # opens the store
            _starting.wait()
            report.began = time.monotonic()
            for found in read(files, sessions):
                if not isinstance(found, BrokenLine) and found[0] == number:
                    report.calls += 1
                    seen.clear()
                    make(gate, report, found[1], f"{mark}-{number}-{report.calls}", str(number + 1), pause)
                    if seen:
                        count(report, found[1], seen[0])
            report.ended = time.monotonic()
    except CallosumError as error:
        _starting.abort()
        raise CallosumError(str(error)) from None  # a driver's error may not be serialisable
    return report


def make(gate: LocalGate, report: Report, recorded: RecordedCall, call_id: str, name: str, pause: bool) -> None:
    run = recorded.belongs[-200:] if recorded.belongs.isprintable() else None
    call = Call(
        "replay", recorded.tool, recorded.args, session=name, call_id=call_id, cwd=recorded.cwd, run=run, pause=pause
    )
    began = time.perf_counter_ns()
    try:
        decision = gate.intercept(call)
    except ConfigError as error:
        report.refused.append(f"{recorded.belongs}: {error}"[:300])
        return
    report.decision_us.append((time.perf_counter_ns() - began) // 1000)
    report.tiers[str(decision.tier)] += 1
    report.verdicts[decision.verdict.value] += 1
    report.conflicts.update({conflict.kind.value for conflict in decision.conflicts})
    report.rules[decision.rule or "(judged)"] += 1
    report.sources.setdefault(recorded.source, SourceCounts()).verdicts[decision.verdict.value] += 1
    if decision.verdict is Verdict.CONFIRM:
        decision = gate.intercept(replace(call, call_id=f"{call_id}-again", after=decision.id))
        report.confirmed += decision.proceed
    if decision.proceed:
        outcome = Outcome.FAILED if recorded.error else Outcome.DONE
        gate.complete("replay", id=decision.id, outcome=outcome, session=name)


def count(report: Report, recorded: RecordedCall, classification: Classification) -> None:
    counts, keyed, writes = report.sources[recorded.source], bool(classification.keys), classification.effect != "read"
    counts.calls += 1
    counts.keyed += keyed
    counts.writes += writes
    counts.keyed_writes += keyed and writes
    if classification.gap:
        report.gaps[recorded.tool] += 1
        examples = report.examples.setdefault(recorded.tool, [])
        if len(examples) < EXAMPLES:
            examples.append(recorded.args)


# --- the command --------------------------------------------------------------------------------------------


def replay(files: Sequence[Path], sessions: int, state: Path, *, pause: bool) -> Report:
    """Replay files by ``sessions`` processes. Raises the error that stopped a session."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(sessions)
    with ProcessPoolExecutor(sessions, context, enter, (barrier,)) as pool:
        mark = secrets.token_hex(4)
        jobs = [pool.submit(session, number, files, sessions, state, mark, pause) for number in range(sessions)]
    faults = [fault for job in jobs if (fault := job.exception()) is not None]
    if faults:
        raise next((fault for fault in faults if not isinstance(fault, BrokenBarrierError)), faults[0])
    return merged([job.result() for job in jobs])


def summary(report: Report) -> dict[str, Any]:
    """Return the report as JSON represents it, with shares from 0 to 1 and times in milliseconds."""
    took = [one / 1000 for one in report.decision_us]
    hundredths = statistics.quantiles(took, n=100, method="inclusive") if len(took) > 1 else took * 99
    total = [
        sum(getattr(one, name) for one in report.sources.values())
        for name in ("calls", "keyed", "writes", "keyed_writes")
    ]
    seconds = report.ended - report.began
    every: dict[str, Any] = msgspec.to_builtins(report)
    for name in ("began", "ended", "decisionUs"):
        del every[name]
    return every | {
        "seconds": round(seconds, 3),
        "callsPerSecond": round(report.calls / seconds, 1),
        "decisionMs": {"p50": hundredths[49], "p99": hundredths[98], "max": max(took)} if took else {},
        "keys": dict(zip(("calls", "keyed", "writes", "keyedWrites"), total, strict=True)),
    }


def lines(shown: dict[str, Any], broken: Sequence[BrokenLine]) -> list[str]:
    """Return the report as text."""
    ms, gaps = shown["decisionMs"], sum(shown["gaps"].values())
    times = f", a decision p50 {ms['p50']:.2f} ms, p99 {ms['p99']:.2f} ms, longest {ms['max']:.1f} ms" if ms else ""
    text = [f"{shown['calls']} calls, {shown['callsPerSecond']:,.0f} per second{times}"]
    text += [
        f"{name}: " + ", ".join(f"{key} {number}" for key, number in sorted(shown[name].items()))
        for name in ("tiers", "verdicts", "conflicts")
    ]
    for source, one in [("all", shown["keys"]), *sorted(shown["sources"].items())]:
        text.append(
            f"{source or '(no source)'}: {one['keyed']} of {one['calls']} calls got a key, "
            f"{one['keyedWrites']} of the {one['writes']} that write"
        )
    text.append(f"confirmed by repeating: {shown['confirmed']}")
    text.append(f"calls of tier 2 and up that write and have no key: {gaps}")
    for tool, number in Counter(shown["gaps"]).most_common(10):
        text.append(f"  {tool} {number}, for example {msgspec.json.encode(shown['examples'][tool][0]).decode()[:120]}")
    text += [f"refused: {one}" for one in shown["refused"][:EXAMPLES]]
    text += [f"broken line: {one.file}:{one.line}: {one.error}" for one in broken[:EXAMPLES]]
    return [escaped(line) for line in text]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="recorded calls, one JSON object a line")
    parser.add_argument("--sessions", type=int, default=8, help="number of session processes (8)")
    parser.add_argument("--pause", action="store_true", help="pause on warnings; each session repeats once to confirm")
    parser.add_argument("--state", type=Path, help="state folder that is kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON too")
    args = parser.parse_args(words)
    try:
        found = list(read(args.files, 1))
        broken = [one for one in found if isinstance(one, BrokenLine)]
        if len(broken) == len(found):
            print("there is no call in these files", file=sys.stderr)
            return 2
        with tempfile.TemporaryDirectory(prefix="callosum-replay-") as folder:
            report = replay(args.files, args.sessions, args.state or Path(folder), pause=args.pause)
    except CallosumError as error:
        print(error, file=sys.stderr)
        return 2
    shown = summary(report) | {"brokenLines": msgspec.to_builtins(broken)}
    if args.json:
        args.json.write_bytes(msgspec.json.format(msgspec.json.encode(shown)) + b"\n")
    print("\n".join(lines(shown, broken)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
