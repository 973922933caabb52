"""Build a step's view from records: what can matter to the keys of its scope is read, and shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from callosum.model import MAX_KEPT, NO_KEY, Action, Find, Key, KeyView, Mode, Scope, State, View, overlap
from callosum.policy.commitments import lookup_keys
from callosum.stores import names
from callosum.stores.base import LATELY_SEARCHED, MAX_LATELY, SEARCHED_ENTRIES, Probe
from callosum.stores.crowd import AskingCall, Crowds
from callosum.stores.draft import Draft
from callosum.stores.key_views import KeyReader
from callosum.stores.keys import covering
from callosum.stores.records import ActionRecord, SessionRecord, happened, probed

GENERATIONS: Final = 16
"""Number of sessions up to which a chain of parents or predecessors is followed."""
_TWINS: Final = 8
"""Number of the newest actions with a digest that are read of other sessions, and of one's own, on a key."""
_READ: Final = Mode.READ  # an enum's attributes are slow
_DONE: Final = State.DONE
_IDS: Final = 1 << 63
_NOWHERE: Final = (Key("", Mode.READ),)
"""Stands for the keys of a call that has none."""


def wanted(scope: Scope) -> list[bytes]:
    """Return the names of the records that a view needs in any case."""
    space, find = scope.namespace, scope.find
    if find is not None and not scope.keys:
        return [names.action(space, find.id)] if find.id is not None and 0 < find.id < _IDS else []
    every = _looked_up(scope)
    for key in scope.keys or _NOWHERE:
        every += names.place(space, scope.session, key.name)
    return every


def _looked_up(scope: Scope) -> list[bytes]:
    """Return the names of the records that a call finds by its digests, and at last the one that its identity finds."""
    space = scope.namespace
    found = [names.print_of(space, key.name, print_) for key in scope.keys for print_ in scope.prints]
    return found if scope.call is None else [*found, names.call(space, scope.call)]


