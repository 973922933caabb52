"""Test that open calls are settled once, with the outcome that the host reported, for any order of events."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from callosum.corpus.events import HealthWarning, ToolFailed, ToolParsed, encode
from callosum.errors import StoreUnavailable
from callosum.hosts.adapters import ADAPTERS
from callosum.hosts.events import HostIdentity
from callosum.pages.dates import day_of, monday_of
from callosum.pages.day_page import DayPage
from callosum.pages.week_page import WeekPage
from tests.support.hooked import Hooked, hooked

claude_code = ADAPTERS["claude-code"]
MAIL = {"to": "bob@example.com", "subject": "Lunch", "body": "Shall we meet at noon on Friday for lunch?"}
TOOL = "mcp__mail__send_email"
PLACE = HostIdentity("claude-code")


def event(name: str, session: str = "A", **more: Any) -> dict[str, Any]:
    return {"hook_event_name": name, "session_id": session, "cwd": "/repo", **more}


def call(name: str, **more: Any) -> dict[str, Any]:
    return event(name, **{"tool_name": TOOL, "tool_input": MAIL, "tool_use_id": "a1", **more})


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Hooked]:
    with hooked(tmp_path / "state") as made:
        yield made


class UnreachableStore:
    """A store that is unreachable while ``is_away`` is set: every transaction raises an error."""

    def __init__(self, host: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_away = False
        transact = host.gate.store.transact

        def asked(requests: Any) -> Any:
            if self.is_away:
                raise StoreUnavailable("the store is away")
            return transact(requests)

        monkeypatch.setattr(host.gate.store, "transact", asked)


@pytest.fixture
def store(host: Hooked, monkeypatch: pytest.MonkeyPatch) -> UnreachableStore:
    return UnreachableStore(host, monkeypatch)


def test_report_rejected_by_the_store_is_sent_later(host: Hooked, store: UnreachableStore) -> None:
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
def test_settlement_rejected_by_the_store_is_sent_later(
    host: Hooked, store: UnreachableStore, ends: dict[str, Any], outcome: str
) -> None:
    for id in ("a1", "a2"):
        tool = {"tool_input": {**MAIL, "to": f"{id}@example.com", "body": f"The plan of {id}"}, "tool_use_id": id}
        assert host.send(claude_code, {**call("PreToolUse"), **tool}) == {}
    store.is_away = True
    with suppress(StoreUnavailable):  # the end of a session is journalled too
        host.send(claude_code, ends)
    host.drive(host.dispatcher.make_good())
    assert host.outcomes() == []
    assert host.dispatcher.owes, "it is away still"
    store.is_away = False
    host.drive(host.dispatcher.make_good())
    ended = 1 if ends is DENIED else 2
    assert host.outcomes() == [("claude-code/A", outcome)] * ended
    assert not host.dispatcher.owes


def test_rejected_reports_outlive_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait in the spool of the state folder for any gate, so a killed gate loses none."""
    with hooked(tmp_path / "state", spools=True) as host:
        store = UnreachableStore(host, monkeypatch)
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


def test_late_report_of_a_given_up_call_counts(host: Hooked) -> None:
    host.send(claude_code, call("PreToolUse"))
    host.send(claude_code, event("SessionEnd"))
    host.send(claude_code, DENIED)
    assert host.outcomes() == [("claude-code/A", "unknown"), ("claude-code/A", "cancelled")]


def test_background_work_of_a_sub_agent_ends_with_its_notice(host: Hooked) -> None:
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
            effects = host.dispatcher.handle(claude_code, call("PostToolUse", session_id=f"t{number}"), PLACE)
            effects.send(None)  # as a server does beside its loop
            effects.close()

    before = sys.getswitchinterval()
    sys.setswitchinterval(0.00005)
    reading = threading.Thread(target=read)
    reading.start()
    try:
        for number in range(500):
            effects = host.dispatcher.handle(claude_code, event("SessionEnd", f"s{number}"), PLACE)
            effects.send(None)
            effects.close()
    finally:
        done.set()
        reading.join(10)
        sys.setswitchinterval(before)


def command(id: str, command: str = "npm test", **more: Any) -> dict[str, Any]:
    return call("PreToolUse", tool_name="Bash", tool_input={"command": command, **more}, tool_use_id=id)


def end_notice(id: str, tool: str = "npm test", **more: Any) -> dict[str, Any]:
    return call("PostToolUse", tool_name="Bash", tool_input={"command": tool, **more}, tool_use_id=id, tool_response="")


