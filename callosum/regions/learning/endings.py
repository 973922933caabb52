"""How warned, confirmed, asked and blocked calls end, read from the journal's entries in order.

The life of a stop::

    mira intercepts   doug acted on the key 40 s ago: confirm. A StoppedCall begins, identified by session, tool, rule
                      and key
    mira repeats      within ten minutes, let through on that key: "confirmed"; its report gives "confirmed.done"
    or does not       after ten minutes: "heeded"

A call that ran has two endings: one when it was let through, one when its outcome is known.

====================== ==============================================================================
``warned.X``           let through with a warning, and ended as X: done, failed, cancelled, unknown
``confirmed``          stopped, and repeated by its session; ``confirmed.X`` how that ended
``waited``             as confirmed, but the conflict had ended first: the stop was justified; ``waited.X``
``heeded``             stopped, and not repeated within ten minutes
``approved``           a person approved; ``approved.X`` how it ended, ``approved.unused`` if it never ran
``denied``             a person denied
``unanswered``         a person was asked, and nobody answered in time
``blocked``            blocked, and nobody let it pass within the hour
``regretted``          confirmed, and within the hour another session was about to do the same or the opposite
====================== ==============================================================================

Memory is bounded: among very many open calls the oldest are forgotten without an ending.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from callosum.journal import ENDS, is_canary
from callosum.model import HOUR, Conflict, Entry, Event, Kind, Mode, Outcome, Verdict
from callosum.policy.admit import APPROVAL_TTL
from callosum.policy.marks import PAUSE_SPAN

MOST: Final = 20_000
"""Most calls of one kind that are followed at once."""

_Identity = tuple[str, str, str, str, str]
"""What a repeat is recognised by: namespace, session, tool, rule, key."""


class StoppedCall(Struct, gc=False):
    """A call that was not simply let through.

    ``seq`` is its entry's; ``action`` is its action's id once it ran, 0 before. ``verdict`` is the gate's verdict,
    ``kinds`` are the conflicts (none: the rule alone stopped it). ``keys`` are the keys it would have changed,
    ``holders`` the actions that held them. ``approved`` is the moment a person approved.
    """

    seq: int
    namespace: str
    session: str
    tool: str
    rule: str
    tier: int
    verdict: Verdict
    kinds: frozenset[Kind]
    keys: tuple[str, ...]
    params: Any
    call_id: str | None = None
    holders: frozenset[int] = frozenset()
    waited: bool = False
    approved: int = 0
    action: int = 0


class Ending(Struct, frozen=True, gc=False):
    """How a call ended, as the module describes; ``at`` is the moment."""

    how: str
    at: int
    case: StoppedCall


class EndingTracker:
    """Follow entries. ``feed`` them in order, without gaps; not safe for concurrent use."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._paused: OrderedDict[int, StoppedCall] = OrderedDict()
        self._asked: OrderedDict[int, StoppedCall] = OrderedDict()
        self._approved: OrderedDict[int, StoppedCall] = OrderedDict()
        self._by_identity: dict[_Identity, StoppedCall] = {}
        """The newest open call for each identity."""
        self._holders: dict[int, set[int]] = {}
        """The confirm-stopped calls that wait behind an action."""
        self._running: OrderedDict[int, tuple[str, StoppedCall]] = OrderedDict()
        self._ran: OrderedDict[int, tuple[int, StoppedCall]] = OrderedDict()
        """Calls confirmed within the hour, by action."""

    def feed(self, entry: Entry) -> list[Ending]:
        """Take the next entry; return its endings, after those that time brought before it."""
        endings = self.pass_time(entry.seq)
        if is_canary(entry):
            return endings
        if entry.event is Event.INTERCEPT:
            endings += self._intercepted(entry)
        elif entry.event in ENDS:
            endings += self._ended(entry)
        elif entry.event is Event.APPROVE or entry.event is Event.DENY:
            endings += self._answered(entry)
        return endings

    def pass_time(self, now: int) -> list[Ending]:
        """Return the endings that time has brought by the moment ``now``."""
        endings: list[Ending] = []
        while self._paused and (case := _oldest(self._paused)).seq + PAUSE_SPAN <= now:
            self._close(case)
            endings.append(Ending("heeded", case.seq + PAUSE_SPAN, case))
        while self._asked and (case := _oldest(self._asked)).seq + APPROVAL_TTL <= now:
            self._close(case)
            how = "unanswered" if case.verdict is Verdict.ASK else "blocked"
            endings.append(Ending(how, case.seq + APPROVAL_TTL, case))
        while self._approved and (case := _oldest(self._approved)).approved + APPROVAL_TTL <= now:
            self._close(case)
            endings.append(Ending("approved.unused", case.approved + APPROVAL_TTL, case))
        while self._ran and next(iter(self._ran.values()))[0] + HOUR <= now:
            self._ran.popitem(last=False)
        return endings

    # --- decisions -----------------------------------------------------------------------------------

    def _intercepted(self, entry: Entry) -> list[Ending]:
        verdict = entry.verdict
        if verdict is None:
            return []
        conflicts = entry.body.get("conflicts")
        endings = self._regretted(entry, conflicts) if conflicts and self._ran else []
        if not verdict.proceed:
            self._open(entry, verdict)
        elif "observed" not in entry.body:  # while only observing, the gate lets calls pass that nobody confirmed
            endings += self._let_through(entry, verdict)
        return endings

    def _open(self, entry: Entry, verdict: Verdict) -> None:
        if verdict is Verdict.ASK and not entry.action:
            return  # the question was asked before and is still pending
        case = _case(entry, verdict)
        for identity in _identities(case):
            # the same call again with more conflicts: count it as one, with all of them
            earlier = self._by_identity.get(identity)
            if earlier is not None:
                self._close(earlier)
                if earlier.verdict is verdict:
                    case.kinds |= earlier.kinds
                    case.holders |= earlier.holders
                    case.waited |= earlier.waited
        for identity in _identities(case):
            self._by_identity[identity] = case
        if verdict is not Verdict.CONFIRM:
            _keep(self._asked, case.seq, case, self._most, self._close)
            return
        for holder in case.holders:
            self._holders.setdefault(holder, set()).add(case.seq)
        _keep(self._paused, case.seq, case, self._most, self._close)

    def _let_through(self, entry: Entry, verdict: Verdict) -> list[Ending]:
        case = self._matching(entry) if self._by_identity else None
        if case is None:
            if verdict is Verdict.WARN:
                self._run("warned", _case(entry, verdict), entry)
            return []
        self._close(case)
        if case.approved:
            self._run("approved", case, entry)
            return []
        # a question or block that ended without a person was only waited for
        how = "confirmed" if case.verdict is Verdict.CONFIRM and not case.waited else "waited"
        self._run(how, case, entry)
        if how == "confirmed":
            _keep(self._ran, entry.action, (entry.seq, case), self._most)
        return [Ending(how, entry.seq, case)]

    def _matching(self, entry: Entry) -> StoppedCall | None:
        for name in _changed(entry):
            case = self._by_identity.get((entry.namespace, entry.session, entry.tool, entry.rule, name))
            if case is not None:
                return case
        return None

    def _run(self, how: str, case: StoppedCall, entry: Entry) -> None:
        case.action = entry.action
        if entry.action:
            _keep(self._running, entry.action, (how, case), self._most)

    def _regretted(self, entry: Entry, conflicts: Any) -> list[Ending]:
        endings = []
        for kind, id, own in _conflicts(conflicts):
            if kind in (Kind.DUPLICATE, Kind.OPPOSED) and not own and id in self._ran:
                endings.append(Ending("regretted", entry.seq, self._ran.pop(id)[1]))
        return endings

    # --- later entries ------------------------------------------------------------------------------

    def _ended(self, entry: Entry) -> list[Ending]:
        for seq in self._holders.pop(entry.action, ()):
            if (held_up := self._paused.get(seq)) is not None:
                held_up.waited = True
        asked = self._asked.get(entry.action)
        if asked is not None and entry.event is Event.LAPSE:
            self._close(asked)
            return [Ending("unanswered", entry.seq, asked)]
        running = self._running.pop(entry.action, None)
        if running is None:
            return []
        outcome = entry.outcome or Outcome.DONE
        return [Ending(f"{running[0]}.{outcome}", entry.seq, running[1])]

    def _answered(self, entry: Entry) -> list[Ending]:
        case = self._asked.pop(entry.action, None)
        if case is None:
            return []
        if entry.event is Event.DENY:
            self._close(case)
            return [Ending("denied", entry.seq, case)]
        case.approved = entry.seq
        _keep(self._approved, case.seq, case, self._most, self._close)
        return [Ending("approved", entry.seq, case)]

    def _close(self, case: StoppedCall) -> None:
        for open_ in (self._paused, self._asked, self._approved):
            open_.pop(case.seq, None)
        for identity in _identities(case):
            if self._by_identity.get(identity) is case:
                del self._by_identity[identity]
        for holder in case.holders:
            held_up = self._holders.get(holder)
            if held_up is not None:
                held_up.discard(case.seq)
                if not held_up:
                    del self._holders[holder]


