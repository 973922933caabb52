"""Check regularly, in a server, whether the installed entries of the hosts are still there.

``doctor`` runs when a person asks, and runs the hosts' programs too. This check only reads files, so it is cheap and
harmless.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callosum.corpus.events import HealthCritical
from callosum.hosts.checkup.report import WANTED
from callosum.hosts.inspection import UserContext

if TYPE_CHECKING:
    from callosum.settings import Settings

EVERY: Final = 60.0
"""Seconds between two checks."""
REMIND: Final = 3600.0
"""Seconds after which a problem that persists is reported again."""


class EntryWatch:
    """Remember problems and when they were reported. Use it from one thread. ``clock`` is like ``time.monotonic``."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._here = UserContext(home=Path.home(), environ=os.environ, folder=settings.state)
        self._told: dict[tuple[str, str], float] = {}
        self._next = clock() + EVERY

    def look(self) -> list[HealthCritical]:
        """Run the check if it is due. Return the problems to report: new ones, and each old one once an hour."""
        now = self._clock()
        if now < self._next:
            return []
        from callosum.hosts.checkup.examine import standing  # noqa: PLC0415 - not imported while a server starts

        self._next = now + EVERY
        wrong = {
            (finding.host, finding.says) for finding in standing(self._settings, self._here) if finding.level == "wrong"
        }
        self._told = {problem: at for problem, at in self._told.items() if problem in wrong}
        due = [problem for problem in sorted(wrong) if now - self._told.get(problem, -REMIND) >= REMIND]
        self._told.update(dict.fromkeys(due, now))
        namespace = self._settings.namespace
        return [HealthCritical(f"host:{host}", says[:500], WANTED, namespace=namespace) for host, says in due]
