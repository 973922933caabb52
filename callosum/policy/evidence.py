"""Evidence: what in a view stands in a call's way, as conflicts with a kind.

Who counts
    Other sessions, on any shared key, but not what an ancestor still runs; of the session's own past only an action
    without an outcome and the same content. A second run of the session that is open at the same time is a stranger.
What counts
    Every write for ``stale``; actions of tier 2 or more for the rest (of tier 1 where tier 4 asks).
    Reads are no evidence. Two appends do not meet. A failed or cancelled action is none either.
When
    A change is dated by its report. Without one it is "still changing" until it can no longer be
    running (``Action.expires``), and dated by that moment from then on.
    A running action that holds a lease is ``held``, not ``stale``, wherever the policy says something of ``held``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import (
    DAY,
    MINUTE,
    NO_KEY,
    Action,
    Classification,
    Host,
    KeyView,
    Kind,
    Mode,
    More,
    State,
    Tier,
    Verdict,
    View,
    overlap,
)
from callosum.policy.commitments import against, is_ended
from callosum.policy.table import cell
from callosum.rules.content import contrary, near

SAME_CONTENT: Final = DAY
"""How far back the same content counts at tiers 3 and 4."""
SAME_ORIGIN: Final = 7 * DAY
OWN_REPEAT: Final = 10 * MINUTE
"""How long after its own finished act the same content of a session counts, at tiers 3 and 4."""
UNSEEN_CHANGE: Final = 10 * MINUTE
"""How young another's change must be to make replacing a never-read resource stale."""
LONGEST_LOOK: Final = SAME_ORIGIN
"""The farthest any fixed look-back reaches; a rule's window may reach farther."""

_WHILE_RUNNING: Final = "build:"
"""What disturbs only as long as it runs: the next run makes again what it leaves."""
_COUNTED_IN_EACH: Final = "thread:|"
"""A thread without its chat: two sessions that both name a chat as well (``append``) may mean two threads."""
REMOTE: Final = "|remote:"
"""What the keys of a remote's branches hold: ``git:/repo|remote:origin/main``, ``git:/repo|remote:origin/``."""
_SETTLED_AWAY = frozenset({State.FAILED, State.CANCELLED, State.ASKED})


def horizon(now: int, window: int) -> int:
    """The moment before which nothing is evidence any more. ``now`` is the store's, ``window`` the rules' longest."""
    return now - max(LONGEST_LOOK, window)


class _Add(Protocol):
    def __call__(self, action: Action, kind: Kind, place: int, *, own: bool = False, unread: bool = False) -> None: ...


class Evidence(Struct, frozen=True, gc=False):
    """One reason not to go on: ``action`` stands in the way as ``kind``, seen through ``place``.

    ``place`` is the number of the asking call's key. ``age`` is in microseconds since the other acted.
    ``unread``: a ``stale`` of what this session never read. ``changes``: a ``held`` that would be ``stale`` if the
    action had ended. ``committed``: it counts only as a commitment, for it is older than the rule's window.
    """

    action: Action
    kind: Kind
    place: int
    age: int
    own: bool = False
    unread: bool = False
    changes: bool = False
    committed: bool = False


class Asking(Struct, frozen=True, gc=False):
    """Who asks, and for what."""

    actor: str
    run: str
    host: Host | None
    found: Classification
    instance: str = ""


def lapsed(action: Action, now: int) -> bool:
    """Whether an open, queued or asked action's time ran out.

    A lease tied to a host process ends with that process, and stands while it lives up to the
    tool's own limit.
    """
    if action.alive is False and action.state is State.OPEN:
        return True
    until = max(action.expires, action.limit) if action.alive else action.expires
    return now >= until


def leased(action: Action, now: int) -> bool:
    """Whether the action excludes or warns others now: an open lease, or a waiter that still polls."""
    return action.state in (State.OPEN, State.QUEUED) and not lapsed(action, now)


