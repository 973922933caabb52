"""Build the views of keys from records: what other sessions do and did on a key, above it and below it.

Records are read in three rounds, however many keys a call has: the keys with the session's own marks, then the marks of
the sessions that changed them, then actions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from callosum.model import LATEST, Action, ActionGroup, Key, KeyView, Mark, Mode, Scope, State, sees
from callosum.stores import names
from callosum.stores.base import MAX_NEARBY_SESSIONS, SEARCHED_ENTRIES, Probe
from callosum.stores.crowd import AskingCall, Crowd, Crowds
from callosum.stores.draft import Draft
from callosum.stores.keys import above, covering
from callosum.stores.records import KeyRecord, MarkRecord, finished, probed

BELOW: Final = 5_000
"""Number of records below a tree that are read; of a larger tree the newest entries of the journal decide."""
_STALE: Final = 64
"""Number of newest changes below a tree that are compared with what the session has read there."""
_READ, _WRITE, _APPEND = Mode.READ, Mode.WRITE, Mode.APPEND  # an enum's attributes are slow
_NEARBY: Final = 1000
"""Number of a key's newest live actions that ``around`` examines."""
_UNMARKED: Final = MarkRecord("", "")


class Below(NamedTuple):
    """The keys below a tree, or the facets of a key, and the session's marks there, by key."""

    keys: Sequence[KeyRecord] = ()
    marks: dict[str, MarkRecord] = {}  # noqa: RUF012 - never changed


