"""Check that the store behind a server can take decisions, by a test write from time to time, beside the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from callosum.errors import StoreError
from callosum.stores.base import Store

PROVE_EVERY: Final = 2.0
"""Seconds between two test writes. Reading from the store is checked on each request."""
_SECONDS: Final = 2.0
"""Seconds that a health check waits for the store. Load balancers do not wait longer."""

Read = Callable[[Callable[[], str]], Awaitable[str]]
"""Runs a blocking function in a thread."""


class StoreHealth:
    """The health of a store, shared by all simultaneous checks. Use it from one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looking: asyncio.Future[str] | None = None
        self._proven = 0.0
        self._fault = ""

    async def fault(self, read: Read) -> str:
        """Return why the store cannot take decisions, ``""`` if it can. ``read`` runs the check in a thread."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(read(self._look))
        looking: asyncio.Future[Any] = self._looking
        done, _ = await asyncio.wait([looking], timeout=_SECONDS)  # one check serves all requests that come meanwhile
        if not done:
            return f"the store has not answered for {_SECONDS:.0f} s"
        found: str = looking.result()
        return found

    def _look(self) -> str:
        """Check that the store answers and, every few seconds, that it can be written."""
        try:
            self._store.now()
        except StoreError as error:
            return str(error)
        if not self._proven or time.monotonic() - self._proven >= PROVE_EVERY:
            self._proven = time.monotonic()
            self._fault = ""
            try:
                self._store.prove()
            except StoreError as error:
                self._fault = str(error)
        return self._fault
