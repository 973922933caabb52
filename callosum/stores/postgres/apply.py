"""Write a step's change inside its transaction. Only undoing a failed action waits for an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from callosum.model import (
    HOUR,
    Action,
    Applied,
    Change,
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
from callosum.stores.postgres.notifications import notice
from callosum.stores.postgres.pipeline import Pipeline
from callosum.stores.postgres.statements import SQL
from callosum.stores.postgres.view import PostgresCache, PostgresView
from callosum.stores.rows import RareFields, as_json, encode, note_of, standing, standing_look, stored_keys

_ENDED: Final = frozenset({State.DONE, State.FAILED, State.CANCELLED})
_UNDONE: Final = frozenset({State.FAILED, State.CANCELLED})

_EMPTY: Final[dict[str, Any]] = dict.fromkeys(
    (
        "seq", "token", "event", "namespace", "session", "run", "tool", "tier", "verdict", "rule", "action",
        "outcome", "key", "keys", "body", "call", "state", "ended", "expires", "approved", "content", "extra",
    )
)  # fmt: skip
"""The parameters of ``add_entry``."""


def openness(state: State) -> int:
    """Return the value of ``live.open`` for this state: 0 unknown, 1 open or asked, 2 queued."""
    if state is State.UNKNOWN:
        return 0
    return 2 if state is State.QUEUED else 1


def settled(settle: Settle) -> dict[str, Any]:
    """Return the parameters of the statements that change an action's state."""
    action = settle.action
    return {
        "its_seq": action.id,
        "its_state": settle.state.value,
        "its_ended": settle.ended,
        "its_expires": settle.expires,
        "its_approved": settle.approved,
        "its_names": [scoped(action.namespace, key.name) for key in action.keys],
        "its_session": action.session,
        "its_notice": notice(action.namespace, [key.name for key in action.keys]),
    }


