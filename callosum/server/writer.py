"""Group commit: requests that arrive while one batch is written form the next batch.

A batch runs on the event loop, as one transaction that never waits for another process's lock. Non-durable requests
are answered after the commit. Durable requests are answered after the sync. While the disk is quick, the loop waits for
it; otherwise the sync runs in a thread, so that the next batch is decided while the disk works. If the store cannot be
tried without waiting (another process has the file, or the store is not a ``NonBlocking`` one), the batch runs in a
thread. A store over a network runs several batches at once, as many as it has ``lanes``: such a batch spends most of
its time waiting.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from callosum.errors import StoreUnavailable, Unconfirmed
from callosum.model import Applied
from callosum.stores.base import NonBlocking, Pooled, Request, Store

BATCH: Final = 64
"""Maximum number of requests in one transaction; the loop does nothing else meanwhile."""
QUICK: Final = 0.001
"""Seconds below which a sync may be waited for on the loop. A thread for it costs more, in switches between threads."""
QUICK_BESIDE: Final = 0.004
"""The same for a sync in a thread, which then waits for the interpreter's lock as well."""
STEADY: Final = 32
"""Number of quick syncs in a row after which the next one is waited for on the loop although other requests wait."""
LATE: Final = 0.1
"""Seconds that the first of many pending requests may have waited before new requests are refused.

Clients give up after a second, so later decisions help nobody. A refused client has time to try again.
"""
PATIENT: Final = 4.0
"""Seconds that a request may have waited behind a batch for which the store did not answer, before it fails with it."""
TEND_EVERY: Final = 0.05
"""Seconds between two rounds of tending the store while it is written."""

logger = logging.getLogger("callosum")

Answer = Applied | Exception


class Result(asyncio.Future[Applied]):
    """The future result of a request. ``resume`` is called when the result is set, not in the loop's next round."""

    resume: Callable[[], object] | None = None


_Asked = tuple[Request, Result]