def failed(id: str, **more: Any) -> dict[str, Any]:
    return {**end_notice(id, **more), "hook_event_name": "PostToolUseFailure", "error": "Exit code 1"}


def attempts(host: Hooked) -> list[tuple[str, int]]:
    host.brain.flush()
    return [(event.call_id or "", event.attempt) for event in host.heard if isinstance(event, ToolFailed)]


def test_repeat_of_a_failed_call_is_another_attempt(host: Hooked) -> None:
    for number in (1, 2, 3):
        host.send(claude_code, command(f"a{number}", description=f"Run the tests, take {number}"))
        host.send(claude_code, failed(f"a{number}", description=f"Run the tests, take {number}"))
    assert attempts(host) == [("a1", 1), ("a2", 2), ("a3", 3)]
    warned = [event for event in host.heard if isinstance(event, HealthWarning)]
    assert [(event.resource, event.value) for event in warned] == [("tool", "Bash")]


def test_call_after_a_change_is_a_first_attempt(host: Hooked) -> None:
    host.send(claude_code, command("a1"))
    host.send(claude_code, failed("a1"))
    host.send(claude_code, command("a2", "echo x > a.txt"))
    host.send(claude_code, end_notice("a2", "echo x > a.txt"))
    host.send(claude_code, command("a3"))
    host.send(claude_code, failed("a3"))
    assert attempts(host) == [("a1", 1), ("a3", 1)]


def test_call_is_emitted_as_parsed_before_called(host: Hooked) -> None:
    host.send(claude_code, call("PreToolUse"))
    host.brain.flush()
    told = [event for event in host.heard if event.dotted.startswith("tool.")]
    assert [event.dotted for event in told] == ["tool.parsed", "tool.called"]
    parsed = told[0]
    assert isinstance(parsed, ToolParsed)
    assert [(one.name, one.call_id) for one in parsed.calls] == [(TOOL, "a1")]
    assert parsed.instance == "claude-code/A"


AGENT = {"tool_name": "Agent", "tool_input": {"prompt": "Look for it", "subagent_type": "Explore"}}
LAUNCHED = {"tool_response": {"isAsync": True, "status": "async_launched", "agentId": "f3"}}
INNER = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "agent_id": "f3"}
WATCH = {"tool_name": "Bash", "tool_input": {"command": "npm run watch", "run_in_background": True}}


def notice(status: str, name: str = "b1") -> dict[str, Any]:
    said = f"<task-id>{name}</task-id><status>{status}</status><summary>It was {status}</summary>"
    return event("UserPromptSubmit", prompt=f"<task-notification>{said}</task-notification>")


