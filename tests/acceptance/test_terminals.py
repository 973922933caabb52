"""One session of a host that is open in two terminals: real processes, each of which runs the hook."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from callosum.hosts.adapters import adapter_of
from callosum.hosts.events import HostIdentity
from callosum.hosts.terminals import Terminals
from callosum.process import host_of, this_process
from callosum.sockets import socket_path
from tests.acceptance.command import run
from tests.support import hooks
from tests.support.serving import serving

SESSION = "0199aaaa-1111-7000-8000-000000000001"
NAME = f"claude-code/{SESSION}"
START = {"hook_event_name": "SessionStart", "session_id": SESSION, "source": "resume", "cwd": "/repo"}
HOST = """import subprocess, sys
for line in sys.stdin:
    print(subprocess.run(sys.argv[1:], input=line, stdout=-1, text=True, check=True).stdout.strip(), flush=True)"""
Terminal = subprocess.Popen[str]


def terminal(state: Path) -> Terminal:
    """Return a host's process that has opened the session and runs the hook for each event that it is sent."""
    words = [sys.executable, "-c", HOST, str(hooks.written(state, hooks.KINDS[0])), "claude-code"]
    opened = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    send(opened, START)
    return opened


def send(to: Terminal, event: dict[str, Any]) -> str:
    to.stdin.write(f"{json.dumps(event)}\n")  # type: ignore[union-attr]
    to.stdin.flush()  # type: ignore[union-attr]
    return to.stdout.readline()  # type: ignore[union-attr]


def does(where: Terminal, tool: str, **more: str) -> str:
    """Return what the hook printed before a call on the file. The call is reported as done."""
    call = {"tool_name": tool, "tool_input": {"file_path": "/repo/a.py", "content": str(where.pid)}, **more}
    call |= {"tool_use_id": f"{time.monotonic_ns()}"}
    printed = send(where, {**START, "hook_event_name": "PreToolUse", **call})
    send(where, {**START, "hook_event_name": "PostToolUse", **call, "tool_response": "ok"})
    return printed


def actors(gate: Path) -> list[str]:
    """Return the sessions of all calls: "" is the host's own name, "~" a second process."""
    said = run(gate, "journal", "--json", "--event", "intercept").stdout.splitlines()
    return [re.sub(r"~[0-9a-f-]+", "~", json.loads(line)["session"].removeprefix(NAME)) for line in said]


def test_32_b2_f10_session_in_two_terminals_is_two_actors_and_resumed_in_one_it_is_one(state: Path) -> None:
    with serving(state, "--socket", socket_path(state)):
        with terminal(state) as first:
            does(first, "Write")
        with terminal(state) as first, terminal(state) as second:
            does(second, "Read")
            assert "changed" not in does(first, "Write"), "it is the session that wrote the file"
            assert f'{NAME}\\" changed' in does(second, "Write"), "it read the file before"
            does(second, "Read", agent_id="a1")
            first.kill()
            first.wait()
            with terminal(state) as resumed:
                does(resumed, "Read")
                does(second, "Read")
        assert actors(state) == ["", "~", "", "~", "~:a1", "", "~"]


def test_process_below_a_hosts_and_one_whose_pid_was_reused_are_no_second_terminal() -> None:
    terminals, reusing, claude, place = Terminals(), Terminals(), adapter_of("claude-code"), HostIdentity("claude-code")
    with subprocess.Popen(["cat"], stdin=-1) as below, subprocess.Popen(["cat"], stdin=-1) as beside:
        process = host_of(below.pid)
        for one in (this_process(), process, None):
            assert terminals.named_apart(claude, START, place, one) is START
        for one in (replace(process, started=process.started - 1), process):
            assert reusing.named_apart(claude, START, place, one) is START
        apart = reusing.named_apart(claude, START, place, host_of(beside.pid))
        assert apart["session_id"].startswith(f"{SESSION}~{beside.pid}-"), "both live, neither below the other"
