"""Which events an entry of the journal stands for. Pure: no clock, no store.

========== ===================================================================================
entry      events, in this order
========== ===================================================================================
intercept  ``tool.called``, then ``safety.allowed`` (allow, warn) or ``safety.blocked`` (confirm, ask, block), then
           ``lease.taken``, where the call holds its keys
complete   ``tool.completed`` (done), else ``tool.failed``; then ``lease.released``
lock       ``lease.taken``
release    ``tool.completed``, where it ended a call's lease and not a lock; then ``lease.released``
lapse      ``tool.failed``, where a call's lease ran out: nobody knows how it ended; then ``lease.expired``
resolve    ``tool.completed`` or ``tool.failed``: somebody looked
late       ``tool.called``: it ran without the gate, which decided nothing
approve    ``safety.approved``
deny       ``safety.denied``
========== ===================================================================================

Renewals, places in the queue and ``observe`` stand for no event. An event of an entry has an id in
the stream, ``<seq>.<n>``: the entry's place and the event's among the entry's. ``cause`` holds such ids.
"""

from __future__ import annotations

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
from callosum.model import SECOND, TRACE, Conflict, Entry, Event, Outcome, Tier, Verdict
from callosum.policy.arrival import NOTE
from callosum.policy.sentence import sentence

Events = tuple[CorpusEvent, ...]

JOURNALLED: Final[frozenset[type[CorpusEvent]]] = frozenset(
    {
        ToolCalled,
        ToolCompleted,
        ToolFailed,
        SafetyAllowed,
        SafetyBlocked,
        SafetyApproved,
        SafetyDenied,
        LeaseTaken,
        LeaseReleased,
        LeaseExpired,
    }
)
"""The events that the journal's entries stand for: whoever reads the journal has them, so nobody need pass them on."""

OPENING: Final = frozenset((Event.INTERCEPT, Event.LATE))
"""The entries that record a call, and hold its names."""
_GRAVITY: Final = ("safe", "low", "medium", "high", "critical")
_CANCELLED: Final = "cancelled: it was let through and did not run"
_UNKNOWN: Final = "nobody knows how it ended"


class CallNames(NamedTuple):
    """The names of a call: the host's id of it, the task that it belongs to, and which attempt it is, from 1."""

    call_id: str | None = None
    task_id: str | None = None
    attempt: int = 1


def call_names_of(entry: Entry) -> CallNames:
    """Return the names of the call that the entry records: an ``intercept`` or a ``late``."""
    attempt = entry.body.get("attempt")
    return CallNames(_text(entry, "callId"), _text(entry, "taskId"), attempt if isinstance(attempt, int) else 1)


def events_of(entry: Entry, made: CallNames | None = None) -> Events:
    """Return the events that the entry stands for, in order; none for what no event tells of.

    ``made`` names the call that the entry speaks of; None if it is not known. A call itself is named by its own entry.
    """
    make = _MAKERS.get(entry.event)
    if make is None:
        return ()
    if made is None:
        made = call_names_of(entry) if entry.event in OPENING else CallNames()
    return make(entry, made)


def _intercept(entry: Entry, made: CallNames) -> Events:
    seq, verdict = entry.seq, entry.verdict
    at, id, cause = seq / SECOND, entry.action or seq, f"{seq}.0"
    who, namespace, tool = entry.session, entry.namespace, entry.tool
    call, task, _attempt = made
    called = ToolCalled(
        tool, _args(entry), task, *_trace(entry), at=at, instance=who, namespace=namespace, call_id=call, id=id
    )
    facts: dict[str, Any] = {
        "at": at,
        "instance": who,
        "namespace": namespace,
        "call_id": call,
        "id": id,
        "cause": cause,
    }
    if verdict is Verdict.WARN:
        facts["verdict"], facts["reason"] = verdict.value, _reason(entry, verdict)
    if verdict is None or verdict.proceed:
        return called, SafetyAllowed(tool, _GRAVITY[entry.tier or 0], **facts), *_taken(entry, f"{seq}.1", call)
    return called, SafetyBlocked(tool, _reason(entry, verdict), verdict.value, **facts)


def _text(entry: Entry, name: str) -> str | None:
    found = entry.body.get(name)
    return found if isinstance(found, str) else None


def _args(entry: Entry) -> Mapping[str, Any]:
    params = entry.body.get("params")
    return params if isinstance(params, Mapping) else {}


def _trace(entry: Entry) -> tuple[str | None, str | None]:
    """The trace in which the call was made, of its ``meta``."""
    meta = entry.body.get("meta")
    said = [meta.get(name) if isinstance(meta, Mapping) else None for name in TRACE]
    parent, state = [one if isinstance(one, str) else None for one in said]
    return (parent, state) if parent else (None, None)


def _reason(entry: Entry, verdict: Verdict) -> str:
    """What the agent was told; where the journal does not have it, the same made from the conflicts."""
    body = entry.body
    warning = body.get("warning")
    if isinstance(warning, str) and warning:
        return warning
    try:
        conflicts = msgspec.convert(body.get("conflicts") or (), tuple[Conflict, ...], strict=False)
    except msgspec.ValidationError:
        conflicts = ()
    return sentence(verdict, entry.tier or 0, conflicts, len(conflicts)) or verdict.value


