"""Calls that a person refused in a host's dialog, as the gate reads them in the host's transcript.

The entries have the form in which Claude Code 2.1.330 and Codex CLI 0.169.0 wrote them, without the parts that the gate
does not read.
"""

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from callosum import Call, LocalGate, refusals
from callosum.model import SECOND, Action, Decision, Host, State
from callosum.process import this_process
from callosum.refusals import MAX_BYTES, Refusals
from callosum.settings import Settings

SESSION = "72bfa558-2a57-4833-baa5-f690e11163f0"
CALL = "toolu_01AbCdEf"
SENTENCE = "The user doesn't want to proceed with this tool use. The tool use was rejected."
CODEX = "01a20796-10e9-7962-926f-634a4220c91f"
CODEX_CALL = "call_9Fq2"
DECLINED = 'exec_command failed: CreateProcess { message: "Rejected(\\"rejected by user\\")" }'


def at(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now() -> float:
    return datetime.now(UTC).timestamp()


def entry(call: str = CALL, content: str = SENTENCE, *, error: bool = True, **more: Any) -> dict[str, Any]:
    """Return an entry of Claude Code about a call's result."""
    result = {"type": "tool_result", "content": content, "is_error": error, "tool_use_id": call}
    return {
        "type": "user",
        "message": {"role": "user", "content": [result]},
        "sessionId": SESSION,
        "timestamp": at(now()),
        **more,
    }


ESC: dict[str, Any] = {
    "toolUseResult": "User rejected tool use", "toolDenialKind": "user-rejected", "toolDenialBeforeRun": True,
}  # fmt: skip
INTERRUPTED: dict[str, Any] = {"toolUseResult": "User rejected tool use", "toolDenialKind": "user-rejected"}
WITH_A_REASON: dict[str, Any] = {
    "toolUseResult": f"Error: {SENTENCE} the user said: not now",
    "toolDenialKind": "user-rejected",
    "permissionDecision": {"decision": "reject", "source": "user_reject", "reasonCode": "unknown"},
}
BY_THE_SDK: dict[str, Any] = {**WITH_A_REASON, "toolUseResult": "Error: no thanks", "toolDenialKind": "permission-rule"}
ALLOWED: dict[str, Any] = {
    "permissionDecision": {"decision": "accept", "source": "user_temporary", "grantScope": "once"}
}


def action(session: str = f"claude-code/{SESSION}", **more: Any) -> Action:
    started = int(now() * SECOND)
    return Action(7, "default", session, "Bash", 4, State.OPEN, **{"started": started, "host": this_process(), **more})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def refused(home: Path) -> Refusals:
    ticks = iter(range(10, 10**6, 10))
    return Refusals(home, {}, lambda: next(ticks))


def claude(home: Path, *entries: dict[str, Any], name: str = f"{SESSION}.jsonl") -> Path:
    path = home / ".claude" / "projects" / "-work-project" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(entry) + "\n" for entry in entries)
    return path


def codex(home: Path, output: object, *, tool: str = "exec_command", session: str = CODEX, **more: Any) -> Path:
    folder = home / ".codex" / "sessions" / "2026" / "11" / "23"
    folder.mkdir(parents=True)
    path = folder / f"rollout-2026-11-23T08-46-44-{session}.jsonl"
    calls = [
        {"type": "function_call", "name": tool, "call_id": CODEX_CALL, "arguments": "{}", **more},
        {"type": "function_call_output", "call_id": CODEX_CALL, "output": output},
    ]
    lines = [{"timestamp": at(now()), "type": "response_item", "payload": call} for call in calls]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("said", [ESC, WITH_A_REASON, BY_THE_SDK], ids=["esc", "with a reason", "by the sdk"])
def test_call_that_a_person_refused_is_recognised(home: Path, refused: Refusals, said: dict[str, Any]) -> None:
    claude(home, {"type": "mode"}, entry(**said), {"type": "last-prompt"})
    assert refused(action(), CALL)


def test_call_that_a_person_refused_to_a_sub_agent_is_recognised(home: Path, refused: Refusals) -> None:
    claude(home, entry(**ESC), name=f"{SESSION}/subagents/agent-af5bcda741eab5108.jsonl")
    assert refused(action(f"claude-code/{SESSION}~4711-5bdf14:af5bcda741eab5108"), CALL), "of a second terminal"
    assert not refused(action(), CALL), "the parent's own transcript has no such call"


@pytest.mark.parametrize(
    "found",
    {
        "interrupted while it ran": entry(**INTERRUPTED),
        "printed by a tool": entry(content=json.dumps({**ESC, "tool_use_id": CALL}), error=True, toolUseResult=SENTENCE),
        "allowed": entry(content="done", error=False, **ALLOWED),
        "stopped after it ran": entry(**ESC, toolDenialAfterRun=True),
        "another call": entry("toolu_other", f'about "{CALL}"', **ESC),
        "another session": {**entry(**ESC), "sessionId": CODEX},
        "long before it began": {**entry(**ESC), "timestamp": at(now() - 3600)},
        "without a time": {**entry(**ESC), "timestamp": None},
        "said by the model": {**entry(**ESC), "type": "assistant"},
        "beside another result": {
            **entry(**ESC), "message": {"content": entry()["message"]["content"] + entry("toolu_2")["message"]["content"]},
        },
        "no message": {"type": "user", "message": CALL, **ESC},
        "not an error": entry(error=False, **ESC),
    }.items(),
    ids=lambda found: found[0],
)  # fmt: skip
def test_other_results_are_not_refusals(home: Path, refused: Refusals, found: tuple[str, dict[str, Any]]) -> None:
    claude(home, found[1])
    assert not refused(action(), CALL)


