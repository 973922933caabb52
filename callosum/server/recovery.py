"""Takes up what others left in the state folder, makes good what the store is owed, keeps when each host was heard.

Hooks noted there what went on while no gate answered: they are gone when one does. ``doctor`` leaves what is wrong.
Now and then it is looked whether the hosts that were set up ask the gate still.
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
    """What hooks, ``doctor`` and a store that was away left to do."""

    def __init__(self, service: Service, state: Path) -> None:
        self._service = service
        self._state = state
        self._watch = EntryWatch(service.served.gate.settings)

    async def take_up(self) -> None:
        """Make good what the store is owed, take in the spool, tell what ``doctor`` found."""
        service = self._service
        if service.dispatcher.owes:
            with suppress(Stopping):
                await service.served.drive(service.dispatcher.make_good())
        if await asyncio.to_thread(service.served.gate.spool.left):
            with suppress(Stopping, StoreError):  # what a store does not take now waits in the spool
                await service.served.take_in(left=True)
            service.stream.wake()
        await asyncio.to_thread(self._look)

    def _look(self) -> None:
        self._service.heard.save()
        for event in (*report.take(self._state), *self._watch.look()):
            self._service.brain.corpus.emit(event)

    def close(self) -> None:
        """Say what the store never took, and save when each host was heard."""
        if self._service.dispatcher.owes:
            logger.warning("the store never took how some calls ended: their leases end with their hosts")
        self._service.heard.save(now=True)
