"""Run the real Claude Code in its own home, with a model scripted by the test."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from callosum.server.listeners import running
from callosum.sockets import socket_path
from tests.e2e.hosts import installed, program_in
from tests.e2e.models import Model, ToolUse

SECONDS = 120.0
ROOT = Path(__file__).parents[3]


def bash(command: str, **more: Any) -> ToolUse:
    return ToolUse("Bash", {"command": command, "description": "work", **more})


@pytest.fixture(scope="session")
def native() -> str:
    """Return the program for this platform, which needs no Node."""
    return str(program_in(installed("claude_code"), "@anthropic-ai/claude-code-*/claude"))


class ClaudeMachine:
    """A user's machine: a home, a project, a state folder, and Claude Code."""

    def __init__(self, root: Path, native: str, scripted: Model) -> None:
        self.root, self.program, self.model = root, native, scripted
        self.home, self.project, self.state = root / "home", root / "project", root / "state"
        self.bin = root / "bin"
        self.words: tuple[str, ...] = ()
        """Further arguments of the program."""
        for folder in (self.home, self.project, self.bin, root / "tmp"):
            folder.mkdir()
        self.environ = {
            "PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(root / "tmp"),
            "CLAUDE_CODE_TMPDIR": str(root / "tmp"),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": scripted.address,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
        }

    def callosum(self, *arguments: str) -> str:
        environ = {**self.environ, "PYTHONPATH": str(ROOT), "CALLOSUM_STATE": str(self.state)}
        command = [sys.executable, "-m", "callosum.cli", *arguments]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, prompt: str, *allowed: str) -> subprocess.Popen[str]:
        log = str(self.root / "debug.log")
        command = [self.program, *self.words, "-p", prompt, "--output-format", "json", "--debug-file", log]
        return subprocess.Popen(
            [*command, "--allowedTools", *(allowed or ("Bash", "Read", "Write", "Edit"))],
            env=self.environ, cwd=self.project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def finish(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, out + err
        found: dict[str, Any] = json.loads(out)
        return found

    def run(self, prompt: str, *allowed: str) -> dict[str, Any]:
        return self.finish(self.start(prompt, *allowed))

    def journal(self, event: str) -> list[Mapping[str, Any]]:
        lines = self.callosum("journal", "--json").splitlines()
        return [entry for entry in map(json.loads, lines) if entry["event"] == event]

    def outcomes(self) -> list[tuple[str, str]]:
        return [(entry["tool"], entry["outcome"]) for entry in self.journal("complete")]

    def mailer(self) -> Path:
        """Return a mail program that leaves a mark where it ran."""
        program, mark = self.bin / "himalaya", self.root / "sent"
        program.write_text(f"#!/bin/sh\ncat > {mark}\n")
        program.chmod(0o755)
        return mark

    def kill_gate(self) -> None:
        """Kill the gate, as a crash would."""
        for one in running(self.state):
            with suppress(ProcessLookupError):
                os.kill(one.process.pid, signal.SIGKILL)
        Path(socket_path(self.state)).unlink(missing_ok=True)


@pytest.fixture
def desk(tmp_path: Path, native: str, scripted: Model) -> Iterator[ClaudeMachine]:
    made = ClaudeMachine(tmp_path, native, scripted)
    made.callosum("install", "claude-code", "--yes")
    yield made
    made.kill_gate()
