"""Test that a person's refusal in the real Codex is recognised, through the app-server that editors use."""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.codex.conftest import CodexHome
from tests.e2e.home import until
from tests.e2e.models import Model, ToolUse

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

DELETE = ToolUse("exec_command", {"cmd": "gh repo delete acme/site --yes"})
BLOCKED = "Tier 4 action blocked"


@pytest.fixture
def deleted(home: CodexHome) -> Path:
    """Return the file that a made-up ``gh`` writes when it runs."""
    mark = home.folder / "deleted"
    home.mailer()
    program = home.tools / "gh"
    program.write_text(f'#!/bin/sh\necho "$*" >> "{mark}"\n')
    program.chmod(0o755)
    return mark


class AppServer:
    """Codex as an editor runs it. ``decision`` is its person's answer to each question."""

    def __init__(self, home: CodexHome, decision: str) -> None:
        self._decision = decision
        self.ended = threading.Event()
        """Set when the turn has ended in any way."""
        self.asked: list[str] = []
        """Commands that the person was asked about."""
        self._thread = self._turn = ""
        self._started = threading.Event()
        self.process = subprocess.Popen(
            [home.program, "app-server"],
            cwd=home.project,
            env=home.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._say(id=1, method="initialize", params={"clientInfo": {"name": "test", "version": "1"}})
        self._say(method="initialized")
        permissions = {"approvalPolicy": "untrusted", "sandbox": "workspace-write"}
        self._say(id=2, method="thread/start", params={"cwd": str(home.project), **permissions})

    def turn(self, prompt: str) -> None:
        """Send a prompt and wait until its turn ends."""
        self.begin(prompt)
        assert self.ended.wait(120), "the turn did not end"

    def begin(self, prompt: str) -> None:
        """Send a prompt."""
        assert self._started.wait(60), "no thread was started"
        self.ended.clear()
        words = {"type": "text", "text": prompt}
        self._say(id=3, method="turn/start", params={"threadId": self._thread, "input": [words]})

    def interrupt(self) -> None:
        """Interrupt the turn, as its person can at any time, and wait until it ends."""
        self._say(id=4, method="turn/interrupt", params={"threadId": self._thread, "turnId": self._turn})
        assert self.ended.wait(120), "the turn did not end"

    def _say(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            if said.get("id") == 2 and "result" in said:
                self._thread = said["result"]["thread"]["id"]
                self._started.set()
            elif str(said.get("method")).endswith("/requestApproval"):
                self.asked.append(said["params"].get("command", ""))
                self._say(id=said["id"], result={"decision": self._decision})
            elif said.get("method") == "turn/started":
                self._turn = said["params"]["turn"]["id"]
            elif said.get("method") == "turn/completed":
                self.ended.set()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def app_server(request: pytest.FixtureRequest, home: CodexHome) -> Iterator[AppServer]:
    server = AppServer(home, request.param)
    yield server
    server.close()


@pytest.mark.parametrize("app_server", ["decline"], indirect=True)
def test_declined_call_does_not_block_another_session(
    app_server: AppServer, home: CodexHome, scripted: Model, deleted: Path
) -> None:
    app_server.turn(scripted.script("declined", [DELETE]))
    assert "gh repo delete" in app_server.asked[0]
    assert list(home.outcomes("Bash").values()) == [["allow"]], "no hook has told of it"
    home.run(scripted.script("other", [DELETE]))
    assert deleted.read_text().splitlines() == ["repo delete acme/site --yes"]
    assert BLOCKED not in scripted.heard("other")
    assert sorted(home.outcomes("Bash").values()) == [["allow", "cancelled"], ["allow", "done"]]


@pytest.mark.parametrize("app_server", ["cancel"], indirect=True)
def test_cancelled_call_looks_interrupted_and_the_sentence_says_what_to_ask(
    app_server: AppServer, home: CodexHome, scripted: Model, deleted: Path
) -> None:
    app_server.turn(scripted.script("cancelled", [DELETE]))
    until(lambda: list(home.outcomes("Bash").values()) == [["allow", "unknown"]], "the interruption is journalled")
    home.run(scripted.script("other", [DELETE]))
    assert not deleted.exists()
    (unknown,) = (entry["action"] for entry in home.journal() if entry.get("outcome") == "unknown")
    heard = scripted.heard("other")
    assert BLOCKED in heard
    assert f"ask the person to run `callosum resolve {unknown} --happened` (or `--not`)" in heard


@pytest.mark.parametrize("app_server", ["accept"], indirect=True)
def test_interrupted_command_looks_in_the_transcript_like_a_cancelled_dialog(
    app_server: AppServer, home: CodexHome, scripted: Model
) -> None:
    """The command ran and may be half done, so the gate cannot say that either did not run."""
    app_server.begin(scripted.script("interrupted", [ToolUse("exec_command", {"cmd": "touch started; sleep 60"})]))
    until((home.project / "started").exists, "the command runs")
    app_server.interrupt()
    until(lambda: list(home.outcomes("Bash").values()) == [["allow", "unknown"]], "the interruption is journalled")
    (interrupted,) = _outputs(home)
    cancelling = AppServer(home, "cancel")
    try:
        cancelling.turn(scripted.script("cancelled", [ToolUse("exec_command", {"cmd": "touch other; sleep 60"})]))
        until(lambda: len(_outputs(home)) == 2, "the cancelled call has its output")
    finally:
        cancelling.close()
    assert not (home.project / "other").exists()
    assert set(_outputs(home)) == {interrupted}
    assert interrupted[-1] == "Wall time: N seconds\naborted by user"


def _outputs(home: CodexHome) -> list[tuple[str, ...]]:
    """Return, for each transcript with a command's result, the types of all lines from the call on, and the result."""
    found = []
    for path in sorted((home.folder / "codex" / "sessions").rglob("rollout-*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        kinds = [str(line["payload"].get("type", line["type"])) for line in lines]
        results = [str(line["payload"]["output"]) for line in lines if "output" in line["payload"]]
        if results and "turn_aborted" in kinds:
            result = re.sub(r"[0-9.]+", "N", results[0])
            found.append((*kinds[kinds.index("function_call") :], result))
    return found
