"""Keys on which very many actions are open: what a view holds of them, so that no call pays for all of them.

A thousand sessions may have an action open on one key. Most of these actions are in a call's way in just the same
manner, so a view shows the newest of each sort and holds the others as numbers (``KeyView.more``). What an action
was opened with never changes, so a process remembers it and asks the store only for the ids that are open and for
the few actions that it shows.

Two actions are of one sort for a call if all that evidence depends on is the same: tier, mode, state, whether it is
a lock and whether its time has run out, how its content relates to the call's, and whose it is (the session's own,
an ancestor's, one's that waits for this session). Only rewording is compared with the shown actions alone.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import LAPSED, LATEST, Action, Asks, Content, Host, More, State
from callosum.rules.content import contrary
from callosum.stores.base import Probe

BOUND: Final = 32
"""With more open actions than this on a key, a view shows only some of them."""
_KEYS: Final = 64
"""Number of keys whose open actions a process remembers at most."""
_MOST: Final = 20_000
"""Number of actions that it remembers of one key at most."""
_OWN, _OTHER_RUN, _OTHER_PROCESS, _ANCESTOR, _WAITS, _LAPSED, _FIRST_RELATION = (1 << at for at in range(7))

Fetch = Callable[[Sequence[int]], Iterable[Action]]
"""Returns these actions as the store holds them now, as found through the key."""
_Sort = tuple[int, str, str, bool, bool]
_Relation = tuple[int, bytes | str | tuple[bytes, bytes]]
_Index = TypeVar("_Index", str, Host, _Relation)


class Asker(Struct, frozen=True, gc=False):
    """What a look knows of its call. ``family``: its session's ancestors; ``wanted``: who waits for what it holds."""

    session: str
    asks: Asks
    now: int
    family: Sequence[str]
    wanted: Sequence[str]
    probe: Probe


class Crowd:
    """The open actions of one key, as this process last saw them."""

    __slots__ = ("_actions", "_alike", "_hosts", "_sessions", "_soonest", "_sorts")

    def __init__(self) -> None:
        self._actions: dict[int, Action] = {}
        self._sorts: dict[_Sort, list[int]] = {}
        self._sessions: dict[str, set[int]] = {}
        self._alike: dict[_Relation, set[int]] = {}
        self._hosts: dict[Host, set[int]] = {}
        self._soonest = 0

    def __len__(self) -> int:
        return len(self._actions)

    def view(self, asker: Asker, ids: Sequence[int], fetch: Fetch) -> tuple[list[Action], tuple[More, ...]]:
        """Return which of the open actions ``ids`` a view shows, oldest first, and the others."""
        fresh = self._update(ids, fetch)
        special = self._special(asker)
        lapsed = self._lapsed(asker, fresh, fetch)
        for id in lapsed:
            special[id] = special.get(id, 0) | _LAPSED
        shown = set(lapsed[-LAPSED:])
        more: list[More] = []
        for sorted_ids, bits in self._groups(special):
            first = self._actions[sorted_ids[0]]
            whole = first.state is State.QUEUED or (first.state is State.ASKED and bits & _OWN)
            if whole or len(sorted_ids) <= LATEST + 1:
                shown.update(sorted_ids)
                continue
            shown.update(sorted_ids[-LATEST:], sorted_ids[:1])
            rest = [id for id in sorted_ids[1:-LATEST] if id not in shown]
            if rest:
                more.append(More(_sample(self._actions[rest[-1]], asker.asks.content), tuple(rest)))
        self._add(fetch([id for id in sorted(shown) if id not in fresh]))
        return [self._actions[id] for id in sorted(shown)], tuple(more)

    # --- what is open ---

    def _update(self, ids: Sequence[int], fetch: Fetch) -> set[int]:
        """Forget what is no longer open and learn what is new; return the ids that were fetched."""
        known = self._actions
        there = set(ids)
        for id in known.keys() - there:
            self._remove(known[id])
        new = [id for id in ids if id not in known]
        if new:
            self._add(fetch(new))
        return set(new)

    def _add(self, actions: Iterable[Action]) -> None:
        for action in actions:
            id = action.id
            old = self._actions.get(id)
            self._soonest = min(self._soonest, action.expires)
            if old is not None and _sort_of(old) == _sort_of(action):
                self._actions[id] = action
                continue
            if old is not None:
                self._remove(old)
            self._actions[id] = action
            insort(self._sorts.setdefault(_sort_of(action), []), id)
            self._sessions.setdefault(action.session, set()).add(id)
            for relation in _relations(action.content):
                self._alike.setdefault(relation, set()).add(id)
            if action.host is not None:
                self._hosts.setdefault(action.host, set()).add(id)

    def _remove(self, action: Action) -> None:
        id = action.id
        del self._actions[id]
        sort = _sort_of(action)
        self._sorts[sort].remove(id)
        if not self._sorts[sort]:
            del self._sorts[sort]
        _discard(self._sessions, action.session, id)
        for relation in _relations(action.content):
            _discard(self._alike, relation, id)
        if action.host is not None:
            _discard(self._hosts, action.host, id)

    def _lapsed(self, asker: Asker, fresh: set[int], fetch: Fetch) -> list[int]:
        """Return the ids of the actions whose time has run out, oldest first."""
        now = asker.now
        alive = {host: asker.probe(host) for host in self._hosts}
        dead = [id for host, ids in self._hosts.items() if alive[host] is False for id in ids]
        gone = {id for id in dead if self._actions[id].state is State.OPEN}
        if now >= self._soonest:
            due = [a for a in self._actions.values() if now >= _end(a, alive)]
            again = [a.id for a in due if a.id not in fresh]
            if again:  # they may have been renewed
                self._add(fetch(again))
                fresh.update(again)
                due = [a for a in self._actions.values() if now >= _end(a, alive)]
            gone.update(a.id for a in due)
            self._soonest = min((a.expires for a in self._actions.values()), default=now)
        return sorted(gone)

    # --- sorts ---

    def _special(self, asker: Asker) -> dict[int, int]:
        """Return how actions differ for this call from others of their sort: bits by id."""
        asks = asker.asks
        bits: dict[int, int] = {}
        for id in self._sessions.get(asker.session, ()):
            action = self._actions[id]
            other_run = asks.run and action.run and asks.run != action.run
            other_process = asks.host and action.host and asks.host != action.host
            bits[id] = _OWN | (_OTHER_RUN if other_run else 0) | (_OTHER_PROCESS if other_process else 0)
        for sessions, bit in ((asker.family, _ANCESTOR), (asker.wanted, _WAITS)):
            for session in sessions:
                for id in self._sessions.get(session, ()):
                    bits[id] = bits.get(id, 0) | bit
        for relation in _relations(replace(asks.content, stance=contrary(asks.content.stance))):
            for id in self._alike.get(relation, ()):
                bits[id] = bits.get(id, 0) | _FIRST_RELATION << relation[0]
        return bits

    def _groups(self, special: dict[int, int]) -> Iterator[tuple[list[int], int]]:
        """Yield the ids of each sort, oldest first, with its bits."""
        for ids in self._sorts.values():
            apart: dict[int, list[int]] = {}
            for id in sorted(special.keys() & ids) if special else ():
                apart.setdefault(special[id], []).append(id)
            if apart:
                plain = [id for id in ids if id not in special]
                if plain:
                    yield plain, 0
                for bits, group in apart.items():
                    yield group, bits
            else:
                yield ids, 0


