"""Test that the servers of a configuration are put behind the gate and restored, and how their wraps start."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from callosum.hosts.mcp.identity import NameSources
from callosum.hosts.mcp.install import SkippedServer, covered, installed, removed, skipped
from callosum.hosts.mcp.wrap import Wrap, judge_of
from callosum.model import Call
from callosum.settings import Settings

FILES = {"command": "npx", "args": ["-y", "server-filesystem", "/srv"], "env": {"A": "1"}, "disabled": False}
REMOTE = {
    "type": "http",
    "url": "https://example.com/mcp",
    "headers": {"Authorization": "Bearer ${TOKEN}", "X-Team": "red"},
    "env": {"Q": "1"},
}
ENTRIES: dict[str, Any] = {
    "args": FILES,
    "no args": {"command": "server"},
    "empty args": {"command": "server", "args": []},
    "odd order": {"args": ["a"], "note": 1, "command": "server"},
    "stdio": {"type": "stdio", "command": "server", "args": ["--", "--url", "x"]},
    "remote": REMOTE,
    "plain url": {"url": "http://localhost:1/mcp"},
    "no headers": {"url": "http://localhost:1/mcp", "headers": {}},
    "streamable": {"url": "http://localhost:1/mcp", "type": "streamable-http", "alwaysAllow": ["x"]},
    "named mcp": {"command": "mcp", "args": ["run", "mcp", "x"]},
    "sse": {"type": "sse", "url": "http://localhost:1/sse"},
    "socket": {"type": "ws", "url": "ws://localhost:1/mcp"},
    "nothing": {"disabled": True},
    "gate": {"command": "callosum", "args": ["mcp"]},
    "odd": 5,
    "odd args": {"command": "x", "args": "y"},
    "odd headers": {"url": "http://x", "headers": {"a": 1}},
    "both": {"command": "x", "url": "http://x"},
}


@pytest.mark.parametrize(
    "config",
    [
        {"first": 1, "mcpServers": ENTRIES, "last": [1.5, None]},
        {"inputs": [], "servers": ENTRIES},
        {"editor": {"a": 1}, "mcp": {"servers": ENTRIES, "more": 1}},
        {"mcpServers": []},
        {"mcp": 5},
        {},
    ],
)
def test_removing_restores_the_original(config: dict[str, Any]) -> None:
    before = json.dumps(config)
    there = installed(config)
    assert json.dumps(config) == before
    assert json.dumps(installed(there)) == json.dumps(there)
    assert json.dumps(removed(there)) == before
    assert json.dumps(removed(config)) == before


def test_wrapped_command_keeps_all_other_fields() -> None:
    found = installed({"mcpServers": {"files": FILES}})["mcpServers"]["files"]
    assert found == {
        "command": "callosum",
        "args": ["mcp", "--name", "files", "--", "npx", "-y", "server-filesystem", "/srv"],
        "env": {"A": "1"},
        "disabled": False,
    }
    assert list(found) == list(FILES)


def test_wrapped_url_keeps_its_secrets_out_of_the_arguments() -> None:
    found = installed({"mcpServers": {"web": REMOTE}}, command=("/opt/bin/callosum",))["mcpServers"]["web"]
    assert found["type"] == "stdio"
    assert found["command"] == "/opt/bin/callosum"
    assert found["args"][:5] == ["mcp", "--name", "web", "--url", "https://example.com/mcp"]
    assert "TOKEN" not in " ".join(found["args"])
    assert found["env"] == {
        "Q": "1",
        "CALLOSUM_MCP_HEADER_1_AUTHORIZATION": "Bearer ${TOKEN}",
        "CALLOSUM_MCP_HEADER_2_X_TEAM": "red",
    }
    assert "url" not in found
    assert "headers" not in found


def test_later_changes_stay() -> None:
    there = installed({"mcpServers": {"files": FILES, "web": REMOTE}})
    there["mcpServers"]["files"]["env"]["B"] = "2"
    there["mcpServers"]["web"]["env"]["R"] = "3"
    there["mcpServers"]["new"] = {"command": "x"}
    back = removed(there)["mcpServers"]
    assert back["files"]["env"] == {"A": "1", "B": "2"}
    assert back["web"]["env"] == {"Q": "1", "R": "3"}
    assert back["new"] == {"command": "x"}


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "/opt/x/callosum", "args": ["mcp", "--", "npx", "x"]},
        {"command": "python", "args": ["-m", "callosum.cli", "mcp", "--url", "http://x"]},
        {"command": "uvx", "args": ["callosum-protocol", "mcp", "--instance", "a", "--", "npx"]},
    ],
)
def test_manual_wrap_is_recognised(entry: dict[str, Any]) -> None:
    config = {"mcpServers": {"a": entry}}
    assert installed(config) == config
    assert covered(config) == {"a": True}
    assert covered(removed(config)) == {"a": False}


@pytest.mark.parametrize(
    "before",
    [
        ("/opt/x/callosum",),
        ("/opt/bin/python", "-m", "callosum.cli"),
        ("/opt/bin/python", "-I", "/opt/callosum/launch.py", "--import", "/home/ann/site"),
    ],
)
def test_entry_of_an_earlier_installation_is_updated(before: tuple[str, ...]) -> None:
    command = ("/usr/bin/python3", "-I", "/usr/lib/callosum/launch.py")
    config = {"mcpServers": {"files": FILES, "bare": {"command": "x"}, "web": REMOTE}}
    there = installed(config, before)
    assert installed(there, command) == installed(config, command)
    assert removed(installed(there, command)) == config


def test_ungated_server_is_listed_with_the_reason() -> None:
    assert skipped({"mcpServers": ENTRIES}) == [
        SkippedServer("sse", "it speaks the HTTP+SSE transport of 2024: use its Streamable HTTP address"),
        SkippedServer("socket", "its type is not known: ws"),
        SkippedServer("nothing", "it has neither a command nor a url"),
        SkippedServer("odd args", "its args are no list of strings"),
        SkippedServer("odd headers", "its headers are no texts"),
        SkippedServer("both", "it has both a command and an address"),
    ]
    found = covered(installed({"mcpServers": ENTRIES}))
    assert {name for name, is_covered in found.items() if not is_covered} == {
        "sse",
        "socket",
        "nothing",
        "odd args",
        "odd headers",
        "both",
    }


@pytest.mark.parametrize("over", [2, 4])
def test_rules_without_a_gate_follow_all_settings(tmp_path: Path, over: int) -> None:
    lines = {"force_push": over, "force_push_protected": over}
    settings = Settings(state=tmp_path / "state", shell=lines)
    wrap = Wrap(settings=settings, names=NameSources())
    call = Call("mira", "bash", {"command": "git push --force origin feature"})
    assert judge_of(wrap, call)[0] == over


def test_32_b4_what_decides_without_the_gate_is_imported_before_a_thread_starts(tmp_path: Path) -> None:
    text = (
        "import sys, threading; from pathlib import Path; from callosum.hosts.mcp import wrap, identity;"
        "from callosum.settings import Settings;"
        "made = wrap.Wrap(settings=Settings(state=Path(sys.argv[1])), names=identity.NameSources());"
        "threading.Thread.start = lambda self: print(*sys.modules);"
        "wrap._make_proxy(made, None, print, otherwise='x', cwd=None)"
    )
    done = subprocess.run([sys.executable, "-c", text, tmp_path], capture_output=True, text=True, check=True)
    assert {"callosum.rulebook", "callosum.gate.check", "callosum.client.client"} <= set(done.stdout.split())


HEAVY = "asyncio callosum.corpus callosum.gate callosum.rules callosum.stores http.client mcp pydantic re2 sqlite3 ssl typer urllib3"
MODULES = "callosum.hosts.mcp.wrap callosum.hosts.mcp.child callosum.hosts.mcp.proxy callosum.client.local callosum.client.client"


def test_wrapped_command_loads_neither_the_sdk_nor_the_gate() -> None:
    text = (
        f"import sys, {MODULES.replace(' ', ', ')}; print([name for name in '{HEAVY}'.split() if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