def unreported(action: Action, now: int) -> bool:
    """Whether the action may still be running: no outcome, and not out of time."""
    if action.state is State.OPEN:
        return not lapsed(action, now)
    return action.state is State.DONE and not action.ended and now < action.expires


def shown_as_held(found: Classification, action: Action) -> bool:
    """Return True if the call meets the action, while that holds a lease, as ``held`` and not as ``stale``.

    It does unless the policy lets ``held`` pass or is stricter about ``stale``.
    """
    held = cell(found.tier, Kind.HELD, action.tier, found.cells)
    return held is not Verdict.ALLOW and held.gravity >= cell(found.tier, Kind.STALE, 0, found.cells).gravity


def holds_file(action: Action) -> bool:
    """Return True for a merged write that has not ended: other writes of its file wait for it.

    No other call below tier 3 holds a lease.
    """
    return action.state is State.OPEN and action.tier < Tier.HIGH and action.key.startswith("file:")


def lost(action: Action, now: int) -> bool:
    """Whether nobody knows if the action happened."""
    return action.state is State.UNKNOWN or (action.state is State.OPEN and lapsed(action, now))


def moment(action: Action, now: int) -> int:
    """When the action changed what it acts on; ``now`` while it may still be doing so."""
    if action.ended:
        return action.ended
    return min(now, action.expires) if action.expires else action.started


def meets(asking: Mode, acting: Mode) -> bool:
    """Whether two modes on one key can disturb one another."""
    return Mode.READ not in (asking, acting) and not asking is acting is Mode.APPEND


def last_look(place: KeyView, window: int) -> int:
    """When the session last looked at the resource, as a moment; 0 if it never did.

    Its own finished write counts, as of that write's intercept, unless the report was late. Where
    only the present counts (a window of 0) its own writes do not stand for looking.
    """
    own = place.own
    if own and window and own.state is State.DONE and 0 < own.ended <= own.expires:
        return max(place.mark.read, own.started)
    return place.mark.read


def remote_of(key: str) -> str:
    """Return the key on which looks at all of a remote are marked, ``""`` for a key that is of no remote's branch.

    ``git:/repo|remote:origin/main`` gives ``git:/repo|remote:origin``.
    """
    repository, found, branch = key.partition(REMOTE)
    if not found or not repository.startswith("git:"):
        return ""
    is_address = "://" in branch or branch[:1] in ("/", ".", "~") or "@" in branch
    remote = branch.rpartition("/")[0] if is_address else branch.partition("/")[0]
    return f"{repository}{REMOTE}{remote}" if remote and remote != branch else ""


def _last_look_at_remote(view: View, place: KeyView) -> int:
    """When the session last looked at the branch or the whole of a remote, 0 if never or for any other key.

    Its own push shows it nothing of what others have pushed.
    """
    if REMOTE not in place.key.name or not (whole := remote_of(place.key.name)):
        return 0
    return max([place.mark.read, *(other.mark.read for other in view.keys if other.key.name == whole)])


def gather(asking: Asking, view: View, waiter: int = 0, *, related: bool = True) -> list[Evidence]:
    """All evidence of the actions shown against the call, unordered. ``gather_more`` has that of the others.

    Another kind replaces ``recent``, and ``held`` replaces ``stale``.

    ``waiter`` is the id of the call's own place in the queue: only earlier waiters count then. ``related``: the
    content of some actions may have to do with the call's.
    """
    if not (view.twins or any(place.live or place.latest or place.stale for place in view.keys)):
        return []
    heap: dict[tuple[int, Kind, int], Evidence] = {}

    def add(action: Action, kind: Kind, place: int, *, own: bool = False, unread: bool = False) -> None:
        heap[action.id, kind, place] = Evidence(action, kind, place, view.now - moment(action, view.now), own, unread)

    for number, place in enumerate(view.keys):
        if place.key.name.startswith(NO_KEY):
            if place.key.mode is not Mode.READ:
                _hidden(asking, view, place, number, add)
            continue
        seen: set[int] = set()
        for action in (*place.live, *place.latest):
            if action.id in seen or action.id == waiter or not meets(place.key.mode, action.mode):
                continue
            if _of_family(view, action):
                continue
            seen.add(action.id)
            if action.session == asking.actor:
                _own(asking, view, action, number, add)
            else:
                _other(asking, view, action, number, waiter, add)
        if place.key.mode is Mode.WRITE:
            _stale(asking, view, place, number, add)
    if related:
        _same_content(asking, view, add)
    for id, kind, number in [at for at in heap if at[1] is Kind.STALE]:
        held = heap.get((id, Kind.HELD, number))
        if held is not None and shown_as_held(asking.found, held.action):
            del heap[id, kind, number]
            heap[id, Kind.HELD, number] = replace(held, changes=True)
    if asking.found.content.commitment is not None:
        _commitments(asking, view, heap)
    graver = {item.action.id for item in heap.values() if item.kind is not Kind.RECENT}
    return [e for e in heap.values() if e.kind is not Kind.RECENT or e.action.id not in graver]


