"""A store in this process's memory: the model that the other stores are compared with.

Everything is found by searching everything, under one lock. A transaction that fails is undone by restoring the
dictionaries. That is slow and easy to believe. Nothing outlives the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from callosum.model import (
    HOUR,
    MAX_KEPT,
    NO_MARK,
    SECOND,
    Action,
    Applied,
    Change,
    Entry,
    Find,
    Key,
    Mark,
    Mode,
    Move,
    Scope,
    Settle,
    State,
    View,
)
from callosum.policy.commitments import COMMITTED, is_in_force, lookup_keys
from callosum.process import alive
from callosum.stores.base import (
    KEY_IN_USE,
    LATELY_SEARCHED,
    MAX_LATELY,
    SEARCHED_ENTRIES,
    Ancestry,
    Clock,
    NearbyAction,
    Probe,
    Request,
    StoreCheck,
)
from callosum.stores.crowd import AskingCall, Crowds, hold_by_sort
from callosum.stores.keys import covering
from callosum.stores.neighbours import around
from callosum.stores.records import LIVE, REMEMBERED, Record, acted, finished, happened, is_farewell, probed
from callosum.stores.view import Fetched, chain, meant, twins, views, waiting_among
from callosum.stores.writes import about, kept, revised, settled, takes_back

_Place = tuple[str, str, str]
"""Namespace, session and key of a mark."""


class _Session(Struct, frozen=True):
    seen: int = 0
    parent: str = ""
    continues: str = ""


class _Held(Struct):
    """All that the store holds. ``reads`` are a mark's reads: the time, and the action that read.

    ``crowds`` is derived from these actions, so a copy begins without it.
    """

    entries: dict[int, Entry]
    acts: dict[int, Record]
    marks: dict[_Place, Mark]
    reads: dict[_Place, tuple[tuple[int, int], ...]]
    sessions: dict[tuple[str, str], _Session]
    observe: int = 0
    crowds: Crowds = field(default_factory=Crowds)

    def copy(self) -> _Held:
        return _Held(
            dict(self.entries), dict(self.acts), dict(self.marks), dict(self.reads), dict(self.sessions), self.observe
        )

    def touched(self, namespace: str, sessions: Sequence[str], within: int) -> list[Record]:
        """Return the calls of these sessions among the newest entries, newest first."""
        newest = set(sorted(self.entries, reverse=True)[:within])
        return [
            act
            for id, act in sorted(self.acts.items(), reverse=True)
            if id in newest and act.action.namespace == namespace and act.action.session in sessions and act.action.keys
        ]

    def bodies(self, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies of these entries."""
        found = {id: msgspec.json.encode(self.entries[id].body) for id in ids if id in self.entries}
        return {id: body for id, body in found.items() if len(body) <= MAX_KEPT}


