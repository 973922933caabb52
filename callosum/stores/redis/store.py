"""The store over a Redis, a Valkey or a Redis Cluster.

A transaction looks (one round trip), runs its steps here, and asks the server to apply what they want done, which it
does only if nothing they looked at has changed meanwhile (another). One that is overtaken looks again; overtaken
often, it takes a ticket, and nobody who came later changes what it looks at until it is done.
"""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from callosum.errors import StoreUnavailable
from callosum.model import (
    DAY,
    DEFAULT_NAMESPACE,
    HOUR,
    MINUTE,
    SECOND,
    Action,
    Applied,
    Change,
    Entry,
    Key,
    Scope,
    State,
    View,
)
from callosum.process import alive
from callosum.stores.base import LOOK_BACK, NEARBY, Clock, Health, Kin, Nearby, Probe, Request
from callosum.stores.redis.change import Commands, Write, missing
from callosum.stores.redis.link import SCHEMA, Link, Script
from callosum.stores.redis.names import QUEUE as QUEUE_NAME
from callosum.stores.redis.names import Space, above, looked_at, of_action, of_call, of_reports
from callosum.stores.redis.records import NOTHING, Known, Own, Record, encode, entry_of, known_of, record_of
from callosum.stores.redis.view import LIVE, Look, Seen, acted, brought, packed, through
from callosum.stores.redis.wake import Wake

REMEMBERED: Final = DAY
"""How long a call's identity is remembered."""
LATEST_SHOWN: Final = 12
_PATIENCE: Final = 10.0
"""Seconds after which a transaction that is overtaken again and again gives up."""
_OVERTAKEN: Final = 3
"""How often it may be overtaken before it takes a ticket."""
_TURN: Final = 2 * SECOND
"""How long a ticket lasts, should its holder die."""
_LATE: Final = 100_000
"""How old a moment may be when it is taken in a Redis Cluster; so long readers of all namespaces wait. Microseconds."""
_FOREVER: Final = 2**62
_TOLERANCE: Final = 20_000
"""By how many microseconds a transaction's moment may be moved on while it is applied."""
_RECALL: Final = 60.0
"""For how many seconds what is known of an opened action is taken for true, until the server says otherwise."""
_REMEMBERED_HERE: Final = 10_000
_PAGE: Final = 500
_LIVE_LOOK: Final = 250

_LOOK: Final = Script("look")
_APPLY: Final = Script("apply")
_TURN_SCRIPT: Final = Script("turn")
_TAIL: Final = Script("tail")
_FORGET: Final = Script("forget")
_DROP: Final = Script("drop")


class _Sight(Struct):
    """What one look brought. ``now``: the moment a step may take for its own; ``last``: the last that was taken."""

    now: int
    last: int
    seen: list[Seen]
    since: float = 0.0


class _Turn(Struct):
    """A transaction's name, by which it is applied once however often it is sent; and its ticket, if it has one."""

    name: str
    ticket: str = ""


class _Opened(Struct):
    """What this process knows of an action it opened, so that its report need not look first.

    It holds while nobody changed it: what is written on it is applied only then. ``at``: the moment of the server's
    clock when ``since`` was this process's monotonic clock.
    """

    record: Record
    known: dict[tuple[str, str], Known]
    last: int
    at: int
    since: float


class _Draft(Struct):
    """What the steps of a round want done. ``taken``: how many of the requests are in it."""

    answers: list[Applied | Exception]
    views: list[View | None]
    commands: Commands
    writes: list[Write | None]
    depends: set[str]
    changed: set[str]
    own: Own
    span: int
    taken: int
    wakes: bool
    durable: bool
    observe: int | None


