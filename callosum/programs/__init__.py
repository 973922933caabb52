"""List the programs that run agents, and recognise one by its process name and the variables it sets.

Each host for which Callosum can be installed has a description, which is a module of this package. Everything else
that depends on hosts is derived from ``HOSTS``: the rules' guard, the proof of a person, installation, checks, hooks.
"""

from __future__ import annotations

from callosum.programs.program import Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_DESCRIBED: Final = (
    "claude_code",
    "codex",
    "gemini",
    "openclaw",
)
"""Modules that contain the descriptions."""


def _host(module: str) -> Program:
    found: Program = __import__(f"{__name__}.{module}", fromlist=["HOST"]).HOST
    return found


HOSTS: Final = tuple(map(_host, _DESCRIBED))
"""Hosts that Callosum can be installed for."""
NAMED: Final = {host.name: host for host in HOSTS}
WITH_HOOKS: Final = {host.name: host for host in HOSTS if host.events}
"""Hosts that start a hook, by name."""
GUARDED: Final = tuple(dict.fromkeys(path.partition("/")[0] for host in HOSTS for path in host.guards))
"""Text that every spelling of a path to a host's settings contains."""
OTHERS: Final = ("opencode", "cursor-agent", "goose", "qwen", "aider", "copilot")
"""Programs that run agents and reach the gate only through MCP, or not at all."""

_NAMES: Final = frozenset((*OTHERS, *(name for host in HOSTS for name in (host.program, *host.also))))
_PREFIXES: Final = (*(prefix for host in HOSTS for prefix in host.variables), "CALLOSUM_SESSION")
_PROFILE: Final = frozenset[str]().union(*(host.profile for host in HOSTS))
_INTERPRETERS: Final = frozenset(("node", "nodejs", "bun", "deno", "python", "python3"))
_PARTS: Final = ("opencode", "cursor-agent", "qwen-code", *(part for host in HOSTS for part in host.scripts))
_SCRIPTS: Final = tuple(f"/{part}/" for part in _PARTS)
_MAX_ARGUMENTS: Final = 4
"""Number of leading arguments that are searched for an interpreter's script."""


def asking() -> list[str]:
    """Return the events in which hosts ask whether a tool may run."""
    return [*dict.fromkeys(host.asks for host in WITH_HOOKS.values())]


def tending() -> list[str]:
    """Return the events at which a session starts or receives a prompt."""
    return [*dict.fromkeys(event for host in WITH_HOOKS.values() for event in host.tends)]


def is_set_by_host(variable: str) -> bool:
    """Return True if only a program that runs agents sets a variable of this name."""
    return variable.startswith(_PREFIXES) and variable not in _PROFILE


def host_of_command(arguments: list[str]) -> str | None:
    """Return the name of the host that runs with these command-line arguments, or None if it is no known host."""
    if not arguments:
        return None
    executable = _file_name(arguments[0]).removesuffix(".exe").lstrip("-")
    if executable in _NAMES:
        return executable
    if executable.rstrip("0123456789.") in _INTERPRETERS:
        for argument in arguments[1:_MAX_ARGUMENTS]:
            script, path = _file_name(argument), f"/{argument.lower()}/"
            if script.removesuffix(".js").removesuffix(".mjs") in _NAMES or any(part in path for part in _SCRIPTS):
                return script
    return None


def _file_name(path: str) -> str:
    return path.rpartition("/")[2].lower()
