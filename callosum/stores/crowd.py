"""The open actions on a key, grouped by sort, so that a decision costs little for each session that it meets.

Most open actions on a key conflict with a call in exactly the same way. A view holds all actions of one sort as a
single ``ActionGroup`` and shows in full only what differs for the call. What an action was opened with never changes,
so a process remembers it and asks the store only which actions are open and until when.

Two actions are of one sort for a call if everything that evidence depends on is the same: tier, mode, state, whether it
is a lock, whether its time has run out, how its content relates to the call's content, and whose it is (the session's
own, an ancestor's, a session's that waits for this one). With more than ``BOUND`` open actions, reworded content is not
looked for.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import LAPSED, LATEST, Action, ActionGroup, Asks, Content, Host, Scope, State
from callosum.policy.admit import MOST_CONFLICTS
from callosum.rules.content import contrary, near
from callosum.stores.base import Probe
from callosum.stores.keys import covering
from callosum.stores.records import WAITS
from callosum.stores.view import Fetched

BOUND: Final = 32
"""Number of open actions on a key up to which a call is compared with all of them for rewording."""
_KEYS: Final = 256
"""Maximum number of keys whose open actions a process remembers."""
_MOST: Final = 20_000
"""Maximum number of actions that a process remembers for one key."""
_OWN, _OTHER_RUN, _OTHER_PROCESS, _ANCESTOR, _WAITS, _LAPSED, _NEAR, _FIRST_RELATION = (1 << at for at in range(8))
_OPEN: Final = State.OPEN  # an enum's attributes are slow, and so is its hash
_OPEN_STATES: Final = tuple(WAITS)

Stamp = tuple[int, int, int]
"""What can change about an open action: its id, when it expires and when it was approved."""
Stamps = Callable[[Sequence[int]], Iterable[Stamp]]
"""Returns the stamps of these actions as the store has them now."""
Fetch = Callable[[Sequence[int]], Iterable[Action]]
"""Returns these actions as the store has them now, as found through the key."""
_Sort = tuple[int, str, str, bool, bool]
_Relation = tuple[int, bytes | str | tuple[bytes, bytes]]
_Index = TypeVar("_Index", str, bytes, Host, _Relation)


class AskingCall(Struct, frozen=True, gc=False):
    """What a view knows of its call.

    ``family`` holds the ancestors of its session, and ``wanted`` the sessions that wait for what it holds.
    """

    session: str
    asks: Asks
    now: int
    family: Sequence[str]
    wanted: Sequence[str]
    probe: Probe


class _Group:
    """The actions of one sort. ``more`` holds all of them for a view, until one changes."""

    __slots__ = ("ids", "more")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.more: ActionGroup | None = None


class Crowd:
    """The open actions of one key, as this process last read them."""

    __slots__ = (
        "_actions",
        "_alike",
        "_alive",
        "_groups",
        "_hosts",
        "_ids",
        "_sessions",
        "_soonest",
        "_stamps",
        "_texts",
        "before",
    )

    def __init__(self) -> None:
        self._ids: Sequence[int] = []
        self._stamps: set[Stamp] = set()
        self._actions: dict[int, Action] = {}
        self._groups: dict[_Sort, _Group] = {}
        self._sessions: dict[str, set[int]] = {}
        self._alike: dict[_Relation, set[int]] = {}
        self._texts: dict[bytes, set[int]] = {}
        self._hosts: dict[Host, set[int]] = {}
        self._alive: dict[Host, bool | None] = {}
        self._soonest = 0
        self.before: dict[int, int] = {}
        """The previous action of the same session on the key, by action id, if there is one."""

    def __len__(self) -> int:
        return len(self._actions)

    def note(self, id: int, before: int) -> None:
        """Note the session's previous action on the key for an action that is being fetched; 0 for none."""
        if before:
            self.before[id] = before

    def __contains__(self, id: int) -> bool:
        return id in self._actions

    def __getitem__(self, id: int) -> Action:
        return self._actions[id]

    def view(
        self, asker: AskingCall, ids: Sequence[int], fetch: Fetch, stamps: Stamps
    ) -> tuple[list[Action], tuple[ActionGroup, ...]]:
        """Return those of the open actions ``ids`` that a view shows in full, oldest first, and the others by sort."""
        if ids != self._ids:
            self._update(ids, fetch)
        if self._hosts:
            self._look_at_hosts(asker.probe)
        few = len(ids) <= BOUND
        if few:
            self._renew(stamps(ids))
        special = self._special(asker)
        lapsed = self._lapsed(asker.now, stamps) if asker.now >= self._soonest else ()
        found, more = self._shown(special, lapsed)
        if not few:
            told = [*found]  # sentences name no more actions of one sort
            for one in more:
                told += (one.ids[0], *one.ids[-MOST_CONFLICTS:])
            if self._renew(stamps(told)):
                found, more = self._shown(special, lapsed)
        return [self._actions[id] for id in found], tuple(more)

    def _shown(self, special: dict[int, int], lapsed: Sequence[int]) -> tuple[list[int], list[ActionGroup]]:
        """Return the ids of the actions that a view shows in full, and the others by sort."""
        for id in lapsed:
            special[id] = special.get(id, 0) | _LAPSED
        shown = set(lapsed[-LAPSED:])
        more: list[ActionGroup] = []
        for sort, group in self._groups.items():
            ids = group.ids
            apart = special.keys() & ids if special else ()
            if sort[2] == "queued":
                shown.update(ids)
            elif not apart:
                more.append(group.more or self._gathered(group))
            else:
                plain = [id for id in ids if id not in apart]
                if plain:
                    more.append(self._more(plain))
                self._show_apart(sort, sorted(apart), special, shown, more)
        return sorted(shown), more

    def _show_apart(
        self, sort: _Sort, ids: list[int], special: dict[int, int], shown: set[int], more: list[ActionGroup]
    ) -> None:
        """Show in full what differs for the call. Of very many that differ alike, show the oldest and the newest."""
        alike: dict[int, list[int]] = {}
        for id in ids:
            alike.setdefault(special[id], []).append(id)
        for bits, some in alike.items():
            if len(some) <= LATEST + 1 or (sort[2] == "asked" and bits & _OWN):
                shown.update(some)
                continue
            shown.update(some[-LATEST:], some[:1])
            rest = [id for id in some[1:-LATEST] if id not in shown]
            if rest:
                more.append(self._more(rest, related=True))

    def _gathered(self, group: _Group) -> ActionGroup:
        found = group.more = self._more(group.ids)
        return found

    def _more(self, ids: Sequence[int], *, related: bool = False) -> ActionGroup:
        """Return the actions of one sort."""
        actions = tuple(map(self._actions.__getitem__, ids))
        return ActionGroup(actions[-1], tuple(ids), actions, related)

    # --- What is open ---

    def _update(self, ids: Sequence[int], fetch: Fetch) -> None:
        """Drop what is no longer open and fetch what is new."""
        known, there = self._actions, set(ids)
        for id in known.keys() - there:
            self._remove(known[id])
        if new := sorted(there - known.keys()):
            for action in fetch(new):
                self._put(action)
        self._ids = ids

    def _renew(self, stamps: Iterable[Stamp]) -> bool:
        """Update until when actions are open. Return True if anything has changed."""
        new = set(stamps) - self._stamps
        if not new:
            return False
        changed = False
        for id, expires, approved in new:
            action = self._actions[id]
            if action.expires != expires or action.approved != approved:
                self._stamps.discard(_stamp_of(action))
                self._put(replace(action, expires=expires, approved=approved))
                changed = True
        self._stamps |= new
        return changed

    def _put(self, action: Action) -> None:
        """Store an action as it is now."""
        id = action.id
        self._soonest = min(self._soonest, action.expires)
        is_new = id not in self._actions
        self._actions[id] = action
        group = self._groups.setdefault(_sort_of(action), _Group())
        group.more = None
        if not is_new:
            return
        insort(group.ids, id)
        self._sessions.setdefault(action.session, set()).add(id)
        for relation in _relations(action.content):
            self._alike.setdefault(relation, set()).add(id)
        if action.content.words and action.content.repeats:
            self._texts.setdefault(action.content.numbers, set()).add(id)
        if action.host is not None:
            self._hosts.setdefault(action.host, set()).add(id)

    def _remove(self, action: Action) -> None:
        id = action.id
        del self._actions[id]
        self.before.pop(id, None)
        self._stamps.discard(_stamp_of(action))
        sort = _sort_of(action)
        group = self._groups[sort]
        group.ids.remove(id)
        group.more = None
        if not group.ids:
            del self._groups[sort]
        _discard(self._sessions, action.session, id)
        for relation in _relations(action.content):
            _discard(self._alike, relation, id)
        _discard(self._texts, action.content.numbers, id)
        if action.host is not None:
            _discard(self._hosts, action.host, id)

    def _look_at_hosts(self, probe: Probe) -> None:
        """Update which of the host processes are alive."""
        alive = {host: probe(host) for host in self._hosts}
        if alive != self._alive:
            for host, ids in self._hosts.items():
                for id in ids:
                    action = self._actions[id]
                    if action.state is _OPEN and action.alive is not alive[host]:
                        self._put(replace(action, alive=alive[host]))
            self._alive = alive
            self._soonest = 0

    def _lapsed(self, now: int, stamps: Stamps) -> list[int]:
        """Return the ids of the actions whose time has run out, oldest first."""
        due = [id for id, action in self._actions.items() if now >= _end(action)]
        if due:
            self._renew(stamps(due))
        self._soonest = min(map(_end, self._actions.values()), default=now)
        return sorted([id for id in due if now >= _end(self._actions[id])])

    def _special(self, asker: AskingCall) -> dict[int, int]:
        """Return how actions differ for this call from others of their sort: bits by id."""
        asks, sessions = asker.asks, self._sessions
        bits: dict[int, int] = {}
        for id in sessions.get(asker.session, ()):
            action = self._actions[id]
            other_run = asks.run and action.run and asks.run != action.run
            other_process = asks.host and action.host and asks.host != action.host
            bits[id] = _OWN | (_OTHER_RUN if other_run else 0) | (_OTHER_PROCESS if other_process else 0)
        for names, bit in ((asker.family, _ANCESTOR), (asker.wanted, _WAITS)):
            for session in names:
                for id in sessions.get(session, ()):
                    bits[id] = bits.get(id, 0) | bit
        content, alike = asks.content, self._alike
        for relation in _relations(content, contrary(content.stance)):
            for id in alike.get(relation, ()):
                bits[id] = bits.get(id, 0) | _FIRST_RELATION << relation[0]
        if content.words and content.repeats and len(self._actions) <= BOUND:
            for id in self._texts.get(content.numbers, ()):
                if near(content, self._actions[id].content):
                    bits[id] = bits.get(id, 0) | _NEAR
        return bits


