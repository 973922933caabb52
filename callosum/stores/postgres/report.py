"""The report of an action that this process opened a short while ago: one round trip.

What the report's step would see is known here, so nothing needs to be looked up first; the statement applies
what the step wants only if all of it is still true, and says so. Its moment is the server's: the step is run for
the earliest and the latest that it may be, and must want the same for both.
"""

from __future__ import annotations

import time
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import HOUR, MINUTE, SECOND, Action, Applied, Change, Scope, Settle, State, Step, View
from callosum.stores.base import Probe
from callosum.stores.postgres.apply import settled
from callosum.stores.postgres.view import OpenedAction, PostgresCache
from callosum.stores.rows import as_json

_RECALL: Final = 60.0
"""For how many seconds what is known of an opened action is tried."""
_AHEAD: Final = 5 * SECOND
"""How much later than expected the server's moment may be."""

_NOTHING: Final = Change()


class PredictedReport(Struct, frozen=True):
    """A report that can be sent. ``change`` is what its step wants, but for the moment."""

    change: Change
    params: dict[str, Any]

    def applied(self, now: int) -> Applied:
        """What has become of it: it was applied at this moment."""
        settles = tuple(replace(settle, ended=now) for settle in self.change.settles)
        return Applied(replace(self.change, settles=settles), (now,), now)


def is_report(scope: Scope) -> bool:
    """Whether a scope needs no more than the action that it finds."""
    return scope.call is None and not (scope.keys or scope.waits or scope.prints or scope.parent or scope.continues)


def predict(
    opened: OpenedAction, memory: PostgresCache, scope: Scope, step: Step, clock: int | None, probe: Probe
) -> PredictedReport | None:
    """The report as it can be sent without a look, if it is one that can; ``clock`` stands in for the server's."""
    action = opened.action
    gone = int((time.monotonic() - opened.since) * SECOND)
    first, latest = action.id + 1, (clock if clock is not None else action.id + gone) + _AHEAD
    kin = memory.sessions.get((scope.namespace, scope.session))
    if gone > _RECALL * SECOND or kin is None or not (first >= kin[0] > latest - MINUTE):
        return None
    if not 0 <= latest - kin[1] < HOUR:
        return None  # the session is to be noted again
    if action.host is not None and action.state is State.OPEN:
        action = replace(action, alive=probe(action.host))
    view = View(first, found=action, observe_until=memory.observe)
    try:
        change, later = step(view), step(replace(view, now=latest))
    except Exception:  # noqa: BLE001 - it is raised again where a look has shown that it must be
        return None
    if not (_simple(change, action, first) and _simple(later, action, latest)):
        return None
    at_no_time = replace(change, settles=(replace(change.settles[0], ended=latest),))
    if at_no_time != later:
        return None
    (entry,) = change.entries
    params = {
        "clock": clock,
        "was": action.state.value,
        "expires": action.expires,
        "first": first,
        "latest": latest,
        "observe": str(memory.observe).encode(),
        "event": entry.event.value,
        "namespace": entry.namespace,
        "session": entry.session,
        "outcome": entry.outcome.value if entry.outcome is not None else None,
        "body": as_json(entry.body) if entry.body else None,
        **settled(change.settles[0]),
    }
    return PredictedReport(change, params)


def _simple(change: Change, action: Action, now: int) -> bool:
    """Whether a change is no more than that an action is done, with its entry."""
    if len(change.entries) != 1 or len(change.settles) != 1:
        return False
    settle = change.settles[0]
    rest = replace(change, entries=(), settles=(), answer=None)
    return rest == _NOTHING and settle == Settle(action, State.DONE, now) and change.entries[0].action == action.id
