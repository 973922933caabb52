"""The open actions on a key, grouped by sort, so that a decision costs little for each session that it meets.

Most open actions on a key conflict with a call in exactly the same way. A view holds all actions of one sort as a
single ``ActionGroup`` and shows in full only what differs for the call. What an action was opened with never changes,
so a process remembers it and asks the store only for actions that are new, or renewed.

Two actions are of one sort for a call if everything that evidence depends on is the same: tier, mode, state, whether it
is a lock, whether its time has run out, how its content relates to the call's content, and whose it is (the session's
own, an ancestor's, a session's that waits for this one). With more than ``BOUND`` open actions, reworded content is not
looked for.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import LAPSED, LATEST, Action, ActionGroup, Asks, Content, Host, State
from callosum.policy.marks import MOST_CONFLICTS
from callosum.rules.content import contrary, near
from callosum.stores.base import Probe
from callosum.stores.records import WAITS

BOUND: Final = 32
"""Number of open actions on a key up to which a call is compared with all of them for rewording."""
_KEYS: Final = 256
"""Maximum number of keys whose open actions a process remembers."""
_MOST: Final = 20_000
"""Maximum number of actions that a process remembers for one key."""
_OWN, _OTHER_RUN, _OTHER_PROCESS, _ANCESTOR, _WAITS, _LAPSED, _NEAR, _FIRST_RELATION = (1 << at for at in range(8))
_OPEN: Final = State.OPEN  # an enum's attributes are slow, and so is its hash
_OPEN_STATES: Final = tuple(WAITS)

Fetch = Callable[[Collection[int]], list[Action]]
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

    def __init__(self, turned: int = 0) -> None:
        self.turned = turned
        """``KeyRecord.turned``: what was read before another one is of no use."""
        self._renewed = -1
        self._live: Sequence[int] = ()
        self._lost: dict[int, Action] = {}
        self._actions: dict[int, Action] = {}
        self._groups: dict[_Sort, _Group] = {}
        self._sessions: dict[str, set[int]] = {}
        self._alike: dict[_Relation, set[int]] = {}
        self._texts: dict[bytes, set[int]] = {}
        self._hosts: dict[Host, set[int]] = {}
        self._alive: dict[Host, bool | None] = {}
        self._soonest = 0

    def __len__(self) -> int:
        return len(self._actions)

    def view(
        self, asker: AskingCall, live: Sequence[int], renewed: int, fetch: Fetch
    ) -> tuple[list[Action], tuple[ActionGroup, ...]]:
        """Return the live actions that a view shows in full, and the others by sort.

        ``renewed`` is ``KeyRecord.renewed``: until it changes, no action has another time limit.
        """
        if live is not self._live and live != self._live:
            self._update(live, fetch)
        if self._hosts:
            self._look_at_hosts(asker.probe)
        is_new = renewed != self._renewed
        few = len(self._actions) <= BOUND
        if is_new and few:
            self._renew(fetch(self._actions))
            self._renewed = renewed
        if is_new and self._lost:
            self._lost = {action.id: action for action in fetch(self._lost)}
        special = self._special(asker)
        lapsed = self._lapsed(asker.now, fetch) if asker.now >= self._soonest else ()
        found, more = self._shown(special, lapsed)
        if is_new and not few:
            told = [*found]  # sentences name no more actions of one sort
            for one in more:
                told += (one.ids[0], *one.ids[-MOST_CONFLICTS:])
            if self._renew(fetch(told)):
                found, more = self._shown(special, lapsed)
        return [*self._lost.values(), *[self._actions[id] for id in found]], tuple(more)

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
        return ActionGroup(tuple(ids), tuple(map(self._actions.__getitem__, ids)), related)

    # --- What is open ---

    def _update(self, live: Sequence[int], fetch: Fetch) -> None:
        """Drop what is no longer live and fetch what is new."""
        known, there = self._actions, set(live)
        for id in known.keys() - there:
            self._remove(known[id])
        for id in self._lost.keys() - there:
            del self._lost[id]
        if new := sorted(there - known.keys() - self._lost.keys()):
            for action in fetch(new):
                if action.state in _OPEN_STATES:
                    self._put(action)
                else:
                    self._lost[action.id] = action
        self._live = live

    def _renew(self, actions: Iterable[Action]) -> bool:
        """Update until when actions are open. Return True if anything has changed."""
        changed = False
        for new in actions:
            action = self._actions[new.id]
            if action.expires != new.expires or action.approved != new.approved:
                self._put(replace(action, expires=new.expires, approved=new.approved))
                changed = True
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

    def _lapsed(self, now: int, fetch: Fetch) -> list[int]:
        """Return the ids of the actions whose time has run out, oldest first."""
        due = [id for id, action in self._actions.items() if now >= _end(action)]
        if due:
            self._renew(fetch(due))
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
