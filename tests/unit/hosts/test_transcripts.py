"""Test how hosts' transcripts are read: as they grow, within bounds, and only by their user."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callosum.corpus.events import CorpusEvent
from callosum.hosts import transcripts
from callosum.hosts.adapters import ADAPTERS
from callosum.hosts.events import HostIdentity
from callosum.hosts.transcripts import Transcripts
from callosum.model import Host
from callosum.process import host_of, this_process

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="a transcript's owner cannot be told here")

NOW = 1795480517.0
"""Unix seconds of the end of the recordings below."""
USAGE = {"input_tokens": 10, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3000, "output_tokens": 5}


def claude(id: str, second: int = 10, **more: Any) -> dict[str, Any]:
    message = {"id": id, "role": "assistant", "model": "claude-opus-5-5", "stop_reason": "tool_use", "usage": USAGE}
    return {"isSidechain": False, "message": {**message, "content": []}, "type": "assistant", **at(second), **more}


def at(second: int) -> dict[str, str]:
    return {"timestamp": f"2026-11-24T00:35:{second:02}.000Z"}


def codex(kind: str, payload: dict[str, Any], second: int = 10) -> dict[str, Any]:
    return {**at(second), "ordinal": 3, "type": kind, "payload": payload}


def used(tokens: int) -> dict[str, int]:
    return {"input_tokens": tokens, "cached_input_tokens": 0, "output_tokens": 5, "total_tokens": tokens + 5}


def counted(tokens: int, total: int) -> dict[str, Any]:
    info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": used(tokens)}
    return codex("event_msg", {"type": "token_count", "info": {**info, "model_context_window": 258_400}})


META = codex("session_meta", {"model_provider": "openai", "base_instructions": {"text": "You are"}})
TURN = codex("turn_context", {"model": "gpt-5.5", "approval_policy": "never"})
ANSWER = {"provider": "anthropic", "model": "claude-opus-5-5", "tokens": 3215, "context": 3210}
FAILED = {"message": '529 {"type":"error"}', "status": 529, "formatted": "529 Overloaded"}
SAID = [{"type": "text", "text": "API Error: Repeated 529 Overloaded errors."}]
GEMINI = {"id": "a1", **at(10), "type": "gemini", "content": "", "model": "gemini-2.5-pro"}
TOKENS = {"input": 10, "output": 5, "cached": 0, "thoughts": 0, "tool": 0, "total": 15}
WRITTEN: dict[str, tuple[str, list[dict[str, Any]], list[tuple[str, dict[str, Any]]]]] = {
    "an answer in two blocks": (
        "claude-code",
        [claude("msg_1"), claude("msg_1", 11), claude("msg_2", 12)],
        [("llm.response", ANSWER), ("llm.response", ANSWER)],
    ),
    "an answer that grows": (
        "claude-code",
        [
            claude("msg_1", message={"id": "msg_1", "model": "claude-opus-5-5", "usage": {"output_tokens": 1}}),
            claude("msg_1", requestedModel="claude-opus-5-5[1m]"),
        ],
        [("llm.response", {**ANSWER, "window": 1_000_000})],
    ),
    "errors": (
        "claude-code",
        [
            {**at(8), "type": "system", "subtype": "api_error", "error": FAILED, "retryAttempt": 1, "maxRetries": 2},
            claude(
                "f79a4fbd",
                isApiErrorMessage=True,
                error="server_error",
                message={"id": "f79a4fbd", "model": "<synthetic>", "usage": {}, "content": SAID},
            ),
        ],
        [
            ("llm.error", {"provider": "anthropic", "error": "529 Overloaded", "will_retry": True}),
            ("llm.error", {"provider": "anthropic", "error": SAID[0]["text"], "will_retry": False}),
        ],
    ),
    "a compaction": (
        "claude-code",
        [
            {**at(8), "type": "user", "message": {"role": "user", "content": "Do it."}},
            claude("msg_1"),
            {
                **at(11),
                "type": "system",
                "subtype": "compact_boundary",
                "compactMetadata": {
                    "trigger": "auto",
                    "preTokens": 167_000,
                    "postTokens": 2598,
                    "preservedMessages": {"uuids": ["51"]},
                },
            },
        ],
        [("llm.response", ANSWER), ("context.trimmed", {"before": 167_000, "after": 2598, "dropped": 1})],
    ),
    "an answer of Codex": (
        "codex",
        [
            META,
            codex("event_msg", {"type": "task_started", "model_context_window": 258_400}),
            TURN,
            codex("token_usage_record", {"response_id": "resp_4", "usage": used(10)}),
            counted(10, 15),
        ],
        [("llm.response", {"provider": "openai", "model": "gpt-5.5", "tokens": 15, "context": 10, "window": 258_400})],
    ),
    "answers of a Codex that writes no records": (
        "codex",
        [META, TURN, counted(10, 15), counted(10, 15), counted(20, 40)],
        [
            (
                "llm.response",
                {"provider": "openai", "model": "gpt-5.5", "tokens": 15, "context": 10, "window": 258_400},
            ),
            (
                "llm.response",
                {"provider": "openai", "model": "gpt-5.5", "tokens": 25, "context": 20, "window": 258_400},
            ),
        ],
    ),
    "an error and a compaction of Codex": (
        "codex",
        [
            META,
            TURN,
            *[codex("response_item", {"type": "message", "role": "user"})] * 3,
            codex("token_usage_record", {"usage": used(120_000)}),
            codex("compacted", {"message": "A summary", "replacement_history": [{"type": "message"}]}),
            codex(
                "event_msg",
                {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 0, "total_tokens": 6057}}},
            ),
            codex("event_msg", {"type": "task_complete", "error": {"message": "unexpected status 503"}}),
        ],
        [
            ("llm.response", {"provider": "openai", "model": "gpt-5.5", "tokens": 120_005, "context": 120_000}),
            ("context.trimmed", {"before": 120_000, "after": 6057, "dropped": 2}),
            ("llm.error", {"provider": "openai", "error": "unexpected status 503", "will_retry": False}),
        ],
    ),
    "an answer of Gemini CLI, written twice": (
        "gemini",
        [{"$set": {"messages": []}}, {**GEMINI, "tokens": TOKENS}, {**GEMINI, "tokens": TOKENS, "toolCalls": [{}]}],
        [
            (
                "llm.response",
                {"provider": "google", "model": "gemini-2.5-pro", "tokens": 15, "context": 10, "window": 1_048_576},
            )
        ],
    ),
}
FOLDERS = {"claude-code": ".claude/projects/-work", "codex": ".codex/sessions/2026/11/24", "gemini": ".gemini/tmp/work"}


class TranscriptHome:
    """A user's home with transcripts in it, and the events read from them."""

    def __init__(self, root: Path) -> None:
        self.root, self.home, self.state = root, root / "home", root / "state"
        self.state.mkdir()
        self.told: list[CorpusEvent] = []
        self._came = threading.Condition()
        self.reading = self.begin()

    def begin(self) -> Transcripts:
        self.reading = Transcripts(self._take, self.state, clock=lambda: NOW)
        return self.reading

    def _take(self, event: CorpusEvent) -> None:
        with self._came:
            self.told.append(event)
            self._came.notify_all()

    def heard(self, count: int) -> bool:
        """Return whether the thread emits this many events within a minute."""
        with self._came:
            return self._came.wait_for(lambda: len(self.told) >= count, 60)

    def file(self, host: str, name: str = "s1.jsonl") -> Path:
        path = self.home / FOLDERS[host] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, path: Path, *lines: dict[str, Any], end: str = "\n") -> None:
        with path.open("a") as file:
            file.write("\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + end)

    def look(self, host: str, path: Path, event: str = "PreToolUse", process: Host | None = None, **more: Any) -> None:
        payload = {"hook_event_name": event, "session_id": "s1", "transcript_path": str(path), **more}
        place = HostIdentity(host, home=str(self.home))
        self.reading.look(ADAPTERS[host], payload, place, process if process is not None else this_process())

    def read(self, host: str, path: Path, **more: Any) -> list[tuple[str, dict[str, Any]]]:
        """Return the events that follow a hook event."""
        self.told.clear()
        self.look(host, path, **more)
        self.reading.flush()
        return [payload_of(event) for event in self.told]


def payload_of(event: CorpusEvent) -> tuple[str, dict[str, Any]]:
    own = {name: getattr(event, name) for name in event.__struct_fields__ if name not in CorpusEvent.__struct_fields__}
    return event.dotted, {name: value for name, value in own.items() if value is not None}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TranscriptHome]:
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(variable, raising=False)
    made = TranscriptHome(tmp_path)
    yield made
    made.reading.close()


