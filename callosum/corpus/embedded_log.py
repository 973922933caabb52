"""The daily log of an embedded gate: its journal entries as events, in the same files as a server's log.

::

    decision ── Applied ──> EmbeddedLog ── every EVERY seconds, or close() ──> events ──> DailyLog

This is the only part of the corpus that a gate knows. A decision only appends to a queue. A thread derives, redacts and
writes the events; it lives while there is something to write. If a ``Brain`` is built on the gate, the brain writes the
log instead.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from callosum.model import Applied

if TYPE_CHECKING:
    from callosum.corpus.bus import Corpus
    from callosum.corpus.daily_log import DailyLog
    from callosum.corpus.opening_calls import Find, OpeningCalls

logger = logging.getLogger("callosum")

EVERY: Final = 2.0
"""Most seconds that a journal entry waits until its events are written. ``kill -9`` loses at most these seconds."""
_SLICE: Final = 0.0003
_PAUSE: Final = 0.0005
"""Seconds for which the thread works (``_SLICE``), then rests, so that decisions get the interpreter soon."""
_MANY: Final = 10_000
"""Number of waiting decisions and reports from which the thread no longer rests: they arrive faster than it writes."""
MOST_WAITING: Final = 100_000
"""Most decisions and reports that wait. Beyond it the oldest are left out of the log; the journal has them."""


class EmbeddedLog:
    """Write the events of a gate's entries to the daily log below ``state``. May be used from any thread.

    ``find`` returns a journal entry by its ``seq``; ``size`` is the most bytes of one day's file. Nothing is imported,
    opened or started before the first entry.
    """

    def __init__(self, find: Find, state: Path, *, size: int) -> None:
        self._find = find
        self._state = state
        self._size = size
        self._closed = False
        self._parts: tuple[OpeningCalls, Corpus, DailyLog] | None = None
        self.begin_anew()
        _ALL.add(self)

    def begin_anew(self) -> None:
        """Discard waiting entries in a forked child: the parent writes them."""
        self._waiting: deque[Sequence[Applied]] = deque(maxlen=MOST_WAITING)
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, steps: Sequence[Applied]) -> None:
        """Queue what the gate applied to the store. This costs the gate next to nothing."""
        self._waiting.append(steps)
        if self._thread is None:
            self._wake()

    def close(self) -> None:
        """Write the waiting entries and stop. Idempotent."""
        self._closed = True
        self._end.set()
        if not self._waiting and self._parts is None:
            return
        self._write()
        parts, self._parts = self._parts, None
        if parts is not None:
            _, corpus, log = parts
            log.close()
            corpus.close()

    # --- inside ----------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Start the thread unless it runs. If no thread can be started, the end of the process writes."""
        with self._guard:
            if self._thread is not None or self._closed:
                return
            self._thread = threading.Thread(target=self._run, name="callosum-daily", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                self._thread = None

    def _run(self) -> None:
        this_thread = threading.current_thread()
        while True:
            self._end.wait(EVERY)
            try:
                self._write()
            except Exception:
                logger.exception("the daily log could not be written")
            with self._guard:
                if self._thread is not this_thread:
                    return
                if self._closed or not self._waiting:  # an append after this starts another thread
                    self._thread = None
                    return

    def _write(self) -> None:
        with self._writing:
            if not self._waiting:
                return
            overflowed = len(self._waiting) == MOST_WAITING
            calls, _, log = self._parts or self._begin()
            ends = perf_counter() + _SLICE
            while self._waiting:
                for applied in self._waiting.popleft():
                    for entry in applied.entries():
                        for event in calls.events_of(entry):
                            log.take(event, journalled=True)
                if perf_counter() > ends and len(self._waiting) < _MANY and not self._closed:
                    sleep(_PAUSE)
                    ends = perf_counter() + _SLICE
            log.flush()
            if overflowed:
                logger.warning("daily log: some decisions and reports are left out: they came too fast")

    def _begin(self) -> tuple[OpeningCalls, Corpus, DailyLog]:
        from callosum.corpus.bus import Corpus  # noqa: PLC0415 - nothing is imported before there is something to write
        from callosum.corpus.daily_log import FOLDER, DailyLog  # noqa: PLC0415
        from callosum.corpus.opening_calls import OpeningCalls  # noqa: PLC0415

        atexit.unregister(_finish)
        atexit.register(_finish)  # registered again so that it runs before the log's own exit function
        corpus = Corpus()
        self._parts = OpeningCalls(self._find), corpus, DailyLog(corpus, self._state / FOLDER, size=self._size)
        return self._parts


_ALL: Final[WeakSet[EmbeddedLog]] = WeakSet()


def _finish() -> None:
    """Write what is journalled when the process ends."""
    for daily in tuple(_ALL):
        daily.close()


def _forked() -> None:
    for daily in tuple(_ALL):
        daily.begin_anew()


atexit.register(_finish)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
