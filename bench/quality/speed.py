"""How long a call is judged: recorded calls, recorded commands, and a megabyte of anything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.harness import percentile
from bench.quality import data
from bench.quality.figures import Number, Part, Table
from bench.quality.judges import CWD, RULES
from callosum.model import Call

ROUNDS: Final = 7
MEDIAN: Final = 15.0
P99: Final = 60.0
P99_SHELL: Final = 200.0
HUGE: Final = 100.0
"""Most milliseconds for a megabyte."""
LONGEST: Final = 500
"""Characters of the commands that are timed."""
_M: Final = 1_000_000


def _bash(command: str) -> Call:
    return Call("judge", "Bash", {"command": command}, cwd=CWD)


def huge() -> dict[str, Call]:
    """A megabyte of each thing that could be slow."""
    deep: Any = "x"
    for _ in range(50_000):
        deep = [deep]
    return {
        "the content of a file": Call("judge", "write", {"path": "/a", "content": "x" * _M}),
        "a message of different words": Call(
            "judge", "send_message", {"channel": "a", "text": " ".join(f"w{i}x" for i in range(_M // 8))}
        ),
        "a message of letters beyond ASCII": Call("judge", "send_message", {"channel": "a", "text": "\u6f22" * _M}),
        "addresses": Call("judge", "send_email", {"to": [f"a{i}@example.com" for i in range(_M // 16)], "body": "x"}),
        "one long address": Call("judge", "send_email", {"to": "a@" * (_M // 2)}),
        "a path": Call("judge", "write_file", {"path": "/../a" * (_M // 5)}),
        "ids": Call("judge", "delete_items", {"ids": list(range(_M // 7))}),
        "params": Call("judge", "handle", {f"k{i}_id": i for i in range(_M // 12)}),
        "nested lists": Call("judge", "handle", {"a": deep}),
        "SQL": Call("judge", "run_sql", {"sql": "select 1 " + "select into /* '" * (_M // 16)}),
        "a tool's name": Call("judge", "get_" * (_M // 4), {"x": 1}),
        "a description": Call("judge", "zzz", {"x": 1}, description="a," * (_M // 2)),
        "one word of shell": _bash("x" * _M),
        "commands": _bash("rm a && " * (_M // 8) + "ls"),
        "nested commands": _bash("$(" * 10_000 + "ls" + ")" * 10_000),
        "quotes without end": _bash("echo " + "'\"\\" * (_M // 3)),
        "here-documents without end": _bash("cat <<A\n" * (_M // 8)),
        "binary junk": _bash("".join(chr(i % 0x250) for i in range(_M))),
        "words to remove": _bash("rm -rf " + "a/* " * (_M // 4)),
    }


def _times(rounds: Sequence[Sequence[Call]]) -> tuple[list[float], list[float]]:
    """Microseconds for each call: in the first round, and the best of the rounds after it."""
    classify, clock = RULES.classify, time.perf_counter_ns
    first: list[float] = []
    best = [float("inf")] * len(rounds[0])
    for number, calls in enumerate(rounds):
        for place, call in enumerate(calls):
            began = clock()
            classify(call)
            took = (clock() - began) / 1000
            if number:
                best[place] = min(best[place], took)
            else:
                first.append(took)
    return first, best


def run(folder: Path) -> Part:
    part = Part("speed", "Speed: judging a call")
    recorded = [call for task in data.traces(folder) for call in task]
    tools = [Call("judge", one.tool, one.args, cwd=CWD) for one in recorded if "command" not in one.args]
    commands = [str(one.args["command"]) for one in recorded if "command" in one.args]
    commands += [line.command for line in data.shell(folder)]
    lines = [one for one in dict.fromkeys(commands) if len(one) <= LONGEST]
    RULES.classify(_bash("ls | wc -l"))  # what is imported for the first command is no part of judging one
    # Sessions call the same tools again and again, but hardly ever run the same command: it differs in each round.
    shell = [[_bash(f"{one} #{number}") for one in lines] for number in range(ROUNDS)]
    for what, rounds, median, p99 in (
        ("a tool call", [tools] * ROUNDS, MEDIAN, P99),
        ("a command", shell, None, P99_SHELL),
    ):
        first, best = _times(rounds)
        calls = rounds[0]
        note = f"{len(calls)} calls"
        part.numbers += [
            Number(f"{what}: median", percentile(best, 0.5), "us", median, note),
            Number(f"{what}: 99 of 100 within", percentile(best, 0.99), "us", p99, note),
            Number(f"{what} never seen before: median", percentile(first, 0.5), "us", None, note),
            Number(f"{what} never seen before: 99 of 100 within", percentile(first, 0.99), "us", None, note),
        ]
    rows = {name: _milliseconds(call) for name, call in huge().items()}
    part.numbers.append(Number("a megabyte of anything: the slowest", max(rows.values()), "ms", HUGE))
    part.tables.append(
        Table("A megabyte", ("of", "ms"), [(name, f"{took:.1f}") for name, took in rows.items()], split=False)
    )
    part.notes.append(
        f"Each call alone, the best of {ROUNDS - 1} rounds; commands of at most {LONGEST} characters. "
        "Both halves: nothing is tuned on time."
    )
    return part


def _milliseconds(call: Call) -> float:
    """The better of two, in milliseconds of this process's own time."""
    took = []
    for _ in range(2):
        began = time.process_time()
        RULES.classify(call)
        took.append((time.process_time() - began) * 1000)
    return min(took)
