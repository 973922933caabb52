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
from callosum.stores.redis.view import RedisView, ViewData, asked, parse_view_data

LATEST_SHOWN: Final = 12
LATE: Final = 100_000
"""Microseconds by which a new moment may be in the past in a Redis Cluster; readers of all namespaces wait as long."""
_PATIENCE: Final = 10.0
"""Seconds after which a transaction that is repeatedly overtaken gives up."""
_OVERTAKEN: Final = 3
"""Number of times that a transaction is overtaken before it takes a ticket."""
_TURN: Final = 2 * SECOND
"""Microseconds that a ticket lasts if its holder dies."""
_TRUSTED: Final = 100_000
"""Microseconds by which this process's estimate of the server's time may be off."""
_ANEW: Final = 60.0
"""Seconds after which a namespace is listed again, in case a restarted server lost the list."""
_NOTED_HERE: Final = 10_000

LOOK: Final = Script("view", "look")
APPLY: Final = Script("view", "apply")
TURN: Final = Script("turn")

_APPLIED, _CHANGED, _TAKEN, _NOT_YET = 1, 0, 2, 3  # answers of ``apply.lua``
_STOOD: Final = ord("1")


class _Sight(Struct):
    """The data that the steps of a round run on. ``now``: the moment that they may use."""

    now: int
    bases: list[Basis]

    @property
    def recalled(self) -> bool:
        return any(basis.recalled for basis in self.bases)


class _Turn(Struct):
    """The progress of a transaction. Its name makes the server apply it once, however often it is sent.

    ``ticket``: its ticket, if any. ``failed``: how often it was overtaken. ``alone``: the lock that lets one thread
    retry at a time. ``sent``: the draft that was sent and not yet answered.
    """

    name: str
    ticket: str = ""
    failed: int = 0
    alone: threading.Lock | None = None
    sent: Draft | None = None
    began: float = field(default_factory=time.monotonic)


