"""The gate on an event loop: its courses, driven with awaits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from callosum.errors import CallosumError
from callosum.gate import UPKEEP_EVERY, Course, LocalGate, Look, Pause
from callosum.model import Call, Decision
from callosum.server.writer import Writer

logger = logging.getLogger("callosum")

LARGE: Final = 32_768
"""From this size in bytes on, a call is judged in a thread, so that the others need not wait for it."""

T = TypeVar("T")


class Stopping(CallosumError):
    """The server is stopping, and this request was not begun or cannot be waited for."""


class Gone(CallosumError):
    """Who asked has closed the connection; what waited for its turn gives it up."""


class ServedGate:
    """A ``LocalGate``'s courses on the running event loop, its transactions in groups."""

    def __init__(self, gate: LocalGate) -> None:
        self.gate = gate
        self.courses = gate.courses
        self.writer = Writer(gate.store)
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(4, "callosum-reader")
        self._upkeep: asyncio.Future[None] | None = None
        self._stopping = asyncio.Event()
        self.decisions = 0

    @property
    def stopping(self) -> bool:
        """Whether nothing new is taken any more."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Takes nothing new and ends the waiting of who waits."""
        self._stopping.set()

    async def close(self) -> None:
        """Returns once everything that was taken is answered."""
        self.stop()
        await self.writer.close()
        if self._upkeep is not None:
            await self._upkeep
        self._threads.shutdown()

    async def intercept(self, call: Call, size: int, gone: Callable[[], Awaitable[bool]]) -> Decision:
        """Decides a call whose request took ``size`` bytes; ``gone`` tells whether nobody waits for it any more."""
        decision = await self.drive(self.courses.intercept(call), size=size, gone=gone)
        self.decided(decision)
        return decision

    def decided(self, decision: Decision) -> None:
        """Counts a decision, and has the store tended now and then."""
        self.decisions += 1
        if decision.id % UPKEEP_EVERY == 0 and (self._upkeep is None or self._upkeep.done()):
            self._upkeep = self._loop.run_in_executor(self._threads, self.gate.upkeep)

    async def drive(self, course: Course[T], *, size: int = 0, gone: Callable[[], Awaitable[bool]] | None = None) -> T:
        """Runs a course to its end. Raises ``Stopping``, ``Gone`` and what the course raises."""
        if self._stopping.is_set():
            raise Stopping("the server is stopping")
        answer: Any = None
        try:
            need = await self._read(lambda: _first(course)) if size >= LARGE else course.send(None)
            while True:
                if type(need) is Pause:
                    await self._pause(need.seconds)
                    if gone is not None and await gone():
                        raise Gone("nobody waits any more")
                elif type(need) is Look:
                    answer = await self._read(need.read)
                else:
                    answer = await self.writer.submit(need)  # type: ignore[arg-type]  # what is left is a Request
                need = course.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value
        except _Ended as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            course.close()

    async def read(self, look: Callable[[], T]) -> T:
        """Runs something that reads from the store, beside the loop."""
        return await self._read(look)

    async def _read(self, look: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._threads, look)

    async def pause(self, seconds: float) -> None:
        """Lets time pass. Raises ``Stopping`` when the server stops meanwhile."""
        await self._pause(seconds)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
        raise Stopping("the server is stopping")


class _Ended(Exception):
    """A course that ended before it needed anything; ``StopIteration`` cannot leave a thread's future."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def _first(course: Course[Any]) -> Any:
    try:
        return course.send(None)
    except StopIteration as end:
        raise _Ended(end.value) from None
