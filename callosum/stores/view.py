"""Build a step's view from what a store fetched for a scope, for every engine.

An engine fetches in its own way everything that can matter to the scope, and possibly more. Nothing here asks it for
anything.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import (
    LATEST,
    NO_KEY,
    NO_MARK,
    Action,
    ActionGroup,
    Find,
    Key,
    KeyView,
    Mark,
    Mode,
    Scope,
    State,
    overlap,
    sees,
)
from callosum.policy.commitments import lookup_keys
from callosum.stores.keys import above, covering, span
from callosum.stores.records import ACTED, LIVE, acted, finished, happened

GENERATIONS: Final = 16
"""Number of sessions up to which a chain of parents or predecessors is followed."""
_READ, _WRITE, _APPEND = Mode.READ, Mode.WRITE, Mode.APPEND  # an enum's attributes are slow, and so is its hash
_LIVE: Final = tuple(LIVE)
_ACTED: Final = tuple(ACTED)
_NONE: Final[frozenset[int]] = frozenset()


class Fetched(Struct, frozen=True):
    """What can matter to the keys of a scope.

    ``acts`` holds actions by the key through which they are found, then by id. ``marks`` holds the marks of the scope's
    session and of those it continues, by key and session. ``before`` holds the sessions that it continues, nearest
    first. ``more`` holds open actions by key, grouped by sort; ``acts`` may lack them.

    An engine fetches this for each key of the scope, for every tree above it and for the key it is a facet of: live
    actions, the newest action of each other session that acted last, the newest one that counts if that one does not
    (``counts``), and this session's own newest action. It fetches the same for the keys below a tree that is not only
    read, and for a key's facets.
    """

    acts: dict[str, dict[int, Action]]
    marks: dict[tuple[str, str], Mark]
    before: Sequence[str] = ()
    more: dict[str, tuple[ActionGroup, ...]] = {}

    def on(self, key: str) -> dict[int, Action]:
        """Return the actions that were fetched on a key, so that more can be added."""
        found = self.acts.get(key)
        if found is None:
            found = self.acts[key] = {}
        return found

    def add(self, action: Action) -> None:
        """Add an action under the key through which it was found, ``action.key``."""
        self.on(action.key)[action.id] = action

    def names(self) -> list[str]:
        """Return the keys on which anything was fetched, sorted."""
        return sorted({*self.acts, *self.more} if self.more else self.acts)

    def sorted_ids(self, key: str) -> AbstractSet[int]:
        """Return the ids of the actions on a key that are grouped by sort."""
        sorts = self.more.get(key)
        return frozenset().union(*[more.ids for more in sorts]) if sorts else _NONE

    def newest(self, key: str) -> Sequence[Action]:
        """Return the actions that were fetched on a key, newest first."""
        found = self.acts.get(key, {})
        return [found[id] for id in sorted(found, reverse=True)]


def views(fetched: Fetched, scope: Scope) -> tuple[KeyView, ...]:
    """Return the views of the scope's keys."""
    names = fetched.names()
    return tuple([key_view(fetched, scope, key, names) for key in scope.keys])


def key_view(fetched: Fetched, scope: Scope, key: Key, names: Sequence[str]) -> KeyView:
    """Return the view of one key; ``names`` are the keys on which anything was fetched, sorted."""
    me, name, acts = scope.session, key.name, fetched.acts
    floor = scope.floor if key.mode is not _READ else 0
    around, below = related(key, names)
    live: list[Action] = []
    latest: list[Action] = []
    own = None
    for other in around:
        if found := acts.get(other):
            sorted_ = fetched.sorted_ids(other)
            first, hidden, mine = _sorted_out(found, me, key.mode, floor, live, sorted_)
            if hidden or len(first) > LATEST:
                first = _of_the_newest(first, hidden)
            latest += [action for action in first if action.id not in sorted_] if sorted_ else first
            if other == name:
                own = mine
    stale: dict[int, Action] = {}
    if below:
        every: list[Action] = []
        behind: dict[tuple[str, str], Action] = {}
        for other in below:
            first, hidden, mine = _sorted_out(acts.get(other, {}), me, key.mode, floor, live, fetched.sorted_ids(other))
            every += first
            behind.update(hidden)
            if first and key.mode is _WRITE:
                look = max(_mark(fetched, me, other, ()).read, mine.started if mine and finished(mine) else 0)
                if look:
                    stale.update((a.id, a) for a in first if not a.ended or a.ended > look)
        sorted_ = frozenset().union(*[fetched.sorted_ids(other) for other in below])
        latest += [action for action in _of_the_newest(every, behind) if action.id not in sorted_]
    mark, is_above = _mark(fetched, me, name), False
    if not mark.read and own is None and fetched.marks:
        # Reading a tree shows less of a key than reading the key itself.
        looked = _look_from_above(fetched, me, name)
        if looked:
            mark, is_above = replace(mark, read=looked), True
    more = _by_sort(fetched, (*around, *below), live, latest) if fetched.more else ()
    if len(live) > 1:
        live.sort(key=_id)
    if len(latest) > 1:
        latest.sort(key=_changed, reverse=True)
    return KeyView(
        key,
        mark,
        tuple(live) if scope.live else (),
        tuple(latest),
        own,
        tuple([stale[id] for id in sorted(stale, reverse=True)[:LATEST]]) if stale else (),
        is_above,
        more,
    )


