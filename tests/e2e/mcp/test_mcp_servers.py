"""Test real MCP servers behind the gate: the same tools and answers, and two sessions in conflict."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from tests.e2e.mcp.conftest import RealServer
from tests.support.serving import serving

pytestmark = pytest.mark.e2e
NAMES = ("filesystem", "memory", "everything", "thinking", "git", "fetch", "time")
ROOT = Path(__file__).resolve().parents[3]
each = pytest.mark.parametrize("name", NAMES)
both = pytest.mark.parametrize("mode", ["auto", "legacy"])


def client(real: RealServer, mode: str, gate: str = "", session: str = "a") -> Client:
    """Return a client of the server, behind the gate at a URL if one is given."""
    command = list(real.command)
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **real.environ}
    if gate:
        wrap = [sys.executable, "-m", "callosum.cli", "mcp", "--name", real.name, "--instance", "mira"]
        command = [*wrap, "--session", session, "--", *command]
        environ |= {"PYTHONPATH": str(ROOT), "CALLOSUM_URL": gate}
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=environ)
    return Client(stdio_client(parameters), mode=mode)


async def received(real: RealServer, mode: str, gate: str = "") -> list[Any]:
    """Return what a client receives from a server: its tools and its answers."""
    found: list[Any] = []
    async with client(real, mode, gate) as one:
        found.append([tool.model_dump(mode="json") for tool in (await one.list_tools()).tools])
        for tool, arguments in real.calls:
            try:
                found.append((await one.call_tool(tool, arguments)).model_dump(mode="json"))
            except MCPError as error:
                found.append(f"{type(error).__name__}: {error}")
    return found


@each
@both
def test_tools_and_answers_are_the_same_with_and_without_the_gate(
    real: Callable[[str], RealServer], tmp_path: Path, name: str, mode: str
) -> None:
    server = real(name)
    with serving(tmp_path / "state") as gate:
        without, behind = asyncio.run(_both(server, mode, gate.address))
        assert behind == without
        assert len(without[0]) > 0
        entries = gate.get("/journal?limit=1000")["entries"]
        asked = [entry["tool"] for entry in entries if entry["event"] == "intercept"]
        assert asked == [f"mcp__{name}__{tool}" for tool, _ in server.calls]
        assert len([entry for entry in entries if entry["event"] == "complete"]) == len(asked)


async def _both(server: RealServer, mode: str, gate: str) -> tuple[list[Any], list[Any]]:
    return await received(server, mode), await received(server, mode, gate)


@each
@both
def test_one_of_two_sessions_is_refused_and_the_others_call_is_done(
    real: Callable[[str], RealServer], tmp_path: Path, name: str, mode: str
) -> None:
    server = real(name)
    tool, arguments = server.shared
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    rule = {"name": "shared", "tier": 4, "tool": f"mcp__{name}__{tool}", "contextKey": "shared:thing"}
    (state / "tiers.json").write_text(json.dumps({"rules": [rule]}))

    async def meet(gate: str) -> tuple[Any, Any]:
        async with client(server, mode, gate, "a") as one, client(server, mode, gate, "b") as other:
            return await one.call_tool(tool, arguments), await other.call_tool(tool, arguments)

    with serving(state) as gate:
        done, refused = asyncio.run(meet(gate.address))
        assert not done.is_error, done
        assert refused.is_error
        assert refused.content[0].text.startswith("[Callosum] Conflict: ")
        assert '"shared:thing"' in refused.content[0].text
        assert "Tier 4 action blocked." in refused.content[0].text
        entries = gate.get("/journal?limit=1000")["entries"]
        decided = [(entry["session"], entry["verdict"]) for entry in entries if entry["event"] == "intercept"]
        assert decided == [("mira/a", "allow"), ("mira/b", "block")]
        assert [entry["outcome"] for entry in entries if entry["event"] == "complete"] == ["done"]


@both
def test_write_over_anothers_change_pauses_without_any_rule(
    real: Callable[[str], RealServer], tmp_path: Path, mode: str
) -> None:
    server = real("filesystem")
    file = tmp_path / "work" / "a.txt"

    async def meet(gate: str) -> list[Any]:
        async with client(server, mode, gate, "a") as one, client(server, mode, gate, "b") as other:
            found = [await other.call_tool("read_text_file", {"path": str(file)})]
            found.append(await one.call_tool("write_file", {"path": str(file), "content": "by a\n"}))
            mine = {"path": str(file), "content": "by b\n"}
            found.append(await other.call_tool("write_file", mine))
            assert file.read_text() == "by a\n"
            found.append(await other.call_tool("read_text_file", {"path": str(file)}))
            found.append(await other.call_tool("write_file", mine))
            return found

    with serving(tmp_path / "state") as gate:
        results = asyncio.run(meet(gate.address))
    assert [bool(result.is_error) for result in results] == [False, False, True, False, False]
    assert "mira/a changed" in results[2].content[0].text
    assert "Read it again" in results[2].content[0].text
    assert file.read_text() == "by b\n"


@both
def test_two_writers_of_one_file_keep_both_changes_and_are_notified(
    real: Callable[[str], RealServer], tmp_path: Path, mode: str
) -> None:
    server = real("filesystem")
    file = tmp_path / "work" / "a.txt"
    lines = [f"line {number}\n" for number in range(20)]
    file.write_text("".join(lines))

    def changed(*numbers: int) -> str:
        return "".join([f"LINE {n}\n" if n in numbers else line for n, line in enumerate(lines)])

    async def meet(gate: str) -> tuple[Any, Any]:
        path = {"path": str(file)}
        async with client(server, mode, gate, "a") as one, client(server, mode, gate, "b") as other:
            for reader in (one, other):
                assert not (await reader.call_tool("read_text_file", path)).is_error
            assert not (await one.call_tool("write_file", {**path, "content": changed(2)})).is_error
            merged = await other.call_tool("write_file", {**path, "content": changed(15)})
            assert file.read_text() == changed(2, 15)
            return merged, await one.call_tool("write_file", {**path, "content": changed(2, 9)})

    with serving(tmp_path / "state", "--socket", str(tmp_path / "socket")) as gate:
        merged, told = asyncio.run(meet(gate.address))
    assert not merged.is_error, merged
    assert "merged" in merged.content[-1].text
    assert "+LINE 2" in merged.content[-1].text
    assert "mira/b" in told.content[-1].text
    assert "callosum merges show" in told.content[-1].text
    assert file.read_text() == changed(2, 9, 15), "the third write is merged too"


def test_without_the_gate_reads_continue_and_a_risky_call_is_blocked(
    real: Callable[[str], RealServer], tmp_path: Path
) -> None:
    server = real("filesystem")
    file = str(tmp_path / "work" / "a.txt")

    async def go_on(gate: Any) -> list[Any]:
        async with client(server, "auto", gate.address) as one:
            found = [await one.call_tool("read_text_file", {"path": file})]
            gate.kill()
            found.append(await one.call_tool("read_text_file", {"path": file}))
            found.append(await one.call_tool("move_file", {"source": file, "destination": f"{file}.old"}))
            return found

    with serving(tmp_path / "state") as gate:
        results = asyncio.run(go_on(gate))
    assert [bool(result.is_error) for result in results] == [False, False, True]
    assert "is unreachable" in results[2].content[0].text
    assert Path(file).exists()