@pytest.mark.parametrize(("host", "lines", "told"), WRITTEN.values(), ids=WRITTEN)
def test_events_of_a_transcript_are_emitted(
    desk: TranscriptHome, host: str, lines: list[dict[str, Any]], told: list[tuple[str, dict[str, Any]]]
) -> None:
    path = desk.file(host)
    desk.write(path, *lines)
    assert desk.read(host, path) == told
    for event in desk.told:
        assert (event.instance, event.namespace, event.source) == (f"{host}/s1", "default", "transcript")
        assert NOW - 10 < event.at < NOW, "the transcript's own time"


def test_only_new_and_complete_lines_are_read(desk: TranscriptHome) -> None:
    path = desk.file("claude-code")
    desk.write(path, claude("msg_1"))
    assert len(desk.read("claude-code", path)) == 1
    whole = json.dumps(claude("msg_2"), separators=(",", ":"))
    with path.open("a") as file:
        file.write(whole[:100])
    assert desk.read("claude-code", path) == []
    with path.open("a") as file:
        file.write(f"{whole[100:]}\n")
    assert len(desk.read("claude-code", path)) == 1


def test_next_gate_continues_at_the_same_place(desk: TranscriptHome) -> None:
    path = desk.file("codex")
    desk.write(path, META, TURN, codex("token_usage_record", {"usage": used(10)}))
    assert len(desk.read("codex", path)) == 1
    desk.reading.close()
    desk.write(path, codex("token_usage_record", {"usage": used(20)}))
    desk.begin()
    (told,) = desk.read("codex", path)
    assert (told[1]["provider"], told[1]["context"]) == ("openai", 20), "and it knows whose model it is"


