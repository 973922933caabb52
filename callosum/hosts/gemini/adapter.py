"""What the hooks of Gemini CLI say otherwise than those of other hosts.

There are no call ids: a report finds its call by tool and params, and two equal calls at once cannot be told apart.
What the model is to know before a tool runs reaches it with the tool's result. The gate is asked before the user is:
a call that the user then turns down is not reported, and is settled with the turn.
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
"""A line of ``list_background_processes`` about a command that has ended."""
_INJECTED: Final = re.compile(r"\A(?:\s*<hook_context>.*?</hook_context>)+\s*", re.DOTALL)


class GeminiAdapter(HookAdapter):
    """As ``HookAdapter``."""

    def before(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``. A command may name its folder."""
        folder = params_at(payload, "tool_input").get("dir_path")
        if payload.get("tool_name") == self.host.shell and isinstance(folder, str) and actor.cwd is not None:
            actor = replace(actor, cwd=posixpath.normpath(posixpath.join(actor.cwd, folder)))
        return super().before(payload, actor)

    def after(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``."""
        response = payload.get("tool_response")
        said = response if isinstance(response, Mapping) else {}
        shown = str(said.get("returnDisplay") or "")
        is_command = payload.get("tool_name") == self.host.shell
        moved = _MOVED.match(shown) if is_command else None
        outcome = Outcome.FAILED if said.get("error") else Outcome.DONE
        if is_command and _BROKEN_OFF.match(shown):
            outcome = Outcome.UNKNOWN
        came_back = self.came_back(payload, actor, outcome, moved[1] if moved else "")
        if came_back.tool != "list_background_processes":
            return (came_back,)
        return came_back, *(BackgroundEnded(actor, pid, _ended(line)) for pid, line in _LISTED.findall(shown))

    def prompt(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``, without what hooks have put before it."""
        said = _INJECTED.sub("", str(payload.get("prompt") or ""))
        return super().prompt({**payload, "prompt": said}, actor)

    def start(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``, but without a brief: a prompt follows and brings one."""
        return self.heard(payload, actor)


def _ended(line: str) -> Outcome:
    """What became of a command in the background, by the line about it."""
    return Outcome.UNKNOWN if "(Signal: " in line else Outcome.DONE
