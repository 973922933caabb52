"""Which states are alike: ids by rank, times by age, sessions without their names.

Two states are alike if renaming sessions and shifting time turns one into the other. A moment counts by its rank among
all moments of the state, and by its age in quanta up to the world's ``oldest``. Calls that did not happen and that
nothing can name again are left out. So is the journal, which the policy never reads.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import msgspec

from callosum.model import State as Stage
from callosum.policy.marks import coverage
from callosum.stores.memory import _Held
from callosum.stores.records import Record
from model.world import INSTANT, QUANTUM, Bounds, Session, State

_GONE: Final = frozenset({Stage.FAILED, Stage.CANCELLED})
_WAITING: Final = frozenset({Stage.QUEUED, Stage.ASKED})
_encode: Final = msgspec.msgpack.Encoder().encode


class _Moments:
    """Normal form of moments: all are collected first, then each gets its rank and its age."""

    def __init__(self, clock: int, oldest: int) -> None:
        self._clock = clock
        self._oldest = oldest // QUANTUM
        self.ranks: dict[int, int] = {}

    def at(self, moment: int) -> Any:
        """Return the position of a moment among the others."""
        return (self.ranks.setdefault(moment, 0), self.age(moment)) if moment else 0

    def age(self, moment: int) -> int:
        """Return only the age, for a moment that is compared with the present and with no other."""
        return max(-self._oldest, min(self._oldest, (self._clock + INSTANT - moment) // QUANTUM)) if moment else -1

    def end(self, moment: int) -> Any:
        """Return the position of a time limit: future limits are compared only with the present."""
        return self.at(moment) if moment <= self._clock else self.age(moment)


def fingerprint(state: State, bounds: Bounds) -> bytes:
    """Return 16 bytes that are equal for states that are alike."""
    moments = _Moments(state.clock, bounds.oldest)
    _form(state, bounds, moments)
    moments.ranks = {moment: rank for rank, moment in enumerate(sorted(moments.ranks))}
    return blake2b(_encode(_form(state, bounds, moments)), digest_size=16).digest()


def _form(state: State, bounds: Bounds, moments: _Moments) -> Any:
    """Return the state as nested tuples, one per session."""
    held, at = state.held, moments.at
    named = {one.id for one in state.acted}
    acts: dict[str, list[Any]] = {name: [] for name in state.sessions}
    for id, act in held.acts.items():
        if id in named or (act.opened and act.action.state not in _GONE):
            acts[act.action.session].append(_act(act, moments))
    for one in state.acted:
        facts = (at(one.id), moments.age(one.until), one.outcome, at(one.ended), one.alive, at(one.question))
        acts[one.session].append((*facts, str(one.choice)))
    for key, (token, who) in sorted(state.tokens.items()):
        acts[who].append((key, at(token)))
    return sorted(
        _encode((_session(session, moments), acts[name], _marks(held, name, moments, bounds)))
        for name, session in state.sessions.items()
    )


def _act(act: Record, moments: _Moments) -> Any:
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
        bool(act.prints),
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


def _marks(held: _Held, name: str, moments: _Moments, bounds: Bounds) -> Any:
    at, age = moments.at, moments.age
    marks = [
        (
            place[2],
            at(mark.read),
            at(mark.notified),
            mark.notified_kind,
            at(mark.notified_at),
            at(mark.notified_before),
            mark.notified_before_kind,
            coverage(mark),
            [age(pause) for pause in mark.pauses if pause > 0],
            [(at(moment), at(by)) for moment, by in held.reads.get(place, ())],
        )
        for place, mark in sorted(held.marks.items())
        if place[1] == name
    ]
    last = held.sessions.get(("default", name))
    return (marks, age(last.seen) if bounds.rotates and last is not None else 0)