def test_lines_long_before_the_first_hook_event_are_skipped(desk: TranscriptHome) -> None:
    path = desk.file("claude-code")
    old = claude("msg_1", timestamp="2026-11-23T00:35:10.000Z")
    desk.write(path, *[old] * 10, claude("msg_2"))
    assert len(desk.read("claude-code", path)) == 1


def test_replaced_file_is_read_from_its_start(desk: TranscriptHome) -> None:
    path = desk.file("claude-code")
    desk.write(path, *[claude(f"msg_{number}") for number in range(9)])
    assert len(desk.read("claude-code", path)) == 9
    other = desk.file("claude-code", "other")
    desk.write(other, claude("msg_1"))
    other.rename(path)
    assert len(desk.read("claude-code", path)) == 1


def test_long_or_malformed_line_is_skipped(desk: TranscriptHome) -> None:
    path = desk.file("claude-code")
    long = claude("msg_1", note="x" * 3 * transcripts._LONGEST)
    desk.write(path, long, claude("msg_2"))
    with path.open("a") as file:
        file.write('{"type":"assistant","message":7}\n{"type":"assistant"\n[]\n"type":"user"\n')
    desk.write(path, claude("msg_3"))
    assert len(desk.read("claude-code", path)) == 2


def test_tokens_of_a_sub_agent_are_its_own(desk: TranscriptHome) -> None:
    path = desk.file("claude-code")
    own = path.with_suffix("") / "subagents" / "agent-a8e5.jsonl"
    own.parent.mkdir(parents=True)
    desk.write(own, claude("msg_1"))
    assert len(desk.read("claude-code", path, agent_id="a8e5")) == 1
    assert desk.told[0].instance == "claude-code/s1:a8e5"


def test_model_named_by_a_hook_is_emitted_with_its_provider(desk: TranscriptHome) -> None:
    path = desk.file("codex")
    desk.write(path, META)
    told = desk.read("codex", path, event="UserPromptSubmit", model="gpt-5.5")
    assert told == [("input.routed", {"provider": "openai", "model": "gpt-5.5"})]
    assert desk.read("codex", path, event="PreToolUse", model="gpt-5.5") == []


def test_no_file_outside_the_hosts_own_folder_is_read(desk: TranscriptHome) -> None:
    outside = desk.root / "secret.jsonl"
    desk.write(outside, claude("msg_1"))
    inside = desk.file("claude-code", "link.jsonl")
    inside.symlink_to(outside)
    pipe = desk.file("claude-code", "pipe.jsonl")
    os.mkfifo(pipe)
    for path in (outside, inside, pipe, desk.home / ".claude" / "projects", Path("relative.jsonl")):
        assert desk.read("claude-code", path) == []


def test_process_that_ends_before_the_read_is_reported(desk: TranscriptHome) -> None:
    path = desk.file("claude-code")
    desk.write(path, claude("msg_1"))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as host:
        desk.look("claude-code", path, process=host_of(host.pid))
    desk.reading.flush()
    assert len(desk.told) == 1


def test_transcript_of_another_users_process_is_not_read(desk: TranscriptHome, monkeypatch: pytest.MonkeyPatch) -> None:
    path = desk.file("claude-code")
    desk.write(path, claude("msg_1"))
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert desk.read("claude-code", path) == []


def test_text_of_a_transcript_is_cut_and_redacted(desk: TranscriptHome) -> None:
    path = desk.file("claude-code")
    secret = "sk-ant-" + "a1B2" * 10
    error = {"formatted": f"401 of {secret}\u202e " + "x" * 5000}
    desk.write(path, {**at(8), "type": "system", "subtype": "api_error", "error": error})
    ((_, told),) = desk.read("claude-code", path)
    assert secret not in told["error"]
    assert len(told["error"]) < 400


def test_one_pass_stays_within_its_budget_and_later_ones_read_the_rest(
    desk: TranscriptHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread reads. In this test each pass ends after its first line, at any speed of the machine."""
    monkeypatch.setattr(transcripts, "BUDGET", 0.0)
    monkeypatch.setattr(transcripts, "REST", 0.001)
    path = desk.file("claude-code")
    lines = [claude(f"msg_{number}", note="x" * 1000) for number in range(100)]
    desk.write(path, *lines)
    looks = []
    read = Transcripts._read_on

    def read_on(self: Transcripts, *arguments: Any) -> bool:
        looks.append(len(desk.told))
        return read(self, *arguments)

    monkeypatch.setattr(Transcripts, "_read_on", read_on)
    desk.look("claude-code", path)
    assert desk.heard(len(lines)), "all of it is told"
    assert len(looks) >= len(lines)
