"""Report faults on the bus: a log line, and a ``health.warning``."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from callosum.corpus.events import CorpusEvent, HealthWarning
from callosum.errors import CallosumError
from callosum.redact import said

logger = logging.getLogger("callosum")

REPORT_EVERY: Final = 10.0
"""Seconds in which one fault of one handler is reported at most once; the others are counted."""
_MOST: Final = 1000


class _Here(threading.local):
    """True while this thread is reporting."""

    reporting = False


class FaultReporter:
    """Report faults through ``emit``. Never raises; a fault during a report is only logged."""

    def __init__(self, emit: Callable[[CorpusEvent], None]) -> None:
        self._emit = emit
        self._here = _Here()
        self._guard = threading.RLock()  # reentrant: a report may interrupt a report
        self._known: dict[tuple[str, str], tuple[float, int]] = {}

    def report(self, resource: str, value: str, threshold: str, why: str, error: BaseException | None = None) -> None:
        """Report that ``value`` (a handler, an event) exceeds its ``threshold``, and ``why``."""
        try:
            left_out = self._due(resource, value)
            if left_out is None:
                return
            more = f" ({left_out} more since the last report)" if left_out else ""
            logger.warning("corpus: %s %s: %s%s", resource, value, why, more, exc_info=error)
            if self._here.reporting:
                return
            self._here.reporting = True
            try:
                self._emit(HealthWarning(f"corpus.{resource}", value, threshold))
            finally:
                self._here.reporting = False
        except Exception:  # pragma: no cover - logging itself failed
            logger.debug("a fault on the corpus could not be reported", exc_info=True)

    def _due(self, resource: str, value: str) -> int | None:
        """Return the number of faults left out since the last report; None if no report is due yet."""
        now = time.monotonic()
        with self._guard:
            last, left_out = self._known.get((resource, value), (-REPORT_EVERY, 0))
            if now - last < REPORT_EVERY:
                self._known[resource, value] = (last, left_out + 1)
                return None
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[resource, value] = (now, 0)
        return left_out


def report_failed_job(emit: Callable[[CorpusEvent], None], name: str, fault: Exception) -> None:
    """Report that a job failed: in the log, and as ``health.warning`` through ``emit``.

    For errors that Callosum raises on purpose (an unreachable store) the log has the message, for others the traceback.
    """
    logger.error(
        "the job %r failed: %s", name, said(fault), exc_info=None if isinstance(fault, CallosumError) else fault
    )
    emit(HealthWarning(f"job.{name}", said(fault), "no error"))
