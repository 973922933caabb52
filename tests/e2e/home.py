"""A home for one agent of the command line: its settings, its project, the state of its gate."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from callosum.sockets import socket_path

PATIENCE = 180.0
"""How long anything may take on a busy machine, in seconds."""

T = TypeVar("T")


def until(look: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
    """Return the first truthy result of ``look``, which is called repeatedly."""
    ends = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < ends, f"{what}: not within {seconds:.0f} s"
        select.select([], [], [], 0.05)


class Session:
    """A run of the host's program, beside the test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def end(self) -> str:
        """Wait until the program has ended; return its output."""
        try:
            out, errors = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, errors = self.process.communicate()
            raise AssertionError(f"it did not end: {out[-2000:]}{errors[-2000:]}") from None
        assert self.process.returncode == 0, f"{self.process.returncode}: {out[-2000:]}{errors[-2000:]}"
        return out + errors


class Home:
    """A home folder, a project in it, and the state folder of the gate.

    ``words`` are the program and what is said to it at each start, before the prompt; ``environ`` is all that it and
    its hooks see of the environment, so that nothing of this machine's user gets in.
    """

    def __init__(self, folder: Path, host: str, words: Sequence[str], environ: Mapping[str, str]) -> None:
        self.folder, self.host, self.words = folder, host, tuple(words)
        self.home, self.project, self.state = folder / "home", folder / "project", folder / "state"
        for path in (self.home, self.project):
            path.mkdir(parents=True)
        self.environ = {
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "CALLOSUM_STATE": str(self.state),
            **environ,
        }
        self._sessions: list[Session] = []

    # --- the host ----------------------------------------------------------------------------------

    def begin(self, prompt: str) -> Session:
        """Start the program on a prompt."""
        process = subprocess.Popen(
            [*self.words, prompt],
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        session = Session(process)
        self._sessions.append(session)
        return session

    def run(self, prompt: str) -> str:
        """Run the program on a prompt to its end; return its output."""
        return self.begin(prompt).end()

    @property
    def tools(self) -> Path:
        return self.folder / "tools"

    def mailer(self) -> Path:
        """Put a ``himalaya`` in the path that writes each mail to a file instead of sending it; return that file."""
        sent = self.folder / "sent"
        self.tools.mkdir(exist_ok=True)
        program = self.tools / "himalaya"
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> "{sent}"\n')
        program.chmod(0o755)
        # a login shell begins with a path of its own
        (self.home / ".profile").write_text(f'PATH="{self.tools}:$PATH"\n')
        return sent

    # --- the gate ----------------------------------------------------------------------------------

    def callosum(self, *words: str, codes: Sequence[int] = (0,)) -> str:
        """What a command of Callosum's says; it must end with one of these codes."""
        done = subprocess.run(
            [sys.executable, "-m", "callosum.cli", *words],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode in codes, f"callosum {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def journal(self) -> list[dict[str, Any]]:
        """The entries of the journal, oldest first."""
        if not (self.state / "gate.db").exists():
            return []
        lines = self.callosum("journal", "--last", "0", "--json", codes=(0, 1)).splitlines()  # 1: there are none
        return [json.loads(line) for line in lines]

    def outcomes(self, tool: str) -> dict[str, list[str]]:
        """Return the verdicts and then the outcomes of a tool's calls, in order, for each session."""
        found: dict[str, list[str]] = {}
        for entry in self.journal():
            if entry.get("tool") == tool:
                found.setdefault(entry["session"], []).append(str(entry.get("outcome") or entry.get("verdict")))
        return found

    def gates(self) -> list[int]:
        """The processes that serve the state folder."""
        found = [int(path.stem) for path in (self.state / "servers").glob("*.json")]
        return [pid for pid in found if _alive(pid)]

    def kill_gate(self) -> None:
        """Kill the gate as a crash would."""
        for pid in self.gates():
            os.kill(pid, signal.SIGKILL)
        until(lambda: not self.gates(), "the gate is gone")
        Path(socket_path(self.state)).unlink(missing_ok=True)

    def close(self) -> None:
        """Kill the remaining processes by their pids."""
        for session in self._sessions:
            if session.lives:
                session.process.kill()
                session.process.communicate()
        for pid in self.gates():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        until(lambda: not self.gates(), "the gate ends")


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(") ")[2]
    except OSError:
        return False
    return not state.startswith("Z")