class Many(Struct, frozen=True, gc=False):
    """Evidence of many actions of one sort: ``item`` is that of one which stands for them.

    ``ids`` and ``actions`` are theirs, oldest first.
    """

    item: Evidence
    ids: tuple[int, ...]
    actions: tuple[Action, ...]

    def each(self, actions: Iterable[Action], now: int) -> list[Evidence]:
        """Return the evidence of some of the actions."""
        item = self.item
        return [replace(item, action=action, age=now - moment(action, now)) for action in actions]


def gather_more(asking: Asking, view: View, evidence: Sequence[Evidence], waiter: int = 0) -> list[Many]:
    """Return the evidence of the actions that a view holds by sort, without what ``evidence`` already has."""
    found: list[Many] = []
    counted: dict[tuple[Kind, int], set[int]] = {}
    for item, more in _of_each_sort(asking, view, waiter):
        ids, actions = more.ids, more.actions
        known = counted.get((item.kind, item.place))
        if known is None:
            same = [e.action.id for e in evidence if e.kind is item.kind and e.place == item.place]
            known = counted[item.kind, item.place] = set(same)
        if not known.isdisjoint(ids):
            actions = tuple([action for action in actions if action.id not in known])
            ids = tuple([action.id for action in actions])
        known.update(ids)
        if ids:
            found.append(Many(item, ids, actions))
    return found


def _of_each_sort(asking: Asking, view: View, waiter: int) -> Iterator[tuple[Evidence, More]]:
    """Yield each sort with the evidence of the action that represents it."""
    bare = [replace(place, live=(), latest=(), stale=(), more=()) for place in view.keys]
    sorts = {(more.action.id, number): more for number, place in enumerate(view.keys) for more in place.more}
    keys = list(bare)
    for (_, number), more in sorts.items():
        if not more.related:  # on its own key alone, so all of these are weighed at once
            keys[number] = replace(keys[number], live=(*keys[number].live, more.action))
    for item in gather(asking, View(view.now, tuple(keys), ancestors=view.ancestors), waiter, related=False):
        yield item, sorts[item.action.id, item.place]
    for (_, number), more in sorts.items():
        if more.related:
            of = (*bare[:number], replace(bare[number], live=(more.action,)), *bare[number + 1 :])
            for item in gather(asking, View(view.now, of, ancestors=view.ancestors), waiter):
                yield item, more


def _hidden(asking: Asking, view: View, place: KeyView, number: int, add: _Add) -> None:
    """Without a key only the same content counts: held, or of unknown outcome (or a duplicate)."""
    for action in place.live:
        if action.state in _SETTLED_AWAY:
            continue
        own = action.session == asking.actor
        if lost(action, view.now):
            add(action, Kind.UNKNOWN, number, own=own)
        elif not own and leased(action, view.now) and action.session not in view.ancestors:
            add(action, Kind.HELD, number)