def test_newest_result_of_the_call_decides(home: Path, refused: Refusals) -> None:
    claude(home, entry(**ESC), entry(content="done", error=False, **ALLOWED))
    assert not refused(action(), CALL)


def test_refusal_is_read_only_once_its_line_is_complete(home: Path, refused: Refusals) -> None:
    path = claude(home, {"type": "mode"})
    whole = json.dumps(entry(**ESC)) + "\n"
    path.write_text(whole[:-1])
    assert not refused(action(), CALL)
    path.write_text(whole)
    assert refused(action(), CALL)


@pytest.mark.parametrize(
    ("session", "call"),
    [
        (f"claude-code/{SESSION[:-1]}*", CALL), ("claude-code/../../x", CALL), (f"claude-code/{SESSION}:..", CALL),
        (f"claude-code/{SESSION}", 'x"'), (f"claude-code/{SESSION}", "toolu\n"),
    ],
)  # fmt: skip
def test_names_that_no_host_gives_are_not_searched(home: Path, refused: Refusals, session: str, call: str) -> None:
    claude(home, entry(call, **ESC))
    assert not refused(action(session), call)


def test_action_of_another_machine_is_not_looked_for(home: Path, refused: Refusals) -> None:
    claude(home, entry(**ESC))
    assert not refused(action(host=Host(1, 1.0, "elsewhere")), CALL)
    assert refused(action(), CALL), "the control"


def test_transcript_is_read_once_a_second_unless_it_has_grown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = [100.0]
    tail = mock.Mock(side_effect=refusals._tail)
    monkeypatch.setattr(refusals, "_tail", tail)
    refused = Refusals(home, {}, lambda: ticks[0])
    claude(home, entry(**{**ESC, "timestamp": "2020-01-01T00:00:00Z"}))
    for after, seen in ((0, 1), (0.9, 1), (0.2, 2)):
        ticks[0] += after
        assert not refused(action(), CALL)
        assert tail.call_count == seen
    claude(home, entry(**ESC), entry(**ESC))
    assert refused(action(), CALL), "the host has written the line meanwhile"


def _linked_file(path: Path, away: Path) -> None:
    path.rename(away)
    path.symlink_to(away)


def _linked_folder(path: Path, away: Path) -> None:
    path.parent.rename(away)
    path.parent.symlink_to(away)


