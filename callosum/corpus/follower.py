"""Follow what a gate writes to its journal: derive the events of each entry once, and hand them on in batches.

::

    store ── what a transaction wrote ──> Follower ── (entry, events) ... ──> daily log | regions | figures
                                          (a thread)

A decision only appends the store's answers to a queue: it builds no event and, while decisions come, wakes nobody. Each
consumer gets every entry of this gate, in order. What waits beyond ``MOST_WAITING``, and what a consumer failed on, is
kept as positions in the journal and read there when its turn comes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from callosum.corpus.worker import Worker, WorkerJob
from callosum.errors import StoreError, Unconfirmed
from callosum.model import Applied, Entry

if TYPE_CHECKING:
    from callosum.corpus.daily_log import DailyLog
    from callosum.corpus.entry_events import Events, Find

logger = logging.getLogger("callosum")

EVERY: Final = 1.0
"""Most seconds that an entry of an embedded gate waits until it is in the daily log's queue, and then in its file."""
MOST_WAITING: Final = 100_000
"""Number of transactions whose entries are kept in memory."""
_HANDFUL: Final = 16
"""Number of transactions whose entries are handed on together."""
_PAUSE: Final = 0.0005
"""Seconds that the thread rests after a handful, so that decisions get the interpreter soon."""
_MANY: Final = 10_000
"""Number of waiting transactions from which it no longer rests: they arrive faster than it works."""
_LINGER: Final = 0.5
"""Seconds without entries for which the thread still looks, so that no decision has to wake it."""
_STUCK: Final = 5.0
"""Seconds after which a consumer that has not returned is named."""
_CLOSING: Final = 5.0
_ANSWERS: Final = (list, tuple)

Batch = Sequence[tuple[Entry, "Events"]]
"""Journal entries with their events, in order."""


class _Consumer:
    """A consumer, why it failed last, and the ``seq`` of the entries that it is owed."""

    def __init__(self, name: str, take: Callable[[Batch], object], every: float) -> None:
        self.name, self.take, self.every = name, take, every
        self.fault = ""
        self.owed: list[int] = []


