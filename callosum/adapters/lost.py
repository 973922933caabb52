"""Answers that did not reach their client, and the request that comes again for them.

From 2026 on a client of MCP sends a request again under a new id when the connection broke before the answer came. Only
who saw the connection break can tell that from a second, equal wish::

    call ── tool runs ── connection cut                       the tool goes on, for a minute
    the same again ── waits for that tool, or gets its result
    the same once more ── a new call
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
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
        self._lost: OrderedDict[Hashable, _Going[R]] = OrderedDict()

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
        going = self._lost.pop(same, None)
        if going is not None and going.expires is not None:
            going.expires.cancel()
        return going

    def _keep(self, same: Hashable, going: _Going[R]) -> None:
        task = going.task
        if task is None:
            return
        self._give_up(self._taken(same))
        self._lost[same] = going
        going.expires = task.get_loop().call_later(self._seconds, self._expire, same, going)
        task.add_done_callback(lambda _: self._weigh(same, going))
        while len(self._lost) > MOST:
            self._expire(*next(iter(self._lost.items())))

    def _weigh(self, same: Hashable, going: _Going[R]) -> None:
        """Keep no result that is too long; and hear what the tool raised, which nobody may come for."""
        task = going.task
        if task is None or task.cancelled():
            return
        if task.exception() is None and self._size(task.result()) > KEPT_BYTES:
            self._expire(same, going)

    def _expire(self, same: Hashable, going: _Going[R]) -> None:
        if self._lost.get(same) is going:
            self._give_up(self._taken(same))

    def _give_up(self, going: _Going[R] | None) -> None:
        """End a call that nobody came for: a cut connection cancels it, which was only put off."""
        if going is not None and going.task is not None and not going.task.done():
            going.task.cancel()


async def _awaited(call: Awaitable[R]) -> R:
    return await call
