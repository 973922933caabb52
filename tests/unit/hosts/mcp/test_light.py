"""Test that a wrap loads nothing before the first call that would delay its server's start."""

import subprocess
import sys

HEAVY = "asyncio callosum.corpus callosum.gate callosum.rules callosum.stores http.client mcp pydantic re2 sqlite3 ssl typer urllib3"
MODULES = "callosum.hosts.mcp.wrap callosum.hosts.mcp.child callosum.hosts.mcp.proxy callosum.client.local callosum.client.client"


def test_wrapped_command_loads_neither_the_sdk_nor_the_gate() -> None:
    text = (
        f"import sys, {MODULES.replace(' ', ', ')}; print([name for name in '{HEAVY}'.split() if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
