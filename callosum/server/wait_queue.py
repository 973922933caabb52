"""Queues of waiting calls: which of them reads the store, and when.

A waiting call is an action in state ``queued`` (``policy.admit``). Only the store decides whose turn it is, over all
servers and in the order of arrival; this module only decides which waiter reads the store. One server's calls that
wait for the same keys are a queue::

    arrives: reads ── held ─> the first PLACES   each has a queued action; the first of them reads, for all
                          └─> the rest           behind them, in memory; as those leave, the next ones move up

    the first reads   when an action on its keys ended, reported by this server's own changes or by the store's
                      notifications (``Waking``), when a conflicting action expires, when it has become the first,
                      and from time to time
    with each read    it renews the queued actions of those behind it, which need not read for themselves

So ten thousand calls that wait for one key cost the store little more than one does, and a release wakes one call on
each server. Without ``Waking`` the first waiter reads as often as its operation says, and only changes by other
servers are noticed late.

Calls beyond ``PLACES`` are unknown to the other servers: between servers the order of arrival holds for the first
``PLACES`` of each, and the calls behind them follow in shares.
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
from callosum.stores.base import Notifying, Request, Store
from callosum.wire import MAX_WAIT

PLACES: Final = 8
"""Number of calls of a queue that have a queued action in the store; every view of a key contains all of them."""
_REFILL: Final = PLACES // 2
"""Number of remaining queued actions at which the next calls move up, all in one transaction."""
WATCHED: Final = 1.0
"""Seconds between reads of the first waiter if the store notifies it of ended actions; well within ``WAITER_TTL``."""
SELDOM: Final = 5.0
"""Seconds between reads of the other promoted waiters: once in a while one is let in before the first."""
GRACE: Final = 0.3
"""Seconds for which a call keeps its turn after its client disconnected: the client may reconnect."""
_JUST: Final = 0.005
"""Seconds after an expiry at which a waiter reads the store."""
_NO_PLACE: Final = 2**63
_Place = TypeVar("_Place", str, tuple[str, str])


class Stopping(CallosumError):
    """The server is stopping: this request was not started, or cannot be waited for."""


class Overloaded(CallosumError):
    """The server has more requests than it can answer. Nothing was done; a later retry may succeed."""


class Gone(CallosumError):
    """The client has closed the connection, so its call gives up its turn."""


class Parked(Exception):
    """The call waits outside the store; ``Waiter.promoted`` returns when it must ask again."""


class Waiter:
    """One call that may wait. ``left`` is done once its client has disconnected; ``wait`` is in seconds."""

    def __init__(self, queues: WaitQueues, wait: float, left: asyncio.Future[Any]) -> None:
        self._queues = queues
        self._loop = asyncio.get_running_loop()
        self._wait = min(wait, MAX_WAIT)
        self._left = left
        self._bell = asyncio.Event()
        left.add_done_callback(lambda _: self._bell.set())
        self.queue: WaitQueue | None = None
        self.scope: Scope | None = None
        self.queued_id = 0
        """The id of its queued action in the store, 0 while it has none."""
        self.lasts = 0
        """When the queued action expires, as this server last wrote it."""
        self._rung = False
        self._ends = 0.0
        self._looked = 0.0
        self._soon: float | None = None
        """Seconds until the next conflicting action expires, as of the last read."""

    # --- Used by the task that drives the call ------------------------------------------------------

    def asks(self, need: Request) -> Request:
        """Return the request to run: it joins the queue and, if it is the first, renews those behind it."""
        scope, step = need
        if self.queue is None:
            self.scope, self._ends = scope, self._loop.time() + self._wait
            self._queues.join(self, scope)
        queue = cast("WaitQueue", self.queue)
        self._rung = False
        queued_ids = frozenset(queue.by_queued_id) if queue.first_is(self) else frozenset()
        return scope, looking_step(step, behind=self in queue.behind, places=queued_ids, due=self._due)

    def answered(self, applied: Applied) -> None:
        """Record a decision. Raises ``Parked``."""
        self._looked = self._loop.time()
        change = applied.change
        if change.answer is PARKED:
            raise Parked
        queue = cast("WaitQueue", self.queue)
        if change.answer.queued and change.open is not None:
            queue.by_queued_id.pop(self.queued_id, None)  # its queued action was lost
            self.queued_id, self.lasts = applied.ids[-1], change.open.expires
            queue.by_queued_id[self.queued_id] = self
        for settle in change.settles:
            if settle.state is not State.QUEUED or settle.expires is None:
                continue
            if not self.queued_id and settle.action.session == cast("Scope", self.scope).session:
                self.queued_id = settle.action.id  # an earlier attempt of this call left it, at this server or another
                queue.by_queued_id[self.queued_id] = self
                queue.put_in_order(self)
            waiter = queue.by_queued_id.get(settle.action.id)
            if waiter is not None:
                waiter.lasts = settle.expires

    async def turn(self, seconds: float) -> None:
        """Return when the call must read again, at the latest after ``seconds``. Raises ``Gone``, ``Stopping``."""
        queue = cast("WaitQueue", self.queue)
        while True:
            self._check()
            now = self._loop.time()
            if now >= self._ends:
                due = self._looked + seconds
            elif queue.first_is(self):
                due = self._looked + (WATCHED if self._queues.is_connected() else seconds)
                if self._soon is not None:
                    due = min(due, self._looked + self._soon + _JUST)
            else:
                due = self._looked + SELDOM
            if self._rung or due <= now:
                return
            await self._until(due if now >= self._ends else min(due, self._ends))

    async def promoted(self) -> float:
        """Return the seconds it may still wait, once it moves up or its time is over. Raises as ``turn``."""
        queue = cast("WaitQueue", self.queue)
        while True:
            self._check()
            left = self._ends - self._loop.time()
            if left <= 0 or self not in queue.behind:
                return max(0.0, left)
            await self._until(self._ends)

    def leave(self, decision: Decision | None) -> None:
        """Give up waiting. ``decision`` is the call's decision, None if no client waits for it any more."""
        if self.queue is not None:
            excludes = decision is not None and decision.lease is not None and self.queue.excludes
            self._queues.leave(self, pass_on=not excludes)
            self.queue = None

    def ring(self) -> None:
        """Make the waiter read the store because an action ended."""
        self._rung = True
        self._bell.set()

    def follow(self) -> None:
        """Read as the first waiter from now on, because the call before it was let in."""
        self._looked = self._loop.time()
        self._bell.set()

    def wake(self) -> None:
        """Wake the waiter because its state has changed; it checks the state itself."""
        self._bell.set()

    # --- Internal -------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._left.done():
            raise Gone("the client has disconnected")
        if self._queues.stopping:
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
    """One server's calls that wait for the same keys, in order: ``first`` with queued actions, ``behind`` without."""

    def __init__(self, namespace: str, keys: tuple[Key, ...]) -> None:
        self.namespace = namespace
        self.keys = keys
        self.first: OrderedDict[Waiter, None] = OrderedDict()
        self.behind: OrderedDict[Waiter, None] = OrderedDict()
        self.by_queued_id: dict[int, Waiter] = {}
        """Waiters by the id of their queued action in the store."""
        self.excludes = all(key.mode is Mode.WRITE for key in keys)
        """True if a call that is let in conflicts with the next one."""

    def first_is(self, waiter: Waiter) -> bool:
        """Return True if this waiter is the one that reads the store."""
        return next(iter(self.first), None) is waiter

    def put_in_order(self, waiter: Waiter) -> None:
        """Move a call to the position of its queued action, which is older than its arrival here."""
        self.behind.pop(waiter, None)
        self.first[waiter] = None
        self.first = OrderedDict(
            (other, None) for other in sorted(self.first, key=lambda other: other.queued_id or _NO_PLACE)
        )

    def ring(self) -> None:
        """Make the first waiter read the store."""
        waiter = next(iter(self.first), None)
        if waiter is not None:
            waiter.ring()


