"""``callosum doctor --python``: the bypasses of the gate in a program, read from its source alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from callosum.adapters import inspecting
from callosum.adapters.inspecting import Spot, inspect
from callosum.errors import ConfigError

IMPORTS = """
from agents import Agent, WebSearchTool, function_tool
from callosum.adapters import install
from callosum.adapters.langchain import CallosumMiddleware
from callosum.adapters.openai_agents import gate_agent
from langchain.agents import create_agent
from langchain_core.tools import StructuredTool, tool
from llama_index.core.agent.workflow import AgentWorkflow, CodeActAgent, FunctionAgent
from llama_index.core.tools import FunctionTool
from smolagents import CodeAgent
import callosum.adapters.langchain as ours, langgraph.prebuilt
"""


def spots(folder: Path, source: str) -> list[tuple[str, bool]]:
    """The places of a program with these lines, by sort and whether they are gated."""
    (folder / "program.py").write_text(IMPORTS + source)
    return [(spot.sort, spot.gated) for spot in inspect("program.py", folder)]


@pytest.mark.parametrize(
    ("source", "gated"),
    [
        ("create_agent(m, tools=[])", False),
        ("create_agent(m, middleware=[CallosumMiddleware(gate)])", True),
        ("create_agent(m, middleware=[ours.CallosumMiddleware(gate)])", True),
        ("mine = [Other(), CallosumMiddleware(gate)]\ncreate_agent(m, middleware=mine)", True),
        ("def mine():\n    return CallosumMiddleware(gate)\ncreate_agent(m, middleware=[mine()])", True),
        ("mine = mine + mine\ncreate_agent(m, middleware=mine)", False),
        ("langgraph.prebuilt.ToolNode(tools, **CallosumMiddleware(gate).wrappers())", True),
        ("langgraph.prebuilt.ToolNode(tools)", False),
        ("Agent(name='a')", False),
        ("gate_agent(Agent(name='a'), gate)", True),
        ("a = Agent(name='a')\nb = gate_agent(a, gate)", True),
        ("a = Agent(name='a')\nb = gate_agent(c, gate)", False),
        ("a = Agent(name='a', hooks=CallosumMiddleware(gate))", False),  # another framework's adapter
        ("install(gate)\ncreate_agent(m)", True),
        ("create_agent(m)\ninstall(gate)", False),  # that one is built already
        ("def main():\n    create_agent(m)\ninstall(gate)", True),
        ("Agent(name='a')\ninstall(gate)", True),  # this framework is gated call by call
        ("ours.install(gate)\nAgent(name='a')", False),
        ("FunctionAgent(tools=[])", False),
        ("AgentWorkflow(agents=[])\ninstall(gate)", True),
    ],
)
def test_arguments_of_an_agent_show_whether_it_is_gated(source: str, gated: bool, tmp_path: Path) -> None:
    assert spots(tmp_path, source) == [("agent", gated)]


@pytest.mark.parametrize(
    ("source", "sort"),
    [
        ("x = WebSearchTool()", "hosted"),
        ("@tool\ndef send(): ...\nsend.invoke({})", "direct"),
        ("@function_tool(strict=False)\ndef send(): ...\nawait_me = send.on_invoke_tool(c, '{}')", "direct"),
        ("send = StructuredTool.from_function(f)\nsend.run({})", "direct"),
        ("StructuredTool.from_function(f).invoke({})", "direct"),
        ("send = FunctionTool.from_defaults(f)\nsend.call(to='a')", "direct"),
    ],
)
def test_a_bypass_is_named(source: str, sort: str, tmp_path: Path) -> None:
    assert spots(tmp_path, source) == [(sort, False)]


def test_other_bypasses_are_listed_with_their_agent(tmp_path: Path) -> None:
    assert spots(tmp_path, "CodeAgent(tools=[])") == [("agent", False), ("code", False)]
    assert spots(tmp_path, "CodeActAgent(f, tools=[])") == [("agent", False), ("code", False)]
    found = spots(tmp_path, "create_agent(m, tools=[{'type': 'web_search'}], middleware=[CallosumMiddleware(g)])")
    assert found == [("agent", True), ("hosted", False)]


def test_functions_that_are_no_tools_may_be_run(tmp_path: Path) -> None:
    assert spots(tmp_path, "import subprocess\nsubprocess.run(['ls'])\nagent = f()\nagent.invoke({})") == []


def test_imports_are_followed_to_the_programs_own_files(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('must never run')")
    (package / "gating.py").write_text("from callosum.adapters.langchain import CallosumMiddleware as M\nmine = [M(1)]")
    (package / "agents.py").write_text(
        "from langchain.agents import create_agent as make\nfrom .gating import mine\nmake(1, middleware=mine)\nmake(2)"
    )
    (package / "app.py").write_text("from shop import agents\nfrom shop.nowhere import nothing\n")
    expected = [("agents.py", 3, True), ("agents.py", 4, False)]
    for program in ("shop.app", "shop", "shop/app.py"):
        found = [(Path(spot.file).name, spot.line, spot.gated) for spot in inspect(program, tmp_path)]
        assert found == expected, program


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (b"def broken(:\n", "invalid syntax"),
        (b"x = '\xff'\n", "utf-8"),
        (b"x = 1\0\n", "null"),
        (b"(" * 5_000 + b")" * 5_000, "nested"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_named(source: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_bytes(source)
    (spot,) = inspect("program.py", tmp_path)
    assert isinstance(spot, Spot)
    assert (spot.sort, spot.gated) == ("unread", False)
    assert why in spot.why


@pytest.mark.parametrize("program", ["nothing.py", "no.such.module", "..", "json..decoder", "", "sys", "a\0b"])
def test_missing_file_is_an_error_that_names_it(program: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a file or a module|no Python source") as raised:
        inspect(program, tmp_path / "empty")
    assert program in str(raised.value)


def test_every_agent_belongs_to_an_existing_or_planned_adapter() -> None:
    folder = Path(inspecting.__file__).parent
    adapters = {path.stem for path in folder.glob("*.py")} - {"__init__", "core", "installing", "inspecting", "lost"}
    assert adapters - {"agent_hooks", "fastmcp"} <= inspecting.AGENTS.keys()


def test_the_command_exits_with_1_and_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(IMPORTS + "raise SystemExit(7)\nAgent(name='a', tools=[send])")
    command = [sys.executable, "-m", "callosum.cli", "doctor", "--python", "program.py"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert shown.returncode == 1
    assert "agents.Agent with send is NOT gated" in shown.stdout
    told = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    (finding,) = json.loads(told.stdout)["findings"]
    assert (finding["check"], finding["level"]) == ("program.py:13", "wrong")


def test_program_too_large_to_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspecting, "LARGEST", 3)
    for number in range(5):
        (tmp_path / f"a{number}.py").write_text("")
    hidden = tmp_path / ".venv" / "lib"
    hidden.mkdir(parents=True)
    (hidden / "agent.py").write_text(IMPORTS + "Agent(name='a', tools=[send])")
    (spot,) = inspecting.inspect(".", tmp_path)
    assert (spot.sort, spot.gated, "2 more files are not read" in spot.why) == ("unread", False, True)
    monkeypatch.setattr(inspecting, "LARGEST", 5)
    assert inspecting.inspect(".", tmp_path) == []
