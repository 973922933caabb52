"""Basal Ganglia on the bus: how calls ended that were not simply let through, and what that teaches."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from callosum.corpus.bus import Corpus
from callosum.corpus.events import OutcomeRecorded, PreferenceLearned, SchedulerTick
from callosum.model import SECOND, Kind, Observation
from callosum.policy.sentence import name
from callosum.regions.learning.counts import LEAST, EndingCount, convinces, covered, joined, learnable
from callosum.regions.learning.endings import Ending, EndingTracker
from callosum.regions.learning.learned_file import MOST_PATTERNS, Group, LearnedRecord, Sort, add, load

_JOB: Final = "sweep"
_LAG: Final = 5 * SECOND
"""Entries of other threads may come so much later than the time they bear."""


class BasalGanglia:
    """Tells how warned, paused, asked and blocked calls of this process ended, and what is always confirmed.

    It is handed what the gate hands its observer (``observe``), and emits:

    * ``outcome.recorded`` once a call has come to its end. Its ``type`` is ``warned.X``, ``confirmed.X``,
      ``waited.X`` or ``approved.X`` with X one of done, failed, cancelled, unknown; or ``heeded``,
      ``approved.unused``, ``denied``, ``unanswered``, ``blocked``. ``learning.endings`` says what they mean.
    * ``preference.learned`` when the same sort of pause was confirmed at least ``least`` times and nothing spoke
      for it: none was heeded, waited for or refused, and no call went wrong. Once for a sort. By the same measure
      ``callosum rules suggest`` proposes a rule, if the rules in force still pause so. It changes nothing.

    What ends by time alone is told with the next call, or with the schedule's job ``sweep``, which also adds the counts
    to the file ``kept`` (None: they end with the process), where those of other processes are. Memory is bounded; safe
    in any thread. ``now`` gives moments; it is for tests.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        kept: Path | None = None,
        least: int = LEAST,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._kept = kept
        self._fresh: dict[Sort, LearnedRecord] = {}
        """What this process counted and the file does not have yet."""
        self._corpus = corpus
        self._least = least
        self._now = now
        self._endings = EndingTracker()
        self._counts: OrderedDict[Group, dict[frozenset[Kind], EndingCount]] = OrderedDict()
        self._known: OrderedDict[Sort, None] = OrderedDict()
        self._guard = threading.RLock()
        if kept is not None:
            self._take_over(load(kept))
        self._off = corpus.on(SchedulerTick, self._tick)

    def close(self) -> None:
        """Keeps the counts and ends the subscription. Idempotent."""
        self._off()
        self._keep()

    def observe(self, observation: Observation) -> None:
        """Takes what the gate has journalled."""
        for entry in observation.entries:
            with self._guard:
                told = self._endings.feed(entry)
            self._tell(told)

    def sweep(self) -> int:
        """Tells of what has ended by time; returns how many endings that were."""
        with self._guard:
            told = self._endings.pass_time(self._now() - _LAG)
        self._tell(told)
        return len(told)

    def _tick(self, tick: SchedulerTick) -> None:
        if tick.job_name == _JOB:
            self.sweep()
            self._keep()

    def _keep(self) -> None:
        """Adds to the file what was counted since, and takes over what other processes added."""
        if self._kept is None:
            return
        with self._guard:
            fresh, self._fresh = self._fresh, {}
        if not fresh:
            return
        known = add(self._kept, fresh)
        with self._guard:
            if known is None:  # the next time, with what came meanwhile
                for sort, record in self._fresh.items():
                    _record(fresh, sort).count.join(record.count)
                self._fresh = fresh
                return
            self._take_over(known)
            for (group, kinds), record in self._fresh.items():  # counted while the file was written
                self._counts.setdefault(group, {}).setdefault(kinds, EndingCount()).join(record.count)

    def _take_over(self, known: Mapping[Sort, LearnedRecord]) -> None:
        self._counts.clear()
        for (group, kinds), record in known.items():
            self._counts.setdefault(group, {})[kinds] = record.count
            self._counts.move_to_end(group)
            if record.told:
                self._known[group, kinds] = None

    def _tell(self, endings: list[Ending]) -> None:
        for ending in endings:
            if ending.how not in _INNER:
                self._corpus.emit(_outcome(ending))
            learned = self._count(ending) if learnable(ending) else None
            if learned is not None:
                self._corpus.emit(learned)

    def _count(self, ending: Ending) -> PreferenceLearned | None:
        """Counts an ending; returns what is learned from it, if that is new."""
        case = ending.case
        group = (case.rule, case.tool, case.tier)
        with self._guard:
            pauses = self._counts.setdefault(group, {})
            self._counts.move_to_end(group)
            if len(self._counts) > MOST_PATTERNS:
                self._counts.popitem(last=False)
            pauses.setdefault(case.kinds, EndingCount()).add(ending)
            fresh = _record(self._fresh, (group, case.kinds))
            fresh.count.add(ending)
            if (group, case.kinds) in self._known:
                return None
            whole = joined(pauses[one] for one in covered(pauses, case.kinds))
            if not convinces(whole, self._least):
                return None
            self._known[group, case.kinds] = None
            fresh.told = True
            if len(self._known) > 10 * MOST_PATTERNS:
                self._known.popitem(last=False)
            return _preference(whole, ending)


def _record(records: dict[Sort, LearnedRecord], sort: Sort) -> LearnedRecord:
    """The record of a sort of pause, made if it is not there."""
    group, kinds = sort
    return records.setdefault(sort, LearnedRecord(*group, kinds))


_INNER: Final = frozenset({"confirmed", "waited", "approved", "regretted"})
"""What is no end: the call has just been let through, or was told of before."""


def _outcome(ending: Ending) -> OutcomeRecorded:
    case = ending.case
    return OutcomeRecorded(
        ending.how,
        case.tool,
        case.params if isinstance(case.params, Mapping) else {},
        at=ending.at / SECOND,
        instance=case.session,
        namespace=case.namespace,
        call_id=case.call_id,
        id=case.action or case.seq,
        cause=f"{case.seq}.1",
    )


def _preference(count: EndingCount, ending: Ending) -> PreferenceLearned:
    case = ending.case
    what = " and ".join(sorted(case.kinds)) or "the rule's own pause"
    where = ", ".join(sorted(name(one) for one in count.families))
    lets = "does not pause" if not case.kinds else f"lets {what} pass"
    return PreferenceLearned(
        f"{what} on {where} by {name(case.tool)} (rule {name(case.rule)})",
        f"a rule that {lets} there: all {count.confirmed} pauses were confirmed; see `callosum rules suggest`, "
        "nothing is changed",
        at=ending.at / SECOND,
        instance=ending.case.session,
        namespace=ending.case.namespace,
    )
