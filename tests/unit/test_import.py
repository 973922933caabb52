"""``import callosum`` stays light: frameworks and drivers are imported inside their own modules only."""

import subprocess
import sys

import pytest

FRAMEWORKS = (
    "agent_framework", "agent_hooks", "agents", "agno", "claude_agent_sdk", "crewai", "fastmcp", "google.adk",
    "langchain", "langchain_core", "langgraph", "llama_index", "mcp", "pydantic", "pydantic_ai", "smolagents",
    "strands",
)  # fmt: skip
HEAVY = ("aiosmtpd", "asyncio", "jsonschema", "platformdirs", "psutil", "redis", "rich", "typer")


@pytest.mark.parametrize("module", ["callosum", "callosum.gate", "callosum.rules"])
def test_import_loads_no_heavy_module(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {*HEAVY, *FRAMEWORKS} & set(done.stdout.split())


def test_importing_the_adapters_core_loads_no_framework() -> None:
    code = "import sys, callosum.adapters.core; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not set(FRAMEWORKS) & set(done.stdout.split())


def test_naming_the_package_loads_none_of_its_modules() -> None:
    code = "import sys, callosum; print(*(name for name in sys.modules if name.startswith('callosum')))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["callosum"]


def test_every_public_name_is_there() -> None:
    import callosum  # noqa: PLC0415 - the module under test

    assert all(hasattr(callosum, name) for name in callosum.__all__)
    assert sorted(callosum.__all__) == callosum.__all__
