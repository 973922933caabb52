"""Where Codex CLI keeps its hooks, and the entries that hold there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from callosum.hosts.entries import Group
from callosum.hosts.script import closed

HOST: Final = "codex"
_EVENTS: Final = (
    "SessionStart UserPromptSubmit PreToolUse PostToolUse SubagentStart SubagentStop PreCompact PostCompact Stop "
    "Interrupt SessionEnd"
).split()
_OF_TOOLS: Final = frozenset(("PreToolUse", "PostToolUse"))
_REPORTS: Final = frozenset(("PostToolUse", "PreCompact", "PostCompact"))
"""Events that the host does not wait for: the end of a call, by its id, and compactions, which are journalled alone."""
_SECONDS: Final = 20


def settings_path(home: Path, environ: Mapping[str, str], project: Path | None = None) -> Path:
    """The user's hooks file, or that of a project (which Codex reads where it trusts the folder)."""
    if project is not None:
        return project / ".codex" / "hooks.json"
    folder = environ.get("CODEX_HOME")
    return (Path(folder) if folder else home / ".codex") / "hooks.json"


def entries(script: str, *, bounded: bool = False) -> dict[str, Group]:
    """The entries by event. ``script``: the hook's path. No key that Codex does not know: it would drop all.

    ``bounded``: the hook ends by itself, as ``script.closed`` has it.
    """
    return {event: _group(event, script, bounded=bounded) for event in _EVENTS}


def _group(event: str, script: str, *, bounded: bool) -> Group:
    hook: dict[str, Any] = {
        "type": "command",
        "command": closed(
            script, "codex", _SECONDS, asks=event == "PreToolUse", reports=event in _REPORTS, bounded=bounded
        ),
        "timeout": _SECONDS + 5,
    }
    return {"matcher": ".*", "hooks": [hook]} if event in _OF_TOOLS else {"hooks": [hook]}
