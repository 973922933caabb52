"""Where Claude Code keeps its hooks, and the entries that hold there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from callosum.hosts.claude_code.hook import LOOKS
from callosum.hosts.entries import MARK, Group, ours
from callosum.hosts.script import HERE, REPORT

OLDEST: Final = (2, 1, 295)
"""From this version on ``onFailure: "block"`` holds; older ones ignore it and run the tool."""
HOST: Final = "claude-code"
_EVENTS: Final = (
    "SessionStart UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure PostToolBatch PermissionDenied "
    "SubagentStart SubagentStop PreCompact PostCompact Stop StopFailure SessionEnd ConfigChange"
).split()
_CLOSED: Final = frozenset(("PreToolUse", "ConfigChange"))
"""Where a hook that fails must stop what it was asked about."""
_REPORTS: Final = ("PostToolBatch", "PermissionDenied", "PreCompact", "PostCompact")
"""Events that the host does not wait for. A batch and a denial name each call by its id, so they may arrive after the
session's next call; compactions are journalled alone. The report of a call that is no look is waited for, and so comes
before its batch. What settles a session (``Stop``) is waited for: it must not settle the calls after it."""
_WORDS: Final = {**dict.fromkeys(_REPORTS, (REPORT,)), "ConfigChange": (HERE,)}
"""What the hook is told beside the host."""
_MATCHERS: Final = {
    "PreToolUse": "*",
    "PostToolUse": f"^(?!({'|'.join(sorted(LOOKS))})$)",
    "PostToolUseFailure": "*",
}
"""Of a look, whose end changes nothing, the batch tells enough: a hook less for most calls."""
_NOT_BY_HTTP: Final = frozenset(("SessionStart", "ConfigChange"))
"""What Claude Code calls no HTTP hook for, and what only a command can refuse."""
_SECONDS: Final = 20
_ENDPOINT: Final = "/hooks/claude-code"
_USUAL: Final[Mapping[str, str]] = {}


def settings_path(home: Path, environ: Mapping[str, str], project: Path | None = None) -> Path:
    """The user's settings file, or that of a project."""
    if project is not None:
        return project / ".claude" / "settings.json"
    folder = environ.get("CLAUDE_CONFIG_DIR")
    return (Path(folder) if folder else home / ".claude") / "settings.json"


def entries(script: str, url: str | None = None, names: Mapping[str, str] = _USUAL) -> dict[str, Group]:
    """The entries by event. ``script``: the hook script's path. ``url``: of a server, for HTTP hooks.

    ``names``: as ``names_of`` has them, for HTTP hooks; the script says them by itself. HTTP hooks cost less a call,
    but a server that is down then stops every tool, reading too.
    """
    address = None if url is None else f"{url}{_ENDPOINT}?{urlencode({'via': MARK, **names})}"
    return {event: _group(event, script, address) for event in _EVENTS}


def wanted(settings: Mapping[str, Any], script: str, names: Mapping[str, str] = _USUAL) -> dict[str, Group]:
    """The entries as they should be in these settings of the host's: over HTTP where they are so already."""
    for hook in ours(settings, "PreToolUse"):
        if hook.get("type") == "http":
            return entries(script, str(hook.get("url")).partition(_ENDPOINT)[0], names)
    return entries(script)


def _group(event: str, script: str, address: str | None) -> Group:
    hook: dict[str, Any]
    if address is not None and event not in _NOT_BY_HTTP:
        hook = {"type": "http", "url": address}
    else:
        hook = {"type": "command", "command": script, "args": ["claude-code", *_WORDS.get(event, ())]}
    hook["timeout"] = _SECONDS
    if event in _CLOSED:
        hook["onFailure"] = "block"
    matcher = _MATCHERS.get(event)
    return {"hooks": [hook]} if matcher is None else {"matcher": matcher, "hooks": [hook]}