class KeyReader:
    """Reads what a scope's session is shown of keys.

    ``before`` are the sessions that it continues, nearest first. For an ``asker`` open actions are grouped by sort.
    """

    def __init__(
        self,
        draft: Draft,
        scope: Scope,
        probe: Probe,
        crowds: Crowds,
        before: Sequence[str] = (),
        asker: AskingCall | None = None,
    ) -> None:
        self._draft, self._scope, self._probe, self._crowds = draft, scope, probe, crowds
        self._before, self._asker = before, asker
        self._theirs: dict[str, list[MarkRecord]] = {}
        """The marks of other sessions that changed a key, newest change first."""

    def views(self) -> tuple[KeyView, ...]:
        """Return the views of the scope's keys."""
        keys = self._scope.keys
        below = self._read(keys)
        return tuple([self._view(key, part) for key, part in zip(keys, below, strict=True)])

    def around(self, keys: Sequence[str], mine: Collection[str]) -> list[Action]:
        """Return the actions of sessions other than ``mine`` on these keys and on keys that overlap them, each once."""
        asked = [Key(key) for key in keys]
        found: dict[int, Action] = {}
        for key, below in zip(asked, self._read(asked), strict=True):
            records = [record for name in covering(key.name) if (record := self._key(name))]
            for record in (*records, *below.keys):
                acts = [action for action in self._newest(record, _READ) if action.session not in mine]
                live = self._actions(record.key, record.live[-_NEARBY:])
                live = [one for one in reversed(live) if one.session not in mine]
                lost = [action for action in live if action.state is State.UNKNOWN]
                open_ = [action for action in live if action.state is not State.UNKNOWN]
                acts.sort(key=_changed, reverse=True)
                for some in (acts, open_, lost):
                    found.update({one.id: one for one in some[:MAX_NEARBY_SESSIONS] if one.id not in found})
        return list(found.values())

    # --- Reading ---------------------------------------------------------------------------------

    def _read(self, keys: Sequence[Key]) -> list[Below]:
        """Read the records that the views of keys need, and return what is below each of them."""
        draft, space, me = self._draft, self._scope.namespace, self._scope.session
        wanted = [name for key in keys for name in names.place(space, me, key.name)]
        draft.load(wanted + [names.mark(space, session, key.name) for key in keys for session in self._before])
        below = [self._below(key) for key in keys]
        records = {name: record for key in keys for name in covering(key.name) if (record := self._key(name))}
        records.update({record.key: record for part in below for record in part.keys})
        theirs = {
            key: [names.mark(space, one, key) for one in record.sessions if one != me]
            for key, record in records.items()
        }
        marks = iter(draft.all([name for some in theirs.values() for name in some]))
        self._theirs = {
            key: [mark for mark in islice(marks, len(some)) if mark and mark.acts] for key, some in theirs.items()
        }
        live = frozenset().union(*[record.live for record in records.values()])
        newest = [mark.acts[0][0] for some in self._theirs.values() for mark in some[:LATEST]]
        draft.load([names.action(space, id) for id in newest if id not in live])
        return below

    def _below(self, key: Key) -> Below:
        """Return the keys below a tree that is not only read, or the facets of a key.

        A session that only reads a tree is not shown the keys in it, which may be a million.
        """
        draft, space, me = self._draft, self._scope.namespace, self._scope.session
        name = key.name
        if name[-1:] == "/":
            if key.mode is _READ:
                return Below()
        elif not draft.get(names.named(b"t", space, names.text(name))):
            return Below()
        found = [record for _, record in draft.scan(*names.below(names.named(b"k", space), name), BELOW + 1)]
        if len(found) > BELOW:
            start, end = names.below(b"", name)
            entries = [entry for entry in draft.page(SEARCHED_ENTRIES) if entry.namespace == space]
            acted = {one.name for entry in entries for one in entry.keys if start <= names.text(one.name) < end}
            found = [record for record in draft.all([names.key(space, one) for one in sorted(acted)]) if record]
        marks = draft.scan(*names.below(names.named(b"m", space, names.digest(me)), name), BELOW)
        return Below([record for record in found if record.key != name], {record.key: record for _, record in marks})

    def _key(self, name: str) -> KeyRecord | None:
        return self._draft.get(names.key(self._scope.namespace, name)) or None

    def _mark(self, session: str, name: str) -> MarkRecord:
        return self._draft.get(names.mark(self._scope.namespace, session, name)) or _UNMARKED

    def _action(self, key: str, id: int) -> Action | None:
        """Return an action as found through a key."""
        record = self._draft.action(self._scope.namespace, id)
        if record is None or not record.opened:
            return None
        action = record.action if record.action.key == key else record.on(key)
        if action.host is not None:
            action = probed(action, self._probe)
        if action.approved > 0 and action.session == self._scope.session:
            return replace(action, answer=record.params)  # what an approved question may run with
        return action

    def _actions(self, key: str, ids: Iterable[int]) -> list[Action]:
        """Return these actions as found through a key."""
        self._draft.load([names.action(self._scope.namespace, id) for id in ids])
        return [action for id in ids if (action := self._action(key, id)) is not None]

    # --- One key ---------------------------------------------------------------------------------

    def _view(self, key: Key, below: Below) -> KeyView:
        scope, name, mode = self._scope, key.name, key.mode
        live: list[Action] = []
        latest: list[Action] = []
        groups: list[tuple[str, ActionGroup]] = []
        for other in covering(name):
            if record := self._key(other):
                by_sort = self._live(record, live, groups) if record.live and scope.live else ()
                latest += self._newest(record, mode, by_sort)
        stale: Sequence[Action] = ()
        if below.keys:
            latest += self._newest_below(below, mode)
            stale = self._stale(below) if mode is _WRITE else ()
            if scope.live:
                live += [action for record in below.keys for action in self._actions(record.key, record.live)]
        mine = self._mark(scope.session, name)
        own = self._action(name, mine.acts[0][0]) if mine.acts else None
        mark, is_above = self._shown_mark(name, mine), False
        if not mark.read and own is None:
            # Reading a tree shows less of a key than reading the key itself.
            looks = [self._mark(scope.session, tree).mark.read for tree in above(name) if sees(tree, name)]
            if look := max(looks, default=0):
                mark, is_above = replace(mark, read=look), True
        once: tuple[ActionGroup, ...] = ()
        if groups:
            once = _each_once(groups, live, latest)
            if below.keys:
                order = {other: at for at, other in enumerate((*covering(name), *[one.key for one in below.keys]))}
                live.sort(key=lambda action: order[action.key])
        if len(live) > 1:
            live.sort(key=_id)
        if len(latest) > 1:
            latest.sort(key=_changed, reverse=True)
        return KeyView(key, mark, tuple(live), tuple(latest), own, tuple(stale), is_above, once)

    def _live(self, record: KeyRecord, live: list[Action], groups: list[tuple[str, ActionGroup]]) -> Collection[int]:
        """Add the live actions on a key. Return the ids of those that are grouped by sort."""
        key = record.key
        fetch = partial(self._actions, key)
        if self._asker is None:
            live += fetch(record.live)
            return ()
        at = f"{self._scope.namespace}\0{key}"
        crowd = self._crowds.take(at)
        if crowd.turned != record.turned:
            crowd = Crowd(record.turned)
        shown, more = crowd.view(self._asker, record.live, record.renewed, fetch)
        self._crowds.keep(at, crowd)
        live += shown
        groups += [(key, one) for one in more]
        return frozenset().union(*[one.ids for one in more])

    def _newest(self, record: KeyRecord, asking: Mode, by_sort: Collection[int] = ()) -> list[Action]:
        """Return the newest action of each of the sessions that changed a key last, without those ``by_sort``.

        If it does not count, the newest that does follows it.
        """
        marks = self._theirs[record.key][:LATEST]
        ids = [mark.acts[0][0] for mark in marks]
        ids += [id for mark in marks if mark.acts[1:] for id in self._counting(mark, asking)[1:]]
        found = [self._action(record.key, id) for id in ids if id not in by_sort]
        return [action for action in found if action is not None]

    def _counting(self, mark: MarkRecord, asking: Mode) -> tuple[int, ...]:
        """Return a session's newest action on a key and, if that does not count, the newest that does."""
        acts, floor = mark.acts, self._scope.floor
        if not acts[1:] or not floor or asking is _READ:
            return (acts[0][0],)
        for id, tier, appends in acts:
            if tier >= floor and not (asking is _APPEND and appends):
                return (acts[0][0],) if id == acts[0][0] else (acts[0][0], id)
        return (acts[0][0],)

    def _others_below(self, below: Below) -> list[MarkRecord]:
        """Return the marks of other sessions that changed keys below, newest change first."""
        marks = [mark for record in below.keys for mark in self._theirs[record.key]]
        return sorted(marks, key=_mark_changed, reverse=True)

    def _newest_below(self, below: Below, mode: Mode) -> list[Action]:
        """Return the newest actions of other sessions on the keys below, as ``_newest`` does for a key."""
        newest = self._others_below(below)[:LATEST]
        return [
            one
            for mark in newest
            for id in self._counting(mark, mode)
            if (one := self._action(mark.key, id)) is not None
        ]

    def _stale(self, below: Below) -> list[Action]:
        """Return the newest changes by others to keys below that the session had seen before."""
        found: dict[int, Action] = {}
        for mark in [mark for mark in self._others_below(below) if mark.key in below.marks][:_STALE]:
            mine = below.marks[mark.key]
            bar = mark.key.find("|")
            look = max(mine.mark.read, self._mark(self._scope.session, mark.key[:bar]).mark.read if bar >= 0 else 0)
            if mine.acts and (own := self._action(mark.key, mine.acts[0][0])) is not None and finished(own):
                look = max(look, own.started)
            action = self._action(mark.key, mark.acts[0][0])
            if look and action is not None and (not action.ended or action.ended > look):
                found[action.id] = action
        return [found[id] for id in sorted(found, reverse=True)[:LATEST]]

    def _shown_mark(self, name: str, mine: MarkRecord) -> Mark:
        """Return a session's mark on a key, with what it inherits from sessions it continues and reads of the whole."""
        mark = mine.mark
        read = mark.read
        bar = name.find("|")
        if bar >= 0:
            read = max(read, self._mark(self._scope.session, name[:bar]).mark.read)
        for predecessor in self._before:
            theirs = self._mark(predecessor, name)
            if not mark.notified and theirs.mark.notified:
                mark = replace(theirs.mark, notified_call=b"")
            read = max(read, theirs.mark.read)
            if theirs.acts and (newest := self._action(name, theirs.acts[0][0])) is not None and finished(newest):
                read = max(read, newest.started)
        return replace(mark, read=read) if read != mark.read else mark


