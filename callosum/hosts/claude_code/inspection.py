"""Inspect Claude Code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from callosum.hosts.inspection import (
    HostInspection,
    TranscriptCall,
    TranscriptCalls,
    UserContext,
    lines_of,
    moment,
    newest,
    read_all,
    settings_in,
)

_LOCAL: Final = "settings.local.json"
_MANAGED: Final = (
    Path("/etc/claude-code/managed-settings.json"),
    Path("/Library/Application Support/ClaudeCode/managed-settings.json"),
)
_NEVER_RAN: Final = (
    "<tool_use_error>",  # no such tool or invalid input: no hook is called
    "PreToolUse:",
    "[Request interrupted by user",
    "The user doesn't want to",
)


class ClaudeCodeInspection(HostInspection):
    """Inspect the switches and transcripts of Claude Code."""

    def switched_off(self, here: UserContext, settings: Mapping[str, Any]) -> list[str]:
        """As in ``HostInspection``."""
        own = self.host.settings_path(here.home, here.environ)
        files = {own: settings, own.with_name(_LOCAL): None}
        files |= dict.fromkeys(here.folder / self.host.folder / name for name in (self.host.file, _LOCAL))
        files |= dict.fromkeys(_MANAGED)
        sentences = []
        for path, loaded in files.items():
            content = settings_in(path) if loaded is None else loaded
            if content.get("disableAllHooks") is True:
                sentences.append(f"all hooks are switched off by disableAllHooks in {path}")
            if path in _MANAGED and content.get("allowManagedHooksOnly") is True:
                sentences.append(f"only hooks of the administrator are called: allowManagedHooksOnly in {path}")
        return sentences

    def transcripts(self, here: UserContext, since: float) -> TranscriptCalls:
        """As in ``HostInspection``."""
        folder = self.host.settings_folder(here.home, here.environ) / self.host.transcripts
        return read_all(newest(folder, "**/*.jsonl", since), since, _calls_in)


def _calls_in(path: Path) -> Iterator[TranscriptCall]:
    calls: dict[str, TranscriptCall] = {}
    ran: dict[str, bool] = {}
    for line in lines_of(path):
        message = line.get("message")
        parts = message.get("content") if isinstance(message, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if not isinstance(part, dict):
                continue
            if part.get("type") == "tool_use" and line.get("type") == "assistant":
                id, tool = str(part.get("id")), str(part.get("name"))
                session, at = str(line.get("sessionId")), moment(line.get("timestamp"))
                calls[id] = TranscriptCall(session=session, tool=tool, id=id, at=at, ran=None)
            elif part.get("type") == "tool_result":
                ran[str(part.get("tool_use_id"))] = not _never_ran(part)
    for id, call in calls.items():
        if ran.get(id) is not False:
            yield TranscriptCall(session=call.session, tool=call.tool, id=id, at=call.at, ran=ran.get(id))


def _never_ran(result: Mapping[str, Any]) -> bool:
    content = result.get("content")
    if isinstance(content, list):
        content = content[0].get("text") if content and isinstance(content[0], dict) else None
    return result.get("is_error") is True and str(content).startswith(_NEVER_RAN)
