"""Test the adapter of Codex CLI with recorded payloads, the real dispatcher and a real gate."""

from typing import Any

import pytest

from callosum.corpus.events import InputReceived
from callosum.errors import ConfigError
from callosum.hosts.adapters import ADAPTERS
from callosum.hosts.events import CallRefused, CallStarting, HookAnswer, HostIdentity, OtherEvent, SessionIdle
from callosum.model import Outcome, Verdict
from tests.support.hooked import SENTENCE, TO_BOB, Hooked, answer_of, reason, sent_by

codex = ADAPTERS["codex"]
Payload = dict[str, Any]
ONE, TWO = "0199aaaa-1111-7000-8000-000000000001", "0199bbbb-2222-7000-8000-000000000002"
A, B = f"codex/{ONE}", f"codex/{TWO}"
MAIL = "mcp__mail__send_email"


def event(what: str, session: str = ONE, **said: Any) -> Payload:
    """Return an event with the fields that Codex sends in each, as recorded from version 0.169."""
    path = f"/home/ann/.codex/sessions/2026/11/20/rollout-2026-11-20T09-00-00-{session}.jsonl"
    common: Payload = sent_by(session, what, path)
    if what != "SessionEnd":
        common |= {"model": "gpt-5.5", "permission_mode": "default"}
    if what not in ("SessionStart", "SessionEnd"):
        common["turn_id"] = f"{session[:8]}-turn"
    return common | said


def before(session: str, id: str, tool: str, tool_input: Any, **more: Any) -> Payload:
    return event("PreToolUse", session, tool_name=tool, tool_input=tool_input, tool_use_id=id, **more)


def after(session: str, id: str, tool: str, tool_input: Any, response: Any = "", **more: Any) -> Payload:
    said = {"tool_name": tool, "tool_input": tool_input, "tool_response": response, "tool_use_id": id}
    return event("PostToolUse", session, **said, **more)


def shell(session: str, id: str, command: str, **more: Any) -> Payload:
    return before(session, id, "Bash", {"command": command}, **more)


PATCH = """*** Begin Patch
*** Add File: new.py
+one
*** Update File: src/old.py
@@
-a
+b
*** Update File: /etc/shop.conf
*** Move to: conf/shop.conf
@@
-a
+b
*** Delete File: gone.py
*** End Patch
"""


def test_call_has_its_session_folder_and_turn() -> None:
    (told,) = codex.read(shell(ONE, "call_1", "make"), HostIdentity("codex", "team"))
    assert isinstance(told, CallStarting)
    call = told.call
    assert (call.instance, call.session, call.namespace, call.call_id) == ("codex", ONE, "team", "call_1")
    assert (call.cwd, call.run, call.parent, call.pause) == ("/home/ann/shop", "0199aaaa-turn", None, True)
    assert (call.tool, call.params) == ("Bash", {"command": "make"})


def test_sub_agent_is_a_session_of_its_own_with_a_parent() -> None:
    (told,) = codex.read(shell(ONE, "call_1", "make", agent_id="agent-7", agent_type="worker"), HostIdentity("codex"))
    assert isinstance(told, CallStarting)
    assert (told.call.session, told.call.parent) == (f"{ONE}:agent-7", A)
    (long,) = codex.read(shell(ONE, "call_1", "make", agent_id="x" * 2000), HostIdentity("codex"))
    assert isinstance(long, CallStarting)
    assert len(long.call.session or "") <= 256


@pytest.mark.parametrize("what", ["PreCompact", "PostCompact", "PermissionRequest", "StopFailure", "MoonRise"])
def test_unknown_event_is_journalled(what: str) -> None:
    (told,) = codex.read(event(what, trigger="auto"), HostIdentity("codex"))
    assert isinstance(told, OtherEvent)
    assert (told.what, told.details["trigger"]) == (what, "auto")
    assert "transcript_path" not in told.details


