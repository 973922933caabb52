"""Read the parts of Gemini CLI's hooks that differ from those of other hosts.

There are no call ids. A report finds its call by tool and params, so two equal calls at the same time cannot be
distinguished. Information for the model before a tool runs reaches it with the tool's result. The host asks the gate
before it asks the user: a call that the user then rejects has no report and is settled at the end of the turn.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from callosum.hosts.events import BackgroundEnded, HostEvent, HostSession
from callosum.hosts.hook_adapter import HookAdapter, Payload
from callosum.hosts.payload import params_at
from callosum.model import Outcome

_MOVED: Final = re.compile(r"\ACommand moved to background \(PID: (\d{1,20})\)")
_BROKEN_OFF: Final = re.compile(r"\ACommand (?:was (?:automatically )?)?cancelled\b")
_LISTED: Final = re.compile(r"^- \[PID (\d{1,20})\] EXITED: (.*)$", re.MULTILINE)
"""Matches a line of ``list_background_processes`` about a command that ended."""
_INJECTED: Final = re.compile(r"\A(?:\s*<hook_context>.*?</hook_context>)+\s*", re.DOTALL)


class GeminiAdapter(HookAdapter):
    """Read and answer the hooks of Gemini CLI."""

    def before(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``. A command may name its own folder."""
        folder = params_at(payload, "tool_input").get("dir_path")
        if payload.get("tool_name") == self.host.shell and isinstance(folder, str) and actor.cwd is not None:
            actor = replace(actor, cwd=posixpath.normpath(posixpath.join(actor.cwd, folder)))
        return super().before(payload, actor)

    def after(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``."""
        response = payload.get("tool_response")
        result = response if isinstance(response, Mapping) else {}
        display = str(result.get("returnDisplay") or "")
        is_command = payload.get("tool_name") == self.host.shell
        background_match = _MOVED.match(display) if is_command else None
        outcome = Outcome.FAILED if result.get("error") else Outcome.DONE
        if is_command and _BROKEN_OFF.match(display):
            outcome = Outcome.UNKNOWN
        came_back = self.came_back(payload, actor, outcome, background_match[1] if background_match else "")
        if came_back.tool != "list_background_processes":
            return (came_back,)
        listed = [
            (pid, Outcome.UNKNOWN if "(Signal: " in line else Outcome.DONE) for pid, line in _LISTED.findall(display)
        ]
        return came_back, *(BackgroundEnded(actor, pid, outcome) for pid, outcome in listed)

    def prompt(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``, without the text that hooks put before the prompt."""
        prompt = _INJECTED.sub("", str(payload.get("prompt") or ""))
        return super().prompt({**payload, "prompt": prompt}, actor)

    def start(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``, but without a brief: a prompt follows and brings one."""
        return self.heard(payload, actor)