class Follower:
    """Hand the entries of a gate's own decisions and reports to consumers. May be used from any thread.

    ``find`` returns the journal's entry at a ``seq``, None if it is gone; it raises ``StoreError``. Nothing is imported
    or started before the first entry. A handler that does not return holds up the events of its process, and no
    decision.
    """

    def __init__(self, find: Find) -> None:
        self._find = find
        self.worker = Worker()
        """The thread."""
        self.consumers: tuple[_Consumer, ...] = ()
        self.begin_anew()
        self._job = WorkerJob(
            self.worker, self._work, EVERY, renew=self.begin_anew, finish=lambda: self.flush(_CLOSING)
        )

    def begin_anew(self) -> None:
        """Discard what waits in a forked child: the parent hands it on."""
        self._waiting: deque[Sequence[object] | Callable[[], object]] = deque()
        self._room = MOST_WAITING
        """Number of transactions for which there is room. Threads may miscount slightly."""
        self._working = threading.RLock()
        self._hurried = False
        self._last = -_LINGER
        self._round = 0.0
        self._inside: tuple[str, float] | None = None
        self._events_of: Callable[[Entry], Events] | None = None
        for consumer in self.consumers:
            consumer.owed = []

    def join(self, name: str, take: Callable[[Batch], object], *, every: float = EVERY) -> Callable[[], None]:
        """Hand ``take`` what is journalled from now on, within ``every`` seconds; return the function that ends it.

        What was journalled before the end is still handed over. If ``take`` raises, it gets the same entries again.
        """
        consumer = _Consumer(name, take, every)

        def change(*consumers: _Consumer) -> None:
            self.consumers = (*(one for one in self.consumers if one is not consumer), *consumers)
            self._job.every = min((one.every for one in self.consumers), default=EVERY)

        def leave() -> None:
            if consumer in self.consumers:
                self.hand(change)
                if not self.flush(_CLOSING) and not self._is_here():
                    change()

        self.flush(_CLOSING)
        change(consumer)
        return leave

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._job.end()

    def behind(self) -> list[str]:
        """Return a sentence for each consumer that fails, lags or does not return."""
        found = [f"{one.name}: {len(one.owed)} entries behind: {one.fault}" for one in self.consumers if one.owed]
        if (inside := self._inside) is not None and (seconds := time.monotonic() - inside[1]) > _STUCK:
            found.append(f"{inside[0]}: has not returned for {seconds:.0f} s; {len(self._waiting)} transactions wait")
        return found

    def take(self, answers: Sequence[object]) -> None:
        """Queue the store's answers to one transaction. This costs a decision next to nothing."""
        if self._room <= 0:  # positions alone
            answers = [one for answer in answers for one in (answer.ids if type(answer) is Applied else (answer,))]
        self._waiting.append(answers)
        self._room -= 1
        if self._job.idle:
            self._job.soon()

    def hand(self, tell: Callable[[], object]) -> None:
        """Run a function in turn: after everything that was written before, ahead of everything written later."""
        self._waiting.append(tell)
        if self._job.idle:
            self._job.soon()

    def flush(self, seconds: float) -> bool:
        """Hand on everything that was written before; return False if that takes longer than ``seconds``.

        Returns False at once in a handler that the thread itself is calling.
        """
        if self._is_here():
            return False
        if not self._waiting and self._working.acquire(blocking=False):
            self._working.release()
            if not self._waiting:
                return True
        done = threading.Event()
        self._waiting.append(done.set)
        self._hurried = True
        self._job.soon(0)
        if self._job.idle:  # no thread can be started
            self._work()
        return done.wait(seconds)

    def _is_here(self) -> bool:
        return threading.current_thread() is self.worker.thread

    def _work(self) -> None:
        """Hand on what waits; the job's work."""
        with self._working:
            now = time.monotonic()
            if self._waiting:
                self._last = now
            self._round = now
            if self.consumers and (now - self._last < _LINGER or any(one.owed for one in self.consumers)):
                self._job.soon()  # decisions come: it looks again without being woken
            for consumer in self.consumers:
                if consumer.owed:
                    self._give(consumer, ())
            while self._waiting and self._hand_on():
                if self._waiting and len(self._waiting) < _MANY and not self._hurried:
                    time.sleep(_PAUSE)
            self._hurried = False

    def _hand_on(self) -> bool:
        """Hand on the next handful, or run the next function. Return False if the journal cannot be read now."""
        batch: list[tuple[Entry, Events]] = []
        left, readable = _HANDFUL, True
        while left > 0 and self._waiting and (item := self._waiting[0]).__class__ in _ANSWERS:
            try:
                batch += self._derived(item)
            except StoreError as error:
                logger.warning("corpus: the journal cannot be read, so its events wait: %s", error)
                readable = False
                break
            self._waiting.popleft()
            self._room += 1
            left -= 1
        self._round = time.monotonic()
        for consumer in self.consumers if batch else ():
            self._give(consumer, batch)
        if self._waiting and callable(self._waiting[0]):
            tell: Any = self._waiting.popleft()
            try:
                tell()
            except Exception:
                logger.exception("corpus: an event could not be emitted")
        return readable

    def _derived(self, answers: Iterable[object]) -> list[tuple[Entry, Events]]:
        """Return the entries of changes, also unconfirmed ones, and those at positions in the journal, with events."""
        if self._events_of is None:
            from callosum.corpus.entry_events import OpeningCalls  # noqa: PLC0415 - the first entry needs it

            self._events_of = OpeningCalls(self._find).events_of
        found: list[tuple[Entry, Events]] = []
        for one in answers:
            if type(one) is Applied:
                for entry in one.entries() if one.ids else ():
                    found.append((entry, self._events_of(entry)))  # noqa: PERF401 - costs a call less
            elif type(one) is int:
                if (late := self._find(one)) is not None:
                    found.append((late, self._events_of(late)))
            elif isinstance(one, Unconfirmed):
                found += self._derived(one.answers)
        return found

    def _give(self, consumer: _Consumer, batch: Batch) -> None:
        """Hand over what a consumer is owed, and then the batch."""
        self._inside = consumer.name, self._round
        try:
            while owed := consumer.owed[:_HANDFUL]:
                consumer.take(self._derived(owed))
                del consumer.owed[: len(owed)]
            if batch:
                consumer.take(batch)
        except Exception as error:
            if not consumer.owed:
                logger.exception("corpus: %s failed, and gets the same entries again", consumer.name)
            consumer.fault = f"{type(error).__name__}: {error}"
            consumer.owed += [entry.seq for entry, _ in batch]
        finally:
            self._inside = None


class EntryLog:
    """The daily log of an embedded gate, in its state folder: a consumer that opens the log with the first entry.

    ``size`` is the most bytes of one day's file; with 0 there is no log.
    """

    def __init__(self, follower: Follower, state: Path, size: int) -> None:
        self._follower = follower
        self._state = state
        self._size = size
        self._left = 0
        """Number of other components that write the log now."""
        self._log: DailyLog | None = None
        self._end: Callable[[], None] | None = None
        self._keep()

    def leave(self) -> Callable[[], None]:
        """Write the lines and stop, because another component writes the log. Return a function that starts again."""
        self._left += 1
        end, self._end = self._end, None
        if end is not None:
            end()
        log, self._log = self._log, None
        if log is not None:
            log.close()

        def resume() -> None:
            self._left -= 1
            self._keep()

        return resume

    def _keep(self) -> None:
        if self._size and not self._left:
            self._end = self._follower.join("daily log", self._take)

    def _take(self, batch: Batch) -> None:
        if self._log is None:
            from callosum.corpus.bus import Corpus  # noqa: PLC0415 - nothing is imported before it is needed
            from callosum.corpus.daily_log import FOLDER, DailyLog  # noqa: PLC0415

            folder, worker = self._state / FOLDER, self._follower.worker
            self._log = DailyLog(Corpus(), folder, size=self._size, every=EVERY, worker=worker)
        for _, events in batch:
            for event in events:
                self._log.take(event, journalled=True)
