"""Which events an entry of the journal stands for. Pure: no clock, no store.

========== ===================================================================================
entry      events, in this order
========== ===================================================================================
intercept  ``tool.called``, then ``safety.allowed`` (allow, warn) or ``safety.blocked`` (confirm, ask, block)
complete   ``tool.completed`` (done), else ``tool.failed``
release    ``tool.completed``, where it ended a call's lease and not a lock
lapse      ``tool.failed``, where a call's lease ran out: nobody knows how it ended
resolve    ``tool.completed`` or ``tool.failed``: somebody looked
late       ``tool.called``, then how the call ended; the gate was away and decided nothing
approve    ``safety.approved``
deny       ``safety.denied``
========== ===================================================================================

Locks, renewals, places in the queue and ``observe`` stand for no event. An event of an entry has an id in
the stream, ``<seq>.<n>``: the entry's place and the event's among the entry's. ``cause`` holds such ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from callosum.corpus.events import (
    CorpusEvent,
    SafetyAllowed,
    SafetyApproved,
    SafetyBlocked,
    SafetyDenied,
    ToolCalled,
    ToolCompleted,
    ToolFailed,
)
from callosum.model import SECOND, Conflict, Entry, Event, Outcome, Verdict
from callosum.policy.sentence import sentence

Events = tuple[CorpusEvent, ...]

LOCK: Final = "lock"
"""What stands for a tool in the entries of a lock."""

_GRAVITY: Final = ("safe", "low", "medium", "high", "critical")
_CHANNEL: Final = re.compile(r"\(([^()]*)\)\Z")
_CANCELLED: Final = "cancelled: it was let through and did not run"
_UNKNOWN: Final = "nobody knows how it ended"


def events_of(entry: Entry) -> Events:
    """Returns the events that the entry stands for, in order; none for what no event tells of."""
    make = _MAKERS.get(entry.event)
    return make(entry) if make is not None else ()


def _intercept(entry: Entry) -> Events:
    seq, verdict = entry.seq, entry.verdict
    at, id, cause = seq / SECOND, entry.action or seq, f"{seq}.0"
    who, namespace, tool = entry.session, entry.namespace, entry.tool
    called = ToolCalled(tool, _args(entry), at=at, instance=who, namespace=namespace, id=id)
    if verdict is None or verdict.proceed:
        word = _GRAVITY[entry.tier or 0]
        return called, SafetyAllowed(tool, word, at=at, instance=who, namespace=namespace, id=id, cause=cause)
    reason = _reason(entry, verdict)
    return called, SafetyBlocked(tool, reason, at=at, instance=who, namespace=namespace, id=id, cause=cause)


def _args(entry: Entry) -> Mapping[str, Any]:
    params = entry.body.get("params")
    return params if isinstance(params, Mapping) else {}


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


def _ended(entry: Entry) -> Events:
    """A report: how long it took is known, for an action's id is the moment at which it was let through."""
    took = (entry.seq - entry.action) / 1000 if entry.action else None
    return (_end(entry, f"{entry.action}.0" if entry.action else None, took),)


def _end(entry: Entry, cause: str | None, took: float | None) -> CorpusEvent:
    body, outcome = entry.body, entry.outcome
    at, id = entry.seq / SECOND, entry.action or None
    who, namespace, tool = entry.session, entry.namespace, entry.tool
    if outcome is None or outcome is Outcome.DONE:
        return ToolCompleted(
            tool, body.get("result"), took, at=at, instance=who, namespace=namespace, id=id, cause=cause
        )
    error = _error(body, outcome)
    return ToolFailed(tool, error, at=at, instance=who, namespace=namespace, id=id, cause=cause)


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


def _released(entry: Entry) -> Events:
    return _ended(entry) if entry.outcome is Outcome.DONE and entry.tool != LOCK else ()


def _lapsed(entry: Entry) -> Events:
    return (_end(entry, _call_of(entry), None),) if entry.outcome is Outcome.UNKNOWN and entry.tool != LOCK else ()


def _resolved(entry: Entry) -> Events:
    """Looking says nothing of how long it took; a repeat that took its place ended it before."""
    return () if entry.outcome is Outcome.CANCELLED else (_end(entry, _call_of(entry), None),)


def _call_of(entry: Entry) -> str | None:
    return f"{entry.action}.0" if entry.action else None


def _late(entry: Entry) -> Events:
    at = entry.seq / SECOND
    called = ToolCalled(entry.tool, _args(entry), at=at, instance=entry.session, namespace=entry.namespace)
    return called, _end(entry, f"{entry.seq}.0", None)


def _approved(entry: Entry) -> Events:
    return (_answered(entry, SafetyApproved),)


def _denied(entry: Entry) -> Events:
    return (_answered(entry, SafetyDenied),)


def _answered(entry: Entry, kind: type[SafetyApproved | SafetyDenied]) -> CorpusEvent:
    cause = f"{entry.action}.1" if entry.action else None
    return kind(
        entry.tool,
        _channel(entry.body.get("by")),
        at=entry.seq / SECOND,
        instance=entry.session,
        namespace=entry.namespace,
        id=entry.action or None,
        cause=cause,
    )


def _channel(by: Any) -> str:
    """The channel in ``anna (console)``, which is how the journal names who answered and through what."""
    found = _CHANNEL.search(by) if isinstance(by, str) else None
    return found[1] if found else ""


_MAKERS: Final[Mapping[Event, Callable[[Entry], Events]]] = {
    Event.INTERCEPT: _intercept,
    Event.COMPLETE: _ended,
    Event.RELEASE: _released,
    Event.LAPSE: _lapsed,
    Event.RESOLVE: _resolved,
    Event.LATE: _late,
    Event.APPROVE: _approved,
    Event.DENY: _denied,
}
