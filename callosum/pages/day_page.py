"""The page of a day: what all sessions did, session by session."""

from __future__ import annotations

from collections import OrderedDict, deque
from datetime import date
from typing import Final

from msgspec import Struct, field

from callosum.characters import escaped
from callosum.journal import ENDS, shown_keys
from callosum.model import MAX_SUMMARY, SECOND, Entry, Event, Key, Outcome, Tier, Verdict
from callosum.pages.action_lines import (
    ActionLine,
    Routine,
    begun,
    ended,
    error_of,
    farewell,
    follow,
    lines,
    name,
    without_spellings,
)
from callosum.pages.dates import ONE_DAY, clock, start_of
from callosum.pages.markdown import code, many, times
from callosum.pages.totals import JournalTotals
from callosum.pages.unfinished import HINT, UnfinishedActions

SESSIONS: Final = 50
"""Most sessions that are described in detail: those that acted last."""
OTHERS: Final = 200
"""Most further sessions that have a line of their own."""
_KNOWN: Final = 10_000
"""Most sessions of which anything is kept."""
FIRST: Final = 20
LAST: Final = 60
"""Numbers of a session's first and last actions that are listed."""
_WROTE: Final = 8
_OBSERVED_SHOWN: Final = 10
_WAITING: Final = 50
"""Most held-back calls of a session for which the page says when they were let through."""
_UNREPORTED: Final = 1000
"""Most calls of tier 1 whose reports are still expected."""
SO_FAR: Final = ", so far"
"""End of the title of a page whose day is not over."""


class SessionDay(Struct):
    """The facts kept about a session: figures, and its first and last actions."""

    session: str
    namespace: str
    first: int
    last: int = 0
    calls: int = 0
    held: int = 0
    reads: int = 0
    writes: int = 0
    failed: int = 0
    waits: int = 0
    waiting: dict[tuple[str, tuple[Key, ...]], deque[ActionLine]] = field(default_factory=dict)
    """By tool and keys, the calls that were held back and not let through since."""
    wrote: dict[str, None] = field(default_factory=dict)
    wrote_more: bool = False
    acts: int = 0
    ended: int = 0
    said: str = ""
    """When it ended, and its last answer."""
    head: list[ActionLine] = field(default_factory=list)
    tail: deque[ActionLine] = field(default_factory=deque)


