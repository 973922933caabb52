"""Takes up what others left in the state folder, makes good what the store is owed, keeps when each host was heard.

Hooks noted there what went on while no gate answered: they are gone when one does. ``doctor`` leaves what is wrong.
Now and then it is looked whether the hosts that were set up ask the gate still.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callosum.errors import StoreError
from callosum.hosts.checkup import report
from callosum.hosts.checkup.watch import Watch
from callosum.server.line import Stopping

if TYPE_CHECKING:
    from callosum.server.app import Service

logger = logging.getLogger("callosum")

_EVERY: Final = 1.0


async def take_up(service: Service, state: Path) -> None:
    """Takes in the spool and what else waited, tells what ``doctor`` found, until it is cancelled."""
    watch = Watch(service.served.gate.settings)

    def look() -> None:
        service.heard.save()
        for event in (*report.take(state), *watch.look()):
            service.brain.corpus.emit(event)

    try:
        while True:
            try:
                if service.dispatcher.owes:
                    with suppress(Stopping):
                        await service.served.drive(service.dispatcher.make_good())
                if await asyncio.to_thread(service.served.gate.spool.left):
                    with suppress(Stopping, StoreError):  # what a store does not take now waits in the spool
                        await service.served.take_in(left=True)
                    service.stream.wake()
                await asyncio.to_thread(look)
            except Exception:
                logger.exception("what was left in the state folder could not be taken up")
            await asyncio.sleep(_EVERY)
    finally:
        if service.dispatcher.owes:
            logger.warning("the store never took how some calls ended: their leases end with their hosts")
        service.heard.save(now=True)
