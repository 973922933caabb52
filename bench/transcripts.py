"""What reading a transcript costs a call: ``python -m bench.transcripts [FILE]``.

A thousand calls are written to a transcript as Claude Code writes them, call by call, and the gate's thread reads them
beside: it opens the file, reads and tells what is new, and writes down its place. FILE is a transcript of one's own,
whose lines are taken in place of those made here. What counts is the processor time of that thread, and of asking it to
look.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from callosum.hosts import transcripts
from callosum.hosts.adapters import ADAPTERS
from callosum.hosts.events import HostIdentity
from callosum.process import this_process

CALLS = 1000
PAUSE = 0.005
"""Seconds from a hook event to the look, in place of a tenth of a second."""
OUTPUT = "src/checkout.py:41:    total = cart.sum()  # what every line of a tool's output looks like\n" * 40


def lines_of(number: int) -> list[dict[str, Any]]:
    """Return what Claude Code writes of a call: an answer in two blocks, and the tool's result, twice."""
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 900, "cache_read_input_tokens": 40_000 + number}
    message = {
        "id": f"msg_{number}", "role": "assistant", "type": "message", "model": "claude-opus-5-5",
        "stop_reason": "tool_use", "usage": {**usage, "output_tokens": 120},
    }  # fmt: skip
    common = {
        "isSidechain": False, "userType": "external", "cwd": "/home/ann/shop", "sessionId": "s1", "version": "2.1.330",
        "gitBranch": "main", "timestamp": "2026-11-24T00:35:10.000Z", "uuid": f"u{number}", "parentUuid": "u0",
    }  # fmt: skip
    use = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": "grep -rn total src"}}
    text = {"type": "text", "text": "I look where the total is computed. " * 8}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": OUTPUT}
    return [
        {**common, "type": "assistant", "message": {**message, "content": [text]}},
        {**common, "type": "assistant", "message": {**message, "content": [use]}},
        {
            **common,
            "type": "user",
            "message": {"role": "user", "content": [result]},
            "toolUseResult": {"stdout": OUTPUT},
        },
    ]


def calls_in(file: Path | None) -> list[bytes]:
    """Return what is written between two calls, call by call."""
    if file is None:
        return [
            b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines_of(number))
            for number in range(CALLS)
        ]
    parts: list[bytes] = [b""]
    for line in file.read_bytes().splitlines(keepends=True):
        parts[-1] += line
        if b'"tool_result"' in line:
            parts.append(b"")
    return parts[:-1]


def measure(parts: list[bytes]) -> tuple[float, int]:
    """Return the seconds of processor time that the thread took for all of it, and how many events it emitted."""
    told: list[object] = []
    claude = ADAPTERS["claude-code"]
    transcripts.REST = PAUSE  # type: ignore[misc]
    with TemporaryDirectory() as made:
        home = Path(made)
        folder = claude.host.settings_folder(home, psutil.Process().environ()) / claude.host.transcripts
        if not folder.is_relative_to(home):
            raise SystemExit("CLAUDE_CONFIG_DIR is set: run this without it")
        folder.mkdir(parents=True)
        path = folder / "s1.jsonl"
        reader = transcripts.Transcripts(told.append, home, clock=lambda: 0.0)
        payload = {
            "hook_event_name": "PreToolUse",
            "session_id": "s1",
            "transcript_path": str(path),
            "tool_name": "Bash",
        }
        spent, clock = 0.0, 0
        with path.open("ab", buffering=0) as file:
            for number, part in enumerate(parts):
                file.write(part)
                before = time.thread_time()
                reader.look(claude, payload, HostIdentity("claude-code", home=made), this_process())
                spent += time.thread_time() - before
                if number == 0:
                    thread = next(one for one in threading.enumerate() if one.name == "callosum-transcripts")
                    clock = time.pthread_getcpuclockid(thread.ident or 0)
                time.sleep(4 * PAUSE)
            time.sleep(0.5)
            spent += time.clock_gettime(clock)
        reader.close()
    return spent, len(told)


def main() -> None:
    """Measure, and print what a call costs."""
    parts = calls_in(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    spent, told = measure(parts)
    size = sum(map(len, parts)) / len(parts) / 1000
    each = spent / len(parts) * 1000
    print(f"{len(parts)} calls of {size:.1f} kB, {told} events: {each:.2f} ms of processor time a call")


if __name__ == "__main__":
    main()
