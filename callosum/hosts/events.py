"""What a host tells of its sessions, in the words that all hosts share, and what it is answered.

A hook event of a host becomes a tuple of these. Times and names are the host's; whatever a host leaves out is None
or empty. Nothing here acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from callosum.corpus.events import CorpusEvent
from callosum.model import DEFAULT_NAMESPACE, Call, Decision, Outcome


class HostIdentity(Struct, frozen=True):
    """Under which name a host's sessions act, and in which memory. ``home`` is the home of the host's process."""

    instance: str
    namespace: str = DEFAULT_NAMESPACE
    home: str | None = None


class HostSession(Struct, frozen=True, kw_only=True):
    """Who acts: a session of a host, or a sub-agent in it.

    ``run`` is one turn of it, ``parent`` the actor that started it (``instance/session``).
    """

    instance: str
    session: str
    namespace: str = DEFAULT_NAMESPACE
    run: str | None = None
    parent: str | None = None
    cwd: str | None = None

    @property
    def name(self) -> str:
        """``instance/session``."""
        return f"{self.instance}/{self.session}"


class CallStarting(Struct, frozen=True):
    """A tool call is about to run. ``call.pause`` is set: a host shows a warning only by not running the tool."""

    call: Call


class CallReturned(Struct, frozen=True, kw_only=True):
    """A tool call came back. ``call_id`` None: the host has no ids, and tool and params tell which one.

    ``background`` is the host's name of what goes on after the answer ("" if nothing does): its action stays open
    until ``BackgroundEnded`` names it.
    """

    actor: HostSession
    tool: str
    params: Mapping[str, Any]
    outcome: Outcome
    call_id: str | None = None
    result: Any = None
    background: str = ""


class BackgroundEnded(Struct, frozen=True):
    """What went on in the background has come to its end. ``error`` says what went wrong, if the host says it."""

    actor: HostSession
    background: str
    outcome: Outcome
    error: str = ""


class CallsClosed(Struct, frozen=True):
    """The host is through with these calls: what is not reported of them never ran, or was broken off.

    ``results`` are by call id what those returned whose end nothing else tells.
    """

    actor: HostSession
    calls: tuple[str, ...]
    outcome: Outcome
    results: Mapping[str, Any] = {}


class SessionIdle(Struct, frozen=True):
    """The actor has no call under way any more but what runs in the background.

    ``outcome`` is that of the calls which were not reported: ``unknown`` after an interruption. ``all``: the
    background is gone too, and so are the actors that this one started. ``but``: a tool whose calls may go on.
    """

    actor: HostSession
    outcome: Outcome = Outcome.UNKNOWN
    all: bool = False
    but: str = ""


class BriefRequested(Struct, frozen=True):
    """The actor can be told what the others do: it begins, or is given something to do (``prompt``).

    ``forgot``: its context was compacted, so it is told also what it has in hand itself.
    """

    actor: HostSession
    prompt: str | None = None
    forgot: bool = False


class FinalAnswer(Struct, frozen=True):
    """The actor has answered who asked it: with its last answer a session says what it did."""

    actor: HostSession
    answer: str


class PromptTyped(Struct, frozen=True):
    """A person typed a prompt: what the actor's calls serve until the next one."""

    actor: HostSession
    prompt: str


class OtherEvent(Struct, frozen=True, kw_only=True):
    """Something else happened that the journal is to keep: ``what`` is the host's name of it.

    ``ends``: it is the end of the session.
    """

    actor: HostSession
    what: str
    details: Mapping[str, Any] = field(default_factory=dict)
    ends: bool = False


class SettingsChanging(Struct, frozen=True):
    """A settings file of the host is about to take effect as it now stands. ``path`` is absolute, "" if not told."""

    actor: HostSession
    path: str


class CallRefused(Struct, frozen=True):
    """A call that the adapter itself turns down: what would follow it could not be seen."""

    actor: HostSession
    tool: str
    params: Mapping[str, Any]
    reason: str


class CorpusEmission(Struct, frozen=True):
    """An event for the corpus."""

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
    """What there is to say to the host.

    ``decision`` is set if a call was to be decided. ``inform`` is for the model and stops nothing, ``refuse`` is
    why something else than a call may not be, "" each if there is nothing.
    """

    decision: Decision | None = None
    inform: str = ""
    refuse: str = ""