class MemoryStore:
    """A store for tests and for sessions of one process. ``clock`` and ``probe`` are as in the contract."""

    transient = True

    def __init__(self, *, clock: Clock = lambda: time.time_ns() // 1000, probe: Probe = alive) -> None:
        self._clock = clock
        self._probe = probe
        self._held = _Held({}, {}, {}, {}, {})
        self._gates: dict[str, int] = {}
        self._lock = threading.Lock()

    # --- Transactions ----------------------------------------------------------------------------

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        with self._lock:
            return [self._run(scope, step) for scope, step in requests]

    def _run(self, scope: Scope, step: Callable[[View], Change]) -> Applied | Exception:
        before = self._held.copy()
        try:
            view = _Look(self._held, scope, self._now(), self._probe).view()
            return _apply(self._held, scope, step(view), view)
        except Exception as error:  # noqa: BLE001 - it fails alone; the caller gets it as the request's answer
            self._held = before
            return error

    def _now(self) -> int:
        return max(self._clock(), max(self._held.entries, default=0) + 1)

    # --- Reading ---------------------------------------------------------------------------------

    def action(self, namespace: str, id: int) -> Action | None:
        with self._lock:
            act = self._held.acts.get(id)
            return self._shown(act) if act is not None and act.action.namespace == namespace else None

    def live(self, namespace: str | None, states: Sequence[State], key: str | None = None) -> list[Action]:
        with self._lock:
            return [
                self._shown(act)
                for id, act in sorted(self._held.acts.items())
                if act.opened
                and act.action.state in LIVE.intersection(states)
                and namespace in (None, act.action.namespace)
                and (key is None or key in _names(act.action.keys))
            ]

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
        with self._lock:
            newest = set(sorted(self._held.entries, reverse=True)[:within])
            return [
                self._shown(act)
                for id, act in sorted(self._held.acts.items(), reverse=True)
                if act.opened
                and id in newest
                and act.action.namespace == namespace
                and act.action.tier >= floor
                and act.action.session not in besides
                and act.action.state not in (State.QUEUED, State.ASKED)
                and (key is None or _names(act.action.keys)[:1] == [key])
            ][:limit]

    def touched(self, namespace: str, sessions: Sequence[str], limit: int = 32) -> list[Action]:
        with self._lock:
            return [self._shown(act) for act in self._held.touched(namespace, sessions, SEARCHED_ENTRIES)[:limit]]

    def nearby(self, namespace: str, sessions: Sequence[str], keys: Sequence[str]) -> list[NearbyAction]:
        with self._lock:
            looks = [
                _Look(self._held, Scope(namespace, session), self._now(), self._probe) for session in sessions or ("",)
            ]
            found = around(looks[0].fetched(""), keys, sessions)
            nearby = [NearbyAction(action, max(look.last_look(action.key) for look in looks)) for action in found]
            return sorted(nearby, key=lambda one: -(one.action.ended or one.action.started))

    def underway(self, namespace: str, sessions: Sequence[str], floor: int, limit: int = 32) -> list[Action]:
        with self._lock:
            return [
                self._shown(act)
                for _, act in sorted(self._held.acts.items(), reverse=True)
                if act.opened
                and act.action.namespace == namespace
                and act.action.state in LIVE
                and (
                    act.action.session in sessions
                    or (act.action.tier >= floor and act.action.state in (State.OPEN, State.QUEUED))
                )
            ][:limit]

    def commitments(self, namespace: str | None, keys: Sequence[str] | None = None) -> list[Action]:
        with self._lock:
            now = self._now()
            return [
                self._shown(act)
                for _, act in sorted(self._held.acts.items())
                if namespace in (None, act.action.namespace)
                and COMMITTED in act.prints
                and is_in_force(act.action, now)
                and (keys is None or not set(keys).isdisjoint(_names(lookup_keys(act.action))))
            ]

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        with self._lock:
            here = [id for id in ids if id in self._held.entries and self._held.entries[id].namespace == namespace]
            return self._held.bodies(here)

    def farewells(self, namespace: str, limit: int = 20) -> list[Entry]:
        with self._lock:
            newest = sorted(self._held.entries.items(), reverse=True)[:SEARCHED_ENTRIES]
        return [entry for _, entry in newest if entry.namespace == namespace and is_farewell(entry)][:limit]

    def kin(self, namespace: str, session: str) -> Ancestry:
        with self._lock:
            known = self._held.sessions.get((namespace, session), _Session())
            return Ancestry(known.parent, known.continues)

    def _shown(self, act: Record) -> Action:
        return probed(act.action, self._probe)

    def observing(self) -> int:
        return self._held.observe

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
        with self._lock:
            found = [
                entry
                for seq, entry in sorted(self._held.entries.items())
                if seq > after
                and namespace in (None, entry.namespace)
                and session in (None, entry.session)
                and (key is None or _names(entry.keys)[:1] == [key])
            ]
        return found[-limit:] if newest else found[:limit]

    # --- Upkeep ----------------------------------------------------------------------------------

    def maintain(self, horizon: int, budget: int = 2000) -> int:
        with self._lock:
            held, now = self._held, self._now()
            calls = [id for id, act in held.acts.items() if act.call and id < now - REMEMBERED][:budget]
            for id in calls:
                held.acts[id] = replace(held.acts[id], call=b"")
            prints = [
                id
                for id, act in held.acts.items()
                if act.prints
                and act.action.state not in LIVE
                and _dated(act.action) < horizon
                and not is_in_force(act.action, now)
            ][:budget]
            for id in prints:
                held.acts[id] = replace(held.acts[id], prints=())
            live = {
                (act.action.namespace, act.action.session, name)
                for act in held.acts.values()
                if act.action.state in LIVE
                for name in _names(act.action.keys)
            }  # their marks stay: what is live does not age
            marks = [p for p in held.marks if self._last(p) + HOUR < horizon and p not in live][:budget]
            for place in marks:
                del held.marks[place]
                held.reads.pop(place, None)
            return len(calls) + len(prints) + len(marks)

    def _last(self, place: _Place) -> int:
        """Return the time of the last call of the mark's session."""
        namespace, session, _ = place
        return self._held.sessions.get((namespace, session), _Session()).seen

    def take(
        self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: Collection[int] | None = None
    ) -> list[Entry]:
        with self._lock:
            last = max(self._held.entries, default=0)  # the newest entry stays, so that time does not run backwards
            found = [
                entry
                for seq, entry in sorted(self._held.entries.items())
                if seq <= until and seq != last and not self._wanted(entry, horizon)
            ][:limit]
            if not delete:
                return found
            for entry in found:
                if only is None or entry.seq in only:
                    del self._held.entries[entry.seq]
                    self._held.acts.pop(entry.seq, None)
        return []

    def _wanted(self, entry: Entry, horizon: int) -> bool:
        """Return True if an entry, or the action it is about, can still be asked for."""
        for act in (self._held.acts.get(entry.seq), self._held.acts.get(entry.action)):
            if act is None or not act.opened:
                continue
            if act.action.state in LIVE or act.call:
                return True
            if act.action.id == entry.seq and (
                _dated(act.action) >= horizon
                or is_in_force(act.action, self._now())
                or self._matters(act.action, horizon)
            ):
                return True
        return False

    def register(self, fingerprint: str) -> int:
        with self._lock:
            self._gates[fingerprint] = self._now()
            return self._keys()

    def _keys(self) -> int:
        since = self._now() - KEY_IN_USE
        return sum(1 for at in self._gates.values() if at > since)

    def _matters(self, action: Action, horizon: int) -> bool:
        """Return True if an old action changed a key after an active session read it, or is such a read."""
        space = action.namespace

        def goes_on(session: str) -> bool:
            return self._last((space, session, "")) + HOUR >= horizon

        for key in _names(key for key in action.keys if key.mode is not Mode.READ):
            newest = self._newest(space, key)
            if newest.pop(action.session, None) != action:
                continue
            looks = [other.started for other in newest.values() if finished(other) and goes_on(other.session)]
            looks += [
                mark.read
                for (in_, who, name), mark in self._held.marks.items()
                if (in_, name) == (space, key) and who != action.session and mark.read and goes_on(who)
            ]
            if any(look < _dated(action) for look in looks):
                return True
            if finished(action) and goes_on(action.session):
                changes = (other.state in LIVE or _dated(other) > action.started for other in newest.values())
                if any(changes):
                    return True
        return False

    def _newest(self, namespace: str, key: str) -> dict[str, Action]:
        """Return each session's newest action on a key."""
        acts = (act.action for _, act in sorted(self._held.acts.items()) if act.opened)
        return {a.session: a for a in acts if a.namespace == namespace and happened(a) and _writes(a, key)}

    def size(self) -> int:
        with self._lock:
            return sum(len(msgspec.json.encode(entry)) for entry in self._held.entries.values())

    def now(self) -> int:
        with self._lock:
            return max(self._clock(), max(self._held.entries, default=0))

    def prove(self) -> None:
        """Do nothing: memory takes what is written."""

    def accept(self, *, proven: bool = False) -> str:  # noqa: ARG002 - memory is never replaced
        return ""

    def check(self) -> StoreCheck:
        with self._lock:
            last = max(self._held.entries, default=0)
            live = [act for act in self._held.acts.values() if act.opened and act.action.state in LIVE]
            ahead = max(0, last - self._clock()) / SECOND
            entries = len(self._held.entries)
            return StoreCheck("memory", "this process", 0, entries, len(live), 0, 0, ahead, content_keys=self._keys())

    def close(self) -> None:
        """Do nothing, because there is nothing to close."""


# --- Views ------------------------------------------------------------------------------------------


class _Look:
    """One consistent view of everything, for one scope."""

    def __init__(self, held: _Held, scope: Scope, now: int, probe: Probe) -> None:
        self.held = held
        self.scope = scope
        self.now = now
        mine = [act for act in held.acts.values() if act.action.namespace == scope.namespace and act.opened]
        self.acts = sorted(
            (replace(act, action=probed(act.action, probe)) for act in mine), key=lambda act: -act.action.id
        )
        self.actions = [act.action for act in self.acts]
        """Newest first."""
        self.probe = probe

    def view(self) -> View:
        scope, held = self.scope, self.held
        known = held.sessions.get((scope.namespace, scope.session), _Session())
        found = self._found(scope.find) if scope.find is not None else None
        repeated = found.supersedes if found is not None else ()
        fetched = self.fetched(scope.continues or known.continues)
        ancestors = chain(scope.parent or known.parent, lambda name: self._session(name).parent)
        wanted = waiting_among(self.actions, self.now, self.scope.session) if scope.waits else ()
        if scope.asks is not None and scope.live:
            asker = AskingCall(scope.session, scope.asks, self.now, ancestors, wanted, self.probe)
            hold_by_sort(fetched, scope, asker, held.crowds, f"{scope.namespace}\0")
        return View(
            now=self.now,
            keys=views(fetched, scope),
            earlier=next((act.action for act in self.acts if scope.call is not None and act.call == scope.call), None),
            found=found,
            twins=twins(((act.action, act.prints) for act in self.acts), scope),
            ancestors=ancestors,
            wanted=wanted,
            superseded=tuple(action for action in self.actions if action.id in repeated),
            observe_until=held.observe,
            bodies=held.bodies,
            lately=lambda session, limit=MAX_LATELY: [
                probed(act.action, self.probe)
                for act in held.touched(scope.namespace, (session,), LATELY_SEARCHED)[:limit]
            ],
        )

    def fetched(self, continues: str) -> Fetched:
        """Return every action on every key, and every mark."""
        space = self.scope.namespace
        marks = {(key, who): mark for (in_, who, key), mark in self.held.marks.items() if in_ == space}
        fetched = Fetched({}, marks, chain(continues, lambda name: self._session(name).continues))
        for act in self.acts:
            for key in act.action.keys:
                fetched.add(replace(self._with_params(act), key=key.name, mode=key.mode))
        return fetched

    def _with_params(self, act: Record) -> Action:
        """Return an approved question with the params it may run with. Nobody is shown the answers of others."""
        mine = act.action.approved > 0 and act.action.session == self.scope.session
        return replace(act.action, answer=act.params if mine else b"")

    def _session(self, name: str) -> _Session:
        return self.held.sessions.get((self.scope.namespace, name), _Session())

    def last_look(self, key: str) -> int:
        """Return when the session last read a key or acted on it, directly or through a tree above."""
        fetched, me = self.fetched(""), self.scope.session
        over = covering(key)
        acts = [a.started for name in over for a in fetched.newest(name) if a.session == me and acted(a)]
        return max([fetched.marks.get((name, me), NO_MARK).read for name in over] + acts)

    def _found(self, find: Find) -> Action | None:
        if find.id is None:
            return meant((action for action in self.actions if action.session == self.scope.session), find)
        act = self.held.acts.get(find.id)
        if act is None or act.action.namespace != self.scope.namespace:
            return None
        return probed(act.action, self.probe)


# --- Applying ---------------------------------------------------------------------------------------


def _apply(held: _Held, scope: Scope, change: Change, view: View) -> Applied:
    for settle in change.settles:
        _settle(held, settle)
    for revision in change.revisions:
        held.acts[revision.action.id] = revised(held.acts[revision.action.id], revision)
    if change.observe_until is not None:
        held.observe = change.observe_until
    ids = tuple(range(view.now, view.now + len(change.entries)))
    for id, entry in zip(ids, change.entries, strict=True):
        own = id == ids[-1] and change.open is not None
        body = msgspec.json.encode(entry.body)
        held.entries[id] = replace(
            about(entry, held.acts.get(entry.action)),
            seq=id,
            action=id if own else entry.action,
            body=msgspec.json.decode(body),
        )
        if id == ids[-1] and (record := kept(id, change, scope)) is not None:
            answer = body if entry.body else b""
            held.acts[id] = replace(record, action=replace(record.action, answer=answer))
    _move(held, scope, change.moves, ids[-1] if change.open is not None else 0)
    if ids:
        old = held.sessions.get((scope.namespace, scope.session), _Session())
        held.sessions[scope.namespace, scope.session] = _Session(
            view.now, scope.parent or old.parent, scope.continues or old.continues
        )
    return Applied(change, ids, view.now)


def _move(held: _Held, scope: Scope, moves: Sequence[Move], id: int) -> None:
    reading = {key.name for key in scope.keys if key.mode is Mode.READ}
    for move in moves:
        place = (scope.namespace, scope.session, move.key)
        before = held.marks.get(place, NO_MARK).read
        held.marks[place] = move.mark
        if move.mark.read > before:
            by = id if move.key in reading else 0
            held.reads[place] = (*held.reads.get(place, ()), (move.mark.read, by))


def _settle(held: _Held, settle: Settle) -> None:
    before = held.acts[settle.action.id]
    action = before.action
    held.acts[action.id] = settled(before, settle)
    for key in action.keys if takes_back(before, settle) else ():
        place = (action.namespace, action.session, key.name)
        reads = tuple(read for read in held.reads.get(place, ()) if read[1] != action.id)
        if reads != held.reads.get(place, ()):
            held.reads[place] = reads
            held.marks[place] = replace(held.marks[place], read=max((read[0] for read in reads), default=0))


# --- Helpers ----------------------------------------------------------------------------------------


def _names(keys: Iterable[Key]) -> list[str]:
    return [key.name for key in keys]


def _dated(action: Action) -> int:
    """Return the time of the action as evidence: its report, otherwise when it can no longer be running."""
    return max(action.id, action.ended or action.expires)


def _writes(action: Action, key: str) -> bool:
    return any(own.name == key and own.mode is not Mode.READ for own in action.keys)