@pytest.mark.parametrize(
    ("payload", "at"),
    [
        ({}, "hook_event_name"),
        ({"hook_event_name": "PreToolUse"}, "session_id"),
        (event("PreToolUse", tool_input={}, tool_use_id="1"), "tool_name"),
        (event("PreToolUse", tool_name="Bash", tool_input={"command": "ls"}), "tool_use_id"),
        (event("PostToolUse", tool_name=7), "tool_name"),
    ],
)
def test_missing_field_is_named(payload: Payload, at: str) -> None:
    with pytest.raises(ConfigError) as raised:
        codex.read(payload, HostIdentity("codex"))
    assert raised.value.at == at


@pytest.mark.parametrize("params", [None, "text", 7, ["a"], {"command": ["bash"]}, {"command": None}])
def test_odd_params_are_read(params: Any) -> None:
    (told,) = codex.read(before(ONE, "call_1", "Bash", params), HostIdentity("codex"))
    assert isinstance(told, CallStarting)


def test_waiting_shell_is_refused_only_in_the_command_tool() -> None:
    (told,) = codex.read(shell(ONE, "call_1", "bash -i"), HostIdentity("codex"))
    assert isinstance(told, CallRefused)
    (told,) = codex.read(before(ONE, "call_1", "apply_patch", {"command": "bash -i"}), HostIdentity("codex"))
    assert isinstance(told, CallStarting)


def test_turn_ends_without_its_commands_and_an_interruption_with_them() -> None:
    assert codex.read(event("Stop"), HostIdentity("codex")) == (
        SessionIdle(codex.actor(event("Stop"), HostIdentity("codex")), but="Bash"),
    )
    settled, heard = codex.read(event("Interrupt"), HostIdentity("codex"))
    assert isinstance(settled, SessionIdle)
    assert (settled.but, settled.all, settled.outcome) == ("", False, Outcome.UNKNOWN)
    assert isinstance(heard, OtherEvent)
    ended = codex.read(event("SessionEnd", reason="other"), HostIdentity("codex"))[0]
    assert isinstance(ended, SessionIdle)
    assert ended.all


@pytest.mark.parametrize("verdict", [one for one in Verdict if not one.proceed])
def test_blocked_call_is_denied_with_the_sentence(verdict: Verdict) -> None:
    printed = codex.render(shell(ONE, "call_1", "make"), answer_of(verdict))
    assert reason(printed) == SENTENCE
    ends_with_a_hunk = reason(codex.render(shell(ONE, "call_1", "make"), answer_of(verdict, f"{SENTENCE}\n| +two")))
    assert ends_with_a_hunk.splitlines()[-2:] == ["| +two", "(end of the change)"], "Codex strips it and appends text"
    assert reason(codex.render(shell(ONE, "call_1", "make"), answer_of(verdict, "")))


def test_allowed_call_gets_no_answer_and_a_warning_as_context() -> None:
    payload = shell(ONE, "call_1", "make")
    assert codex.render(payload, answer_of(Verdict.ALLOW, "")) == {}, "an allow of ours would be a fault, or too much"
    warned = codex.render(payload, answer_of(Verdict.WARN))
    assert warned == {"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": SENTENCE}}


@pytest.mark.parametrize("what", ["Stop", "SessionEnd", "Interrupt", "SubagentStop", "PermissionRequest", "PreCompact"])
def test_no_context_is_printed_where_codex_takes_none(what: str) -> None:
    assert codex.render(event(what), HookAnswer(inform=SENTENCE)) == {}


def test_two_sessions_on_one_file_conflict(hosts: Hooked) -> None:
    for session, command in ((ONE, "cat notes.txt"), (TWO, "cat notes.txt"), (TWO, "echo b > notes.txt")):
        assert hosts.send(codex, shell(session, f"{session}-{command}", command)) == {}
        assert hosts.send(codex, after(session, f"{session}-{command}", "Bash", {"command": command})) == {}
    stopped = reason(hosts.send(codex, shell(ONE, "call_9", "echo a > notes.txt")))
    assert f'"{B}" changed "file:/home/ann/shop/notes.txt"' in stopped
    assert hosts.send(codex, shell(ONE, "call_10", "cat notes.txt")) == {}
    assert hosts.send(codex, after(ONE, "call_10", "Bash", {"command": "cat notes.txt"})) == {}
    assert hosts.send(codex, shell(ONE, "call_11", "echo a > notes.txt")) == {}, "it has read it since"
    assert hosts.outcomes() == [(A, "done"), (B, "done"), (B, "done"), (A, "done")]