class ScopeReader:
    """One view of the store for one scope."""

    __slots__ = ("at", "crowds", "draft", "mine", "now", "probe", "record", "scope")

    def __init__(self, draft: Draft, scope: Scope, probe: Probe, crowds: Crowds) -> None:
        self.draft, self.scope, self.now, self.probe, self.crowds = draft, scope, draft.now, probe, crowds
        self.mine: SessionRecord | None = None
        """The session as it was noted; None if it need not be noted, as for a report."""
        self.record: ActionRecord | None = None
        """The action that the scope asks for; ``at`` is its name."""

    def view(self) -> View:
        """Return everything that the scope asks for."""
        draft, scope = self.draft, self.scope
        space, me, keys, find = scope.namespace, scope.session, scope.keys, scope.find
        if find is not None and not keys:
            found = self._found(find)
            repeated = self._superseded(found) if found is not None and found.supersedes else ()
            return View(self.now, (), None, found, (), (), (), repeated)
        prints: list[Any] = []
        if scope.prints:
            prints = draft.all(_looked_up(scope))
            earlier = 0
            if scope.call is not None:
                prints, earlier = prints[:-1], prints[-1]
        else:
            earlier = draft.get(names.call(space, scope.call)) if scope.call is not None else 0
        session = observe = None
        alone: list[KeyView] = []
        is_alone = not (scope.waits or scope.parent or scope.continues)
        for key in keys or _NOWHERE:
            session, observe, record, mark, *around = draft.all(names.place(space, me, key.name))
            if (
                (record and (record.live or record.sessions[1:] or record.sessions[0] != me))
                or any(around)
                or (key.name[-1:] == "/" and key.mode is not _READ)
            ):
                is_alone = False
                break
            if not mark:
                alone += (KeyView(key),)
            elif mark.acts:
                acted = mark.acts[0][0]
                alone += (KeyView(key, mark.mark, (), (), Action(acted, "", me, "", 0, _DONE, acted)),)
            else:
                alone += (KeyView(key, mark.mark),)
        self.mine = mine = session or _NOBODY
        if not is_alone or mine.parent or mine.continues:
            return self._whole(mine, observe or 0, earlier)
        before = self._earlier(earlier) if earlier else None
        found = self._found(find) if find is not None else None
        alike = self._twins() if prints and any(prints) else ()
        shown = tuple(alone) if keys else ()
        return View(self.now, shown, before, found, alike, (), (), (), observe or 0, self._bodies, self._lately)

    def _superseded(self, found: Action) -> tuple[Action, ...]:
        return tuple([record.action for record in self.draft.actions(self.scope.namespace, found.supersedes)])

    def _whole(self, mine: SessionRecord, observe: int, earlier: int) -> View:
        """Return everything that the scope asks for, where others use its keys too."""
        draft, scope, space = self.draft, self.scope, self.scope.namespace
        ancestors = chain(scope.parent or mine.parent, lambda name: draft.session(space, name).parent)
        before = chain(scope.continues or mine.continues, lambda name: draft.session(space, name).continues)
        waiters = self._wanted() if scope.waits else ()
        asker = None
        if scope.asks is not None and scope.live:
            asker = AskingCall(scope.session, scope.asks, self.now, ancestors, waiters, self.probe)
        keys = KeyReader(draft, scope, self.probe, self.crowds, before, asker).views()
        opened = self._earlier(earlier) if earlier else None
        found = self._found(scope.find) if scope.find is not None else None
        alike = self._twins() if scope.prints and scope.keys else ()
        lost = self._superseded(found) if found is not None else ()
        return View(self.now, keys, opened, found, alike, ancestors, waiters, lost, observe, self._bodies, self._lately)

    def _bodies(self, ids: Sequence[int]) -> dict[int, bytes]:
        return bodies(self.draft, self.scope.namespace, ids)

    # --- The rest ---

    def _earlier(self, id: int) -> Action | None:
        """Return the action that this call opened before, with the decision that was given."""
        record = self.draft.action(self.scope.namespace, id)
        if record is None:
            return None
        answer = self.draft.bodies(self.scope.namespace, (id,)).get(id, b"")
        return replace(probed(record.action, self.probe), answer=answer)

    def _found(self, find: Find) -> Action | None:
        draft, space = self.draft, self.scope.namespace
        if (id := find.id) is not None:
            at = names.action(space, id) if 0 < id < _IDS else b""
            record: ActionRecord | None = (draft.get(at) or None) if at else None
            if record is None:
                return None
            self.record, self.at, action = record, at, record.action
            return probed(action, self.probe) if action.host is not None else action
        me = self.scope.session
        ids = {*draft.open_of(space, me), *draft.opened(space, SEARCHED_ENTRIES, (me,))}
        mine = draft.actions(space, sorted(ids))
        return meant((probed(record.action, self.probe) for record in mine if record.opened), find)

    def _twins(self) -> tuple[Action, ...]:
        """Return the newest actions with one of the scope's digests on one of its keys, newest first."""
        draft, space, me = self.draft, self.scope.namespace, self.scope.session
        ids: set[int] = set()
        prints = [names.print_of(space, key.name, print_) for key in self.scope.keys for print_ in self.scope.prints]
        for found in draft.all(prints):
            if found:
                ids.update([id for id, session in found if session != me][:_TWINS])
                ids.update([id for id, session in found if session == me][:_TWINS])
        records = draft.actions(space, sorted(ids, reverse=True)) if ids else []
        return twins([(probed(record.action, self.probe), record.prints) for record in records], self.scope)

    def _wanted(self) -> tuple[str, ...]:
        """Return the sessions that wait for something this session holds, directly or through others."""
        draft, space, me = self.draft, self.scope.namespace, self.scope.session
        ids = [names.id_in(name) for name, _ in draft.under(names.named(b"q", space))]
        queued = [record.action for record in draft.actions(space, ids) if self.now < record.action.expires]
        waits = [(key.name, action.session) for action in queued for key in action.keys]
        if not any(session != me for _, session in waits):
            return ()
        sessions = {me, *(session for _, session in waits)}
        open_ = [one for session in sessions for one in draft.actions(space, draft.open_of(space, session))]
        held = [
            (key.name, record.action.session)
            for record in open_
            if record.action.state is State.OPEN
            for key in record.action.keys
        ]
        return waiting(held, waits, me)

    def _lately(self, session: str, limit: int = MAX_LATELY) -> list[Action]:
        found = touched(self.draft, self.scope.namespace, (session,), LATELY_SEARCHED, limit)
        return [probed(record.action, self.probe) for record in found]

    def last_look(self, key: str) -> int:
        """Return when the session last read a key or acted on it, directly or through a tree above."""
        space, me = self.scope.namespace, self.scope.session
        marks = [self.draft.mark(space, me, name) for name in covering(key)]
        return max([max(record.mark.read, record.acts[0][0] if record.acts else 0) for record in marks])