class WaitQueues:
    """All queues of one server, on one event loop. ``told`` is also called whenever the store sends a notification."""

    def __init__(self, store: Store, told: Callable[[], object] = lambda: None) -> None:
        self._loop = asyncio.get_running_loop()
        self._waking = store if isinstance(store, Notifying) else None
        self._told = told
        self._unlisten: Callable[[], None] | None = None
        self._queues: dict[tuple[str, tuple[Key, ...]], WaitQueue] = {}
        self._named: dict[tuple[str, str], dict[WaitQueue, None]] = defaultdict(dict)
        self._wide: dict[str, dict[WaitQueue, None]] = defaultdict(dict)
        """By namespace: the queues with a tree or a facet, which overlap keys of other names."""
        self.stopping = False

    def __len__(self) -> int:
        """Return the number of waiting calls."""
        return sum(len(queue.first) + len(queue.behind) for queue in self._queues.values())

    def stop(self) -> None:
        """End all waits. The queued actions stay: a client that waits at another server may take them up."""
        self.stopping = True
        for queue in self._queues.values():
            for waiter in (*queue.first, *queue.behind):
                waiter.wake()

    def close(self) -> None:
        """Stop listening to the store."""
        if self._unlisten is not None:
            self._unlisten()

    def is_connected(self) -> bool:
        """Return True if the store sends notifications of ended actions."""
        return self._waking is not None and self._waking.is_connected()

    # --- Ended actions --------------------------------------------------------------------------------

    def note(self, change: Change) -> None:
        """Check a change of this server's for actions that waiters may wait for."""
        if not self._queues:
            return
        for settle in change.settles:
            action = settle.action
            let_in = action.state is State.QUEUED and change.open is not None
            if (settle.state is not action.state and not let_in) or settle.approved is not None:
                self.heard(action.namespace, tuple(key.name for key in action.keys))

    def heard(self, namespace: str | None, names: tuple[str, ...]) -> None:
        """Wake the waiters that may wait for the ended action. ``Heard`` describes the arguments."""
        if namespace is None or not names:
            for queue in self._queues.values():
                if namespace in (None, queue.namespace):
                    queue.ring()
            return
        for name in names:
            met = dict(self._named.get((namespace, name), {}))
            if _is_wide(name):
                others = [queue for queue in self._queues.values() if queue.namespace == namespace]
            else:
                others = list(self._wide.get(namespace, ()))
            met.update((queue, None) for queue in others if any(overlap(name, key.name) for key in queue.keys))
            for queue in met:
                queue.ring()

    def _from_afar(self, namespace: str | None, names: tuple[str, ...]) -> None:
        """Do the same as ``heard``, from any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._take, namespace, names)

    def _take(self, namespace: str | None, names: tuple[str, ...]) -> None:
        self.heard(namespace, names)
        self._told()

    # --- Membership -----------------------------------------------------------------------------------

    def join(self, waiter: Waiter, scope: Scope) -> None:
        """Put a call at the end of its queue."""
        if self._waking is not None and self._unlisten is None:
            self._unlisten = self._waking.listen(self._from_afar)
        identity = scope.namespace, scope.keys
        queue = self._queues.get(identity)
        if queue is None:
            queue = self._queues[identity] = WaitQueue(*identity)
            for key in scope.keys:
                self._named[scope.namespace, key.name][queue] = None
                if _is_wide(key.name):
                    self._wide[scope.namespace][queue] = None
        waiter.queue = queue
        full = queue.behind or len(queue.first) >= PLACES
        (queue.behind if full else queue.first)[waiter] = None

    def leave(self, waiter: Waiter, *, pass_on: bool) -> None:
        """Take a call out of its queue. The next call moves up; with ``pass_on`` the new first one reads the store."""
        queue = cast("WaitQueue", waiter.queue)
        was_first = queue.first_is(waiter)
        queue.first.pop(waiter, None)
        queue.behind.pop(waiter, None)
        queue.by_queued_id.pop(waiter.queued_id, None)
        if len(queue.first) <= _REFILL:
            while queue.behind and len(queue.first) < PLACES:
                up, _ = queue.behind.popitem(last=False)
                queue.first[up] = None
                up.wake()
        if was_first and pass_on:
            queue.ring()
        elif was_first and queue.first:
            next(iter(queue.first)).follow()
        if not queue.first:
            self._drop(queue)

    def _drop(self, queue: WaitQueue) -> None:
        del self._queues[queue.namespace, queue.keys]
        _take_out(self._wide, queue.namespace, queue)
        for key in queue.keys:
            _take_out(self._named, (queue.namespace, key.name), queue)


def _take_out(index: dict[_Place, dict[WaitQueue, None]], entry: _Place, queue: WaitQueue) -> None:
    """Remove a queue from the index entry of a key, and the entry with its last queue."""
    indexed = index.get(entry, {})
    indexed.pop(queue, None)
    if not indexed:
        index.pop(entry, None)


def _is_wide(name: str) -> bool:
    """Return True if a key may overlap keys of other names that are not trees or facets themselves."""
    return name[-1:] == "/" or "|" in name
