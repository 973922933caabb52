"""Test the adapter of Gemini CLI with recorded payloads, the real dispatcher and a real gate."""

from collections.abc import Mapping
from typing import Any

import pytest

from callosum.corpus.events import InputReceived
from callosum.errors import ConfigError
from callosum.hosts.adapters import ADAPTERS
from callosum.hosts.events import CallReturned, CallStarting, HookAnswer, HostIdentity, OtherEvent
from callosum.model import Outcome, Verdict
from tests.support.hooked import SENTENCE, TO_BOB, Hooked, answer_of, sent_by

gemini = ADAPTERS["gemini"]
Payload = dict[str, Any]
ONE, TWO = "5f0c7a52-8d3a-4d5c-9a40-000000000001", "5f0c7a52-8d3a-4d5c-9a40-000000000002"
A, B = f"gemini/{ONE}", f"gemini/{TWO}"
MAIL = "mcp_mail_send_email"
OTHER = {**TO_BOB, "body": "Can you send me the numbers for the third quarter?"}


def event(what: str, session: str = ONE, **said: Any) -> Payload:
    """Return an event with the fields that Gemini CLI sends in each, as recorded from version 0.61."""
    path = f"/home/ann/.gemini/tmp/shop/chats/session-2026-11-20T09-00-{session[:8]}.jsonl"
    return {**sent_by(session, what, path), "timestamp": "2026-11-20T09:00:00.000Z", **said}


def before(session: str, tool: str, tool_input: Any) -> Payload:
    return event("BeforeTool", session, tool_name=tool, tool_input=tool_input)


def after(session: str, tool: str, tool_input: Any, response: Any = None) -> Payload:
    said = {"llmContent": "ok", "returnDisplay": "ok"} if response is None else response
    return event("AfterTool", session, tool_name=tool, tool_input=tool_input, tool_response=said)


def command(text: str, **more: Any) -> Payload:
    return {"command": text, "description": "work", **more}


def displayed(text: str) -> Payload:
    """Return the result of a shell command; the model gets it wrapped, the user unwrapped."""
    return {"llmContent": f"<untrusted_context>\nOutput: {text}\n</untrusted_context>", "returnDisplay": text}


def moved(pid: int) -> Payload:
    return displayed(f"Command moved to background (PID: {pid}). Output hidden. Press Ctrl+B to view.")


def reason(printed: Mapping[str, Any]) -> str:
    assert set(printed) == {"decision", "reason"}
    assert printed["decision"] == "deny"
    assert printed["reason"]
    return str(printed["reason"])


def test_call_has_no_id_but_its_session_and_folder() -> None:
    (told,) = gemini.read(
        before(ONE, "write_file", {"file_path": "a.txt", "content": "x"}), HostIdentity("gemini", "team")
    )
    assert isinstance(told, CallStarting)
    call = told.call
    assert (call.instance, call.session, call.namespace, call.call_id) == ("gemini", ONE, "team", None)
    assert (call.cwd, call.pause, call.tool) == ("/home/ann/shop", True, "write_file")


@pytest.mark.parametrize(
    ("tool", "folder", "cwd"),
    [
        ("run_shell_command", "web", "/home/ann/shop/web"), ("run_shell_command", "../other", "/home/ann/other"),
        ("run_shell_command", "/srv", "/srv"), ("run_shell_command", "", "/home/ann/shop"),
        ("run_shell_command", 7, "/home/ann/shop"), ("list_directory", "web", "/home/ann/shop"),
    ],
)  # fmt: skip
def test_command_may_name_its_own_folder(tool: str, folder: Any, cwd: str) -> None:
    (told,) = gemini.read(before(ONE, tool, {"command": "make", "dir_path": folder}), HostIdentity("gemini"))
    assert isinstance(told, CallStarting)
    assert told.call.cwd == cwd


@pytest.mark.parametrize("what", ["Notification", "PreCompress", "BeforeModel", "MoonRise"])
def test_unknown_event_is_journalled(what: str) -> None:
    (told,) = gemini.read(event(what, trigger="auto"), HostIdentity("gemini"))
    assert isinstance(told, OtherEvent)
    assert (told.what, told.details) == (what, {"trigger": "auto"})


