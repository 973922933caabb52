"""Offer the client's methods to asyncio; each call runs in a thread of the client's own pools.

Calls that wait have their own pool. Otherwise a hundred waiting calls could occupy every thread and keep the report
that would end their wait from being sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, Self, TypedDict, TypeVar, Unpack

from callosum.client.client import CallosumClient, EventStream, StreamEvent
from callosum.errors import CallosumError
from callosum.model import Call, Decision, GateRequest
from callosum.operations import AsyncMethods
from callosum.wire import JournalQuery

logger = logging.getLogger("callosum")

THREADS: Final = 32
"""Maximum number of concurrent requests that do not wait; further requests queue."""
WAITERS: Final = 256
"""Maximum number of concurrent waiting calls, journal tails and event readers together."""

R = TypeVar("R")


class ClientOptions(TypedDict, total=False):
    """Keyword arguments of ``CallosumClient``."""

    token: str | None
    deadline: float
    fallback: Mapping[str, int] | str | os.PathLike[str] | None
    state: str | os.PathLike[str] | None
    highest: int
    cafile: str | os.PathLike[str] | None
    verify: bool
    start: Callable[[float], object] | None
    sleep: Callable[[float], None]
    clock: Callable[[], float]


class AsyncCallosumClient(AsyncMethods):
    """``CallosumClient`` with awaitable methods, for use in one event loop. ``client`` is the wrapped client.

    A task cancelled while it waits for a decision leaves no lease behind: if its call was let through, the call is
    reported as cancelled.
    """

    def __init__(self, url: str | None = None, **options: Unpack[ClientOptions]) -> None:
        self.client = client = CallosumClient(url, **options)
        super().__init__(client)
        self._short = ThreadPoolExecutor(THREADS, "callosum-client")
        self._long = ThreadPoolExecutor(WAITERS, "callosum-waiter")
        self.report = self._awaited(client.report)
        self.brief = self._awaited(client.brief)
        self.journal = self._awaited(client.journal)
        self.approvals = self._awaited(client.approvals)
        self.emit = self._awaited(client.emit)
        self.health = self._awaited(client.health)
        self.fallback = self._awaited(client.fallback)
        self.remember_late = self._awaited(client.remember_late)
        self.flush = self._awaited(client.flush)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.client.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the client and return once its threads have ended. Idempotent."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self.client.close()
        for pool in (self._short, self._long):
            pool.shutdown(cancel_futures=True)

    async def handle(self, request: GateRequest[R]) -> R:
        """Send a request to the gate and return its reply, like ``CallosumClient.handle``."""
        waits = isinstance(request, JournalQuery) and request.wait > 0
        if not waits:
            return await super().handle(request)
        return await asyncio.wrap_future(self._long.submit(self.client.handle, request))

    async def _decide(self, call: Call) -> Decision:
        future = (self._long if call.wait else self._short).submit(self.client.handle, call)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(partial(self._abandoned, call))
            raise

    async def events(
        self, types: str = "*", *, last_id: str = "", namespace: str | None = None
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield events until the iterator is closed; close it with ``contextlib.aclosing``."""
        opening = self._short.submit(self.client.events, types, last_id=last_id, namespace=namespace)
        try:
            stream = await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_opened)
            raise
        try:
            while (event := await asyncio.wrap_future(self._long.submit(next, stream, None))) is not None:
                yield event
        finally:
            stream.close()

    def _abandoned(self, call: Call, future: Future[Decision]) -> None:
        """Report a decision as cancelled whose task no longer waits; runs outside the event loop."""
        if not future.cancelled() and future.exception() is None:
            with suppress(RuntimeError):  # the client is closing; the lease expires by itself
                self._short.submit(self._withdraw, call, future.result())

    def _withdraw(self, call: Call, decision: Decision) -> None:
        try:
            if decision.fallback:
                self.client.remember_late(call, "cancelled")
            elif decision.proceed:
                self.client.complete(
                    call.instance, id=decision.id, outcome="cancelled", session=call.session, namespace=call.namespace
                )
        except CallosumError as error:
            logger.warning("could not report the cancellation of %s, which its task abandoned: %s", call.tool, error)

    async def _run(self, method: Callable[[], R]) -> R:
        waits = isinstance(method, partial) and method.keywords.get("wait")
        return await asyncio.wrap_future((self._long if waits else self._short).submit(method))


def _close_opened(opening: Future[EventStream]) -> None:
    """Close a stream whose task was cancelled while it was being opened."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
