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
"""So many sessions are told of in detail: those that acted last."""
OTHERS: Final = 200
"""So many more have a line of their own."""
_KNOWN: Final = 10_000
"""Of so many sessions something is kept at all."""
FIRST: Final = 20
LAST: Final = 60
"""Of a session's acts the first and the last so many are listed."""
_WROTE: Final = 8
_OBSERVED_SHOWN: Final = 10
_WAITING: Final = 50
"""Most calls of a session that were held back of which it is said when they were let through."""
_UNREPORTED: Final = 1000
"""Calls of tier 1 whose reports are still expected."""
SO_FAR: Final = ", so far"
"""Ends the title of a page whose day is not over."""


class SessionDay(Struct):
    """What is kept of a session: figures, and its first and last acts."""

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
    """Takes the entries of one local day, in order, and makes its page. Can take more at any time."""

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
        """The acts that are kept, by their ids."""
        self._pending = UnfinishedActions()
        self._unlisted = 0
        """Calls of sessions of which nothing is kept."""
        self._routines: OrderedDict[int, tuple[Routine, str]] = OrderedDict()
        """By their ids, the calls of tier 1 that were made last: the routine they belong to, and what they did."""
        self._observed: list[str] = []

    def add(self, entry: Entry) -> None:
        """Takes the next entry. One of another day, or one that it had, is passed over."""
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
        elif event is Event.HOST and (said := farewell(entry)):
            presence = self._presence(entry)
            if presence is not None:
                presence.ended, presence.said = entry.seq, said
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
        """Count a call of tier 0 or 1 with those before it that served the same purpose."""
        newest = next(reversed(presence.tail or presence.head), None)
        routine = newest.routine if newest is not None and newest.purpose == act.purpose else None
        if routine is None:
            routine = act.routine = Routine()
            self._keep(presence, act, -act.at)  # reports of its calls are not reports of it
        if what := routine.add(act):
            self._routines[id] = (routine, what)
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
            if (found := self._routines.pop(entry.action, None)) is not None:
                routine, what = found
                routine.failed += 1
                routine.note = (what, error_of(entry))

    def _presence(self, entry: Entry) -> SessionDay | None:
        known = (entry.namespace, entry.session)
        presence = self._sessions.get(known)
        if presence is None:
            if len(self._sessions) >= _KNOWN:
                return None
            presence = self._sessions[known] = SessionDay(entry.session, entry.namespace, entry.seq)
        presence.last = entry.seq
        return presence

    def _keep(self, presence: SessionDay, act: ActionLine, id: int) -> None:
        """Lists an act; the last ones push out those in the middle, late sessions the early ones."""
        presence.acts += 1
        known = (presence.namespace, presence.session)
        detailed = self._detailed
        detailed[known] = presence
        detailed.move_to_end(known)
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
        """The page as Markdown; ``so_far``: the day is not over."""
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
        others = sorted((one for one in self._sessions.values() if not (one.head or one.tail)), key=_by_start)
        if not others:
            return []
        lines = ["", "## Other sessions" if self._detailed else "## Sessions", ""]
        for one in others[:OTHERS]:
            said = f", ended, and said: {code(one.said, MAX_SUMMARY)}" if one.said else ""
            lines.append(f"- {name(one.session, one.namespace)}: {_figures(one)}{said}")
        left = len(others) - OTHERS
        if left > 0 or self._unlisted:
            calls = sum(one.calls for one in others[OTHERS:]) + self._unlisted
            more = "and still more" if self._unlisted else f"and {many(left, 'more session')}"
            lines.append(f"- {more}, with {many(calls, 'call')}")
        return lines


def _by_start(presence: SessionDay) -> tuple[int, str, str]:
    return presence.first, presence.namespace, presence.session


def _figures(one: SessionDay) -> str:
    """From when to when, and what it did that is not listed."""
    begin, end = clock(one.first), clock(one.last)
    parts = [f"{begin} to {end}" if begin != end else begin, many(one.calls, "call")]
    if one.held:
        parts.append(f"{one.held:,} held back")
    if one.waits:
        parts.append(f"waited {times(one.waits)}")
    if one.reads:
        parts.append(f"read {times(one.reads)}")
    if one.failed:
        parts.append(f"{one.failed:,} failed")
    if one.writes:
        wrote = ", ".join(code(escaped(key)) for key in one.wrote)
        parts.append(f"wrote {times(one.writes)}{f': {wrote}' if wrote else ''}{' and others' * one.wrote_more}")
    return ", ".join(parts)


def _acts(one: SessionDay) -> list[str]:
    left = one.acts - len(one.head) - len(one.tail)
    if not left:
        return lines([*one.head, *one.tail])
    return [*lines(one.head), f"- … {many(left, 'act')} left out here", *lines(list(one.tail))]


def _observed(entry: Entry) -> str:
    until, by = entry.body.get("until"), entry.body.get("by")
    who = f" by {code(by)}" if isinstance(by, str) and by else ""
    if isinstance(until, int | float) and until:
        return f"- Told to observe only at {clock(entry.seq)}, until {clock(int(until * SECOND))}{who}"
    return f"- Told to decide again at {clock(entry.seq)}{who}"
