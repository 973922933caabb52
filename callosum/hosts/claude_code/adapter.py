"""What the hooks of Claude Code say beside what those of other hosts do.

A denied call has no event of its own but is in its batch; an interrupted one is in none, so the next prompt settles
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from callosum.hosts import hook_entries
from callosum.hosts.events import BackgroundEnded, CallsClosed, HookAnswer, HostEvent, HostSession
from callosum.hosts.hook_adapter import HookAdapter, Payload
from callosum.hosts.payload import fitting, kept, name_if, params_at
from callosum.model import Outcome, Verdict

_NOTICE: Final = "<task-notification>"
_TASK: Final = re.compile(r"<task-id>\s*([^<\s]{1,200})\s*</task-id>")
_STATUS: Final = re.compile(r"<status>\s*([a-z_]{1,40})\s*</status>")
_SUMMARY: Final = re.compile(r"<summary>([^<]{1,1000})</summary>")
_BACKGROUND: Final[Mapping[str, Outcome]] = {
    "completed": Outcome.DONE,
    "failed": Outcome.FAILED,
    "killed": Outcome.UNKNOWN,
    "stopped": Outcome.UNKNOWN,
}
_SENTENCE: Final = 1000
"""A denial is shorter, in characters; what a tool found may be longer and hold any word."""
_DENIED: Final = re.compile(
    r"needs? approval|requires? (?:approval|permission)|requested permissions?|was blocked|\bdenied\b|was rejected"
    r"|doesn't want to|not allowed|hook error|haven't granted",
    re.IGNORECASE,
)
"""What the host tells its model of a call that the user, a rule or a hook did not permit."""


class ClaudeCodeAdapter(HookAdapter):
    """As ``HookAdapter``."""

    def render(self, payload: Payload, answer: HookAnswer) -> Mapping[str, Any]:
        """As in ``HookAdapter``."""
        if answer.refuse:
            return {"decision": "block", "reason": answer.refuse}
        said, decision = super().render(payload, answer), answer.decision
        if not said and decision is not None and decision.verdict is Verdict.ALLOW and decision.warning:
            return {"systemMessage": decision.warning}  # for the person, not for the model
        return said

    def refuses(self, settings: Mapping[str, Any], *, ours: bool) -> str:
        """As in ``HookAdapter``."""
        if settings.get("disableAllHooks") is True:
            return (
                "[Callosum] These settings switch all hooks off, the gate's among them. A person may: outside of a "
                "session."
            )
        if ours and not hook_entries.ours(settings, self.host.asks):
            return (
                f"[Callosum] These settings take the gate's hooks out. A person may: `callosum uninstall {self.name}`."
            )
        return ""

    def transcript(self, payload: Payload) -> str:
        """As in ``HookAdapter``. A sub-agent's events name its parent's."""
        path, agent = super().transcript(payload), name_if(payload, "agent_id")
        if agent is None or "agent_transcript_path" in payload or not path:
            return path
        return f"{path.removesuffix('.jsonl')}/subagents/agent-{agent}.jsonl"

    def after(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``."""
        response = payload.get("tool_response")
        background, interrupted = "", False
        if isinstance(response, Mapping):
            agent = response.get("agentId") if response.get("status") == "async_launched" else ""
            background = fitting(str(response.get("backgroundTaskId") or agent or ""))
            interrupted = response.get("interrupted") is True
        came_back = self.came_back(payload, actor, Outcome.UNKNOWN if interrupted else Outcome.DONE, background)
        params = params_at(payload, "tool_input")
        stopped = params.get("task_id") or params.get("shell_id")
        if came_back.tool in ("KillShell", "TaskStop") and isinstance(stopped, str):
            return came_back, BackgroundEnded(actor, fitting(stopped), Outcome.UNKNOWN)
        return (came_back,)

    def batch(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``: each of its calls is named by its id. Of a look nothing else is told."""
        calls = payload.get("tool_calls")
        ended: dict[Outcome, list[str]] = {}
        results: dict[str, Any] = {}
        for call in calls if isinstance(calls, list) else ():
            id = name_if(call, "tool_use_id") if isinstance(call, Mapping) else None
            if id is not None:
                said = call.get("tool_response")
                if isinstance(said, str) and len(said) < _SENTENCE and _DENIED.search(said):
                    outcome = Outcome.CANCELLED
                else:  # it has run: a look is reported here alone, the report of anything else was lost
                    outcome = Outcome.DONE if call.get("tool_name") in self.host.looks else Outcome.UNKNOWN
                    if outcome is Outcome.DONE and "file_path" in params_at(call, "tool_input"):
                        results[id] = said
                ended.setdefault(outcome, []).append(id)
        return tuple(
            CallsClosed(actor, tuple(ids), outcome, results if outcome is Outcome.DONE else {})
            for outcome, ids in ended.items()
        )

    def prompt(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``; or the host tells that something in the background has ended."""
        prompt = str(payload.get("prompt") or "")
        if not prompt.lstrip().startswith(_NOTICE):
            return super().prompt(payload, actor)
        task, status = _TASK.search(prompt[:20_000]), _STATUS.search(prompt[:20_000])
        outcome = _BACKGROUND.get(status[1], Outcome.UNKNOWN) if status else Outcome.UNKNOWN
        summary = _SUMMARY.search(prompt[:20_000])
        return (BackgroundEnded(actor, fitting(task[1]), outcome, kept(summary[1]) if summary else ""),) if task else ()
