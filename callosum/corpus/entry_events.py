"""The events that a journal entry stands for, and the call that an entry is about.

========== ===================================================================================
entry      events, in this order
========== ===================================================================================
intercept  ``tool.called``, then ``safety.allowed`` (allow, warn) or ``safety.blocked`` (confirm, ask, block), then
           ``lease.taken`` if the call holds its keys
complete   ``tool.completed`` (done), else ``tool.failed``; then ``lease.released``
lock       ``lease.taken``
release    ``tool.completed`` if it ended a call's lease and not a lock; then ``lease.released``
lapse      ``tool.failed`` if a call's lease ran out, because its outcome is unknown; then ``lease.expired``
resolve    ``tool.completed`` or ``tool.failed``: somebody checked the outcome
late       ``tool.called``: the call ran without the gate, which decided nothing
approve    ``safety.approved``
deny       ``safety.denied``
========== ===================================================================================

Renewals, queue entries and ``observe`` have no event. An event of an entry has an id in the stream, ``<seq>.<n>``: the
entry's ``seq`` and the event's index in the entry. ``cause`` holds such ids.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from callosum.corpus.events import (
    CorpusEvent,
    LeaseExpired,
    LeaseReleased,
    LeaseTaken,
    SafetyAllowed,
    SafetyApproved,
    SafetyBlocked,
    SafetyDenied,
    ToolCalled,
    ToolCompleted,
    ToolFailed,
)
from callosum.errors import StoreError
from callosum.model import SECOND, TRACE, Conflict, Entry, Event, Outcome, Tier, Verdict
from callosum.policy.sentence import sentence
from callosum.policy.spooled import NOTE

logger = logging.getLogger("callosum")

Events = tuple[CorpusEvent, ...]

_CALLS: Final[tuple[type[CorpusEvent], ...]] = (ToolCalled, ToolCompleted, ToolFailed)
_DECISIONS: Final[tuple[type[CorpusEvent], ...]] = (SafetyAllowed, SafetyBlocked, SafetyApproved, SafetyDenied)
_LEASES: Final[tuple[type[CorpusEvent], ...]] = (LeaseTaken, LeaseReleased, LeaseExpired)
JOURNALLED: Final = frozenset((*_CALLS, *_DECISIONS, *_LEASES))
"""The events that journal entries stand for. A reader of the journal has them, so nobody needs to forward them."""

OPENING: Final = frozenset((Event.INTERCEPT, Event.LATE))
"""The kinds of entry that record a call and hold its names."""
_GRAVITY: Final = ("safe", "low", "medium", "high", "critical")
_STOPPED: Final = frozenset((Verdict.CONFIRM, Verdict.ASK, Verdict.BLOCK))
_CANCELLED: Final = "cancelled: it was let through and did not run"
_UNKNOWN: Final = "nobody knows how it ended"


class CallNames(NamedTuple):
    """The names of a call: the host's id of it, its task, and its attempt, counted from 1."""

    call_id: str | None = None
    task_id: str | None = None
    attempt: int = 1


def call_names_of(entry: Entry) -> CallNames:
    """Return the names of the call that an ``intercept`` or ``late`` entry records."""
    attempt = entry.body.get("attempt")
    return CallNames(_text(entry, "callId"), _text(entry, "taskId"), attempt if isinstance(attempt, int) else 1)


def events_of(entry: Entry, names: CallNames | None = None) -> Events:
    """Return the events that the entry stands for, in order; none if no event describes it.

    ``names`` are those of the call that the entry is about. The entry of a call holds its own.
    """
    make = _MAKERS.get(entry.event)
    if make is None:
        return ()
    if names is None:
        names = call_names_of(entry) if entry.event in OPENING else CallNames()
    return make(entry, names)


def _intercept(entry: Entry, names: CallNames) -> Events:
    seq, verdict = entry.seq, entry.verdict
    cause, tool = f"{seq}.0", entry.tool
    call, task, _attempt = names
    parent, state = _trace(entry)
    own = _about(entry, call) | {"id": entry.action or seq}
    about = own | {"cause": cause}
    called = ToolCalled(tool, _args(entry), task, parent, state, **own)
    if verdict in _STOPPED:
        return called, SafetyBlocked(tool, _reason(entry, verdict), verdict.value, **about)
    warned = (verdict.value, _reason(entry, verdict)) if verdict is Verdict.WARN else (None, None)
    allowed = SafetyAllowed(tool, _GRAVITY[entry.tier or 0], *warned, **about)
    return called, allowed, *_taken(entry, f"{seq}.1", call)


