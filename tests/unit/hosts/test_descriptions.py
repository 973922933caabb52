"""Test that a host is one description and that nothing else in the package names it."""

import re
from pathlib import Path
from typing import Final

import pytest

import callosum
from callosum.hosts.adapters import code_of
from callosum.programs import HOSTS
from callosum.programs.program import Program

PACKAGE: Final = Path(callosum.__file__).parent
MODELS: Final = "names a family of models, or who makes it, not the host that is called after it"
FRAMEWORK: Final = "names the Agent SDK, a framework that is called after the host that it contains"
ALLOWED: Final = {
    "programs/__init__.py": "the one line by which a description is known",
    "client/fallback.py": "says whose tools stand in the table that clients without a description have too",
    "adapters/__init__.py": FRAMEWORK, "adapters/installing.py": FRAMEWORK,
    "adapters/claude_agent_sdk.py": FRAMEWORK, "corpus/events.py": MODELS, "telemetry/metrics.py": MODELS,
}  # fmt: skip
SOURCES: Final = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".sh", ".c", ".h"))


def module(host: Program) -> str:
    return type(host).__module__.rpartition(".")[2]


def naming(host: Program) -> set[str]:
    """Return the files that name a host, except its own."""
    names = re.compile("|".join(map(re.escape, (host.program, host.name, module(host)))), re.IGNORECASE)
    found = {path.relative_to(PACKAGE) for path in SOURCES if names.search(path.read_text("utf-8"))}
    own = (Path("programs", f"{module(host)}.py"), Path("hosts", module(host)))
    return {path.as_posix() for path in found if not any(path.is_relative_to(one) for one in own)}


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_only_a_hosts_own_code_names_it(host: Program) -> None:
    assert naming(host) - {*ALLOWED} == set()


def test_every_exception_is_needed() -> None:
    assert set().union(*map(naming, HOSTS)) == {*ALLOWED}


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_description_guards_its_settings_and_names_existing_code(host: Program) -> None:
    settings = host.settings_path(Path("/home/ann"), {}).as_posix()
    assert any(settings.endswith(f"/{guard}") for guard in host.guards)
    for where in (host.hooks, host.checks, host.site, host.transcript):
        assert not where or callable(code_of(where))
    assert not host.transcript or host.transcripts
    assert all(variable.startswith(host.variables) for variable in host.profile)
    if host.tells_refusals:
        assert host.transcript_of("s1", None) != host.transcript_of("s1", "a1")
