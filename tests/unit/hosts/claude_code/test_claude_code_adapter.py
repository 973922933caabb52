"""Test the adapter of Claude Code with recorded payloads, the real dispatcher and a real gate."""

import re
from typing import Any

import pytest

from callosum.corpus.events import InputReceived, LlmToken
from callosum.errors import ConfigError
from callosum.hosts.adapters import ADAPTERS
from callosum.hosts.events import CallsClosed, CallStarting, CorpusEmission, HookAnswer, HostIdentity, OtherEvent
from callosum.hosts.setup import entries_of
from callosum.model import Outcome, Verdict
from callosum.programs import NAMED
from tests.support.hooked import SENTENCE, TO_BOB, Hooked, answer_of, reason, sent_by

claude_code = ADAPTERS["claude-code"]
Payload = dict[str, Any]
ONE, TWO = "bc67eab9-84dd-4d8a-a0fb-000000000001", "e6bd4170-5354-4880-a1fc-000000000002"
A, B = f"claude-code/{ONE}", f"claude-code/{TWO}"
MAIL = "mcp__mail__send_email"
FILE = {"file_path": "/home/ann/shop/a.py"}
DENIED = "touch in '/home/ann/shop/x' needs approval. Claude Code asks before a shell command creates files there."


def event(what: str, session: str = ONE, **said: Any) -> Payload:
    """Return an event with the fields that Claude Code sends in each, as recorded from version 2.1.330."""
    path = f"/home/ann/.claude/projects/-home-ann-shop/{session}.jsonl"
    common: Payload = sent_by(session, what, path)
    if what != "SessionStart":
        common |= {"prompt_id": f"{session[:8]}-prompt", "permission_mode": "default", "effort": {"level": "medium"}}
    return common | said


def before(session: str, id: str, tool: str, tool_input: Any, **more: Any) -> Payload:
    return event("PreToolUse", session, tool_name=tool, tool_input=tool_input, tool_use_id=id, **more)


def after(session: str, id: str, tool: str, tool_input: Any, response: Any, **more: Any) -> Payload:
    said = {"tool_name": tool, "tool_input": tool_input, "tool_response": response, "tool_use_id": id}
    return event("PostToolUse", session, **said, duration_ms=73, **more)


def test_call_has_its_session_folder_and_turn() -> None:
    (told,) = claude_code.read(before(ONE, "toolu_1", "Bash", {"command": "make"}), HostIdentity("claude-code", "team"))
    assert isinstance(told, CallStarting)
    call = told.call
    assert (call.instance, call.session, call.namespace, call.call_id) == ("claude-code", ONE, "team", "toolu_1")
    assert (call.cwd, call.run, call.parent, call.pause) == ("/home/ann/shop", "bc67eab9-prompt", None, True)


def test_sub_agent_is_a_session_of_its_own_with_a_parent() -> None:
    sub = before(ONE, "toolu_1", "Read", FILE, agent_id="af5bcda741eab5108", agent_type="general-purpose")
    (told,) = claude_code.read(sub, HostIdentity("claude-code"))
    assert isinstance(told, CallStarting)
    assert (told.call.session, told.call.parent) == (f"{ONE}:af5bcda741eab5108", A)


def test_displayed_answer_is_cut_and_redacted() -> None:
    secret = "sk-ant-" + "a1B2" * 10
    (told,) = claude_code.read(event("MessageDisplay", index=0, delta=f"It is {secret}."), HostIdentity("claude-code"))
    assert isinstance(told, CorpusEmission)
    assert isinstance(told.event, LlmToken)
    assert (told.event.instance, secret in told.event.delta) == (A, False)
    assert told.event.delta.startswith("It is ")
    assert claude_code.read(event("MessageDisplay", index=1, delta=""), HostIdentity("claude-code")) == ()


@pytest.mark.parametrize("what", ["PreCompact", "PostCompact", "PermissionRequest", "CwdChanged", "MoonRise"])
def test_unknown_event_is_journalled(what: str) -> None:
    (told,) = claude_code.read(event(what, trigger="auto"), HostIdentity("claude-code"))
    assert isinstance(told, OtherEvent)
    assert (told.what, told.details["trigger"]) == (what, "auto")
    assert claude_code.render(event(what), HookAnswer()) == {}