def _each_once(
    groups: list[tuple[str, ActionGroup]], live: list[Action], latest: list[Action]
) -> tuple[ActionGroup, ...]:
    """Return the open actions grouped by sort, and remove them from ``live`` and ``latest``.

    An action that is found through several of the keys stays, and is shown in full through each of them.
    """
    shown = [action.id for action in (*live, *latest)]
    ids = set().union(shown, *[more.ids for _, more in groups])
    if len(ids) == len(shown) + sum([len(more.ids) for _, more in groups]):
        return tuple([more for _, more in groups])
    places = {(id, name) for name, more in groups for id in more.ids}
    live[:] = [action for action in live if (action.id, action.key) not in places]
    latest[:] = [action for action in latest if (action.id, action.key) not in places]
    places.update([(action.id, action.key) for action in (*live, *latest)])
    times = Counter([id for id, _ in places])
    found: list[ActionGroup] = []
    for _, more in groups:
        once = tuple([action for action in more.actions if times[action.id] == 1])
        if len(once) < len(more.ids):
            live += [action for action in more.actions if times[action.id] > 1]
        if once:
            found.append(replace(more, ids=tuple([action.id for action in once]), actions=once))
    return tuple(found)


def _changed(action: Action) -> int:
    return action.ended or action.started


def _mark_changed(mark: MarkRecord) -> int:
    return mark.changed


def _id(action: Action) -> int:
    return action.id
