"""The hooks of Codex CLI, in the gate's words and back.

What is typed into a program that already runs (``write_stdin``) has no hook. So a shell or another interpreter that
would wait for its commands is turned down where it is started. A command is reported when it has ended, which may be
turns later; a tool that fails is not reported at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from callosum.hosts import typed
from callosum.hosts.payload import before_of, fitting, name_at, name_if, params_at, prompted, reason_of, rest_of
from callosum.hosts.told import Actor, After, Answer, Heard, Place, Refused, Settled, Told, Wondering
from callosum.model import Outcome

name: Final = "codex"
informs_before: Final = True

_CONTEXT: Final = frozenset(("PreToolUse", "PostToolUse", "SessionStart", "SubagentStart", "UserPromptSubmit"))
"""The events whose hook can put something into the model's context."""
_BEFORE_A_PROMPT: Final = frozenset(("startup", "resume", "clear"))
"""How a session begins that is then given a prompt; after a compaction it goes on by itself."""
_COMMAND: Final = "Bash"
"""What Codex calls its tool for commands in its hooks. A command may run on when its turn ends."""
_FAILED: Final = re.compile(r"\AExit code: (?!0\n)-?\d+\n")
"""How the answer of a patch begins that could not be applied."""


def read(payload: Mapping[str, Any], place: Place) -> tuple[Told, ...]:
    """As in ``Adapter``."""
    event = name_at(payload, "hook_event_name")
    actor = _actor(payload, place)
    reader = _READERS.get(event)
    if reader is not None:
        return reader(payload, actor)
    return (Heard(actor=actor, what=event, details=rest_of(payload, _COMMON)),)


def render(payload: Mapping[str, Any], answer: Answer) -> Mapping[str, Any]:
    """As in ``Adapter``. An "allow" or "ask" of ours would count as a fault, and the tool would run."""
    event = payload.get("hook_event_name")
    decision = answer.decision
    reason = answer.refuse
    if decision is not None and not decision.proceed:
        reason = reason_of(decision, str(payload.get("tool_name")))
    if reason:
        denied = {"hookEventName": event, "permissionDecision": "deny", "permissionDecisionReason": reason}
        return {"hookSpecificOutput": denied}
    if answer.inform and event in _CONTEXT:
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": answer.inform}}
    return {}


def refuses(settings: Mapping[str, Any], *, ours: bool) -> str:  # noqa: ARG001 - as the others take it
    """Nothing: a change of its hooks takes no effect in a session of Codex, and needs a review before the next."""
    return ""


# --- one reader an event --------------------------------------------------------------------------------


def _before(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    tool, params = name_at(payload, "tool_name"), params_at(payload, "tool_input")
    command = params.get("command")
    if tool == _COMMAND and isinstance(command, str) and typed.waits(command):
        reason = (
            "[Callosum] This program would take its commands from what is typed into it later, which no hook shows. "
            "The call was not run. Give it its commands at once: as a script, with -c, or from a file."
        )
        return (Refused(actor, tool, params, reason),)
    return (before_of(payload, actor, name_at(payload, "tool_use_id")),)


def _after(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    response = payload.get("tool_response")
    tool = name_at(payload, "tool_name")
    failed = tool != _COMMAND and isinstance(response, str) and _FAILED.match(response)
    return (
        After(
            actor=actor,
            tool=tool,
            params=params_at(payload, "tool_input"),
            outcome=Outcome.FAILED if failed else Outcome.DONE,
            call_id=name_if(payload, "tool_use_id"),
            result=response,
        ),
    )


def _prompt(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    prompt = str(payload.get("prompt") or "")
    if actor.parent is not None:  # it was given its work by its parent, not by a person
        return (Wondering(actor, prompt),)
    return prompted(prompt, name, actor, but=_COMMAND)


def _begin(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    """A session or a sub-agent that begins is told of the others with its first prompt, and not twice."""
    what = name_at(payload, "hook_event_name")
    heard = Heard(actor=actor, what=what, details=rest_of(payload, _COMMON))
    if what == "SubagentStart" or payload.get("source") in _BEFORE_A_PROMPT:
        return (heard,)
    return heard, Wondering(actor)


def _stop(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    what = name_at(payload, "hook_event_name")
    return Settled(actor), Heard(actor=actor, what=what, details=rest_of(payload, _COMMON))


def _turn_end(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:  # noqa: ARG001 - one of the readers
    """What failed in the turn, or was denied, has no report. A command may still run: it is reported when it ends."""
    return (Settled(actor, but=_COMMAND),)


def _end(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    return Settled(actor, all=True), Heard(actor=actor, what="SessionEnd", details=rest_of(payload, _COMMON))


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any], Actor], tuple[Told, ...]]]] = {
    "PreToolUse": _before,
    "PostToolUse": _after,
    "UserPromptSubmit": _prompt,
    "SessionStart": _begin,
    "SubagentStart": _begin,
    "SubagentStop": _stop,
    "Interrupt": _stop,
    "Stop": _turn_end,
    "SessionEnd": _end,
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
        run=name_if(payload, "turn_id"),
        cwd=cwd if isinstance(cwd, str) else None,
    )


_COMMON: Final = frozenset(
    "session_id turn_id transcript_path cwd hook_event_name agent_id permission_mode last_assistant_message".split()
)
