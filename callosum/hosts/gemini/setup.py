"""Where Gemini CLI keeps its hooks, and the entries that hold there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from callosum.hosts.entries import Group
from callosum.hosts.script import closed

HOST: Final = "gemini"
_EVENTS: Final = "SessionStart BeforeAgent BeforeTool AfterTool AfterAgent Notification SessionEnd".split()
"""Without ``PreCompress``, which comes before every request to the model."""
_OF_TOOLS: Final = frozenset(("BeforeTool", "AfterTool"))
_REPORTS: Final = frozenset(("Notification",))
"""Events that the host does not wait for. A call has no id, so its report must come before the session's next call."""
_SECONDS: Final = 20
HOOK: Final = "callosum"
"""The name of our hooks, by which Gemini CLI can switch them off."""


def settings_path(home: Path, environ: Mapping[str, str], project: Path | None = None) -> Path:
    """The user's settings file, or that of a project (whose hooks run where Gemini CLI trusts the folder)."""
    if project is not None:
        return project / ".gemini" / "settings.json"
    folder = environ.get("GEMINI_CLI_HOME")
    return (Path(folder) if folder else home) / ".gemini" / "settings.json"


def entries(script: str, *, bounded: bool = False) -> dict[str, Group]:
    """The entries by event. ``script``: the hook's path. Gemini CLI counts time in milliseconds.

    ``bounded``: the hook ends by itself, as ``script.closed`` has it.
    """
    return {event: _group(event, script, bounded=bounded) for event in _EVENTS}


def _group(event: str, script: str, *, bounded: bool) -> Group:
    hook: dict[str, Any] = {
        "type": "command",
        "name": HOOK,
        "command": closed(
            script, "gemini", _SECONDS, asks=event == "BeforeTool", reports=event in _REPORTS, bounded=bounded
        ),
        "timeout": (_SECONDS + 5) * 1000,
    }
    return {"matcher": "*", "hooks": [hook]} if event in _OF_TOOLS else {"hooks": [hook]}