def tasks(host: Hooked) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of tasks and of their calls, without times."""
    host.brain.flush()
    wanted = [one for one in host.heard if one.dotted.startswith(("task.", "tool.called", "tool.completed"))]
    found = [(one.dotted, json.loads(encode(one))) for one in wanted]
    kept = ("taskId", "toolName", "attempt", "step", "success", "error", "reason", "instance")
    return [(name, {field: told[field] for field in kept if field in told}) for name, told in found]


def test_sub_agent_is_a_task_and_its_calls_are_steps(host: Hooked) -> None:
    host.send(claude_code, call("PreToolUse", **AGENT))
    host.send(claude_code, call("PostToolUse", **AGENT, **LAUNCHED))
    host.send(claude_code, call("PreToolUse", **INNER))
    host.send(claude_code, call("PostToolUse", **INNER, tool_response={"stdout": "a"}))
    host.send(claude_code, event("Stop"))
    host.send(claude_code, event("SubagentStop", agent_id="f3"))
    host.send(claude_code, notice("completed", "f3"))
    who, inner, task = {"instance": "claude-code/A"}, {"instance": "claude-code/A:f3"}, {"taskId": "a1"}
    assert tasks(host) == [
        ("tool.called", {**task, **who}),
        ("task.created", {**task, "toolName": "Agent", **who}),
        ("task.started", {**task, "attempt": 1, **who}),
        ("tool.called", {**task, **inner}),
        ("task.stepCompleted", {**task, "step": "Bash", **inner}),
        ("tool.completed", {**task, **inner}),
        ("task.completed", {**task, "success": True, **who}),
        ("tool.completed", {**task, **who}),
    ]


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ([notice("completed")], [("task.completed", {"success": True})]),
        ([notice("failed")], [("task.failed", {"error": "It was failed"}), ("task.completed", {"success": False})]),
        ([notice("killed")], [("task.stopped", {"reason": "stopped by its session"})]),
        ([event("Stop"), event("SessionEnd")], [("task.stopped", {"reason": "its session ended"})]),
    ],
    ids=["done", "failed", "killed", "session end"],
)
def test_background_command_is_a_task_until_its_host_reports_the_end(
    host: Hooked, ends: list[dict[str, Any]], told: list[tuple[str, dict[str, Any]]]
) -> None:
    host.send(claude_code, call("PreToolUse", **WATCH))
    host.send(claude_code, call("PostToolUse", **WATCH, tool_response={"backgroundTaskId": "b1"}))
    for one in ends:
        host.send(claude_code, one)
    common = {"taskId": "a1", "instance": "claude-code/A"}
    assert [one for one in tasks(host) if one[0].startswith("task.")][2:] == [
        (name, {**common, **fields}) for name, fields in told
    ]


def test_command_moved_to_the_background_becomes_a_task(host: Hooked) -> None:
    host.send(claude_code, command("a1"))
    moved = {**end_notice("a1"), "tool_response": {"backgroundTaskId": "b1"}}
    host.send(claude_code, moved)
    host.send(claude_code, notice("completed"))
    assert [name for name, _ in tasks(host)] == [
        "tool.called", "task.created", "task.started", "task.completed", "tool.completed",
    ]  # fmt: skip


def test_task_without_permission_is_stopped(host: Hooked) -> None:
    host.send(claude_code, call("PreToolUse", **WATCH))
    host.send(claude_code, DENIED)
    assert tasks(host)[-1][1] == {"taskId": "a1", "reason": "it was not run", "instance": "claude-code/A"}


def test_to_do_list_and_scheduled_job_are_no_tasks(host: Hooked) -> None:
    for tool in ("TodoWrite", "TaskCreate", "CronCreate"):
        mine = {"tool_name": tool, "tool_input": {"subject": "Write it"}, "tool_use_id": tool}
        host.send(claude_code, call("PreToolUse", **mine))
        host.send(claude_code, call("PostToolUse", **mine, tool_response={"task": {"id": "1"}}))
    assert [name for name, _ in tasks(host)] == ["tool.called", "tool.completed"] * 3


def test_sub_agent_of_codex_is_a_task(host: Hooked) -> None:
    codex = ADAPTERS["codex"]
    mine = {"tool_name": "spawn_agent", "tool_input": {"message": "Look for it"}}
    host.send(codex, call("PreToolUse", **mine))
    host.send(codex, call("PostToolUse", **mine, tool_response='{"agent_id":"01a2-f7","nickname":"Epicurus"}'))
    host.send(codex, call("PreToolUse", **{**INNER, "agent_id": "01a2-f7"}))
    host.send(codex, call("PostToolUse", **{**INNER, "agent_id": "01a2-f7"}, tool_response="a"))
    host.send(codex, event("SubagentStop", agent_id="01a2-f7"))
    assert [name for name, _ in tasks(host) if name.startswith("task.")] == [
        "task.created", "task.started", "task.stepCompleted", "task.completed",
    ]  # fmt: skip


def told_to(host: Hooked, session: str = "B") -> str:
    """Return the sentence that another session gets for the same call."""
    denied = host.send(claude_code, call("PreToolUse", session=session, tool_use_id=f"{session}1"))
    return str(denied["hookSpecificOutput"]["permissionDecisionReason"])


def test_other_sessions_see_what_a_person_asked_for(host: Hooked) -> None:
    host.send(claude_code, event("UserPromptSubmit", prompt="Ask Bob about\nlunch\u202e on Friday"))
    host.send(claude_code, call("PreToolUse"))
    sentence = told_to(host)
    assert 'claude-code/A began just now (mcp__mail__send_email): "Lunch": "Shall we meet at noon' in sentence
    assert sentence.endswith('(asked: "Ask Bob about lunch on Friday").')


@pytest.mark.parametrize(
    "made",
    [
        "<task-notification><task-id>x</task-id><status>completed</status></task-notification>",
        "<local-command-stdout>done</local-command-stdout>",
        "",
    ],
)
def test_prompt_made_by_the_host_is_no_purpose(host: Hooked, made: str) -> None:
    host.send(claude_code, event("UserPromptSubmit", prompt="Ask Bob"))
    host.send(claude_code, event("UserPromptSubmit", prompt=made))
    host.send(claude_code, call("PreToolUse"))
    assert '(asked: "Ask Bob")' in told_to(host)


def test_sub_agent_has_the_purpose_of_its_session(host: Hooked) -> None:
    host.send(claude_code, event("UserPromptSubmit", prompt="Ask Bob"))
    host.send(claude_code, call("PreToolUse", agent_id="helper"))
    assert '(asked: "Ask Bob")' in told_to(host)


def test_resumed_session_has_no_purpose(host: Hooked) -> None:
    host.send(claude_code, event("UserPromptSubmit", prompt="Ask Bob"))
    host.send(claude_code, event("SessionEnd", reason="exit"))
    host.send(claude_code, call("PreToolUse"))
    assert "asked" not in told_to(host)


def test_purpose_contains_no_secret(host: Hooked) -> None:
    secret = "ghp_0123456789abcdefghij0123456789abcdef"
    host.send(claude_code, event("UserPromptSubmit", prompt=f"Log in with {secret} and ask Bob"))
    host.send(claude_code, call("PreToolUse"))
    assert "Log in with [redacted] and ask Bob" in told_to(host)
    assert secret not in repr(host.gate.store.entries())


@pytest.mark.parametrize(("source", "told"), [("compact", True), ("resume", False)])
def test_compacted_session_is_shown_its_own_open_actions(host: Hooked, source: str, told: bool) -> None:
    host.send(claude_code, call("PreToolUse"))
    printed = host.send(claude_code, event("SessionStart", source=source))
    said = printed["hookSpecificOutput"]["additionalContext"]
    assert ("This session's open actions from before the compaction" in said) is told
    assert '"email:bob@example.com"' in said


def test_ended_session_is_summarised_by_its_last_answer(host: Hooked) -> None:
    for answer in ("On it.", "Bob is asked;\nlunch is at ghp_0123456789abcdefghij0123456789abcdef\u202e."):
        host.send(claude_code, event("Stop", last_assistant_message=answer))
    host.send(claude_code, event("SessionEnd", reason="exit"))
    host.send(claude_code, event("SessionEnd", reason="exit"))
    ends = [entry.body for entry in host.gate.store.entries() if entry.body.get("what") == "SessionEnd"]
    assert [body.get("summary") for body in ends] == ["Bob is asked; lunch is at [redacted].", None]


def test_last_answer_of_an_ended_session_is_shown(host: Hooked) -> None:
    """It is shown to sessions in their brief, and to people in ``status`` and on the pages of the day and the week."""
    host.send(claude_code, event("UserPromptSubmit", prompt="Ask Bob"))
    host.send(claude_code, call("PreToolUse"))
    host.send(claude_code, event("Stop", last_assistant_message="Bob is asked."))
    host.send(claude_code, event("SessionEnd", reason="exit"))
    printed = host.send(claude_code, event("SessionStart", session="B"))
    told = printed["hookSpecificOutput"]["additionalContext"]
    assert 'Sessions that ended recently:\n- claude-code/A ended just now: "Bob is asked.".' in told
    assert [(one.instance, one.summary) for one in host.gate.status().farewells] == [
        ("claude-code/A", '"Bob is asked."')
    ]
    entries = host.gate.store.entries()
    today = day_of(entries[0].seq)
    day, week = DayPage(today), WeekPage(monday_of(today))
    for entry in entries:
        day.add(entry)
        week.add(entry)
    assert " ended, and said: `Bob is asked.`\n" in day.page(so_far=True)
    assert ", asked `Ask Bob`: 1 act, and said at its end: `Bob is asked.`\n" in week.page({})


def test_session_is_notified_of_later_ends_of_others_only(host: Hooked) -> None:
    def end(session: str) -> None:
        host.send(claude_code, event("Stop", session, last_assistant_message="All done."))
        host.send(claude_code, event("SessionEnd", session, reason="exit"))

    end("A")
    host.send(claude_code, {**call("PreToolUse"), "session_id": "B"})
    for session in ("C", "B"):
        end(session)
    printed = host.send(claude_code, event("SessionStart", session="B"))
    told = printed["hookSpecificOutput"]["additionalContext"]
    assert "claude-code/C ended" in told
    assert "claude-code/A ended" not in told
    assert "claude-code/B ended" not in told
