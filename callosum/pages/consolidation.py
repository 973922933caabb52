"""Weekly digests and topic pages, made from the journal and the pages of days."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple

from callosum.journal import EntryFilter, Journal
from callosum.model import Entry
from callosum.pages.dates import ONE_DAY, day_of, monday_of, start_of
from callosum.pages.page_folder import PageFolder
from callosum.pages.topic_page import WINDOW, Name, TopicFinder, TopicPage
from callosum.pages.week_page import WeekPage
from callosum.stores.base import Store

BUDGET: Final = 300_000
"""Most entries that are read for topics at a time, a few seconds of work. An old journal is read bit by bit, and its
topics are written once it has been read to the end."""
_LOOK_UP: Final = 1000
"""Entries of a long read after which it checks whether to stop."""


class ConsolidationStopped(Exception):
    """The work was given up because its owner is closing. What was written before stays."""


class WrittenDigest(NamedTuple):
    """A digest that was written: its week (``2026-W20``), its path, and the number of days it covers."""

    week: str
    path: str
    episodes: int


class NewTopic(NamedTuple):
    """A topic whose page is new."""

    key: str
    namespace: str
    path: str


class Consolidation:
    """Write the digest of the last complete week, and the topic pages.

    ``state`` is the state folder, ``now`` returns moments, ``closed`` ends long work. What was read for topics stays in
    memory, so that the next run reads only new entries. May be used from any thread; of several processes on one folder
    only one writes at a time.
    """

    def __init__(self, store: Store, state: Path, *, now: Callable[[], int], closed: threading.Event) -> None:
        self._journal = Journal(store, state)
        self._folder = PageFolder(state)
        self._now = now
        self._closed = closed
        self._turn = threading.Lock()
        self._empty: date | None = None
        """The Monday of a week in which nothing happened."""
        self._returns = TopicFinder()
        self._topics: dict[Name, TopicPage] = {}
        self._read_to = 0
        self._new: dict[Name, TopicPage] = {}
        """Topics that have not received all entries of the window yet."""
        self._new_to = 0

    # --- weeks -----------------------------------------------------------------------------------------------

    def digest(self) -> WrittenDigest | None:
        """Write ``digests/YYYY-Www.md`` for the last complete ISO week, unless it exists.

        Returns None if nothing happened in the week, and while another process is writing. Raises ``StoreError`` if the
        journal cannot be read or the page cannot be written, ``ConsolidationStopped`` if it was given up.
        """
        week = WeekPage(monday_of(day_of(self._now())) - WINDOW * ONE_DAY)
        path = f"digests/{week.name}.md"
        with self._turn, self._folder.alone("digests") as alone:
            if not alone or week.monday == self._empty or self._folder.has(path):
                return None
            for entry in self._entries(week.start, week.end):
                week.add(entry)
            days = {day: self._totals(day) for day in week.days() if self._folder.has(_episode(day))}
            if not days and not week.counts.entries:
                self._empty = week.monday
                return None
            self._folder.write(path, week.page(days))
        return WrittenDigest(week.name, path, len({*week.told, *days}))

    def due(self) -> bool:
        """Return True if the digest of the last complete week is missing."""
        monday = monday_of(day_of(self._now())) - WINDOW * ONE_DAY
        return monday != self._empty and not self._folder.has(f"digests/{WeekPage(monday).name}.md")

    def _totals(self, day: date) -> str:
        """Return the line of totals on a day's page."""
        head = self._folder.head(_episode(day), 3)
        return head[2] if len(head) > 2 else ""

    # --- topics ----------------------------------------------------------------------------------------------

    def topics(self) -> list[NewTopic]:
        """Write the pages of topics that are new or have new entries; return the new ones.

        Reads at most ``BUDGET`` entries. Writes nothing while more entries remain to be read, and while another process
        is writing. Raises as ``digest`` does.
        """
        today = day_of(self._now())
        with self._turn, self._folder.alone("topics") as alone:
            if not alone:
                return []
            start = start_of(today - (WINDOW - 1) * ONE_DAY)
            for topic in (*self._topics.values(), *self._new.values()):
                topic.forget(today)
            budget_left = self._go_on(start, BUDGET)
            if not budget_left:
                return []
            self._follow(self._returns.topics(today), start, budget_left)
            return [new for topic in self._topics.values() if (new := self._write(topic)) is not None]

    def _go_on(self, start: int, budget: int) -> int:
        """Read new entries for existing topics and candidates; return the rest of the budget."""
        self._read_to = max(self._read_to, start - 1)
        for entry in self._entries(self._read_to + 1):
            self._returns.add(entry)
            _tell(self._topics, entry)
            self._read_to = entry.seq
            budget -= 1
            if not budget:
                break
        return budget

    def _follow(self, candidates: list[Name], start: int, budget: int) -> None:
        """Start to follow new topics, and stop following keys that are no longer topics.

        A new topic is followed once it has received all entries of the window.
        """
        wanted = set(candidates)
        self._topics = {topic_name: topic for topic_name, topic in self._topics.items() if topic_name in wanted}
        self._new = {topic_name: topic for topic_name, topic in self._new.items() if topic_name in wanted}
        while budget:
            if not self._new:
                self._new = {
                    topic_name: TopicPage(*topic_name) for topic_name in candidates if topic_name not in self._topics
                }
                self._new_to = 0
            if not self._new:
                return
            self._new_to = max(self._new_to, start - 1)
            for entry in self._entries(self._new_to + 1, self._read_to + 1):
                _tell(self._new, entry)
                self._new_to = entry.seq
                budget -= 1
                if not budget:
                    break
            else:
                self._topics |= self._new
                self._new = {}

    def _write(self, topic: TopicPage) -> NewTopic | None:
        """Write a page if it has new entries."""
        if not topic.changed:
            return None
        existed = self._folder.has(topic.path)
        self._folder.write(topic.path, topic.page())
        topic.changed = False
        return None if existed else NewTopic(topic.key, topic.namespace, topic.path)

    # --- reading ---------------------------------------------------------------------------------------------

    def _entries(self, start: int, end: int | None = None) -> Iterator[Entry]:
        """Yield the entries from ``start`` to before ``end``. Raises ``ConsolidationStopped`` if it is to stop."""
        for number, entry in enumerate(self._journal.read(EntryFilter(since=start))):
            if end is not None and entry.seq >= end:
                return
            if number % _LOOK_UP == 0 and self._closed.is_set():
                raise ConsolidationStopped
            yield entry


def _tell(topics: Mapping[Name, TopicPage], entry: Entry) -> None:
    """Pass an entry to the topics whose keys it has; a report has the keys of its action."""
    for key in entry.keys:
        if (topic := topics.get((key.name, entry.namespace))) is not None:
            topic.add(entry)


def _episode(day: date) -> str:
    return f"episodes/{day.isoformat()}.md"
