"""Queues of waiting calls: which of them looks at the store, and when.

A waiting call is an action in state ``queued`` (``policy.admit``). The store alone says whose turn it is, over all
servers and in the order of arrival; what stands here only says who is to look. One server's calls that wait for the
same keys are a line::

    arrives: looks ── held ─> the first PLACES   each with its place in the store; the first of them looks, for all
                          └─> the rest           behind them, in memory; as those leave, the next take their places

    the first looks   when something on its keys ended, which this server's own changes tell and the store's word
                      (``Waking``), when what is in its way runs out of time, when it has become the first, and now
                      and then
    with each look    it keeps the places of those behind it alive, who need not look for themselves

So ten thousand who wait for one key cost the store little more than one does, and a release wakes one call on each
server. Without ``Waking`` the first looks as often as its operation says; only what others change is what it then
finds late.

Whoever stands beyond ``PLACES`` is unknown to the other servers: between servers the order of arrival holds for the
first of each (``PLACES``), and those behind them follow in shares.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

from callosum.errors import CallosumError
from callosum.model import Applied, Change, Decision, Key, Mode, Scope, State, overlap
from callosum.policy.waiting import PARKED, looking_step
from callosum.stores.base import Request, Store, Waking
from callosum.wire import MAX_WAIT

PLACES: Final = 8
"""So many of a line have places in the store: every look at a key shows all of them."""
_REFILL: Final = PLACES // 2
"""When so few are left, the next ones move up, all in one transaction."""
WATCHED: Final = 1.0
"""How often the first of a line looks where it is told of what ends, in seconds; well within ``WAITER_TTL``."""
SELDOM: Final = 5.0
"""How often another one with a place looks all the same: once in a while it is let in before the first."""
GRACE: Final = 0.3
"""So long a call whose client is gone keeps its place: the client may have lost its connection, and come again."""
_JUST: Final = 0.005
"""What ran out is looked at so many seconds later."""
_NO_PLACE: Final = 2**63
_Place = TypeVar("_Place", str, tuple[str, str])


class Stopping(CallosumError):
    """The server is stopping, and this request was not begun or cannot be waited for."""


class Overloaded(CallosumError):
    """The server has more to do than it can. Nothing was done; who asks again a moment later may be answered."""


class Gone(CallosumError):
    """Who asked has closed the connection; what waited for its turn gives it up."""


class Parked(Exception):
    """The call waits outside the store; ``Waiter.promoted`` says when it is to ask again."""


class Waiter:
    """One call that may wait. ``left`` is done once its client is gone; ``wait`` is in seconds."""

    def __init__(self, lines: WaitQueues, wait: float, left: asyncio.Future[Any]) -> None:
        self._lines = lines
        self._loop = asyncio.get_running_loop()
        self._wait = min(wait, MAX_WAIT)
        self._left = left
        self._bell = asyncio.Event()
        left.add_done_callback(lambda _: self._bell.set())
        self.line: WaitQueue | None = None
        self.scope: Scope | None = None
        self.place = 0
        """The id of its place in the store, 0 while it has none."""
        self.lasts = 0
        """Until when the place lasts, as this server has said."""
        self._rung = False
        self._ends = 0.0
        self._looked = 0.0
        self._soon: float | None = None
        """In how many seconds something in its way runs out of time, as of its last look."""

    # --- for who drives the call --------------------------------------------------------------------

    def asks(self, need: Request) -> Request:
        """Return the request to run: it joins the queue and, if it is the first, speaks for those behind it."""
        scope, step = need
        if self.line is None:
            self.scope, self._ends = scope, self._loop.time() + self._wait
            self._lines.join(self, scope)
        line = cast("WaitQueue", self.line)
        self._rung = False
        places = frozenset(line.places) if line.first_is(self) else frozenset()
        return scope, looking_step(step, behind=self in line.behind, places=places, due=self._due)

    def answered(self, applied: Applied) -> None:
        """Take note of an answer. Raises ``Parked``."""
        self._looked = self._loop.time()
        change = applied.change
        if change.answer is PARKED:
            raise Parked
        line = cast("WaitQueue", self.line)
        if change.answer.queued and change.open is not None:
            line.places.pop(self.place, None)  # it had lost one
            self.place, self.lasts = applied.ids[-1], change.open.expires
            line.places[self.place] = self
        for settle in change.settles:
            if settle.state is not State.QUEUED or settle.expires is None:
                continue
            if not self.place and settle.action.session == cast("Scope", self.scope).session:
                self.place = settle.action.id  # an earlier try of this call had left it, here or at another server
                line.places[self.place] = self
                line.put_in_order(self)
            waiter = line.places.get(settle.action.id)
            if waiter is not None:
                waiter.lasts = settle.expires

    async def turn(self, seconds: float) -> None:
        """Return when the call is to look again, by itself in ``seconds``. Raises ``Gone``, ``Stopping``."""
        line = cast("WaitQueue", self.line)
        while True:
            self._check()
            now = self._loop.time()
            if now >= self._ends:
                due = self._looked + seconds
            elif line.first_is(self):
                due = self._looked + (WATCHED if self._lines.hears() else seconds)
                if self._soon is not None:
                    due = min(due, self._looked + self._soon + _JUST)
            else:
                due = self._looked + SELDOM
            if self._rung or due <= now:
                return
            await self._until(due if now >= self._ends else min(due, self._ends))

    async def promoted(self) -> float:
        """Return when it has moved up or its time is over: how many seconds it may wait then. Raises as ``turn``."""
        line = cast("WaitQueue", self.line)
        while True:
            self._check()
            left = self._ends - self._loop.time()
            if left <= 0 or self not in line.behind:
                return max(0.0, left)
            await self._until(self._ends)

    def leave(self, decision: Decision | None) -> None:
        """Give up waiting; ``decision`` is what it was told, None if nobody waits for that any more."""
        if self.line is not None:
            excludes = decision is not None and decision.lease is not None and self.line.excludes
            self._lines.leave(self, pass_on=not excludes)
            self.line = None

    def ring(self) -> None:
        """Something ended: it is to look."""
        self._rung = True
        self._bell.set()

    def follow(self) -> None:
        """Look as the first waiter does from now on: the call before it was let in."""
        self._looked = self._loop.time()
        self._bell.set()

    def wake(self) -> None:
        """Something about it has changed; it sees for itself."""
        self._bell.set()

    # --- inside ---------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._left.done():
            raise Gone("nobody waits any more")
        if self._lines.stopping:
            raise Stopping("the server is stopping")

    def _due(self, seconds: float | None) -> None:
        self._soon = seconds

    async def _until(self, moment: float) -> None:
        self._bell.clear()
        try:
            async with asyncio.timeout_at(moment):
                await self._bell.wait()
        except TimeoutError:
            return


class WaitQueue:
    """One server's calls that wait for the same keys: ``first`` those with places, ``behind`` the rest, in order."""

    def __init__(self, namespace: str, keys: tuple[Key, ...]) -> None:
        self.namespace = namespace
        self.keys = keys
        self.first: OrderedDict[Waiter, None] = OrderedDict()
        self.behind: OrderedDict[Waiter, None] = OrderedDict()
        self.places: dict[int, Waiter] = {}
        """Who has which place in the store."""
        self.excludes = all(key.mode is Mode.WRITE for key in keys)
        """Whether one that is let in is in the way of the next."""

    def first_is(self, waiter: Waiter) -> bool:
        """Whether it is the one to look."""
        return next(iter(self.first), None) is waiter

    def put_in_order(self, waiter: Waiter) -> None:
        """Put a call where its place is, which is older than when it came."""
        self.behind.pop(waiter, None)
        self.first[waiter] = None
        self.first = OrderedDict((one, None) for one in sorted(self.first, key=lambda one: one.place or _NO_PLACE))

    def ring(self) -> None:
        """Has the first one look."""
        waiter = next(iter(self.first), None)
        if waiter is not None:
            waiter.ring()