class _Outcome(Struct):
    """What the server did with a draft. ``stood``: which of the watched views are still true.

    ``doubt``: why the applied change may not survive, empty if it does.
    """

    what: int
    moment: int = 0
    stood: Sequence[bool] = ()
    sight: _Sight | None = None
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
        self._recall = RedisCache()
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
        for at, (scope, _) in enumerate(requests):
            groups.setdefault(scope.namespace, []).append(at)
        answers: list[Applied | Exception] = [StoreUnavailable("not run")] * len(requests)
        stored = False
        for namespace, places in groups.items():
            space = self._spaces.of(namespace)
            rest = places
            while rest:
                try:
                    done = self._round(space, [requests[at] for at in rest])
                except Unconfirmed as error:
                    done = [
                        error.of(answer) if requests[at][0].durable or not error.reachable else answer
                        for at, answer in zip(rest, error.answers, strict=False)
                    ]
                except StoreUnavailable as error:
                    # Requests applied before get their answers; the remaining ones get the error.
                    if not stored:
                        raise
                    for at in rest:
                        answers[at] = error
                    break
                stored = True
                for at, answer in zip(rest, done, strict=False):
                    answers[at] = answer
                rest = rest[len(done) :]
        return answers

    def _round(self, space: NamespaceKeys, requests: Sequence[Request]) -> list[Applied | Exception]:
        """Run the first requests that do not depend on one another, and apply them together."""
        turn = _Turn(f"{self._own}{next(self._count):x}")
        try:
            return self._tried(space, requests, turn)
        except InDoubt as error:
            if turn.sent is None:
                raise self._link.told(error) from error
            text = f"{self._link.told(error)}; the change was sent and never confirmed"
            raise Unconfirmed(text, turn.sent.answers, reachable=False) from error
        except RedisError as error:
            raise self._link.told(error) from error
        finally:
            if turn.alone is not None:
                turn.alone.release()
            if turn.ticket:  # it wrote nothing, so no script removed the ticket
                with suppress(RedisError):  # the ticket expires by itself
                    self._link.client.hdel(space.key("turn"), turn.name)

    def _tried(self, space: NamespaceKeys, requests: Sequence[Request], turn: _Turn) -> list[Applied | Exception]:
        observe = self._observing()
        sight: _Sight | None = self._known(space, requests)
        while True:
            if sight is None:
                sight = self._look(space, requests)
            draft, outcome = self._settled(space, requests, sight, turn, observe)
            if sight.recalled and not draft.commands:
                sight = None  # nothing was written, so the server has not confirmed that the cached view is true
            elif outcome.what == _APPLIED:
                break
            elif sight.recalled and outcome.what == _CHANGED:
                sight = outcome.sight  # the answer brings a new view; this does not count as overtaken
            else:
                sight = None
                self._lag(space, draft, outcome, turn)
        if draft.commands:
            turn.ticket = ""  # the script removed the ticket
        if draft.observe is not None:
            self._observe(draft.observe)
        self._learn(requests, draft, sight, outcome)
        shift = outcome.moment - draft.own.base
        answers = self._drafter.moved(requests, draft, shift) if shift else draft.answers
        if outcome.doubt:
            raise Unconfirmed(outcome.doubt, answers)
        return answers

    def _lag(self, space: NamespaceKeys, draft: Draft, outcome: _Outcome, turn: _Turn) -> None:
        """Let an overtaken transaction wait before it reads again; after several times it takes a ticket."""
        self.overtaken += 1
        turn.failed += 1
        if turn.alone is None:  # one thread of this process retries at a time
            turn.alone = self._again.setdefault(space.namespace, threading.Lock())
            turn.alone.acquire()
        if time.monotonic() - turn.began > _PATIENCE:
            raise StoreUnavailable(f"{self._link.place}: overtaken for {_PATIENCE:.0f} s")
        if outcome.what == _CHANGED and turn.failed >= _OVERTAKEN:
            self._queue(space, draft, turn)
        else:
            time.sleep(random.uniform(0, min(0.0005 * 2**turn.failed, 0.01)))  # noqa: S311 - it only spreads retries

    def _queue(self, space: NamespaceKeys, draft: Draft, turn: _Turn) -> None:
        """Take a ticket for the names that a draft read."""
        names = encode(sorted(set().union(*draft.looks.values())))
        turn.ticket = self._spaces.run(TURN, space, turn.name, turn.ticket, names, _TURN).decode()

    # --- Views -----

    def _known(self, space: NamespaceKeys, requests: Sequence[Request]) -> _Sight | None:
        """Return views from the cache, reading those that are missing. Return None if none is cached."""
        lost = self._link.lost()
        if lost != self._lost:
            self._lost = lost
            # The server may have been replaced by one that lacks the newest data, or all of it.
            self._recall.clear()
            self._noted.clear()
            self._listed.clear()
            self._crowds.forget()
        bases = [self._recalled(scope) for scope, _ in requests]
        if not any(bases):
            return None
        strange = [request for request, basis in zip(requests, bases, strict=True) if basis is None]
        if strange:
            looked = self._look(space, strange)
            rest = iter(looked.bases)
            found = [basis or next(rest) for basis in bases]
            now = looked.now
        else:
            told = self._time(space).now() if self._spaces.clock is None else self._spaces.clock()
            if told is None:
                return None
            found, now = [basis for basis in bases if basis is not None], told
        return _Sight(max(now, max(basis.last for basis in found) + 1), found)

    def _recalled(self, scope: Scope) -> Basis | None:
        opened = self._recall.report(scope)
        if opened is not None and scope.find is not None and scope.find.id is not None:
            seen = ViewData([], [], dict(opened.known), {scope.find.id: opened.record}, None, b"", [], set())
            look = self._recall.look(opened.place)
            return Basis(seen, opened.last, recalled=True, place=opened.place, look=look)
        place = cache_key_of(scope) if not self._link.cluster else None  # a fail-over in a cluster would go unnoticed
        known = self._recall.look(place)
        return Basis(known.seen, known.last, recalled=True, names=known.names, place=place) if known else None

    def _look(self, space: NamespaceKeys, requests: Sequence[Request]) -> _Sight:
        ask = encode((space.tag, self._spaces.given(), LATEST_SHOWN, [asked(scope) for scope, _ in requests]))
        return self._sight(space, requests, self._link.run(LOOK, self._spaces.clock_of(space), ask))

    def _sight(self, space: NamespaceKeys, requests: Sequence[Request], found: Sequence[Any]) -> _Sight:
        now, last, *answers = found
        self._time(space).heard(int(now))
        bases = []
        for (scope, _), answer in zip(requests, answers, strict=True):
            seen, place = parse_view_data(answer, scope.namespace), cache_key_of(scope)
            if seen.crowds:
                self._crowd(space, scope, seen, int(now))
                if place is not None:
                    self._recall.drop(place)
                place = None  # which actions are shown also depends on the time
            bases.append(Basis(seen, int(last), place=place))
        return _Sight(int(now), bases)

    def _crowd(self, space: NamespaceKeys, scope: Scope, seen: ViewData, now: int) -> None:
        """Add to the view data of very crowded keys the open actions that the view must show.

        A change between the read and this is noticed when the transaction is applied, like any other.
        """
        waiting = RedisView(seen, scope, now, self._probe).waiting() if scope.waits else ()
        asker = AskingCall(scope.session, scope.asks or Asks(), now, seen.parents, waiting, self._probe)
        for name, ids in seen.crowds.items():
            records: dict[int, Record] = {}
            place = f"{scope.namespace}\0{name}"
            crowd = self._crowds.take(place)
            fetch = partial(self._fetch, space, seen, name, records)
            shown, seen.more[name] = crowd.view(asker, ids, fetch, partial(stamps_of, fetch))
            self._crowds.keep(place, crowd)
            seen.records.update({one.id: records[one.id] for one in shown if one.id in records})

    def _fetch(
        self, space: NamespaceKeys, seen: ViewData, name: str, records: dict[int, Record], ids: Sequence[int]
    ) -> list[Action]:
        """Return actions on a key, and note their records."""
        for id in ids:
            if id in seen.records:
                records[id] = seen.records[id]
        missing = [id for id in ids if id not in records]
        for at in range(0, len(missing), 1000):
            some = missing[at : at + 1000]
            blobs = self._link.client.hmget(space.key("a"), [f"{id:016d}" for id in some])
            for id, blob in zip(some, blobs, strict=True):
                if blob is not None:
                    records[id] = record_of(id, space.namespace, blob)
        found = (probed(records[id].action, self._probe) for id in ids if id in records)
        return [replace(one, key=name, mode=key.mode) for one in found for key in one.keys if key.name == name]

    def _time(self, space: NamespaceKeys) -> ServerTime:
        clock = self._spaces.clock_of(space)
        found = self._times.get(clock)
        return found if found is not None else self._times.setdefault(clock, ServerTime())

    # --- Drafting and applying ---

    def _settled(
        self, space: NamespaceKeys, requests: Sequence[Request], sight: _Sight, turn: _Turn, observe: int
    ) -> tuple[Draft, _Outcome]:
        """Draft and apply. If only the moment was used meanwhile, try again at a later one."""
        draft, outcome = self._attempt(space, requests, sight, turn, observe, sight.now)
        for again in range(4):
            if outcome.what != _TAKEN:
                return draft, outcome
            if again or not sight.recalled:  # for a cached view the time is only estimated
                self._crowded = time.monotonic() + 1
            draft, outcome = self._attempt(space, requests, sight, turn, observe, outcome.moment)
        return draft, outcome if outcome.what != _TAKEN else _Outcome(_NOT_YET)

    def _attempt(
        self, space: NamespaceKeys, requests: Sequence[Request], sight: _Sight, turn: _Turn, observe: int, now: int
    ) -> tuple[Draft, _Outcome]:
        crowded = time.monotonic() < self._crowded
        own = OwnIds(turn.name, now, self._mark if crowded else "")
        draft = self._drafter.draft(space, requests, sight.bases, own, observe)
        tolerance = TOLERANCE if crowded and self._drafter.alike(requests, draft) else 0
        return draft, self._apply(space, requests, draft, sight, turn, tolerance)

    def _apply(
        self,
        space: NamespaceKeys,
        requests: Sequence[Request],
        draft: Draft,
        sight: _Sight,
        turn: _Turn,
        tolerance: int,
    ) -> _Outcome:
        if not draft.commands:
            return _Outcome(_APPLIED, draft.own.base)
        began = time.monotonic()
        if began > self._listed.get(space.namespace, 0.0):
            self._link.client.sadd(f"{self._link.prefix}:namespaces", space.namespace)
            self._listed[space.namespace] = began + _ANEW
        real = self._spaces.clock is None
        must = [(last, names, True) for last, names in draft.looks.items()]
        watched = [(basis.look.last, basis.look.names, False) for basis in sight.bases if basis.look is not None]
        recalled: Any = False
        again: Any = False
        if sight.recalled:
            pairs = zip(requests, sight.bases, strict=True)
            strange = [_strange(scope) for (scope, _), basis in pairs if basis.recalled]
            recalled = (_TRUSTED if real else 0, [one for one in strange if one is not None])
        if any(basis.recalled and basis.look is None for basis in sight.bases):
            again = text_of(encode((self._spaces.given(), LATEST_SHOWN, [asked(scope) for scope, _ in requests])))
        ask = (
            space.tag,
            turn.name,
            draft.own.base,
            tolerance,
            turn.ticket,
            [*must, *watched],
            draft.changed,
            draft.own.mark,
            draft.span,
            draft.wakes,
            draft.commands,
            LATE if self._link.cluster and real else 0,
            recalled,
            again,
        )
        run = self._link.run_durable if draft.durable else self._link.run
        doubt = ""
        turn.sent = draft
        try:
            answer = run(APPLY, self._spaces.clock_of(space), encode(ask))
        except NotDurable as error:
            answer, doubt = error.answer, str(error)  # it matters only if the change was applied
        turn.sent = None
        if not isinstance(answer, bytes):  # something changed: the answer is a new view
            return _Outcome(_CHANGED, sight=self._sight(space, requests, answer))
        what, *more = answer.split()
        if not more:
            return _Outcome(int(what))
        self._time(space).heard(int(more[1]))
        stood = more[2][len(must) :] if len(more) > 2 else b""
        return _Outcome(int(what), int(more[0]), [one == _STOOD for one in stood], doubt=doubt)

    # --- Caching -------

    def _learn(self, requests: Sequence[Request], draft: Draft, sight: _Sight, outcome: _Outcome) -> None:
        """Cache views and opened actions after a change was applied."""
        if not draft.commands:
            return
        own, moment = draft.own, outcome.moment
        shift, last = moment - own.base, moment + max(draft.span, 1) - 1
        since = time.monotonic()
        stands = iter(outcome.stood)
        untouched = _untouched(draft.writes)
        for at, ((scope, _), basis, write) in enumerate(zip(requests, sight.bases, draft.writes, strict=False)):
            still = basis.look is not None and next(stands, False)
            if write is None or not write.commands:
                continue
            if not write.noted:
                if len(self._noted) > _NOTED_HERE:
                    self._noted.clear()
                self._noted[origin_of(scope)] = last
            if basis.place is None:
                continue
            docs: KnowledgeByKey = write.docs
            if own.mark:
                docs = {place: known_of(own.told(one.blob(), moment)) for place, one in write.docs.items()}
            records = dict(write.settled)
            if write.opened is not None:
                records[write.opened.action.id + shift] = _later(write.opened, shift)
            look = basis.look
            if look is None and cache_key_of(scope) == basis.place:
                look = CachedView(basis.seen, _lasting(scope, draft.depends[at]), last, since)
                still = True
            if look is not None and still and untouched(at, look.names):
                seen = with_own_changes(look.seen, docs, records)
                self._recall.keep_look(basis.place, CachedView(seen, look.names, last, since))
            else:
                self._recall.drop(basis.place)
            if write.opened is not None:
                id = write.opened.action.id + shift
                mine = {place: one for place, one in docs.items() if place[1] == scope.session}
                opened = CachedAction(records[id], mine, last, since, basis.place)
                # Superseded actions are read with the report, so such an action is not cached.
                action = opened.record.action
                if not action.supersedes and all((key.name, scope.session) in mine for key in action.keys):
                    self._recall.keep_action(scope.namespace, id, opened)


