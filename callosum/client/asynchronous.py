"""The client for asyncio: the same methods, each run in a thread of its own pool.

Waiting has a pool of its own, so that a hundred calls that wait for their turn do not keep the report from being
sent that would end their waiting.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, ParamSpec, Self, TypedDict, TypeVar, Unpack

from callosum.client.client import CallosumClient, EventStream, StreamEvent
from callosum.errors import CallosumError
from callosum.model import Call, Decision
from callosum.wire import JournalPage

logger = logging.getLogger("callosum")

THREADS: Final = 32
"""Most requests at once that do not wait; further ones stand in line."""
WAITERS: Final = 256
"""Most calls at once that wait for their turn, most tails of the journal and most readers of events."""

P = ParamSpec("P")
R = TypeVar("R")


class Options(TypedDict, total=False):
    """What ``CallosumClient`` takes beside the URL."""

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


class AsyncCallosumClient:
    """``CallosumClient`` with awaitable methods, for use in one event loop; ``client`` is the one inside.

    A task that is cancelled while it waits for a decision leaves no lease behind: a call that was let through
    for it is reported as cancelled.
    """

    def __init__(self, url: str | None = None, **options: Unpack[Options]) -> None:
        self.client = client = CallosumClient(url, **options)
        self._short = ThreadPoolExecutor(THREADS, "callosum-client")
        self._long = ThreadPoolExecutor(WAITERS, "callosum-waiter")
        self.complete = self._threaded(client.complete)
        self.report = self._threaded(client.report)
        self.lock = self._threaded(client.lock)
        self.release = self._threaded(client.release)
        self.renew = self._threaded(client.renew)
        self.resolve = self._threaded(client.resolve)
        self.approve = self._threaded(client.approve)
        self.deny = self._threaded(client.deny)
        self.status = self._threaded(client.status)
        self.brief = self._threaded(client.brief)
        self.approvals = self._threaded(client.approvals)
        self.emit = self._threaded(client.emit)
        self.health = self._threaded(client.health)
        self.fallback = self._threaded(client.fallback)
        self.remember_late = self._threaded(client.remember_late)
        self.flush = self._threaded(client.flush)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.client.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the client and returns once its threads have ended. Idempotent."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self.client.close()
        for pool in (self._short, self._long):
            pool.shutdown(cancel_futures=True)

    async def intercept(self, call: Call) -> Decision:
        """Decides a call before it runs, as ``CallosumClient.intercept`` does."""
        future = (self._long if call.wait else self._short).submit(self.client.intercept, call)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(partial(self._abandoned, call))
            raise

    async def journal(self, cursor: str = "", **more: Any) -> JournalPage:
        """Returns a page of the journal; takes what ``CallosumClient.journal`` takes."""
        pool = self._long if more.get("wait") else self._short
        return await asyncio.wrap_future(pool.submit(self.client.journal, cursor, **more))

    async def events(
        self, types: str = "*", *, last_id: str = "", namespace: str | None = None
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yields events for as long as they are asked for; close the iterator (``contextlib.aclosing``)."""
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
        """Reports as cancelled what was decided for somebody who no longer waits, beside the event loop."""
        if not future.cancelled() and future.exception() is None:
            with suppress(RuntimeError):  # the client is being closed: the lease ends by time
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
            logger.warning("%s was decided for nobody, and that could not be reported: %s", call.tool, error)

    def _threaded(self, method: Callable[P, R]) -> Callable[P, Awaitable[R]]:
        @functools.wraps(method)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await asyncio.wrap_future(self._short.submit(method, *args, **kwargs))

        return call


def _close_opened(opening: Future[EventStream]) -> None:
    """Closes a stream that was opened for somebody who no longer waits."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
