"""Hippocampus: writes a page for each day of what all sessions did."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final, Self

from callosum.corpus.bus import Corpus
from callosum.corpus.events import MemorySaved, SchedulerTick
from callosum.corpus.fault_reports import report_failed_job
from callosum.journal import EntryFilter, Journal
from callosum.model import MINUTE
from callosum.pages.dates import ONE_DAY, day_of
from callosum.pages.day_page import SO_FAR, DayPage
from callosum.pages.page_folder import PageFolder
from callosum.stores.base import Store

JOB: Final = "episodes"
MISSED: Final = 7
"""Days back for which a missing page is written later."""
_GRACE: Final = MINUTE
"""Time after a day's end until it counts as over: the last transaction that began in it is journalled by then."""
_LOOK_UP: Final = 1000
"""Entries of a long read after which it checks whether the region was closed."""


class Hippocampus:
    """Write ``brain/episodes/YYYY-MM-DD.md`` from the journal, and emit ``memory.saved``.

    On the tick of its job it writes today's page if the journal has grown. It also rewrites, once, the page of each of
    the last ``MISSED`` days that ended after its page was written. If the job fails, ``health.warning``
    (``job.episodes``) is emitted and the next tick tries again. What it has read of today stays in memory (a few
    megabytes at most), so a tick only reads new entries; a new process reads the day once.

    Days are local. ``state`` is the state folder. ``now`` returns moments (default: the store's). May be used from any
    thread. Of several processes on one folder only one writes at a time, and all write the same page.
    """

    def __init__(self, corpus: Corpus, *, store: Store, state: Path, now: Callable[[], int] | None = None) -> None:
        self._corpus = corpus
        self._store = store
        self._journal = Journal(store, state)
        self._folder = PageFolder(state)
        self._now = now or store.now
        self._turn = threading.Lock()
        self._day: DayPage | None = None
        self._over: set[date] = set()
        """Days whose page is final."""
        self._closed = threading.Event()
        self._off = corpus.on(SchedulerTick, self._tick)

    def write(self, day: date | None = None) -> Path | None:
        """Write the page of a local day (default: today) and return its path; None if it did not change.

        Also returns None if there is nothing to write, and while another process is writing. A page that was written
        after its day ended is final; delete it to have it written again. Raises ``StoreError`` if the journal cannot be
        read or the page cannot be written.
        """
        now = self._now()
        return self._write(day or day_of(now), now)

    def catch_up(self) -> list[Path]:
        """Write pages that are due: past days first, then today. Return the pages that changed."""
        now = self._now()
        today = day_of(now)
        self._over = {day for day in self._over if day >= today - MISSED * ONE_DAY}
        days = [today - back * ONE_DAY for back in range(MISSED, -1, -1)]
        pages = [self._write(day, now) for day in days if day not in self._over]
        return [page for page in pages if page is not None]

    def close(self) -> None:
        """End the subscription, and give up a page that is being made. Idempotent."""
        self._closed.set()
        self._off()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _tick(self, event: SchedulerTick) -> None:
        if event.job_name != JOB or self._closed.is_set():
            return
        try:
            self.catch_up()
        except Exception as fault:  # noqa: BLE001 - reported; the next tick tries again
            report_failed_job(self._corpus.emit, JOB, fault)

    def _write(self, day: date, now: int) -> Path | None:
        path = f"episodes/{day.isoformat()}.md"
        with self._turn, self._folder.alone(JOB) as alone:
            if not alone or self._closed.is_set():
                return None
            head = self._folder.head(path, 1)
            if head and head[0].startswith("# ") and not head[0].endswith(SO_FAR):  # written after its day ended
                self._over.add(day)
                return None
            changed = self._make(path, day, now)
        if changed:
            self._corpus.emit(MemorySaved("episode", path))
        return self._folder.root / path if changed else None

    def _make(self, path: str, day: date, now: int) -> bool:
        """Write the page from new entries; return True if it changed."""
        current = self._day if self._day is not None and self._day.day == day else None
        page = current or DayPage(day)
        so_far = now < page.end + _GRACE
        if current is not None and so_far and self._newest() <= current.last and self._folder.has(path):
            return False
        if not self._read(page):
            return False
        if so_far:
            self._day = page
        else:
            self._over.add(day)
            self._day = None if page is self._day else self._day
        return bool(page.counts.entries) and self._folder.write(path, page.page(so_far=so_far))

    def _newest(self) -> int:
        newest = self._store.entries(limit=1, newest=True)
        return newest[-1].seq if newest else 0

    def _read(self, page: DayPage) -> bool:
        """Feed new entries to the page; return False if the region was closed meanwhile."""
        for number, entry in enumerate(self._journal.read(EntryFilter(since=page.start), after=page.last)):
            if entry.seq >= page.end:
                break
            page.add(entry)
            if number % _LOOK_UP == 0 and self._closed.is_set():
                return False
        return True
