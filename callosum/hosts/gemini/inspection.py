"""Inspect Gemini CLI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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


class GeminiInspection(HostInspection):
    """Inspect the switches and transcripts of Gemini CLI."""

    def switched_off(self, here: UserContext, settings: Mapping[str, Any]) -> list[str]:
        """As in ``HostInspection``."""
        own = self.host.settings_path(here.home, here.environ)
        sentences = []
        project = self.host.settings_path(here.home, here.environ, here.folder)
        for path, content in {project: settings_in(project), own: settings}.items():
            hooks = content.get("hooksConfig")
            if not isinstance(hooks, Mapping):
                continue
            disabled = hooks.get("disabled")
            if hooks.get("enabled") is False:
                sentences.append(f"hooks are switched off by hooksConfig.enabled in {path}")
            if isinstance(disabled, list) and self.host.entry["name"] in disabled:
                sentences.append(f"the gate's hooks are switched off by hooksConfig.disabled in {path}")
        return sentences

    def transcripts(self, here: UserContext, since: float) -> TranscriptCalls:
        """As in ``HostInspection``. The hooks have no call ids, so these ids match nothing in the journal."""
        folder = self.host.settings_folder(here.home, here.environ) / "tmp"
        return read_all(newest(folder, "*/chats/*.json*", since), since, _calls_in)


def _calls_in(path: Path) -> Iterator[TranscriptCall]:
    """Yield the calls that succeeded. A failed call may have failed before its hook was called."""
    session = ""
    for line in _messages(path):
        session = str(line.get("sessionId") or session)
        calls = line.get("toolCalls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict) and call.get("status") == "success":
                id, tool = str(call.get("id")), str(call.get("name"))
                yield TranscriptCall(session=session, tool=tool, id=id, at=moment(call.get("timestamp")), ran=True)


def _messages(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file. For an older version's file, which is one object, yield it and its messages."""
    if path.suffix == ".jsonl":
        yield from lines_of(path)
        return
    whole = settings_in(path)
    yield whole
    messages = whole.get("messages")
    yield from (message for message in messages if isinstance(message, dict)) if isinstance(messages, list) else ()
