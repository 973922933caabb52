"""Read the parts of Claude Code's hooks that differ from those of other hosts.

A denied call has no event of its own but appears in its batch. An interrupted call appears in no batch, so the next
prompt settles it.
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
"""Length in characters below which a text may be a denial. A tool's result may be longer and contain any word."""
_DENIED: Final = re.compile(
    r"needs? approval|requires? (?:approval|permission)|requested permissions?|was blocked|\bdenied\b|was rejected"
    r"|doesn't want to|not allowed|hook error|haven't granted",
    re.IGNORECASE,
)
"""Matches what the host tells its model about a call that the user, a rule or a hook did not permit."""


class ClaudeCodeAdapter(HookAdapter):
    """Read and answer the hooks of Claude Code."""

    def render(self, payload: Payload, answer: HookAnswer) -> Mapping[str, Any]:
        """As in ``HookAdapter``."""
        if answer.refuse:
            return {"decision": "block", "reason": answer.refuse}
        output, decision = super().render(payload, answer), answer.decision
        if not output and decision is not None and decision.verdict is Verdict.ALLOW and decision.warning:
            return {"systemMessage": decision.warning}  # for the person, not for the model
        return output

    def refuses(self, settings: Mapping[str, Any], *, ours: bool) -> str:
        """As in ``HookAdapter``."""
        if settings.get("disableAllHooks") is True:
            return (
                "[Callosum] These settings switch off all hooks, including the gate's. Only a person may do so, "
                "outside of a session."
            )
        if ours and not hook_entries.ours(settings, self.host.asks):
            return (
                "[Callosum] These settings remove the gate's hooks. Only a person may do so: "
                f"`callosum uninstall {self.name}`."
            )
        return ""

    def transcript(self, payload: Payload) -> str:
        """As in ``HookAdapter``. The events of a sub-agent name its parent's transcript."""
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
        """As in ``HookAdapter``. A batch names each call by its id, and is the only event about a read."""
        calls = payload.get("tool_calls")
        ended: dict[Outcome, list[str]] = {}
        results: dict[str, Any] = {}
        for call in calls if isinstance(calls, list) else ():
            id = name_if(call, "tool_use_id") if isinstance(call, Mapping) else None
            if id is not None:
                response = call.get("tool_response")
                if isinstance(response, str) and len(response) < _SENTENCE and _DENIED.search(response):
                    outcome = Outcome.CANCELLED
                else:  # it ran: only a read is reported here; any other report was lost
                    outcome = Outcome.DONE if call.get("tool_name") in self.host.looks else Outcome.UNKNOWN
                    if outcome is Outcome.DONE and "file_path" in params_at(call, "tool_input"):
                        results[id] = response
                ended.setdefault(outcome, []).append(id)
        return tuple(
            CallsClosed(actor, tuple(ids), outcome, results if outcome is Outcome.DONE else {})
            for outcome, ids in ended.items()
        )

    def prompt(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """As in ``HookAdapter``. A prompt may also be the host's notice that background work ended."""
        prompt = str(payload.get("prompt") or "")
        if not prompt.lstrip().startswith(_NOTICE):
            return super().prompt(payload, actor)
        task, status = _TASK.search(prompt[:20_000]), _STATUS.search(prompt[:20_000])
        outcome = _BACKGROUND.get(status[1], Outcome.UNKNOWN) if status else Outcome.UNKNOWN
        summary = _SUMMARY.search(prompt[:20_000])
        return (BackgroundEnded(actor, fitting(task[1]), outcome, kept(summary[1]) if summary else ""),) if task else ()
