"""Evidence: the conflicts of a call with the actions in a view, each with a kind.

Whose actions count
    Those of other sessions on any shared key, except what an ancestor of the session still runs. Of the session's own
    past, only actions without an outcome and actions with the same content. A second run of the session that is open at
    the same time counts as another session.
Which actions count
    Every write for ``stale``; actions of tier 2 or more for the other kinds (tier 1 or more if the call has tier 4).
    Reads never count, and two appends do not conflict. Actions that failed or were cancelled do not count.
When an action counts as changed
    At its report. Without a report it is "still changing" until it can no longer be running (``Action.expires``), and
    counts as changed at that moment from then on. A running action that holds a lease is ``held`` and not ``stale``,
    unless the policy ignores ``held``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import (
    DAY,
    MINUTE,
    NO_KEY,
    Action,
    ActionGroup,
    Classification,
    KeyView,
    Kind,
    Mode,
    State,
    Tier,
    Verdict,
    View,
    overlap,
)
from callosum.policy.checkouts import HEAD, has_looked, last_look_at_remote, left_nothing, only_does, through_tree
from callosum.policy.commitments import contradicted_by_call, is_ended
from callosum.policy.table import cell
from callosum.rules.content import contrary, near

if TYPE_CHECKING:
    from callosum.policy.call_facts import CallFacts

SAME_CONTENT: Final = DAY
"""Microseconds for which an action with the same content counts, for calls of tiers 3 and 4."""
SAME_ORIGIN: Final = 7 * DAY
"""Microseconds for which an action with the same origin counts."""
OWN_REPEAT: Final = 10 * MINUTE
"""Microseconds for which a session's own finished action with the same content counts, for calls of tiers 3 and 4."""
UNSEEN_CHANGE: Final = 10 * MINUTE
"""Maximum age of another session's change that makes replacing a never-read resource stale, in microseconds."""
_WHILE_RUNNING: Final = "build:"
"""Prefix of keys on which an action conflicts only while it runs: the next run makes the same results again."""
_SETS: Final = re.compile(r": changes who may use files[^:]*\Z")
"""Matches why a command was judged as it was that changes nothing if another has run it before."""
_COUNTED_IN_EACH: Final = "thread:|"
"""A thread without its chat. Two sessions that both name a chat as well (``append``) may mean different threads."""
_SETTLED_AWAY = frozenset({State.FAILED, State.CANCELLED, State.ASKED})


def horizon(now: int, window: int) -> int:
    """Return the moment before which no action is evidence. ``window`` is the rules' longest, in microseconds."""
    return now - max(SAME_ORIGIN, window)  # the longest fixed period, and the rules' longest


_Add = Callable[..., None]  # adds an action to the evidence, as one kind of conflict on one of the call's keys


class Evidence(Struct, frozen=True, gc=False):
    """One conflict of a call: ``action`` is in the way as ``kind``, on the call's key number ``key_index``.

    ``age`` is in microseconds since the other session acted. ``unread`` marks a ``stale`` conflict about something that
    this session never read. ``changes`` marks a ``held`` conflict that would be ``stale`` if the action had ended.
    ``committed`` marks an action that counts only as a commitment, because it is older than the rule's window.
    ``group`` holds the actions, oldest first, that conflict as ``action`` does, which represents them.
    """

    action: Action
    kind: Kind
    key_index: int
    age: int
    own: bool = False
    unread: bool = False
    changes: bool = False
    committed: bool = False
    group: tuple[Action, ...] = ()


def has_lapsed(action: Action, now: int) -> bool:
    """Return True if the time of an open, queued or asked action has run out.

    A lease that is tied to a host process ends with that process; while the process lives, it lasts up to the tool's
    own limit.
    """
    if action.alive is False and action.state is State.OPEN:
        return True
    until = max(action.expires, action.limit) if action.alive else action.expires
    return now >= until


def holds_lease(action: Action, now: int) -> bool:
    """Return True if the action holds off or warns others now: it has an open lease, or is a waiter that polls."""
    return action.state in (State.OPEN, State.QUEUED) and not has_lapsed(action, now)


def may_be_running(action: Action, now: int) -> bool:
    """Return True if the action may still be running: it has no outcome and its time is not up."""
    if action.state is State.OPEN:
        return not has_lapsed(action, now)
    return action.state is State.DONE and not action.ended and now < action.expires


def shown_as_held(classification: Classification, action: Action) -> bool:
    """Return False if the policy ignores ``held`` or is stricter about ``stale``: then a held action is ``stale``."""
    held = cell(classification.tier, Kind.HELD, action.tier, classification.cells)
    stale = cell(classification.tier, Kind.STALE, 0, classification.cells)
    return held is not Verdict.ALLOW and held.gravity >= stale.gravity


