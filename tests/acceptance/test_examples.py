"""Every example runs and prints what its page shows (for frameworks see ``tests/adapters/test_examples.py``)."""

import asyncio
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
STANDALONE = ("async_tool", "plain_function")
"""The examples that need no framework."""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", STANDALONE)
def test_example_runs_as_a_program(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "[Callosum] Conflict" in done.stdout


def test_a_plain_function_runs_once(tmp_path: Path) -> None:
    assert load("plain_function").main(str(tmp_path)) == ["heartbeat deleted acme-42"]


def test_an_async_tool_holds_its_lease_while_it_runs(tmp_path: Path) -> None:
    status = asyncio.run(load("async_tool").main(str(tmp_path)))
    assert [lock.instance for lock in status.locks] == ["mira/chat"]
