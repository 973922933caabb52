"""How calls end that were warned, paused, asked or blocked: told from the journal's entries, in their order.

The life of a pause::

    mira intercepts   doug acted on the key 40 s ago: confirm. A Case begins, known by session, tool, rule and key
    mira repeats      within ten minutes, let through on that key: "confirmed"; its report tells "confirmed.done"
    or does not       after ten minutes: "heeded"

What is told, and when. Of a call that ran, twice: when it was let through, and when its outcome is known.

====================== ==============================================================================
``warned.X``           it was let through with a warning, and ended as X: done, failed, cancelled, unknown
``confirmed``          it was paused, and its session repeated it; ``confirmed.X`` how that ended
``waited``             as confirmed, but what was in the way had ended first: the pause did its work; ``waited.X``
``heeded``             it was paused and not repeated within ten minutes
``approved``           a person agreed; ``approved.X`` how it ended, ``approved.unused`` if it never ran
``denied``             a person refused
``unanswered``         a person was asked, and nobody answered in time
``blocked``            it was blocked, and nobody let it pass within the hour
``regretted``          it was confirmed, and within the hour another session was about to do the same, or the contrary
====================== ==============================================================================

Memory is bounded: of very many open cases the oldest are forgotten, and nothing is told of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from callosum.journal import ENDS
from callosum.model import HOUR, Conflict, Entry, Event, Kind, Mode, Outcome, Verdict
from callosum.policy.admit import APPROVAL_TTL
from callosum.policy.marks import PAUSE_SPAN

MOST: Final = 20_000
"""Most cases of one sort that are followed at once."""

_Place = tuple[str, str, str, str, str]
"""Where a repeat is known by: namespace, session, tool, rule, key."""


class StoppedCall(Struct, gc=False):
    """A call that was not simply let through.

    ``seq`` is its entry's, ``action`` that of the action once it ran (0 before). ``verdict`` is what it was
    told, ``kinds`` what was in the way (none: its rule alone). ``keys`` are those that it would have changed,
    ``holders`` the actions that held them. ``approved`` is the moment at which a person agreed.
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
    """What became of a case, as the module says; ``at`` is the moment."""

    how: str
    at: int
    case: StoppedCall


