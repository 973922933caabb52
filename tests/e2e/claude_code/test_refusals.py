"""Test that a person's refusal in the real Claude Code is recognised, at a pseudo-terminal and through its SDK."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.claude_code.conftest import ClaudeMachine, bash
from tests.e2e.home import until
from tests.e2e.terminal import ENTER, ESCAPE, Terminal

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

DELETE = bash("gh repo delete acme/site --yes")
BLOCKED = "Tier 4 action blocked"


@pytest.fixture
def deleted(desk: ClaudeMachine) -> Path:
    """Return the file that a made-up ``gh`` writes when it runs. A ``slow`` one waits for a file ``go``."""
    program, mark = desk.bin / "gh", desk.root / "deleted"
    slow, go = desk.root / "slow", desk.root / "go"
    program.write_text(f"#!/bin/sh\necho $* >> {mark}\nwhile [ -e {slow} ] && [ ! -e {go} ]; do sleep 0.1; done\n")
    program.chmod(0o755)
    return mark


class AtTerminal:
    """Claude Code's own user interface at a pseudo-terminal."""

    def __init__(self, desk: ClaudeMachine, stack: ExitStack) -> None:
        self._desk, self._stack = desk, stack
        known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        settings = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "projects": {str(desk.project): known},
            "customApiKeyResponses": {"approved": ["none"], "rejected": []},
        }
        (desk.home / ".claude.json").write_text(json.dumps(settings))

    def start(self, prompt: str, *words: str) -> Terminal:
        command = [self._desk.program, *words, "--permission-mode", "default", prompt]
        shown = Terminal(command, self._desk.project, self._desk.environ)
        self._stack.callback(shown.close)
        return shown


@pytest.fixture
def at_terminal(desk: ClaudeMachine) -> Iterator[AtTerminal]:
    with ExitStack() as stack:
        yield AtTerminal(desk, stack)


def refused(desk: ClaudeMachine, at_terminal: AtTerminal, name: str = "refused") -> Terminal:
    """Yield a session in which a person refused a call with Esc, and which waits for its person."""
    shown = at_terminal.start(desk.model.script(name, [DELETE], [DELETE]))
    shown.wait("Do you want to proceed?")
    shown.press_until(ESCAPE, lambda: shown.shows("What should Claude do instead?"), "the call is refused")
    return shown


def test_call_refused_with_escape_does_not_block_another_session(
    desk: ClaudeMachine, deleted: Path, at_terminal: AtTerminal
) -> None:
    refused(desk, at_terminal)
    assert not deleted.exists()
    assert desk.outcomes() == [], "no hook has told of it"
    desk.run(desk.model.script("other", [DELETE]))
    assert deleted.read_text().splitlines() == ["repo delete acme/site --yes"]
    assert BLOCKED not in desk.model.heard("other")
    assert desk.outcomes() == [("Bash", "cancelled"), ("Bash", "done")]


def test_call_refused_with_escape_runs_after_its_person_agrees(
    desk: ClaudeMachine, deleted: Path, at_terminal: AtTerminal
) -> None:
    shown = refused(desk, at_terminal)
    shown.press("fine, do it now")
    shown.wait("fine, do it now")
    shown.press_until(ENTER, lambda: shown.shows("Do you want to proceed?"), "the person is asked again")
    shown.press_until(ENTER, deleted.exists, "the call runs")
    assert BLOCKED not in desk.model.heard("refused")
    until(lambda: desk.outcomes()[-1:] == [("Bash", "done")], "its end is reported")


def test_running_call_interrupted_with_escape_stays_unknown(
    desk: ClaudeMachine, deleted: Path, at_terminal: AtTerminal
) -> None:
    (desk.root / "slow").touch()
    shown = at_terminal.start(desk.model.script("interrupted", [DELETE]), "--allowedTools", "Bash")
    until(deleted.exists, "the call runs")
    shown.wait("esc to interrupt")
    shown.press_until(ESCAPE, lambda: shown.shows("What should Claude do instead?"), "the call is refused")
    (desk.root / "go").touch()
    shown.close()
    desk.run(desk.model.script("other", [DELETE]))
    assert len(deleted.read_text().splitlines()) == 1, "the interrupted one may have done its work"
    heard = desk.model.heard("other")
    assert BLOCKED in heard
    assert "ask the person to run `callosum resolve" in heard


@pytest.mark.parametrize("interrupt", [True, False], ids=["with interrupt", "without"])
def test_call_denied_through_the_sdk_does_not_block_another_session(
    desk: ClaudeMachine, deleted: Path, interrupt: bool
) -> None:
    words = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    permissions = ["--permission-prompt-tool", "stdio", "--permission-mode", "default"]
    prompt = desk.model.script("denied", [DELETE])
    with subprocess.Popen(
        [desk.program, "-p", *words, *permissions],
        env=desk.environ,
        cwd=desk.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def say(**message: object) -> None:
            process.stdin.write(json.dumps(message) + "\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]

        say(type="control_request", request_id="1", request={"subtype": "initialize"})
        say(type="user", message={"role": "user", "content": prompt})
        for line in process.stdout:
            message = json.loads(line)
            if message.get("type") == "control_request":
                answer = {"behavior": "deny", "message": "no thanks", "interrupt": interrupt}
                id = message["request_id"]
                say(type="control_response", response={"subtype": "success", "request_id": id, "response": answer})
            elif message.get("type") == "result":
                break
        desk.run(desk.model.script("other", [DELETE]))  # while the first session still lives
        process.stdin.close()
        process.wait(60)
    assert deleted.read_text().splitlines() == ["repo delete acme/site --yes"]
    assert BLOCKED not in desk.model.heard("other")
    assert ("Bash", "cancelled") in desk.outcomes()
