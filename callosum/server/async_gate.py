"""The gate on an event loop: its operations, driven with awaits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from callosum.deadline import Expiry
from callosum.errors import CallosumError
from callosum.gate import UPKEEP_EVERY, Effects, LocalGate, Read, Sleep, TakenIn, spool_records
from callosum.model import Applied, Asks, Call, Decision, Scope
from callosum.policy.waiting import give_up_waiter
from callosum.server.arrivals import ArrivalClock
from callosum.server.wait_queue import GRACE, Gone, Overloaded, Parked, Stopping, Waiter, WaitQueues
from callosum.server.writer import BATCH, Writer
from callosum.wire import LateCall

logger = logging.getLogger("callosum")

LARGE: Final = 8_192
"""Size in bytes from which a request is read and classified in a thread, so that other calls need not wait for it.

A command line just below it can keep the loop for 12 ms, one of 32 KB for 20 ms; the thread costs a write of 16 KB
0.3 ms (2026-11-27).
"""

SOON: Final = 0.01
"""Seconds in which a short spool is entered. Every decision waits for that."""
TAKE_IN: Final = 20.0
"""Seconds that a decision waits for the spool's records about its keys."""
IN_TIME: Final = 0.2
"""Seconds before its deadline at which a decision no longer waits for them."""
PAGE: Final = BATCH // 2
"""Number of records that enter in one transaction; each may be two requests, the call and its outcome."""
PAGE_SECONDS: Final = 30.0
"""Seconds within which a page of the spool must be entered."""

T = TypeVar("T")