@pytest.mark.parametrize(
    ("payload", "at"),
    [
        ({}, "hook_event_name"),
        ({"hook_event_name": "BeforeTool"}, "session_id"),
        (event("BeforeTool", tool_input={}), "tool_name"),
        (event("AfterTool", tool_name=""), "tool_name"),
    ],
)
def test_missing_field_is_named(payload: Payload, at: str) -> None:
    with pytest.raises(ConfigError) as raised:
        gemini.read(payload, HostIdentity("gemini"))
    assert raised.value.at == at


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        ({"llmContent": "x", "returnDisplay": "x"}, Outcome.DONE),
        ({"llmContent": "x", "returnDisplay": "x", "error": {"message": "no such text", "type": "edit"}}, Outcome.FAILED),
        ({"llmContent": "x", "returnDisplay": "Command exited with code: 3"}, Outcome.DONE),
        ({"llmContent": "x", "returnDisplay": "Command cancelled by user."}, Outcome.UNKNOWN),
        (displayed("Command was automatically cancelled because it exceeded the timeout of 5.0 minutes"), Outcome.UNKNOWN),
        ("text", Outcome.DONE),
        (None, Outcome.DONE),
        ({"returnDisplay": {"fileDiff": "..."}}, Outcome.DONE),
    ],
)  # fmt: skip
def test_command_result_has_its_outcome(response: Any, outcome: Outcome) -> None:
    payload = {**after(ONE, "run_shell_command", command("make")), "tool_response": response}
    (told,) = gemini.read(payload, HostIdentity("gemini"))
    assert isinstance(told, CallReturned)
    assert told.outcome is outcome
    assert told.background == ""


@pytest.mark.parametrize("verdict", [one for one in Verdict if not one.proceed])
def test_blocked_call_is_denied_with_the_sentence(verdict: Verdict) -> None:
    payload = before(ONE, "run_shell_command", command("make"))
    assert reason(gemini.render(payload, answer_of(verdict))) == SENTENCE
    assert reason(gemini.render(payload, answer_of(verdict, "")))


def test_allowed_call_gets_no_answer() -> None:
    payload = before(ONE, "run_shell_command", command("make"))
    assert gemini.render(payload, answer_of(Verdict.ALLOW, "")) == {}
    assert gemini.render(payload, answer_of(Verdict.WARN)) == {}, "no context reaches the model before a tool runs"


@pytest.mark.parametrize("what", ["AfterTool", "BeforeAgent"])
def test_context_is_printed_where_the_model_takes_it(what: str) -> None:
    printed = gemini.render(event(what), HookAnswer(inform=SENTENCE))
    assert printed == {"hookSpecificOutput": {"hookEventName": what, "additionalContext": SENTENCE}}
    for other in ("SessionEnd", "AfterAgent", "Notification", "PreCompress"):
        assert gemini.render(event(other), HookAnswer(inform=SENTENCE)) == {}


def test_two_sessions_on_one_relative_path_conflict(hosts: Hooked) -> None:
    path = {"file_path": "notes.txt"}
    for session, tool, params in ((ONE, "read_file", path), (TWO, "write_file", {**path, "content": "b"})):
        assert hosts.send(gemini, before(session, tool, params)) == {}
        assert hosts.send(gemini, after(session, tool, params)) == {}
    stopped = reason(hosts.send(gemini, before(ONE, "write_file", {**path, "content": "a"})))
    assert f'"{B}" changed "file:/home/ann/shop/notes.txt"' in stopped
    assert hosts.send(gemini, before(ONE, "replace", {"file_path": "other.txt", "old_string": "a"})) == {}
    assert hosts.outcomes() == [(A, "done"), (B, "done")]


def test_equal_simultaneous_calls_are_one_action_each(hosts: Hooked) -> None:
    for _ in range(2):
        assert hosts.send(gemini, before(ONE, "run_shell_command", command("make"))) == {}
    for text in ("first", "second"):
        assert hosts.send(gemini, after(ONE, "run_shell_command", command("make"), displayed(text))) == {}
    assert len({entry["body"]["result"]["returnDisplay"] for entry in hosts.journal("complete")}) == 2
    assert hosts.outcomes() == [(A, "done")] * 2
    hosts.send(gemini, event("AfterAgent", prompt="", prompt_response="", stop_hook_active=False))
    assert hosts.outcomes() == [(A, "done")] * 2, "nothing was left"


def test_report_finds_its_call_among_others_of_its_tool(hosts: Hooked) -> None:
    hosts.send(gemini, before(ONE, MAIL, TO_BOB))
    hosts.send(gemini, before(ONE, "run_shell_command", command("make")))
    hosts.send(gemini, before(ONE, "run_shell_command", command("make test")))
    failed = {"llmContent": "", "returnDisplay": "", "error": {"message": "no shell"}}
    hosts.send(gemini, after(ONE, "run_shell_command", command("make test"), failed))
    hosts.send(gemini, after(ONE, MAIL, TO_BOB))
    assert [(entry["tool"], entry["outcome"]) for entry in hosts.journal("complete")] == [
        ("run_shell_command", "failed"),
        (MAIL, "done"),
    ]


