"""What the hook of a host with command hooks costs by itself: its entry as it is installed, run by a shell.

::

    python -m bench.hosts.hook [--rounds 20] [--block 5]

With a gate that runs it is held against ``/bin/true`` in the entry's place (the difference), without one against a
Python that does nothing (the ratio): then it judges by the tier table; the gate that it would start besides, and go
on, is left out. ``report`` is the form in which the host does not wait for what it tells: its time is that until the
host goes on. Rounds are shuffled. The processor time of each is told too: it is what a loaded machine does not
stretch.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.harness import Case, Line, side_by_side
from bench.serving import callosum
from callosum.hosts.script import NAME, closed, script_of
from callosum.settings import Settings
from callosum.sockets import socket_path

PAYLOAD = json.dumps(
    {
        "hook_event_name": "PreToolUse",
        "session_id": "0199aaaa-1111-7000-8000-000000000001",
        "transcript_path": "/home/ann/.claude/projects/shop/0199aaaa.jsonl",
        "cwd": "/home/ann/shop",
        "tool_name": "Read",
        "tool_input": {"file_path": "/home/ann/shop/notes.txt"},
    }
)


def entry_in(state: Path, *, starts: bool = True) -> str:
    """The command of the entry for one state folder, with the script that it runs; it may start a gate, or not."""
    state.mkdir(parents=True, exist_ok=True)
    script, text = state / NAME, script_of(Settings(state=state))
    if not starts:
        told = f'"$1" {state} {socket_path(state)} '  # the last is where a gate would be started
        assert told in text
        text = text.replace(told, f'"$1" {state} "" ')
    script.write_text(text)
    script.chmod(0o700)
    return closed(str(script), "claude-code", 20, asks=True)


def run(command: Sequence[str]) -> Callable[[int], object]:
    """Runs a program with a payload of its own each time, as a host would; it must let the call run."""

    def once(count: int) -> None:
        body = PAYLOAD[:-1] + f', "tool_use_id": "call-{count}"}}'
        done = subprocess.run(command, input=body.encode(), capture_output=True, check=True)
        assert done.stdout == b"", done

    return once


def processor_time(case: Case, times: int) -> float:
    """The processor time of one run and of all that it starts, in milliseconds; the median."""

    def so_far() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    spent = []
    for count in range(1_000_000, 1_000_000 + times):
        before = so_far()
        case.operation(count)
        spent.append(so_far() - before)
    return statistics.median(spent) * 1000


def measure(rounds: int, block: int) -> list[Line]:
    """The two figures, and what they were made of."""
    with tempfile.TemporaryDirectory(prefix="callosum-bench-") as folder:
        with_gate, without = Path(folder) / "with", Path(folder) / "without"
        commands = {"gate": entry_in(with_gate), "nobody": entry_in(without, starts=False), "true": "/bin/true"}
        commands["report"] = closed(str(with_gate / NAME), "claude-code", 20, asks=False, reports=True)
        (without / "fallback.json").write_text('{"tools": {"Read": 0}}')
        cases = [Case(name, run(["/bin/sh", "-c", command]), block) for name, command in commands.items()]
        cases.append(Case("python", run([sys.executable, "-I", "-c", "pass"]), block))
        with callosum(with_gate, "--socket", socket_path(with_gate)):
            found = side_by_side(cases, rounds)
            spent = {case.name: processor_time(case, rounds * block) for case in cases}
    made = [Line(f"{name}, median", measured.median / 1000, "ms") for name, measured in found.items()]
    return [
        *made,
        *(Line(f"{name}, processor time", milliseconds, "ms") for name, milliseconds in spent.items()),
        Line("hook with a gate, above /bin/true", found["gate"].above(found["true"]) / 1000, "ms", 15.0),
        Line("hook that only reports, above /bin/true", found["report"].above(found["true"]) / 1000, "ms"),
        Line("hook without a gate, over python -I -c pass", found["nobody"].over(found["python"]), "x", 2.5),
    ]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--block", type=int, default=5)
    given = options.parse_args()
    lines = measure(given.rounds, given.block)
    for line in lines:
        target = (
            "" if line.target is None else f"  (at most {line.target:g} {line.unit}: {'yes' if line.met else 'NO'})"
        )
        print(f"{line.name}: {line.figure:.2f} {line.unit}{target}")
    sys.exit(any(line.met is False for line in lines))


if __name__ == "__main__":
    main()