@pytest.mark.parametrize(
    ("payload", "at"),
    [
        ({}, "hook_event_name"),
        ({"hook_event_name": "PreToolUse"}, "session_id"),
        (event("PreToolUse", tool_use_id="t"), "tool_name"),
        (event("PreToolUse", tool_name="Bash"), "tool_use_id"),
        (event("PreToolUse", tool_name=7, tool_use_id="t"), "tool_name"),
    ],
)
def test_missing_field_is_named(payload: Payload, at: str) -> None:
    with pytest.raises(ConfigError) as refused:
        claude_code.read(payload, HostIdentity("claude-code"))
    assert refused.value.at == at


@pytest.mark.parametrize(
    "said",
    [
        DENIED,
        "PreToolUse:Bash hook error: [Callosum] no",
        "ls in '/nope' was blocked. For security, Claude Code may only list files in the allowed directories.",
        "The user doesn't want to proceed with this tool use. The tool use was rejected.",
        "Permission to use Bash with command rm -r / has been denied.",
        "Claude requested permissions to write to /etc/x, but you haven't granted it yet.",
    ],
)
def test_call_without_permission_never_ran(said: str) -> None:
    batch = event("PostToolBatch", tool_calls=[{"tool_name": "Bash", "tool_use_id": "t", "tool_response": said}])
    assert [
        (told.calls, told.outcome)
        for told in claude_code.read(batch, HostIdentity("x"))
        if isinstance(told, CallsClosed)
    ] == [(("t",), Outcome.CANCELLED)]


@pytest.mark.parametrize("said", ["Sent.", {"ok": True}, None, ["x"], ""])
def test_call_without_a_report_may_have_run(said: object) -> None:
    batch = event("PostToolBatch", tool_calls=[{"tool_name": MAIL, "tool_use_id": "t", "tool_response": said}, 7, {}])
    assert [told.outcome for told in claude_code.read(batch, HostIdentity("x")) if isinstance(told, CallsClosed)] == [
        Outcome.UNKNOWN
    ]


def test_batch_is_enough_for_a_read() -> None:
    found = "x" * 2000 + " access denied"
    batch = event("PostToolBatch", tool_calls=[{"tool_name": "Read", "tool_use_id": "t", "tool_response": found}])
    assert [told.outcome for told in claude_code.read(batch, HostIdentity("x")) if isinstance(told, CallsClosed)] == [
        Outcome.DONE
    ]
    matcher = re.compile(entries_of(NAMED["claude-code"], "/hook")["PostToolUse"]["matcher"])
    for tool in ("Read", "Grep", "WebFetch"):
        assert not matcher.match(tool)
    for tool in ("Bash", "Write", "ReadMcpResourceTool", "mcp__mail__Read", MAIL, "Agent"):
        assert matcher.match(tool)


def test_allowed_call_gets_no_answer_so_the_users_permissions_apply() -> None:
    assert claude_code.render(before(ONE, "t", "Bash", {}), answer_of(Verdict.ALLOW, "")) == {}


def test_warning_accompanies_the_call() -> None:
    assert claude_code.render(before(ONE, "t", "Bash", {}), answer_of(Verdict.WARN)) == {
        "hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": SENTENCE}
    }


def test_warning_of_an_allowed_call_is_shown_only_to_the_person() -> None:
    assert claude_code.render(before(ONE, "t", "Bash", {}), answer_of(Verdict.ALLOW)) == {"systemMessage": SENTENCE}


@pytest.mark.parametrize("verdict", [Verdict.CONFIRM, Verdict.ASK, Verdict.BLOCK])
def test_blocked_call_is_denied_with_the_gates_sentence(verdict: Verdict) -> None:
    assert reason(claude_code.render(before(ONE, "t", "Bash", {}), answer_of(verdict))) == SENTENCE
    assert reason(claude_code.render(before(ONE, "t", "Bash", {}), answer_of(verdict, "")))


def test_refused_settings_are_blocked() -> None:
    printed = claude_code.render(event("ConfigChange"), HookAnswer(refuse=SENTENCE))
    assert printed == {"decision": "block", "reason": SENTENCE}


@pytest.mark.parametrize("what", ["SessionStart", "UserPromptSubmit", "SubagentStart", "PostToolUse"])
def test_brief_goes_into_the_context(what: str) -> None:
    printed = claude_code.render(event(what), HookAnswer(inform="Others are at work."))
    assert printed == {"hookSpecificOutput": {"hookEventName": what, "additionalContext": "Others are at work."}}
    assert claude_code.render(event("SessionEnd"), HookAnswer(inform="Others are at work.")) == {}


