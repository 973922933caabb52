"""The programs that run agents: how to recognise one by its process name and by the variables it sets.

One table for everything that has to know them: the checks of each host (``callosum.hosts``), the proof of a person
(``callosum.person``).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Program(NamedTuple):
    """A program that runs agents.

    ``variables`` are prefixes of the environment variables that it sets for the processes it starts. ``settings`` are
    variables with such a prefix that people put into their own shell profile: they prove nothing.
    """

    name: str
    """The file name of its executable, or of the script that an interpreter runs."""
    title: str = ""
    package: str = ""
    variables: tuple[str, ...] = ()
    settings: frozenset[str] = frozenset()


CLAUDE_CODE: Final = Program(
    "claude",
    "Claude Code",
    "@anthropic-ai/claude-code",
    ("CLAUDECODE", "CLAUDE_CODE"),
    frozenset(
        "CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_USE_VERTEX CLAUDE_CODE_MAX_OUTPUT_TOKENS "
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".split()
    ),
)
CODEX: Final = Program("codex", "Codex CLI", "@openai/codex", ("CODEX_",), frozenset(("CODEX_HOME",)))
GEMINI: Final = Program("gemini", "Gemini CLI", "@google/gemini-cli", ("GEMINI_CLI",), frozenset(("GEMINI_CLI_HOME",)))
OPENCLAW: Final = Program(
    "openclaw",
    "OpenClaw",
    "openclaw",
    ("OPENCLAW_",),
    frozenset(("OPENCLAW_HOME", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH")),
)
GATED: Final = (CLAUDE_CODE, CODEX, GEMINI, OPENCLAW)
"""The hosts that Callosum can be installed for."""
OTHERS: Final = tuple(
    Program(name) for name in "openclaw-gateway opencode cursor-agent goose qwen aider copilot".split()
)
"""Programs that run agents and call the gate through MCP or not at all."""

_NAMES: Final = frozenset(program.name for program in (*GATED, *OTHERS))
_PREFIXES: Final = (*(prefix for program in GATED for prefix in program.variables), "CALLOSUM_SESSION")
_SETTINGS: Final = frozenset().union(*(program.settings for program in GATED))
_INTERPRETERS: Final = frozenset("node nodejs bun deno python python3".split())
_SCRIPT: Final = re.compile(
    r"(?:^|/)(?:claude-code|@openai/codex|codex-cli|gemini-cli|openclaw|opencode|cursor-agent|qwen-code)(?:/|$)"
)
_MAX_ARGUMENTS: Final = 4
"""Number of leading arguments in which an interpreter's script is looked for."""


def is_set_by_host(variable: str) -> bool:
    """Return True if only a program that runs agents sets a variable of this name."""
    return variable.startswith(_PREFIXES) and variable not in _SETTINGS


def host_of_command(arguments: list[str]) -> str | None:
    """Return the name of the host that runs with these command-line arguments, or None if it is no known host."""
    if not arguments:
        return None
    executable = _file_name(arguments[0]).removesuffix(".exe").lstrip("-")
    if executable in _NAMES:
        return executable
    if executable.rstrip("0123456789.") in _INTERPRETERS:
        for argument in arguments[1:_MAX_ARGUMENTS]:
            script = _file_name(argument)
            if script.removesuffix(".js").removesuffix(".mjs") in _NAMES or _SCRIPT.search(argument.lower()):
                return script
    return None


def _file_name(path: str) -> str:
    return path.rpartition("/")[2].lower()
