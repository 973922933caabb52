"""Write a step's change, inside its transaction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from callosum.model import (
    HOUR,
    Action,
    Applied,
    Change,
    Content,
    Entry,
    KeyView,
    Mark,
    Mode,
    Move,
    Opening,
    Revision,
    Scope,
    Settle,
    State,
    View,
)
from callosum.policy.commitments import COMMITTED
from callosum.stores.keys import covers, scoped
from callosum.stores.rows import RareFields, as_json, encode, note_of, standing, standing_look, stored_keys
from callosum.stores.sqlite.cache import ConnectionCache, SoleUse
from callosum.stores.sqlite.connection import Execute
from callosum.stores.sqlite.statements import SQL
from callosum.stores.sqlite.view import SqliteView
from callosum.stores.writes import opened

_ENDED: Final = frozenset({State.DONE, State.FAILED, State.CANCELLED})
_DONE, _OPEN_STATE, _READ = State.DONE, State.OPEN, Mode.READ  # an enum's attributes are slow

_ADD_ENTRY: Final = SQL["add_entry"]
_ADD_NOTE: Final = SQL["add_note"]
_ADD_ACTION: Final = SQL["add_action"]
_ADD_LIVE: Final = SQL["add_live"]
_SETTLE: Final = SQL["settle"]
_DROP_LIVE: Final = SQL["drop_live"]
_SET_ACTED: Final = SQL["set_acted"]
_SET_MARKS: Final = SQL["set_marks"]
_MARK_ROW: Final = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ROW: Final = "(?, ?, ?)"
_OPEN_ROW: Final = "(?, 1, ?)"  # sqlite3 is slow to bind null and bytes (it looks for an adapter), not a bytearray


@lru_cache(256)
def _of_many(statement: str, part: str, count: int) -> str:
    """Return a statement whose one gap is filled with ``count`` times ``part``."""
    return statement.format(",".join([part] * count))


class SqliteWriter(Struct, gc=False):
    """Writes one change for one scope, after its view was read; ``now`` is the view's."""

    execute: Execute
    known: ConnectionCache
    scope: Scope
    look: SqliteView
    view: View
    now: int

    def write(self, change: Change) -> Applied:
        """Apply the change. Entries are numbered from the view's now."""
        for settle in change.settles:
            self._settle(settle)
        for revision in change.revisions:
            self._revise(revision)
        if change.observe_until is not None:
            self.execute(SQL["set_fact"], ("observe", change.observe_until))
            self.look.memory.observe_seen = 0
        now, entries, opening = self.now, change.entries, change.open
        seq = now - 1
        for entry in entries:
            seq += 1
            if opening is not None and entry is entries[-1]:
                self._open(seq, entry, opening, change.moves)
            elif entry.action:
                self._note(seq, entry)
            else:
                self._insert(seq, entry, change.content if entry is entries[-1] else None)
        if opening is None and change.moves:
            self._marks(change.moves, 0, ())
        if not self.look.fresh:
            self._note_session()
        if seq >= now:
            self.known.last = seq
        return Applied(change, (now,) if seq == now else tuple(range(now, seq + 1)), now)

    # --- Entries ---

    def _note(self, seq: int, entry: Entry) -> None:
        """Write an entry about an action, whose tool, tier and keys are the action's."""
        self.execute(
            _ADD_NOTE,
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
        """Write an entry that opens nothing."""
        keys = [(key.name, key.mode._value_, 0) for key in entry.keys]
        self.execute(
            _ADD_ENTRY,
            (
                seq,
                entry.event._value_,
                entry.namespace,
                entry.session,
                entry.run or None,
                entry.tool or None,
                entry.tier,
                entry.verdict._value_ if entry.verdict is not None else None,
                entry.rule or None,
                entry.outcome._value_ if entry.outcome is not None else None,
                scoped(entry.namespace, keys[0][0]) if keys else None,
                as_json(keys) if keys else None,
                as_json(entry.body) if entry.body else None,
                encode(content) if content else None,
            ),
        )

    def _open(self, seq: int, entry: Entry, opening: Opening, moves: tuple[Move, ...]) -> None:
        """Write an entry that becomes an action, with everything that lets other calls find it."""
        state, keys = opening.state, entry.keys
        acts = state is _DONE or state is _OPEN_STATE
        if keys is self.scope.keys:
            names, places = self.look.names, self.view.keys
        else:
            names = [scoped(entry.namespace, key.name) for key in keys]
            known = {place.key: place for place in self.view.keys}
            places = tuple([known.get(key, KeyView(key)) for key in keys])
        stored: list[tuple[str, str, int]] = []
        writes: list[tuple[str, Mark]] = []
        for key, name, place in zip(keys, names, places, strict=True):
            if key.mode is _READ:
                stored.append((key.name, "read", place.mark.read))
            else:
                own = place.own
                stored.append((key.name, key.mode._value_, own.id if own is not None else 0))
                writes.append((name, place.mark))
        self._row(seq, entry, opening, names[0] if names else None, stored, self.scope.call if acts else None)
        if acts and opening.host is None:  # whether a host process is alive must be looked up each time
            self.known.add_action(opened(seq, entry, opening))
        if opening.params is not None:
            self.execute(SQL["set_fact"], (f"params:{seq}", opening.params))
        if state is not _DONE and names:
            rows = [value for name in names for value in (name, seq)]
            self.execute(_of_many(_ADD_LIVE, _OPEN_ROW, len(names)), rows)
        if moves or acts:
            self._marks(moves, seq if acts and not opening.lock else 0, writes)
        if acts and writes and opening.prints:
            found = [value for print_ in opening.prints for name, _ in writes for value in (name, print_, seq)]
            self.execute(_of_many(SQL["add_prints"], _ROW, len(found) // 3), found)
        for name in names:
            if name[-1] == "/" or "|" in name:
                self._cover(name)

    def _row(
        self,
        seq: int,
        entry: Entry,
        opening: Opening,
        name: str | None,
        keys: list[tuple[str, str, int]],
        call: bytes | None,
    ) -> None:
        verdict = entry.verdict
        row = (
            seq,
            entry.event._value_,
            entry.namespace,
            entry.session,
            entry.tool,
            entry.tier,
            verdict._value_ if verdict is not None else None,
            entry.rule,
            name,
            as_json(keys) if keys else None,
            as_json(entry.body) if entry.body else None,
            bytearray(call) if call is not None else None,
            opening.state._value_,
            opening.expires,
            bytearray(encode(opening.content)),
        )
        if opening.limit or opening.host is not None or opening.lock or opening.supersedes:
            extra = encode(RareFields(opening.limit, opening.host, opening.lock, opening.supersedes))
            self.execute(SQL["add_action_with_more"], (*row, entry.run or None, extra))
        elif entry.run:
            self.execute(SQL["add_action_with_more"], (*row, entry.run, None))
        else:
            self.execute(_ADD_ACTION, row)

    def _cover(self, name: str) -> None:
        """Note a key that covers others: a tree, or the prefix of facets."""
        in_use = self.known.covers
        for cover in covers(name):
            if in_use is not None and cover in in_use:
                continue
            if self.execute(SQL["add_cover"], (cover,)).rowcount:
                self.known.add_cover(cover)

    # --- Marks ---

    def _marks(self, moves: tuple[Move, ...], acted: int, writes: Sequence[tuple[str, Mark]]) -> None:
        """Write one row per key: what the session now knows and, for writes, its newest action."""
        namespace = self.scope.namespace
        marks_by_name = {scoped(namespace, move.key): move.mark for move in moves} if moves else {}
        rows: list[Any] = []
        if acted:
            for name, mark in writes:
                self._set_mark(name, marks_by_name.pop(name, mark), acted, acted, rows)
        for name, mark in marks_by_name.items():
            self._set_mark(name, mark, None, 0, rows)
        if rows:
            self.execute(_of_many(_SET_MARKS, _MARK_ROW, len(rows) // 9), rows)

    def _set_mark(self, name: str, mark: Mark, acted: int | None, changed: int, rows: list[Any]) -> None:
        """Set a mark at once where an update does, else add its columns to ``rows``."""
        look, known = self.look, self.known.keys.get(name)
        if acted and known is not None and known.there and known.mark is mark and known.session == self.scope.session:
            self.execute(_SET_ACTED, (acted, changed, name, known.session))
            self.known.keys[name] = SoleUse(known.session, mark, acted, there=True)
            return
        crowd = name in look.crowded or (name not in look.names and look.is_crowd(name))
        rows += (
            name,
            self.scope.session,
            mark.read,
            mark.notified,
            mark.notified_kind,
            note_of(mark),
            acted,
            changed,
            1 if crowd else 0,
        )
        self.known.mark(name, self.scope.session, mark, acted)

    def _note_session(self) -> None:
        scope = self.scope
        name = scoped(scope.namespace, scope.session)
        self.execute(SQL["set_session"], (name, self.now, scope.parent or None, scope.continues or None))
        self.look.memory.sessions.pop(name, None)

    def _revise(self, revision: Revision) -> None:
        action = revision.action
        self.known.opened.pop(action.id, None)
        self.execute(SQL["set_content"], (encode(revision.content), action.id))
        if revision.also:
            name = scoped(action.namespace, revision.also)
            self.execute(_of_many(SQL["add_prints"], _ROW, 1), (name, COMMITTED, action.id))

    # --- Settling ---

    def _settle(self, settle: Settle) -> None:
        action, state = settle.action, settle.state
        self.known.opened.pop(action.id, None)
        if state is action.state and not settle.ended and settle.approved is None:
            self.execute(SQL["set_expires"], (settle.expires, action.id))
            return
        if settle.expires is None and settle.approved is None:
            self.execute(_SETTLE, (state._value_, settle.ended, action.id))
        else:
            self.execute(
                SQL["settle_with_more"], (state._value_, settle.ended, settle.expires, settle.approved, action.id)
            )
        was_live = action.state not in _ENDED
        stays_live = state not in _ENDED
        overtaken = self.look.overtaken
        if overtaken is None:
            overtaken = len(action.keys) > 1
        late = settle.ended - action.id > HOUR
        if was_live or stays_live or late or overtaken or state is not _DONE:
            self._settle_keys(settle, was_live, stays_live, overtaken)

    def _settle_keys(self, settle: Settle, was_live: bool, stays_live: bool, overtaken: bool) -> None:
        action, state = settle.action, settle.state
        names = [scoped(action.namespace, key.name) for key in action.keys]
        if was_live and names:
            was_open = 0 if action.state is State.UNKNOWN else 1
            self.execute(_of_many(_DROP_LIVE, "?", len(names)), (was_open, action.id, *names))
        if stays_live and names:
            open_ = 0 if state is State.UNKNOWN else 1
            rows = [value for name in names for value in (name, open_, action.id)]
            self.execute(_of_many(_ADD_LIVE, _ROW, len(names)), rows)
        if action.state is State.ASKED and not stays_live:
            self.execute(SQL["drop_fact"], (f"params:{action.id}",))
        if state is State.DONE and settle.ended - action.id > HOUR:
            self._late(action, settle.ended)
        elif state is State.DONE and overtaken:
            for name in names:
                self.execute(SQL["set_changed"], (settle.ended, name, action.session))
        elif state in (State.FAILED, State.CANCELLED) and action.state not in (State.QUEUED, State.ASKED):
            self._take_back(action)

    def _late(self, action: Action, ended: int) -> None:
        """Date the change of a late report by the report, and restore marks that upkeep deleted meanwhile."""
        for key in action.keys if not action.lock else ():
            if key.mode is _READ:
                continue
            name = scoped(action.namespace, key.name)
            self.known.forget_keys(name)
            crowd = 1 if self.look.is_crowd(name) else 0
            self.execute(SQL["set_late"], (name, action.session, action.id, ended, crowd))

    def _take_back(self, action: Action) -> None:
        """Take back the marks of a failed or cancelled action: it changed nothing and read nothing."""
        row = self.execute(SQL["keys"], (action.id,)).fetchone()
        for stored in stored_keys(row[0]) if row and row[0] else ():
            name = scoped(action.namespace, stored.name)
            self.known.forget_keys(name)
            if stored.mode == "read":
                before = standing_look(stored.before, stored.name, self._life)
                self.execute(SQL["take_back_look"], (before, name, action.session, before, action.id))
                continue
            stands, changed = standing(stored.before, stored.name, self._life)
            self.execute(SQL["take_back_act"], (stands, changed, name, action.session, action.id))

    def _life(self, seq: int) -> Any:
        return self.execute(SQL["life"], (seq,)).fetchone()
