"""A store in this process's memory: the model that the others are compared with.

Everything is looked up by going through everything, under one lock, and a transaction that fails is
undone by going back to the dictionaries as they were. So it is slow and easy to believe. Nothing
outlives the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callosum.model import (
    DAY,
    HOUR,
    LATEST,
    NO_KEY,
    NO_MARK,
    SECOND,
    Action,
    Applied,
    Change,
    Content,
    Entry,
    Event,
    Find,
    Key,
    KeyView,
    Mark,
    Mode,
    Move,
    Opening,
    Scope,
    Settle,
    State,
    Verdict,
    View,
    reach,
    sees,
)
from callosum.policy.commitments import COMMITTED, counts, found_on
from callosum.process import alive
from callosum.stores.base import KEY_USED, LOOK_BACK, NEARBY, Clock, Health, Kin, Nearby, Probe, Request

REMEMBERED: Final = DAY
"""How long the identity of a call is remembered."""
_LIVE: Final = frozenset({State.QUEUED, State.ASKED, State.OPEN, State.UNKNOWN})
_ACTED: Final = frozenset({State.OPEN, State.DONE, State.UNKNOWN})
_TAKEN_BACK: Final = frozenset({State.FAILED, State.CANCELLED})

_Place = tuple[str, str, str]
"""Namespace, session and key of a mark."""


class _Act(Struct, frozen=True):
    """An action with what the store alone knows of it. ``opened`` is False for a refused call."""

    action: Action
    opened: bool
    call: bytes | None = None
    prints: tuple[bytes, ...] = ()
    params: bytes | None = None


class _Session(Struct, frozen=True):
    seen: int = 0
    parent: str = ""
    continues: str = ""


class _Held(Struct):
    """All that the store holds. ``reads`` are a mark's reads: the moment, and the action that read."""

    entries: dict[int, Entry]
    acts: dict[int, _Act]
    marks: dict[_Place, Mark]
    reads: dict[_Place, tuple[tuple[int, int], ...]]
    sessions: dict[tuple[str, str], _Session]
    observe: int = 0

    def copy(self) -> _Held:
        return _Held(
            dict(self.entries), dict(self.acts), dict(self.marks), dict(self.reads), dict(self.sessions), self.observe
        )