def _ended(entry: Entry, made: CallNames) -> Events:
    """A report: how long it took is known, for an action's id is the moment at which it was let through."""
    arrived_late = str(entry.body.get("note")).endswith(NOTE)
    took = (entry.seq - entry.action) / 1000 if entry.action and not arrived_late else None
    return _end(entry, made, _call_of(entry), took), *_given_back(entry, made, LeaseReleased)


def _end(entry: Entry, made: CallNames, cause: str | None, took: float | None) -> CorpusEvent:
    body, outcome = entry.body, entry.outcome
    call, task, attempt = made
    common: dict[str, Any] = {
        "at": entry.seq / SECOND,
        "instance": entry.session,
        "namespace": entry.namespace,
        "call_id": call,
        "id": entry.action or None,
        "cause": cause,
    }
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


def _released(entry: Entry, made: CallNames) -> Events:
    if entry.outcome is Outcome.DONE and not entry.body.get("lock"):
        return _ended(entry, made)
    return _given_back(entry, made, LeaseReleased)


def _lapsed(entry: Entry, made: CallNames) -> Events:
    is_call = entry.outcome is Outcome.UNKNOWN and not entry.body.get("lock")
    ends = (_end(entry, made, _call_of(entry), None),) if is_call else ()
    return *ends, *_given_back(entry, made, LeaseExpired)


# --- leases ---


def _locked(entry: Entry, _: CallNames) -> Events:
    return _taken(entry, None, None)


def _taken(entry: Entry, cause: str | None, call: str | None) -> Events:
    """The lease that an entry opened: a lock, or a call of tier 3 or 4 that was let through."""
    if not _is_leased(entry) or entry.action != entry.seq or (entry.verdict is not None and not entry.verdict.proceed):
        return ()
    return (LeaseTaken(_names(entry), entry.tier or 0, entry.tool, call_id=call, **_of(entry, cause)),)


def _given_back(entry: Entry, made: CallNames, kind: type[LeaseReleased | LeaseExpired]) -> Events:
    """The end of a lease; a late report finds none, and what waited or was asked had none."""
    late = str(entry.body.get("note") or "").startswith("late: ")
    waited = kind is LeaseExpired and entry.outcome is not Outcome.UNKNOWN
    if late or waited or not entry.action or not _is_leased(entry):
        return ()
    cause = f"{entry.action}.{0 if entry.body.get('lock') else 2}"
    return (kind(_names(entry), entry.tool, call_id=made.call_id, **_of(entry, cause)),)


def _is_leased(entry: Entry) -> bool:
    return bool(entry.keys) and (entry.tier or 0) >= Tier.HIGH


def _names(entry: Entry) -> tuple[str, ...]:
    return tuple([key.name for key in entry.keys])


def _of(entry: Entry, cause: str | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"at": entry.seq / SECOND, "instance": entry.session, "namespace": entry.namespace}
    return {**facts, "id": entry.action or None, "cause": cause}


def _resolved(entry: Entry, made: CallNames) -> Events:
    """Looking says nothing of how long it took; a repeat that took its place ended it before."""
    return () if entry.outcome is Outcome.CANCELLED else (_end(entry, made, _call_of(entry), None),)


def _call_of(entry: Entry) -> str | None:
    return f"{entry.action}.0" if entry.action else None


def _late(entry: Entry, made: CallNames) -> Events:
    at = entry.seq / SECOND
    called = ToolCalled(
        entry.tool,
        _args(entry),
        made.task_id,
        *_trace(entry),
        at=at,
        instance=entry.session,
        namespace=entry.namespace,
        call_id=made.call_id,
        id=entry.action or None,
    )
    if entry.outcome is None:
        return (called,)  # an entry of its own tells how it ended
    return called, _end(entry, made, f"{entry.seq}.0", None)  # journalled by an earlier version


def _approved(entry: Entry, made: CallNames) -> Events:
    return (_answered(entry, made, SafetyApproved),)


def _denied(entry: Entry, made: CallNames) -> Events:
    return (_answered(entry, made, SafetyDenied),)


def _answered(entry: Entry, made: CallNames, kind: type[SafetyApproved | SafetyDenied]) -> CorpusEvent:
    cause = f"{entry.action}.1" if entry.action else None
    return kind(
        entry.tool,
        _text(entry, "channel") or "",
        at=entry.seq / SECOND,
        instance=entry.session,
        namespace=entry.namespace,
        call_id=made.call_id,
        id=entry.action or None,
        cause=cause,
    )


_MAKERS: Final[Mapping[Event, Callable[[Entry, CallNames], Events]]] = {
    Event.INTERCEPT: _intercept,
    Event.COMPLETE: _ended,
    Event.LOCK: _locked,
    Event.RELEASE: _released,
    Event.LAPSE: _lapsed,
    Event.RESOLVE: _resolved,
    Event.LATE: _late,
    Event.APPROVE: _approved,
    Event.DENY: _denied,
}
