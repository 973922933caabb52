"""Run the command as its users do: as a process, with pipes, or at a terminal of its own."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support import forking

ROOT = Path(__file__).resolve().parents[2]
CALLOSUM = (sys.executable, "-m", "callosum.cli")
STARTED = ("/usr/bin/env", *CALLOSUM)
"""What is begun so is started anew, as users start it, and imports all that it needs."""

# An orphan with a terminal of its own: none of its ancestors can pass for an agent's host.
_ALONE = """
import fcntl, os, sys, termios
from tests.support.forking import execute
if os.fork():
    os._exit(0)
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
child = os.fork()
if not child:
    if sys.argv[2] != sys.executable:
        os.execv(sys.argv[2], sys.argv[2:])
    execute(sys.argv[3:])
    sys.exit()
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
with open(sys.argv[1], "w") as file:
    file.write(str(code))
"""


def environment(state: Path, **more: str) -> dict[str, str]:
    """Return the variables that a program needs, and none of the process that runs the tests."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "VIRTUAL_ENV") if name in os.environ}
    plain = {"TERM": "xterm", "COLUMNS": "120", "LINES": "40", "CALLOSUM_STATE": str(state)}
    return forking.shared_environ(kept) | plain | more


def run(
    state: Path, *words: str, text: str = "", env: Mapping[str, str] | None = None, program: tuple[str, ...] = CALLOSUM
) -> subprocess.CompletedProcess[str]:
    """Run the command (or ``program``) with pipes, forked if possible (``tests.support.forking``)."""
    return forking.run(
        [*program, *words],
        input=text,
        capture_output=True,
        text=True,
        env=environment(state, **(env or {})),
        cwd=state.parent,
        timeout=120,
    )


class Shown(NamedTuple):
    code: int
    text: str


def at_terminal(
    state: Path,
    *words: str,
    keys: tuple[tuple[str, str], ...] = (),
    env: Mapping[str, str] | None = None,
    program: tuple[str, ...] = CALLOSUM,
) -> Shown:
    """Run the command (or ``program``), forked, at a pseudo-terminal.

    ``keys`` are pairs of the text to wait for and the keys to press then.
    """
    ours, theirs = pty.openpty()
    status = state.parent / f"status-{time.monotonic_ns()}"
    launcher = forking.Popen(
        [sys.executable, "-c", _ALONE, str(status), *program, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(state, **(env or {})),
        cwd=state.parent,
    )
    os.close(theirs)
    assert launcher.wait(30) == 0
    text, waiting, place = "", list(keys), 0
    ends = time.monotonic() + 60
    try:
        while True:
            assert time.monotonic() < ends, f"it does not end: {text[-2000:]!r}"
            ready, _, _ = select.select([ours], [], [], 60)
            assert ready, f"nothing came for a minute after: {text!r}"
            try:
                data = os.read(ours, 65536)
            except OSError:
                break  # Linux reports so that the other end is closed
            if not data:
                break
            text += data.decode(errors="replace")
            while waiting and (found := text.find(waiting[0][0], place)) >= 0:
                place = found + len(waiting[0][0])
                os.write(ours, waiting.pop(0)[1].encode())
    finally:
        os.close(ours)
    assert not waiting, f"{waiting[0][0]!r} was never shown in {text!r}"
    return Shown(int(status.read_text()), text)
