"""Build a step's view, inside its transaction.

Most calls conflict with nothing, so one statement asks for everything that is nearly always empty: the earlier decision
on this call, trees and facets in use, live actions, actions with the same content, marks. What it does not find is not
looked up again. One more statement per marked key returns the marks with each session's newest action there. What the
connection already knows (``known``) is not asked for. No statement reads more than ``LATEST`` rows, except for live
actions: all are read, but of very many on a key most only as numbers (``crowd``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callosum.model import HOUR, LATEST, MINUTE, NO_MARK, SECOND, Action, Find, Key, KeyView, Mark, Mode, Scope, View
from callosum.stores.base import LATELY_SEARCHED, MAX_LATELY, Clock, Probe
from callosum.stores.crowd import AskingCall, Crowd, Stamp
from callosum.stores.keys import above, bare, scoped, span
from callosum.stores.records import REMEMBERED, TAKEN_BACK
from callosum.stores.rows import (
    ACTION_WIDTH,
    MARK_WIDTH,
    OPENERS,
    action_of,
    answered,
    as_json,
    before_of,
    mark_of,
    own_of,
    wanted,
)
from callosum.stores.sqlite.cache import ConnectionCache, SoleUse
from callosum.stores.sqlite.connection import Execute
from callosum.stores.sqlite.neighbours import SqliteNeighbours, rows_of
from callosum.stores.sqlite.statements import CROWD, SQL
from callosum.stores.view import Fetched, chain, counts, key_view, meant

_CLOSED_OR_NOT: Final = (SQL["marks"], SQL["closed_marks"])
_OF_CROWD: Final = (SQL["crowd_marks"], SQL["closed_crowd_marks"])
"""The statements for many sessions, by whether open actions are left out because a crowd holds them."""
_LIVE_IDS: Final = SQL["live_ids"]
_STAMPS: Final = SQL["stamps"]
_EARLIER: Final = SQL["earlier"]
_NOTHING: Final = (None, 0, 0, 0, 1)
"""What is known where nothing was asked: there may be marks."""
_NO_NAMES: Final[frozenset[str]] = frozenset()
_FOUND: Final = SQL["found"]
_NEWEST_READ: Final = 3
"""Number of other sessions' newest actions that are read if older ones cannot matter; one more is read as well."""
_numbers: Final = msgspec.json.Decoder(list[int]).decode
_changed: Final = itemgetter(MARK_WIDTH + ACTION_WIDTH)
_NOTHING_YET: Final = Fetched({}, {})
"""What is fetched for keys that no other session touches: most calls need no more."""
_PARENT, _CONTINUES = 1, 2  # indexes of columns of a session
_MOST_WALKED: Final = 64
"""Maximum number of a session's own actions on a key that may hide the newest one that counts."""


class SqliteCache:
    """What a process may remember between transactions: facts that hardly ever change.

    ``observe`` is the time until which the gate only observes, at most a second old. ``sessions`` holds when a session
    was last noted, its parent and the session it continues, at most a minute old.
    """

    def __init__(self) -> None:
        self.observe = 0
        self.observe_seen = 0
        self.sessions: dict[str, tuple[int, int, str, str]] = {}
        self.preludes: dict[tuple[int, int, int, bool, bool, bool], str] = {}


