"""Check in the settings files of this machine's hosts if they ask the gate; ``doctor`` also asks the hosts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from callosum.hosts.checkup.examine import standing
from callosum.hosts.files import installed_files
from callosum.hosts.inspection import UserContext
from callosum.programs import HOSTS
from callosum.settings import Settings

EVERY: Final = 30.0
"""Seconds for which the result is cached before the files are read again."""


class Covered(Struct, frozen=True):
    """A host: whether it asks the gate, and what is wrong if it does not."""

    name: str
    title: str
    asks: bool
    says: str


class Coverage:
    """The hosts into whose settings entries were written. ``clock`` returns seconds that never run backwards."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._here = UserContext(home=Path.home(), environ=os.environ, folder=settings.state)
        self._found: tuple[Covered, ...] = ()
        self._due = clock()

    def hosts(self) -> tuple[Covered, ...]:
        """Return the hosts whose settings have entries of the gate."""
        now = self._clock()
        if now >= self._due:
            self._due = now + EVERY
            wrong = {one.host: one.says for one in standing(self._settings, self._here) if one.level == "wrong"}
            self._found = tuple(
                Covered(host.name, host.title, host.name not in wrong, wrong.get(host.name, "asks the gate"))
                for host in HOSTS
                if host.name in wrong or installed_files(self._settings.state, host.name)
            )
        return self._found
