"""Define the events that hosts report, in one vocabulary for all hosts, and the answer to a hook.

An adapter turns each hook event into a tuple of these events. Times and names are the host's own. A field that the host
leaves out is None or empty. This module only holds data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

from callosum.corpus.events import CorpusEvent
from callosum.model import DEFAULT_NAMESPACE, Call, Decision, Outcome

if TYPE_CHECKING:
    from callosum.brain import Brain
    from callosum.wire import Brief


class HostIdentity(Struct, frozen=True):
    """Hold the instance name and namespace of a host's sessions.

    ``home`` is the home folder of the host's process.
    """

    instance: str
    namespace: str = DEFAULT_NAMESPACE
    home: str | None = None


class HostSession(Struct, frozen=True, kw_only=True):
    """Identify the acting session of a host; a sub-agent counts as a session of its own.

    ``run`` is the current turn. ``parent`` is the session that started this one, as ``instance/session``.
    """

    instance: str
    session: str
    namespace: str = DEFAULT_NAMESPACE
    run: str | None = None
    parent: str | None = None
    cwd: str | None = None

    @property
    def name(self) -> str:
        """Return ``instance/session``."""
        return f"{self.instance}/{self.session}"


class CallStarting(Struct, frozen=True):
    """Report that a tool call is about to run.

    ``call.pause`` is set, because the only way to show a warning in a host is not to run the tool.
    """

    call: Call


class CallReturned(Struct, frozen=True, kw_only=True):
    """Report that a tool call returned.

    If ``call_id`` is None, the host has no call ids, and tool and params identify the call. ``background`` is the
    host's name for work that continues after the result, or "" if there is none. The action of such a call stays open
    until a ``BackgroundEnded`` names it.
    """

    actor: HostSession
    tool: str
    params: Mapping[str, Any]
    outcome: Outcome
    call_id: str | None = None
    result: Any = None
    background: str = ""


class BackgroundEnded(Struct, frozen=True):
    """Report that background work ended. ``error`` is the host's error message, or "" if there is none."""

    actor: HostSession
    background: str
    outcome: Outcome
    error: str = ""


class CallsClosed(Struct, frozen=True):
    """Report that the host has finished with these calls.

    A call without a report never ran or was interrupted. ``results`` maps call ids to results, for calls whose end no
    other event reports.
    """

    actor: HostSession
    calls: tuple[str, ...]
    outcome: Outcome
    results: Mapping[str, Any] = {}


class SessionIdle(Struct, frozen=True):
    """Report that the session has no running calls left, except in the background.

    ``outcome`` applies to the calls that were not reported; after an interruption it is ``unknown``. With ``all`` the
    background work and the session's sub-agents have ended too. Calls of the tool ``but`` may still be running.
    """

    actor: HostSession
    outcome: Outcome = Outcome.UNKNOWN
    all: bool = False
    but: str = ""


class BriefRequested(Struct, frozen=True):
    """Report that the session can take a brief, because it starts or receives a ``prompt``.

    ``forgot`` means that the session's context was compacted, so the brief also lists the session's own open actions.
    """

    actor: HostSession
    prompt: str | None = None
    forgot: bool = False

    def of(self, brain: Brain) -> Brief:
        """Return the brief."""
        session: dict[str, Any] = {"namespace": self.actor.namespace, "cwd": self.actor.cwd}
        return brain.brief(self.actor.instance, self.actor.session, prompt=self.prompt, forgot=self.forgot, **session)


class FinalAnswer(Struct, frozen=True):
    """Report the session's answer to its user. The last answer of a session says what it did."""

    actor: HostSession
    answer: str


class PromptTyped(Struct, frozen=True):
    """Report a prompt that a person typed. It is the purpose of the session's calls until the next prompt."""

    actor: HostSession
    prompt: str


class OtherEvent(Struct, frozen=True, kw_only=True):
    """Report any other event that belongs in the journal.

    ``what`` is the host's name for the event. ``ends`` is True at the end of the session.
    """

    actor: HostSession
    what: str
    details: Mapping[str, Any] = field(default_factory=dict)
    ends: bool = False


class SettingsChanging(Struct, frozen=True):
    """Report that a changed settings file of the host is about to take effect.

    ``path`` is absolute, or "" if the host does not name the file.
    """

    actor: HostSession
    path: str


class CallRefused(Struct, frozen=True):
    """Report a call that the adapter itself refuses, because no hook would see what follows the call."""

    actor: HostSession
    tool: str
    params: Mapping[str, Any]
    reason: str


class CorpusEmission(Struct, frozen=True):
    """Carry an event for the corpus."""

    event: CorpusEvent


HostEvent: TypeAlias = (
    CallStarting
    | CallReturned
    | BackgroundEnded
    | CallsClosed
    | SessionIdle
    | FinalAnswer
    | PromptTyped
    | BriefRequested
    | OtherEvent
    | SettingsChanging
    | CallRefused
    | CorpusEmission
)


class HookAnswer(Struct, frozen=True):
    """Hold the answer to a hook event.

    ``decision`` is set if the event asked about a call. ``inform`` is text for the model that stops nothing.
    ``refuse`` is the reason why something other than a call is refused. Both are "" if there is nothing to say.
    """

    decision: Decision | None = None
    inform: str = ""
    refuse: str = ""
