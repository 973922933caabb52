"""Which states are alike: ids by rank, times by age, sessions without their names.

Two states are alike if renaming sessions and shifting time turns one into the other. A moment counts by its rank among
all moments of the state, and by its age in quanta up to the world's ``oldest``. Calls that did not happen and that
nothing can name again are left out. So is the journal, which the policy never reads; only rotation leaves its newest
entry.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b
from typing import Any, Final

import msgspec

from callosum.model import State as Stage
from callosum.stores.records import ActionRecord, MarkRecord
from model.world import INSTANT, QUANTUM, Bounds, Session, State

_GONE: Final = frozenset({Stage.FAILED, Stage.CANCELLED})
_WAITING: Final = frozenset({Stage.QUEUED, Stage.ASKED})
_KEY, _MARK, _PRINT, _SESSION = b"kmps"
_encode: Final = msgspec.msgpack.Encoder().encode


class _Moments:
    """Normal form of moments: all are collected first, then each gets its rank and its age."""

    def __init__(self, clock: int, oldest: int) -> None:
        self._clock = clock
        self._oldest = oldest // QUANTUM
        self._places: dict[int, tuple[int, int]] = {0: (-1, -1)}

    def rank(self) -> None:
        """Give every moment that was asked for its rank and its age."""
        self._places = {moment: (rank, self.age(moment)) for rank, moment in enumerate(sorted(self._places))}

    def at(self, moment: int) -> tuple[int, int]:
        """Return the position of a moment among the others."""
        place = self._places.get(moment)
        if place is None:
            place = self._places[moment] = (0, 0)
        return place

    def age(self, moment: int) -> int:
        """Return only the age, for a moment that is compared with the present and with no other."""
        if not moment:
            return -1
        age, oldest = (self._clock + INSTANT - moment) // QUANTUM, self._oldest
        return oldest if age > oldest else max(-oldest, age)

    def end(self, moment: int) -> Any:
        """Return the position of a time limit: future limits are compared only with the present."""
        return self.at(moment) if moment <= self._clock else self.age(moment)


def fingerprint(state: State, bounds: Bounds) -> bytes:
    """Return 16 bytes that are equal for states that are alike."""
    moments = _Moments(state.clock, bounds.oldest)
    _form(state, bounds, moments)
    moments.rank()
    parts = sorted(map(_encode, _form(state, bounds, moments)))
    return blake2b(_encode(parts), digest_size=16).digest()


def _form(state: State, bounds: Bounds, moments: _Moments) -> Collection[Any]:
    """Return the state as nested tuples, one per session."""
    held, at = state.held, moments.at
    kinds = held.records()
    named = {one.id for one in state.acted}
    parts: dict[str, list[Any]] = {name: [_session(session, moments)] for name, session in state.sessions.items()}
    found = {id for printed in kinds[_PRINT] for id, _ in printed}
    for id, act in held.acts.items():
        if id in named or (act.opened and act.action.state not in _GONE):
            parts[act.action.session].append(_act(act, moments, id in found))
    for one in state.acted:
        facts = (at(one.id), moments.age(one.until), one.outcome, at(one.ended), one.alive, at(one.question))
        parts[one.session].append((*facts, str(one.choice)))
    for key, (token, who) in sorted(state.tokens.items()):
        parts[who].append((key, at(token)))
    for record in kinds[_KEY]:
        for place, session in enumerate(record.sessions):
            parts[session].append((record.key, place))
    for mark in kinds[_MARK]:
        parts[mark.session].append(_mark(mark, moments))
    newest = held.acts.get(held.seqs[-1]) if held.seqs and bounds.rotates else None
    if newest is not None:  # rotation leaves the newest entry
        parts[newest.action.session].append(at(newest.action.id))
    for last in kinds[_SESSION] if bounds.rotates else ():
        parts[last.session].append((moments.age(last.seen), moments.age(last.began)))
    return parts.values()


def _act(act: ActionRecord, moments: _Moments, found: bool) -> Any:
    action, at = act.action, moments.at
    made = action.content.commitment
    return (
        at(action.id),
        action.tool,
        [key.name for key in action.keys],
        action.state,
        at(action.ended),
        moments.age(action.expires) if action.state in _WAITING else moments.end(action.expires),
        moments.age(abs(action.approved)),
        action.approved < 0,
        action.verdict,
        [at(id) for id in action.supersedes],
        found,
        at(made.until) if made is not None else None,
    )


def _session(session: Session, moments: _Moments) -> Any:
    at, age = moments.at, moments.age
    waiting, question = session.waiting, session.question
    return (
        session.made,
        waiting and (str(waiting.choice), at(waiting.place), age(waiting.ends), age(waiting.polled)),
        question and (str(question.choice), at(question.id), age(abs(question.answered)), question.answered < 0),
        sorted((at(one.id), one.kind, age(one.at)) for one in session.shown),
        [age(moment) for moment in session.pauses],
    )


def _mark(record: MarkRecord, moments: _Moments) -> Any:
    at, age, mark = moments.at, moments.age, record.mark
    return (
        record.key,
        at(mark.read),
        at(mark.notified),
        mark.notified_kind,
        at(mark.notified_at),
        at(mark.notified_before),
        mark.notified_before_kind,
        (mark.covers, mark.covers_before),
        [age(pause) for pause in mark.pauses if pause > 0],
        [(at(moment), at(by)) for moment, by in record.reads],
        at(record.changed),
        [at(act[0]) for act in record.acts],
    )
