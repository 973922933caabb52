"""The flow of ``transact``: read a view, run the steps, apply their changes if nothing they read has changed.

    cached? ─── yes ────> draft ──> apply ── applied ──> answer
        │                  ▲         │
        no                 │         │ something changed: the same answer brings a new view
        ▼                  │         ▼
      read (a round trip) ─┘ <───────┘

A cached view (``cache``) saves the read. A transaction that is overtaken often takes a ticket: until the ticket ends,
no transaction that came later changes what it read.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace
from redis.exceptions import RedisError

from callosum.errors import StoreUnavailable, Unconfirmed
from callosum.model import SECOND, Action, Applied, Asks, Scope
from callosum.stores.base import Probe, Request
from callosum.stores.crowd import AskingCall, Crowds, stamps_of
from callosum.stores.records import Record, probed
from callosum.stores.redis.cache import (
    CachedAction,
    CachedView,
    KnowledgeByKey,
    RedisCache,
    ServerTime,
    cache_key_of,
    with_own_changes,
)
from callosum.stores.redis.change import ChangeWriter
from callosum.stores.redis.connection import InDoubt, NotDurable, Script
from callosum.stores.redis.draft import TOLERANCE, Basis, Draft, Drafter, Origin, origin_of
from callosum.stores.redis.names import NamespaceKeys, of_call
from callosum.stores.redis.records import OwnIds, encode, known_of, new_mark, record_of, text_of
from callosum.stores.redis.spaces import Namespaces
from callosum.stores.redis.view import RedisView, ViewData, parse_view_data, scope_fields

LATEST_SHOWN: Final = 12
LATE: Final = 100_000
"""Microseconds by which a new moment may be in the past in a Redis Cluster; readers of all namespaces wait as long."""
_PATIENCE: Final = 10.0
"""Seconds after which a transaction that is repeatedly overtaken gives up."""
_OVERTAKEN: Final = 3
"""Number of times that a transaction is overtaken before it takes a ticket."""
_TICKET_TIME: Final = 2 * SECOND
"""Microseconds that a ticket lasts if its holder dies."""
_TRUSTED: Final = 100_000
"""Microseconds by which this process's estimate of the server's time may be off."""
_RELIST: Final = 60.0
"""Seconds after which a namespace is listed again, in case a restarted server lost the list."""
_MAX_NOTED: Final = 10_000

READ_VIEW: Final = Script("view", "read_view")
APPLY: Final = Script("view", "apply")
TICKET: Final = Script("ticket")

_APPLIED, _CHANGED, _TAKEN, _NOT_YET = 1, 0, 2, 3  # answers of ``apply.lua``
_STILL_TRUE: Final = ord("1")


class _RoundData(Struct):
    """The data that the steps of a round run on. ``now``: the moment that they may use."""

    now: int
    bases: list[Basis]

    @property
    def cached(self) -> bool:
        return any(basis.cached for basis in self.bases)


class _Progress(Struct):
    """The progress of a transaction. Its name makes the server apply it once, however often it is sent.

    ``ticket``: its ticket, if any. ``failed``: how often it was overtaken. ``retry_lock``: the lock that lets one
    thread retry at a time. ``sent``: the draft that was sent and not yet answered.
    """

    name: str
    ticket: str = ""
    failed: int = 0
    retry_lock: threading.Lock | None = None
    sent: Draft | None = None
    began: float = field(default_factory=time.monotonic)


class _Result(Struct):
    """What the server did with a draft. ``still_true``: which of the watched views are still true.

    ``doubt``: why the applied change may not survive, empty if it does.
    """

    code: int
    moment: int = 0
    still_true: Sequence[bool] = ()
    data: _RoundData | None = None
    doubt: str = ""


class Transactions:
    """The transactions of one process. Safe for threads.

    ``observing`` returns the moment until which the whole gate only observes, ``observe`` sets it.
    """

    def __init__(
        self, spaces: Namespaces, probe: Probe, observing: Callable[[], int], observe: Callable[[int], None]
    ) -> None:
        self._spaces = spaces
        self._link = spaces.link
        self._observing = observing
        self._observe = observe
        self.overtaken = 0
        """Number of times that transactions of this process had to run again."""
        self._cache = RedisCache()
        self._lost = 0
        self._times: dict[str, ServerTime] = {}
        self._listed: dict[str, float] = {}
        self._noted: dict[Origin, int] = {}
        self._crowds = Crowds()
        self._drafter = Drafter(spaces, probe, self._noted, self._crowds)
        self._crowded = 0.0
        self._mark = new_mark()
        self._probe = probe
        self.forked()

    def forked(self) -> None:
        """Reset locks and names after a fork: other threads are gone, and names must be unique."""
        self._again: dict[str, threading.Lock] = {}
        self._own, self._count = secrets.token_hex(6), count()

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        """Run requests as ``Store.transact`` does. If the server fails midway, the unapplied rest gets the error."""
        groups: dict[str, list[int]] = {}
        for index, (scope, _) in enumerate(requests):
            groups.setdefault(scope.namespace, []).append(index)
        answers: list[Applied | Exception] = [StoreUnavailable("not run")] * len(requests)
        stored = False
        for namespace, indexes in groups.items():
            space = self._spaces.of(namespace)
            rest = indexes
            while rest:
                try:
                    group_answers = self._round(space, [requests[index] for index in rest])
                except Unconfirmed as error:
                    group_answers = [
                        error.of(answer) if requests[index][0].durable or not error.reachable else answer
                        for index, answer in zip(rest, error.answers, strict=False)
                    ]
                except StoreUnavailable as error:
                    # Requests applied before get their answers; the remaining ones get the error.
                    if not stored:
                        raise
                    for index in rest:
                        answers[index] = error
                    break
                stored = True
                for index, answer in zip(rest, group_answers, strict=False):
                    answers[index] = answer
                rest = rest[len(group_answers) :]
        return answers

    def _round(self, space: NamespaceKeys, requests: Sequence[Request]) -> list[Applied | Exception]:
        """Run the first requests that do not depend on one another, and apply them together."""
        progress = _Progress(f"{self._own}{next(self._count):x}")
        try:
            return self._run_round(space, requests, progress)
        except InDoubt as error:
            if progress.sent is None:
                raise self._link.error_of(error) from error
            text = f"{self._link.error_of(error)}; the change was sent and never confirmed"
            raise Unconfirmed(text, progress.sent.answers, reachable=False) from error
        except RedisError as error:
            raise self._link.error_of(error) from error
        finally:
            if progress.retry_lock is not None:
                progress.retry_lock.release()
            if progress.ticket:  # it wrote nothing, so no script removed the ticket
                with suppress(RedisError):  # the ticket expires by itself
                    self._link.client.hdel(space.key("turn"), progress.name)

    def _run_round(
        self, space: NamespaceKeys, requests: Sequence[Request], progress: _Progress
    ) -> list[Applied | Exception]:
        observe = self._observing()
        data: _RoundData | None = self._from_cache(space, requests)
        while True:
            if data is None:
                data = self._read_views(space, requests)
            draft, result = self._draft_and_apply(space, requests, data, progress, observe)
            if data.cached and not draft.commands:
                data = None  # nothing was written, so the server has not confirmed that the cached view is true
            elif result.code == _APPLIED:
                break
            elif data.cached and result.code == _CHANGED:
                data = result.data  # the answer brings a new view; this does not count as overtaken
            else:
                data = None
                self._wait(space, draft, result, progress)
        if draft.commands:
            progress.ticket = ""  # the script removed the ticket
        if draft.observe is not None:
            self._observe(draft.observe)
        self._update_cache(requests, draft, data, result)
        shift = result.moment - draft.own.base
        answers = self._drafter.moved(requests, draft, shift) if shift else draft.answers
        if result.doubt:
            raise Unconfirmed(result.doubt, answers)
        return answers

    def _wait(self, space: NamespaceKeys, draft: Draft, result: _Result, progress: _Progress) -> None:
        """Let an overtaken transaction wait before it reads again; after several times it takes a ticket."""
        self.overtaken += 1
        progress.failed += 1
        if progress.retry_lock is None:  # one thread of this process retries at a time
            progress.retry_lock = self._again.setdefault(space.namespace, threading.Lock())
            progress.retry_lock.acquire()
        if time.monotonic() - progress.began > _PATIENCE:
            raise StoreUnavailable(
                f"{self._link.place}: other transactions kept changing what this one read for {_PATIENCE:.0f} s"
            )
        if result.code == _CHANGED and progress.failed >= _OVERTAKEN:
            self._take_ticket(space, draft, progress)
        else:
            time.sleep(random.uniform(0, min(0.0005 * 2**progress.failed, 0.01)))  # noqa: S311 - it only spreads retries

    def _take_ticket(self, space: NamespaceKeys, draft: Draft, progress: _Progress) -> None:
        """Take a ticket for the names that a draft read."""
        names = encode(sorted(set().union(*draft.conditions.values())))
        progress.ticket = self._spaces.run(TICKET, space, progress.name, progress.ticket, names, _TICKET_TIME).decode()

    # --- Views -----

    def _from_cache(self, space: NamespaceKeys, requests: Sequence[Request]) -> _RoundData | None:
        """Return views from the cache, reading those that are missing. Return None if none is cached."""
        lost = self._link.lost()
        if lost != self._lost:
            self._lost = lost
            # The server may have been replaced by one that lacks the newest data, or all of it.
            self._cache.clear()
            self._noted.clear()
            self._listed.clear()
            self._crowds.forget()
        bases = [self._basis_from_cache(scope) for scope, _ in requests]
        if not any(bases):
            return None
        uncached = [request for request, basis in zip(requests, bases, strict=True) if basis is None]
        if uncached:
            fetched = self._read_views(space, uncached)
            rest = iter(fetched.bases)
            all_bases = [basis or next(rest) for basis in bases]
            now = fetched.now
        else:
            estimate = self._time(space).now() if self._spaces.clock is None else self._spaces.clock()
            if estimate is None:
                return None
            all_bases, now = [basis for basis in bases if basis is not None], estimate
        return _RoundData(max(now, max(basis.last for basis in all_bases) + 1), all_bases)

    def _basis_from_cache(self, scope: Scope) -> Basis | None:
        opened = self._cache.take_action(scope)
        if opened is not None and scope.find is not None and scope.find.id is not None:
            data = ViewData([], [], dict(opened.knowledge), {scope.find.id: opened.record}, None, b"", [], set())
            cached_view = self._cache.view(opened.cache_key)
            return Basis(data, opened.last, cached=True, cache_key=opened.cache_key, cached_view=cached_view)
        cache_key = (
            cache_key_of(scope) if not self._link.cluster else None
        )  # a fail-over in a cluster would go unnoticed
        cached = self._cache.view(cache_key)
        return Basis(cached.data, cached.last, cached=True, names=cached.names, cache_key=cache_key) if cached else None

    def _read_views(self, space: NamespaceKeys, requests: Sequence[Request]) -> _RoundData:
        request = encode(
            (space.tag, self._spaces.now_or_empty(), LATEST_SHOWN, [scope_fields(scope) for scope, _ in requests])
        )
        return self._parse(space, requests, self._link.run(READ_VIEW, self._spaces.clock_of(space), request))

    def _parse(self, space: NamespaceKeys, requests: Sequence[Request], answer_fields: Sequence[Any]) -> _RoundData:
        now, last, *answers = answer_fields
        self._time(space).update(int(now))
        bases = []
        for (scope, _), answer in zip(requests, answers, strict=True):
            data, cache_key = parse_view_data(answer, scope.namespace), cache_key_of(scope)
            if data.crowds:
                self._add_crowds(space, scope, data, int(now))
                if cache_key is not None:
                    self._cache.drop(cache_key)
                cache_key = None  # which actions are shown also depends on the time
            bases.append(Basis(data, int(last), cache_key=cache_key))
        return _RoundData(int(now), bases)

    def _add_crowds(self, space: NamespaceKeys, scope: Scope, data: ViewData, now: int) -> None:
        """Add to the view data of very crowded keys the open actions that the view must show.

        A change between the read and this is noticed when the transaction is applied, like any other.
        """
        waiting = RedisView(data, scope, now, self._probe).waiting() if scope.waits else ()
        asker = AskingCall(scope.session, scope.asks or Asks(), now, data.parents, waiting, self._probe)
        for name, ids in data.crowds.items():
            records: dict[int, Record] = {}
            crowd_key = f"{scope.namespace}\0{name}"
            crowd = self._crowds.take(crowd_key)
            fetch = partial(self._fetch, space, data, name, records)
            actions, data.more[name] = crowd.view(asker, ids, fetch, partial(stamps_of, fetch))
            self._crowds.keep(crowd_key, crowd)
            data.records.update({action.id: records[action.id] for action in actions if action.id in records})

    def _fetch(
        self, space: NamespaceKeys, data: ViewData, name: str, records: dict[int, Record], ids: Sequence[int]
    ) -> list[Action]:
        """Return actions on a key, and note their records."""
        for id in ids:
            if id in data.records:
                records[id] = data.records[id]
        missing = [id for id in ids if id not in records]
        for start in range(0, len(missing), 1000):
            chunk = missing[start : start + 1000]
            blobs = self._link.client.hmget(space.key("a"), [f"{id:016d}" for id in chunk])
            for id, blob in zip(chunk, blobs, strict=True):
                if blob is not None:
                    records[id] = record_of(id, space.namespace, blob)
        actions = (probed(records[id].action, self._probe) for id in ids if id in records)
        return [
            replace(action, key=name, mode=key.mode) for action in actions for key in action.keys if key.name == name
        ]

    def _time(self, space: NamespaceKeys) -> ServerTime:
        clock = self._spaces.clock_of(space)
        estimate = self._times.get(clock)
        return estimate if estimate is not None else self._times.setdefault(clock, ServerTime())

    # --- Drafting and applying ---

    def _draft_and_apply(
        self, space: NamespaceKeys, requests: Sequence[Request], data: _RoundData, progress: _Progress, observe: int
    ) -> tuple[Draft, _Result]:
        """Draft and apply. If only the moment was used meanwhile, try again at a later one."""
        draft, result = self._attempt(space, requests, data, progress, observe, data.now)
        for retries in range(4):
            if result.code != _TAKEN:
                return draft, result
            if retries or not data.cached:  # for a cached view the time is only estimated
                self._crowded = time.monotonic() + 1
            draft, result = self._attempt(space, requests, data, progress, observe, result.moment)
        return draft, result if result.code != _TAKEN else _Result(_NOT_YET)

    def _attempt(
        self,
        space: NamespaceKeys,
        requests: Sequence[Request],
        data: _RoundData,
        progress: _Progress,
        observe: int,
        now: int,
    ) -> tuple[Draft, _Result]:
        crowded = time.monotonic() < self._crowded
        own = OwnIds(progress.name, now, self._mark if crowded else "")
        draft = self._drafter.draft(space, requests, data.bases, own, observe)
        tolerance = TOLERANCE if crowded and self._drafter.alike(requests, draft) else 0
        return draft, self._apply(space, requests, draft, data, progress, tolerance)

    def _apply(
        self,
        space: NamespaceKeys,
        requests: Sequence[Request],
        draft: Draft,
        data: _RoundData,
        progress: _Progress,
        tolerance: int,
    ) -> _Result:
        if not draft.commands:
            return _Result(_APPLIED, draft.own.base)
        began = time.monotonic()
        if began > self._listed.get(space.namespace, 0.0):
            self._link.client.sadd(f"{self._link.prefix}:namespaces", space.namespace)
            self._listed[space.namespace] = began + _RELIST
        server_clock = self._spaces.clock is None
        conditions = [(last, names, True) for last, names in draft.conditions.items()]
        watched = [
            (basis.cached_view.last, basis.cached_view.names, False)
            for basis in data.bases
            if basis.cached_view is not None
        ]
        cached_parts: Any = False
        reread: Any = False
        if data.cached:
            pairs = zip(requests, data.bases, strict=True)
            uncached = [_uncached_parts(scope) for (scope, _), basis in pairs if basis.cached]
            cached_parts = (_TRUSTED if server_clock else 0, [parts for parts in uncached if parts is not None])
        if any(basis.cached and basis.cached_view is None for basis in data.bases):
            reread = text_of(
                encode((self._spaces.now_or_empty(), LATEST_SHOWN, [scope_fields(scope) for scope, _ in requests]))
            )
        request = (
            space.tag,
            progress.name,
            draft.own.base,
            tolerance,
            progress.ticket,
            [*conditions, *watched],
            draft.changed,
            draft.own.mark,
            draft.span,
            draft.wakes,
            draft.commands,
            LATE if self._link.cluster and server_clock else 0,
            cached_parts,
            reread,
        )
        run = self._link.run_durable if draft.durable else self._link.run
        doubt = ""
        progress.sent = draft
        try:
            answer = run(APPLY, self._spaces.clock_of(space), encode(request))
        except NotDurable as error:
            answer, doubt = error.answer, str(error)  # it matters only if the change was applied
        progress.sent = None
        if not isinstance(answer, bytes):  # something changed: the answer is a new view
            return _Result(_CHANGED, data=self._parse(space, requests, answer))
        code, *more = answer.split()
        if not more:
            return _Result(int(code))
        self._time(space).update(int(more[1]))
        stood = more[2][len(conditions) :] if len(more) > 2 else b""
        return _Result(int(code), int(more[0]), [parts == _STILL_TRUE for parts in stood], doubt=doubt)

    # --- Caching -------

    def _update_cache(self, requests: Sequence[Request], draft: Draft, data: _RoundData, result: _Result) -> None:
        """Cache views and opened actions after a change was applied."""
        if not draft.commands:
            return
        own, moment = draft.own, result.moment
        shift, last = moment - own.base, moment + max(draft.span, 1) - 1
        since = time.monotonic()
        still_true = iter(result.still_true)
        untouched = _only_writer(draft.writes)
        for index, ((scope, _), basis, writer) in enumerate(zip(requests, data.bases, draft.writes, strict=False)):
            unchanged = basis.cached_view is not None and next(still_true, False)
            if writer is None or not writer.commands:
                continue
            if not writer.noted:
                if len(self._noted) > _MAX_NOTED:
                    self._noted.clear()
                self._noted[origin_of(scope)] = last
            if basis.cache_key is None:
                continue
            knowledge: KnowledgeByKey = writer.knowledge
            if own.mark:
                knowledge = {
                    mark: known_of(own.with_real_ids(key_knowledge.blob(), moment))
                    for mark, key_knowledge in writer.knowledge.items()
                }
            records = dict(writer.settled)
            if writer.opened is not None:
                records[writer.opened.action.id + shift] = _opened_later(writer.opened, shift)
            view = basis.cached_view
            if view is None and cache_key_of(scope) == basis.cache_key:
                view = CachedView(basis.data, _lasting_names(scope, draft.depends[index]), last, since)
                unchanged = True
            if view is not None and unchanged and untouched(index, view.names):
                view_data = with_own_changes(view.data, knowledge, records)
                self._cache.keep_view(basis.cache_key, CachedView(view_data, view.names, last, since))
            else:
                self._cache.drop(basis.cache_key)
            if writer.opened is not None:
                id = writer.opened.action.id + shift
                own_knowledge = {
                    mark: key_knowledge for mark, key_knowledge in knowledge.items() if mark[1] == scope.session
                }
                opened = CachedAction(records[id], own_knowledge, last, since, basis.cache_key)
                # Superseded actions are read with the report, so such an action is not cached.
                action = opened.record.action
                if not action.supersedes and all((key.name, scope.session) in own_knowledge for key in action.keys):
                    self._cache.keep_action(scope.namespace, id, opened)


# --- Helpers --------------------------------------------------------------------------------------


def _lasting_names(scope: Scope, depends: set[str]) -> frozenset[str]:
    """Return the names that the next view of the same keys depends on too."""
    return frozenset(depends if scope.call is None else depends - {of_call(scope.call)})


def _opened_later(record: Record, shift: int) -> Record:
    """Return the record of an action that was opened later than expected."""
    moment = record.action.id + shift
    return replace(record, action=replace(record.action, id=moment, started=moment)) if shift else record


def _uncached_parts(scope: Scope) -> tuple[str, list[str], list[str]] | None:
    """Return the parts of a scope that a cached view cannot cover, its call and fingerprints; None if it has none."""
    if scope.call is None and not scope.prints:
        return None
    call = scope.call.hex() if scope.call is not None else ""
    return call, [print_.hex() for print_ in scope.prints], [key.name for key in scope.keys]


def _only_writer(writes: Sequence[ChangeWriter | None]) -> Callable[[int, Iterable[str]], bool]:
    """Return a function that tells whether only the given writer changed any of some names."""
    if len(writes) == 1:
        return lambda _at, _names: True
    writers: dict[str, set[int]] = {}
    for index, writer in enumerate(writes):
        for name in writer.changed if writer is not None else ():
            writers.setdefault(name, set()).add(index)
    return lambda index, names: all(writers.get(name, {index}) <= {index} for name in names)