def _of_family(view: View, action: Action) -> bool:
    """Return True if an ancestor of the session still runs the action: this session may be a part of it."""
    return action.session in view.ancestors and (unreported(action, view.now) or leased(action, view.now))


def _floor(asking: Asking) -> int:
    return 1 if asking.found.tier >= Tier.CRITICAL else 2


def _own(asking: Asking, view: View, action: Action, number: int, add: _Add) -> None:
    """The session's own action without an outcome; of another run or process, at once."""
    if action.lock or action.tier < _floor(asking) or action.state in _SETTLED_AWAY:
        return
    if lost(action, view.now):
        add(action, Kind.UNKNOWN, number, own=True)
    elif action.state is State.OPEN and _elsewhere(asking, action):
        add(action, Kind.UNKNOWN, number, own=True)
        if asking.run and action.run and asking.run != action.run:
            add(action, Kind.HELD, number, own=True)


def _elsewhere(asking: Asking, action: Action) -> bool:
    other_run = asking.run and action.run and asking.run != action.run
    other_process = asking.host and action.host and asking.host != action.host
    return bool(other_run or other_process)


def _other(asking: Asking, view: View, action: Action, number: int, waiter: int, add: _Add) -> None:
    """Another session's action: held, unknown, recent or opposed."""
    now, found = view.now, asking.found
    if action.tier < _floor(asking) or action.state in _SETTLED_AWAY:
        return
    if leased(action, now):
        overtaken = waiter and action.state is State.QUEUED and action.id > waiter
        if not overtaken:
            add(action, Kind.HELD, number)
    elif lost(action, now):
        add(action, Kind.UNKNOWN, number)
    elif (
        action.state is State.DONE
        and now - moment(action, now) < found.window
        and moment(action, now) >= _last_look_at_remote(view, view.keys[number])
    ):
        add(action, Kind.RECENT, number)
    _opposed(asking, view, action, number, add)


def _opposed(asking: Asking, view: View, action: Action, number: int, add: _Add) -> None:
    stance = asking.found.content.stance
    if stance and action.content.stance == contrary(stance) and action.state is not State.QUEUED:
        age = view.now - moment(action, view.now)
        if action.state is not State.DONE or age < asking.found.window:
            add(action, Kind.OPPOSED, number)


def _stale(asking: Asking, view: View, place: KeyView, number: int, add: _Add) -> None:
    """Others' changes to what this session read before them, or never read and would replace."""
    now, found = view.now, asking.found
    look = last_look(place, found.window)
    replaces = not found.content.repeats
    genuine = place.mark.read
    looked = _last_look_at_remote(view, place)
    if looked and looked >= look:
        look = genuine = looked
    elif not look and len(view.keys) > 1:
        look = genuine = _names_seen(view, place)
    for action in place.stale:
        if not looked or moment(action, now) >= looked:
            add(action, Kind.STALE, number)
    for action in (*place.latest, *(a for a in place.live if a.state in (State.OPEN, State.UNKNOWN))):
        if action.session == asking.actor or action.lock or action.state in _SETTLED_AWAY or _of_family(view, action):
            continue
        if holds_file(action) and leased(action, now):
            add(action, Kind.HELD, number)
            continue
        if found.content.whole and found.content.whole == action.content.whole:
            continue
        running = unreported(action, now)
        if not running and place.key.name.startswith(_WHILE_RUNNING):
            continue
        changed = now if running else moment(action, now)
        seen = look and (looked or not (place.above and _hangs_on(action)))
        if seen and look == genuine:
            stale = changed > look
        elif seen and replaces:
            # Known only by its own write. At tier 4, where no mark lifts a block, time must.
            stale = changed > look and (found.tier < Tier.CRITICAL or now - changed < found.window)
        else:
            young = now - changed < min(UNSEEN_CHANGE, found.window)
            stale = not seen and replaces and not action.content.repeats and young
        if stale and action.mode is not Mode.READ:
            add(action, Kind.STALE, number, unread=not seen)


