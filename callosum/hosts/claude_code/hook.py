"""The hooks of Claude Code, in the gate's words and back.

A denied call has no event of its own but is in its batch; an interrupted one is in none, so the next prompt settles
it. A sub-agent acts in its parent's session and is told apart by ``agent_id``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from callosum.hosts import entries
from callosum.hosts.payload import before_of, fitting, kept, name_at, name_if, params_at, prompted, reason_of, rest_of
from callosum.hosts.told import (
    Actor,
    After,
    Answer,
    Changed,
    Closed,
    Ended,
    Heard,
    Place,
    Settled,
    Told,
    Wondering,
)
from callosum.model import Outcome, Verdict

name: Final = "claude-code"
informs_before: Final = True

LOOKS: Final = frozenset("Read Grep Glob LS NotebookRead TodoRead WebFetch WebSearch".split())
"""Tools of Claude Code's own that only look: how they end is told by their batch, without a hook of their own."""
_NOTICE: Final = "<task-notification>"
_TASK: Final = re.compile(r"<task-id>\s*([^<\s]{1,200})\s*</task-id>")
_STATUS: Final = re.compile(r"<status>\s*([a-z_]{1,40})\s*</status>")
_TIMED_OUT: Final = re.compile(r"\btimed out\b|\btimeout\b|\baborted\b", re.IGNORECASE)
_CONTEXT: Final = frozenset(
    ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "SessionStart", "SubagentStart")
) | {"UserPromptSubmit"}
"""The events whose hook can put something into the model's context."""


def read(payload: Mapping[str, Any], place: Place) -> tuple[Told, ...]:
    """As in ``Adapter``."""
    event = name_at(payload, "hook_event_name")
    reader = _READERS.get(event)
    actor = _actor(payload, place)
    if reader is not None:
        return reader(payload, actor)
    return (Heard(actor=actor, what=event, details=rest_of(payload, _COMMON)),)


def render(payload: Mapping[str, Any], answer: Answer) -> Mapping[str, Any]:
    """As in ``Adapter``."""
    event = payload.get("hook_event_name")
    decision = answer.decision
    if answer.refuse:
        return {"decision": "block", "reason": answer.refuse}
    if decision is not None and not decision.proceed:
        reason = reason_of(decision, str(payload.get("tool_name")))
        denied = {"hookEventName": event, "permissionDecision": "deny", "permissionDecisionReason": reason}
        return {"hookSpecificOutput": denied}
    if answer.inform and event in _CONTEXT:
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": answer.inform}}
    if decision is not None and decision.verdict is Verdict.ALLOW and decision.warning:
        return {"systemMessage": decision.warning}  # for the person, not for the model
    return {}


def refuses(settings: Mapping[str, Any], *, ours: bool) -> str:
    """As in ``Adapter``."""
    if settings.get("disableAllHooks") is True:
        return (
            "[Callosum] These settings switch all hooks off, the gate's among them. A person may: outside of a session."
        )
    if ours and not entries.ours(settings, "PreToolUse"):
        return "[Callosum] These settings take the gate's hooks out. A person may: `callosum uninstall claude-code`."
    return ""


# --- one reader an event --------------------------------------------------------------------------------


