"""Recover what other processes left in the state folder and what the store has not received, and save last-seen times.

Hooks spool the calls they decide while the gate is unreachable, and have ended when it returns. ``doctor`` leaves
its findings. From time to time, the server checks whether the hosts that were set up still ask the gate.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from callosum.errors import StoreError
from callosum.hosts.checkup import report
from callosum.hosts.checkup.watch import EntryWatch
from callosum.server.wait_queue import Stopping

if TYPE_CHECKING:
    from callosum.server.app import Service

logger = logging.getLogger("callosum")


class Recovery:
    """Recovers what hooks, ``doctor`` and an unreachable store left to do."""

    def __init__(self, service: Service, state: Path) -> None:
        self._service = service
        self._state = state
        self._watch = EntryWatch(service.served.gate.settings)

    async def take_up(self) -> None:
        """Write what the store has not received, take in the spool, and publish the findings of ``doctor``."""
        service = self._service
        if service.dispatcher.owes:
            with suppress(Stopping):
                await service.served.drive(service.dispatcher.make_good())
        if await asyncio.to_thread(service.served.gate.spool.waiting):
            with suppress(Stopping, StoreError):  # records that the store does not take now wait in the spool
                await service.served.take_in()
            service.stream.wake()
        await asyncio.to_thread(self._look)

    def _look(self) -> None:
        self._service.heard.save()
        for event in (*report.take(self._state), *self._watch.look()):
            self._service.brain.corpus.emit(event)

    def close(self) -> None:
        """Log what the store never received, and save when each host was last seen."""
        if self._service.dispatcher.owes:
            logger.warning("the store never took how some calls ended: their leases end with their hosts")
        self._service.heard.save(now=True)
