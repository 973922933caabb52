"""Enter what a spool holds: calls that ran, reports and cancellations that no gate received in time.

Every function is a pure step. The id and the position in the journal are those of the time of entering. Only the
moments at which a call started and ended come from the caller, clamped between ``since`` (the session's last answer
from the gate) and now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import (
    SECOND,
    Call,
    Change,
    Classification,
    Entry,
    Event,
    Key,
    Mode,
    Opening,
    Outcome,
    Report,
    State,
    Tier,
    Verdict,
    View,
)
from callosum.policy import lifecycle
from callosum.policy.call_facts import prints_of
from callosum.policy.commitments import with_end_date
from callosum.policy.lifecycle import Requester

NOTE: Final = "reported while the gate could not be asked"
GIVEN_UP: Final = "the caller gave up before it had an answer"


class SpooledCall(Struct, frozen=True, gc=False):
    """A call from a spool, with everything known about it.

    ``outcome`` is None until one is reported. ``started`` and ``ended`` are the caller's moments, 0 if it gave none.
    ``since`` is the moment of the session's last answer from the gate, and ``ttl`` the length of a lease in
    microseconds.
    """

    call: Call
    keys: tuple[Key, ...]
    classification: Classification
    body: Mapping[str, Any]
    outcome: Outcome | None
    started: int
    ended: int
    since: int
    ttl: int

    def moments(self, now: int) -> tuple[int, int]:
        """Return the clamped moments at which the call started and ended.

        If the caller gave no start, it is the earliest possible moment.
        """
        since = min(self.since, now)
        ended = min(max(self.ended or now, since), now)
        return min(max(self.started, since), ended), ended


def enter(spooled: SpooledCall, view: View) -> Change:
    """Open a spooled call as an action, unless its identity has opened one. The change's answer is the action's id.

    The action is dated by the caller's moments: for other sessions it changed the resource at its end, and its own
    session has read the resource as of its start. That is why ``expires`` lies before the end: entering the call never
    counts as a read.
    """
    call, classification, outcome, now = spooled.call, spooled.classification, spooled.outcome, view.now
    earlier = view.earlier
    if earlier is not None and (earlier.state is not State.CANCELLED or outcome is Outcome.CANCELLED):
        return Change(answer=earlier.id)
    started, ended = spooled.moments(now)
    state, expires = State.DONE, ended - 1 if outcome is not None else started + spooled.ttl
    if outcome is Outcome.UNKNOWN or (outcome is None and classification.tier >= Tier.HIGH):
        state = State.OPEN
    body, rule, run = {**spooled.body, "started": started / SECOND}, classification.rule, call.run or ""
    space, tool, tier, allow = call.namespace, call.tool, classification.tier, Verdict.ALLOW
    entry = Entry(Event.LATE, call.actor, space, 0, 0, tool, tier, allow, rule, run, spooled.keys, None, body)
    content = with_end_date(classification.content, started)
    found = classification.tier >= 2 or content.commitment is not None
    opening = Opening(state, expires, content=content, prints=prints_of(content) if found else ())
    done = outcome is Outcome.DONE
    moves = {
        key_view.key.name: replace(key_view.mark, read=started)
        for key_view in view.keys
        if key_view.mark.read < started and (done or (outcome is None and key_view.key.mode is Mode.READ))
    }
    return Change((entry,), opening, moves=moves, answer=now)


def conclude(who: Requester, spooled: SpooledCall, outcome: Outcome, view: View) -> Change:
    """Settle a call that was just entered, at the moment it ended. The change's answer is a ``Report``."""
    _, ended = spooled.moments(view.now)
    return lifecycle.finish(who, outcome, None, replace(view, found=view.earlier), ended=ended, note=NOTE)


def report(who: Requester, outcome: Outcome, ended: int, view: View) -> Change:
    """Settle the action of a spooled report. The change's answer is a ``Report``.

    Its ``id`` is None if there is no such action. The action is the one that the scope looked for, otherwise the one
    that the call's identity opened.
    """
    found = view.found or view.earlier
    if found is not None and found.state is State.CANCELLED and outcome is not Outcome.CANCELLED:
        found = None  # a cancellation settled it, but the tool ran anyway
    if found is not None and ended:
        ended = max(ended, found.started)
    return lifecycle.finish(who, outcome, None, replace(view, found=found), ended=ended, note=NOTE)


def withdraw(who: Requester, gave_up: int, view: View) -> Change:
    """Cancel what a call opened whose caller gave up at the moment ``gave_up``. The change's answer is a ``Report``.

    An action that was opened later belongs to a repeat of the call, which got its answer. A reported outcome stays.
    """
    found, running = view.found or view.earlier, (State.OPEN, State.UNKNOWN, State.DONE)
    if found is None or found.started > gave_up or found.ended or found.state not in running:
        return Change(answer=Report(ok=False, note="nothing was opened for this call"))
    return lifecycle.finish(who, Outcome.CANCELLED, None, replace(view, found=found), note=GIVEN_UP)