class WaitQueues:
    """All lines of one server, on one event loop. ``told`` is called too whenever the store sends word."""

    def __init__(self, store: Store, told: Callable[[], object] = lambda: None) -> None:
        self._loop = asyncio.get_running_loop()
        self._waking = store if isinstance(store, Waking) else None
        self._told = told
        self._unlisten: Callable[[], None] | None = None
        self._lines: dict[tuple[str, tuple[Key, ...]], WaitQueue] = {}
        self._named: dict[tuple[str, str], dict[WaitQueue, None]] = defaultdict(dict)
        self._wide: dict[str, dict[WaitQueue, None]] = defaultdict(dict)
        """By namespace: the lines with a tree or a facet, which meet keys of other names."""
        self.stopping = False

    def __len__(self) -> int:
        """How many calls wait."""
        return sum(len(line.first) + len(line.behind) for line in self._lines.values())

    def stop(self) -> None:
        """End all waiting. The places stay: whoever goes on waiting at another server may take them up."""
        self.stopping = True
        for line in self._lines.values():
            for waiter in (*line.first, *line.behind):
                waiter.wake()

    def close(self) -> None:
        """Listen to the store no more."""
        if self._unlisten is not None:
            self._unlisten()

    def hears(self) -> bool:
        """Whether the store tells what ends."""
        return self._waking is not None and self._waking.hears()

    # --- what ended -----------------------------------------------------------------------------------

    def note(self, change: Change) -> None:
        """Look at a change of this server's for what others may wait for."""
        if not self._lines:
            return
        for settle in change.settles:
            action = settle.action
            let_in = action.state is State.QUEUED and change.open is not None
            if (settle.state is not action.state and not let_in) or settle.approved is not None:
                self.heard(action.namespace, tuple(key.name for key in action.keys))

    def heard(self, namespace: str | None, names: tuple[str, ...]) -> None:
        """Has those look who may wait for what ended, as ``Heard`` is told of it."""
        if namespace is None or not names:
            for line in self._lines.values():
                if namespace in (None, line.namespace):
                    line.ring()
            return
        for name in names:
            met = dict(self._named.get((namespace, name), {}))
            if _is_wide(name):
                others = [line for line in self._lines.values() if line.namespace == namespace]
            else:
                others = list(self._wide.get(namespace, ()))
            met.update((line, None) for line in others if any(overlap(name, key.name) for key in line.keys))
            for line in met:
                line.ring()

    def _from_afar(self, namespace: str | None, names: tuple[str, ...]) -> None:
        """As ``heard``, from any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._take, namespace, names)

    def _take(self, namespace: str | None, names: tuple[str, ...]) -> None:
        self.heard(namespace, names)
        self._told()

    # --- who waits ------------------------------------------------------------------------------------

    def join(self, waiter: Waiter, scope: Scope) -> None:
        """Put a call at the end of its line."""
        if self._waking is not None and self._unlisten is None:
            self._unlisten = self._waking.listen(self._from_afar)
        place = scope.namespace, scope.keys
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = WaitQueue(*place)
            for key in scope.keys:
                self._named[scope.namespace, key.name][line] = None
                if _is_wide(key.name):
                    self._wide[scope.namespace][line] = None
        waiter.line = line
        full = line.behind or len(line.first) >= PLACES
        (line.behind if full else line.first)[waiter] = None

    def leave(self, waiter: Waiter, *, pass_on: bool) -> None:
        """Take a call out of its line; the next one moves up, and with ``pass_on`` the new first one looks."""
        line = cast("WaitQueue", waiter.line)
        was_first = line.first_is(waiter)
        line.first.pop(waiter, None)
        line.behind.pop(waiter, None)
        line.places.pop(waiter.place, None)
        if len(line.first) <= _REFILL:
            while line.behind and len(line.first) < PLACES:
                up, _ = line.behind.popitem(last=False)
                line.first[up] = None
                up.wake()
        if was_first and pass_on:
            line.ring()
        elif was_first and line.first:
            next(iter(line.first)).follow()
        if not line.first:
            self._drop(line)

    def _drop(self, line: WaitQueue) -> None:
        del self._lines[line.namespace, line.keys]
        _take_out(self._wide, line.namespace, line)
        for key in line.keys:
            _take_out(self._named, (line.namespace, key.name), line)


def _take_out(lines: dict[_Place, dict[WaitQueue, None]], place: _Place, line: WaitQueue) -> None:
    """Take a line out of those at a place, and the place with the last of them."""
    found = lines.get(place, {})
    found.pop(line, None)
    if not found:
        lines.pop(place, None)


def _is_wide(name: str) -> bool:
    """Whether a key may meet others of another name that are no trees and facets themselves."""
    return name[-1:] == "/" or "|" in name