def holds_file(action: Action) -> bool:
    """Return True for a merged write that has not ended. No other action below tier 3 holds a lease."""
    return action.state is State.OPEN and action.tier < Tier.HIGH and action.key.startswith("file:")


def has_unknown_outcome(action: Action, now: int) -> bool:
    """Return True if it is unknown whether the action happened."""
    return action.state is State.UNKNOWN or (action.state is State.OPEN and has_lapsed(action, now))


def change_moment(action: Action, now: int) -> int:
    """Return the moment at which the action made its change; ``now`` while it may still be running."""
    if action.ended:
        return action.ended
    return min(now, action.expires) if action.expires else action.started


def modes_conflict(context: Mode, acting: Mode) -> bool:
    """Return True if two modes on one key can conflict."""
    return Mode.READ not in (context, acting) and not context is acting is Mode.APPEND


def last_read(key_view: KeyView, window: int) -> int:
    """Return the moment at which the session last read the resource; 0 if it never did.

    A finished write of its own counts as a read at the moment of its intercept, unless it was reported late. With a
    window of 0 only the present counts, so the session's own writes do not count as reads.
    """
    own = key_view.own
    if own and window and own.state is State.DONE and 0 < own.ended <= own.expires:
        return max(key_view.mark.read, own.started)
    return key_view.mark.read


def gather_evidence(facts: CallFacts, view: View) -> list[Evidence]:
    """Return all evidence against the call, unordered.

    Any other kind replaces ``recent``, and ``held`` replaces ``stale``. A call that waits meets only earlier waiters.
    """
    if not (view.twins or any(one.live or one.latest or one.stale or one.groups for one in view.keys)):
        return []
    is_grouped = any(key_view.groups for key_view in view.keys)
    if is_grouped:
        keys = [replace(one, live=(*one.live, *[group.actions[-1] for group in one.groups])) for one in view.keys]
        view = replace(view, keys=tuple(keys))
    heap: dict[tuple[int, Kind, int], Evidence] = {}

    def add(action: Action, kind: Kind, key_index: int, *, unread: bool = False) -> None:
        age, own = view.now - change_moment(action, view.now), action.session == facts.actor
        heap[action.id, kind, key_index] = Evidence(action, kind, key_index, age, own, unread)

    floor = 1 if facts.classification.tier >= Tier.CRITICAL else 2
    for key_index, key_view in enumerate(view.keys):
        _on_key(facts, view, key_index, floor, add)
        key = key_view.key
        if key.name[:1] != NO_KEY and (key.mode is Mode.WRITE or (key.mode is Mode.APPEND and key.name.endswith(HEAD))):
            _stale(facts, view, key_view, key_index, add)
    _same_content(facts, view, floor, add)
    for id, kind, key_index in [at for at in heap if at[1] is Kind.STALE]:
        held = heap.get((id, Kind.HELD, key_index))
        if held is not None and shown_as_held(facts.classification, held.action):
            del heap[id, kind, key_index]
            heap[id, Kind.HELD, key_index] = replace(held, changes=True)
    if facts.classification.content.commitment is not None:
        _commitments(facts, view, heap)
    graver = {item.action.id for item in heap.values() if item.kind is not Kind.RECENT}
    found = [e for e in heap.values() if e.kind is not Kind.RECENT or e.action.id not in graver]
    return _with_groups(view, found) if is_grouped else found


def _with_groups(view: View, evidence: Iterable[Evidence]) -> list[Evidence]:
    """Return the evidence, that of an action that represents a group with the group. No action counts twice."""
    groups: dict[int, list[tuple[int, ActionGroup]]] = {}
    for key_index, key_view in enumerate(view.keys):
        for group in key_view.groups:
            groups.setdefault(group.ids[-1], []).append((key_index, group))
    counted: dict[tuple[Kind, int], set[int]] = {}
    found: list[Evidence] = []
    for item in sorted(evidence, key=lambda item: item.action.id in groups):
        same = counted.setdefault((item.kind, item.key_index), set())
        alike = item.kind in (Kind.DUPLICATE, Kind.OPPOSED)
        met = [more for at, more in groups.get(item.action.id, ()) if at == item.key_index or (alike and more.related)]
        if not met:
            same.add(item.action.id)
            found.append(item)
        for group in met:
            is_new = same.isdisjoint(group.ids)
            actions = group.actions if is_new else tuple([one for one in group.actions if one.id not in same])
            same.update(group.ids)
            if actions:
                found.append(replace(item, group=actions))
    return found


