"""A running server reads a refusal in a host's transcript when another call conflicts with the action."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.serving import Server, serving, until

SESSION = "72bfa558-2a57-4833-baa5-f690e11163f0"
CALL = "toolu_01AbCdEf"
COMMAND = {"command": "gh repo delete acme/site --yes"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return tmp_path / "home"


@pytest.fixture
def server(tmp_path: Path, home: Path) -> Iterator[Server]:
    with serving(tmp_path / "state", environ={"HOME": str(home)}) as server:
        yield server


def hook(server: Server, event: str, **more: Any) -> Any:
    payload = {"session_id": SESSION, "hook_event_name": event, "cwd": "/work", **more}
    return server.post("/hooks/claude-code", payload)


def other_call(server: Server, **more: Any) -> Any:
    call = {"instance": "doug", "tool": "Bash", "params": COMMAND, "cwd": "/work", **more}
    return server.post("/intercept", call, timeout=70)


def refuse(home: Path) -> None:
    result = {"type": "tool_result", "content": "no", "is_error": True, "tool_use_id": CALL}
    entry = {
        "type": "user",
        "message": {"role": "user", "content": [result]},
        "toolDenialKind": "user-rejected",
        "toolDenialBeforeRun": True,
        "sessionId": SESSION,
        "timestamp": datetime.now(UTC).isoformat(),
    }
    path = home / ".claude" / "projects" / "-work" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(entry) + "\n")


@pytest.fixture
def opened(server: Server) -> None:
    """Return a tier 4 call that waits for the answer of a person in Claude Code."""
    assert hook(server, "PreToolUse", tool_name="Bash", tool_input=COMMAND, tool_use_id=CALL) == {}


def outcomes(server: Server) -> list[str]:
    return [entry["outcome"] for entry in server.get("/journal?limit=1000")["entries"] if entry.get("outcome")]


@pytest.mark.usefixtures("opened")
@pytest.mark.parametrize("event", ["PostToolBatch", "Stop"])
def test_call_that_plan_mode_or_another_hook_refused_never_becomes_unknown(
    server: Server, home: Path, event: str
) -> None:
    refuse(home)
    said = "Cannot call Bash while in plan mode."
    hook(server, event, tool_calls=[{"tool_name": "Bash", "tool_use_id": CALL, "tool_response": said}])
    assert outcomes(server) == ["cancelled"]


@pytest.mark.usefixtures("opened")
def test_no_session_is_told_of_an_unknown_outcome_that_the_transcript_refutes(server: Server, home: Path) -> None:
    hook(server, "Stop")
    start = partial(hook, server, "SessionStart", session_id=SESSION.replace("7", "8"), source="startup")
    assert "Unknown outcomes" in str(start())
    refuse(home)
    until(lambda: "Unknown outcomes" not in str(start()))  # within the second between two reads
    assert outcomes(server) == ["unknown", "cancelled"]


@pytest.mark.usefixtures("opened")
def test_call_that_auto_mode_denies_ends_at_once(server: Server) -> None:
    hook(server, "PermissionDenied", tool_name="Bash", tool_input=COMMAND, tool_use_id=CALL, reason="risky")
    assert outcomes(server) == ["cancelled"]
    assert other_call(server)["proceed"]