def test_patch_has_the_keys_of_its_files(hosts: Hooked) -> None:
    assert hosts.send(codex, before(ONE, "call_1", "apply_patch", {"command": PATCH})) == {}
    (entry,) = hosts.journal("intercept")
    folder = "file:/home/ann/shop"
    names = [f"{folder}/new.py", f"{folder}/src/old.py", "file:/etc/shop.conf", f"{folder}/conf/shop.conf"]
    assert entry["keys"] == [(name, "write") for name in (*names, f"{folder}/gone.py")]
    answer = "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nA new.py\n"
    assert hosts.send(codex, after(ONE, "call_1", "apply_patch", {"command": PATCH}, answer)) == {}
    assert hosts.outcomes() == [(A, "done")]


def test_failed_patch_is_failed_and_the_output_of_a_command_is_not_judged(hosts: Hooked) -> None:
    failed = "Exit code: 1\nWall time: 0 seconds\nOutput:\nFailed to find the lines\n"
    hosts.send(codex, before(ONE, "call_1", "apply_patch", {"command": PATCH}))
    hosts.send(codex, after(ONE, "call_1", "apply_patch", {"command": PATCH}, failed))
    hosts.send(codex, shell(ONE, "call_2", "cat log"))
    hosts.send(codex, after(ONE, "call_2", "Bash", {"command": "cat log"}, failed))
    assert hosts.outcomes() == [(A, "failed"), (A, "done")]


def test_nested_calls_of_a_script_are_decided_each(hosts: Hooked) -> None:
    ids = ("exec-0a6f1c1e-58a4-4bb0-8c2e-6f7a1d1f0001", "exec-0a6f1c1e-58a4-4bb0-8c2e-6f7a1d1f0002")
    assert hosts.send(codex, shell(ONE, ids[0], "touch a.txt")) == {}
    assert "typed into it" in reason(hosts.send(codex, shell(ONE, ids[1], "bash")))
    assert hosts.send(codex, after(ONE, ids[0], "Bash", {"command": "touch a.txt"})) == {}
    assert hosts.outcomes() == [(A, "done")]
    (kept,) = hosts.journal("host")
    assert kept["body"]["what"] == "refused call"
    assert kept["body"]["params"]["params"] == {"command": "bash"}


def test_mail_is_confirmed_by_a_repeat_but_not_within_the_same_turn(hosts: Hooked) -> None:
    assert hosts.send(codex, before(ONE, "call_1", MAIL, TO_BOB)) == {}
    hosts.send(codex, after(ONE, "call_1", MAIL, TO_BOB, [{"type": "text", "text": "sent"}]))
    other = {**TO_BOB, "body": "Can you send me the numbers for the third quarter?"}
    assert "bob@example.com" in reason(hosts.send(codex, before(TWO, "call_1", MAIL, other)))
    hosts.clock.advance(5)
    assert hosts.send(codex, before(TWO, "call_2", MAIL, other)) == {}


def test_conflict_of_two_minutes_ago_warns_with_the_call(hosts: Hooked) -> None:
    hosts.send(codex, before(ONE, "call_1", MAIL, TO_BOB))
    hosts.send(codex, after(ONE, "call_1", MAIL, TO_BOB))
    hosts.clock.advance(180)
    other = {**TO_BOB, "body": "Can you send me the numbers for the third quarter?"}
    printed = hosts.send(codex, before(TWO, "call_1", MAIL, other))["hookSpecificOutput"]
    assert set(printed) == {"hookEventName", "additionalContext"}
    assert "bob@example.com" in printed["additionalContext"]
    hosts.send(codex, after(TWO, "call_1", MAIL, other))
    assert hosts.outcomes() == [(A, "done"), (B, "done")]