def _of_family(view: View, action: Action) -> bool:
    """Return True if an ancestor of the session still runs the action: this session may be a part of that action."""
    return action.session in view.ancestors and (may_be_running(action, view.now) or holds_lease(action, view.now))


def _on_key(facts: CallFacts, view: View, key_index: int, floor: int, add: _Add) -> None:
    """Add the actions on one key that are held, unknown, recent or opposed.

    Of the session's own, only those without an outcome count, those of another run or process at once. On a hidden key
    all actions have the same content, and only what may still happen counts.
    """
    key_view, now, call = view.keys[key_index], view.now, facts.call
    seen, mode, hidden = {facts.waiter}, key_view.key.mode, key_view.key.name.startswith(NO_KEY)
    for action in key_view.live if hidden and mode is not Mode.READ else ():
        if has_unknown_outcome(action, now):
            add(action, Kind.UNKNOWN, key_index)
        elif holds_lease(action, now) and action.session not in (facts.actor, *view.ancestors):
            add(action, Kind.HELD, key_index)
    for action in () if hidden else (*key_view.live, *key_view.latest):
        if action.id in seen or not modes_conflict(mode, action.mode) or _of_family(view, action):
            continue
        seen.add(action.id)
        if action.tier < floor or action.state in _SETTLED_AWAY:
            continue
        if action.session == facts.actor:
            lost = has_unknown_outcome(action, now)
            other_run = bool(call.run and action.run and call.run != action.run)
            apart = other_run or (call.host and action.host and call.host != action.host)
            if not action.lock and (lost or (apart and action.state is State.OPEN)):
                add(action, Kind.UNKNOWN, key_index)
                if other_run and not lost:
                    add(action, Kind.HELD, key_index)
            continue
        if holds_lease(action, now):
            overtaken = facts.waiter and action.state is State.QUEUED and action.id > facts.waiter
            if not overtaken:
                add(action, Kind.HELD, key_index)
        elif has_unknown_outcome(action, now):
            add(action, Kind.UNKNOWN, key_index)
        elif (
            action.state is State.DONE
            and now - (changed := change_moment(action, now)) < facts.classification.window
            and changed >= last_look_at_remote(view, key_view)
        ):
            add(action, Kind.RECENT, key_index)
        _opposed(facts, view, action, key_index, add)


def _opposed(facts: CallFacts, view: View, action: Action, key_index: int, add: _Add) -> None:
    stance = facts.classification.content.stance
    if stance and action.content.stance == contrary(stance) and action.state is not State.QUEUED:
        age = view.now - change_moment(action, view.now)
        if action.state is not State.DONE or age < facts.classification.window:
            add(action, Kind.OPPOSED, key_index)


def _stale(facts: CallFacts, view: View, key_view: KeyView, key_index: int, add: _Add) -> None:
    """Add other sessions' changes to what this session read before them, or would replace without reading it."""
    now, classification = view.now, facts.classification
    look, genuine = last_read(key_view, classification.window), key_view.mark.read
    replaces, looked = not classification.content.repeats, last_look_at_remote(view, key_view)
    if looked and looked >= look:
        look = genuine = looked
    itself = look and not key_view.above
    if not look and len(view.keys) > 1:
        # when it last listed the folder in which the call creates a name that was not there then
        names = f"{key_view.key.name.rstrip('/').rpartition('/')[0]}/|names"
        look = genuine = next((other.mark.read for other in view.keys if other.key.name == names), 0)
    meets = partial(_meets, facts, view, key_view)
    for action in key_view.stale:
        if (not looked or change_moment(action, now) >= looked) and meets(action):
            add(action, Kind.STALE, key_index)
    for action in (*key_view.latest, *(a for a in key_view.live if a.state in (State.OPEN, State.UNKNOWN))):
        if not meets(action):
            continue
        if holds_file(action) and holds_lease(action, now):
            add(action, Kind.HELD, key_index)
            continue
        content, running = classification.content, may_be_running(action, now)
        sets = content.digest == action.content.digest and classification.tier < 3 and only_does(classification, _SETS)
        if sets or (content.whole and content.whole == action.content.whole):
            continue
        if not running and key_view.key.name.startswith(_WHILE_RUNNING):
            continue
        changed = now if running else change_moment(action, now)
        # no list shows what was added to the thing, or a facet of it
        seen = look and (looked or not (key_view.above and (action.mode is Mode.APPEND or "|" in action.key)))
        if seen and look == genuine:
            stale = changed > look
        elif seen and replaces:
            # The session knows the resource only from its own write. At tier 4 no mark lifts a block, so time must.
            stale = changed > look and (classification.tier < Tier.CRITICAL or now - changed < classification.window)
        else:
            young = now - changed < min(UNSEEN_CHANGE, classification.window)
            stale = not seen and replaces and not action.content.repeats and young
        unread = not seen or (not itself and action.key[-1:] == "/")
        tree = stale and unread and through_tree(key_view.key.name, action)
        if stale and not (tree and has_looked(action, view, facts.actor)):
            add(action, Kind.STALE, key_index, unread=unread)