def _before(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    return (before_of(payload, actor, name_at(payload, "tool_use_id")),)


def _after(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    tool, params = name_at(payload, "tool_name"), params_at(payload, "tool_input")
    response = payload.get("tool_response")
    background, interrupted = "", False
    if isinstance(response, Mapping):
        background = fitting(str(response.get("backgroundTaskId") or ""))
        interrupted = response.get("interrupted") is True
    came_back = After(
        actor=actor,
        tool=tool,
        params=params,
        outcome=Outcome.UNKNOWN if interrupted else Outcome.DONE,
        call_id=name_if(payload, "tool_use_id"),
        result=response,
        background=background,
    )
    stopped = params.get("task_id") or params.get("shell_id")
    if tool in ("KillShell", "TaskStop") and isinstance(stopped, str):
        return came_back, Ended(actor, fitting(stopped), Outcome.UNKNOWN)
    return (came_back,)


def _failed(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    error = str(payload.get("error") or "failed")
    unsure = payload.get("is_interrupt") is True or _TIMED_OUT.search(error[:2000])
    return (
        After(
            actor=actor,
            tool=name_at(payload, "tool_name"),
            params=params_at(payload, "tool_input"),
            outcome=Outcome.UNKNOWN if unsure else Outcome.FAILED,
            call_id=name_if(payload, "tool_use_id"),
            result={"error": kept(error)},
        ),
    )


def _batch(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    calls = payload.get("tool_calls")
    ended: dict[Outcome, list[str]] = {}
    for call in calls if isinstance(calls, list) else ():
        id = name_if(call, "tool_use_id") if isinstance(call, Mapping) else None
        if id is not None:
            said = call.get("tool_response")
            if isinstance(said, str) and len(said) < _SENTENCE and _DENIED.search(said):
                outcome = Outcome.CANCELLED
            else:  # it has run: a look is reported here alone, the report of anything else was lost
                outcome = Outcome.DONE if call.get("tool_name") in LOOKS else Outcome.UNKNOWN
            ended.setdefault(outcome, []).append(id)
    return tuple(Closed(actor, tuple(ids), outcome) for outcome, ids in ended.items())


def _denied(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    """The host denied a call by itself (auto mode), without a dialog: it never runs."""
    heard = Heard(actor=actor, what="PermissionDenied", details=rest_of(payload, _COMMON))
    id = name_if(payload, "tool_use_id")
    return (heard,) if id is None else (Closed(actor, (id,), Outcome.CANCELLED), heard)


_SENTENCE: Final = 1000
"""A denial is shorter, in characters; what a tool found may be longer and hold any word."""
_DENIED: Final = re.compile(
    r"needs? approval|requires? (?:approval|permission)|requested permissions?|was blocked|\bdenied\b|was rejected"
    r"|doesn't want to|not allowed|hook error|haven't granted",
    re.IGNORECASE,
)
"""What Claude Code tells its model of a call that the user, a rule or a hook did not permit."""


def _prompt(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    prompt = str(payload.get("prompt") or "")
    if prompt.lstrip().startswith(_NOTICE):
        task, status = _TASK.search(prompt[:20_000]), _STATUS.search(prompt[:20_000])
        outcome = _BACKGROUND.get(status[1], Outcome.UNKNOWN) if status else Outcome.UNKNOWN
        return (Ended(actor, fitting(task[1]), outcome),) if task else ()
    return prompted(prompt, name, actor)


_BACKGROUND: Final[Mapping[str, Outcome]] = {
    "completed": Outcome.DONE,
    "failed": Outcome.FAILED,
    "killed": Outcome.UNKNOWN,
    "stopped": Outcome.UNKNOWN,
}


def _start(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    return Heard(actor=actor, what="SessionStart", details=rest_of(payload, _COMMON)), Wondering(actor)


def _child_start(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    return Heard(actor=actor, what="SubagentStart", details=rest_of(payload, _COMMON)), Wondering(actor)


def _stop(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:  # noqa: ARG001 - one of the readers
    return (Settled(actor),)


def _child_stop(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    return Settled(actor), Heard(actor=actor, what="SubagentStop", details=rest_of(payload, _COMMON))


def _end(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    return Settled(actor, all=True), Heard(actor=actor, what="SessionEnd", details=rest_of(payload, _COMMON))


def _config(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    return (Changed(actor, str(payload.get("file_path") or "")),)


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any], Actor], tuple[Told, ...]]]] = {
    "PreToolUse": _before,
    "PostToolUse": _after,
    "PostToolUseFailure": _failed,
    "PostToolBatch": _batch,
    "PermissionDenied": _denied,
    "UserPromptSubmit": _prompt,
    "SessionStart": _start,
    "SubagentStart": _child_start,
    "Stop": _stop,
    "StopFailure": _stop,
    "SubagentStop": _child_stop,
    "SessionEnd": _end,
    "ConfigChange": _config,
}


# --- what all of them say ---------------------------------------------------------------------------------


def _actor(payload: Mapping[str, Any], place: Place) -> Actor:
    session, agent = name_at(payload, "session_id"), name_if(payload, "agent_id")
    cwd = payload.get("cwd")
    return Actor(
        instance=place.instance,
        namespace=place.namespace,
        session=fitting(f"{session}:{agent}") if agent else session,
        parent=f"{place.instance}/{session}" if agent else None,
        run=name_if(payload, "prompt_id"),
        cwd=cwd if isinstance(cwd, str) else None,
    )


_COMMON: Final = frozenset(
    ("session_id", "transcript_path", "cwd", "prompt_id", "hook_event_name", "agent_id", "last_assistant_message")
)