def hold_by_sort(fetched: Fetched, scope: Scope, asker: AskingCall, crowds: Crowds, space: str) -> None:
    """Group by sort what is open on the keys of a scope and above them, if all of that was fetched.

    ``space`` is the prefix of the crowds of a namespace.
    """
    for name in dict.fromkeys(name for key in scope.keys for name in covering(key.name)):
        acts = fetched.acts.get(name)
        ids = sorted([id for id, action in acts.items() if action.state in _OPEN_STATES]) if acts else ()
        if acts and ids and name not in fetched.more:
            crowd = crowds.take(space + name)
            fetch = partial(map, acts.__getitem__)
            _, more = crowd.view(asker, ids, fetch, partial(stamps_of, fetch))
            crowds.keep(space + name, crowd)
            if more:
                fetched.more[name] = more


class Crowds:
    """The keys with many open actions that a process remembers.

    A crowd is taken out while it is used, so that threads need no lock: another thread starts a new one meanwhile.
    """

    def __init__(self) -> None:
        self._crowds: dict[str, Crowd] = {}

    def forget(self) -> None:
        """Drop everything, because what a transaction read before it was rolled back may never have existed."""
        self._crowds.clear()

    def take(self, name: str) -> Crowd:
        """Return what is remembered of a key, and remove it."""
        return self._crowds.pop(name, None) or Crowd()

    def keep(self, name: str, crowd: Crowd) -> None:
        """Store what was read of a key."""
        if len(self._crowds) >= _KEYS:
            self._crowds.clear()
        if len(crowd) <= _MOST:
            self._crowds[name] = crowd


