"""Takes up what others left in the state folder, makes good what the store is owed, keeps when each host was heard.

Hooks noted there what went on while no gate answered: they are gone when one does. ``doctor`` leaves what is wrong.
Now and then it is looked whether the hosts that were set up ask the gate still.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callosum import wire
from callosum.client.late import Late, Refused
from callosum.errors import ConfigError
from callosum.hosts.checkup import report
from callosum.hosts.checkup.watch import Watch
from callosum.server.app import LATE_CALLS
from callosum.server.line import Stopping

if TYPE_CHECKING:
    from callosum.server.app import Service

logger = logging.getLogger("callosum")

_EVERY: Final = 1.0
_SECONDS: Final = 30.0
"""How long a page may take to be journalled."""
_CALL_AT: Final = re.compile(r"calls\[(\d+)\]")


async def take_up(service: Service, state: Path) -> None:
    """Journals the calls in ``late.jsonl`` and what else waited, tells what ``doctor`` found, until it is cancelled."""
    late = Late(str(state))
    watch = Watch(service.served.gate.settings)
    loop = asyncio.get_running_loop()

    def post(body: bytes, _count: int) -> None:
        try:
            told = wire.read(LATE_CALLS, body)  # one line that is none must not keep the others waiting
            asyncio.run_coroutine_threadsafe(service.take_late(told, len(body)), loop).result(_SECONDS)
        except ConfigError as error:
            place = _CALL_AT.match(error.at)
            raise Refused(str(error), int(place[1]) if place else None) from None

    def look() -> None:
        if late.waiting():
            count = late.flush(post)
            logger.info("%d calls that ran without the gate are journalled", count)
        service.heard.save()
        for event in (*report.take(state), *watch.look()):
            service.brain.corpus.emit(event)

    try:
        while True:
            try:
                if service.dispatcher.owes:
                    with suppress(Stopping):
                        await service.served.drive(service.dispatcher.make_good())
                await asyncio.to_thread(look)
            except Exception:
                logger.exception("what was left in the state folder could not be taken up")
            await asyncio.sleep(_EVERY)
    finally:
        if service.dispatcher.owes:
            logger.warning("the store never took how some calls ended: their leases end with their hosts")
        service.heard.save(now=True)