class MemoryStore:
    """A store for tests and for sessions of one process. ``clock`` and ``probe`` as in the contract."""

    lasting: ClassVar[bool] = False
    """What is decided leaves no trace on the disk, so neither does its daily log."""

    def __init__(self, *, clock: Clock = lambda: time.time_ns() // 1000, probe: Probe = alive) -> None:
        self._clock = clock
        self._probe = probe
        self._held = _Held({}, {}, {}, {}, {})
        self._gates: dict[str, int] = {}
        self._lock = threading.Lock()

    # --- transact --------------------------------------------------------------------------------

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        with self._lock:
            return [self._run(scope, step) for scope, step in requests]

    def _run(self, scope: Scope, step: Callable[[View], Change]) -> Applied | Exception:
        before = self._held.copy()
        try:
            view = _Look(self._held, scope, self._now(), self._probe).view()
            return _apply(self._held, scope, step(view), view)
        except Exception as error:  # noqa: BLE001 - it fails alone, and is handed to the one who asked
            self._held = before
            return error

    def _now(self) -> int:
        return max(self._clock(), max(self._held.entries, default=0) + 1)

    # --- reading ---------------------------------------------------------------------------------

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
                and act.action.state in _LIVE.intersection(states)
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
            newest = set(sorted(self._held.entries, reverse=True)[:LOOK_BACK])
            return [
                self._shown(act)
                for id, act in sorted(self._held.acts.items(), reverse=True)
                if id in newest
                and act.action.namespace == namespace
                and act.action.session in sessions
                and act.action.keys
            ][:limit]

    def nearby(self, namespace: str, sessions: Sequence[str], keys: Sequence[str]) -> list[Nearby]:
        with self._lock:
            looks = [
                _Look(self._held, Scope(namespace, session), self._now(), self._probe) for session in sessions or ("",)
            ]
            others = [action for action in looks[0].actions if action.session not in sessions]
            met: dict[str, dict[int, Action]] = {}
            for action in others:
                for seen in (seen for key in keys for seen in _through(action, Key(key))):
                    met.setdefault(seen.key, {})[seen.id] = seen
            found: dict[int, Action] = {}
            for group in met.values():
                for action in _at_hand(group.values()):
                    found.setdefault(action.id, action)
            nearby = [Nearby(action, max(look.last_look(action.key) for look in looks)) for action in found.values()]
            return sorted(nearby, key=lambda one: -(one.action.ended or one.action.started))

    def underway(self, namespace: str, sessions: Sequence[str], floor: int, limit: int = 32) -> list[Action]:
        with self._lock:
            return [
                self._shown(act)
                for _, act in sorted(self._held.acts.items(), reverse=True)
                if act.opened
                and act.action.namespace == namespace
                and act.action.state in _LIVE
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
                and counts(act.action, now)
                and (keys is None or not set(keys).isdisjoint(_names(found_on(act.action))))
            ]

    def kin(self, namespace: str, session: str) -> Kin:
        with self._lock:
            known = self._held.sessions.get((namespace, session), _Session())
            return Kin(known.parent, known.continues)

    def _shown(self, act: _Act) -> Action:
        first = act.action.keys[0] if act.action.keys else Key("")
        return replace(_probed(act.action, self._probe), key=first.name, mode=first.mode)

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

    # --- upkeep ----------------------------------------------------------------------------------

    def maintain(self, horizon: int, budget: int = 2000) -> int:
        with self._lock:
            held, now = self._held, self._now()
            calls = [id for id, act in held.acts.items() if act.call and id < now - REMEMBERED][:budget]
            for id in calls:
                held.acts[id] = replace(held.acts[id], call=None)
            prints = [
                id
                for id, act in held.acts.items()
                if act.prints
                and act.action.state not in _LIVE
                and _dated(act.action) < horizon
                and not counts(act.action, now)
            ][:budget]
            for id in prints:
                held.acts[id] = replace(held.acts[id], prints=())
            marks = [place for place in held.marks if self._last(place) + HOUR < horizon][:budget]
            for place in marks:
                del held.marks[place]
                held.reads.pop(place, None)
            return len(calls) + len(prints) + len(marks)

    def _last(self, place: _Place) -> int:
        """The last call of the session whose mark it is."""
        namespace, session, _ = place
        return self._held.sessions.get((namespace, session), _Session()).seen

    def take(
        self,
        until: int,
        horizon: int,
        limit: int = 5000,
        *,
        delete: bool = False,
        only: Collection[int] | None = None,
    ) -> list[Entry]:
        with self._lock:
            last = max(self._held.entries, default=0)  # it stays, so that time does not run backwards
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
        """Whether an entry, or the action it speaks of, can still be asked for."""
        for act in (self._held.acts.get(entry.seq), self._held.acts.get(entry.action)):
            if act is None or not act.opened:
                continue
            if act.action.state in _LIVE or act.call is not None:
                return True
            if act.action.id == entry.seq and (
                _dated(act.action) >= horizon or counts(act.action, self._now()) or self._matters(act.action, horizon)
            ):
                return True
        return False

    def register(self, fingerprint: str) -> int:
        with self._lock:
            self._gates[fingerprint] = self._now()
            return self._keys()

    def _keys(self) -> int:
        since = self._now() - KEY_USED
        return sum(1 for at in self._gates.values() if at > since)

    def _matters(self, action: Action, horizon: int) -> bool:
        """Whether an act of long ago is a change that somebody who goes on looked before, or the look before one."""
        space = action.namespace

        def goes_on(session: str) -> bool:
            return self._last((space, session, "")) + HOUR >= horizon

        for key in _names(key for key in action.keys if key.mode is not Mode.READ):
            newest = self._newest(space, key)
            if newest.pop(action.session, None) != action:
                continue
            looks = [other.started for other in newest.values() if _finished(other) and goes_on(other.session)]
            looks += [
                mark.read
                for (in_, who, name), mark in self._held.marks.items()
                if (in_, name) == (space, key) and who != action.session and mark.read and goes_on(who)
            ]
            if any(look < _dated(action) for look in looks):
                return True
            if _finished(action) and goes_on(action.session):
                changes = (other.state in _LIVE or _dated(other) > action.started for other in newest.values())
                if any(changes):
                    return True
        return False

    def _newest(self, namespace: str, key: str) -> dict[str, Action]:
        """Each session's newest act on a key."""
        acts = (act.action for _, act in sorted(self._held.acts.items()) if act.opened)
        return {a.session: a for a in acts if a.namespace == namespace and _acts(a) and _writes(a, key)}

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

    def check(self) -> Health:
        with self._lock:
            last = max(self._held.entries, default=0)
            live = [act for act in self._held.acts.values() if act.opened and act.action.state in _LIVE]
            ahead = max(0, last - self._clock()) / SECOND
            entries = len(self._held.entries)
            return Health("memory", "this process", 0, entries, len(live), 0, 0, ahead, content_keys=self._keys())

    def close(self) -> None:
        """Has nothing to close."""


# --- looking ----------------------------------------------------------------------------------------


class _Look:
    """One consistent look at everything, for one scope."""

    def __init__(self, held: _Held, scope: Scope, now: int, probe: Probe) -> None:
        self.held = held
        self.scope = scope
        self.now = now
        self.probe = probe
        mine = [act for act in held.acts.values() if act.action.namespace == scope.namespace and act.opened]
        self.acts = sorted(
            (replace(act, action=_probed(act.action, probe)) for act in mine), key=lambda act: -act.action.id
        )
        self.actions = [act.action for act in self.acts]
        """Newest first."""

    def view(self) -> View:
        scope, held = self.scope, self.held
        known = held.sessions.get((scope.namespace, scope.session), _Session())
        found = self._found(scope.find) if scope.find is not None else None
        repeated = found.supersedes if found is not None else ()
        return View(
            now=self.now,
            keys=tuple(self._key(key, scope.continues or known.continues) for key in scope.keys),
            earlier=self._earlier(),
            found=found,
            twins=tuple(_first_of(self._twins())),
            ancestors=self._chain(scope.parent or known.parent, "parent"),
            wanted=self._waiting_for_mine() if scope.waits else (),
            superseded=tuple(action for action in self.actions if action.id in repeated),
            observe_until=held.observe,
        )

    # one key

    def _key(self, key: Key, continues: str) -> KeyView:
        met = [seen for action in self.actions for seen in _through(action, key)]
        own = next((a for a in met if a.session == self.scope.session and a.key == key.name and _acted(a)), None)
        mark, above = self._mark(key.name, self._chain(continues, "continues")), False
        if not mark.read and own is None:
            mark = replace(mark, read=self._from_above(key.name))
            above = mark.read > 0
        return KeyView(
            key=key,
            mark=mark,
            live=self._live(met),
            latest=self._latest(key, met),
            own=own,
            stale=self._stale(key, met),
            above=above,
        )

    def _live(self, met: Iterable[Action]) -> tuple[Action, ...]:
        if not self.scope.live:
            return ()
        live = [self._with_params(action) for action in met if action.state in _LIVE]
        return tuple(sorted(live, key=lambda action: action.id))

    def _with_params(self, action: Action) -> Action:
        """An approved question with the params it may run with; the answers of the others are not shown here."""
        mine = action.approved > 0 and action.session == self.scope.session
        return replace(action, answer=(self.held.acts[action.id].params or b"") if mine else b"")

    def _latest(self, key: Key, met: Sequence[Action]) -> tuple[Action, ...]:
        """Each other session's newest act on each key, and its newest that counts where that is older."""
        others = [action for action in met if action.session != self.scope.session and _acted(action)]
        floor = self.scope.floor
        counting = [a for a in others if floor and a.tier >= floor and not key.mode is a.mode is Mode.APPEND]
        chosen: dict[int, Action] = {}
        for pool in (others, counting):
            seen: set[tuple[str, str]] = set()
            for action in pool:
                if (action.session, action.key) not in seen:
                    seen.add((action.session, action.key))
                    chosen.setdefault(action.id, action)
        return tuple(sorted(chosen.values(), key=lambda a: -(a.ended or a.started))[:LATEST])

    def _stale(self, key: Key, met: Sequence[Action]) -> tuple[Action, ...]:
        """Each other session's newest change of a thing below a tree that this session had looked at before it."""
        if key.mode is not Mode.WRITE:
            return ()
        found = []
        seen: set[tuple[str, str]] = set()
        for action in met:
            if action.session == self.scope.session or not _acted(action) or not _below(action.key, key.name):
                continue
            if (action.session, action.key) in seen:
                continue
            seen.add((action.session, action.key))
            look = max([self._mark(action.key, ()).read, *self._own_looks(action.key)])
            if look and (not action.ended or action.ended > look):
                found.append(action)
        return tuple(_first_of(found)[:LATEST])

    def _own_looks(self, key: str) -> list[int]:
        """The session's newest act on a key as a look at it: finished in time, as of its intercept."""
        mine = (
            seen
            for action in self.actions
            for seen in _through(action, Key(key))
            if seen.key == key and seen.session == self.scope.session and _acted(seen)
        )
        newest = next(mine, None)
        return [newest.started] if newest is not None and _finished(newest) else []

    def last_look(self, key: str) -> int:
        """When the session last looked at a key, or acted on it, itself or through a tree above."""
        acts = [
            seen.started
            for action in self.actions
            for seen in _through(action, Key(key))
            if action.session == self.scope.session and _acted(seen) and (seen.key == key or _below(key, seen.key))
        ]
        space = (self.scope.namespace, self.scope.session)
        above = [mark.read for (*at, name), mark in self.held.marks.items() if tuple(at) == space and _below(key, name)]
        return max([self._mark(key, ()).read, *above, *acts])

    def _mark(self, key: str, predecessors: Sequence[str]) -> Mark:
        """The session's mark on a key, with what its predecessors know and its looks at what the key is a facet of."""
        namespace, session = self.scope.namespace, self.scope.session
        mark = self.held.marks.get((namespace, session, key), NO_MARK)
        read = max(mark.read, self.held.marks.get((namespace, session, key.partition("|")[0]), NO_MARK).read)
        for predecessor in predecessors:
            theirs = self.held.marks.get((namespace, predecessor, key), NO_MARK)
            if not mark.told and theirs.told:
                mark = replace(theirs, told_call=b"")
            read = max(read, theirs.read)
            written = next(
                (a for a in self.actions if a.session == predecessor and _acted(a) and _writes(a, key)), None
            )
            if written is not None and _finished(written):
                read = max(read, written.started)
        return replace(mark, read=read) if read != mark.read else mark

    def _from_above(self, key: str) -> int:
        """The session's last look at a tree that sees the key."""
        looks = [
            mark.read
            for (in_, who, name), mark in self.held.marks.items()
            if (in_, who) == (self.scope.namespace, self.scope.session) and sees(name, key)
        ]
        return max(looks, default=0)

    # the rest of a view

    def _earlier(self) -> Action | None:
        call = self.scope.call
        return next((act.action for act in self.acts if call is not None and act.call == call), None)

    def _twins(self) -> list[Action]:
        return [
            replace(act.action, key=key.name, mode=key.mode)
            for act in self.acts
            if set(act.prints).intersection(self.scope.prints) and _acted(act.action)
            for key in found_on(act.action)
            if key.mode is not Mode.READ and key.name in _names(self.scope.keys)
        ]

    def _chain(self, name: str, link: str) -> tuple[str, ...]:
        chain: list[str] = []
        while name and name not in chain and len(chain) < 16:
            chain.append(name)
            name = getattr(self.held.sessions.get((self.scope.namespace, name), _Session()), link)
        return tuple(chain)

    def _waiting_for_mine(self) -> tuple[str, ...]:
        mine = [a for a in self.actions if a.session == self.scope.session and a.state is State.OPEN]
        waiting = [
            a
            for a in self.actions
            if a.session != self.scope.session and a.state is State.QUEUED and self.now < a.expires
        ]
        return tuple(sorted({w.session for w in waiting for m in mine if any(_through(w, key) for key in m.keys)}))

    def _found(self, find: Find) -> Action | None:
        if find.id is not None:
            act = self.held.acts.get(find.id)
            if act is None or act.action.namespace != self.scope.namespace:
                return None
            first = act.action.keys[0] if act.action.keys else Key("")
            return replace(_probed(act.action, self.probe), key=first.name, mode=first.mode)
        mine = [a for a in self.actions if a.session == self.scope.session and not a.lock and self._meant(a, find)]
        if find.digest is not None:
            mine.reverse()
        running = [a for a in mine if a.state in (State.OPEN, State.DONE) and not a.ended]
        lost = [a for a in mine if a.state is State.UNKNOWN]
        return next(iter(running + lost), None)

    def _meant(self, action: Action, find: Find) -> bool:
        if find.digest is not None:
            return action.content.digest == find.digest
        shown = [name for name in _names(action.keys) if not name.startswith(NO_KEY)]
        return find.key in shown if find.key else not shown


# --- applying ---------------------------------------------------------------------------------------


def _apply(held: _Held, scope: Scope, change: Change, view: View) -> Applied:
    for settle in change.settles:
        _settle(held, settle)
    for revision in change.revisions:
        act = held.acts[revision.action.id]
        held.acts[revision.action.id] = replace(act, action=replace(act.action, content=revision.content))
    if change.observe_until is not None:
        held.observe = change.observe_until
    ids = tuple(range(view.now, view.now + len(change.entries)))
    for id, entry in zip(ids, change.entries, strict=True):
        own = id == ids[-1] and change.open is not None
        body = msgspec.json.encode(entry.body)
        held.entries[id] = replace(
            _about(held, entry), seq=id, action=id if own else entry.action, body=msgspec.json.decode(body)
        )
        if id == ids[-1]:
            _keep(held, scope, change, id, body if entry.body else b"")
    _move(held, scope, change.moves, ids[-1] if change.open is not None else 0)
    if ids:
        old = held.sessions.get((scope.namespace, scope.session), _Session())
        held.sessions[scope.namespace, scope.session] = _Session(
            view.now, scope.parent or old.parent, scope.continues or old.continues
        )
    return Applied(change, ids, view.now)


def _about(held: _Held, entry: Entry) -> Entry:
    """An entry about an action: tool, tier and keys are the action's."""
    act = held.acts.get(entry.action)
    if act is None:
        return entry
    return replace(entry, tool=act.action.tool, tier=act.action.tier, keys=act.action.keys)


def _keep(held: _Held, scope: Scope, change: Change, id: int, answer: bytes) -> None:
    """Makes the decision's own entry an action, or a refused call that a person may still approve."""
    entry, opening = change.entries[-1], change.open
    refused = opening is None and entry.event is Event.INTERCEPT
    if opening is None and not refused:
        return
    opening = opening or Opening(State.ASKED, 0, content=change.content or Content())
    acts = opening.state in (State.OPEN, State.DONE)
    held.acts[id] = _Act(
        Action(
            id,
            entry.namespace,
            entry.session,
            entry.tool,
            entry.tier or 0,
            opening.state,
            id,
            expires=opening.expires,
            limit=opening.limit,
            run=entry.run,
            rule=entry.rule,
            lock=opening.lock,
            host=opening.host,
            content=opening.content,
            keys=entry.keys,
            supersedes=opening.supersedes,
            verdict=entry.verdict or Verdict.ALLOW,
            answer=answer,
        ),
        opened=not refused,
        call=scope.call if acts else None,
        prints=tuple(print_ for print_ in opening.prints if print_) if acts else (),
        params=opening.params,
    )


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
    act = held.acts[settle.action.id]
    action = replace(
        act.action,
        state=settle.state,
        ended=settle.ended,
        expires=act.action.expires if settle.expires is None else settle.expires,
        approved=act.action.approved if settle.approved is None else settle.approved,
    )
    held.acts[action.id] = replace(act, action=action, opened=True)
    if settle.state not in _TAKEN_BACK:
        return
    for key in action.keys if act.action.state is not State.QUEUED else ():
        place = (action.namespace, action.session, key.name)
        reads = tuple(read for read in held.reads.get(place, ()) if read[1] != action.id)
        if reads != held.reads.get(place, ()):
            held.reads[place] = reads
            held.marks[place] = replace(held.marks[place], read=max((read[0] for read in reads), default=0))


# --- words ------------------------------------------------------------------------------------------


def _names(keys: Iterable[Key]) -> list[str]:
    return [key.name for key in keys]


def _below(name: str, above: str) -> bool:
    """Whether a key is a part of another: of a tree, or a facet of a key."""
    tree = reach(above)
    in_tree = bool(tree) and name.startswith(tree) and name != above
    return in_tree or name.startswith(above + "|")


def _through(action: Action, key: Key) -> list[Action]:
    """The action as it is seen through a key, once for each of its own keys that meets it."""
    return [
        replace(action, key=own.name, mode=own.mode)
        for own in action.keys
        if own.name == key.name or _below(own.name, key.name) or _below(key.name, own.name)
    ]


def _acts(action: Action) -> bool:
    """Whether the action did or may have done something, on whichever of its keys."""
    return action.state in _ACTED and not action.lock


def _acted(action: Action) -> bool:
    """Whether the action is evidence: it did or may have done something, and not only read."""
    return _acts(action) and action.mode is not Mode.READ


def _dated(action: Action) -> int:
    """The moment of the action as evidence: its report's; without one, that at which it can no longer be running."""
    return max(action.id, action.ended or action.expires)


def _writes(action: Action, key: str) -> bool:
    return any(own.name == key and own.mode is not Mode.READ for own in action.keys)


def _finished(action: Action) -> bool:
    return action.state is State.DONE and 0 < action.ended <= action.expires


def _at_hand(actions: Iterable[Action]) -> list[Action]:
    """Of others' actions on one key, newest first: the newest act of each session, and what is live."""
    each: dict[str, Action] = {}
    for action in actions:
        if _acted(action):
            each.setdefault(action.session, action)
    acts = sorted(each.values(), key=lambda action: -(action.ended or action.started))
    lost = [action for action in actions if action.state is State.UNKNOWN]
    live = [action for action in actions if action.state in _LIVE and action.state is not State.UNKNOWN]
    return acts[:NEARBY] + live[:NEARBY] + lost[:NEARBY]


def _first_of(actions: Iterable[Action]) -> list[Action]:
    """Each action once, newest first."""
    found: dict[int, Action] = {}
    for action in actions:
        found.setdefault(action.id, action)
    return [found[id] for id in sorted(found, reverse=True)]


def _probed(action: Action, probe: Probe) -> Action:
    known: Any = probe(action.host) if action.host is not None and action.state is State.OPEN else None
    return replace(action, alive=known)
