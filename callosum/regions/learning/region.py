"""Basal Ganglia on the bus: how stopped and warned calls ended, and what that teaches."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from callosum.corpus.bus import Corpus
from callosum.corpus.events import OutcomeRecorded, PreferenceLearned, SchedulerTick
from callosum.model import SECOND, Entry, Kind
from callosum.policy.sentence import name
from callosum.regions.learning.counts import LEAST, EndingCount, convinces, covered, joined, learnable
from callosum.regions.learning.endings import Ending, EndingTracker
from callosum.regions.learning.learned_file import MOST_PATTERNS, Group, LearnedRecord, Sort, add, load

_JOB: Final = "sweep"
_LAG: Final = 5 * SECOND
"""Most by which entries of other threads arrive later than their own time."""


class BasalGanglia:
    """Emit how warned, confirmed, asked and blocked calls of this process ended, and which stops are always confirmed.

    It receives the gate's journal entries (``take``), and emits:

    * ``outcome.recorded`` once a call has ended. Its ``type`` is ``warned.X``, ``confirmed.X``, ``waited.X`` or
      ``approved.X`` with X one of done, failed, cancelled, unknown; or ``heeded``, ``approved.unused``, ``denied``,
      ``unanswered``, ``blocked``. ``learning.endings`` explains them.
    * ``preference.learned`` when the same kind of stop was confirmed at least ``least`` times and never justified: none
      was
      heeded, waited for or denied, and no call went wrong. Once for each kind. By the same measure ``callosum rules
      suggest`` proposes a rule, if the current rules still stop such calls. Nothing is changed.

    Endings that time brings are emitted with the next call, or with the schedule's job ``sweep``. That job also adds
    the counts to the file ``kept`` (None: they end with the process), which other processes share. Memory is bounded;
    may be used from any thread. ``now`` returns moments; tests replace it.
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
        """Counts of this process that are not in the file yet."""
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
        """Store the counts and end the subscription. Idempotent."""
        self._off()
        self._keep()

    def take(self, entry: Entry) -> None:
        """Take the next entry of the journal."""
        with self._guard:
            endings = self._endings.feed(entry)
        self._tell(endings)

    def sweep(self) -> int:
        """Emit the endings that time has brought; return their number."""
        with self._guard:
            endings = self._endings.pass_time(self._now() - _LAG)
        self._tell(endings)
        return len(endings)

    def _tick(self, tick: SchedulerTick) -> None:
        if tick.job_name == _JOB:
            self.sweep()
            self._keep()

    def _keep(self) -> None:
        """Add new counts to the file, and take over what other processes added."""
        if self._kept is None:
            return
        with self._guard:
            fresh, self._fresh = self._fresh, {}
        if not fresh:
            return
        records = add(self._kept, fresh)
        with self._guard:
            if records is None:  # tried again next time, together with new counts
                for sort, record in self._fresh.items():
                    _record(fresh, sort).count.join(record.count)
                self._fresh = fresh
                return
            self._take_over(records)
            for (group, kinds), record in self._fresh.items():  # counted while the file was being written
                self._counts.setdefault(group, {}).setdefault(kinds, EndingCount()).join(record.count)

    def _take_over(self, records: Mapping[Sort, LearnedRecord]) -> None:
        self._counts.clear()
        for (group, kinds), record in records.items():
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
        """Count an ending; return the preference learned from it, if it is new."""
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
            total = joined(pauses[kinds] for kinds in covered(pauses, case.kinds))
            if not convinces(total, self._least):
                return None
            self._known[group, case.kinds] = None
            fresh.told = True
            if len(self._known) > 10 * MOST_PATTERNS:
                self._known.popitem(last=False)
            return _preference(total, ending)


def _record(records: dict[Sort, LearnedRecord], sort: Sort) -> LearnedRecord:
    """Return the record for a group and its conflicts; create it if it is missing."""
    group, kinds = sort
    return records.setdefault(sort, LearnedRecord(*group, kinds))


_INNER: Final = frozenset({"confirmed", "waited", "approved", "regretted"})
"""Endings that are not final: the call was just let through, or was already reported."""


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
    reasons = " and ".join(sorted(case.kinds)) or "the rule's own pause"
    where = ", ".join(sorted(name(key_family) for key_family in count.families))
    lets = "does not pause" if not case.kinds else f"lets {reasons} pass"
    return PreferenceLearned(
        f"{reasons} on {where} by {name(case.tool)} (rule {name(case.rule)})",
        f"a rule that {lets} there: all {count.confirmed} pauses were confirmed; see `callosum rules suggest`, "
        "nothing is changed",
        at=ending.at / SECOND,
        instance=ending.case.session,
        namespace=ending.case.namespace,
    )