class DayPage:
    """Take the entries of one local day, in order, and make its page. Can take more entries at any time."""

    def __init__(self, day: date) -> None:
        self.day = day
        self.start = start_of(day)
        self.end = start_of(day + ONE_DAY)
        self.counts = JournalTotals(self.start)
        self.last = self.start - 1
        """The ``seq`` of the newest entry that it has taken."""
        self._sessions: dict[tuple[str, str], SessionDay] = {}
        self._detailed: OrderedDict[tuple[str, str], SessionDay] = OrderedDict()
        self._index: dict[int, ActionLine] = {}
        """The actions that are kept, by id."""
        self._pending = UnfinishedActions()
        self._unlisted = 0
        """Calls of sessions of which nothing is kept."""
        self._routines: OrderedDict[int, tuple[Routine, str]] = OrderedDict()
        """The newest calls of tier 1, by id: the routine they belong to, and what they did."""
        self._observed: list[str] = []

    def add(self, entry: Entry) -> None:
        """Take the next entry. An entry of another day, or one taken before, is skipped."""
        if not self.last < entry.seq < self.end:
            return
        self.last = entry.seq
        self.counts.add(entry)
        self._pending.add(entry)
        event = entry.event
        if event is Event.INTERCEPT:
            self._called(entry)
        elif event in ENDS:
            self._ended(entry)
        elif event in (Event.APPROVE, Event.DENY, Event.RENEW):
            if (act := self._index.get(entry.action)) is not None:
                follow(act, entry)
        elif event in (Event.LOCK, Event.LATE):
            presence = self._presence(entry)
            if presence is not None:
                presence.calls += event is Event.LATE
                self._keep(presence, begun(entry), entry.action or entry.seq)
        elif event is Event.QUEUE:
            presence = self._presence(entry)
            if presence is not None:
                presence.waits += 1
        elif event is Event.HOST and (last_answer := farewell(entry)):
            presence = self._presence(entry)
            if presence is not None:
                presence.ended, presence.said = entry.seq, last_answer
        elif event is Event.OBSERVE and len(self._observed) < _OBSERVED_SHOWN:
            self._observed.append(_observed(entry))

    def _called(self, entry: Entry) -> None:
        presence = self._presence(entry)
        if presence is None:
            self._unlisted += 1
            return
        presence.calls += 1
        verdict = entry.verdict or Verdict.ALLOW
        tier = entry.tier or 0
        same = (entry.tool, entry.keys)
        if not verdict.proceed:
            presence.held += 1
            act = begun(entry)
            presence.waiting.setdefault(same, deque(maxlen=_WAITING)).append(act)
            if len(presence.waiting) > _WAITING:
                del presence.waiting[next(iter(presence.waiting))]
            self._keep(presence, act, entry.action or entry.seq)
            return
        for held in presence.waiting.pop(same, ()):
            held.again = entry.seq
        presence.reads += tier == 0
        presence.writes += tier == 1
        if tier >= Tier.MEDIUM or verdict is Verdict.WARN:
            self._keep(presence, begun(entry), entry.action or entry.seq)
        elif entry.body.get("purpose"):
            self._routine(presence, begun(entry), entry.action)
        elif tier:
            for key in without_spellings(shown_keys(entry)):
                if len(presence.wrote) < _WROTE:
                    presence.wrote[key] = None
                elif key not in presence.wrote:
                    presence.wrote_more = True

    def _routine(self, presence: SessionDay, act: ActionLine, id: int) -> None:
        """Count a call of tier 0 or 1 together with earlier ones that served the same purpose."""
        newest = next(reversed(presence.tail or presence.head), None)
        routine = newest.routine if newest is not None and newest.purpose == act.purpose else None
        if routine is None:
            routine = act.routine = Routine()
            self._keep(presence, act, -act.at)  # reports of its calls are not reports of the routine
        if target := routine.add(act):
            self._routines[id] = (routine, target)
            while len(self._routines) > _UNREPORTED:
                self._routines.popitem(last=False)

    def _ended(self, entry: Entry) -> None:
        act = self._index.get(entry.action)
        if act is not None:
            follow(act, entry)
        elif entry.action < self.start and (entry.tier or 0) > 1 and entry.outcome is not Outcome.CANCELLED:
            presence = self._presence(entry)
            if presence is not None:
                self._keep(presence, ended(entry), entry.action)
        elif entry.outcome is Outcome.FAILED and (presence := self._presence(entry)) is not None:
            presence.failed += 1
            if (routine_call := self._routines.pop(entry.action, None)) is not None:
                routine, target = routine_call
                routine.failed += 1
                routine.note = (target, error_of(entry))

    def _presence(self, entry: Entry) -> SessionDay | None:
        session_id = (entry.namespace, entry.session)
        presence = self._sessions.get(session_id)
        if presence is None:
            if len(self._sessions) >= _KNOWN:
                return None
            presence = self._sessions[session_id] = SessionDay(entry.session, entry.namespace, entry.seq)
        presence.last = entry.seq
        return presence

    def _keep(self, presence: SessionDay, act: ActionLine, id: int) -> None:
        """List an action. New actions push out those in the middle, new sessions the oldest ones."""
        presence.acts += 1
        session_id = (presence.namespace, presence.session)
        detailed = self._detailed
        detailed[session_id] = presence
        detailed.move_to_end(session_id)
        if len(detailed) > SESSIONS:
            _, idle = detailed.popitem(last=False)
            for gone in (*idle.head, *idle.tail):
                self._forget(gone)
            idle.head.clear()
            idle.tail.clear()
            idle.waiting.clear()
        self._index[id] = act
        act.id = id
        if presence.acts <= FIRST:
            presence.head.append(act)
            return
        presence.tail.append(act)
        if len(presence.tail) > LAST:
            self._forget(presence.tail.popleft())

    def _forget(self, act: ActionLine) -> None:
        self._index.pop(act.id, None)

    # --- as text ---------------------------------------------------------------------------------------------

    def page(self, *, so_far: bool) -> str:
        """Return the page as Markdown; ``so_far``: the day is not over."""
        counts = self.counts
        sessions = many(len(self._sessions), "session")
        page = [
            f"# {self.day.isoformat()}, {self.day:%A}{SO_FAR if so_far else ''}",
            "",
            f"{sessions}, {counts.totals()}. Last entry at {clock(counts.last)}.",
            "",
            *counts.lines(),
            *self._observed,
        ]
        if counts.unknowns:
            page += ["", "## Unknown outcomes", "", HINT, "", *self._pending.unknown(counts.unknowns)]
        for presence in sorted(self._detailed.values(), key=_by_start):
            page += ["", f"## {name(presence.session, presence.namespace)}", "", f"{_figures(presence)}.", ""]
            page += _acts(presence)
            if presence.said:
                page.append(f"- {clock(presence.ended)} ended, and said: {code(presence.said, MAX_SUMMARY)}")
        page += self._others()
        return "\n".join(page) + "\n"

    def _others(self) -> list[str]:
        others = sorted(
            (session for session in self._sessions.values() if not (session.head or session.tail)), key=_by_start
        )
        if not others:
            return []
        lines = ["", "## Other sessions" if self._detailed else "## Sessions", ""]
        for session in others[:OTHERS]:
            last_answer = f", ended, and said: {code(session.said, MAX_SUMMARY)}" if session.said else ""
            lines.append(f"- {name(session.session, session.namespace)}: {_figures(session)}{last_answer}")
        unlisted = len(others) - OTHERS
        if unlisted > 0 or self._unlisted:
            calls = sum(session.calls for session in others[OTHERS:]) + self._unlisted
            more = "and still more" if self._unlisted else f"and {many(unlisted, 'more session')}"
            lines.append(f"- {more}, with {many(calls, 'call')}")
        return lines