class ServedGate:
    """Run a ``LocalGate``'s operations on the running event loop, with their transactions in groups.

    ``told`` is called when the store notifies this server of another process's change, ``counted`` with each decision
    and the seconds that it took.
    """

    def __init__(
        self,
        gate: LocalGate,
        told: Callable[[], object] = lambda: None,
        counted: Callable[[Decision, float], object] = lambda *_: None,
    ) -> None:
        self.gate = gate
        self.operations = gate.operations
        self.writer = Writer(gate.store, gate.follower.take)
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(4, "callosum-reader")
        self._upkeep: asyncio.Future[None] | None = None
        self._stopping = asyncio.Event()
        self._leaving = asyncio.Event()
        self.arrivals = ArrivalClock(self._loop)
        self.queues = WaitQueues(gate.store, told)
        self._taking: asyncio.Future[int] | None = None
        self._counted = counted
        self.decisions = 0
        self.turned_away = 0

    @property
    def stopping(self) -> bool:
        """Return True if the gate takes no new requests any more."""
        return self._stopping.is_set()

    @property
    def leaving(self) -> bool:
        """Return True if no call may wait here any more because the server will stop."""
        return self._leaving.is_set()

    def leave(self) -> None:
        """End all waits and refuse new ones; clients continue on another server."""
        self._leaving.set()
        self.queues.stop()

    def stop(self) -> None:
        """Refuse new requests and end all waits."""
        self.leave()
        self._stopping.set()

    async def close(self) -> None:
        """Return once every request that was taken has its answer."""
        self.stop()
        self.arrivals.close()
        self.queues.close()
        await self.writer.close()
        if self._upkeep is not None:
            await self._upkeep
        self._threads.shutdown()

    def admit(self) -> None:
        """Check that a new request can be taken. Raises ``Overloaded`` if it would not be answered in time.

        Reports, releases and renewals are always taken, because they free other calls.
        """
        if self.writer.behind:
            self.turned_away += 1
            raise Overloaded("the server is overloaded; nothing was done: try again in a moment")

    async def take_in(self) -> None:
        """Begin to enter the state folder's spool, and return soon. Raises ``StoreError`` and ``Stopping``.

        A decision waits for the rest only if records may be about it (``TakenIn``).
        """
        self.operations.behind = self.gate.spool.waiting()
        if self.operations.behind:
            if self._taking is None or self._taking.done():
                taking = partial(self.gate.spool.take, partial(self._entered, {}))
                self._taking = asyncio.ensure_future(asyncio.to_thread(taking))
            await asyncio.wait((self._taking,), timeout=SOON)
            if self._taking.done():
                self._taking.result()
                self.operations.behind = self.gate.spool.waiting()

    async def _taken_in(self, need: TakenIn) -> bool:
        ends = self._loop.time() + TAKE_IN
        while await self.read(partial(self.gate.pending.hold, need.scope, need.tool)):
            if self._loop.time() > ends or (need.expiry is not None and need.expiry.within(IN_TIME)):
                return False
            await self.take_in()
            await self._pause(SOON)  # another process may be entering them
        return True

    def _entered(self, since: dict[tuple[str, str], int], lines: Sequence[bytes]) -> None:
        """Enter a page of the spool, from a thread beside the loop."""
        entering = self.enter(list(spool_records.records_of(lines)), since=since)
        asyncio.run_coroutine_threadsafe(entering, self._loop).result(PAGE_SECONDS)

    async def enter(
        self, records: Sequence[LateCall], now: float | None = None, since: dict[tuple[str, str], int] | None = None
    ) -> None:
        """Enter records in their order, judged in a thread a page. Raises ``StoreError`` and ``Stopping``."""
        since = {} if since is None else since
        for first in range(0, len(records), PAGE):
            await self.drive(self.operations.take_in(records[first : first + PAGE], now, since), size=LARGE)

    async def in_turn(
        self, call: Call, size: int, left: asyncio.Future[Any], expiry: Expiry | None, *, here: bool
    ) -> Decision:
        """Decide a call whose request took ``size`` bytes. It may wait its turn, in a task, until ``left`` is done.

        ``here`` says that its tool runs on this machine, so that its files may be inspected. Raises ``Gone``,
        ``Stopping``, and ``Expired`` if ``expiry`` says that no client waits for the decision any more.
        """
        if self.leaving:
            raise Stopping("the server is stopping")
        waiter = Waiter(self.queues, call.wait, left)
        decision = None
        try:
            while decision is None:
                try:
                    effects = self.operations.intercept(call, expiry, here=here)
                    decision = await self.drive(effects, size=size, waiter=waiter)
                except Parked:
                    call = replace(call, wait=await waiter.promoted())
        except Gone:
            if waiter.queued_id:
                self._loop.call_later(GRACE, self._give_up, waiter)
            else:
                with suppress(CallosumError):  # the call is over, even if it cannot be journalled
                    await self.drive(self.operations.abandon(call))
            raise
        finally:
            waiter.leave(decision)
        return decision

    def _give_up(self, waiter: Waiter) -> None:
        """End the queued action of a call without a client, so that the next call need not wait until it expires."""
        asked = waiter.scope
        if self.stopping or asked is None:
            return
        scope = Scope(asked.namespace, asked.session, asked.keys, live=True, asks=Asks())
        done = self.writer.submit((scope, partial(give_up_waiter, waiter.queued_id, waiter.lasts)))

        def tell(done: asyncio.Future[Any]) -> None:
            if not done.cancelled() and done.exception() is None:  # otherwise it expires
                self.queues.note(done.result().change)

        done.add_done_callback(tell)

    def decided(self, decision: Decision, took: float) -> None:
        """Count a decision that took so many seconds, and let the store be tended from time to time."""
        self.decisions += 1
        self._counted(decision, took)
        if decision.id % UPKEEP_EVERY == 0 and (self._upkeep is None or self._upkeep.done()):
            self._upkeep = self._loop.run_in_executor(self._threads, self.gate.upkeep)

    async def drive(self, effects: Effects[T], *, size: int = 0, waiter: Waiter | None = None) -> T:
        """Run an operation to its end; a ``waiter`` says when it continues after a pause.

        Raises ``Stopping``, what the waiter raises and what the operation raises.
        """
        if self._stopping.is_set():
            raise Stopping("the server is stopping")
        answer: Any = None
        try:
            need = await self.read(partial(_next, effects, None)) if size >= LARGE else effects.send(None)
            while True:
                if type(need) is Sleep:
                    await (self._pause(need.seconds) if waiter is None else waiter.turn(need.seconds))
                elif type(need) is Read:
                    answer = await self.read(need.read)
                elif type(need) is TakenIn:
                    answer = await self._taken_in(need)
                elif type(need) is _Ended:
                    return need.value  # type: ignore[no-any-return]
                elif type(need) is list:
                    answer = await asyncio.gather(*map(self.writer.submit, need), return_exceptions=True)
                    for applied in answer:
                        if type(applied) is Applied:
                            self.queues.note(applied.change)
                else:
                    # a request that searches for an action ends another call, not the wait
                    own = waiter if waiter is not None and need[0].find is None else None  # type: ignore[union-attr]
                    if own is not None:
                        need = own.asks(need)  # type: ignore[arg-type]  # what is left is a Request
                    try:
                        answer = await self.writer.submit(need)  # type: ignore[arg-type]
                    except CallosumError as error:
                        need = effects.throw(error)  # the operation may keep its report for later
                        continue
                    if own is not None:
                        own.answered(answer)
                    self.queues.note(answer.change)
                need = await self.read(partial(_next, effects, answer)) if size >= LARGE else effects.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value
        except BaseException:
            effects.close()
            raise

    def read(self, look: Callable[[], T]) -> asyncio.Future[T]:
        """Run a function that reads from the store, in a thread beside the loop."""
        return self._loop.run_in_executor(self._threads, look)

    async def _pause(self, seconds: float) -> None:
        """Let time pass. Raises ``Stopping`` if no call may wait any more."""
        leaving = asyncio.ensure_future(self._leaving.wait())  # ``asyncio.timeout`` would ask for a task
        try:
            await asyncio.wait((leaving,), timeout=seconds)
        finally:
            leaving.cancel()
        if self.leaving:
            raise Stopping("the server is stopping")


class _Ended(NamedTuple):
    """The result of an operation that ended in a thread, whose future cannot carry ``StopIteration``."""

    value: Any


def _next(effects: Effects[Any], answer: Any) -> Any:
    try:
        return effects.send(answer)
    except StopIteration as end:
        return _Ended(end.value)