class Writer:
    """Hands requests to the store in batches. Use it from one event loop.

    ``tail`` receives the answers of each transaction. ``committed`` counts transactions and ``requests`` what was in
    them.
    """

    def __init__(self, store: Store, tail: Callable[[Sequence[Answer]], object] = lambda _: None) -> None:
        self._store = store
        self._tail = tail
        self._prompt: NonBlocking | None = store if isinstance(store, NonBlocking) else None
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[_Asked, float]] = deque()  # with the arrival time of each
        self._held: list[tuple[Result, Answer]] = []
        self._upto = 0
        self._scheduled = False
        self._lanes = store.lanes if isinstance(store, Pooled) else 1
        self._under_way = 0
        self._syncing = False
        self._quick_syncs = 0
        """How many syncs in a row were quick."""
        self._tending = False
        # Per running batch, one thread runs it, one syncs, one tends.
        self._threads = _started(2 + self._lanes)
        self._idle = asyncio.Event()
        self._idle.set()
        self.committed = 0
        self.requests = 0

    @property
    def behind(self) -> bool:
        """Return True if more than a batch waits and its first request has waited for ``LATE`` seconds."""
        return len(self._waiting) > BATCH and self._loop.time() - self._waiting[0][1] > LATE

    def submit(self, request: Request) -> Result:
        """Return the future result. It is set once the change is as durable as its scope demands."""
        future = Result(loop=self._loop)
        self._waiting.append(((request, future), self._loop.time()))
        if not self._scheduled and self._under_way < self._lanes:
            self._schedule()
        return future

    async def close(self) -> None:
        """Return once every submitted request is answered."""
        while self._waiting or self._under_way or self._syncing or self._tending:
            self._idle.clear()
            await self._idle.wait()
        self._threads.shutdown()

    def _schedule(self) -> None:
        # Not at once: every request that was read in this round of the loop joins the batch, and the next round reads
        # which of their clients have disconnected.
        self._scheduled = True
        self._loop.call_soon(self._loop.call_soon, self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        batch: list[_Asked] = []
        for _ in range(min(len(self._waiting), BATCH)):
            asked, _ = self._waiting.popleft()
            if not asked[1].done():  # a client that has disconnected meanwhile gets no decision
                batch.append(asked)
        if not batch:
            self._go_on()
            return
        requests = [request for request, _ in batch]
        tried: tuple[Sequence[Answer], int] | None = None
        if self._prompt is not None:
            try:
                tried = self._prompt.attempt(requests)
            except Exception as error:  # noqa: BLE001 - it is passed to the callers
                tried = [error] * len(batch), 0
        if tried is None:
            self._under_way += 1
            work = self._loop.run_in_executor(self._threads, self._store.transact, requests)
            work.add_done_callback(lambda done: self._came_back(batch, done))
            if self._waiting and self._under_way < self._lanes:
                self._schedule()
            return
        self._settle(batch, *tried)
        self._go_on()

    def _came_back(self, batch: list[_Asked], done: asyncio.Future[list[Answer]]) -> None:
        self._under_way -= 1
        error = done.exception()
        if isinstance(error, Unconfirmed):
            answers: Sequence[Answer] = [
                error.of(answer) if scope.durable or not error.reachable else answer
                for ((scope, _), _), answer in zip(batch, error.answers, strict=True)
            ]
        else:
            answers = [error] * len(batch) if isinstance(error, Exception) else done.result()
        self._settle(batch, answers, 0)
        if isinstance(error, StoreUnavailable):  # what waited meanwhile would wait for a whole deadline of its own
            while self._waiting and self._loop.time() - self._waiting[0][1] > PATIENT:
                (_, future), _ = self._waiting.popleft()
                _give(future, error)
        self._go_on()

    def _go_on(self) -> None:
        if self._waiting and not self._scheduled:  # a request that was answered just now may have scheduled it
            self._schedule()
        else:
            self._rest()

    def _settle(self, batch: list[_Asked], answers: Sequence[Answer], seq: int) -> None:
        self.committed += 1
        self.requests += len(batch)
        self._tail(answers)
        if not self._tending and self._prompt is not None:
            self._tending = True
            self._loop.call_later(TEND_EVERY, self._tend, self._prompt)
        pairs = [*zip(batch, answers, strict=True)]
        if seq:
            self._held += [(future, answer) for ((scope, _), future), answer in pairs if scope.durable]
            self._upto = max(self._upto, seq)
            if not self._syncing:
                self._sync()  # begun before the others go on, so that the disk works beside them
        for ((scope, _), future), answer in pairs:
            if not (seq and scope.durable):
                _give(future, answer)

    def _sync(self) -> None:
        held, self._held = self._held, []
        upto, self._upto = self._upto, 0
        prompt = self._prompt
        if prompt is None:
            raise AssertionError("only what was tried needs a sync of its own")
        try:
            sync = prompt.to_sync(upto)
            alone = len(held) == 1 and not self._waiting
            if self._quick_syncs >= (1 if alone else STEADY):
                self._timed(sync, QUICK)
                for future, answer in held:
                    _give(future, answer)
                return
        except Exception as error:  # noqa: BLE001 - it is passed to the callers
            for future, answer in held:
                _give(future, _unconfirmed(error, answer))
            return
        self._syncing = True
        work = self._loop.run_in_executor(self._threads, self._timed, sync, QUICK_BESIDE)
        work.add_done_callback(lambda done: self._synced(held, done))

    def _timed(self, sync: Callable[[], None], quick: float) -> None:
        """Run a sync, and count it if it took less than ``quick`` seconds."""
        count, self._quick_syncs = self._quick_syncs, 0
        began = time.perf_counter()
        sync()
        if time.perf_counter() - began < quick:
            self._quick_syncs = count + 1

    def _synced(self, held: list[tuple[Result, Answer]], done: asyncio.Future[None]) -> None:
        self._syncing = False
        error = done.exception()
        for future, answer in held:
            _give(future, _unconfirmed(error, answer) if isinstance(error, Exception) else answer)
        if self._held:
            self._sync()
        self._rest()

    def _tend(self, prompt: NonBlocking) -> None:
        work = self._loop.run_in_executor(self._threads, prompt.tend)
        work.add_done_callback(self._tended)

    def _tended(self, done: asyncio.Future[None]) -> None:
        self._tending = False
        error = done.exception()
        if error is not None:
            logger.warning("the store could not be tended: %s", error)
        self._rest()

    def _rest(self) -> None:
        if not (self._waiting or self._under_way or self._syncing or self._tending):
            self._idle.set()


def _started(count: int) -> ThreadPoolExecutor:
    """Return a pool whose threads all run. Raises ``RuntimeError`` if the system has none left.

    A pool that starts threads on demand may fail then, and a batch already taken out of the queue would get no answer.
    """
    threads = ThreadPoolExecutor(count, "callosum-writer")
    barrier = threading.Barrier(count)
    try:
        for _ in range(count):
            threads.submit(barrier.wait)
    except BaseException:
        barrier.abort()
        threads.shutdown(wait=False)
        raise
    return threads


def _unconfirmed(error: Exception, answer: Answer) -> Exception:
    """Return the result for a request that was committed, but whose sync failed."""
    if isinstance(answer, Exception):
        return answer
    told = Unconfirmed(str(error), (answer,))
    told.__cause__ = error
    return told


def _give(future: Result, answer: Answer) -> None:
    if future.done():
        return
    if type(answer) is Applied:
        future.set_result(answer)
    else:
        future.set_exception(answer)  # type: ignore[arg-type]  # what is no result is an exception
    if future.resume is not None:
        future.resume()
