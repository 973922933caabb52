"""Answers that did not reach their client, and the request that comes again for them.

From 2026 on an MCP client sends a request again, under a new id, if the connection broke before the answer came. Only a
server that saw the connection break can tell such a request from a second, equal call::

    call ── tool runs ── connection cut                       the tool goes on, for a minute
    the same again ── waits for that tool, or gets its result
    the same once more ── a new call
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

R = TypeVar("R")

KEPT_SECONDS: Final = 60.0
"""How long a call whose client is gone goes on, and its result is kept."""
KEPT_BYTES: Final = 1_000_000
"""Longest result that is kept."""
MOST: Final = 64
"""Most calls that wait for their clients; of more the oldest is given up."""


class _Going(Generic[R]):
    """A call under way, in a task of its own. ``began``: the tool itself was started."""

    __slots__ = ("began", "expires", "task")

    def __init__(self) -> None:
        self.began = False
        self.task: asyncio.Task[R] | None = None
        self.expires: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self.began = True


class Lost(Generic[R]):
    """The calls of one event loop whose clients may come again. ``size`` says how many bytes a result has."""

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
        """Return what ``call`` returns, or what an equal one returned that broke off.

        ``same`` is client, tool and arguments. ``call`` is handed what it calls when the tool starts: what was only
        being decided ends with its connection. ``cut`` says whether the connection is broken.
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
        """Take the oldest kept call that equals this one: equal calls may be cut together."""
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
        """Keep no result that is too long; and hear what the tool raised, which nobody may come for."""
        task = going.task
        if task is None or task.cancelled():
            return
        if task.exception() is None and self._size(task.result()) > KEPT_BYTES:
            self._expire(going)

    def _expire(self, going: _Going[R]) -> None:
        """End a call that nobody came for: a cut connection cancels it, which was only put off."""
        if going not in self._lost:
            return
        self._drop(going)
        if going.task is not None and not going.task.done():
            going.task.cancel()


async def _awaited(call: Awaitable[R]) -> R:
    return await call