# --- Helpers ---------------------------------------------------------------------------------------


def _stamp_of(action: Action) -> Stamp:
    return action.id, action.expires, action.approved


def stamps_of(fetch: Fetch, ids: Sequence[int]) -> Iterable[Stamp]:
    """Return the stamps of actions that must be fetched as a whole."""
    return map(_stamp_of, fetch(ids))


def _sort_of(action: Action) -> _Sort:
    return action.tier, action.mode.value, action.state.value, action.lock, action.content.repeats


def _relations(content: Content, stance: str | None = None) -> list[_Relation]:
    """Return the relations by which other content can equal this content, or have ``stance`` if one is given."""
    text = (content.words, content.numbers) if content.words else b""
    found: tuple[_Relation, ...] = (
        (0, content.digest),
        (1, content.whole),
        (2, content.origin),
        (3, content.stance if stance is None else stance),
        (4, text),
    )
    return [relation for relation in found if relation[1]]


def _end(action: Action) -> int:
    """Return the time at which the action's time runs out, as ``lapsed`` defines it."""
    if action.alive is None or action.state is not _OPEN:
        return action.expires
    return max(action.expires, action.limit) if action.alive else 0


def _discard(index: dict[_Index, set[int]], at: _Index, id: int) -> None:
    found = index.get(at)
    if found is not None:
        found.discard(id)
        if not found:
            del index[at]
