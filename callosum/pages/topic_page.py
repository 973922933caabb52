"""Topics: keys that several sessions keep returning to, each with a page of who did what on it.

A key is a topic while at least ``SESSIONS`` sessions acted on it on at least ``DAYS`` of the last ``WINDOW`` local
days. Acting means a call of tier 1 or more that changes or adds to the key, or a lock. Calls that were held back count,
because a session came back to the key; so do calls that ran while the gate was unreachable. A folder or another
container is not a topic: commands name it because they run in it, and what they change there has its own key.

A page depends on the entries of those days alone, so it is the same whichever process writes it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from datetime import date
from hashlib import blake2b
from typing import Any, Final

from callosum.characters import escaped
from callosum.journal import shown_keys
from callosum.model import DEFAULT_NAMESPACE, NO_KEY, Entry, Event, Mode, Verdict, reach
from callosum.pages.action_lines import ActionLine, begun, follow, line
from callosum.pages.dates import ONE_DAY, day_of, start_of
from callosum.pages.markdown import code, many
from callosum.pages.totals import MostFrequent, cut

SESSIONS: Final = 3
DAYS: Final = 2
WINDOW: Final = 7
ACTS: Final = 200
"""Most actions on a page, the newest."""
TOPICS: Final = 100
"""Most topics that are followed at once: those of the most sessions."""
_KEYS: Final = 20_000
"""Most keys of one day that are counted; further keys start to count on the next day."""
_SHOWN: Final = 20
_SLUG: Final = 60
_PLAIN: Final = re.compile(r"[a-z0-9]([a-z0-9._-]{0,58}[a-z0-9])?")
_RESERVED: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")

Name = tuple[str, str]
"""A key and its namespace."""


def slug_of(key: str, namespace: str = DEFAULT_NAMESPACE) -> str:
    """Return a file name for a key, without suffix: its readable part, and a digest unless that part is complete.

    ``notes`` stays ``notes``; ``channel:#general`` becomes ``channel-general-`` and twelve digits.
    """
    if namespace == DEFAULT_NAMESPACE and _PLAIN.fullmatch(key) and not _RESERVED.fullmatch(key):
        return key
    digest = blake2b(f"{namespace}\x1f{key}".encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    stem = re.sub(r"[^a-z0-9]+", "-", key.lower())[:_SLUG].strip("-")
    return f"{stem}-{digest}" if stem else digest


class TopicFinder:
    """Take the entries of the last days, in order, and find the keys that are topics.

    Only ``SESSIONS`` sessions are kept for each key and day, which is enough to decide.
    """

    def __init__(self) -> None:
        self._days: dict[date, dict[Name, tuple[str, ...]]] = {}
        self._today: dict[Name, tuple[str, ...]] = {}
        self._today_ends = 0

    def add(self, entry: Entry) -> None:
        """Take the next entry."""
        for topic_name in acted_on(entry):
            if entry.seq >= self._today_ends:
                day = day_of(entry.seq)
                self._today_ends = start_of(day + ONE_DAY)
                self._today = self._days.setdefault(day, {})
            sessions = self._today.get(topic_name)
            if sessions is None:
                if len(self._today) < _KEYS:
                    self._today[topic_name] = (entry.session,)
            elif entry.session not in sessions and len(sessions) < SESSIONS:
                self._today[topic_name] = (*sessions, entry.session)

    def topics(self, today: date) -> list[Name]:
        """Return the keys that are topics on this day, those with the most days and sessions first."""
        _forget(self._days, today)
        counts: dict[Name, int] = {}
        for keys in self._days.values():
            for topic_name in keys:
                counts[topic_name] = counts.get(topic_name, 0) + 1
        ranked = []
        for topic_name, days in counts.items():
            if days >= DAYS:
                sessions = {session for keys in self._days.values() for session in keys.get(topic_name, ())}
                if len(sessions) >= SESSIONS:
                    ranked.append((-days, -len(sessions), topic_name))
        return [topic_name for _, _, topic_name in sorted(ranked)[:TOPICS]]


def acted_on(entry: Entry) -> Iterator[Name]:
    """Yield the keys that an entry's session acted on."""
    event = entry.event
    if event is Event.LOCK or (event in (Event.INTERCEPT, Event.LATE) and (entry.tier or 0) > 0):
        for key in entry.keys:
            if key.mode is not Mode.READ and not key.name.startswith(NO_KEY) and not reach(key.name):
                yield key.name, entry.namespace