def _by_sort(
    fetched: Fetched, names: Sequence[str], live: list[Action], latest: list[Action]
) -> tuple[ActionGroup, ...]:
    """Return the open actions grouped by sort, and remove them from ``live`` and ``latest``.

    An action that is found through several of the keys stays, and is shown in full through each of them.
    """
    sorts = [(name, more) for name in names for more in fetched.more.get(name, ())]
    if not sorts:
        return ()
    shown = [action.id for action in (*live, *latest)]
    ids = set().union(shown, *[more.ids for _, more in sorts])
    if len(ids) == len(shown) + sum([len(more.ids) for _, more in sorts]):
        return tuple([more for _, more in sorts])
    places = {(id, name) for name, more in sorts for id in more.ids}
    live[:] = [action for action in live if (action.id, action.key) not in places]
    latest[:] = [action for action in latest if (action.id, action.key) not in places]
    places.update([(action.id, action.key) for action in (*live, *latest)])
    times = Counter([id for id, _ in places])
    found: list[ActionGroup] = []
    for _, more in sorts:
        once = tuple([action for action in more.actions if times[action.id] == 1])
        if len(once) < len(more.ids):
            live += [action for action in more.actions if times[action.id] > 1]
        if once:
            found.append(replace(more, action=once[-1], ids=tuple([action.id for action in once]), actions=once))
    order = {name: place for place, name in enumerate(names)}
    live.sort(key=lambda action: order[action.key])
    return tuple(found)


def related(key: Key, names: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the keys that make up the view of a key: itself and what covers it, and those of ``names`` that it covers.

    A session that only reads a tree is not shown the keys in it, which may be a million.
    """
    name = key.name
    if not names or (len(names) == 1 and names[0] == name):
        return names, ()
    around = covering(name)
    if name[-1] != "/":
        low, high = name + "|", name + "}"
    elif key.mode is _READ:
        return around, ()
    else:
        low, high = span(name)
    return around, [other for other in names[bisect_left(names, low) : bisect_left(names, high)] if other != name]


def counts(action: Action, asking: Mode, floor: int) -> bool:
    """Return True if this action hides its session's older actions on the key."""
    return action.tier >= floor and not asking is action.mode is _APPEND


def _sorted_out(
    actions: dict[int, Action], me: str, asking: Mode, floor: int, live: list[Action], sorted_: AbstractSet[int]
) -> tuple[list[Action], dict[tuple[str, str], Action], Action | None]:
    """Sort the actions on one key, by id; add live ones to ``live`` unless they are in ``sorted_``.

    Return each other session's newest action, the newest one that counts behind it by key and session, and the own
    newest.
    """
    first: list[Action] = []
    hidden: dict[tuple[str, str], Action] = {}
    own = None
    seen: dict[str, bool] = {}
    for id in sorted(actions, reverse=True):
        action = actions[id]
        state = action.state
        if state in _LIVE and id not in sorted_:
            live.append(action)
        if state not in _ACTED or action.lock or action.mode is _READ:
            continue  # the same action as ``acted``
        session = action.session
        if session == me:
            own = own or action
        elif session not in seen:
            seen[session] = not floor or counts(action, asking, floor)
            first.append(action)
        elif not seen[session] and counts(action, asking, floor):
            seen[session] = True
            hidden[action.key, session] = action
    return first, hidden, own


def _of_the_newest(first: list[Action], hidden: dict[tuple[str, str], Action]) -> list[Action]:
    """Return the actions that changed last, with those that they hide."""
    if len(first) > LATEST:
        first = sorted(first, key=_changed, reverse=True)[:LATEST]
    if hidden:
        return first + [hidden[place] for action in first if (place := (action.key, action.session)) in hidden]
    return first


def _mark(fetched: Fetched, me: str, name: str, before: Sequence[str] | None = None) -> Mark:
    """Return a session's mark on a key, with what it inherits from sessions it continues and reads of the whole."""
    marks = fetched.marks
    mark = marks.get((name, me), NO_MARK)
    read = mark.read
    bar = name.find("|")
    if bar >= 0:
        read = max(read, marks.get((name[:bar], me), NO_MARK).read)
    for predecessor in fetched.before if before is None else before:
        theirs = marks.get((name, predecessor), NO_MARK)
        if not mark.notified and theirs.notified:
            mark = replace(theirs, notified_call=b"")
        acts = (a for a in fetched.newest(name) if a.session == predecessor and acted(a))
        newest = next(acts, None)
        read = max(read, theirs.read, newest.started if newest is not None and finished(newest) else 0)
    return replace(mark, read=read) if read != mark.read else mark


def _look_from_above(fetched: Fetched, me: str, name: str) -> int:
    """Return the session's last read of a tree that shows the key."""
    marks = fetched.marks
    looks = [mark.read for tree in above(name) if (mark := marks.get((tree, me))) and sees(tree, name)]
    return max(looks, default=0)


def _changed(action: Action) -> int:
    return action.ended or action.started


def _id(action: Action) -> int:
    return action.id


# --- The rest of a view --------------------------------------------------------------------------------


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


def waiting_among(actions: Iterable[Action], now: int, me: str) -> tuple[str, ...]:
    """Return the sessions that wait for something session ``me`` holds, as ``waiting`` does, from live actions."""
    live = list(actions)
    held = [(key.name, a.session) for a in live if a.state is State.OPEN for key in a.keys]
    queued = [(key.name, a.session) for a in live if a.state is State.QUEUED and now < a.expires for key in a.keys]
    return waiting(held, queued, me)


def meant(actions: Iterable[Action], find: Find) -> Action | None:
    """Return the action that a report without an id means, among a session's unreported and unknown actions."""
    fits = sorted((a for a in actions if _fits(a, find)), key=_id, reverse=find.digest is None)
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
