"""Measure the processor time of one hook event, which other work on the machine hardly changes."""

import json
import os
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from callosum.hosts.native import client_path
from callosum.sockets import socket_path
from tests.support import hooks
from tests.support.serving import serving

ROUNDS: Final = 60
BUDGET: Final = 2.0
"""How many times the processor time of ``true`` one event of the native client may take. 0.6 is usual: the client is
static, while ``true`` loads a library. The script takes 14 times as much."""


def processor_time(command: Sequence[str | Path], body: bytes) -> float:
    """Run a program to its end. Return the processor time of it and its children in milliseconds."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(body)
    process.stdin.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return (used.ru_utime + used.ru_stime) * 1000


def over_true(hook: Path, rounds: int) -> float:
    """Return how many times the processor time of ``true`` an event takes: the ratio of medians of paired rounds."""
    spent: dict[str, list[float]] = {"hook": [], "true": []}
    for number in range(rounds):
        call = {"tool_name": "Read", "tool_input": {"file_path": "/repo/a.py"}, "tool_use_id": f"call-{number}"}
        payload = {"hook_event_name": "PreToolUse", "session_id": "A", "cwd": "/repo", **call}
        body = json.dumps(payload).encode()
        spent["true"].append(processor_time(["/bin/true"], b""))
        spent["hook"].append(processor_time([hook, "claude-code"], body))
    return statistics.median(spent["hook"]) / statistics.median(spent["true"])


@pytest.mark.skipif(client_path() is None, reason="the native hook client is NOT tested: `make native` builds it")
def test_native_client_costs_little_more_than_true(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state, "--socket", socket_path(state)):
        taken = over_true(hooks.written(state, "native"), ROUNDS)
        assert taken < BUDGET, f"an event takes {taken:.1f} times the processor time of `true`"
        script = over_true(hooks.written(state, "script"), ROUNDS // 6)
        assert script > BUDGET, (
            f"the script takes {script:.1f} times as much: the bound would not notice what it is for"
        )
