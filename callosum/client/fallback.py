"""Know the highest tier a tool can have, for deciding while the gate is unreachable.

The table is a file written by the gate, ``fallback.json`` in the state folder, or is fetched from the gate: ``{"tools":
{"Read": 0, "message": 3}}``, tool name and highest tier. A tool missing from it counts as tier 3, and so does a shell
whatever the table says. Until a table exists, the hosts' own read-only tools count as 0 and every other tool as 3.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

FILE: Final = "fallback.json"
"""File name of the table in the state folder."""
UNKNOWN: Final = 3
"""Tier of a tool that is missing from the table."""
MAX_SIZE: Final = 4_000_000
"""Maximum size of a table, in bytes."""
READS: Final = dict.fromkeys(
    "BashOutput Glob Grep LS NotebookRead Read TaskOutput TodoRead WebFetch WebSearch agents_list find glob "
    "google_web_search grep list_directory ls memory_get memory_search read read_file search_file_content "
    "session_status sessions_history sessions_list tool_describe tool_search web_fetch web_search".split(),
    0,
)
"""The table until the gate provides one: the read-only tools of Claude Code, Codex, Gemini CLI and OpenClaw.

The JavaScript clients hold the same list.
"""
SHELLS: Final = frozenset(
    "bash bashexec bashtool cmd cmdexe commandexec exec execbash execcommand execshell executebash executecommand "
    "executeshell executeshellcommand fish localshell powershell pwsh runbash runcmd runcommand runcommandline "
    "runinterminal runpowershell runshell runshellcommand runterminal runterminalcmd runterminalcommand sh shell "
    "shellcommand shellexec shelltool ssh terminal terminalcommand terminalexec zsh".split()
)
"""Tools that run any command they are given: the last part of their names, in lower case, without separators between
the words. The JavaScript clients hold the same list.
"""


def runs_commands(tool: str) -> bool:
    """Return whether the name belongs to a tool that runs any command, as ``mcp__box__Run-Command`` does."""
    for mark in ".:/":
        tool = tool.replace(mark, "__")
    last = next((part for part in reversed(tool.split("__")) if part), "")
    return "".join(last.lower().replace("_", " ").replace("-", " ").split()) in SHELLS


def tier_of(table: Mapping[str, int], tool: str, params: Mapping[str, Any] | None = None) -> int:
    """Return the highest tier that a call of ``tool`` can have.

    ``params._tier`` can raise it, as at the gate. A ``tool`` that is not a string counts as unknown.
    """
    if not isinstance(tool, str):
        return UNKNOWN
    name = tool.strip()
    tier = table.get(tool, table.get(name, UNKNOWN))
    if runs_commands(name):
        tier = max(tier, UNKNOWN)
    said = params.get("_tier") if isinstance(params, Mapping) else None
    return tier if said is None else max(tier, _read_tier(said))


def _read_tier(said: object) -> int:
    """Read ``_tier`` as the rules do: round a fraction up; anything that is not a number counts as 0."""
    if isinstance(said, str) and len(said) <= 8 and said.strip().isdecimal():
        said = int(said)
    if isinstance(said, bool) or not isinstance(said, int | float) or not said >= 0:
        return 0
    return 4 if said > 4 else -int(-said // 1)


def read_table(content: object) -> dict[str, int]:
    """Check a table read from JSON, ``{"tools": {name: tier}}``. Raises ``ValueError``."""
    tools = content.get("tools") if isinstance(content, dict) else None
    if not isinstance(tools, dict):
        raise ValueError('expected {"tools": {name: tier}}')  # noqa: TRY004 - a fault of the file
    for name, tier in tools.items():
        if type(tier) is not int or not 0 <= tier <= 4:
            raise ValueError(f"expected a tier from 0 to 4 for {str(name)[:100]!r}")
    return tools


def load_table(path: str | os.PathLike[str]) -> dict[str, int]:
    """Read the table from its file. Raises ``ValueError`` or ``OSError``."""
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs 5 ms of a hook's start
        written = file.read(MAX_SIZE + 1)
    if len(written) > MAX_SIZE:
        raise ValueError(f"longer than {MAX_SIZE} bytes")
    try:
        return read_table(json.loads(written))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def write_table(path: str | os.PathLike[str], tools: Mapping[str, int]) -> None:
    """Replace the file. Raises ``OSError``."""
    fresh = f"{os.fspath(path)}.{os.getpid()}"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump({"tools": dict(sorted(tools.items()))}, file, indent=2, ensure_ascii=False)
        file.write("\n")
    os.replace(fresh, path)  # noqa: PTH105


class TierTable:
    """The table in force: the given one, else the file in the state folder, else the one fetched from the gate.

    ``given`` is a table or the path of one, ``folder`` the state folder; either may be None. A file is read each time
    it is needed, so it may change.
    """

    def __init__(self, given: Mapping[str, int] | str | os.PathLike[str] | None, folder: str | None) -> None:
        self._given = read_table({"tools": dict(given)}) if isinstance(given, Mapping) else None
        self._path: str | os.PathLike[str] | None = None
        if given is not None and not isinstance(given, Mapping):
            self._path = given
        elif given is None and folder is not None:
            self._path = os.path.join(folder, FILE)  # noqa: PTH118
        self._fetched: dict[str, int] | None = None

    def tier(self, tool: str, params: Mapping[str, Any] | None = None) -> int:
        """Return the highest tier as ``tier_of`` does; without any table, ``READS`` applies."""
        return tier_of(self._current(), tool, params)

    def wanted(self) -> bool:
        """Return whether a table from the gate would be used."""
        return self._given is None and (self._path is None or not os.path.exists(self._path))  # noqa: PTH110

    def learn(self, content: object) -> None:
        """Store the gate's table. Raises ``ValueError`` and keeps the previous table if it is malformed."""
        self._fetched = read_table(content)

    def _current(self) -> Mapping[str, int]:
        if self._given is not None:
            return self._given
        if self._path is not None:
            try:
                return load_table(self._path)
            except FileNotFoundError:
                pass
            except (OSError, ValueError) as error:
                import logging  # noqa: PLC0415 - takes a hook process as long as all else here

                logging.getLogger("callosum").warning("%s cannot be used: %s", os.fspath(self._path), error)
        return self._fetched if self._fetched is not None else READS