def _pipe(path: Path, away: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path, away: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("change", [_linked_file, _linked_folder, _pipe, _folder])
def test_only_regular_files_below_the_hosts_folder_are_read(
    home: Path, refused: Refusals, tmp_path: Path, change: Callable[[Path, Path], None]
) -> None:
    path = claude(home, entry(**ESC))
    assert refused(action(), CALL), "the control"
    change(path, tmp_path / "away")
    assert not refused(action(), CALL)


def test_file_of_another_user_is_not_read(home: Path, refused: Refusals, monkeypatch: pytest.MonkeyPatch) -> None:
    claude(home, entry(**ESC))
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert not refused(action(), CALL)


def test_only_the_end_of_a_long_transcript_is_read(home: Path, refused: Refusals) -> None:
    path = claude(home, entry(**ESC))
    with path.open("a") as file:
        file.write('{"type": "mode"}\n' * (MAX_BYTES // 17 + 1))
    assert not refused(action(), CALL)
    claude(home, entry(**ESC))
    assert refused(action(), CALL)


@pytest.mark.parametrize("line", [f'"{CALL}"' + "[" * 90_000, f'{{"x": "{CALL}"', f'["{CALL}"]', f'"{CALL}" \xff'])
def test_hostile_lines_are_skipped(home: Path, refused: Refusals, line: str) -> None:
    path = claude(home, entry(**ESC))
    with path.open("ab") as file:
        file.write(line.encode("latin-1") + b"\n")
    assert refused(action(), CALL)


@pytest.mark.parametrize(("tool", "output"), [("exec_command", DECLINED), ("apply_patch", "patch rejected by user")])
def test_call_that_a_person_declined_in_codex_is_recognised(
    home: Path, refused: Refusals, tool: str, output: str
) -> None:
    codex(home, output, tool=tool)
    assert refused(action(f"codex/{CODEX}"), CODEX_CALL)


@pytest.mark.parametrize(
    ("output", "more"),
    [
        ("Wall time: 0.1 seconds\naborted by user", {}), (f"Chunk ID: 1\nOutput:\n{DECLINED}", {}),
        (DECLINED, {"tool": "mcp_tool"}), (DECLINED, {"namespace": "mcp__mail"}), ("patch rejected by user", {}),
        ([{"text": DECLINED}], {}),
    ],
    ids=["cancelled or interrupted", "printed", "another tool", "a server's tool", "a patch's words", "a list"],
)  # fmt: skip
def test_other_codex_results_are_not_refusals(
    home: Path, refused: Refusals, output: object, more: dict[str, Any]
) -> None:
    codex(home, output, **more)
    assert not refused(action(f"codex/{CODEX}"), CODEX_CALL)


PUSH = {"command": "git push --force origin main"}


@pytest.fixture
def gate(tmp_path: Path, home: Path) -> Iterator[LocalGate]:
    with LocalGate(settings=Settings(state=tmp_path / "state")) as gate:
        ticks = iter(range(10, 10**6, 10))
        gate.operations.refused = Refusals(home, {}, lambda: next(ticks))
        yield gate


def push(gate: LocalGate, session: str = SESSION, call: str = CALL, **more: Any) -> Decision:
    asked = Call("claude-code", "Bash", PUSH, session=session, call_id=call, cwd="/srv/project", pause=True)
    return gate.intercept(_with(asked, host=this_process(), **more))


def _with(call: Call, **more: Any) -> Call:
    return replace(call, **more)


@pytest.mark.parametrize(
    ("session", "reported"),
    [(CODEX, False), (CODEX, True), (SESSION, True)],
    ids=["another session, still open", "another session, already unknown", "the same session, already unknown"],
)
def test_refused_call_of_tier_4_does_not_block_the_next(
    gate: LocalGate, home: Path, session: str, reported: bool
) -> None:
    first = push(gate)
    assert (first.tier, first.proceed) == (4, True)
    if reported:
        gate.complete("claude-code", id=first.id, session=SESSION, outcome="unknown")
    assert not push(gate, session, "toolu_2").proceed, "nobody has said no"
    claude(home, entry(**ESC))
    assert push(gate, session, "toolu_3").verdict == "allow"
    settled = [one for one in gate.entries() if one.action == first.id and one.outcome == "cancelled"]
    assert len(settled) == 1
    assert "permission dialog" in settled[0].body["note"]
    assert gate.store.action("default", first.id).state is State.CANCELLED  # type: ignore[union-attr]


def test_interrupted_running_call_still_blocks(gate: LocalGate, home: Path) -> None:
    first = push(gate)
    claude(home, entry(**INTERRUPTED))
    gate.complete("claude-code", id=first.id, session=SESSION, outcome="unknown")
    blocked = push(gate, CODEX, "toolu_2")
    assert (blocked.verdict, blocked.conflicts[0].kind) == ("block", "unknown")
    assert f"ask the person to run `callosum resolve {first.id} --happened`" in (blocked.warning or "")


def test_refused_edit_warns_no_session(gate: LocalGate, home: Path) -> None:
    path = {"file_path": "/srv/project/a.py"}
    gate.intercept(Call("claude-code", "Read", path, session=CODEX, call_id="toolu_9"))
    edit = {**path, "content": "mine"}
    gate.intercept(Call("claude-code", "Write", edit, session=SESSION, call_id=CALL))
    other = Call("claude-code", "Write", {**path, "content": "theirs"}, session=CODEX, call_id="toolu_1")
    assert gate.intercept(other).verdict == "warn", "the control: it may be changing the file"
    gate.complete("claude-code", id=gate.entries()[-1].seq, session=CODEX, outcome="cancelled")
    claude(home, entry(**ESC))
    assert gate.intercept(_with(other, call_id="toolu_2")).verdict == "allow"


def test_lock_is_free_after_a_refusal(gate: LocalGate, home: Path) -> None:
    key = push(gate).context_keys[0]
    assert not gate.lock("doug", key, 4).acquired
    claude(home, entry(**ESC))
    assert gate.lock("doug", key, 4).acquired


def test_waiter_is_let_in_once_a_person_refuses_the_call_before_it(gate: LocalGate, home: Path) -> None:
    push(gate)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            claude(home, entry(**ESC))
        if len(pauses) > 3:
            passed.append(seconds)

    passed: list[float] = []
    gate._sleep = sleep
    assert push(gate, CODEX, "toolu_2", wait=30).verdict == "allow"
    assert pauses


def test_call_without_conflicts_reads_no_transcript(gate: LocalGate) -> None:
    gate.operations.refused = lambda *_: pytest.fail("nothing is in its way")
    assert push(gate).proceed
    assert gate.intercept(Call("mira", "message", {"action": "send", "target": "andy", "message": "x"})).proceed


@pytest.mark.parametrize(("session", "transactions"), [("chat", 1), (CODEX, 2)])
def test_only_an_action_of_a_hosts_session_makes_the_gate_decide_twice(
    gate: LocalGate, session: str, transactions: int
) -> None:
    push(gate, session)
    with mock.patch.object(gate.store, "transact", wraps=gate.store.transact) as transact:
        assert not push(gate, "heartbeat", "toolu_2").proceed
    assert transact.call_count == transactions
