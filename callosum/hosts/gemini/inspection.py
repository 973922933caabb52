"""What there is to know of Gemini CLI to look it over."""

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
    """As ``HostInspection``."""

    def switched_off(self, here: UserContext, settings: Mapping[str, Any]) -> list[str]:
        """As in ``HostInspection``."""
        own = self.host.settings_path(here.home, here.environ)
        found = []
        project = self.host.settings_path(here.home, here.environ, here.folder)
        for path, said in {project: settings_in(project), own: settings}.items():
            hooks = said.get("hooksConfig")
            if not isinstance(hooks, Mapping):
                continue
            disabled = hooks.get("disabled")
            if hooks.get("enabled") is False:
                found.append(f"hooks are switched off by hooksConfig.enabled in {path}")
            if isinstance(disabled, list) and self.host.entry["name"] in disabled:
                found.append(f"the gate's hooks are switched off by hooksConfig.disabled in {path}")
        return found

    def transcripts(self, here: UserContext, since: float) -> TranscriptCalls:
        """As in ``HostInspection``. Its hooks have no ids of calls, so neither have these."""
        folder = self.host.settings_folder(here.home, here.environ) / "tmp"
        return read_all(newest(folder, "*/chats/*.json*", since), since, _calls_in)


def _calls_in(path: Path) -> Iterator[TranscriptCall]:
    """Calls that went well. One that did not may have failed before its hook was called."""
    session = ""
    for line in _messages(path):
        session = str(line.get("sessionId") or session)
        calls = line.get("toolCalls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict) and call.get("status") == "success":
                id, tool = str(call.get("id")), str(call.get("name"))
                yield TranscriptCall(session=session, tool=tool, id=id, at=moment(call.get("timestamp")), ran=True)


def _messages(path: Path) -> Iterator[dict[str, Any]]:
    """The lines; of an older version's file, which is one object, that and its messages."""
    if path.suffix == ".jsonl":
        yield from lines_of(path)
        return
    whole = settings_in(path)
    yield whole
    messages = whole.get("messages")
    yield from (message for message in messages if isinstance(message, dict)) if isinstance(messages, list) else ()