class EndingTracker:
    """Follows entries. ``feed`` them in order, without gaps; not for several threads at once."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._paused: OrderedDict[int, StoppedCall] = OrderedDict()
        self._asked: OrderedDict[int, StoppedCall] = OrderedDict()
        self._approved: OrderedDict[int, StoppedCall] = OrderedDict()
        self._places: dict[_Place, StoppedCall] = {}
        """The newest open case of each place."""
        self._holders: dict[int, set[int]] = {}
        """The paused cases that an action holds up."""
        self._running: OrderedDict[int, tuple[str, StoppedCall]] = OrderedDict()
        self._ran: OrderedDict[int, tuple[int, StoppedCall]] = OrderedDict()
        """What was confirmed within the hour, by its action."""

    def feed(self, entry: Entry) -> list[Ending]:
        """Takes the next entry; returns what it tells, after what ended by time before it."""
        told = self.pass_time(entry.seq)
        if entry.event is Event.INTERCEPT:
            told += self._intercepted(entry)
        elif entry.event in ENDS:
            told += self._ended(entry)
        elif entry.event is Event.APPROVE or entry.event is Event.DENY:
            told += self._answered(entry)
        return told

    def pass_time(self, now: int) -> list[Ending]:
        """Returns what has ended by time at the moment ``now``."""
        told: list[Ending] = []
        while self._paused and (case := _oldest(self._paused)).seq + PAUSE_SPAN <= now:
            self._close(case)
            told.append(Ending("heeded", case.seq + PAUSE_SPAN, case))
        while self._asked and (case := _oldest(self._asked)).seq + APPROVAL_TTL <= now:
            self._close(case)
            how = "unanswered" if case.verdict is Verdict.ASK else "blocked"
            told.append(Ending(how, case.seq + APPROVAL_TTL, case))
        while self._approved and (case := _oldest(self._approved)).approved + APPROVAL_TTL <= now:
            self._close(case)
            told.append(Ending("approved.unused", case.approved + APPROVAL_TTL, case))
        while self._ran and next(iter(self._ran.values()))[0] + HOUR <= now:
            self._ran.popitem(last=False)
        return told

    # --- decisions -----------------------------------------------------------------------------------

    def _intercepted(self, entry: Entry) -> list[Ending]:
        verdict = entry.verdict
        if verdict is None:
            return []
        conflicts = entry.body.get("conflicts")
        told = self._regretted(entry, conflicts) if conflicts and self._ran else []
        if not verdict.proceed:
            self._open(entry, verdict)
        elif "observed" not in entry.body:  # who only observes lets pass what nobody has confirmed
            told += self._let_through(entry, verdict)
        return told

    def _open(self, entry: Entry, verdict: Verdict) -> None:
        if verdict is Verdict.ASK and not entry.action:
            return  # the question was put before, and still waits
        case = _case(entry, verdict)
        for place in _places(case):
            # the call again, told of more: one case, for all that was in the way
            earlier = self._places.get(place)
            if earlier is not None:
                self._close(earlier)
                if earlier.verdict is verdict:
                    case.kinds |= earlier.kinds
                    case.holders |= earlier.holders
                    case.waited |= earlier.waited
        for place in _places(case):
            self._places[place] = case
        if verdict is not Verdict.CONFIRM:
            _keep(self._asked, case.seq, case, self._most, self._close)
            return
        for holder in case.holders:
            self._holders.setdefault(holder, set()).add(case.seq)
        _keep(self._paused, case.seq, case, self._most, self._close)

    def _let_through(self, entry: Entry, verdict: Verdict) -> list[Ending]:
        case = self._matching(entry) if self._places else None
        if case is None:
            if verdict is Verdict.WARN:
                self._run("warned", _case(entry, verdict), entry)
            return []
        self._close(case)
        if case.approved:
            self._run("approved", case, entry)
            return []
        # a question or a block that went away without a person was only waited for
        how = "confirmed" if case.verdict is Verdict.CONFIRM and not case.waited else "waited"
        self._run(how, case, entry)
        if how == "confirmed":
            _keep(self._ran, entry.action, (entry.seq, case), self._most)
        return [Ending(how, entry.seq, case)]

    def _matching(self, entry: Entry) -> StoppedCall | None:
        for name in _changed(entry):
            case = self._places.get((entry.namespace, entry.session, entry.tool, entry.rule, name))
            if case is not None:
                return case
        return None

    def _run(self, how: str, case: StoppedCall, entry: Entry) -> None:
        case.action = entry.action
        if entry.action:
            _keep(self._running, entry.action, (how, case), self._most)

    def _regretted(self, entry: Entry, conflicts: Any) -> list[Ending]:
        told = []
        for kind, id, own in _conflicts(conflicts):
            if kind in (Kind.DUPLICATE, Kind.OPPOSED) and not own and id in self._ran:
                told.append(Ending("regretted", entry.seq, self._ran.pop(id)[1]))
        return told

    # --- what comes after ----------------------------------------------------------------------------

    def _ended(self, entry: Entry) -> list[Ending]:
        for seq in self._holders.pop(entry.action, ()):
            if (held_up := self._paused.get(seq)) is not None:
                held_up.waited = True
        asked = self._asked.get(entry.action)
        if asked is not None and entry.event is Event.LAPSE:
            self._close(asked)
            return [Ending("unanswered", entry.seq, asked)]
        found = self._running.pop(entry.action, None)
        if found is None:
            return []
        outcome = entry.outcome or Outcome.DONE
        return [Ending(f"{found[0]}.{outcome}", entry.seq, found[1])]

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
        for place in _places(case):
            if self._places.get(place) is case:
                del self._places[place]
        for holder in case.holders:
            held_up = self._holders.get(holder)
            if held_up is not None:
                held_up.discard(case.seq)
                if not held_up:
                    del self._holders[holder]


def _case(entry: Entry, verdict: Verdict) -> StoppedCall:
    body = entry.body
    found = list(_conflicts(body.get("conflicts") or ()))
    call_id = body.get("callId")
    return StoppedCall(
        entry.seq,
        entry.namespace,
        entry.session,
        entry.tool,
        entry.rule,
        entry.tier or 0,
        verdict,
        frozenset(kind for kind, _, _ in found),
        tuple(_changed(entry)),
        body.get("params"),
        call_id if isinstance(call_id, str) else None,
        frozenset(id for kind, id, _ in found if kind is Kind.HELD),
    )


def _conflicts(found: Any) -> Iterator[tuple[Kind, int, bool]]:
    """Kind, action and whether it is the session's own: of conflicts as they are, or as the journal has them."""
    for one in found if isinstance(found, list | tuple) else ():
        if isinstance(one, Conflict):
            yield one.kind, one.id, one.own
        elif isinstance(one, Mapping) and (kind := _KINDS.get(str(one.get("kind")))) is not None:
            id = one.get("id")
            yield kind, id if type(id) is int else 0, bool(one.get("own"))


_KINDS: Final[Mapping[str, Kind]] = {kind.value: kind for kind in Kind}


def _changed(entry: Entry) -> list[str]:
    return [key.name for key in entry.keys if key.mode is not Mode.READ]


def _places(case: StoppedCall) -> list[_Place]:
    return [(case.namespace, case.session, case.tool, case.rule, name) for name in case.keys]


def _oldest(cases: OrderedDict[int, StoppedCall]) -> StoppedCall:
    return next(iter(cases.values()))


def _keep(kept: OrderedDict[int, Any], id: int, value: Any, most: int, forget: Any = None) -> None:
    """Keeps a value under its id, and of more than ``most`` forgets the oldest."""
    kept[id] = value
    while len(kept) > most:
        _, oldest = kept.popitem(last=False)
        if forget is not None:
            forget(oldest)