def _by_start(presence: SessionDay) -> tuple[int, str, str]:
    return presence.first, presence.namespace, presence.session


def _figures(session: SessionDay) -> str:
    """Return a session's time span and the counts of its unlisted calls."""
    begin, end = clock(session.first), clock(session.last)
    parts = [f"{begin} to {end}" if begin != end else begin, many(session.calls, "call")]
    if session.held:
        parts.append(f"{session.held:,} held back")
    if session.waits:
        parts.append(f"waited {times(session.waits)}")
    if session.reads:
        parts.append(f"read {times(session.reads)}")
    if session.failed:
        parts.append(f"{session.failed:,} failed")
    if session.writes:
        wrote = ", ".join(code(escaped(key)) for key in session.wrote)
        parts.append(
            f"wrote {times(session.writes)}{f': {wrote}' if wrote else ''}{' and others' * session.wrote_more}"
        )
    return ", ".join(parts)


def _acts(session: SessionDay) -> list[str]:
    omitted = session.acts - len(session.head) - len(session.tail)
    if not omitted:
        return lines([*session.head, *session.tail])
    return [*lines(session.head), f"- … {many(omitted, 'act')} left out here", *lines(list(session.tail))]


def _observed(entry: Entry) -> str:
    until, by = entry.body.get("until"), entry.body.get("by")
    person = f" by {code(by)}" if isinstance(by, str) and by else ""
    if isinstance(until, int | float) and until:
        return f"- Switched to observing only at {clock(entry.seq)}, until {clock(int(until * SECOND))}{person}"
    return f"- Switched back to deciding at {clock(entry.seq)}{person}"