def _text(entry: Entry, name: str) -> str | None:
    text = entry.body.get(name)
    return text if isinstance(text, str) else None


def _args(entry: Entry) -> Mapping[str, Any]:
    params = entry.body.get("params")
    return params if isinstance(params, Mapping) else {}


def _trace(entry: Entry) -> tuple[str | None, str | None]:
    """Return the trace in which the call was made, from its ``meta``."""
    meta = entry.body.get("meta")
    if not isinstance(meta, Mapping):
        return None, None
    values = [meta.get(name) for name in TRACE]
    parent, state = [value if isinstance(value, str) else None for value in values]
    return (parent, state) if parent else (None, None)


def _reason(entry: Entry, verdict: Verdict) -> str:
    """Return the text that the agent was given; if the journal lacks it, the same text made from the conflicts."""
    body = entry.body
    warning = body.get("warning")
    if isinstance(warning, str) and warning:
        return warning
    try:
        conflicts = msgspec.convert(body.get("conflicts") or (), tuple[Conflict, ...], strict=False)
    except msgspec.ValidationError:
        conflicts = ()
    return sentence(verdict, entry.tier or 0, conflicts, len(conflicts)) or verdict.value


def _ended(entry: Entry, names: CallNames) -> Events:
    """Return the events of a report. An action's id is the moment it was let through, so the duration is known."""
    arrived_late = str(entry.body.get("note")).endswith(NOTE)
    took = (entry.seq - entry.action) / 1000 if entry.action and not arrived_late else None
    return _end(entry, names, took), *_given_back(entry, names, LeaseReleased)


def _end(entry: Entry, names: CallNames, took: float | None) -> CorpusEvent:
    body, outcome = entry.body, entry.outcome
    call, task, attempt = names
    common = _about(entry, call, f"{entry.action}.0" if entry.action else None)
    if outcome is None or outcome is Outcome.DONE:
        return ToolCompleted(entry.tool, body.get("result"), took, task, **common)
    return ToolFailed(entry.tool, _error(body, outcome), attempt, task, **common)


def _error(body: Mapping[str, Any], outcome: Outcome) -> str:
    result = body.get("result")
    error = result.get("error") if isinstance(result, Mapping) else result
    if error:
        return error if isinstance(error, str) else msgspec.json.encode(error).decode()
    if outcome is Outcome.CANCELLED:
        return _CANCELLED
    note = body.get("note")
    if isinstance(note, str) and note:
        return f"{_UNKNOWN}: {note}" if outcome is Outcome.UNKNOWN else note
    return _UNKNOWN if outcome is Outcome.UNKNOWN else "failed"


def _released(entry: Entry, names: CallNames) -> Events:
    if entry.outcome is Outcome.DONE and not entry.body.get("lock"):
        return _ended(entry, names)
    return _given_back(entry, names, LeaseReleased)


def _lapsed(entry: Entry, names: CallNames) -> Events:
    is_call = entry.outcome is Outcome.UNKNOWN and not entry.body.get("lock")
    ends = (_end(entry, names, None),) if is_call else ()
    return *ends, *_given_back(entry, names, LeaseExpired)


# --- leases ---


def _taken(entry: Entry, cause: str | None, call: str | None) -> Events:
    """Return the lease that an entry opened: a lock, or a call of tier 3 or 4 that was let through."""
    if not _is_leased(entry) or entry.action != entry.seq or entry.verdict in _STOPPED:
        return ()
    return (LeaseTaken(_names(entry), entry.tier or 0, entry.tool, **_about(entry, call, cause)),)


def _given_back(entry: Entry, names: CallNames, kind: type[LeaseReleased | LeaseExpired]) -> Events:
    """Return the end of a lease. A late report finds no lease, and queued or asked calls never had one."""
    late = str(entry.body.get("note") or "").startswith("late: ")
    waited = kind is LeaseExpired and entry.outcome is not Outcome.UNKNOWN
    if late or waited or not entry.action or not _is_leased(entry):
        return ()
    cause = f"{entry.action}.{0 if entry.body.get('lock') else 2}"
    return (kind(_names(entry), entry.tool, **_about(entry, names.call_id, cause)),)