class RedisStore:
    """A store in a Redis. ``url`` as ``Link`` reads it; ``clock`` stands in for the server's in tests.

    Moments are the server's. On one server they are unique over all namespaces; in a Redis Cluster each namespace
    has its own.
    """

    def __init__(self, url: str, *, clock: Clock | None = None, probe: Probe = alive) -> None:
        self._clock = clock
        self._probe = probe
        self.link = Link(url)
        self._wake = Wake(self.link)
        self.overtaken = 0
        """How many times a transaction of this process had to be run again."""
        self._spaces: dict[str, Space] = {}
        self._written: dict[str, float] = {}
        self._observe: tuple[float, int] = (0.0, 0)
        if hasattr(os, "register_at_fork"):
            mine = weakref.WeakMethod(self._forked)
            os.register_at_fork(after_in_child=lambda: (method := mine()) and method())
        self._crowded = 0.0
        self._passed: dict[tuple[str, str], int] = {}
        self._again: dict[str, threading.Lock] = {}
        self._noted: dict[tuple[str, str], int] = {}
        self._opened: dict[tuple[str, int], _Opened] = {}

    def close(self) -> None:
        self._wake.close()
        self.link.close()

    def pause(self, seconds: float) -> None:
        """Waits until something ended that others may wait for, in whichever process; no longer than ``seconds``."""
        self._wake.wait(seconds)

    def _forked(self) -> None:
        """After a fork no other thread is there to end its turn."""
        self._again = {}

    # --- places ---

    def _space(self, namespace: str) -> Space:
        space = self._spaces.get(namespace)
        if space is None:
            space = self._spaces[namespace] = Space(self.link.prefix, namespace)
        return space

    def _clock_of(self, space: Space) -> str:
        return space.key("clock") if self.link.cluster else f"{self.link.prefix}:clock"

    def _now(self) -> str:
        return str(self._clock()) if self._clock is not None else ""

    def _run(self, script: Script, space: Space, *args: bytes | str | int) -> Any:
        return self.link.run(script, self._clock_of(space), space.tag, *args)

    def _namespaces(self, namespace: str | None = None) -> list[Space]:
        if namespace is not None:
            return [self._space(namespace)]
        names = self.link.client.smembers(f"{self.link.prefix}:namespaces")
        return [self._space(name) for name in sorted(name.decode() for name in names)]

    # --- transact ---

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        groups: dict[str, list[int]] = {}
        for at, (scope, _) in enumerate(requests):
            groups.setdefault(scope.namespace, []).append(at)
        answers: list[Applied | Exception] = [StoreUnavailable("not run")] * len(requests)
        stored = False
        for namespace, places in groups.items():
            space = self._space(namespace)
            rest = places
            while rest:
                try:
                    with self.link.explained():
                        done = self._round(space, [requests[at] for at in rest])
                except StoreUnavailable as error:
                    # What was applied before stands and is answered; this is not, and says so in its place.
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

    def _round(self, space: Space, requests: Sequence[Request]) -> list[Applied | Exception]:
        """Runs the first of these requests, as many as do not depend on one another, and applies them at once."""
        turn = _Turn(secrets.token_hex(8))
        with ExitStack() as stack:
            stack.callback(self._give_back, space, turn)
            return self._tried(space, requests, turn, stack)

    def _give_back(self, space: Space, turn: _Turn) -> None:
        """Ends the turn of a transaction that had a ticket and wrote nothing in the end."""
        if turn.ticket:
            self.link.client.hdel(space.key("turn"), turn.name)

    def _tried(
        self, space: Space, requests: Sequence[Request], turn: _Turn, stack: ExitStack
    ) -> list[Applied | Exception]:
        until = time.monotonic() + _PATIENCE
        observe = self.observing()
        failed, recalled = 0, self._recalled(requests)
        while True:
            sight = recalled
            if sight is None:
                looked = time.monotonic()
                sight = self._look(space, [scope for scope, _ in requests])
                sight.since = looked
            draft, (what, moment) = self._settled(space, requests, sight, turn, observe)
            if recalled is not None and not draft.commands:
                recalled = None  # nothing was written, so nobody has said that it is still true
                continue
            if what == 1:
                break
            recalled = None
            self.overtaken += 1
            failed += 1
            if failed == 1:  # of this process's threads one at a time tries again
                stack.enter_context(self._again.setdefault(space.namespace, threading.Lock()))
            if time.monotonic() > until:
                raise StoreUnavailable(f"{self.link.place}: overtaken for {_PATIENCE:.0f} s")
            if what == 0 and failed >= _OVERTAKEN:
                names = encode(sorted(draft.depends))
                turn.ticket = self._run(_TURN_SCRIPT, space, turn.name, turn.ticket, names, _TURN).decode()
            else:
                time.sleep(random.uniform(0, min(0.0005 * 2**failed, 0.01)))  # noqa: S311 - to part those who meet
        if draft.commands:
            turn.ticket = ""  # it ended with what was applied
        if draft.observe is not None:
            self.link.client.set(f"{self.link.prefix}:observe", draft.observe)
            self._observe = (0.0, 0)
        shift = moment - draft.own.base
        self._remember(requests, draft, sight, shift)
        return self._moved(requests, draft, shift) if shift else draft.answers

    def _recalled(self, requests: Sequence[Request]) -> _Sight | None:
        """What a look would bring for one report of an action that this process opened a short while ago."""
        if len(requests) != 1:
            return None
        scope = requests[0][0]
        if scope.find is None or scope.find.id is None or scope.keys or scope.waits or scope.call is not None:
            return None
        opened = self._opened.pop((scope.namespace, scope.find.id), None)
        if opened is None or time.monotonic() - opened.since > _RECALL:
            return None
        seen = Seen([], [], opened.known, {scope.find.id: opened.record}, None, b"", [], set())
        gone = int((time.monotonic() - opened.since) * SECOND)
        now = max(self._clock() if self._clock is not None else opened.at + gone, opened.last + 1)
        return _Sight(now, opened.last, [seen], opened.since)

    def _remember(self, requests: Sequence[Request], draft: _Draft, sight: _Sight, shift: int) -> None:
        """Keeps what is known of the actions that were opened, for their reports."""
        last = draft.own.base + shift + max(draft.span, 1) - 1
        for (scope, _), write in zip(requests, draft.writes, strict=False):
            if write is None or not write.commands:
                continue
            if not write.noted:
                if len(self._noted) > _REMEMBERED_HERE:
                    self._noted.clear()
                self._noted[scope.namespace, scope.session] = last
            if write.opened is None or shift or write.opened[1].supersedes:
                continue
            id, record = write.opened
            known = {(key.name, record.session): write.docs.get((key.name, record.session)) for key in record.keys}
            if any(one is None for one in known.values()):
                continue
            if len(self._opened) > _REMEMBERED_HERE:
                self._opened.clear()
            mine = {place: known_of(draft.own.told(one.blob())) for place, one in known.items() if one is not None}
            self._opened[scope.namespace, id] = _Opened(record, mine, last, sight.now, sight.since)

    def _settled(
        self, space: Space, requests: Sequence[Request], sight: _Sight, turn: _Turn, observe: int
    ) -> tuple[_Draft, tuple[int, int]]:
        """Drafts and applies; when only the moment was taken meanwhile, once more at a later one."""
        crowded = time.monotonic() < self._crowded
        draft = self._draft(space, requests, sight, sight.now, observe)
        for _ in range(4):
            tolerance = _TOLERANCE if crowded and self._alike(requests, draft) else 0
            what, moment = self._apply(space, draft, sight, turn, tolerance)
            if what != 2:
                return draft, (what, moment)
            self._crowded = time.monotonic() + 1
            crowded = True
            draft = self._draft(space, requests, sight, moment, observe)
        return draft, (3, 0)

    def _look(self, space: Space, scopes: Sequence[Scope]) -> _Sight:
        now, last, *seen = self._run(_LOOK, space, self._now(), packed(scopes), LATEST_SHOWN)
        return _Sight(int(now), int(last), [brought(one) for one in seen])

    def _draft(self, space: Space, requests: Sequence[Request], sight: _Sight, now: int, observe: int) -> _Draft:
        draft = _Draft([], [], Commands(), [], set(), set(), Own(now), 0, 0, wakes=False, durable=False, observe=None)
        for (scope, step), seen in zip(requests, sight.seen, strict=True):
            depends = _depends(scope, seen)
            if not draft.changed.isdisjoint(depends):
                break  # it must see what one before it changed
            draft.taken += 1
            at = now + draft.span
            view: View | None = None
            try:
                view = Look(seen, scope, at, self._probe).view(observe)
                change = step(view)
                noted = at - self._noted.get((scope.namespace, scope.session), 0) < MINUTE
                write = Write(space, scope, seen, draft.own, at, noted=noted)
                self._fetch(space, seen, *missing(seen, scope, change))
                write.write(change)
            except StoreUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - it fails alone, and is handed to the one who asked
                draft.answers.append(error)
                draft.views.append(None)
                draft.writes.append(None)
                continue
            size = len(change.entries)
            draft.answers.append(Applied(change, tuple(range(at, at + size)), at))
            draft.views.append(view)
            draft.writes.append(write)
            if change.observe_until is not None:
                draft.observe = change.observe_until
            if not write.commands:
                continue
            draft.commands.extend(write.commands)
            draft.depends |= depends | write.depends
            draft.changed |= write.changed
            draft.wakes |= write.wakes
            draft.durable |= scope.durable
            draft.span += max(size, 1)
        return draft

    def _fetch(self, space: Space, seen: Seen, ids: set[int], places: set[tuple[str, str]]) -> None:
        """Brings what a change is about and the look did not bring."""
        if not (ids or places):
            return
        wanted = sorted(places)
        with self.link.explained(), self.link.client.pipeline(transaction=False) as pipe:
            for id in sorted(ids):
                pipe.hget(space.key("a"), f"{id:016d}")
            for name, session in wanted:
                pipe.hget(space.key("m", name), session)
            found = pipe.execute()
        for id, record in zip(sorted(ids), found, strict=False):
            if record is not None:
                seen.records[id] = record_of(record)
        for place, blob in zip(wanted, found[len(ids) :], strict=True):
            seen.known[place] = known_of(blob) if blob is not None else NOTHING

    def _apply(self, space: Space, draft: _Draft, sight: _Sight, turn: _Turn, tolerance: int) -> tuple[int, int]:
        if not draft.commands:
            return 1, draft.own.base
        if time.monotonic() > self._written.get(space.namespace, 0.0):
            # Now and then again, for a server that kept nothing when it was started again.
            self.link.client.sadd(f"{self.link.prefix}:namespaces", space.namespace)
            self._written[space.namespace] = time.monotonic() + _RECALL
        run = self.link.run_durable if draft.durable else self.link.run
        what, *moment = run(
            _APPLY,
            self._clock_of(space),
            space.tag,
            turn.name,
            draft.own.base,
            tolerance,
            turn.ticket,
            encode(list(draft.depends)),
            encode(list(draft.changed)),
            draft.own.mark,
            draft.span,
            "1" if draft.wakes else "0",
            sight.last,
            encode(draft.commands.sizes),
            b"".join(draft.commands.words),
            _LATE if self.link.cluster and self._clock is None else 0,
        )
        return int(what), int(moment[0]) if moment else 0

    def _alike(self, requests: Sequence[Request], draft: _Draft) -> bool:
        """Whether the steps would want the same a little later, so that their moment may be moved on."""
        for (_, step), answer, view in zip(requests, draft.answers, draft.views, strict=False):
            if view is None or not isinstance(answer, Applied):
                continue
            later = step(replace(view, now=view.now + _TOLERANCE))
            if _shape(later) != _shape(answer.change):
                return False
        return True

    def _moved(self, requests: Sequence[Request], draft: _Draft, shift: int) -> list[Applied | Exception]:
        """The answers at the moment at which they were applied: each step tells its ids by its view's now."""
        moved: list[Applied | Exception] = []
        for (_, step), answer, view in zip(requests, draft.answers, draft.views, strict=False):
            if view is None or not isinstance(answer, Applied):
                moved.append(answer)
                continue
            change = step(replace(view, now=view.now + shift))
            ids = tuple([id + shift for id in answer.ids])
            moved.append(Applied(change, ids, answer.now + shift))
        return moved

    # --- reading ---

    def _records(self, space: Space, ids: Sequence[bytes]) -> dict[int, Record]:
        if not ids:
            return {}
        found = self.link.client.hmget(space.key("a"), ids)
        return {int(id): record_of(blob) for id, blob in zip(ids, found, strict=True) if blob is not None}

    def _actions(self, space: Space, ids: Sequence[bytes]) -> list[Action]:
        """These actions, in this order; refused calls are left out."""
        return [
            record.action(id, space.namespace, self._probe)
            for id, record in self._records(space, ids).items()
            if record.opened
        ]

    def action(self, namespace: str, id: int) -> Action | None:
        space = self._space(namespace)
        with self.link.explained():
            for found, record in self._records(space, [f"{id:016d}".encode()]).items():
                return record.action(found, namespace, self._probe)
        return None

    def live(self, namespace: str | None, states: Sequence[State], key: str | None = None) -> list[Action]:
        wanted = LIVE.intersection(states)
        found: list[Action] = []
        with self.link.explained():
            for space in self._namespaces(namespace):
                ids = self.link.client.zrange(space.key("open"), 0, -1)
                found += [
                    action
                    for action in self._actions(space, ids)
                    if action.state in wanted and (key is None or any(own.name == key for own in action.keys))
                ]
        return sorted(found, key=lambda action: action.id)

    def recent(
        self,
        namespace: str,
        key: str | None = None,
        limit: int = 20,
        *,
        floor: int = 0,
        besides: Sequence[str] = (),
        within: int = 20_000,
    ) -> list[Action]:
        def wanted(action: Action) -> bool:
            return (
                action.tier >= floor
                and action.session not in besides
                and action.state not in (State.QUEUED, State.ASKED)
                and (key is None or (bool(action.keys) and action.keys[0].name == key))
            )

        with self.link.explained():
            space = self._space(namespace)
            return self._newest(space, space.key("ids"), self._floor(space, within), limit, wanted)

    def touched(self, namespace: str, sessions: Sequence[str], limit: int = 32) -> list[Action]:
        with self.link.explained():
            space = self._space(namespace)
            since = self._floor(space, LOOK_BACK)
            found = []
            for session in dict.fromkeys(sessions):
                ids = self.link.client.zrevrangebyscore(space.key("t", session), "+inf", since, 0, limit)
                found += [record.action(id, namespace, self._probe) for id, record in self._records(space, ids).items()]
        return sorted(found, key=lambda action: -action.id)[:limit]

    def _newest(
        self, space: Space, among: str, since: int, limit: int, wanted: Callable[[Action], bool]
    ) -> list[Action]:
        found: list[Action] = []
        at = 0
        while len(found) < limit:
            ids = self.link.client.zrevrangebyscore(among, "+inf", since, at, _PAGE)
            found += [action for action in self._actions(space, ids) if wanted(action)]
            at += len(ids)
            if len(ids) < _PAGE:
                break
        return found[:limit]

    def _floor(self, space: Space, within: int) -> int:
        """The moment of a namespace's ``within``-th newest entry, or of one a little newer; 0 if there are fewer."""
        client = self.link.client
        if client.xlen(space.key("log")) <= within:
            return 0
        if within <= _PAGE:
            found = client.xrevrange(space.key("log"), count=within)
            return int(found[-1][0].partition(b"-")[0])
        count = int(client.get(space.key("count")) or 0)
        stones = client.zrangebyscore(space.key("stones"), count - within, "+inf", 0, 1, withscores=True)
        return int(stones[0][0]) if stones else 0

    def nearby(self, namespace: str, sessions: Sequence[str], keys: Sequence[str]) -> list[Nearby]:
        space = self._space(namespace)
        mine = tuple(sessions)
        scope = Scope(namespace, mine[0] if mine else "", tuple(Key(key) for key in dict.fromkeys(keys)), live=True)
        with self.link.explained():
            (seen,) = self._look(space, [scope]).seen
            met: dict[str, dict[int, Action]] = {}
            for action in Look(seen, scope, 0, self._probe).actions:
                if action.session in mine:
                    continue
                for one in (one for key in keys for one in through(action, key)):
                    met.setdefault(one.key, {})[one.id] = one
            found: dict[int, Action] = {}
            for group in met.values():
                for action in _at_hand(group.values()):
                    found.setdefault(action.id, action)
            looks = self._looks(space, mine, {action.key for action in found.values()})
        near = [Nearby(action, looks.get(action.key, 0)) for action in found.values()]
        return sorted(near, key=lambda one: -(one.action.ended or one.action.started))

    def _looks(self, space: Space, sessions: Sequence[str], keys: Iterable[str]) -> dict[str, int]:
        """When one of these sessions last looked at a key, or acted on it, itself or through what covers it."""
        around = {key: _covers(key) for key in keys}
        names = sorted({name for group in around.values() for name in group})
        if not (names and sessions):
            return {}
        with self.link.client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hmget(space.key("m", name), list(sessions))
            answers = pipe.execute()
        seen: dict[str, int] = {}
        for name, blobs in zip(names, answers, strict=True):
            known = [known_of(blob) for blob in blobs if blob is not None]
            seen[name] = max((_last_look(one) for one in known), default=0)
        return {key: max(seen[name] for name in group) for key, group in around.items()}

    def underway(self, namespace: str, sessions: Sequence[str], floor: int, limit: int = 32) -> list[Action]:
        with self.link.explained():
            space = self._space(namespace)
            ids = self.link.client.zrevrange(space.key("open"), 0, _LIVE_LOOK - 1)
            return [
                action
                for action in self._actions(space, ids)
                if action.session in sessions or (action.tier >= floor and action.state in (State.OPEN, State.QUEUED))
            ][:limit]

    def kin(self, namespace: str, session: str) -> Kin:
        with self.link.explained():
            found = self.link.client.hmget(self._space(namespace).key("s", session), ["parent", "continues"])
        return Kin(*[(name or b"").decode() for name in found])

    def now(self) -> int:
        with self.link.explained():
            spaces = self._namespaces() if self.link.cluster else [self._space(DEFAULT_NAMESPACE)]
            last = max((int(self.link.client.get(self._clock_of(space)) or 0) for space in spaces), default=0)
            return max(self._today(), last)

    def _today(self) -> int:
        """Now by the clock."""
        if self._clock is not None:
            return self._clock()
        space = self._space(DEFAULT_NAMESPACE)
        return int(self._run(_TAIL, space, "", "-", "-", 1, "0")[0])

    def observing(self) -> int:
        read, until = self._observe
        if time.monotonic() - read < 1 and read:
            return until
        with self.link.explained():
            until = int(self.link.client.get(f"{self.link.prefix}:observe") or 0)
        self._observe = (time.monotonic(), until)
        return until

    def entries(
        self,
        *,
        after: int = 0,
        limit: int = 500,
        namespace: str | None = None,
        session: str | None = None,
        key: str | None = None,
        newest: bool = False,
    ) -> list[Entry]:
        found: list[Entry] = []
        with self.link.explained():
            # What comes later gets a later moment, so up to here everything is there already. In a cluster, where each
            # namespace has its own clock, that is so of what is a little older, in namespaces that are new too.
            horizon = _FOREVER
            if namespace is None:
                horizon = self._server_time() - _LATE if self.link.cluster else self._last()
            for space in self._namespaces(namespace):
                until, some = self._page(space, after, limit, session, key, newest=newest)
                if namespace is None and self.link.cluster:
                    horizon = min(horizon, until)
                found += some
        found = sorted((entry for entry in found if entry.seq <= horizon), key=lambda entry: entry.seq)
        if newest:
            return found[-limit:]
        # In a cluster two namespaces may share a moment: who goes on after it must have seen both.
        return (
            [entry for entry in found if entry.seq <= found[limit - 1].seq] if len(found) > limit > 0 else found[:limit]
        )

    def _last(self) -> int:
        """The last moment that was taken, on one server."""
        return int(self.link.client.get(f"{self.link.prefix}:clock") or 0)

    def _page(
        self, space: Space, after: int, limit: int, session: str | None, key: str | None, *, newest: bool
    ) -> tuple[int, list[Entry]]:
        """Entries of one namespace, and the moment up to which none can come any more, wherever others' clocks are."""
        low, high = (f"({after}" if after > 0 else "-"), "+"
        found: list[Entry] = []
        horizon = 0
        size = limit if session is None and key is None else max(limit, _PAGE)
        while len(found) < limit:
            now, last, rows = self._run(_TAIL, space, self._now(), low, high, size, "1" if newest else "0")
            horizon = horizon or max(int(last), int(now) - _LATE)
            entries = [entry_of(id, fields) for id, fields in rows]
            found += [
                entry
                for entry in entries
                if session in (None, entry.session)
                and (key is None or (bool(entry.keys) and entry.keys[0].name == key))
            ]
            if len(rows) < size:
                break
            if newest:
                high = f"({entries[-1].seq}"
            else:
                low = f"({entries[-1].seq}"
        return horizon, found[:limit]

    # --- upkeep ---

    def maintain(self, horizon: int, budget: int = 2000) -> int:
        gone = 0
        with self.link.explained():
            now = self.now()
            for space in self._namespaces():
                gone += self._forget_calls(space, now, budget)
                gone += self._forget_prints(space, horizon, budget)
                gone += self._forget_marks(space, horizon, budget)
                # Moments that no transaction of now can have looked before.
                self._trim(space.key("v"), now - HOUR, budget)
        return gone

    def _trim(self, name: str, until: int, budget: int) -> list[bytes]:
        """Removes the oldest members of a sorted set up to a moment; returns them."""
        old: list[bytes] = self.link.client.zrangebyscore(name, "-inf", f"({until}", 0, budget)
        if old:
            self.link.client.zrem(name, *old)
        return old

    def _forget_calls(self, space: Space, now: int, budget: int) -> int:
        return len(self._trim(space.key("calls"), now - REMEMBERED, budget))

    def _forget_prints(self, space: Space, horizon: int, budget: int) -> int:
        old = self._trim(space.key("prints"), horizon, budget)
        with self.link.client.pipeline(transaction=False) as pipe:
            for place in old:
                name, _, member = place.partition(b"\0")
                pipe.zrem(space.key("p", name.decode()), member)
            pipe.execute()
        return len(old)

    def _forget_marks(self, space: Space, horizon: int, budget: int) -> int:
        """Marks live as long as their session's last call plus the longest window.

        What must stay is gone past, so that a round costs its budget whatever has piled up.
        """
        client, gone, left = self.link.client, 0, budget
        name, passed = space.key("seen"), self._passed
        first = passed.get((space.namespace, ""), 0)
        old = client.zrangebyscore(name, "-inf", f"({horizon - HOUR}", first, budget)
        for session in (name.decode() for name in old):
            if left <= 0:
                break
            place = (space.namespace, session)
            start = passed.pop(place, 0)
            names = client.zrange(space.key("sk", session), start, start + left - 1)
            if names:
                went = int(self._run(_FORGET, space, session, *names))
                gone += went
                left -= len(names)
                passed[place] = start + len(names) - went
            elif not start:
                client.zrem(name, session)
                client.delete(space.key("s", session), space.key("u", session))
        passed[space.namespace, ""] = 0 if gone or len(old) < budget else first + len(old)
        return gone

    def take(
        self,
        until: int,
        horizon: int,
        limit: int = 5000,
        *,
        delete: bool = False,
        only: Collection[int] | None = None,
    ) -> list[Entry]:
        with self.link.explained():
            found: list[tuple[Space, Entry, Record | None]] = []
            spaces = self._namespaces()
            newest = [self._page(space, 0, 1, None, None, newest=True)[1] for space in spaces]
            last = max((entries[0].seq for entries in newest if entries), default=0)
            for space in spaces:
                found += self._free(space, until, horizon, limit, last)
            found = sorted(found, key=lambda row: row[1].seq)[:limit]
            if not delete:
                return [entry for _, entry, _ in found]
            for space in spaces:
                rows = [(e, r) for s, e, r in found if s is space and (only is None or e.seq in only)]
                for at in range(0, len(rows), _PAGE):
                    facts: list[bytes | str] = []
                    for entry, record in rows[at : at + _PAGE]:
                        facts += [
                            f"{entry.seq:016d}",
                            record.session if record else "",
                            record.call.hex() if record else "",
                        ]
                    self._run(_DROP, space, *facts)
        return []

    def _free(
        self, space: Space, until: int, horizon: int, limit: int, last: int
    ) -> list[tuple[Space, Entry, Record | None]]:
        """A namespace's oldest entries that nothing can ask for any more, with the actions they opened."""
        found: list[tuple[Space, Entry, Record | None]] = []
        after = 0
        while len(found) < limit:
            _, entries = self._page(space, after, _PAGE, None, None, newest=False)
            entries = [entry for entry in entries if entry.seq <= until and entry.seq != last]
            if not entries:
                break
            after = entries[-1].seq
            ids = sorted({id for entry in entries for id in (entry.seq, entry.action) if id})
            records = self._records(space, [f"{id:016d}".encode() for id in ids])
            calls = [record.call.hex() for record in records.values() if record.call]
            moments = self.link.client.zmscore(space.key("calls"), calls) if calls else []
            remembered = {call for call, moment in zip(calls, moments, strict=True) if moment is not None}
            for entry in entries:
                own, about = records.get(entry.seq), records.get(entry.action)
                if not (_wanted(own, remembered) or _wanted(about, remembered)) and not (
                    own is not None and own.opened and entry.seq >= horizon
                ):
                    found.append((space, entry, own))
        return found[:limit]

    def size(self) -> int:
        client = self.link.client
        with self.link.explained():
            return sum(
                int(client.memory_usage(space.key(name), samples=20) or 0)
                for space in self._namespaces()
                for name in ("log", "a", "v", "ids")
            )

    def check(self) -> Health:
        client = self.link.client
        with self.link.explained():
            spaces = self._namespaces()
            entries = sum(client.xlen(space.key("log")) for space in spaces)
            live = sum(client.zcard(space.key("open")) for space in spaces)
            last = max((int(client.get(self._clock_of(space)) or 0) for space in spaces), default=0)
            today = self._clock() if self._clock is not None else self._server_time()
        ahead = max(0, last - today) / SECOND
        problems = list(self.link.warnings)
        if ahead > 1:
            problems.append(f"the store's time is {ahead:.0f} s ahead of the clock: leases end that much later")
        return Health(self.link.engine, self.link.place, SCHEMA, entries, live, self.size(), 0, ahead, tuple(problems))

    def _server_time(self) -> int:
        seconds, micros = self.link.client.time(**({"target_nodes": "random"} if self.link.cluster else {}))
        return int(seconds) * SECOND + int(micros)


