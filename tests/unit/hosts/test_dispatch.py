"""What is under way is settled once and by what the host told, whatever comes between."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callosum.errors import StoreUnavailable
from callosum.hosts.claude_code import hook as claude_code
from callosum.hosts.told import Place
from tests.support.hooked import Hooked, hooked

MAIL = {"to": "bob@example.com", "subject": "Lunch", "body": "Shall we meet at noon on Friday for lunch?"}
TOOL = "mcp__mail__send_email"
PLACE = Place("claude-code")


def event(name: str, session: str = "A", **more: Any) -> dict[str, Any]:
    return {"hook_event_name": name, "session_id": session, "cwd": "/repo", **more}


def call(name: str, **more: Any) -> dict[str, Any]:
    return event(name, **{"tool_name": TOOL, "tool_input": MAIL, "tool_use_id": "a1", **more})


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Hooked]:
    with hooked(tmp_path / "state") as made:
        yield made


def test_a_report_that_the_store_did_not_take_is_made_with_the_next_settling(host: Hooked) -> None:
    assert host.send(claude_code, call("PreToolUse")) == {}
    course = host.dispatcher.handle(claude_code, call("PostToolUse", tool_response="sent"), PLACE)
    course.send(None)
    with pytest.raises(StoreUnavailable):
        course.throw(StoreUnavailable("the file is busy"))
    assert host.outcomes() == []
    host.send(claude_code, event("PostToolBatch", tool_calls=[{"tool_use_id": "a1", "tool_response": "sent"}]))
    assert host.outcomes() == [("claude-code/A", "done")], "the host said that it was: it is not cancelled"


def test_what_a_sub_agent_left_in_the_background_ends_with_its_notice(host: Hooked) -> None:
    host.send(claude_code, call("PreToolUse", agent_id="sub"))
    host.send(claude_code, call("PostToolUse", agent_id="sub", tool_response={"backgroundTaskId": "b1"}))
    assert host.outcomes() == []
    notice = "<task-notification><task-id>b1</task-id><status>completed</status></task-notification>"
    host.send(claude_code, event("UserPromptSubmit", prompt=notice))
    assert host.outcomes() == [("claude-code/A:sub", "done")]


def test_sessions_end_while_long_events_are_read_in_other_threads(host: Hooked) -> None:
    for number in range(500):
        host.dispatcher.handle(claude_code, event("Stop", f"s{number}"), PLACE).close()
        host.send(claude_code, event("Stop", f"s{number}"))
    done = threading.Event()

    def read() -> None:
        number = 0
        while not done.is_set():
            number += 1
            course = host.dispatcher.handle(claude_code, call("PostToolUse", session_id=f"t{number}"), PLACE)
            course.send(None)  # as a server does beside its loop
            course.close()

    before = sys.getswitchinterval()
    sys.setswitchinterval(0.00005)
    reading = threading.Thread(target=read)
    reading.start()
    try:
        for number in range(500):
            course = host.dispatcher.handle(claude_code, event("SessionEnd", f"s{number}"), PLACE)
            course.send(None)
            course.close()
    finally:
        done.set()
        reading.join(10)
        sys.setswitchinterval(before)