class SqliteView(Struct, gc=False):
    """One step's view of the store. ``names`` are the scope's keys with their namespace, once they have been read.

    ``crowded`` are those of them that many sessions know. ``fresh``: the session need not be noted again.
    ``overtaken``: another session changed a key of the found action after it began, so that the order of changes must
    be corrected when it ends; None if that was not checked.
    """

    execute: Execute
    known: ConnectionCache
    scope: Scope
    probe: Probe
    memory: SqliteCache
    names: list[str]
    fetched: Fetched = _NOTHING_YET
    crowded: tuple[str, ...] = ()
    fresh: bool = True
    overtaken: bool | None = None
    asker: AskingCall | None = None
    stamped: tuple[str, list[Stamp]] = ("", [])

    def view(self, clock: Clock) -> View:
        """Return everything that the scope asks for."""
        scope = self.scope
        if scope.find is not None and not scope.keys:
            return self._of_a_report(scope.find, clock)
        space, prints, me, known = scope.namespace, scope.prints, scope.session, self.known
        names = self.names
        used = known.covers
        covers: list[str] = []
        covering: frozenset[str] = _NO_NAMES
        unknown = False
        for key in scope.keys:
            name = scoped(space, key.name)
            names.append(name)
            alone = known.keys.get(name)
            if alone is None or alone.session != me:
                unknown = True
                if used is None:
                    covers += above(name)
                elif used:
                    covering |= used.intersection(above(name))  # in use and above this key
        wholes = [name[: name.index("|")] for name in names if "|" in name]
        marks = unknown and (scope.live or prints or scope.call is not None or len(names) > 1 or wholes)
        asked = names + wholes if scope.live or prints or marks else ()
        earlier, in_use, live, twins, marked = self._prelude(covers, asked, marks=bool(marks))
        now = clock()
        if now <= known.last:
            now = known.last + 1
        parent, predecessors = self._session(now)
        if in_use:
            covering = self._covering(covers)
        ancestors = self._chain(parent, _PARENT) if parent else ()
        waiting = self._wanted(now) if scope.waits else ()
        if live and scope.asks is not None:
            self.asker = AskingCall(me, scope.asks, now, ancestors, waiting, self.probe)
        places: list[KeyView] = []
        met: list[int] = []
        for key, name in zip(scope.keys, names, strict=True):
            alone = known.keys.get(name)
            if alone is not None and alone.session == me and not (live or predecessors):
                own = own_of(me, alone.acted) if alone.acted is not None else None
                places.append(KeyView(key, alone.mark, (), (), own))
                continue
            place = self._view_of_key(key, name, covering, predecessors, live=bool(live), marked=bool(marked))
            if place is None:
                met.append(len(places))
            places.append(place or KeyView(key))
        if met:
            fetched = self.fetched
            on = fetched.names()
            for number in met:
                places[number] = key_view(fetched, scope, scope.keys[number], on)
        if not (earlier or twins or parent or scope.find or scope.waits):
            return View(
                now, tuple(places), observe_until=self._observing(now), bodies=self._bodies, lately=self._lately
            )
        return View(
            now,
            tuple(places),
            self._earlier_decision(earlier) if earlier is not None else None,
            self._find(scope.find, now) if scope.find is not None else None,
            self._twins(names, prints) if twins else (),
            ancestors,
            waiting,
            (),
            self._observing(now),
            self._bodies,
            self._lately,
        )

    def _bodies(self, ids: Sequence[int]) -> dict[int, bytes]:
        return {id: body.encode() for id, body in self.execute(SQL["bodies"], (as_json(ids),)).fetchall()}

    def _lately(self, session: str, limit: int = MAX_LATELY) -> list[Action]:
        return SqliteNeighbours(partial(rows_of, self.execute), self.scope.namespace, (session,), self.probe).touched(
            limit, LATELY_SEARCHED
        )

    def _prelude(self, covers: Sequence[str], asked: Sequence[str], *, marks: bool) -> Sequence[Any]:
        """Ask for the earlier entry of this call and for what is mostly empty, in one statement.

        Returns the entry's ``seq`` or None, and whether there are covers in use, live actions on the keys, actions with
        the scope's digests, and marks on the keys (1 unless ``marks`` are asked for). Afterwards the newest entry is
        known.
        """
        scope, known = self.scope, self.known
        new = known.last < 0
        if not (covers or asked or new):
            if scope.call is None:
                return _NOTHING
            sql: str | None = _EARLIER
        else:
            shape = len(covers), len(asked), len(scope.prints), scope.live, marks, new
            sql = self.memory.preludes.get(shape)
            if sql is None:
                if len(self.memory.preludes) > 200:
                    self.memory.preludes.clear()
                sql = self.memory.preludes[shape] = _prelude(*shape)
        call = bytearray(scope.call) if scope.call is not None else None  # bytes are slow to bind
        found = self.execute(sql, (call, *covers, *asked, *scope.prints)).fetchone()
        if sql is _EARLIER:
            return _NOTHING if found is None else (found[0], *_NOTHING[1:])
        if new:
            known.last = found[5] or 0
        row: Sequence[Any] = found[:5]
        return row

    def _covering(self, covers: list[str]) -> frozenset[str]:
        rows = self.execute(SQL["covering"], (as_json(covers),)).fetchall()
        return frozenset([name for (name,) in rows])

    # --- One key ---

    def _view_of_key(
        self, key: Key, name: str, covering: frozenset[str], predecessors: tuple[str, ...], *, live: bool, marked: bool
    ) -> KeyView | None:
        """Return the view of a key if only this session uses it. Otherwise fetch what is there and return None.

        ``live`` and ``marked`` say whether the scope's keys may have live actions and marks.
        """
        related = [other for other in above(name) if other in covering] if covering else []
        whole = name[: name.index("|")] if "|" in name else ""
        if whole and whole not in related and (live or (marked and self._is_marked(whole))):
            related.append(whole)
        me, shown = self.scope.session, key.name
        rows, mine = self._rows(name, key.mode) if marked else ([], None)
        is_tree = name[-1] == "/"
        if not (rows or related or is_tree):
            self.known.add_key(name, sole_use_of(me, mine))
        mark = mark_of(mine) if mine is not None else NO_MARK
        acted = mine[MARK_WIDTH - 1] if mine is not None else None
        if not (rows or related or is_tree or live or predecessors):
            return KeyView(key, mark, (), (), own_of(me, acted) if acted is not None else None)
        if self.fetched is _NOTHING_YET:
            self.fetched = Fetched({}, {}, predecessors)
        fetched = self.fetched
        if mine is not None:
            fetched.marks[shown, me] = mark
        crowd = self._live(name, shown) if live and self.scope.live else None
        if rows:
            self._add(rows[:LATEST], MARK_WIDTH, shown, key.mode, crowd)
        for predecessor in predecessors:
            row = self.execute(SQL["own_mark"], (name, predecessor)).fetchone()
            if row is not None:
                fetched.marks[shown, predecessor] = mark_of(row)
                self._add((row,), MARK_WIDTH, shown, Mode.READ)
        if related or is_tree:
            self._relatives(key, name, related)
        if acted is not None and acted not in fetched.acts.get(shown, ()):
            own = own_of(me, acted)
            if fetched.acts or fetched.more:
                own = self._own_newest(acted, shown) or own
            fetched.on(shown)[acted] = own
        return None

    def _rows(self, name: str, mode: Mode) -> tuple[list[Any], Any]:
        """Return other sessions' marks on a key as far as they matter, newest change first, and this session's mark."""
        me = self.scope.session
        rows = self.execute(_CLOSED_OR_NOT[self.asker is not None], (name, me)).fetchall()
        if not rows:
            return rows, None
        if len(rows) == 1:
            return ([], rows[0]) if rows[0][0] == me else (rows, None)
        if len(rows) > CROWD or rows[0][0] == "":
            return self._crowd_rows(name, mode, known=rows[0][0] == "")
        rows.sort(key=_changed, reverse=True)
        mine = None
        for place, row in enumerate(rows):
            if row[0] == me:
                mine = rows.pop(place)
                break
        if len(rows) > _NEWEST_READ and rows[_NEWEST_READ][MARK_WIDTH - 1] is not None and not self._all_matter(mode):
            del rows[_NEWEST_READ + 1 :]
        return rows, mine

    def _crowd_rows(self, name: str, mode: Mode, *, known: bool) -> tuple[list[Any], Any]:
        """Return the same for a key with many sessions, whose marks have an index by their change.

        Such a key also has a mark of no session (``""``). There are few such keys, so the others need not maintain the
        index.
        """
        me = self.scope.session
        if not known:
            self.execute(SQL["make_crowd"], (name,))
            self.execute(SQL["name_crowd"], (name,))
        self.crowded = (*self.crowded, name)
        mine = self.execute(SQL["own_mark"], (name, me)).fetchone()
        most = LATEST if self._all_matter(mode) else _NEWEST_READ + 1
        rows = self.execute(_OF_CROWD[self.asker is not None], (name, me, most + 1)).fetchall()
        return [row for row in rows if row[0] != me], mine

    def _is_marked(self, name: str) -> bool:
        return self.execute(SQL["is_marked"], (name,)).fetchone() is not None

    def is_crowd(self, name: str) -> bool:
        """Return True if a key that the scope does not name is crowded."""
        return self.execute(SQL["is_crowd"], (name,)).fetchone() is not None

    def _relatives(self, key: Key, name: str, related: list[str]) -> None:
        """Fetch what is stored for trees above, keys below and facets."""
        scope, fetched = self.scope, self.fetched
        space, me = scope.namespace, scope.session
        # A session that only reads a tree is not shown the keys in it, which may be a million.
        below = [span(name)] if name[-1] == "/" and key.mode is not Mode.READ else []
        for other in related:
            if other == name + "|":
                if name[-1] != "/":  # a tree's facets lie inside it
                    below.append((other, name + "}"))
                continue
            shown = bare(other, space)
            rows, mine = self._rows(other, Mode.WRITE)
            crowd = self._live(other, shown) if scope.live else None
            if rows:
                self._add(rows[:LATEST], MARK_WIDTH, shown, key.mode, crowd)
            if mine is not None:
                fetched.marks[shown, me] = mark_of(mine)
        for low, high in below:
            if scope.live:
                for row in self.execute(SQL["live_below"], (low, high)).fetchall():
                    self._add_live((row[1:],), bare(row[0], space))
            for row in self.execute(SQL["latest_below"], (low, high, me)).fetchall():
                self._add((row,), 1, bare(row[0], space), key.mode)
            if key.mode is Mode.WRITE:
                for row in self.execute(SQL["stale_below"], (low, high, me)).fetchall():
                    shown = bare(row[0], space)
                    fetched.add(action_of(row, 1, shown, self.probe))
                    fetched.marks.setdefault((shown, me), Mark(row[1 + ACTION_WIDTH]))

    def _all_matter(self, asking: Mode) -> bool:
        """Return True if actions older than the newest few can be evidence.

        They cannot for an append below tier 3 whose content is not compared: nothing is ``recent``, ``stale`` or
        ``duplicate`` for it.
        """
        return self.scope.floor > 0 or asking is Mode.WRITE or bool(self.scope.prints)

    def _live(self, name: str, shown: str) -> Crowd | None:
        """Fetch the live actions on a key. Return the open ones if they are grouped by sort."""
        asker = self.asker
        if asker is None:
            self._add_live(self.execute(SQL["live"], (name,)).fetchall(), shown)
            return None
        ids, lost = self.execute(_LIVE_IDS, (name,)).fetchone()
        if lost is not None:
            self._add_live(self.execute(SQL["by_ids"], (f"[{lost}]",)).fetchall(), shown)
        if ids is None:
            return None
        crowds = self.known.crowds
        crowd = crowds.take(name)

        def fetch(ids: Sequence[int]) -> list[Action]:
            rows = self.execute(SQL["by_ids"], (as_json(ids),)).fetchall()
            for row in rows:
                crowd.note(row[0], before_of(row[10], shown))
            return [action_of(row, 0, shown, self.probe) for row in rows]

        found, more = crowd.view(asker, _numbers(f"[{ids}]"), fetch, self._stamps)
        crowds.keep(name, crowd)
        for action in found:
            self.fetched.add(self._with_params(action))
        if more:
            self.fetched.more[shown] = more
        return crowd

    def _stamps(self, ids: Sequence[int]) -> list[Stamp]:
        """Return what can change about open actions."""
        asked = as_json(ids)
        if asked != self.stamped[0]:  # the keys of a call mostly have the same open actions
            self.stamped = asked, self.execute(_STAMPS, (asked,)).fetchall()
        return self.stamped[1]

    def _add_live(self, rows: Sequence[Any], shown: str) -> None:
        """Add live actions that are not there yet."""
        on = self.fetched.on(shown) if rows else {}
        for row in rows:
            if row[0] not in on:
                on[row[0]] = self._with_params(action_of(row, 0, shown, self.probe))

    def _own_newest(self, acted: int, shown: str) -> Action | None:
        """Return this session's newest action on a key."""
        row = self.execute(SQL["by_id"], (acted,)).fetchone()
        return action_of(row, 0, shown, self.probe) if row is not None else None

    def _with_params(self, action: Action) -> Action:
        """Return an approved question of this session with the params it may run with."""
        if action.approved <= 0 or action.session != self.scope.session:
            return action
        row = self.execute(SQL["fact"], (f"params:{action.id}",)).fetchone()
        return replace(action, answer=row[0]) if row else action

    def _add(self, rows: Sequence[Any], at: int, shown: str, asking: Mode, crowd: Crowd | None = None) -> None:
        """Add each session's newest action and, if that does not count, the newest older one that does.

        The columns of an action begin at ``at``; for an action in the ``crowd`` they are empty.
        """
        floor = self.scope.floor if asking is not Mode.READ else 0
        closed = [row for row in rows if row[at] is not None]
        if closed:
            on = self.fetched.on(shown)
            for row in closed:
                action = on[row[at]] = action_of(row, at, shown, self.probe)
                if floor and not counts(action, asking, floor):
                    self._add_newest_that_counts(on, before_of(row[at + 10], shown), shown, asking)
        if floor and crowd is not None and crowd.before:
            for id in [row[at - 1] for row in rows if row[at - 1] in crowd.before]:
                if not counts(crowd[id], asking, floor):
                    self._add_newest_that_counts(self.fetched.on(shown), crowd.before[id], shown, asking)

    def _add_newest_that_counts(self, on: dict[int, Action], before: int, shown: str, asking: Mode) -> None:
        """Add a session's newest action that counts: ``before`` or an older one."""
        for _ in range(_MOST_WALKED):
            found = self.execute(SQL["by_id"], (before,)).fetchone() if before else None
            if found is None:
                return
            action, before = action_of(found, 0, shown, self.probe), before_of(found[10], shown)
            if counts(action, asking, self.scope.floor) and action.state not in TAKEN_BACK:
                on[action.id] = action
                return

    # --- Sessions ---

    def _session(self, now: int) -> tuple[str, tuple[str, ...]]:
        """Return this session's parent and the sessions whose marks it inherits. Note whether the session is new."""
        scope = self.scope
        name = scoped(scope.namespace, scope.session)
        known = self.memory.sessions.get(name)
        if known is None or not 0 <= now - known[0] < MINUTE:
            row = self.execute(SQL["session"], (name,)).fetchone()
            known = (now, row[0], row[1] or "", row[2] or "") if row else (now, 0, "", "")
            if len(self.memory.sessions) > 10_000:
                self.memory.sessions.clear()
            self.memory.sessions[name] = known
        _, seen, parent, continues = known
        self.fresh = now - seen < HOUR
        if not (parent or continues or scope.parent or scope.continues):
            return "", ()
        self.fresh = (
            self.fresh
            and (not scope.parent or scope.parent == parent)
            and (not scope.continues or scope.continues == continues)
        )
        continued = scope.continues or continues
        return scope.parent or parent, self._chain(continued, _CONTINUES) if continued else ()

    def _chain(self, first: str, column: int) -> tuple[str, ...]:
        """Return the sessions that a session descends from or continues, nearest first."""

        def link(name: str) -> str:
            row = self.execute(SQL["session"], (scoped(self.scope.namespace, name),)).fetchone()
            return (row[column] if row else "") or ""

        return chain(first, link)

    def _observing(self, now: int) -> int:
        memory = self.memory
        if not 0 <= now - memory.observe_seen < SECOND:
            row = self.execute(SQL["fact"], ("observe",)).fetchone()
            memory.observe, memory.observe_seen = (row[0] if row else 0), now
        return memory.observe

    def _wanted(self, now: int) -> tuple[str, ...]:
        """Return the sessions that wait for something this session holds, trees included."""
        me = self.scope.session
        space = self.scope.namespace
        rows = self.execute(SQL["queues"], (space, me)).fetchall()
        return wanted(rows, me, now, lambda names: self.execute(SQL["held"], (space, as_json(names))).fetchall())

    # --- The same content ---

    def _twins(self, names: Sequence[str], prints: tuple[bytes, ...]) -> tuple[Action, ...]:
        twins = SQL["twins"].format(prints=_placeholders(4, len(prints)))
        found: dict[int, Action] = {}
        for name in names:
            for own in (0, 1):
                for row in self.execute(twins, (name, self.scope.session, own, *prints)).fetchall():
                    found.setdefault(row[1], action_of(row, 1, bare(row[0], self.scope.namespace), self.probe))
        return tuple(found[id] for id in sorted(found, reverse=True))

    # --- Reports ---

    def _of_a_report(self, find: Find, clock: Clock) -> View:
        now = clock()
        known = self.known
        id = find.id if find.id is not None else self._id_of_reported_action(find, now)
        action = self._opened(id) if id is not None else None
        if action is None:
            action, last = self._action_and_newest_entry(id) if id is not None else (None, None)
            if last is None:
                (last,) = self.execute(SQL["newest"]).fetchone()
            known.last = last or 0
        if now <= known.last:
            now = known.last + 1
        if action is None or not action.supersedes:
            return View(now, (), None, action)
        superseded = tuple(a for i in action.supersedes if (a := self._action_and_newest_entry(i)[0]) is not None)
        return View(now, (), None, action, superseded=superseded)

    def _opened(self, id: int) -> Action | None:
        """Return the action as this connection opened it, if no other session can have touched its keys since."""
        action = self.known.opened.get(id)
        if action is None or action.namespace != self.scope.namespace:
            return None
        for key in action.keys:
            alone = self.known.keys.get(scoped(action.namespace, key.name))
            if alone is None or alone.session != action.session:
                return None
        self.overtaken = False
        return action

    def _find(self, find: Find, now: int) -> Action | None:
        id = find.id if find.id is not None else self._id_of_reported_action(find, now)
        return self._action_and_newest_entry(id)[0] if id is not None else None

    def _action_and_newest_entry(self, id: int) -> tuple[Action | None, int | None]:
        """Return the action of this id, and the newest entry's seq (None if there is no such entry)."""
        row = self.execute(_FOUND, (id,)).fetchone()
        if row is None:
            return None, None
        event, verdict, last, overtaken = row[ACTION_WIDTH:]
        if row[1] != self.scope.namespace or event not in OPENERS:
            return None, last
        action = action_of(row, 0, "", self.probe, verdict)
        self.overtaken = bool(
            self.overtaken or overtaken or any(self._is_changed(action, key) for key in action.keys[1:])
        )
        return action, last

    def _is_changed(self, action: Action, key: Key) -> bool:
        """Return True if another session changed a key of the action after it began."""
        name = scoped(action.namespace, key.name)
        return bool(self.execute(SQL["is_changed"], (name, action.id, action.session)).fetchone()[0])

    def _earlier_decision(self, id: int) -> Action | None:
        """Return the action that this call opened before, with the decision that was given."""
        action, _ = self._action_and_newest_entry(id)
        (body,) = self.execute(SQL["body"], (id,)).fetchone()
        return answered(action, body) if action is not None else None

    def _id_of_reported_action(self, find: Find, now: int) -> int | None:
        """Return the id of the action that a report without an id means: one without a report, or an unknown one."""
        scope = self.scope
        since = now - REMEMBERED
        me, space = scope.session, scope.namespace
        rows = self.execute(SQL["unreported"], (me, since, space)).fetchall()
        row = self.execute(SQL["not_searched"]).fetchone()
        rows += self.execute(SQL["unreported_calls"], (max(since, row[0] if row else 0), me, space)).fetchall()
        rows += self.execute(SQL["unknown"], (me, space)).fetchall()
        action = meant((action_of(row, 0, "", self.probe) for row in rows), find)
        return action.id if action is not None else None


