"""What is under way is settled once and by what the host told, whatever comes between."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from callosum.corpus.events import HealthWarning, ToolFailed, ToolParsed
from callosum.errors import StoreUnavailable
from callosum.hosts.adapters import ADAPTERS
from callosum.hosts.told import Place
from tests.support.hooked import Hooked, hooked

claude_code = ADAPTERS["claude-code"]
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


class Away:
    """A store that is away while ``is_away`` is set: every transaction of it says so."""

    def __init__(self, host: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_away = False
        transact = host.gate.store.transact

        def asked(requests: Any) -> Any:
            if self.is_away:
                raise StoreUnavailable("the store is away")
            return transact(requests)

        monkeypatch.setattr(host.gate.store, "transact", asked)


@pytest.fixture
def store(host: Hooked, monkeypatch: pytest.MonkeyPatch) -> Away:
    return Away(host, monkeypatch)


def test_a_report_that_the_store_did_not_take_is_made_when_it_is_back(host: Hooked, store: Away) -> None:
    assert host.send(claude_code, call("PreToolUse")) == {}
    store.is_away = True
    with pytest.raises(StoreUnavailable):
        host.send(claude_code, call("PostToolUse", tool_response="sent"))
    assert host.dispatcher.owes
    store.is_away = False
    host.send(claude_code, event("PostToolBatch", tool_calls=[{"tool_use_id": "a1", "tool_response": "sent"}]))
    host.send(claude_code, event("SessionEnd"))
    host.drive(host.dispatcher.make_good())
    assert host.outcomes() == [("claude-code/A", "done")], "the host said that it was: nothing else is made of it"
    assert not host.dispatcher.owes


DENIED = event("PostToolBatch", tool_calls=[{"tool_use_id": "a1", "tool_response": "This needs approval"}])


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [(DENIED, "cancelled"), (event("Stop"), "unknown"), (event("SessionEnd"), "unknown")],
    ids=["batch", "stop", "session end"],
)
def test_a_settlement_that_the_store_did_not_take_is_made_when_it_is_back(
    host: Hooked, store: Away, ends: dict[str, Any], outcome: str
) -> None:
    for id in ("a1", "a2"):
        tool = {"tool_input": {**MAIL, "to": f"{id}@example.com", "body": f"The plan of {id}"}, "tool_use_id": id}
        assert host.send(claude_code, {**call("PreToolUse"), **tool}) == {}
    store.is_away = True
    with suppress(StoreUnavailable):  # at a session's end there is something else to be journalled
        host.send(claude_code, ends)
    host.drive(host.dispatcher.make_good())
    assert host.outcomes() == []
    assert host.dispatcher.owes, "it is away still"
    store.is_away = False
    host.drive(host.dispatcher.make_good())
    ended = 1 if ends is DENIED else 2
    assert host.outcomes() == [("claude-code/A", outcome)] * ended
    assert not host.dispatcher.owes


def test_reports_that_the_store_did_not_take_outlive_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait in the spool of the state folder, whoever takes it in: a gate that is killed loses none."""
    with hooked(tmp_path / "state", spools=True) as host:
        store = Away(host, monkeypatch)
        for id in ("a1", "a2"):
            tool = {"tool_input": {**MAIL, "to": f"{id}@example.com", "body": f"The plan of {id}"}, "tool_use_id": id}
            assert host.send(claude_code, {**call("PreToolUse"), **tool}) == {}
        store.is_away = True
        with pytest.raises(StoreUnavailable):
            host.send(claude_code, call("PostToolUse", tool_response="sent"))
        with suppress(StoreUnavailable):
            host.send(claude_code, event("SessionEnd"))
        assert not host.dispatcher.owes, "nothing is left in memory"
        store.is_away = False
        host.gate.take_in()
        assert host.outcomes() == [("claude-code/A", "done"), ("claude-code/A", "unknown")]


def test_what_is_said_of_a_call_after_it_was_given_up_stands(host: Hooked) -> None:
    host.send(claude_code, call("PreToolUse"))
    host.send(claude_code, event("SessionEnd"))
    host.send(claude_code, DENIED)
    assert host.outcomes() == [("claude-code/A", "unknown"), ("claude-code/A", "cancelled")]


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


# --- what models make of calls ---


def command(id: str, command: str = "npm test", **more: Any) -> dict[str, Any]:
    return call("PreToolUse", tool_name="Bash", tool_input={"command": command, **more}, tool_use_id=id)


def ended(id: str, tool: str = "npm test", **more: Any) -> dict[str, Any]:
    return call("PostToolUse", tool_name="Bash", tool_input={"command": tool, **more}, tool_use_id=id, tool_response="")


def failed(id: str, **more: Any) -> dict[str, Any]:
    return {**ended(id, **more), "hook_event_name": "PostToolUseFailure", "error": "Exit code 1"}


def attempts(host: Hooked) -> list[tuple[str, int]]:
    host.brain.flush()
    return [(event.call_id or "", event.attempt) for event in host.heard if isinstance(event, ToolFailed)]


def test_the_same_call_made_again_after_it_failed_is_another_attempt(host: Hooked) -> None:
    for number in (1, 2, 3):
        host.send(claude_code, command(f"a{number}", description=f"Run the tests, take {number}"))
        host.send(claude_code, failed(f"a{number}", description=f"Run the tests, take {number}"))
    assert attempts(host) == [("a1", 1), ("a2", 2), ("a3", 3)]
    warned = [event for event in host.heard if isinstance(event, HealthWarning)]
    assert [(event.resource, event.value) for event in warned] == [("tool", "Bash")]


def test_after_something_was_changed_the_same_call_is_a_new_one(host: Hooked) -> None:
    host.send(claude_code, command("a1"))
    host.send(claude_code, failed("a1"))
    host.send(claude_code, command("a2", "echo x > a.txt"))
    host.send(claude_code, ended("a2", "echo x > a.txt"))
    host.send(claude_code, command("a3"))
    host.send(claude_code, failed("a3"))
    assert attempts(host) == [("a1", 1), ("a3", 1)]


def test_a_call_is_told_as_read_before_it_is_told_as_called(host: Hooked) -> None:
    host.send(claude_code, call("PreToolUse"))
    host.brain.flush()
    told = [event for event in host.heard if event.dotted.startswith("tool.")]
    assert [event.dotted for event in told] == ["tool.parsed", "tool.called"]
    parsed = told[0]
    assert isinstance(parsed, ToolParsed)
    assert [(one.name, one.call_id) for one in parsed.calls] == [(TOOL, "a1")]
    assert parsed.instance == "claude-code/A"
