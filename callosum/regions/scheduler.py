"""Brainstem: the schedule by which regions work, and a watch on the files that the gate reads."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final, Self

from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from msgspec import Struct
from tzlocal import get_localzone

from callosum.corpus.bus import Corpus
from callosum.corpus.events import HealthWarning, MemoryConsolidated, MemoryPromoted, SchedulerTick, WatcherChanged
from callosum.corpus.fault_reports import report_failed_job
from callosum.errors import CallosumError, ConfigError
from callosum.gate import LocalGate
from callosum.model import SECOND
from callosum.pages.consolidation import Consolidation, ConsolidationStopped
from callosum.redact import quote, said
from callosum.regions.watched_files import LOOK_EVERY, WatchedFiles

logger = logging.getLogger("callosum")

_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_LOUD: Final = ("apscheduler", "watchfiles")
"""Loggers of libraries that write a line for each run and each change. A line written in a watched folder is a change
too."""
_PATIENCE: Final = 5.0
"""Seconds that closing waits for jobs and watcher, in total."""
_SOON: Final = 60
"""Seconds after the start until a missing digest is written, so that the start is over first."""
_SET_BACK: Final = 5 * SECOND
"""A clock that went back by more than this was set."""


class ScheduledJob(Struct, frozen=True):
    """A job: its name, and either ``every`` (seconds between runs) or ``daily`` (a local time, ``00:10``).

    ``first`` is the number of seconds from the start to the first run (default: ``every``). Raises ``ConfigError``.
    """

    name: str
    every: float | None = None
    daily: str | None = None
    first: float | None = None

    def __post_init__(self) -> None:
        """Validate the schedule."""
        if (self.every is None) == (self.daily is None):
            raise ConfigError("expected either `every` or `daily`", at=f"job {self.name}")
        if self.every is not None and not 0 < self.every <= 366 * 86_400:
            raise ConfigError(f"expected seconds, more than 0, got {self.every!r}", at=f"job {self.name}.every")
        if self.daily is not None and not _TIME.fullmatch(self.daily):
            raise ConfigError(f'expected a time such as "00:10", got {self.daily!r}', at=f"job {self.name}.daily")

    @property
    def schedule(self) -> str:
        """The schedule in words: ``every 30 s``, ``daily at 00:10``."""
        if self.every is None:
            return f"daily at {self.daily}"
        size, unit = next(((size, unit) for size, unit in _UNITS if self.every % size == 0), (1, "s"))
        return f"every {self.every / size:g} {unit}"


JOBS: Final = (
    ScheduledJob("health", every=30),
    ScheduledJob("sweep", every=30),
    ScheduledJob("retention", every=600),
    ScheduledJob("episodes", every=300),
    ScheduledJob("index", every=60),
    ScheduledJob("digest", daily="00:10"),
    ScheduledJob("topics", every=3600, first=300),
)
"""The schedule. Work that is not Brainstem's own is done by the region that handles the tick."""


