"""Writing a step's change, inside its transaction."""

from __future__ import annotations

from typing import Final

from callosum.model import (
    NO_MARK,
    Action,
    Applied,
    Change,
    Content,
    Entry,
    Key,
    Mark,
    Mode,
    Move,
    Opening,
    Scope,
    Settle,
    State,
    View,
)
from callosum.stores.sqlite.connection import Execute
from callosum.stores.sqlite.look import Look
from callosum.stores.sqlite.rows import Extra, as_json, before_of, encode, note_of, scoped, stored_keys

_ENDED: Final = frozenset({State.DONE, State.FAILED, State.CANCELLED})
_DONE, _OPEN_STATE, _READ = State.DONE, State.OPEN, Mode.READ  # an enum's attributes are slow

_OPEN: Final = (
    "insert into journal(seq, event, namespace, session, run, tool, tier, verdict, rule, action, "
    "outcome, key, keys, body, call, state, ended, expires, approved, content, extra) "
    "values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_NOTE: Final = "insert into journal(seq, event, namespace, session, action, outcome, body) values(?,?,?,?,?,?,?)"
_SET_MARK: Final = (
    "insert into mark(key, session, read, told, kind, note, acted, changed, crowd) values(?,?,?,?,?,?,?,?,?) "
    "on conflict(key, session) do update set read = excluded.read, told = excluded.told, "
    "kind = excluded.kind, note = excluded.note, "
    "acted = coalesce(excluded.acted, acted), changed = max(excluded.changed, changed), "
    "crowd = max(excluded.crowd, crowd)"
)


class Apply:
    """Writes one change for one scope."""

    __slots__ = ("execute", "look", "now", "scope", "view")

    def __init__(self, execute: Execute, scope: Scope, look: Look, view: View) -> None:
        self.execute = execute
        self.scope = scope
        self.look = look
        self.view = view
        self.now = view.now

    def write(self, change: Change) -> Applied:
        """Applies everything; entries are numbered from the view's now."""
        for settle in change.settles:
            self._settle(settle)
        if change.observe_until is not None:
            self.execute("insert or replace into meta values('observe', ?)", (change.observe_until,))
            self.look.memory.observe_seen = 0
        count = len(change.entries)
        ids = (self.now,) if count == 1 else tuple(range(self.now, self.now + count))
        for number, entry in enumerate(change.entries):
            last = number == count - 1
            if last and change.open is not None:
                self._open(ids[number], entry, change.open, change.moves)
            elif entry.action:
                self._note(ids[number], entry)
            else:
                self._insert(ids[number], entry, change.content if last else None)
        if change.open is None and change.moves:
            self._marks(change.moves, 0, ())
        if not self.look.fresh:
            self._note_session()
        return Applied(change, ids, self.now)

    # --- entries ---

    def _note(self, seq: int, entry: Entry) -> None:
        """An entry about an action: tool, tier and keys are the action's."""
        self.execute(
            _NOTE,
            (
                seq,
                entry.event._value_,
                entry.namespace,
                entry.session,
                entry.action,
                entry.outcome._value_ if entry.outcome is not None else None,
                as_json(entry.body) if entry.body else None,
            ),
        )

    def _insert(self, seq: int, entry: Entry, content: Content | None) -> None:
        """An entry of its own that opens nothing."""
        keys = [(key.name, key.mode._value_, 0) for key in entry.keys]
        self._row(seq, entry, keys, (None, None, None, None, None, encode(content) if content else None, None), 0)

    def _row(
        self, seq: int, entry: Entry, keys: list[tuple[str, str, int]], life: tuple[object, ...], action: int
    ) -> None:
        verdict = entry.verdict
        self.execute(
            _OPEN,
            (
                seq,
                entry.event._value_,
                entry.namespace,
                entry.session,
                entry.run or None,
                entry.tool or None,
                entry.tier,
                verdict._value_ if verdict is not None else None,
                entry.rule or None,
                action or None,
                entry.outcome._value_ if entry.outcome is not None else None,
                scoped(entry.namespace, keys[0][0]) if keys else None,
                as_json(keys) if keys else None,
                as_json(entry.body) if entry.body else None,
                *life,
            ),
        )

    def _open(self, seq: int, entry: Entry, opening: Opening, moves: tuple[Move, ...]) -> None:
        """An entry that becomes an action, with all that lets others find it."""
        state = opening.state
        acts = state is _DONE or state is _OPEN_STATE
        extra = None
        if opening.limit or opening.host is not None or opening.lock or opening.supersedes:
            extra = encode(Extra(opening.limit, opening.host, opening.lock, opening.supersedes))
        life = (
            self.scope.call if acts else None,
            state._value_,
            0,
            opening.expires,
            0,
            encode(opening.content),
            extra,
        )
        keys = entry.keys
        self._row(seq, entry, self._stored(keys), life, seq)
        if opening.params is not None:
            self.execute("insert or replace into meta values(?, ?)", (f"params:{seq}", opening.params))
        names = self.look.names if keys == self.scope.keys else [scoped(entry.namespace, key.name) for key in keys]
        writes = [name for key, name in zip(keys, names, strict=True) if key.mode is not _READ]
        if state is not _DONE:
            for name in names:
                self.execute("insert or ignore into live values(?, 1, ?)", (name, seq))
        self._marks(moves, seq if acts and not opening.lock else 0, writes)
        for print_ in opening.prints if acts else ():
            for name in writes:
                self.execute("insert or ignore into print values(?, ?, ?)", (name, print_, seq))
        for name in names:
            bar = name.find("|")
            if bar >= 0 or name[-1] == "/":
                cover = name[: bar + 1] if bar >= 0 else name
                self.execute("insert or ignore into cover values(?)", (cover,))

    def _stored(self, keys: tuple[Key, ...]) -> list[tuple[str, str, int]]:
        places = self.view.keys
        stored = []
        for number, key in enumerate(keys):
            place = places[number] if number < len(places) and places[number].key == key else None
            before = 0
            if place is not None:
                before = place.mark.read if key.mode is _READ else place.own.id if place.own is not None else 0
            stored.append((key.name, key.mode._value_, before))
        return stored

    # --- marks ---

    def _marks(self, moves: tuple[Move, ...], acted: int, writes: list[str] | tuple[()]) -> None:
        """One row a key: what the session now knows and, for writes, its newest action."""
        namespace = self.scope.namespace
        marks = {scoped(namespace, move.key): move.mark for move in moves} if moves else None
        if acted:
            for name in writes:
                mark = marks.pop(name, None) if marks else None
                self._set_mark(name, mark if mark is not None else self._mark(name), acted, acted)
        if marks:
            for name, mark in marks.items():
                self._set_mark(name, mark, None, 0)

    def _mark(self, name: str) -> Mark:
        for place, own in zip(self.view.keys, self.look.names, strict=False):
            if own == name:
                return place.mark
        return NO_MARK

    def _set_mark(self, name: str, mark: Mark, acted: int | None, changed: int) -> None:
        look = self.look
        crowd = name in look.crowded or (name not in look.names and look.is_crowd(name))
        self.execute(
            _SET_MARK,
            (
                name,
                self.scope.session,
                mark.read,
                mark.told,
                mark.told_kind,
                note_of(mark),
                acted,
                changed,
                1 if crowd else 0,
            ),
        )

    def _note_session(self) -> None:
        scope = self.scope
        name = scoped(scope.namespace, scope.session)
        self.execute(
            "insert into session(name, seen, parent, continues) values(?, ?, ?, ?) on conflict(name) do update set "
            "seen = excluded.seen, parent = coalesce(excluded.parent, parent), "
            "continues = coalesce(excluded.continues, continues)",
            (name, self.now, scope.parent or None, scope.continues or None),
        )
        self.look.memory.sessions.pop(name, None)

    # --- settling ---

    def _settle(self, settle: Settle) -> None:
        action, state = settle.action, settle.state
        if state is action.state and not settle.ended and settle.approved is None:
            self.execute("update journal set expires = ? where seq = ?", (settle.expires, action.id))
            return
        if settle.expires is None and settle.approved is None:
            self.execute(
                "update journal set state = ?, ended = ? where seq = ?",
                (state._value_, settle.ended, action.id),
            )
        else:
            self.execute(
                "update journal set state = ?, ended = ?, expires = coalesce(?, expires), "
                "approved = coalesce(?, approved) where seq = ?",
                (state._value_, settle.ended, settle.expires, settle.approved, action.id),
            )
        was_live = action.state not in _ENDED
        stays_live = state not in _ENDED
        many = len(action.keys) > 1
        if was_live or stays_live or many or self.look.overtaken or state is not _DONE:
            self._settle_keys(settle, was_live, stays_live, many)

    def _settle_keys(self, settle: Settle, was_live: bool, stays_live: bool, many: bool) -> None:
        action, state = settle.action, settle.state
        for key in action.keys:
            name = scoped(action.namespace, key.name)
            if was_live:
                was_open = 0 if action.state is State.UNKNOWN else 1
                self.execute("delete from live where key = ? and open = ? and id = ?", (name, was_open, action.id))
            if stays_live:
                open_ = 0 if state is State.UNKNOWN else 1
                self.execute("insert or ignore into live values(?, ?, ?)", (name, open_, action.id))
        if action.state is State.ASKED and not stays_live:
            self.execute("delete from meta where name = ?", (f"params:{action.id}",))
        if state is State.DONE and (self.look.overtaken or many):
            for key in action.keys:
                name = scoped(action.namespace, key.name)
                self.execute(
                    "update mark set changed = max(changed, ?) where key = ? and session = ? and acted is not null",
                    (settle.ended, name, action.session),
                )
        elif state in (State.FAILED, State.CANCELLED) and action.state not in (State.QUEUED, State.ASKED):
            self._take_back(action)

    def _take_back(self, action: Action) -> None:
        """A failed or cancelled action is nobody's latest, and a read that failed was none."""
        row = self.execute("select keys from journal where seq = ?", (action.id,)).fetchone()
        for stored in stored_keys(row[0]) if row and row[0] else ():
            name = scoped(action.namespace, stored.name)
            if stored.mode == "read":
                before = self._looked(stored.before, stored.name)
                self.execute(
                    "update mark set read = ? where key = ? and session = ? and read > ? and read <= ?",
                    (before, name, action.session, before, action.id),
                )
                continue
            standing, changed = self._standing(stored.before, stored.name)
            self.execute(
                "update mark set acted = ?, changed = ? where key = ? and session = ? and acted = ?",
                (standing, changed, name, action.session, action.id),
            )

    def _looked(self, read: int, key: str) -> int:
        """The session's newest look at or before ``read`` that did not fail."""
        while read:
            row = self.execute("select state, keys from journal where seq = ?", (read,)).fetchone()
            if row is None or row[0] not in ("failed", "cancelled"):
                break
            read = before_of(row[1], key)
        return read

    def _standing(self, id: int, key: str) -> tuple[int | None, int]:
        """The session's newest action at or before ``id`` that was not taken back, and its moment."""
        while id:
            row = self.execute("select seq, state, ended, keys from journal where seq = ?", (id,)).fetchone()
            if row is None:
                break
            if row[1] not in ("failed", "cancelled"):
                return int(row[0]), int(row[2] or row[0])
            id = before_of(row[3], key)
        return None, 0