def _names_seen(view: View, place: KeyView) -> int:
    """When the session last saw which names there are where the call makes one: this one was not among them."""
    directory = place.key.name.rstrip("/").rpartition("/")[0]
    names = f"{directory}/|names"
    return next((other.mark.read for other in view.keys if other.key.name == names), 0) if directory else 0


def _hangs_on(action: Action) -> bool:
    """Whether what was changed is no more than something put into the thing, or a facet of it: no list shows it."""
    return action.mode is Mode.APPEND or "|" in action.key


def _same_content(asking: Asking, view: View, add: _Add) -> None:
    """The same act again: equal or nearly equal content, or the same origin."""
    found, now = asking.found, view.now
    if found.tier < Tier.MEDIUM:
        return
    pool = {action.id: action for action in view.twins}
    for place in view.keys:
        pool.update((action.id, action) for action in (*place.live, *place.latest))
    floor, opposite = _floor(asking), contrary(found.content.stance)
    for action in pool.values():
        if action.state in _SETTLED_AWAY or action.state is State.QUEUED or action.lock or _of_family(view, action):
            continue
        own = action.session == asking.actor
        if action.tier < floor or (own and not found.content.repeats):
            continue
        # Of a thousand open actions hardly one has such content: keys are compared only for those.
        against = not own and opposite and action.content.stance == opposite
        if against and (met := _shared(view.keys, action, meeting=True)) is not None:
            _opposed(asking, view, action, met, add)
        if _repeats(found, action, now, own=own) and (number := _shared(view.keys, action)) is not None:
            add(action, Kind.DUPLICATE, number, own=own)


def _commitments(asking: Asking, view: View, heap: dict[tuple[int, Kind, int], Evidence]) -> None:
    """Add the commitments that the call contradicts; leave out those that a contrary action has ended."""
    found, now = asking.found, view.now
    ended = {action.id for action in view.twins if is_ended(action, view)}
    for place in [place for place, item in heap.items() if item.kind is Kind.OPPOSED and item.action.id in ended]:
        del heap[place]
    for action, number in against(found, asking.actor, asking.instance, view):
        age = now - moment(action, now)
        committed = action.state is State.DONE and age >= found.window
        if (action.id, Kind.DUPLICATE, number) in heap or (committed and not found.window) or _of_family(view, action):
            continue  # a rule with a window of 0 says that the past does not matter
        if not any(item.action.id == action.id and item.kind is Kind.OPPOSED for item in heap.values()):
            heap[action.id, Kind.OPPOSED, number] = Evidence(action, Kind.OPPOSED, number, age, committed=committed)


def _repeats(found: Classification, action: Action, now: int, *, own: bool) -> bool:
    mine, theirs = found.content, action.content
    if not (mine.repeats and theirs.repeats):
        return False
    age = now - moment(action, now)
    same_origin = bool(mine.origin) and mine.origin == theirs.origin
    alike = (mine.digest == theirs.digest and not mine.brief) or near(mine, theirs)
    if own:
        if not alike:
            return False
        if unreported(action, now) or lost(action, now):
            return True
        return found.tier >= Tier.HIGH and age < OWN_REPEAT and found.window > 0
    if action.state is not State.DONE:
        return alike or same_origin
    if found.window == 0:
        return False  # the rule says that the past does not matter
    look_back = max(SAME_CONTENT, found.window) if found.tier >= Tier.HIGH else found.window
    return (alike and age < look_back) or (same_origin and age < SAME_ORIGIN)


def _shared(places: tuple[KeyView, ...], action: Action, *, meeting: bool = False) -> int | None:
    """The number of the asking call's key that the action shares; with ``meeting`` not where both only append."""
    for number, place in enumerate(places):
        if place.key.mode is Mode.READ:
            continue
        apart = meeting or place.key.name.startswith(_COUNTED_IN_EACH)
        for key in action.keys:
            if key.mode is Mode.READ or (apart and not meets(place.key.mode, key.mode)):
                continue
            if overlap(place.key.name, key.name):
                return number
    return None