_NOBODY: Final = SessionRecord()


def bodies(draft: Draft, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
    """Return the bodies of the entries that opened these actions, as JSON, without those that are longer."""
    return {id: body for id, body in draft.bodies(namespace, ids).items() if len(body) <= MAX_KEPT}


def touched(draft: Draft, namespace: str, sessions: Sequence[str], within: int, limit: int) -> list[ActionRecord]:
    """Return the newest calls of these sessions, newest first, from the last entries. Refused calls are among them."""
    records = draft.actions(namespace, draft.opened(namespace, within, sessions, limit))
    return [record for record in records if record.action.keys]


# --- What needs no store ---------------------------------------------------------------------------------


def chain(first: str, link: Callable[[str], str]) -> tuple[str, ...]:
    """Return the sessions that a session descends from or continues, nearest first; ``link`` returns the next one."""
    found: list[str] = []
    while first and first not in found and len(found) < GENERATIONS:
        found.append(first)
        first = link(first)
    return tuple(found)


def twins(actions: Iterable[tuple[Action, Iterable[bytes]]], scope: Scope) -> tuple[Action, ...]:
    """Return the actions that have one of the scope's digests on one of its keys.

    Each of ``actions`` comes with its digests.
    """
    prints, names = set(scope.prints), {key.name for key in scope.keys}
    found = []
    for action, theirs in actions:
        if happened(action) and not prints.isdisjoint(theirs):
            on = (key for key in lookup_keys(action) if key.mode is not _READ and key.name in names)
            if (key := next(on, None)) is not None:
                found.append(replace(action, key=key.name, mode=key.mode))
    return tuple(found)


def waiting(held: Iterable[tuple[str, str]], queued: Iterable[tuple[str, str]], me: str) -> tuple[str, ...]:
    """Return the sessions that wait for something this session holds, directly or through others, trees included.

    ``held`` are the keys that this session and the waiters have open, and ``queued`` the keys that anyone waits for,
    each with its session.
    """
    waits, holds = list(queued), list(held)
    found: set[str] = set()
    holders = {me}
    while holders and waits:
        keys = [key for key, session in holds if session in holders]
        holders = {session for key, session in waits if any(overlap(key, mine) for mine in keys)} - found - {me}
        found |= holders
    return tuple(sorted(found))


def meant(actions: Iterable[Action], find: Find) -> Action | None:
    """Return the action that a report without an id means, among a session's unreported and unknown actions."""
    fits = sorted((a for a in actions if _fits(a, find)), key=lambda action: action.id, reverse=find.digest is None)
    running = (a for a in fits if a.state in (State.OPEN, State.DONE) and not a.ended)
    lost = (a for a in fits if a.state is State.UNKNOWN)
    return next(running, None) or next(lost, None)


def _fits(action: Action, find: Find) -> bool:
    if action.lock:
        return False
    if find.digest is not None:
        return action.content.digest == find.digest
    shown = [key.name for key in action.keys if not key.name.startswith(NO_KEY)]
    return find.key in shown if find.key else not shown