def test_approval_and_block_are_denials(hosts: Hooked) -> None:
    assert "[Callosum]" in reason(hosts.send(codex, before(ONE, "call_1", "bank_transfer", {"amount": 5})))
    hosts.gate.lock("codex", "email:bob@example.com", 4, session=ONE)
    assert A in reason(hosts.send(codex, before(TWO, "call_1", MAIL, TO_BOB)))
    hosts.clock.advance(5)
    assert A in reason(hosts.send(codex, before(TWO, "call_2", MAIL, TO_BOB))), "a repeat confirms nothing here"


def test_long_command_holds_its_key_over_turns_and_prompts(hosts: Hooked) -> None:
    push = "git push origin main"
    hosts.send(codex, shell(ONE, "call_1", push))
    hosts.send(codex, before(ONE, "call_2", "apply_patch", {"command": PATCH}))  # fails: Codex reports nothing
    hosts.send(codex, event("Stop", stop_hook_active=False, last_assistant_message="It runs."))
    assert hosts.outcomes() == [(A, "unknown")], "the patch"
    hosts.send(codex, event("UserPromptSubmit", prompt="And now?"))
    assert A in reason(hosts.send(codex, shell(TWO, "call_1", push)))
    hosts.send(codex, after(ONE, "call_1", "Bash", {"command": push}, "done\n"))
    assert hosts.outcomes() == [(A, "unknown"), (A, "done")]


@pytest.mark.parametrize("end", ["SessionEnd", "Interrupt"])
def test_command_that_never_returns_becomes_unknown(hosts: Hooked, end: str) -> None:
    hosts.send(codex, before(ONE, "call_1", MAIL, TO_BOB))
    hosts.send(codex, shell(ONE, "call_2", "sleep 1000"))
    assert hosts.send(codex, event(end, reason="other")) == {}
    assert hosts.outcomes() == [(A, "unknown")] * 2
    assert "never reported" in reason(hosts.send(codex, before(TWO, "call_1", MAIL, TO_BOB)))


def test_sub_agent_ends_alone_and_its_parent_with_it(hosts: Hooked) -> None:
    child = {"agent_id": "agent-7", "agent_type": "worker"}
    hosts.send(codex, event("SubagentStart", **child))
    hosts.send(codex, shell(ONE, "call_1", "sleep 1000", **child))
    hosts.send(codex, shell(ONE, "call_1", "sleep 1001"))
    hosts.send(codex, event("SubagentStop", **child))
    assert hosts.outcomes() == [(f"{A}:agent-7", "unknown")]
    hosts.send(codex, shell(ONE, "call_2", "sleep 1002", **child))
    hosts.send(codex, event("SessionEnd", reason="other"))
    assert sorted(hosts.outcomes()[1:]) == [(A, "unknown"), (f"{A}:agent-7", "unknown")]


def test_brief_comes_once_at_the_prompt_and_after_a_compaction(hosts: Hooked) -> None:
    hosts.send(codex, before(ONE, "call_1", MAIL, TO_BOB))
    assert hosts.send(codex, event("SessionStart", TWO, source="startup")) == {}
    for payload in (
        event("UserPromptSubmit", TWO, prompt="Write to bob"),
        event("SessionStart", TWO, source="compact"),
    ):
        said = hosts.send(codex, payload)["hookSpecificOutput"]
        assert said["hookEventName"] == payload["hook_event_name"]
        assert "bob@example.com" in said["additionalContext"]
    child = {"agent_id": "agent-7", "agent_type": "default"}
    assert hosts.send(codex, event("SubagentStart", TWO, **child)) == {}
    told = hosts.send(codex, event("UserPromptSubmit", TWO, prompt="Write it for me", **child))
    assert "bob@example.com" in told["hookSpecificOutput"]["additionalContext"]
    assert [one.content for one in hosts.emitted if isinstance(one, InputReceived)] == ["Write to bob"], (
        "a sub-agent's work is no person's word"
    )


def test_answer_requested_twice_opens_one_action(hosts: Hooked) -> None:
    for _ in range(2):
        assert hosts.send(codex, before(ONE, "call_1", MAIL, TO_BOB)) == {}
    hosts.send(codex, after(ONE, "call_1", MAIL, TO_BOB))
    hosts.send(codex, event("SessionEnd"))
    assert hosts.outcomes() == [(A, "done")]
