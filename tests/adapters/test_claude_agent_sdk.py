"""What only the Claude Agent SDK has: built-in tools, sub-agents, permissions, other hooks, and its own session ids."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints
from uuid import uuid4

import pytest

pytest.importorskip("claude_agent_sdk")

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, query

from callosum import LocalGate
from callosum.adapters.claude_agent_sdk import callosum_hooks, install
from callosum.gate import Gate
from callosum.model import Event, Outcome
from tests.adapters.behaviours import Bench, mail
from tests.adapters.frameworks.claude_agent_sdk import FRAMEWORK, environ, read, script
from tests.adapters.harness import Job, Nested, RunResult, Scripted, Tool
from tests.e2e.models import Model, ToolUse, model


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(FRAMEWORK, "async", tmp_path)
    with bench.gate:
        yield bench


@pytest.fixture
def scripted() -> Iterator[Model]:
    with model() as running:
        yield running


def run(scripted: Model, folder: Path, *turns: list[ToolUse], prompt: str = "", **options: Any) -> RunResult:
    """Run Claude Code with these turns."""
    (folder / "home").mkdir(exist_ok=True)
    prompt = prompt or scripted.script(f"run-{uuid4()}", *turns)
    given = {"allowed_tools": ["Bash", "Read"], "tools": ["Bash", "Read"], "setting_sources": [], **options}
    made_of = ClaudeAgentOptions(
        model="claude-sonnet-5", cwd=folder, env=environ(scripted.address, str(folder / "home")), **given
    )

    async def whole() -> None:
        async for _ in query(prompt=prompt, options=made_of):
            pass

    asyncio.run(whole())
    return read(scripted)


def bash(id: str, command: str) -> ToolUse:
    return ToolUse("Bash", {"command": command, "description": "Work"}, id=id)


def test_the_hooks_are_typed_and_fail_closed(bench: Bench) -> None:
    assert get_type_hints(callosum_hooks)["gate"] is Gate
    hooks = callosum_hooks(bench.gate, instance="mira", session="chat", namespace="default", wait=100)
    (asks,) = hooks["PreToolUse"]
    assert asks.on_failure == "block"
    assert asks.matcher is None
    assert asks.timeout is not None
    assert asks.timeout > 100
    assert ClaudeAgentOptions(hooks=hooks).can_use_tool is None


def test_the_session_is_the_sdks(bench: Bench, scripted: Model, tmp_path: Path) -> None:
    id = str(uuid4())
    ran = run(scripted, tmp_path, [bash("c1", "echo hi")], hooks=callosum_hooks(bench.gate), session_id=id)
    assert "hi" in ran.read["c1"]
    assert [entry.session for entry in bench.entries()] == [f"claude-code/{id}"]
    assert bench.outcomes() == [Outcome.DONE]


def test_a_hook_that_raises_keeps_the_tool_from_running(bench: Bench, scripted: Model, tmp_path: Path) -> None:
    def broken() -> str:
        raise RuntimeError("no session today")

    hooks = callosum_hooks(bench.gate, session=broken)
    ran = run(scripted, tmp_path, [bash("c1", "touch ran")], hooks=hooks)
    assert "hook" in ran.read["c1"]
    assert not (tmp_path / "ran").exists()
    hooks["PreToolUse"][0].on_failure = "continue"  # the control: without "block" it runs
    run(scripted, tmp_path, [bash("c2", "touch ran")], hooks=hooks)
    assert (tmp_path / "ran").exists()


def test_the_programs_own_permissions_still_decide(bench: Bench, scripted: Model, tmp_path: Path) -> None:
    hooks = callosum_hooks(bench.gate)
    ran = run(scripted, tmp_path, [bash("c1", "touch ran")], hooks=hooks, allowed_tools=[])
    assert "c1" in ran.read
    assert not (tmp_path / "ran").exists()
    assert bench.outcomes() == [Outcome.CANCELLED]


def test_the_programs_own_hooks_are_kept(bench: Bench, scripted: Model, tmp_path: Path) -> None:
    met: list[str] = []

    async def own(payload: Any, _id: str | None, _context: Any) -> Any:
        met.append(payload["tool_name"])
        return {}

    hooks = callosum_hooks(bench.gate, hooks={"PreToolUse": [HookMatcher(hooks=[own])]})
    run(scripted, tmp_path, [bash("c1", "true")], hooks=hooks)
    assert met == ["Bash"]
    assert len(bench.entries()) == 1


def test_a_command_that_fails_is_failed(bench: Bench, scripted: Model, tmp_path: Path) -> None:
    run(scripted, tmp_path, [bash("c1", "echo no >&2; exit 3")], hooks=callosum_hooks(bench.gate))
    assert bench.outcomes() == [Outcome.FAILED]


def test_a_sub_agent_acts_in_a_session_of_its_own(bench: Bench) -> None:
    helper = Nested("ask_helper", [[mail("i1", "from the helper")]], [bench.mail()])
    bench.run([Scripted("ask_helper", "c1", {"input": "mail"})], tools=[helper])
    outer, inner = bench.entries()
    assert outer.session == "mira/chat"
    assert (inner.session or "").startswith("mira/chat:")
    assert bench.gate.store.kin("default", inner.session or "").parent == "mira/chat"
    refused = bench.run([mail("c2", "no")], conversation="heartbeat")
    assert f"{inner.session} acted on" in refused.read["c2"]


def test_command_that_continues_in_the_background_is_unknown(bench: Bench, scripted: Model, tmp_path: Path) -> None:
    call = ToolUse("Bash", {"command": "true", "description": "Work", "run_in_background": True}, id="c1")
    run(scripted, tmp_path, [call], hooks=callosum_hooks(bench.gate))
    assert bench.outcomes() == [Outcome.UNKNOWN]


@pytest.mark.parametrize("mode", ["bypassPermissions", "default"])
def test_a_merged_text_replaces_the_input_only_where_no_permission_is_skipped(
    bench: Bench, scripted: Model, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, mode: str
) -> None:
    file = tmp_path_factory.mktemp("work") / "notes.txt"
    text = "".join(f"line {number}\n" for number in range(20))
    file.write_text(text)

    def read_file(path: str) -> str:
        """Read a file."""
        return Path(path).read_text()

    def write_file(path: str, content: str) -> str:
        """Write a file."""
        Path(path).write_text(content)
        return "written"

    reads = Scripted("read_file", "r1", {"path": str(file)})

    def writes(old: str, new: str) -> Scripted:
        return Scripted("write_file", "w1", {"path": str(file), "content": text.replace(old, new)})

    def converse(conversation: str, *calls: Scripted) -> RunResult:
        tools = [Tool(read_file), Tool(write_file)]
        job = Job(bench.gate, [[call] for call in calls], tools, conversation=conversation, awaited=True)
        options = FRAMEWORK.options(job, scripted, str(tmp_path), permission_mode=mode)
        options.env["IS_SANDBOX"] = "1"  # else Claude Code refuses that mode to root
        asyncio.run(_drained(query(prompt=script(scripted, job, FRAMEWORK), options=options)))
        return read(scripted)

    converse("first", reads)
    converse("second", reads, writes("line 1\n", "changed by the second\n"))
    refused = "hook error" in converse("first", writes("line 18\n", "changed by the first\n")).read["w1"]
    assert "changed by the second" in file.read_text()
    assert ("changed by the first" in file.read_text()) is (mode == "bypassPermissions")
    assert refused is (mode == "default")
    assert "[Callosum]" in str(scripted.asked[-1])  # merged: the warning that the model reads beside the result


@pytest.mark.parametrize("options", [{}, {"instance": "mira"}])
def test_a_call_that_claude_codes_own_hooks_gate_too_is_decided_once(
    scripted: Model, tmp_path: Path, options: dict[str, str]
) -> None:
    callosum = [str(Path(sys.executable).with_name("callosum"))]
    home = {**os.environ, **environ(scripted.address, str(tmp_path)), "XDG_STATE_HOME": str(tmp_path / "state")}
    del home["CLAUDE_CONFIG_DIR"]
    subprocess.run([*callosum, "install", "claude-code", "--yes"], env=home, check=True, capture_output=True)
    sent: list[str] = []
    mails = mail("c1", "hi there")
    try:
        with LocalGate(tmp_path / "state/callosum") as gate:
            job = Job(gate, [[mails]], [Tool(_mail_to(sent))], options={"session": None, **options}, awaited=True)
            given = FRAMEWORK.options(job, scripted, str(tmp_path))
            given.setting_sources, given.env = ["user"], home
            asyncio.run(_drained(query(prompt=script(scripted, job, FRAMEWORK), options=given)))
            calls = [entry for entry in gate.entries() if entry.event is Event.INTERCEPT]
    finally:
        subprocess.run([*callosum, "stop"], env=home, check=True, capture_output=True)
    assert (sent, len(calls)) == ([], 2) if options else (["hi there"], 1)


async def test_a_call_whose_connection_is_closed_early_is_unknown(
    bench: Bench, scripted: Model, tmp_path: Path
) -> None:
    began = asyncio.Event()

    async def awaited(to: str, body: str) -> str:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    job = Job(bench.gate, [[mail("c1", "hi")]], [bench.mail(awaited=awaited)], awaited=True)
    prompt = script(scripted, job, FRAMEWORK)
    running = query(prompt=prompt, options=FRAMEWORK.options(job, scripted, str(tmp_path)))
    reading = asyncio.ensure_future(_drained(running))
    await asyncio.wait_for(began.wait(), 60)
    reading.cancel()
    await asyncio.wait([reading])
    assert bench.outcomes() == [Outcome.UNKNOWN]  # while the loop still runs: a server need not end first


def _mail_to(inbox: list[str]) -> Callable[..., str]:
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        inbox.append(body)
        return "sent"

    return send_email


async def _drained(running: Any) -> None:
    async for _ in running:
        pass


def test_options_of_a_program_that_installs_keep_hooks_of_their_own(bench: Bench) -> None:
    uninstall = install(bench.gate)
    try:
        own = callosum_hooks(bench.gate)
        assert ClaudeAgentOptions(hooks=own).hooks == own
        gated = ClaudeAgentOptions()
        assert gated.hooks is not None
        assert len(gated.hooks["PreToolUse"]) == 1
    finally:
        uninstall()
    assert ClaudeAgentOptions().hooks is None