# --- Helpers --------------------------------------------------------------------------------------


def _lasting(scope: Scope, depends: set[str]) -> frozenset[str]:
    """Return the names that the next view of the same keys depends on too."""
    return frozenset(depends if scope.call is None else depends - {of_call(scope.call)})


def _later(record: Record, shift: int) -> Record:
    """Return the record of an action that was opened later than expected."""
    moment = record.action.id + shift
    return replace(record, action=replace(record.action, id=moment, started=moment)) if shift else record


def _strange(scope: Scope) -> tuple[str, list[str], list[str]] | None:
    """Return the parts of a scope that a cached view cannot cover, its call and fingerprints; None if it has none."""
    if scope.call is None and not scope.prints:
        return None
    call = scope.call.hex() if scope.call is not None else ""
    return call, [print_.hex() for print_ in scope.prints], [key.name for key in scope.keys]


def _untouched(writes: Sequence[ChangeWriter | None]) -> Callable[[int, Iterable[str]], bool]:
    """Return a function that tells whether only the given writer changed any of some names."""
    if len(writes) == 1:
        return lambda _at, _names: True
    writers: dict[str, set[int]] = {}
    for at, write in enumerate(writes):
        for name in write.changed if write is not None else ():
            writers.setdefault(name, set()).add(at)
    return lambda at, names: all(writers.get(name, {at}) <= {at} for name in names)
