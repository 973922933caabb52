"""Reporting what goes wrong on the bus: a line in the log, and ``health.warning``."""

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
"""One fault of one handler is reported at most once in so many seconds; the others are counted."""
_MOST: Final = 1000


class _Here(threading.local):
    """Whether this thread is reporting."""

    reporting = False


class FaultReporter:
    """Reports faults through ``emit``. Never raises, and a fault while it reports is only logged."""

    def __init__(self, emit: Callable[[CorpusEvent], None]) -> None:
        self._emit = emit
        self._here = _Here()
        self._guard = threading.RLock()  # whoever reports may be interrupted by who reports
        self._known: dict[tuple[str, str], tuple[float, int]] = {}

    def report(self, resource: str, value: str, threshold: str, why: str, error: BaseException | None = None) -> None:
        """Says that ``value`` (a handler, an event) is beyond its ``threshold``, and ``why``."""
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
        """How many faults were left out since the last report; None if it is not time for one yet."""
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

    Of what Callosum raises on purpose (a store that is away) the log has the sentence, of anything else the traceback.
    """
    logger.error(
        "the job %r failed: %s", name, said(fault), exc_info=None if isinstance(fault, CallosumError) else fault
    )
    emit(HealthWarning(f"job.{name}", said(fault), "no error"))
