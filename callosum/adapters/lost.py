"""Answers that did not reach their client, and the repeated request that collects them.

From 2026 on an MCP client repeats a request under a new id if the connection broke before the answer arrived. Only a
server that saw the connection break can tell such a request from a second, equal call::

    call ── tool runs ── connection breaks                    the tool keeps running, for a minute
    the same request ── waits for that tool, or gets its result
    the same request again ── a new call
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

R = TypeVar("R")

KEPT_SECONDS: Final = 60.0
"""Seconds for which a call without a client continues, and for which its result is kept."""
KEPT_BYTES: Final = 1_000_000
"""Maximum size of a result that is kept, in bytes."""
MOST: Final = 64
"""Maximum number of calls that wait for their clients. Beyond it the oldest is given up."""


class _Going(Generic[R]):
    """A running call, in its own task. ``began`` is True once the tool itself was started."""

    __slots__ = ("began", "expires", "task")

    def __init__(self) -> None:
        self.began = False
        self.task: asyncio.Task[R] | None = None
        self.expires: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self.began = True


class Lost(Generic[R]):
    """The calls of one event loop whose clients may repeat them. ``size`` returns the size of a result in bytes."""

    def __init__(self, size: Callable[[R], int], seconds: float = KEPT_SECONDS) -> None:
        self._size = size
        self._seconds = seconds
        self._lost: dict[_Going[R], Hashable] = {}

    async def run(
        self,
        same: Hashable,
        call: Callable[[Callable[[], None]], Awaitable[R]],
        cut: Callable[[], Awaitable[bool]],
    ) -> R:
        """Return what ``call`` returns, or the result of an equal call whose connection broke.

        ``same`` identifies client, tool and arguments. ``call`` receives a function to call when the tool starts; a
        call that was still being decided ends with its connection. ``cut`` returns True if the connection is broken.
        """
        going = self._taken(same)
        if going is None or going.task is None or going.task.get_loop() is not asyncio.get_running_loop():
            going = _Going()
            going.task = asyncio.ensure_future(_awaited(call(going.begin)))
        task = going.task
        try:
            result = await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                if going.began and await cut():
                    self._keep(same, going)
                else:
                    task.cancel()
            raise
        except Exception:
            if going.began and await cut():
                self._keep(same, going)
            raise
        if going.began and await cut():
            self._keep(same, going)
        return result

    def _taken(self, same: Hashable) -> _Going[R] | None:
        """Take the oldest kept call that equals this one. Several equal calls may have lost their connection."""
        going = next((one for one, kept in self._lost.items() if kept == same), None)
        if going is not None:
            self._drop(going)
        return going

    def _drop(self, going: _Going[R]) -> None:
        del self._lost[going]
        if going.expires is not None:
            going.expires.cancel()

    def _keep(self, same: Hashable, going: _Going[R]) -> None:
        task = going.task
        if task is None:
            return
        self._lost[going] = same
        going.expires = task.get_loop().call_later(self._seconds, self._expire, going)
        task.add_done_callback(lambda _: self._weigh(going))
        while len(self._lost) > MOST:
            self._expire(next(iter(self._lost)))

    def _weigh(self, going: _Going[R]) -> None:
        """Drop a result that is too long. Retrieve the tool's exception, which may never be collected."""
        task = going.task
        if task is None or task.cancelled():
            return
        if task.exception() is None and self._size(task.result()) > KEPT_BYTES:
            self._expire(going)

    def _expire(self, going: _Going[R]) -> None:
        """End a call that was not collected. Its broken connection cancels it only now."""
        if going not in self._lost:
            return
        self._drop(going)
        if going.task is not None and not going.task.done():
            going.task.cancel()


async def _awaited(call: Awaitable[R]) -> R:
    return await call