def test_warning_comes_with_the_result(hosts: Hooked) -> None:
    hosts.send(gemini, before(ONE, MAIL, TO_BOB))
    hosts.send(gemini, after(ONE, MAIL, TO_BOB))
    hosts.clock.advance(180)
    assert hosts.send(gemini, before(TWO, MAIL, OTHER)) == {}
    said = hosts.send(gemini, after(TWO, MAIL, OTHER))["hookSpecificOutput"]
    assert said["hookEventName"] == "AfterTool"
    assert "bob@example.com" in said["additionalContext"]
    hosts.send(gemini, before(TWO, "read_file", {"file_path": "a.txt"}))
    assert hosts.send(gemini, after(TWO, "read_file", {"file_path": "a.txt"})) == {}, "and only once"


def test_mail_is_confirmed_by_its_repeat(hosts: Hooked) -> None:
    hosts.send(gemini, before(ONE, MAIL, TO_BOB))
    hosts.send(gemini, after(ONE, MAIL, TO_BOB))
    assert "bob@example.com" in reason(hosts.send(gemini, before(TWO, MAIL, OTHER)))
    hosts.clock.advance(5)
    assert hosts.send(gemini, before(TWO, MAIL, OTHER)) == {}


def test_approval_and_block_are_denials(hosts: Hooked) -> None:
    assert "[Callosum]" in reason(hosts.send(gemini, before(ONE, "bank_transfer", {"amount": 5})))
    hosts.gate.lock("gemini", "email:bob@example.com", 4, session=ONE)
    for _ in range(2):
        assert A in reason(hosts.send(gemini, before(TWO, MAIL, TO_BOB)))
        hosts.clock.advance(5)


def test_background_command_is_open_until_the_list_says_that_it_ended(hosts: Hooked) -> None:
    push = command("git push origin main", is_background=True)
    hosts.send(gemini, before(ONE, "run_shell_command", push))
    hosts.send(gemini, after(ONE, "run_shell_command", push, moved(4711)))
    hosts.send(gemini, event("AfterAgent", prompt="", prompt_response="It runs.", stop_hook_active=False))
    hosts.send(gemini, event("BeforeAgent", prompt="And now?"))
    assert hosts.outcomes() == []
    assert A in reason(hosts.send(gemini, before(TWO, "run_shell_command", push)))
    listing: Payload = {}
    for line, left in (
        ("[PID 4711] RUNNING: `git push`", []),
        ("[PID 4711] EXITED: `git push` (Exit Code: 0)", ["done"]),
    ):
        hosts.send(gemini, before(ONE, "list_background_processes", listing))
        said = f"- [PID 12] EXITED: `x` (Exit Code: 1)\n- {line}"
        hosts.send(
            gemini, after(ONE, "list_background_processes", listing, {"llmContent": said, "returnDisplay": said})
        )
        ended = [entry["outcome"] for entry in hosts.journal("complete") if entry["tool"] == "run_shell_command"]
        assert ended == left


def test_running_background_command_is_unknown_at_the_end_of_the_session(hosts: Hooked) -> None:
    serve = command("make serve", is_background=True)
    hosts.send(gemini, before(ONE, "run_shell_command", serve))
    hosts.send(gemini, after(ONE, "run_shell_command", serve, moved(4711)))
    assert hosts.send(gemini, event("SessionEnd", reason="exit")) == {}
    assert hosts.outcomes() == [(A, "unknown")]


def test_call_refused_by_its_user_is_settled_with_the_turn(hosts: Hooked) -> None:
    hosts.send(gemini, before(ONE, MAIL, TO_BOB))
    hosts.send(gemini, event("AfterAgent", prompt="", prompt_response="", stop_hook_active=False))
    assert hosts.outcomes() == [(A, "unknown")]
    assert "never reported" in reason(hosts.send(gemini, before(TWO, MAIL, TO_BOB)))


def test_brief_comes_once_at_the_prompt(hosts: Hooked) -> None:
    hosts.send(gemini, before(ONE, MAIL, TO_BOB))
    assert hosts.send(gemini, event("SessionStart", TWO, source="startup")) == {}
    prompt = "<hook_context>[Callosum] Something was said before.</hook_context>\n\nWrite to bob"
    said = hosts.send(gemini, event("BeforeAgent", TWO, prompt=prompt))["hookSpecificOutput"]
    assert said["hookEventName"] == "BeforeAgent"
    assert "bob@example.com" in said["additionalContext"]
    assert [one.content for one in hosts.emitted if isinstance(one, InputReceived)] == ["Write to bob"], (
        "what a hook put before it is none of it"
    )
