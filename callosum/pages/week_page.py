"""The digest of an ISO week: what was done and is still open, by whom, on which keys, and the conflicts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, Final

from msgspec import Struct

from callosum.journal import shown_keys
from callosum.model import MAX_SUMMARY, Entry, Event, Mode, Tier, Verdict
from callosum.pages.action_lines import begun, farewell, name, without_spellings
from callosum.pages.dates import ONE_DAY, day_of, start_of, week_of
from callosum.pages.markdown import code, many, times
from callosum.pages.totals import JournalTotals, MostFrequent, cut
from callosum.pages.unfinished import HINT, UnfinishedActions

_SHOWN: Final = 25
_PURPOSES: Final = 5_000
"""Most purposes of sessions whose actions are counted."""
_DAYS: Final = 7
_SUMMARY: Final = re.compile(r"[A-Za-z0-9 ,.:]{1,200}")
"""The line of totals on a day's page; any other line is not copied."""


class _Work(Struct):
    """What a session did for one purpose: the number of actions, and the last of them."""

    first: int
    acts: int = 0
    tool: str = ""
    what: str = ""
    said: str = ""
    """The session's last answer, if it ended with this purpose."""


class WeekPage:
    """Take the entries of the week that begins on ``monday``, in order, and make its digest."""

    def __init__(self, monday: date) -> None:
        self.monday = monday
        self.start = start_of(monday)
        self.end = start_of(monday + timedelta(days=_DAYS))
        self.counts = JournalTotals(self.start)
        self.told: set[date] = set()
        """Days that the journal has entries of."""
        self._day_ends = self.start
        self._sessions = MostFrequent()
        self._held = MostFrequent()
        self._tools = MostFrequent()
        self._keys = MostFrequent()
        self._trouble = MostFrequent()
        self._pending = UnfinishedActions()
        self._work: dict[tuple[str, str, str], _Work] = {}
        """By session, namespace and purpose."""
        self._newest: dict[tuple[str, str], _Work] = {}
        """By session and namespace."""

    @property
    def name(self) -> str:
        """The week's name: ``2026-W20``."""
        return week_of(self.monday)

    def days(self) -> list[date]:
        """Return the days of the week."""
        return [self.monday + timedelta(days=day) for day in range(_DAYS)]

    def add(self, entry: Entry) -> None:
        """Take the next entry. An entry of another week is skipped."""
        if not self.start <= entry.seq < self.end:
            return
        self.counts.add(entry)
        self._pending.add(entry)
        if entry.seq >= self._day_ends:
            day = day_of(entry.seq)
            self.told.add(day)
            self._day_ends = start_of(day + ONE_DAY)
        session = (entry.session, entry.namespace)
        if (last_answer := farewell(entry)) and session in self._newest:
            self._newest[session].said = last_answer
        if entry.event not in (Event.INTERCEPT, Event.LATE):
            return
        self._sessions.add(session)
        self._tools.add(entry.tool)
        verdict = entry.verdict or Verdict.ALLOW
        if not verdict.proceed:
            self._held.add(session)
        elif (entry.tier or 0) >= Tier.MEDIUM or entry.body.get("purpose"):
            self._did(entry)
        if not entry.keys:
            return
        written = [key.name for key in entry.keys if key.mode is not Mode.READ]
        conflicts = bool(entry.body.get("conflicts"))
        for key in without_spellings(shown_keys(entry)):
            if key in written:
                self._keys.add((key, entry.namespace))
            if conflicts:
                self._trouble.add((key, entry.namespace))

    def _did(self, entry: Entry) -> None:
        act = begun(entry)
        work_key = (act.session, act.namespace, act.purpose)
        work = self._work.get(work_key)
        if work is None:
            if len(self._work) >= _PURPOSES:
                return
            work = self._work[work_key] = _Work(act.at)
        self._newest[act.session, act.namespace] = work
        if act.tier:
            work.acts += 1
            work.tool, work.what = act.tool, act.what

    # --- as text ---------------------------------------------------------------------------------------------

    def page(self, episodes: Mapping[date, str]) -> str:
        """Return the digest as Markdown; ``episodes`` are the days that have a page, with their line of totals."""
        counts = self.counts
        last = self.monday + timedelta(days=_DAYS - 1)
        sessions = f"{'' if self._sessions.complete else 'at least '}{many(len(self._sessions), 'session')}"
        lines = [
            f"# {self.name}, {self.monday.isoformat()} to {last.isoformat()}",
            "",
            f"{sessions}, {counts.totals()}.",
            "",
            *counts.lines(),
        ]
        days = [
            f"- [{day.isoformat()}](../episodes/{day.isoformat()}.md){_totals(episodes[day])}"
            if day in episodes
            else f"- {day.isoformat()}"
            for day in sorted({*self.told, *episodes})
        ]
        kinds = [f"- {kind}: {times(count)}" for kind, count in sorted(counts.kinds.items(), key=_most)]
        lines += _section("What was done", self._done())
        if counts.unknowns:
            lines += _section("Unknown outcomes", [HINT, "", *self._pending.unknown(counts.unknowns)])
        lines += _section("Still open at the end of the week", self._pending.waiting())
        lines += _section("Days", days)
        lines += _section("Sessions", self._list(self._sessions, name, "call", "session", self._held))
        lines += _section("Tools", self._list(self._tools, code, "call", "tool"))
        lines += _section("Keys that were acted on most", self._list(self._keys, _key, "call", "key"))
        lines += _section("Conflicts", kinds)
        lines += _section("Keys with most conflicts", self._list(self._trouble, _key, "call", "key"))
        return "\n".join(lines) + "\n"

    def _done(self) -> list[str]:
        """Return the purposes and actions of the busiest sessions, in order."""
        busiest = sorted(self._work.items(), key=lambda item: -item[1].acts)[:_SHOWN]
        items = []
        for (session, namespace, purpose), work in sorted(busiest, key=lambda item: item[1].first):
            asked = f", asked {code(purpose, 120)}" if purpose else ""
            did = many(work.acts, "act") if work.acts else "only read"
            if work.said:
                did += f", and said at its end: {code(work.said, MAX_SUMMARY)}"
            elif work.acts:
                did += f", last {code(work.tool)}{f' {code(work.what, 160)}' if work.what else ''}"
            items.append(f"- {day_of(work.first):%a} {name(session, namespace)}{asked}: {did}")
        return cut(items, _SHOWN, "purpose", total=len(self._work))

    def _list(
        self, top: MostFrequent, show: Any, counted: str, noun: str, held: MostFrequent | None = None
    ) -> list[str]:
        items = []
        for item, count in top.most(_SHOWN):
            shown = show(*item) if isinstance(item, tuple) else show(item)
            back = held.get(item) if held is not None else 0
            items.append(f"- {shown}: {many(count, counted)}{f', {back:,} held back' if back else ''}")
        return cut(items, _SHOWN, noun, total=len(top))


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"## {title}", "", *lines] if lines else []


def _totals(text: str) -> str:
    return f": {text.rstrip('.')}" if _SUMMARY.fullmatch(text) else ""


def _key(key: str, namespace: str) -> str:
    return name(key, namespace)


def _most(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]