class Brainstem:
    """Run the schedule, watch files, and write weekly digests and topic pages.

    Each run of a job emits ``scheduler.tick`` and then does Brainstem's own part of it:

    ========= ==========================================================================================
    sweep     makes the gate settle leases and questions that expired unnoticed
    retention makes the gate forget what nobody can query, and rotates the journal
    digest    writes the digest of the last complete week if it is missing: ``memory.consolidated``
    topics    writes the pages of keys to which sessions keep returning: ``memory.promoted`` for a new one
    ========= ==========================================================================================

    If a job fails, it is logged, ``health.warning`` (``job.<name>``) is emitted, and the job runs again at its next
    time. A job never overlaps itself. Runs missed while the machine slept are made up for once. When the clock is set
    back, the schedule starts again, so that no job waits for the old time.

    ``watch`` are files: ``watcher.changed`` is emitted when one is created, changed or deleted, also when an editor
    replaces it or its folder is created later. If it is the gate's rules file, the gate reads it before the event; an
    error in it emits ``health.warning`` (``rules``).

    ``state`` is the state folder. ``now`` returns moments (default: the store's). Nothing runs before ``start``.
    Processes that share a state folder may each have a Brainstem: only one of them writes a page at a time.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        gate: LocalGate,
        state: Path,
        watch: Sequence[Path] = (),
        jobs: Sequence[ScheduledJob] = JOBS,
        now: Callable[[], int] | None = None,
    ) -> None:
        self._corpus = corpus
        self._gate = gate
        self._now = now or gate.store.now
        self._closed = threading.Event()
        self._pages = Consolidation(gate.store, state, now=self._now, closed=self._closed)
        self._jobs = {job.name: job for job in jobs}
        self._busy = {job.name: threading.Lock() for job in jobs}
        self._own: Mapping[str, Callable[[], object]] = {
            "sweep": gate.sweep,
            "retention": gate.upkeep,
            "digest": self._digest,
            "topics": self._topics,
        }
        self._schedule: BackgroundScheduler | None = None
        self._running: dict[str, threading.Thread] = {}
        """The thread of each job's last scheduled run."""
        self._files = WatchedFiles(watch, busy=state)
        self._watcher: threading.Thread | None = None
        self._latest = 0

    # --- the schedule ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the schedule and the watch. Idempotent; raises ``RuntimeError`` if the region is closed."""
        if self._closed.is_set():
            raise RuntimeError("this region is closed")
        if self._schedule is not None:
            return
        for name in _LOUD:
            loud = logging.getLogger(name)
            if loud.level == logging.NOTSET:  # any other level was set on purpose
                loud.setLevel(logging.WARNING)
        # The scheduler's own pool would keep the interpreter alive while a job runs.
        self._schedule = schedule = BackgroundScheduler(
            timezone=_zone(),
            executors={"default": DebugExecutor()},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        for job in self._jobs.values():
            schedule.add_job(self._begin, _trigger(job), (job.name,), id=job.name, **self._first(job))
        schedule.start()
        self._watcher = threading.Thread(target=self._watch, name="callosum-watcher", daemon=True)
        self._watcher.start()

    def run_job(self, name: str) -> bool:
        """Run a job now, in this thread; return False if it is already running.

        Errors of the job are not raised. Raises ``ConfigError`` for a job that is not in the schedule.
        """
        job = self._jobs.get(name)
        if job is None:
            raise ConfigError(f"there is no job {quote(name)}; there are {', '.join(self._jobs)}", at="job")
        if self._closed.is_set() or not self._busy[name].acquire(blocking=False):
            return False
        try:
            self._corpus.emit(SchedulerTick(name, job.schedule))
            if (own_work := self._own.get(name)) is not None:
                own_work()
        except ConsolidationStopped:
            pass
        except Exception as fault:  # noqa: BLE001 - reported; the schedule continues
            if self._closed.is_set():  # what the job needs is closed too
                logger.info("the job %r was given up: %s", name, said(fault))
            else:
                report_failed_job(self._corpus.emit, name, fault)
        finally:
            self._busy[name].release()
        return True

    def times(self) -> dict[str, float]:
        """Return the next time of each job, in Unix seconds; empty before ``start`` and after ``close``."""
        if self._schedule is None:
            return {}
        return {job.id: job.next_run_time.timestamp() for job in self._schedule.get_jobs()}

    def close(self) -> None:
        """Stop the schedule and the watch. Idempotent.

        Waits for running jobs, which give up long reads, but at most five seconds in total: a job that blocks is
        abandoned. It does not keep the interpreter alive.
        """
        self._closed.set()
        ends = time.monotonic() + _PATIENCE
        schedule, self._schedule = self._schedule, None
        if schedule is not None and schedule.running:
            schedule.shutdown(wait=False)
        watcher, self._watcher = self._watcher, None
        for name, thread in (*self._running.copy().items(), ("watcher", watcher)):
            if thread is None or thread is threading.current_thread():  # a handler of our own events may close us
                continue
            thread.join(max(0.0, ends - time.monotonic()))
            if thread.is_alive():
                logger.warning("%s is abandoned, because it blocks", name)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _begin(self, name: str) -> None:
        """Run a job in a thread, unless its last run is still going."""
        last = self._running.get(name)
        if last is None or not last.is_alive():
            self._running[name] = run = threading.Thread(
                target=self.run_job, args=(name,), name=f"callosum-{name}"[:60], daemon=True
            )
            run.start()

    def _first(self, job: ScheduledJob) -> dict[str, Any]:
        """Return the time of a job's first run, if it differs from what its trigger says."""
        delay = job.first
        if job.name == "digest" and job.daily is not None and self._digest_missing():
            delay = _SOON
        return {} if delay is None else {"next_run_time": datetime.now(UTC) + timedelta(seconds=delay)}

    def _digest_missing(self) -> bool:
        """Return True if a digest may be missing.

        An unreachable store or folder does not stop the schedule from starting.
        """
        try:
            return self._pages.due()
        except (CallosumError, OSError) as error:
            logger.warning("cannot check for a missing digest until the job runs: %s", said(error))
            return True

    def _look_at_clock(self) -> None:
        """Restart the schedule when the clock was set back: the planned times would be far away."""
        now = time.time_ns() // 1000
        if now < self._latest - _SET_BACK and (schedule := self._schedule) is not None:
            logger.warning("the clock went back by %d s; the schedule is restarted", (self._latest - now) // SECOND)
            for job in self._jobs.values():
                schedule.reschedule_job(job.name, trigger=_trigger(job))
        self._latest = now

    # --- Brainstem's own work --------------------------------------------------------------------------------

    def _digest(self) -> None:
        digest = self._pages.digest()
        if digest is not None:
            self._corpus.emit(MemoryConsolidated(digest.week, digest.episodes))

    def _topics(self) -> None:
        for topic in self._pages.topics():
            self._corpus.emit(MemoryPromoted(topic.key, topic.path, namespace=topic.namespace))

    # --- files -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Run the watcher's thread until the region is closed."""
        while not self._closed.is_set():
            try:
                for _ in self._files.wakes(self._closed):
                    if self._closed.is_set():
                        return
                    self._look_at_clock()
                    for path, change in self._files.changes():
                        self._changed(path, change)
            except Exception as fault:
                logger.exception("the file watcher failed and restarts")
                self._corpus.emit(HealthWarning("watcher", said(fault), "no error"))
                self._closed.wait(LOOK_EVERY / 1000)

    def _changed(self, path: Path, change: str) -> None:
        rules = self._gate.rules
        is_rules_file = rules.path is not None and path == rules.path.absolute()
        if is_rules_file:
            rules.reload()
        self._corpus.emit(WatcherChanged(str(path), change))
        if is_rules_file and rules.error is not None:
            self._corpus.emit(HealthWarning("rules", said(rules.error), "valid"))


class _Interval(IntervalTrigger):  # type: ignore[misc]  # the library has no types
    """A fixed interval. Runs missed by a sleeping machine or a clock that jumped ahead count once."""

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        """Return the next time after ``previous`` that is still ahead, or None if there is none."""
        next_time: datetime | None = super().get_next_fire_time(previous, now)
        if previous is not None and next_time is not None and next_time <= now:
            next_time = now + self.interval
        return next_time


def _trigger(job: ScheduledJob) -> CronTrigger | _Interval:
    if job.every is not None:
        return _Interval(seconds=job.every, timezone=_zone())
    hour, minute = (job.daily or "").split(":")
    return CronTrigger(hour=int(hour), minute=int(minute), timezone=_zone())


def _zone() -> tzinfo:
    """Return the local time zone, or its present offset from UTC if only that is known."""
    try:
        return get_localzone()
    except (LookupError, ValueError, OSError):
        return datetime.now(UTC).astimezone().tzinfo or UTC
