"""Translate the hooks of a host into the gate's events and back, as the host's description says.

A host whose hooks say more, or say it differently, has a subclass with only the differences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from callosum.corpus.events import LlmToken
from callosum.hosts import events, interactive
from callosum.hosts.events import HookAnswer, HostEvent, HostIdentity, HostSession
from callosum.hosts.payload import (
    before_of,
    fitting,
    kept,
    name_at,
    name_if,
    object_at,
    params_at,
    prompted,
    reason_of,
    rest_of,
)
from callosum.model import MAX_SUMMARY, Call, Outcome
from callosum.redact import redact_text, said
from callosum.wire import MAX_PATH

if TYPE_CHECKING:
    from callosum.programs.program import Program, Role

_TIMED_OUT: Final = re.compile(r"\btimed out\b|\btimeout\b|\baborted\b", re.IGNORECASE)
_LONGEST_PIECE: Final = 16_384
"""Maximum length in characters of a piece of an answer that goes to the corpus."""
_NOISE: Final = frozenset("session_id transcript_path cwd hook_event_name agent_id last_assistant_message".split())
_PERMITS_ALL: Final = "bypassPermissions"
"""Session mode in which the host asks its user nothing."""
_UNSEEN: Final = (
    "[Callosum] This program would take its commands from what is typed into it later, which no hook shows. "
    "The call was not run. Give it its commands at once: as a script, with -c, or from a file."
)

Payload = Mapping[str, Any]
Reader = Callable[[Payload, HostSession], tuple[HostEvent, ...]]


class HookAdapter:
    """Read the hook events of a host and render the answers. Pure: no clock, socket, file or state."""

    def __init__(self, host: Program) -> None:
        self.host = host
        self.name = host.name
        self.informs_before = "asks" in host.informs
        """True if the host can inform the model before a tool runs without stopping the tool."""
        self.informs_after = "done" in host.informs and not any(
            on.reports for on in host.events.values() if on.role == "done"
        )
        """True if the host can inform the model together with a call's result."""
        self._noise = _NOISE | host.noise | {host.run_field}
        self._readers: dict[Role, Reader] = {
            "asks": self.before,
            "done": self.after,
            "failed": self.failed,
            "batch": self.batch,
            "denied": self.denied,
            "prompt": self.prompt,
            "start": self.start,
            "child start": self.start,
            "stop": self.stop,
            "child stop": self.child_stop,
            "end": self.end,
            "settings": self.settings,
            "said": self.said,
            "heard": self.heard,
        }

    def read(self, payload: Payload, place: HostIdentity) -> tuple[HostEvent, ...]:
        """Return the events that a hook payload reports. An unknown hook event becomes an ``OtherEvent``.

        Raises: ``ConfigError`` that names the field at fault.
        """
        event = name_at(payload, "hook_event_name")
        actor = self.actor(payload, place)
        on = self.host.events.get(event)
        return self._readers[on.role if on else "heard"](payload, actor)

    def render(self, payload: Payload, answer: HookAnswer) -> Mapping[str, Any]:
        """Return the JSON that the hook prints; empty means that it prints nothing.

        A call that may run gets no "allow" of its own. ``Program.replaces_with_allow`` describes the one exception.
        """
        event, decision = payload.get("hook_event_name"), answer.decision
        reason = answer.refuse
        if decision is not None and not decision.proceed:
            reason = reason_of(decision, str(payload.get("tool_name")))
        if reason:
            return self.host.denial(reason)
        output: dict[str, Any] = {}
        if decision is not None and decision.params is not None:
            output |= self.host.replacement({**object_at(payload, "tool_input"), **decision.params})
        on = self.host.events.get(str(event))
        if answer.inform and on is not None and on.role in self.host.informs:
            output["additionalContext"] = answer.inform
        return {"hookSpecificOutput": {"hookEventName": event, **output}} if output else {}

    def refuses(self, settings: Mapping[str, Any], *, ours: bool) -> str:  # noqa: ARG002 - a host may look
        """Return why these settings of the host may not take effect in a session, or "" if they may.

        ``ours`` is True if the gate's entries were installed in this file.
        """
        return ""

    def actor(self, payload: Payload, place: HostIdentity) -> HostSession:
        """Return the acting session. A sub-agent acts in its parent's session and is identified by ``agent_id``."""
        session, agent = name_at(payload, "session_id"), name_if(payload, "agent_id")
        cwd = payload.get("cwd")
        return HostSession(
            instance=place.instance,
            namespace=place.namespace,
            session=fitting(f"{session}:{agent}") if agent else session,
            parent=f"{place.instance}/{session}" if agent else None,
            run=name_if(payload, self.host.run_field),
            cwd=cwd if isinstance(cwd, str) else None,
        )

    def parent(self, payload: Payload, actor: HostSession) -> HostSession:
        """Return the session in which a sub-agent acts."""
        return replace(actor, session=name_at(payload, "session_id"), parent=None)

    def transcript(self, payload: Payload) -> str:
        """Return the path of the session's transcript, or "" if the host does not name it."""
        path = payload.get("agent_transcript_path") or payload.get("transcript_path")
        return path if isinstance(path, str) and len(path) <= MAX_PATH else ""

    def begins(self, call: Call) -> tuple[bool, bool]:
        """Return whether a call starts work that outlasts the call, and whether that work is a sub-agent."""
        agents = call.tool in self.host.starts
        return agents or (bool(self.host.background) and call.params.get(self.host.background) is True), agents

    # --- One reader for each role of an event ---

    def before(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """Read an event that a call is about to run."""
        if self.host.types_unseen and payload.get("tool_name") == self.host.shell:
            params = params_at(payload, "tool_input")
            command = params.get("command")
            if isinstance(command, str) and interactive.waits(command):
                return (events.CallRefused(actor, self.host.shell, params, _UNSEEN),)
        call_id = name_at(payload, "tool_use_id") if self.host.has_call_ids else None
        permits = payload.get("permission_mode") == _PERMITS_ALL  # so that the host still asks its user as usual
        rewrite = permits if self.host.replaces_with_allow else bool(self.host.replaces)
        return (before_of(payload, actor, call_id, rewrite=rewrite),)

    def after(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """Read an event that a call returned."""
        return (self.came_back(payload, actor, Outcome.DONE),)

    def came_back(
        self, payload: Payload, actor: HostSession, outcome: Outcome, background: str = ""
    ) -> events.CallReturned:
        """Return the ``CallReturned`` of a payload."""
        return events.CallReturned(
            actor=actor,
            tool=name_at(payload, "tool_name"),
            params=params_at(payload, "tool_input"),
            outcome=outcome,
            call_id=name_if(payload, "tool_use_id"),
            result=payload.get("tool_response"),
            background=background,
        )

    def failed(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """Read an event that a call failed or was interrupted."""
        error = str(payload.get("error") or "failed")
        unsure = payload.get("is_interrupt") is True or _TIMED_OUT.search(error[:2000])
        outcome = Outcome.UNKNOWN if unsure else Outcome.FAILED
        with_error = {**payload, "tool_response": {"error": kept(error)}}
        return (self.came_back(with_error, actor, outcome),)

    def batch(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """Read an event that all calls of a turn have finished."""
        return self.heard(payload, actor)

    def denied(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """Read an event that the host denied a call itself, without a dialog. The call never runs."""
        id = name_if(payload, "tool_use_id")
        heard = self.heard(payload, actor)
        return heard if id is None else (events.CallsClosed(actor, (id,), Outcome.CANCELLED), *heard)

    def prompt(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """Read an event that the session received a prompt."""
        return prompted(str(payload.get("prompt") or ""), self.name, actor, but=self._may_run_on)

    def start(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """Read an event that a session or a sub-agent starts."""
        return *self.heard(payload, actor), events.BriefRequested(actor, forgot=payload.get("source") == "compact")

    def stop(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """Read an event that a turn ended. Calls of the turn that failed or were denied may have no report."""
        answer = payload.get(self.host.answer_field)
        answered = (events.FinalAnswer(actor, said(answer, MAX_SUMMARY)),) if isinstance(answer, str) and answer else ()
        return events.SessionIdle(actor, but=self._may_run_on), *answered

    def child_stop(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """Read an event that a sub-agent ended or that its turn was interrupted."""
        agent = name_if(payload, "agent_id")
        ended = () if agent is None else (events.BackgroundEnded(self.parent(payload, actor), agent, Outcome.DONE),)
        return events.SessionIdle(actor), *ended, *self.heard(payload, actor)

    def end(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """Read an event that the session ended."""
        heard = events.OtherEvent(
            actor=actor,
            what=name_at(payload, "hook_event_name"),
            details=rest_of(payload, self._noise),
            ends=True,
        )
        return events.SessionIdle(actor, all=True), heard

    def settings(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """Read an event that changed settings are about to take effect."""
        return (events.SettingsChanging(actor, str(payload.get("file_path") or "")),)

    def said(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """Read a piece of the model's answer."""
        delta = payload.get("delta")
        if not isinstance(delta, str) or not delta:
            return ()
        piece = redact_text(delta[:_LONGEST_PIECE])
        return (events.CorpusEmission(LlmToken(piece, instance=actor.name, namespace=actor.namespace)),)

    def heard(self, payload: Payload, actor: HostSession) -> tuple[HostEvent, ...]:
        """Read any other event, which is only journalled."""
        return (
            events.OtherEvent(
                actor=actor, what=name_at(payload, "hook_event_name"), details=rest_of(payload, self._noise)
            ),
        )

    @property
    def _may_run_on(self) -> str:
        return self.host.shell if self.host.commands_outlive_turns else ""