def _is_leased(entry: Entry) -> bool:
    return bool(entry.keys) and (entry.tier or 0) >= Tier.HIGH


def _names(entry: Entry) -> tuple[str, ...]:
    return tuple([key.name for key in entry.keys])


def _about(entry: Entry, call: str | None, cause: str | None = None) -> dict[str, Any]:
    """Return the fields that all events of an entry have."""
    return {
        "at": entry.seq / SECOND,
        "instance": entry.session,
        "namespace": entry.namespace,
        "call_id": call,
        "id": entry.action or None,
        "cause": cause,
    }


def _resolved(entry: Entry, names: CallNames) -> Events:
    """Return the outcome that somebody found. Its duration is unknown.

    A cancelled action has no event here: the repeat that took its place ended it before.
    """
    return () if entry.outcome is Outcome.CANCELLED else (_end(entry, names, None),)


def _late(entry: Entry, names: CallNames) -> Events:
    called = ToolCalled(entry.tool, _args(entry), names.task_id, *_trace(entry), **_about(entry, names.call_id))
    return (called,)  # a separate entry records its outcome


def _answered(entry: Entry, names: CallNames, kind: type[SafetyApproved | SafetyDenied]) -> CorpusEvent:
    cause = f"{entry.action}.1" if entry.action else None
    return kind(entry.tool, _text(entry, "channel") or "", **_about(entry, names.call_id, cause))


_MAKERS: Final[Mapping[Event, Callable[[Entry, CallNames], Events]]] = {
    Event.INTERCEPT: _intercept,
    Event.COMPLETE: _ended,
    Event.LOCK: lambda entry, _: _taken(entry, None, None),
    Event.RELEASE: _released,
    Event.LAPSE: _lapsed,
    Event.RESOLVE: _resolved,
    Event.LATE: _late,
    Event.APPROVE: lambda entry, names: (_answered(entry, names, SafetyApproved),),
    Event.DENY: lambda entry, names: (_answered(entry, names, SafetyDenied),),
}


# --- The names of earlier calls ---

REMEMBERED: Final = 10_000
"""Number of actions whose calls are remembered."""
_LATER: Final = frozenset((Event.COMPLETE, Event.RELEASE, Event.LAPSE, Event.RESOLVE, Event.APPROVE, Event.DENY))

Find = Callable[[int], Entry | None]
"""Return the journal entry with this ``seq``, or None if it no longer exists."""


class OpeningCalls:
    """Derive events from entries as ``events_of`` does, each with the names of its call.

    ``find`` looks up opening entries that were not passed in before. Without it, and while the store is unreachable,
    events of such an action carry no names. May be used from any thread.
    """

    def __init__(self, find: Find | None = None) -> None:
        self._find = find
        self._calls: OrderedDict[int, CallNames] = OrderedDict()
        self._guard = threading.Lock()

    def events_of(self, entry: Entry) -> Events:
        """Return the events of a journal entry, in order."""
        names = CallNames()
        if entry.event in OPENING:
            names = call_names_of(entry)
            self._remember(entry.action or entry.seq, names)
        elif entry.event in _LATER and entry.action and not entry.body.get("lock"):
            names = self._names_of(entry.action)
        return events_of(entry, names)

    def _names_of(self, action: int) -> CallNames:
        """Return the names of the call that opened an action; none if they cannot be looked up now."""
        with self._guard:
            names = self._calls.get(action)
        if names is None:
            if self._find is None:
                return CallNames()
            try:
                opening = self._find(action)
            except StoreError as error:
                logger.warning(
                    "corpus: the call of action %d cannot be looked up, so its events lack its names: %s", action, error
                )
                return CallNames()
            names = call_names_of(opening) if opening is not None and opening.event in OPENING else CallNames()
            self._remember(action, names)
        return names

    def _remember(self, action: int, names: CallNames) -> None:
        with self._guard:
            self._calls[action] = names
            while len(self._calls) > REMEMBERED:
                self._calls.popitem(last=False)