# --- words ----------------------------------------------------------------------------------------


def _depends(scope: Scope, seen: Seen) -> set[str]:
    """The names under which a change would be seen that matters to a scope."""
    names = looked_at(scope.keys, (scope.session, *seen.before))
    if scope.call is not None:
        names.add(of_call(scope.call))
    find = scope.find
    if find is not None:
        names.add(of_action(find.id) if find.id is not None else of_reports(scope.session))
    if scope.waits:
        names.add(QUEUE_NAME)
    return names


def _shape(change: Change) -> tuple[Any, ...]:
    """What a change does, without its moments and words."""
    opening = change.open
    return (
        [(entry.event, entry.verdict, entry.outcome, entry.keys) for entry in change.entries],
        opening and (opening.state, opening.supersedes, opening.lock),
        [(settle.action.id, settle.state) for settle in change.settles],
        [(move.key, move.mark.told, move.mark.told_kind) for move in change.moves],
    )


def _covers(key: str) -> list[str]:
    """A key and all that covers it."""
    return [key, *(name for name in above(key) if name[-1] == "/"), *([key[: key.index("|")]] if "|" in key else [])]


def _last_look(known: Known) -> int:
    return max(known.read, int(known.acts[0].id) if known.acts else 0)


def _wanted(record: Record | None, remembered: set[str]) -> bool:
    """Whether an action can still be asked for, whatever its age."""
    if record is None or not record.opened:
        return False
    return State(record.state) in LIVE or record.call.hex() in remembered


def _at_hand(actions: Collection[Action]) -> list[Action]:
    """Of others' actions on one key, newest first: the newest act of each session, and what is live."""
    each: dict[str, Action] = {}
    for action in actions:
        if acted(action):
            each.setdefault(action.session, action)
    acts = sorted(each.values(), key=lambda action: -(action.ended or action.started))
    lost = [action for action in actions if action.state is State.UNKNOWN]
    alive_ = [action for action in actions if action.state in LIVE and action.state is not State.UNKNOWN]
    return acts[:NEARBY] + alive_[:NEARBY] + lost[:NEARBY]