def sole_use_of(session: str, mine: Any) -> SoleUse:
    """Return what is known about a key that has no row but possibly this session's."""
    if mine is None:
        return SoleUse(session, NO_MARK, None, there=False)
    return SoleUse(session, mark_of(mine), mine[MARK_WIDTH - 1], there=True)


def _prelude(covers: int, keys: int, prints: int, live: bool, marks: bool, last: bool) -> str:
    """Return the statement of ``SqliteView._prelude`` for these counts; ``last`` also asks for the newest entry."""
    over, mine, same = (
        _placeholders(2, covers),
        _placeholders(2 + covers, keys),
        _placeholders(2 + covers + keys, prints),
    )
    return ", ".join(
        (
            f"select ({_EARLIER})",
            SQL["any_cover"].format(covers=over) if covers else "0",
            SQL["any_live"].format(keys=mine) if live and keys else "0",
            SQL["any_print"].format(keys=mine, prints=same) if keys and prints else "0",
            SQL["any_mark"].format(keys=mine) if marks else "1",
            *([f"({SQL['newest']})"] if last else ()),
        )
    )


def _placeholders(first: int, count: int) -> str:
    """Return ``count`` placeholders of a statement, numbered from ``first``."""
    return ",".join([f"?{number}" for number in range(first, first + count)])
