"""Report an action that this process opened a short while ago in one round trip.

The process knows what the report's step would see, so it reads nothing first. The statement applies the step's change
only if all of that is still true, and says whether it was. The moment is the server's: the step runs for the earliest
and for the latest possible moment, and must return the same change for both.
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

_REPORTABLE: Final = 60.0
"""Seconds after opening for which an action is reported this way."""
_AHEAD: Final = 5 * SECOND
"""Microseconds by which the server's moment may be later than expected."""

_NOTHING: Final = Change()


class PredictedReport(Struct, frozen=True):
    """A report ready to be sent. ``change``: the step's change, apart from its moment."""

    change: Change
    params: dict[str, Any]

    def applied(self, now: int) -> Applied:
        """Return the result for the moment at which the report was applied."""
        settles = tuple(replace(settle, ended=now) for settle in self.change.settles)
        return Applied(replace(self.change, settles=settles), (now,), now)


def is_report(scope: Scope) -> bool:
    """Return True if a scope needs nothing but the action that it finds."""
    return scope.call is None and not (scope.keys or scope.waits or scope.prints or scope.parent or scope.continues)


def predict(
    opened: OpenedAction, cache: PostgresCache, scope: Scope, step: Step, clock: int | None, probe: Probe
) -> PredictedReport | None:
    """Return the report if it can be sent without reading a view, else None. ``clock`` replaces the server's clock."""
    action = opened.action
    elapsed = int((time.monotonic() - opened.since) * SECOND)
    first, latest = action.id + 1, (clock if clock is not None else action.id + elapsed) + _AHEAD
    kin = cache.sessions.get((scope.namespace, action.session))  # a report may name the instance alone
    if elapsed > _REPORTABLE * SECOND or kin is None or not (first >= kin[0] > latest - MINUTE):
        return None
    if not 0 <= latest - kin[1] < HOUR:
        return None  # the session must be recorded again
    if action.host is not None and action.state is State.OPEN:
        action = replace(action, alive=probe(action.host))
    view = View(first, found=action, observe_until=cache.observe)
    try:
        change, later = step(view), step(replace(view, now=latest))
    except Exception:  # noqa: BLE001 - if it is real, the step raises it again on a real view
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
        "observe": str(cache.observe).encode(),
        "event": entry.event.value,
        "namespace": entry.namespace,
        "session": entry.session,
        "outcome": entry.outcome.value if entry.outcome is not None else None,
        "body": as_json(entry.body) if entry.body else None,
        **settled(change.settles[0]),
    }
    return PredictedReport(change, params)


def _simple(change: Change, action: Action, now: int) -> bool:
    """Return True if a change only marks the action as done, with one entry."""
    if len(change.entries) != 1 or len(change.settles) != 1:
        return False
    settle = change.settles[0]
    rest = replace(change, entries=(), settles=(), answer=None)
    return rest == _NOTHING and settle == Settle(action, State.DONE, now) and change.entries[0].action == action.id
