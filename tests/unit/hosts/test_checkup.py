"""Test the inputs of the host checkup (transcripts, switches, times of hook events) and its reports."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from callosum.corpus.events import HealthCritical
from callosum.hosts import last_seen
from callosum.hosts.checkup import program, report
from callosum.hosts.checkup.compare import JournalledCalls, undecided
from callosum.hosts.checkup.examine import all_checks
from callosum.hosts.checkup.finding import Finding
from callosum.hosts.inspection import HostInspection, ReviewState, TranscriptCall, UserContext
from callosum.journal import PROBE
from callosum.model import SECOND, Entry, Event

if TYPE_CHECKING:
    from callosum.programs.program import Known

NOW = 1_795_338_000.0
AT = datetime.fromtimestamp(NOW, UTC).isoformat().replace("+00:00", "Z")
SESSION = "01a20273-c3f1-7c00-97f2-f26b174436c4"
HOSTS = all_checks()
claude_code, codex, gemini, openclaw = HOSTS


@pytest.fixture
def here(tmp_path: Path) -> UserContext:
    (tmp_path / "work").mkdir()
    return UserContext(home=tmp_path, environ={}, folder=tmp_path / "work")


def lines(path: Path, *objects: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(one)}\n" for one in objects) + "torn {")


def calls_reached(facts: HostInspection, here: UserContext, since: float = 0) -> dict[str, bool | None]:
    return {made.id: made.ran for made in facts.transcripts(here, since).calls}


def use(id: str, tool: str = "Bash", session: str = "s1", at: str = AT) -> dict[str, Any]:
    content = [{"type": "tool_use", "id": id, "name": tool, "input": {}}]
    return {"type": "assistant", "sessionId": session, "timestamp": at, "message": {"content": content}}


def result(id: str, content: Any, *, error: bool = False) -> dict[str, Any]:
    part = {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": error}
    return {"type": "user", "sessionId": "s1", "message": {"content": [part]}}


def test_claude_code_transcript_calls_are_read(here: UserContext) -> None:
    folder = here.home / ".claude" / "projects" / "-work"
    lines(
        folder / "s1.jsonl",
        {"type": "user", "message": {"content": "go on"}},
        *(use(id) for id in ("ran", "failed", "unknown", "unfit", "denied", "stopped", "underway")),
        result("ran", "<tool_use_error> is what it printed"),
        result("failed", "Exit code 1", error=True),
        result("unknown", "<tool_use_error>Error: No such tool available: Bush</tool_use_error>", error=True),
        result(
            "unfit", [{"type": "text", "text": "<tool_use_error>InputValidationError</tool_use_error>"}], error=True
        ),
        result("denied", "PreToolUse:Bash hook error: [Callosum] no", error=True),
        result("stopped", "[Request interrupted by user for tool use]", error=True),
    )
    lines(folder / "s1" / "subagents" / "agent-7.jsonl", use("inner"), result("inner", "done"))
    assert calls_reached(claude_code, here) == {"ran": True, "failed": True, "underway": None, "inner": True}
    assert calls_reached(claude_code, here, NOW + 1) == {}, "what was before is not looked at"


def test_codex_transcript_calls_are_read(here: UserContext) -> None:
    def item(**payload: Any) -> dict[str, Any]:
        return {"timestamp": AT, "type": "response_item", "payload": payload}

    def call(id: str, tool: str = "exec_command") -> dict[str, Any]:
        return item(type="function_call", name=tool, call_id=id, arguments="{}")

    lines(
        here.home / ".codex" / "sessions" / "2026" / "11" / "22" / f"rollout-2026-11-22T08-51-10-{SESSION}.jsonl",
        call("ran"),
        item(type="custom_tool_call", name="apply_patch", call_id="patched", input="*** Begin Patch"),
        call("denied"),
        call("none", "update_plan"),
        call("typed", "write_stdin"),
        item(type="function_call_output", call_id="ran", output="Command blocked? no, it printed this"),
        item(type="custom_tool_call_output", call_id="patched", output=[{"text": "Success"}]),
        item(type="function_call_output", call_id="denied", output="Command blocked by PreToolUse hook: no"),
        item(type="function_call_output", call_id="none", output="unsupported call: update_plan"),
        item(type="function_call_output", call_id="typed", output="ok"),
    )
    assert calls_reached(codex, here) == {"ran": True, "patched": True}
    assert {made.session for made in codex.transcripts(here, 0).calls} == {SESSION}


@pytest.mark.parametrize("name", ["session-1.jsonl", "session-1.json"])
def test_gemini_transcript_calls_are_read(here: UserContext, name: str) -> None:
    calls = [
        {"id": f"write_file__{status}", "name": "write_file", "status": status, "timestamp": AT}
        for status in ("success", "error", "cancelled")
    ]
    path = here.home / ".gemini" / "tmp" / "work" / "chats" / name
    if path.suffix == ".json":
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"sessionId": "s1", "messages": [{"toolCalls": calls}]}))
    else:
        lines(path, {"sessionId": "s1"}, {"type": "gemini", "toolCalls": []}, *2 * [{"toolCalls": calls}])
    assert [(made.session, made.id) for made in gemini.transcripts(here, 0).calls] == [("s1", "write_file__success")]


def test_openclaw_transcript_calls_are_read(here: UserContext) -> None:
    path = here.home / ".openclaw" / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    path.parent.mkdir(parents=True)

    def said(**message: Any) -> str:
        return json.dumps({"type": "message", "timestamp": AT, "message": message}, separators=(",", ":"))

    own = {"__openclaw": {"runId": "r1"}}
    parts: list[dict[str, Any]] = [
        {"type": "toolCall", "id": id, "name": "exec", "arguments": {}} for id in ("c1", "c2", "c3")
    ]
    parts += [{"type": "toolCall", "id": "c4", "name": "tool_call", "arguments": {"id": "message"}}]
    parts += [{"type": "toolCall", "id": "c5", "name": "exec", "arguments": {"code": "await tools.x()"}}]
    nested = {"runId": "r1", "toolCallId": "tool_search_code:c4:message:1", "toolName": "message"}
    rows = [
        said(role="user", content="please toolCall"),
        said(role="assistant", content=parts, **own),
        said(role="custom", customType="openclaw.nested-tool.v1", details=nested),
        said(role="toolResult", toolCallId="c1", isError=False, **own),
        said(role="toolResult", toolCallId="c2", isError=True, **own),
    ]
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE transcript_events (event_json TEXT, created_at INTEGER, navigation_json TEXT)")
        made: list[tuple[str | None, int, str | None]] = [(row, int(NOW * 1000), None) for row in rows]
        made += [(None, int(NOW * 1000), f'{{"message":{{"role":"{role}"}}}}') for role in ("assistant", "toolResult")]
        database.executemany("INSERT INTO transcript_events VALUES (?, ?, ?)", made)
    database.close()
    assert calls_reached(openclaw, here) == {"r1:c1": True, "r1:c3": None, "r1:tool_search_code:c4:message:1": True}
    assert [sentence.split(" in ")[0] for sentence in openclaw.transcripts(here, 0).unread] == ["1 long messages"]
    path.write_bytes(b"no database" * 1000)
    found = openclaw.transcripts(here, 0)
    assert (len(found.calls), "cannot be read" in found.unread[0]) == (0, True)


@pytest.mark.parametrize("facts", HOSTS, ids=lambda facts: facts.host.name)
def test_host_that_never_ran_has_no_calls(here: UserContext, facts: HostInspection) -> None:
    assert facts.transcripts(here, 0).calls == ()


def entry(session: str, tool: str = "Bash", id: str | None = None, event: Event = Event.INTERCEPT) -> Entry:
    body = {} if id is None else {"callId": id}
    return Entry(event, session, seq=int(NOW * SECOND), tool=tool, body=body)


def call(
    id: str, session: str = "s1", *, tool: str = "Bash", at: float = NOW, ran: bool | None = True
) -> TranscriptCall:
    return TranscriptCall(session=session, tool=tool, id=id, at=at, ran=ran)


def left(
    calls: Sequence[TranscriptCall], entries: Sequence[Entry], known: Known, state: Path, now: float = NOW
) -> list[str]:
    return [made.id for made in undecided(calls, JournalledCalls(entries, state), now, known)]


def test_calls_are_matched_by_session_and_id(tmp_path: Path) -> None:
    entries = [entry("claude-code/s1", id="a"), entry("claude-code/s1~47-5b:agent-7", id="b"), entry("mira/s2", id="c")]
    entries.append(entry("claude-code/s1", id="d", event=Event.COMPLETE))
    calls = [call("b"), call("a"), call("c"), call("d")]
    assert left(calls, entries, "session and id", tmp_path) == ["c", "d"], "a report is no decision"
    copied = [call("a", "s9"), call("e", "s9")]
    assert left([*calls[:2], *copied], entries, "session and id", tmp_path) == ["e"], "a session that was taken up"
    assert left([call("a", "s9", at=NOW + 5), *calls[:2]], entries, "session and id", tmp_path) == ["a"]


def test_running_call_is_ignored_for_a_minute(tmp_path: Path) -> None:
    begun = [call("a", ran=None)]
    assert left(begun, [], "session and id", tmp_path, NOW + 59) == []
    assert left(begun, [], "session and id", tmp_path, NOW + 61) == ["a"]


def test_calls_are_matched_by_counts_of_a_tool(tmp_path: Path) -> None:
    calls = [call("third", at=NOW + 2), call("first"), call("second", at=NOW + 1), call("other", "s2")]
    entries = [entry("gemini/s1"), entry("gemini/s1"), entry("gemini/s2", "Read")]
    assert left(calls, entries, "session and tool", tmp_path) == ["first", "other"]


def test_spooled_calls_count(tmp_path: Path) -> None:
    noted = {"call": {"instance": "codex", "session": "s1", "tool": "Bash", "callId": "a"}, "outcome": "done"}
    lines(tmp_path / "late.jsonl", noted, {"call": None}, {})
    assert left([call("a"), call("b")], [], "session and id", tmp_path) == ["b"]
    assert left([call("a"), call("b")], [], "id", tmp_path) == ["b"]


def test_switches_are_found(here: UserContext) -> None:
    assert not any(facts.switched_off(here, {}) for facts in HOSTS)
    assert "disableAllHooks" in claude_code.switched_off(here, {"disableAllHooks": True})[0]
    local = here.folder / ".claude" / "settings.local.json"
    local.parent.mkdir()
    local.write_text('{"disableAllHooks": true}')
    assert str(local) in claude_code.switched_off(here, {})[0]
    (here.home / ".codex").mkdir()
    (here.home / ".codex" / "config.toml").write_text("[features]\nhooks = false\n")
    assert "hooks = false" in codex.switched_off(here, {})[0]
    assert "enabled" in gemini.switched_off(here, {"hooksConfig": {"enabled": False}})[0]
    assert "disabled" in gemini.switched_off(here, {"hooksConfig": {"disabled": ["callosum"]}})[0]
    assert not gemini.switched_off(here, {"hooksConfig": {"disabled": ["lint"]}})


@pytest.mark.parametrize(
    ("version", "old"), [("2.1.294", True), ("2.1.295", False), ("2.1.330", False), ("3.0", False)]
)
def test_claude_code_before_the_fail_closed_form_is_too_old(version: str, old: bool) -> None:
    assert bool(claude_code.too_old(program.numbers(version))) is old


def level(reviewed: ReviewState | None) -> str:
    return "" if reviewed is None else reviewed.level


def test_codex_without_its_program_uses_the_record_of_reviews(here: UserContext) -> None:
    hooks = here.home / ".codex" / "hooks.json"
    hooks.parent.mkdir()
    assert level(codex.reviewed(None, here, hooks)) == "wrong"
    (hooks.parent / "config.toml").write_text(f'[hooks.state."{hooks}:pre_tool_use:0:0"]\ntrusted_hash = "x"\n')
    assert level(codex.reviewed(None, here, hooks)) == "advice", "whether the entry was changed since, nobody can say"


def test_hung_or_babbling_codex_gives_no_answer(here: UserContext, tmp_path: Path) -> None:
    fake = tmp_path / "codex"
    fake.write_text("#!/bin/sh\necho nonsense\n")
    fake.chmod(0o700)
    assert level(codex.reviewed(fake, here, here.home / ".codex" / "hooks.json")) == "wrong"


def test_version_of_a_program_is_read(tmp_path: Path) -> None:
    installed = tmp_path / "node_modules" / "@google" / "gemini-cli" / "bundle" / "gemini.js"
    installed.parent.mkdir(parents=True)
    installed.write_text("#!/bin/sh\nexit 1\n")
    (installed.parent.parent / "package.json").write_text('{"name": "@google/gemini-cli", "version": "0.61.0-linux"}')
    linked = tmp_path / "gemini"
    linked.symlink_to(installed)
    assert program.version_of(linked, "@google/gemini-cli", {}) == "0.61.0"
    spoken = tmp_path / "claude"
    spoken.write_text("#!/bin/sh\necho '2.1.330 (Claude Code)'\n")
    spoken.chmod(0o700)
    assert program.version_of(spoken, "@anthropic-ai/claude-code", {}) == "2.1.330"
    assert program.numbers("2.1.330") == (2, 1, 330)
    assert program.version_of(tmp_path / "none", "x", {}) == ""
    assert program.numbers("") == ()


def test_event_times_are_kept_for_the_next_server(tmp_path: Path) -> None:
    clock = iter([100.0, 101.0, 102.0, *[103.0] * 20])
    first = last_seen.LastSeen(tmp_path, lambda: next(clock))
    first.hook("codex", "PreToolUse", "s1")
    first.alive("mira/openclaw:4711")
    first.save(now=True)
    assert last_seen.load(tmp_path) == ({"codex": {"PreToolUse": 100.0}}, {"mira": 101.0})


def test_two_servers_of_one_folder_keep_each_others_times(tmp_path: Path) -> None:
    one, other = last_seen.LastSeen(tmp_path, lambda: 100.0), last_seen.LastSeen(tmp_path, lambda: 90.0)
    one.hook("codex", "PreToolUse", "s1")
    one.save(now=True)
    for event in ("PreToolUse", "Stop"):
        other.hook("codex", event, "s2")
    other.save(now=True)
    assert last_seen.load(tmp_path)[0] == {"codex": {"PreToolUse": 100.0, "Stop": 90.0}}


def test_invented_or_excess_events_are_ignored(tmp_path: Path) -> None:
    ear = last_seen.LastSeen(tmp_path)
    ear.hook("codex", "PreToolUse", PROBE)
    ear.hook("codex", {"a": 1}, "s1")
    ear.hook("codex", "x" * 1000, "s1")
    ear.save(now=True)
    assert not (tmp_path / last_seen.FILE).exists()
    moments = iter(range(10_000))
    ear = last_seen.LastSeen(tmp_path, lambda: next(moments))
    for number in range(1000):
        ear.hook("codex", f"event{number}", "s1")
    ear.save(now=True)
    kept = last_seen.load(tmp_path)[0]["codex"]
    assert (len(kept), min(kept.values())) == (200, 800.0), "what was heard longest ago gives way"


def test_file_is_written_at_most_every_few_seconds(tmp_path: Path) -> None:
    moments = [1000.0]
    ear = last_seen.LastSeen(tmp_path, lambda: moments[0])
    for second in range(4):
        moments[0] = 1000.0 + second
        ear.hook("codex", "PreToolUse", "s1")
        ear.save()
    assert last_seen.load(tmp_path)[0]["codex"]["PreToolUse"] == 1000.0
    moments[0] = 1006.0
    ear.save()
    assert last_seen.load(tmp_path)[0]["codex"]["PreToolUse"] == 1003.0


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"hooks": {"codex": 7}, "instances": {}}', b"\xff"])
def test_malformed_record_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / last_seen.FILE).write_bytes(content)
    assert last_seen.load(tmp_path) == ({}, {})


def test_problem_is_reported_once(tmp_path: Path) -> None:
    wrong = [Finding("codex trust", "wrong", "not reviewed", host="codex")]
    assert report.take(tmp_path) == []
    report.leave(tmp_path, wrong, "work")
    assert report.waits(tmp_path)
    assert (tmp_path / report.FILE).stat().st_mode & 0o777 == 0o600
    [event] = report.take(tmp_path)
    assert isinstance(event, HealthCritical)
    assert (event.resource, event.value, event.namespace) == ("host:codex", "codex trust: not reviewed", "work")
    assert abs(event.at - time.time()) < 60
    assert (report.take(tmp_path), list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize("content", [b"", b"[]", b'{"wrong": [7], "namespace": "x"}', b'{"wrong": 7}'])
def test_malformed_report_changes_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / report.FILE).write_bytes(content)
    assert (report.take(tmp_path), list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize(
    ("facts", "without", "oldest"),
    [(codex, "0.20.0", "0.124.0"), (gemini, "0.20.0", "0.26.0")],
    ids=["codex", "gemini"],
)
def test_version_without_hooks_is_too_old(facts: HostInspection, without: str, oldest: str) -> None:
    assert f"before {oldest} it calls no hooks" in facts.too_old(program.numbers(without))
    assert facts.too_old(program.numbers(oldest)) == ""