class Crowds:
    """The crowded keys that a process remembers.

    A crowd is taken out while it is used, so that threads need no lock: another one meanwhile begins anew.
    """

    def __init__(self) -> None:
        self._crowds: dict[str, Crowd] = {}

    def forget(self) -> None:
        """Forget all: what was seen in a transaction that was undone never was."""
        self._crowds.clear()

    def take(self, name: str) -> Crowd:
        """Return what is remembered of a key."""
        return self._crowds.pop(name, None) or Crowd()

    def keep(self, name: str, crowd: Crowd) -> None:
        """Remember what was learnt of a key."""
        if len(self._crowds) >= _KEYS:
            self._crowds.clear()
        if len(crowd) <= _MOST:
            self._crowds[name] = crowd


# --- words ------------------------------------------------------------------------------------------


def _sort_of(action: Action) -> _Sort:
    return action.tier, action.mode.value, action.state.value, action.lock, action.content.repeats


def _relations(content: Content) -> list[_Relation]:
    """Return by what another content can be the same as this one, or contrary to it."""
    text = (content.words, content.numbers) if content.words else b""
    found: tuple[_Relation, ...] = (
        (0, content.digest),
        (1, content.whole),
        (2, content.origin),
        (3, content.stance),
        (4, text),
    )
    return [relation for relation in found if relation[1]]


def _end(action: Action, alive: dict[Host, bool | None]) -> int:
    """Return the moment at which the action's time runs out, as ``lapsed`` has it for a host that is not dead."""
    kept = action.host is not None and alive.get(action.host)
    return max(action.expires, action.limit) if kept else action.expires


def _sample(action: Action, content: Content) -> Action:
    """Return the action as one of its sort: without its text, unless that is the call's own."""
    theirs = action.content
    if not theirs.words or (theirs.words, theirs.numbers) == (content.words, content.numbers):
        return action
    return replace(action, content=replace(theirs, words=b""))


def _discard(index: dict[_Index, set[int]], at: _Index, id: int) -> None:
    found = index.get(at)
    if found is not None:
        found.discard(id)
        if not found:
            del index[at]