class PostgresWriter:
    """Write the change of one scope. ``token`` identifies the transaction; ``channel`` receives its notifications.

    ``covers``: trees and facet prefixes that this change is the first to use.
    """

    def __init__(
        self, pipeline: Pipeline, cache: PostgresCache, reader: PostgresView, view: View, token: int, channel: str
    ) -> None:
        self._pipeline = pipeline
        self._cache = cache
        self._reader = reader
        self._scope: Scope = reader.scope
        self._view = view
        self._token = token
        self._channel = channel
        self.covers: frozenset[str] = frozenset()

    def write(self, change: Change) -> Applied:
        """Send the whole change. Entries are numbered from the view's now."""
        now, entries, opening = self._view.now, change.entries, change.open
        rows = [self._row(now + number, entry) for number, entry in enumerate(entries)]  # before anything is sent
        last = now + len(entries) - 1
        if len(rows) == len(change.settles) == 1 and opening is None and change.content is None:
            self._settle(change.settles[0], rows.pop())
        else:
            for settle in change.settles:
                self._settle(settle)
        for revision in change.revisions:
            self._revise(revision)
        if change.observe_until is not None:
            self._pipeline.send(SQL["set_fact"], ("observe", str(change.observe_until).encode()))
        for row in rows:
            if opening is not None and row["seq"] == last:
                self._open(row, entries[-1], opening, change.moves)
            elif row["seq"] == last and change.content is not None:
                self._pipeline.send(SQL["add_entry"], {**row, "content": encode(change.content)})
            else:
                self._pipeline.send(SQL["add_entry"], row)
        if opening is None and change.moves:
            self._pipeline.send(SQL["set_marks"], self._marks(change.moves, None, ()))
        if not self._reader.fresh and entries:
            self._note_session()
        return Applied(change, tuple(range(now, last + 1)), now)

    # --- Entries ---

    def _row(self, seq: int, entry: Entry) -> dict[str, Any]:
        """Return an entry's columns. An entry about an action omits what the action's row has: tool, tier and keys."""
        row: dict[str, Any] = dict(_EMPTY)
        row.update(
            seq=seq,
            token=self._token,
            event=entry.event.value,
            namespace=entry.namespace,
            session=entry.session,
            outcome=entry.outcome.value if entry.outcome is not None else None,
            body=as_json(entry.body) if entry.body else None,
        )
        if entry.action:
            row["action"] = entry.action
            return row
        keys = [(key.name, key.mode.value, 0) for key in entry.keys]
        row.update(
            run=entry.run or None,
            tool=entry.tool or None,
            tier=entry.tier,
            verdict=entry.verdict.value if entry.verdict is not None else None,
            rule=entry.rule or None,
            key=scoped(entry.namespace, keys[0][0]) if keys else None,
            keys=as_json(keys) if keys else None,
        )
        return row

    def _open(self, row: dict[str, Any], entry: Entry, opening: Opening, moves: Sequence[Move]) -> None:
        """Write an entry that opens an action, with the rows by which others find the action."""
        seq, state = row["seq"], opening.state
        is_action = state in (State.DONE, State.OPEN)
        key_views = {key_view.key: key_view for key_view in self._view.keys}
        names = [scoped(entry.namespace, key.name) for key in entry.keys]
        stored: list[tuple[str, str, int]] = []
        writes: list[tuple[str, Mark]] = []
        for key, name in zip(entry.keys, names, strict=True):
            key_view = key_views.get(key) or KeyView(key)
            if key.mode is Mode.READ:
                stored.append((key.name, key.mode.value, key_view.mark.read))
            else:
                stored.append((key.name, key.mode.value, key_view.own.id if key_view.own is not None else 0))
                writes.append((name, key_view.mark))
        extra = None
        if opening.limit or opening.host is not None or opening.lock or opening.supersedes:
            extra = encode(RareFields(opening.limit, opening.host, opening.lock, opening.supersedes))
        row.update(
            action=seq,
            keys=as_json(stored) if stored else None,
            call=self._scope.call if is_action else None,
            state=state.value,
            ended=0,
            expires=opening.expires,
            approved=0,
            content=encode(opening.content),
            extra=extra,
        )
        acted = seq if is_action and not opening.lock else None
        row.update(self._marks(moves, acted, writes if is_action else ()), open=openness(state), names=names)
        row["prints"] = [print_ for print_ in opening.prints if print_] if is_action else []
        row["print_names"] = [name for name, _ in writes]
        if row["prints"] and writes:
            row["names"] = names if state is not State.DONE else []
            self._pipeline.send(SQL["add_repeatable"], row)
        else:
            self._pipeline.send(SQL["add_action" if state is State.DONE else "add_lease"], row)
        if opening.params is not None:
            self._pipeline.send(SQL["set_fact"], (f"params:{seq}", opening.params))
        if new_covers := [cover for name in names for cover in covers(name) if cover not in self._reader.covers]:
            self._pipeline.send(SQL["add_covers"], (new_covers,))
            self.covers = frozenset(new_covers)
        if not opening.supersedes:  # its report also concerns superseded actions on other keys
            self._cache.add_action(seq, tuple(names))

    def _marks(self, moves: Iterable[Move], acted: int | None, writes: Iterable[tuple[str, Mark]]) -> dict[str, Any]:
        """Return the marks to write, one per key: what the session knows now and, for writes, its newest action."""
        marks = {scoped(self._scope.namespace, move.key): move.mark for move in moves}
        rows: dict[str, tuple[Mark, int | None]] = {}
        if acted is not None:
            rows = {name: (marks.pop(name, mark), acted) for name, mark in writes}
        rows.update({name: (mark, None) for name, mark in marks.items()})
        order = sorted(rows.items())
        return {
            "session": self._scope.session,
            "mark_keys": [name for name, _ in order],
            "reads": [mark.read for _, (mark, _) in order],
            "tolds": [mark.notified for _, (mark, _) in order],
            "kinds": [mark.notified_kind for _, (mark, _) in order],
            "notes": [note_of(mark) for _, (mark, _) in order],
            "acteds": [acted_ for _, (_, acted_) in order],
        }

    def _note_session(self) -> None:
        scope = self._scope
        params = (scope.namespace, scope.session, self._view.now, scope.parent or None, scope.continues or None)
        self._pipeline.send(SQL["set_session"], params)
        self._cache.sessions.pop((scope.namespace, scope.session), None)

    def _revise(self, revision: Revision) -> None:
        action = revision.action
        self._pipeline.send(SQL["set_content"], (encode(revision.content), action.id))
        if revision.also:
            names = [scoped(action.namespace, revision.also)]
            self._pipeline.send(SQL["set_prints"], {"seq": action.id, "print_names": names, "prints": [COMMITTED]})

    # --- States ---

    def _settle(self, settle: Settle, row: dict[str, Any] | None = None) -> None:
        """Change an action's state. ``row``: the entry to write with it, if it is the only one."""
        action, state = settle.action, settle.state
        is_live = state not in _ENDED
        params = {**(row or {}), **settled(settle), "channel": self._channel}
        if state is State.DONE:
            self._pipeline.send(SQL["end" if row is None else "report"], params)
            if settle.ended - action.id > HOUR and not action.lock:
                self._restore_marks(action, settle.ended)
        else:
            if row is not None:
                self._pipeline.send(SQL["add_entry"], row)
            self._pipeline.send(SQL["settle"], params)
            if not (is_live and state is action.state) or settle.approved is not None:
                self._pipeline.send(SQL["drop_live"], params)
                if is_live:
                    live_row = {"names": params["its_names"], "open": openness(state), "seq": action.id}
                    self._pipeline.send(SQL["set_live"], live_row)
        if action.state is State.ASKED and not is_live:
            self._pipeline.send(SQL["drop_fact"], (f"params:{action.id}",))
        if state in _UNDONE and action.state not in (State.QUEUED, State.ASKED):
            self._undo(action)
        if state in _UNDONE or settle.approved is not None:
            self._pipeline.send(SQL["wake"], params)

    def _restore_marks(self, action: Action, ended: int) -> None:
        """Make a late-reported action findable on its keys again: upkeep may have deleted its marks."""
        keys = sorted(scoped(action.namespace, key.name) for key in action.keys if key.mode is not Mode.READ)
        if keys:
            self._pipeline.send(
                SQL["set_late"], {"keys": keys, "session": action.session, "acted": action.id, "ended": ended}
            )

    def _undo(self, action: Action) -> None:
        """Undo a failed or cancelled action: it is no session's newest action, and its reads do not count."""
        rows = self._pipeline.fetch(SQL["keys"], (action.id,))
        for stored in stored_keys(rows[0][0]) if rows and rows[0][0] else ():
            name = scoped(action.namespace, stored.name)
            if stored.mode == "read":
                before = standing_look(stored.before, stored.name, self._state_of)
                params = {"before": before, "key": name, "session": action.session, "seq": action.id}
                self._pipeline.send(SQL["undo_read"], params)
                continue
            newest, changed = standing(stored.before, stored.name, self._state_of)
            self._pipeline.send(SQL["undo_action"], (newest, changed, name, action.session, action.id))

    def _state_of(self, seq: int) -> Any:
        rows = self._pipeline.fetch(SQL["life"], (seq,))
        return rows[0] if rows else None


def keys_of(actions: Iterable[Action]) -> dict[int, tuple[str, ...]]:
    """Return the keys of actions, with their namespace, by action id."""
    return {action.id: tuple(scoped(action.namespace, key.name) for key in action.keys) for action in actions}
