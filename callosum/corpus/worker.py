"""The thread of a corpus: it runs jobs a moment after they are asked for, and lives while one is due."""

from __future__ import annotations

import atexit
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

logger = logging.getLogger("callosum")

_JOIN: Final = 4.0
"""Seconds to wait for the thread when the last job ends."""


class Worker:
    """One thread for some jobs. A forked child has none until it asks; all are finished when the process ends."""

    def __init__(self) -> None:
        self.jobs: list[WorkerJob] = []
        self.begin_anew()
        _ALL.add(self)

    def begin_anew(self) -> None:
        """Reset in a forked child: the thread and what is due belong to the parent."""
        self.guard = threading.RLock()  # reentrant: a signal handler may ask for a job
        self.bell = threading.Lock()
        """Locked while nothing is to be told to the thread."""
        self.bell.acquire()
        self.sleeps_until = -math.inf
        """When the thread wakes by itself."""
        self.thread: threading.Thread | None = None
        for job in self.jobs:
            job.idle, job.due = True, math.inf
            job.renew()

    def run(self) -> None:
        """Run the thread."""
        while True:
            with self.guard:
                due, next_job = math.inf, None
                for job in self.jobs:
                    if job.due < due:
                        due, next_job = job.due, job
                if next_job is None:
                    self.thread = None
                    return
                left = due - time.monotonic()
                if left <= 0:
                    self.sleeps_until = -math.inf
                    next_job.idle, next_job.due = True, math.inf  # whoever has new work from now on asks again
                else:
                    self.sleeps_until = due
            if left > 0:
                self.bell.acquire(timeout=left)
                continue
            try:
                next_job.work()
            except Exception:
                logger.exception("corpus: a job failed")

    def ring(self) -> None:
        """Wake the thread. The caller holds the lock."""
        if self.bell.locked():
            self.bell.release()


class WorkerJob:
    """Work of a worker's thread. ``idle`` is True if it is not due, so that whoever has new work must ask for it.

    It runs within ``every`` seconds. ``renew`` resets its owner in a forked child; ``finish`` ends the owner's work at
    the end of the process.
    """

    def __init__(
        self,
        worker: Worker,
        work: Callable[[], object],
        every: float,
        *,
        renew: Callable[[], object],
        finish: Callable[[], object],
    ) -> None:
        self.worker, self.work, self.every, self.renew, self.finish = worker, work, every, renew, finish
        self.idle, self.due = True, math.inf
        with worker.guard:
            worker.jobs.append(self)

    def soon(self, seconds: float | None = None) -> None:
        """Run within ``seconds`` (default: ``every``). If no thread can be started, the job stays idle."""
        worker, due = self.worker, time.monotonic() + (self.every if seconds is None else seconds)
        with worker.guard:
            if self not in worker.jobs:
                return
            self.idle = False
            self.due = min(self.due, due)
            if due < worker.sleeps_until:
                worker.ring()
            if worker.thread is None:
                util = sys.modules.get("multiprocessing.util")
                if util is not None:  # its children run finalizers but no ``atexit`` functions
                    util.Finalize(None, _finish_all, exitpriority=-100)
                worker.thread = threading.Thread(target=worker.run, name="callosum-corpus", daemon=True)
                try:
                    worker.thread.start()
                except RuntimeError:
                    worker.thread, self.idle, self.due = None, True, math.inf

    def end(self) -> None:
        """Run no more; the thread ends with the last job. Idempotent."""
        worker = self.worker
        with worker.guard:
            if self in worker.jobs:
                worker.jobs.remove(self)
            worker.ring()
            thread = None if worker.jobs else worker.thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN)


_ALL: Final[WeakSet[Worker]] = WeakSet()


def _finish_all() -> None:
    for worker in tuple(_ALL):
        for job in worker.jobs:  # an embedded gate's first entry may open its log here, whose job comes last
            job.finish()


def _begin_all_anew() -> None:
    for worker in tuple(_ALL):
        worker.begin_anew()


atexit.register(_finish_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all_anew)
