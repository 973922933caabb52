"""The periodic jobs of a server, in one list."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

from callosum.client.fallback import FILE, write_table
from callosum.gate import LocalGate
from callosum.model import SECOND
from callosum.server.recovery import Recovery
from callosum.server.security import RefusalLog
from callosum.stores.base import REGISTRATION_INTERVAL

logger = logging.getLogger("callosum")

_LOOK_AT_RULES: Final = 5.0
_LOOK_AT_STATE: Final = 1.0
_COUNT_REFUSALS: Final = 10.0


class Job(NamedTuple):
    """Work that runs at once and then periodically. An exception is logged, and the job continues."""

    what: str
    every: float
    work: Callable[[], Awaitable[object]]

    async def run(self) -> None:
        """Repeat the work until the job is cancelled."""
        while True:
            try:
                await self.work()
            except Exception:
                logger.exception("%s: failed, and is tried again", self.what)
            await asyncio.sleep(self.every)


def jobs(gate: LocalGate, aftermath: Recovery, refusals: RefusalLog) -> list[Job]:
    """Return all periodic jobs of a server."""
    table = FallbackFile(gate)

    async def count() -> None:
        refusals.tick()

    return [
        Job("writing the fallback table", _LOOK_AT_RULES, table.keep),
        Job("counting what was refused", _COUNT_REFUSALS, count),
        Job("registering at the store", REGISTRATION_INTERVAL / SECOND, lambda: asyncio.to_thread(gate.register)),
        Job("taking up what was left in the state folder", _LOOK_AT_STATE, aftermath.take_up),
    ]


class FallbackFile:
    """The clients' fallback table: a file beside the state that follows the rules."""

    def __init__(self, gate: LocalGate) -> None:
        self._gate = gate
        self._path: Path = gate.settings.state / FILE
        self._written: dict[str, int] | None = None
        self._failed = False

    async def keep(self) -> None:
        """Write the table if the rules have changed. Log only the first failure to write it."""
        tools = self._gate.rules.current().highest_tiers()
        if tools == self._written:
            return
        try:
            write_table(self._path, tools)
        except OSError as error:
            if not self._failed:
                logger.warning("the fallback table could not be written: %s", error)
            self._failed = True
        else:
            self._written, self._failed = tools, False
