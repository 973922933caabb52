"""From what ``look.lua`` brought to the view of a step.

The script brings whatever can matter to a scope, and a little more; the view is found in it by going through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import (
    LATEST,
    NO_KEY,
    NO_MARK,
    Action,
    Find,
    Key,
    KeyView,
    Mark,
    Mode,
    More,
    Scope,
    State,
    View,
    reach,
    sees,
)
from callosum.policy.commitments import found_on
from callosum.stores.base import Probe
from callosum.stores.crowd import BOUND
from callosum.stores.redis.names import above, span
from callosum.stores.redis.records import NOTHING, Known, Record, answer_in, encode, known_of, record_of

LIVE: Final = frozenset({State.QUEUED, State.ASKED, State.OPEN, State.UNKNOWN})
_ACTED: Final = frozenset({State.OPEN, State.DONE, State.UNKNOWN})


class Seen(Struct):
    """What was brought for one scope. ``names``: the keys of which this session's part was looked for.

    ``crowds``: the ids of all open actions of keys with very many, of which ``more`` is what is not shown.
    """

    parents: list[str]
    before: list[str]
    known: dict[tuple[str, str], Known]
    records: dict[int, Record]
    earlier: int | None
    answer: bytes
    unreported: list[int]
    names: set[str]
    crowds: dict[str, list[int]] = {}
    more: dict[str, tuple[More, ...]] = {}


def asked(scope: Scope) -> list[Any]:
    """A scope as ``look.lua`` reads it."""
    names = [key.name for key in scope.keys]
    related = dict.fromkeys(name for key in names for name in above(key))
    related.update((name[: name.index("|")], None) for name in names if "|" in name)
    find = scope.find
    return [
        scope.session,
        names,
        list(related),
        [(*span(key.name), key.mode is Mode.WRITE) for key in scope.keys if key.name[-1:] == "/"],
        [print_.hex() for print_ in scope.prints],
        scope.call.hex() if scope.call is not None else "",
        f"{find.id:016d}" if find is not None and find.id is not None else "",
        find is not None and find.id is None,
        scope.waits,
        scope.live,
        scope.parent,
        scope.continues,
        BOUND if scope.asks is not None else 0,
    ]


def packed(scopes: Iterable[Scope]) -> bytes:
    """Scopes as ``look.lua`` reads them."""
    return encode([asked(scope) for scope in scopes])


def brought(answer: Sequence[Any]) -> Seen:
    """What ``look.lua`` answers for one scope."""
    parents, before, docs, acts, earlier, line, unreported, names, crowds = answer
    return Seen(
        [name.decode() for name in parents],
        [name.decode() for name in before],
        {(docs[i].decode(), docs[i + 1].decode()): known_of(docs[i + 2]) for i in range(0, len(docs), 3)},
        {int(acts[i]): record_of(acts[i + 1]) for i in range(0, len(acts), 2)},
        int(earlier) if earlier else None,
        answer_in(line) if line else b"",
        [int(id) for id in unreported],
        {name.decode() for name in names},
        {crowds[i].decode(): [int(id) for id in crowds[i + 1].split(b",")] for i in range(0, len(crowds), 2)},
    )


class Look:
    """One consistent look, for one scope."""

    def __init__(self, seen: Seen, scope: Scope, now: int, probe: Probe) -> None:
        self.seen = seen
        self.scope = scope
        self.now = now
        space = scope.namespace
        self.all = {id: record.action(id, space, probe) for id, record in seen.records.items()}
        self.actions = [self.all[id] for id in sorted(self.all, reverse=True) if seen.records[id].opened]
        """Newest first."""

    def view(self, observe: int) -> View:
        """The view; ``observe`` is until when the whole gate only observes."""
        scope, seen = self.scope, self.seen
        found = self._found(scope.find) if scope.find is not None else None
        repeated = found.supersedes if found is not None else ()
        return View(
            self.now,
            tuple([self._key(key) for key in scope.keys]),
            self._earlier(),
            found,
            self._twins() if scope.prints else (),
            tuple(seen.parents),
            self.waiting() if scope.waits else (),
            tuple([action for action in self.actions if action.id in repeated]) if repeated else (),
            observe,
        )

    # --- one key ---

    def _key(self, key: Key) -> KeyView:
        me = self.scope.session
        met = [seen for action in self.actions for seen in through(action, key.name)] if self.actions else []
        own = next((a for a in met if a.session == me and a.key == key.name and acted(a)), None)
        mark, is_above = self._mark(key.name, self.seen.before), False
        if not mark.read and own is None:
            looked = self._from_above(key.name)
            if looked:
                mark, is_above = replace(mark, read=looked), True
        return KeyView(
            key,
            mark,
            self._live(met) if self.scope.live else (),
            self._latest(key, met),
            own,
            self._stale(key, met),
            is_above,
            self._more(key.name) if self.seen.more else (),
        )

    def _more(self, key: str) -> tuple[More, ...]:
        met = (
            more for name, more in self.seen.more.items() if name == key or is_below(name, key) or is_below(key, name)
        )
        return tuple([one for more in met for one in more])

    def _live(self, met: Sequence[Action]) -> tuple[Action, ...]:
        live = sorted((action for action in met if action.state in LIVE), key=lambda action: action.id)
        return tuple([self._with_params(a) if a.approved > 0 and a.session == self.scope.session else a for a in live])

    def _with_params(self, action: Action) -> Action:
        """An approved question with the params it may run with."""
        params = self.seen.records[action.id].params
        return replace(action, answer=params) if params else action

    def _latest(self, key: Key, met: Sequence[Action]) -> tuple[Action, ...]:
        """Each other session's newest act on each key, and its newest that counts where that is older."""
        me, floor = self.scope.session, self.scope.floor
        others = [action for action in met if action.session != me and acted(action)]
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
        found: dict[int, Action] = {}
        seen: set[tuple[str, str]] = set()
        for action in met:
            if action.session == self.scope.session or not acted(action) or not is_below(action.key, key.name):
                continue
            if (action.session, action.key) in seen:
                continue
            seen.add((action.session, action.key))
            look = max(self._mark(action.key, ()).read, self._own_look(action.key))
            if look and (not action.ended or action.ended > look):
                found.setdefault(action.id, action)
        return tuple([found[id] for id in sorted(found, reverse=True)][:LATEST])

    def _own_look(self, key: str) -> int:
        """The session's newest act on a key as a look at it: finished in time, as of its intercept."""
        newest = self._newest(self.scope.session, key)
        return newest.started if newest is not None and _finished(newest) else 0

    def _newest(self, session: str, key: str) -> Action | None:
        for act in self.seen.known.get((key, session), NOTHING).acts:
            if int(act.id) in self.all:
                return self.all[int(act.id)]
        return None

    def _mark(self, key: str, predecessors: Sequence[str]) -> Mark:
        """The session's mark on a key, with what its predecessors know and its looks at what the key is a facet of."""
        known, me = self.seen.known, self.scope.session
        mine = known.get((key, me))
        mark = mine.mark if mine is not None else NO_MARK
        read = max(mark.read, known.get((key.partition("|")[0], me), NOTHING).read)
        for predecessor in predecessors:
            theirs = known.get((key, predecessor), NOTHING).mark
            if not mark.told and theirs.told:
                mark = replace(theirs, told_call=b"")
            read = max(read, theirs.read)
            written = self._newest(predecessor, key)
            if written is not None and _finished(written):
                read = max(read, written.started)
        return replace(mark, read=read) if read != mark.read else mark

    def _from_above(self, key: str) -> int:
        """The session's last look at a tree that sees the key."""
        me = self.scope.session
        trees = (tree for tree in above(key) if tree[-1] == "/" and sees(tree, key))
        return max((self.seen.known.get((tree, me), NOTHING).read for tree in trees), default=0)

    # --- the rest of a view ---

    def _earlier(self) -> Action | None:
        action = self.all.get(self.seen.earlier) if self.seen.earlier is not None else None
        return replace(action, answer=self.seen.answer) if action is not None else None

    def _twins(self) -> tuple[Action, ...]:
        prints, names = set(self.scope.prints), {key.name for key in self.scope.keys}
        found = []
        for action in self.actions:
            if acted(action, any_key=True) and not prints.isdisjoint(self.seen.records[action.id].prints):
                on = (key for key in found_on(action) if key.mode is not Mode.READ and key.name in names)
                key = next(on, None)
                if key is not None:
                    found.append(replace(action, key=key.name, mode=key.mode))
        return tuple(found)

    def waiting(self) -> tuple[str, ...]:
        """The sessions that wait for something this one holds."""
        me = self.scope.session
        mine = [key for a in self.actions if a.session == me and a.state is State.OPEN for key in a.keys]
        waiting = (a for a in self.actions if a.session != me and a.state is State.QUEUED and self.now < a.expires)
        return tuple(sorted({a.session for a in waiting if any(through(a, key.name) for key in mine)}))

    def _found(self, find: Find) -> Action | None:
        if find.id is not None:
            return self.all.get(find.id)
        meant = [
            action
            for id in sorted(self.seen.unreported, reverse=find.digest is None)
            if (action := self.all.get(id)) is not None and not action.lock and _meant(action, find)
        ]
        running = [a for a in meant if a.state in (State.OPEN, State.DONE) and not a.ended]
        lost = [a for a in meant if a.state is State.UNKNOWN]
        return next(iter(running + lost), None)


# --- words ----------------------------------------------------------------------------------------


def is_below(name: str, above_: str) -> bool:
    """Whether a key is a part of another: of a tree, or a facet of a key."""
    tree = reach(above_)
    return (bool(tree) and name.startswith(tree) and name != above_) or name.startswith(above_ + "|")


def through(action: Action, key: str) -> list[Action]:
    """The action as it is seen through a key, once for each of its own keys that meets it."""
    return [
        replace(action, key=own.name, mode=own.mode) if own.name != action.key else action
        for own in action.keys
        if own.name == key or is_below(own.name, key) or is_below(key, own.name)
    ]


def acted(action: Action, *, any_key: bool = False) -> bool:
    """Whether the action is evidence: it did or may have done something, and not only read."""
    return action.state in _ACTED and not action.lock and (any_key or action.mode is not Mode.READ)


def _finished(action: Action) -> bool:
    return action.state is State.DONE and 0 < action.ended <= action.expires


def _meant(action: Action, find: Find) -> bool:
    if find.digest is not None:
        return action.content.digest == find.digest
    shown = [key.name for key in action.keys if not key.name.startswith(NO_KEY)]
    return find.key in shown if find.key else not shown
