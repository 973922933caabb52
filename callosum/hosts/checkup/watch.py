"""A server's look at the hosts now and then: whether the entries that were put in are there still.

``doctor`` looks when a person asks, and asks the hosts too. Here only files are read: that is cheap, and harms nothing.
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
"""Seconds between two looks."""
REMIND: Final = 3600.0
"""What is wrong and stays so is told again after so many seconds."""


class EntryWatch:
    """What was found wrong, and when it was told. For one thread at a time. ``clock``: as ``time.monotonic``."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._here = UserContext(home=Path.home(), environ=os.environ, folder=settings.state)
        self._told: dict[tuple[str, str], float] = {}
        self._next = clock() + EVERY

    def look(self) -> list[HealthCritical]:
        """Looks, if it is time to, and returns what is to be told of it: once when it begins, then every hour."""
        now = self._clock()
        if now < self._next:
            return []
        from callosum.hosts.checkup.examine import standing  # noqa: PLC0415 - a server that starts need not wait for it

        self._next = now + EVERY
        wrong = {(found.host, found.says) for found in standing(self._settings, self._here) if found.level == "wrong"}
        self._told = {one: at for one, at in self._told.items() if one in wrong}
        new = [one for one in sorted(wrong) if now - self._told.get(one, -REMIND) >= REMIND]
        self._told.update(dict.fromkeys(new, now))
        namespace = self._settings.namespace
        return [HealthCritical(f"host:{host}", says[:500], WANTED, namespace=namespace) for host, says in new]
