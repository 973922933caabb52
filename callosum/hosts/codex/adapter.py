"""What the hooks of Codex CLI say otherwise than those of other hosts.

What is typed into a program that already runs (``write_stdin``) has no hook. So a shell or another interpreter that
would wait for its commands is turned down where it is started.
"""

from __future__ import annotations

import re
from typing import Final

from callosum.hosts.events import BriefRequested, HostEvent, HostSession
from callosum.hosts.hook_adapter import HookAdapter, Payload
from callosum.model import Outcome

_BEFORE_A_PROMPT: Final = frozenset(("startup", "resume", "clear"))
"""How a session begins that is then given a prompt; after a compaction it goes on by itself."""
_FAILED: Final = re.compile(r"\AExit code: (?!0\n)-?\d+\n")
"""How the answer of a patch begins that could not be applied."""
_AGENT: Final = re.compile(r'"agent_id": ?"([0-9A-Za-z-]{1,100})"')
"""The name of a sub-agent in the answer of the tool that started it."""


class CodexAdapter(HookAdapter):
    """As ``HookAdapter``."""

    def after(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``."""
        response = payload.get("tool_response")
        patched = payload.get("tool_name") != self.host.shell and isinstance(response, str)
        failed = patched and _FAILED.match(str(response))
        agent = _AGENT.search(response) if isinstance(response, str) and self._starts(payload) else None
        outcome = Outcome.FAILED if failed else Outcome.DONE
        return (self.came_back(payload, actor, outcome, agent[1] if agent else ""),)

    def _starts(self, payload: Payload) -> bool:
        return payload.get("tool_name") in self.host.starts

    def prompt(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``."""
        if actor.parent is not None:  # it was given its work by its parent, not by a person
            return (BriefRequested(actor, str(payload.get("prompt") or "")),)
        return super().prompt(payload, actor)

    def start(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``. Who begins is told of the others with its first prompt, and not twice."""
        if payload.get("hook_event_name") == "SubagentStart" or payload.get("source") in _BEFORE_A_PROMPT:
            return self.heard(payload, actor)
        return super().start(payload, actor)
