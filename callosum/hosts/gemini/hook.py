"""The hooks of Gemini CLI, in the gate's words and back.

There are no call ids: a report finds its call by tool and params, and two equal calls at once cannot be told apart.
What the model is to know before a tool runs reaches it with the tool's result. The gate is asked before the user is:
a call that the user then turns down is not reported, and is settled with the turn.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from callosum.hosts.payload import before_of, name_at, params_at, prompted, reason_of, rest_of
from callosum.hosts.told import Actor, After, Answer, Ended, Heard, Place, Settled, Told
from callosum.model import Outcome

name: Final = "gemini"
informs_before: Final = False

_CONTEXT: Final = frozenset(("AfterTool", "BeforeAgent"))
"""The events whose hook can put something into the model's context."""
_COMMAND: Final = "run_shell_command"
_MOVED: Final = re.compile(r"\ACommand moved to background \(PID: (\d{1,20})\)")
_BROKEN_OFF: Final = re.compile(r"\ACommand (?:was (?:automatically )?)?cancelled\b")
_LISTED: Final = re.compile(r"^- \[PID (\d{1,20})\] EXITED: (.*)$", re.MULTILINE)
"""A line of ``list_background_processes`` about a command that has ended."""
_INJECTED: Final = re.compile(r"\A(?:\s*<hook_context>.*?</hook_context>)+\s*", re.DOTALL)


def read(payload: Mapping[str, Any], place: Place) -> tuple[Told, ...]:
    """As in ``Adapter``."""
    event = name_at(payload, "hook_event_name")
    cwd = payload.get("cwd")
    actor = Actor(
        instance=place.instance,
        namespace=place.namespace,
        session=name_at(payload, "session_id"),
        cwd=cwd if isinstance(cwd, str) else None,
    )
    reader = _READERS.get(event)
    if reader is not None:
        return reader(payload, actor)
    return (Heard(actor=actor, what=event, details=rest_of(payload, _COMMON)),)


def render(payload: Mapping[str, Any], answer: Answer) -> Mapping[str, Any]:
    """As in ``Adapter``."""
    event = payload.get("hook_event_name")
    decision = answer.decision
    reason = answer.refuse
    if decision is not None and not decision.proceed:
        reason = reason_of(decision, str(payload.get("tool_name")))
    if reason:
        return {"decision": "deny", "reason": reason}
    if answer.inform and event in _CONTEXT:
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": answer.inform}}
    return {}


def refuses(settings: Mapping[str, Any], *, ours: bool) -> str:  # noqa: ARG001 - as the others take it
    """Nothing: a change of its settings takes no effect in a session of Gemini CLI."""
    return ""


# --- one reader an event --------------------------------------------------------------------------------


def _before(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    folder = params_at(payload, "tool_input").get("dir_path")
    if payload.get("tool_name") == _COMMAND and isinstance(folder, str) and actor.cwd is not None:
        actor = replace(actor, cwd=posixpath.normpath(posixpath.join(actor.cwd, folder)))
    return (before_of(payload, actor, None),)


def _after(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    tool, response = name_at(payload, "tool_name"), payload.get("tool_response")
    said = response if isinstance(response, Mapping) else {}
    shown = str(said.get("returnDisplay") or "")
    moved = _MOVED.match(shown) if tool == _COMMAND else None
    outcome = Outcome.FAILED if said.get("error") else Outcome.DONE
    if tool == _COMMAND and _BROKEN_OFF.match(shown):
        outcome = Outcome.UNKNOWN
    came_back = After(
        actor=actor,
        tool=tool,
        params=params_at(payload, "tool_input"),
        outcome=outcome,
        result=response,
        background=moved[1] if moved else "",
    )
    if tool != "list_background_processes":
        return (came_back,)
    return came_back, *(Ended(actor, pid, _ended(line)) for pid, line in _LISTED.findall(shown))


def _ended(line: str) -> Outcome:
    """What became of a command in the background, by the line about it."""
    return Outcome.UNKNOWN if "(Signal: " in line else Outcome.DONE


def _prompt(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    return prompted(_INJECTED.sub("", str(payload.get("prompt") or "")), name, actor)


def _begin(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    """No word about the others: a prompt follows, to which it would be put as well."""
    return (Heard(actor=actor, what="SessionStart", details=rest_of(payload, _COMMON)),)


def _stop(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:  # noqa: ARG001 - one of the readers
    return (Settled(actor),)


def _end(payload: Mapping[str, Any], actor: Actor) -> tuple[Told, ...]:
    return Settled(actor, all=True), Heard(actor=actor, what="SessionEnd", details=rest_of(payload, _COMMON))


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any], Actor], tuple[Told, ...]]]] = {
    "BeforeTool": _before,
    "AfterTool": _after,
    "BeforeAgent": _prompt,
    "SessionStart": _begin,
    "AfterAgent": _stop,
    "SessionEnd": _end,
}
_COMMON: Final = frozenset("session_id transcript_path cwd hook_event_name timestamp prompt_response".split())