def _meets(facts: CallFacts, view: View, key_view: KeyView, action: Action) -> bool:
    """Return True if what another session's action changed may be stale for a call that writes the key."""
    if action.session == facts.actor or action.lock or action.state in _SETTLED_AWAY or _of_family(view, action):
        return False
    return modes_conflict(key_view.key.mode, action.mode) and not left_nothing(action, view, key_view, facts.actor)


def _same_content(facts: CallFacts, view: View, floor: int, add: _Add) -> None:
    """Add actions that the call would repeat: with equal or nearly equal content, or with the same origin.

    The content of an action that represents a group differs from the call's, unless the group is ``related``.
    """
    classification, now = facts.classification, view.now
    if classification.tier < Tier.MEDIUM:
        return
    apart = {group.ids[-1] for key_view in view.keys for group in key_view.groups if not group.related}
    met = [action for key_view in view.keys for action in (*key_view.live, *key_view.latest) if action.id not in apart]
    pool = {action.id: action for action in (*view.twins, *met)}
    opposite = contrary(classification.content.stance)
    for action in pool.values():
        if action.state in _SETTLED_AWAY or action.state is State.QUEUED or action.lock or _of_family(view, action):
            continue
        own = action.session == facts.actor
        if action.tier < floor or (own and not classification.content.repeats):
            continue
        # Hardly one of a thousand open actions has such content, so compare keys only for those that do.
        against = not own and opposite and action.content.stance == opposite
        if against and (key_index := _shared(view.keys, action, meeting=True)) is not None:
            _opposed(facts, view, action, key_index, add)
        if _repeats(classification, action, now, own=own) and (key_index := _shared(view.keys, action)) is not None:
            add(action, Kind.DUPLICATE, key_index)


def _commitments(facts: CallFacts, view: View, heap: dict[tuple[int, Kind, int], Evidence]) -> None:
    """Add the commitments that the call contradicts, and remove those that a contrary action has ended."""
    classification, now, window = facts.classification, view.now, facts.classification.window
    ended = {action.id for action in view.twins if is_ended(action, view)}
    for spot in [spot for spot, item in heap.items() if item.kind is Kind.OPPOSED and item.action.id in ended]:
        del heap[spot]
    for action, key_index in contradicted_by_call(classification, facts.actor, facts.call.instance, view):
        id, age = action.id, now - change_moment(action, now)
        committed = action.state is State.DONE and age >= window
        if (id, Kind.DUPLICATE, key_index) in heap or (committed and not window) or _of_family(view, action):
            continue  # a rule with a window of 0 says that the past does not matter
        if not any(item.action.id == id and item.kind is Kind.OPPOSED for item in heap.values()):
            item = Evidence(action, Kind.OPPOSED, key_index, age, committed=committed)
            heap[id, Kind.OPPOSED, key_index] = item


def _repeats(classification: Classification, action: Action, now: int, *, own: bool) -> bool:
    mine, theirs, high = classification.content, action.content, classification.tier >= Tier.HIGH
    if not (mine.repeats and theirs.repeats):
        return False
    age, window = now - change_moment(action, now), classification.window
    same_origin = not own and bool(mine.origin) and mine.origin == theirs.origin
    alike = (mine.digest == theirs.digest and not mine.brief) or near(mine, theirs)
    if own and (may_be_running(action, now) or has_unknown_outcome(action, now)):
        return alike
    if not own and action.state is not State.DONE:
        return alike or same_origin
    if window == 0:
        return False  # the rule says that the past does not matter
    if own:
        return alike and high and age < OWN_REPEAT
    return (alike and age < (max(SAME_CONTENT, window) if high else window)) or (same_origin and age < SAME_ORIGIN)


def _shared(key_views: tuple[KeyView, ...], action: Action, *, meeting: bool = False) -> int | None:
    """Return the number of the call's key that the action shares, None if it shares none.

    With ``meeting``, keys that both only append to do not count.
    """
    for key_index, key_view in enumerate(key_views):
        name, mode = key_view.key.name, key_view.key.mode
        apart = meeting or name.startswith(_COUNTED_IN_EACH)
        acting = [key for key in action.keys if mode is not Mode.READ and key.mode is not Mode.READ]
        if any(overlap(name, key.name) for key in acting if not apart or modes_conflict(mode, key.mode)):
            return key_index
    return None