def _case(entry: Entry, verdict: Verdict) -> StoppedCall:
    body = entry.body
    conflicts = list(_conflicts(body.get("conflicts") or ()))
    call_id = body.get("callId")
    return StoppedCall(
        entry.seq,
        entry.namespace,
        entry.session,
        entry.tool,
        entry.rule,
        entry.tier or 0,
        verdict,
        frozenset(kind for kind, _, _ in conflicts),
        tuple(_changed(entry)),
        body.get("params"),
        call_id if isinstance(call_id, str) else None,
        frozenset(id for kind, id, _ in conflicts if kind is Kind.HELD),
    )


def _conflicts(conflicts: Any) -> Iterator[tuple[Kind, int, bool]]:
    """Yield kind, action and ownership of conflicts, as objects or as the journal stores them."""
    for conflict in conflicts if isinstance(conflicts, list | tuple) else ():
        if isinstance(conflict, Conflict):
            yield conflict.kind, conflict.id, conflict.own
        elif isinstance(conflict, Mapping) and (kind := _KINDS.get(str(conflict.get("kind")))) is not None:
            id = conflict.get("id")
            yield kind, id if type(id) is int else 0, bool(conflict.get("own"))


_KINDS: Final[Mapping[str, Kind]] = {kind.value: kind for kind in Kind}


def _changed(entry: Entry) -> list[str]:
    return [key.name for key in entry.keys if key.mode is not Mode.READ]


def _identities(case: StoppedCall) -> list[_Identity]:
    return [(case.namespace, case.session, case.tool, case.rule, name) for name in case.keys]


def _oldest(cases: OrderedDict[int, StoppedCall]) -> StoppedCall:
    return next(iter(cases.values()))


def _keep(values: OrderedDict[int, Any], id: int, value: Any, most: int, forget: Any = None) -> None:
    """Keep a value under its id; beyond ``most`` forget the oldest."""
    values[id] = value
    while len(values) > most:
        _, oldest = values.popitem(last=False)
        if forget is not None:
            forget(oldest)
