"""Read the parts of Codex CLI's hooks that differ from those of other hosts.

No hook sees what is typed into a running program (``write_stdin``). Therefore a shell or another interpreter that would
wait for commands is refused when it is started.
"""

from __future__ import annotations

import re
from typing import Final

from callosum.hosts.events import BriefRequested, HostEvent, HostSession
from callosum.hosts.hook_adapter import HookAdapter, Payload
from callosum.model import Outcome

_BEFORE_A_PROMPT: Final = frozenset(("startup", "resume", "clear"))
"""Ways in which a session starts that receives a prompt next. After a compaction it continues by itself."""
_FAILED: Final = re.compile(r"\AExit code: (?!0\n)-?\d+\n")
"""Matches the start of the result of a patch that could not be applied."""
_AGENT: Final = re.compile(r'"agent_id": ?"([0-9A-Za-z-]{1,100})"')
"""Matches the name of a sub-agent in the result of the tool that started it."""


class CodexAdapter(HookAdapter):
    """Read and answer the hooks of Codex CLI."""

    def after(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``."""
        response = payload.get("tool_response")
        patched = payload.get("tool_name") != self.host.shell and isinstance(response, str)
        failed = patched and _FAILED.match(str(response))
        starts = isinstance(response, str) and payload.get("tool_name") in self.host.starts
        agent = _AGENT.search(str(response)) if starts else None
        outcome = Outcome.FAILED if failed else Outcome.DONE
        return (self.came_back(payload, actor, outcome, agent[1] if agent else ""),)

    def prompt(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``."""
        if actor.parent is not None:  # the prompt comes from its parent, not from a person
            return (BriefRequested(actor, str(payload.get("prompt") or "")),)
        return super().prompt(payload, actor)

    def start(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``. A new session gets its brief with its first prompt, so it gets none at the start."""
        if payload.get("hook_event_name") == "SubagentStart" or payload.get("source") in _BEFORE_A_PROMPT:
            return self.heard(payload, actor)
        return super().start(payload, actor)
