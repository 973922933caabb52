"""What the hook of a host with command hooks costs by itself: its entry as it is installed, run by a shell.

::

    python -m bench.hosts.hook [--rounds 20] [--block 5]

The native client and the script are measured beside each other. With a gate that runs each is held against
``/bin/true`` in the entry's place (the difference), without one against a Python that does nothing (the ratio): then it
judges by the tier table; the gate that it would start besides, and go on, is left out. ``report`` is the form in which
the host does not wait for what it tells: its time is that until the host goes on. ``started`` is a hook that is started
without a shell, as Claude Code does it. Rounds are shuffled. The processor time of each is told too: it is what a
loaded machine does not stretch.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.harness import Case, Line, side_by_side
from bench.serving import callosum
from callosum.hosts.install import write_hook
from callosum.hosts.native import CONFIGURATION, client_path
from callosum.hosts.script import REPORT, closed, hook_of
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


def hook_in(state: Path, kind: str, *, starts: bool = True) -> str:
    """Write the hook of one kind for a state folder, and return its path; it may start a gate, or not."""
    state.mkdir(parents=True, exist_ok=True)
    hook = hook_of(Settings(state=state), script=kind == "script")
    write_hook(hook)
    if not starts:  # the offline path looks for the gate at the socket where one would be started
        if hook.native:
            beside = hook.path.with_name(hook.path.name + CONFIGURATION)
            text = beside.read_text()
            told = f"\nsocket {socket_path(state)}\n"
            assert told in text
            beside.write_text(text.replace(told, "\nsocket \n"))
        else:
            told = f'"$1" {state} {socket_path(state)} '
            text = hook.path.read_text()
            assert told in text
            hook.path.write_text(text.replace(told, f'"$1" {state} "" '))
    return str(hook.path)


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


KINDS = ("native", "script") if client_path() else ("script",)


@contextmanager
def prepared(block: int) -> Iterator[list[Case]]:
    """The cases, while a gate runs for those that ask one."""
    with tempfile.TemporaryDirectory(prefix="callosum-bench-") as folder:
        with_gate, without = Path(folder) / "with", Path(folder) / "without"
        commands = {"true": "/bin/true"}
        cases = [
            Case("python", run([sys.executable, "-I", "-c", "pass"]), block),
            Case("true started", run(["/bin/true"]), block),
        ]
        for kind in KINDS:
            hook, alone = hook_in(with_gate, kind), hook_in(without, kind, starts=False)
            bounded = kind == "native"
            commands[f"{kind}: gate"] = closed(hook, "claude-code", 20, asks=True, bounded=bounded)
            commands[f"{kind}: nobody"] = closed(alone, "claude-code", 20, asks=True, bounded=bounded)
            commands[f"{kind}: report"] = closed(hook, "claude-code", 20, asks=False, word=REPORT)
            cases.append(Case(f"{kind}: started", run([hook, "claude-code"]), block))
        (without / "fallback.json").write_text('{"tools": {"Read": 0}}')
        cases += [Case(name, run(["/bin/sh", "-c", command]), block) for name, command in commands.items()]
        with callosum(with_gate, "--socket", socket_path(with_gate)):
            yield cases


def sample(runs: int) -> dict[str, list[float]]:
    """The time of each run of each case, in milliseconds: one of each a round, shuffled."""
    with prepared(1) as cases:
        found = side_by_side(cases, runs)
    return {name: [taken / 1000 for taken in measured.rounds] for name, measured in found.items()}


def measure(rounds: int, block: int) -> list[Line]:
    """The figures, and what they were made of."""
    kinds = KINDS
    with prepared(block) as cases:
        found = side_by_side(cases, rounds)
        spent = {case.name: processor_time(case, rounds * block) for case in cases}
    made = [Line(f"{name}, median", measured.median / 1000, "ms") for name, measured in found.items()]
    made += [Line(f"{name}, processor time", milliseconds, "ms") for name, milliseconds in spent.items()]
    for kind in kinds:
        most = 2.5 if kind == "native" else 15.0
        gate, report, nobody = (found[f"{kind}: {case}"] for case in ("gate", "report", "nobody"))
        made += [
            Line(f"{kind}: hook with a gate, above /bin/true", gate.above(found["true"]) / 1000, "ms", most),
            Line(
                f"{kind}: started without a shell, above /bin/true",
                found[f"{kind}: started"].above(found["true started"]) / 1000,
                "ms",
            ),
            Line(f"{kind}: hook that only reports, above /bin/true", report.above(found["true"]) / 1000, "ms"),
            Line(f"{kind}: hook without a gate, over python -I -c pass", nobody.over(found["python"]), "x", 2.5),
        ]
    if len(kinds) > 1:
        ratio = found["native: gate"].over(found["script: gate"])
        made.append(Line("native client over the script, with a gate", ratio, "x"))
    return made


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
