"""Keep open pages current: each changed part is rendered once and sent to all viewers of the page."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, field

from callosum.errors import StoreError

logger = logging.getLogger("callosum")

T = TypeVar("T")
Read = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function in a thread beside the loop."""

EVERY: Final = 0.25
"""Minimum number of seconds between two renderings of a page."""
_LOOK: Final = 0.05
"""Seconds between two checks for something new."""
_ANYWAY: Final = 5.0
"""Seconds after which a page is rendered although nothing was journalled, because leases expire by time alone."""
_BEAT: Final = 15.0
_SHARE: Final = 30.0
"""A page rests for this multiple of the time that its rendering took, because decisions come first."""
_WAITING: Final = 8
"""Maximum number of pending changes of a viewer that does not read; beyond it the whole page is sent."""


class Watched(Struct):
    """A page with viewers: how it is rendered, its parts as last sent, and its viewers.

    ``fresh``: there is something new since it was rendered; ``due`` is when it may be rendered again.
    """

    show: Callable[[], Mapping[str, str]]
    parts: Mapping[str, str] = field(default_factory=dict)
    viewers: set[asyncio.Queue[bytes]] = field(default_factory=set)
    fresh: bool = False
    due: float = 0.0


def tag_of(parts: Mapping[str, str]) -> str:
    """Return a tag that differs between two states of a page."""
    return hashlib.sha256("\0".join(f"{name}\0{parts[name]}" for name in sorted(parts)).encode()).hexdigest()[:16]


class Live:
    """The pages that have viewers. Use it from one event loop.

    ``read`` runs a function in a thread; ``update`` reads new journal entries and returns True if there were any.
    """

    def __init__(self, read: Read, update: Callable[[], bool]) -> None:
        self._read = read
        self._update = update
        self._watched: dict[str, Watched] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def viewers(self) -> int:
        """Return the number of open pages."""
        return sum(len(one.viewers) for one in self._watched.values())

    async def follow(self, name: str, show: Callable[[], Mapping[str, str]], tag: str) -> AsyncGenerator[bytes]:
        """Yield the changes of a page as server-sent events; ``tag`` is the state that the viewer has."""
        lines: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        watched = self._watched.setdefault(name, Watched(show))
        watched.viewers.add(lines)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._work())
        try:
            yield b"retry: 1000\n\n"
            parts = await self._read(show)
            if tag_of(parts) != tag:
                yield _event(parts)
            while True:
                try:
                    async with asyncio.timeout(_BEAT):
                        yield await lines.get()
                except TimeoutError:
                    yield b":\n\n"
        finally:
            watched.viewers.discard(lines)
            if not watched.viewers and self._watched.get(name) is watched:
                del self._watched[name]

    async def close(self) -> None:
        """End the tasks that keep pages current."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while self._watched:
            try:
                changed = await self._read(self._update)
                for watched in list(self._watched.values()):
                    watched.fresh |= changed
                    began = time.monotonic()
                    if (watched.fresh and began >= watched.due) or began >= watched.due + _ANYWAY:
                        watched.fresh = False
                        await self._refresh(watched)
                        watched.due = began + max(EVERY, _SHARE * (time.monotonic() - began))
            except StoreError as error:
                logger.warning("the console cannot read the journal: %s", error)
            except Exception:
                logger.exception("the console could not be brought up to date")
            await asyncio.sleep(_LOOK)

    async def _refresh(self, watched: Watched) -> None:
        parts: Mapping[str, str] = await self._read(watched.show)
        changed = {name: html for name, html in parts.items() if watched.parts.get(name) != html}
        first, watched.parts = not watched.parts, parts
        if not changed:
            return
        event = _event(parts if first else changed)
        for lines in watched.viewers:
            if lines.full():
                while not lines.empty():
                    lines.get_nowait()
                lines.put_nowait(_event(parts))
            else:
                lines.put_nowait(event)


def _event(parts: Mapping[str, str]) -> bytes:
    return b"event: parts\ndata: %b\n\n" % msgspec.json.encode(parts)