def test_equal_mail_of_two_sessions_conflicts(hosts: Hooked) -> None:
    assert hosts.send(claude_code, before(ONE, "t1", MAIL, TO_BOB)) == {}
    assert A in reason(hosts.send(claude_code, before(TWO, "t2", MAIL, TO_BOB)))
    assert hosts.send(claude_code, after(ONE, "t1", MAIL, TO_BOB, "Sent.")) == {}
    assert hosts.outcomes() == [(A, "done")]


def test_call_denied_by_the_host_affects_no_other_session(hosts: Hooked) -> None:
    hosts.send(claude_code, before(ONE, "t1", MAIL, TO_BOB))
    batch = [{"tool_name": MAIL, "tool_input": TO_BOB, "tool_use_id": "t1", "tool_response": DENIED}]
    hosts.send(claude_code, event("PostToolBatch", tool_calls=batch))
    assert hosts.outcomes() == [(A, "cancelled")]
    assert hosts.send(claude_code, before(TWO, "t2", MAIL, TO_BOB)) == {}


def test_call_with_a_lost_report_is_unknown_to_others(hosts: Hooked) -> None:
    hosts.send(claude_code, before(ONE, "t1", MAIL, TO_BOB))
    batch = [{"tool_name": MAIL, "tool_input": TO_BOB, "tool_use_id": "t1", "tool_response": "Sent."}]
    hosts.send(claude_code, event("PostToolBatch", tool_calls=batch))
    assert hosts.outcomes() == [(A, "unknown")]
    assert reason(hosts.send(claude_code, before(TWO, "t2", MAIL, TO_BOB)))


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ({"error": "Exit code 3", "is_interrupt": False}, "failed"),
        ({"error": "Command timed out after 2m 0s", "is_interrupt": False}, "unknown"),
        ({"error": "The user interrupted", "is_interrupt": True}, "unknown"),
    ],
)
def test_failure_has_its_outcome(hosts: Hooked, said: Payload, outcome: str) -> None:
    command = {"command": "make deploy", "description": "deploy"}
    hosts.send(claude_code, before(ONE, "t1", "Bash", command))
    failure = {"tool_name": "Bash", "tool_input": command, "tool_use_id": "t1", **said}
    hosts.send(claude_code, event("PostToolUseFailure", **failure))
    assert hosts.outcomes() == [(A, outcome)]


def test_background_command_is_open_until_its_notice(hosts: Hooked) -> None:
    command = {"command": "make watch", "run_in_background": True}
    hosts.send(claude_code, before(ONE, "t1", "Bash", command))
    hosts.send(claude_code, after(ONE, "t1", "Bash", command, {"stdout": "", "backgroundTaskId": "b1x2"}))
    hosts.send(claude_code, event("Stop", stop_hook_active=False, background_tasks=[{"id": "b1x2"}]))
    assert hosts.outcomes() == []
    notice = "<task-notification>\n<task-id>b1x2</task-id>\n<status>failed</status>\n</task-notification>"
    assert hosts.send(claude_code, event("UserPromptSubmit", prompt=notice)) == {}
    assert hosts.outcomes() == [(A, "failed")]
    assert not hosts.emitted, "a notice is no person's input"


def test_prompt_settles_interrupted_calls_and_gets_a_brief(hosts: Hooked) -> None:
    hosts.send(claude_code, before(ONE, "t1", MAIL, TO_BOB))
    hosts.send(
        claude_code, event("UserPromptSubmit", prompt="Forget it; token=ghp_0123456789abcdefghij0123456789abcdef")
    )
    assert hosts.outcomes() == [(A, "unknown")]
    (said,) = hosts.emitted
    assert isinstance(said, InputReceived)
    assert (said.instance, said.channel_id, said.conversation_id) == (A, "claude-code", ONE)
    assert "ghp_0123" not in said.content


def test_end_of_a_session_ends_only_its_own_sub_agents_calls(hosts: Hooked) -> None:
    hosts.send(claude_code, before(ONE, "t1", MAIL, TO_BOB, agent_id="sub"))
    hosts.send(claude_code, before(TWO, "t2", MAIL, {**TO_BOB, "to": "carol@example.com"}))
    hosts.send(claude_code, event("SessionEnd", reason="other"))
    assert hosts.outcomes() == [(f"{A}:sub", "unknown")]
