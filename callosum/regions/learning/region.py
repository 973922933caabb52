"""Basal Ganglia on the bus: how calls ended that were not simply let through, and what that teaches."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from callosum.corpus.bus import Corpus
from callosum.corpus.events import OutcomeRecorded, PreferenceLearned, SchedulerTick
from callosum.model import SECOND, Kind, Observation
from callosum.policy.sentence import name
from callosum.regions.learning.counts import LEAST, SHARE, Count, learnable
from callosum.regions.learning.endings import Ending, Endings

MOST_PATTERNS: Final = 1000
"""Most patterns that are counted at once; of more the one that was longest without news is forgotten."""
_JOB: Final = "sweep"
_LAG: Final = 5 * SECOND
"""Entries of other threads may come so much later than the time they bear."""

_Pattern = tuple[str, str, frozenset[Kind]]
"""Rule, tool, and what was in the way."""


class BasalGanglia:
    """Tells how warned, paused, asked and blocked calls of this process ended, and what is always confirmed.

    It is handed what the gate hands its observer (``observe``), and emits:

    * ``outcome.recorded`` once a call has come to its end. Its ``type`` is ``warned.X``, ``confirmed.X``,
      ``waited.X`` or ``approved.X`` with X one of done, failed, cancelled, unknown; or ``heeded``,
      ``approved.unused``, ``denied``, ``unanswered``, ``blocked``. ``learning.endings`` says what they mean.
    * ``preference.learned`` when the same sort of pause was confirmed at least ``least`` times, at least
      ``SHARE`` of them all, and none of those calls went wrong: once for a pattern. It says which rule
      ``callosum rules suggest`` would propose, and changes nothing.

    What ends by time alone is told with the next call, or with the schedule's job ``sweep``. Memory is bounded;
    safe in any thread. ``now`` gives moments; it is for tests.
    """

    def __init__(
        self, corpus: Corpus, *, least: int = LEAST, now: Callable[[], int] = lambda: time.time_ns() // 1000
    ) -> None:
        self._corpus = corpus
        self._least = least
        self._now = now
        self._endings = Endings()
        self._counts: OrderedDict[_Pattern, Count] = OrderedDict()
        self._known: OrderedDict[_Pattern, None] = OrderedDict()
        self._guard = threading.Lock()
        self._off = corpus.on(SchedulerTick, self._tick)

    def close(self) -> None:
        """Ends the subscription. Idempotent."""
        self._off()

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
        pattern = (case.rule, case.tool, case.kinds)
        with self._guard:
            count = self._counts.setdefault(pattern, Count())
            self._counts.move_to_end(pattern)
            if len(self._counts) > MOST_PATTERNS:
                self._counts.popitem(last=False)
            count.add(ending)
            if pattern in self._known or not self._convinces(count):
                return None
            self._known[pattern] = None
            if len(self._known) > 10 * MOST_PATTERNS:
                self._known.popitem(last=False)
            return _preference(pattern, count, ending)

    def _convinces(self, count: Count) -> bool:
        enough = count.confirmed >= self._least
        return (
            enough
            and not count.failed + count.regretted
            and (count.confirmed >= SHARE * (count.confirmed + count.heeded + count.waited))
        )


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


def _preference(pattern: _Pattern, count: Count, ending: Ending) -> PreferenceLearned:
    rule, tool, kinds = pattern
    what = " and ".join(sorted(kinds)) or "the rule's own pause"
    where = ", ".join(sorted(name(one) for one in count.families))
    lets = "does not pause" if not kinds else f"lets {what} pass"
    return PreferenceLearned(
        f"{what} on {where} by {name(tool)} (rule {name(rule)})",
        f"a rule that {lets} there: confirmed {count.confirmed} of {count.confirmed + count.heeded + count.waited} "
        f"times; `callosum rules suggest` writes it, and nothing is changed",
        at=ending.at / SECOND,
        instance=ending.case.session,
        namespace=ending.case.namespace,
    )