def _forget(days: dict[date, Any], today: date) -> bool:
    """Drop days before the window; return True if there were any."""
    past = [day for day in days if day <= today - WINDOW * ONE_DAY]
    for day in past:
        del days[day]
    return bool(past)


class _Counted:
    """How often each session acted on one day."""

    def __init__(self) -> None:
        self.sessions = MostFrequent(500)
        self.calls = 0


class TopicPage:
    """Take entries of the window, in order, and make the page of one key from those about it."""

    def __init__(self, key: str, namespace: str = DEFAULT_NAMESPACE) -> None:
        self.key = key
        self.namespace = namespace
        self.path = f"topics/{slug_of(key, namespace)}.md"
        self.changed = False
        """True if there are new entries since it was last set to False."""
        self._acts: deque[ActionLine] = deque()
        self._index: dict[int, ActionLine] = {}
        self._days: dict[date, _Counted] = {}

    def add(self, entry: Entry) -> None:
        """Take the next entry about the key."""
        if (act := self._index.get(entry.action)) is not None and entry.seq != act.id:
            follow(act, entry)
            self.changed = True
        elif any(topic_name == (self.key, self.namespace) for topic_name in acted_on(entry)):
            self._keep(entry)

    def forget(self, today: date) -> None:
        """Drop entries before the window that ends on this day."""
        start = start_of(today - (WINDOW - 1) * ONE_DAY)
        while self._acts and self._acts[0].at < start:
            self._index.pop(self._acts.popleft().id, None)
            self.changed = True
        self.changed |= _forget(self._days, today)

    def _keep(self, entry: Entry) -> None:
        act = begun(entry)
        act.id = entry.action or entry.seq
        act.keys = tuple(key for key in shown_keys(entry) if key != self.key)
        self._acts.append(act)
        self._index[act.id] = act
        if len(self._acts) > ACTS:
            self._index.pop(self._acts.popleft().id, None)
        counted = self._days.setdefault(day_of(entry.seq), _Counted())
        counted.sessions.add(entry.session)
        counted.calls += 1
        self.changed = True

    def page(self) -> str:
        """Return the page as Markdown, newest action first."""
        where = "" if self.namespace == DEFAULT_NAMESPACE else f" in {code(self.namespace)}"
        held = sum(act.verdict in (Verdict.CONFIRM, Verdict.ASK, Verdict.BLOCK) for act in self._acts)
        back = f", {held:,} of the last {len(self._acts):,} held back" if held else ""
        together, calls = MostFrequent(WINDOW * 500), sum(counted.calls for counted in self._days.values())
        for counted in self._days.values():
            for session, count in counted.sessions.most(1000):
                together.add(session, count)
        figures = f"{many(len(together), 'session')}, {many(calls, 'call')}"
        sessions = [f"- {code(session)}: {many(count, 'call')}" for session, count in together.most(_SHOWN)]
        lines = [
            f"# {code(escaped(self.key), 200)}{where}",
            "",
            f"{figures} since {min(self._days, default=date.min).isoformat()}{back}.",
            "",
            "## Sessions",
            "",
            *cut(sessions, _SHOWN, "session", total=len(together)),
            "",
            "## What was done, newest first",
            "",
            *(line(act, who=True, day=True) for act in reversed(self._acts)),
        ]
        if calls > len(self._acts):
            lines.append(f"- and {many(calls - len(self._acts), 'earlier act')}")
        return "\n".join(lines) + "\n"
