"""Writing a step's change, inside its transaction. Nothing here waits, but for taking back what failed."""

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
from callosum.stores.postgres.line import Line
from callosum.stores.postgres.look import Look, Memory
from callosum.stores.postgres.wake import notice
from callosum.stores.rows import Extra, as_json, encode, note_of, standing, standing_look, stored_keys

_ENDED: Final = frozenset({State.DONE, State.FAILED, State.CANCELLED})
_TAKEN_BACK: Final = frozenset({State.FAILED, State.CANCELLED})

_COLUMNS: Final = (
    "seq, token, event, namespace, session, run, tool, tier, verdict, rule, action, outcome, key, keys, body, call, "
    "state, ended, expires, approved, content, extra"
)
_INSERT: Final = f"insert into journal({_COLUMNS}) values({', '.join(f'%({name})s' for name in _COLUMNS.split(', '))})"
_EMPTY: Final[dict[str, Any]] = dict.fromkeys(_COLUMNS.split(", "))
_SET_MARKS: Final = (
    "insert into mark(key, session, read, told, kind, note, acted, changed) select m.key, %(session)s, m.read, "
    "m.told, m.kind, m.note, m.acted, coalesce(m.acted, 0) from unnest(%(mark_keys)s::text[], %(reads)s::bigint[], "
    "%(tolds)s::bigint[], %(kinds)s::int[], %(notes)s::bytea[], %(acteds)s::bigint[]) "
    "as m(key, read, told, kind, note, acted) on conflict(key, session) do update set read = excluded.read, "
    "told = excluded.told, kind = excluded.kind, note = excluded.note, "
    "acted = coalesce(excluded.acted, mark.acted), changed = greatest(excluded.changed, mark.changed)"
)
_SET_LIVE: Final = (
    "insert into live(key, open, id) select k, %(open)s::int, %(seq)s::bigint "
    "from unnest(%(names)s::text[]) k on conflict do nothing"
)
_SET_PRINTS: Final = (
    "insert into print(key, print, id) select k, p, %(seq)s::bigint from unnest(%(print_names)s::text[]) k "
    "cross join unnest(%(prints)s::bytea[]) p on conflict do nothing"
)
# An act with its marks and, where it has a lease, its live rows: one statement, since most calls write just this.
_ACT: Final = f"with j as ({_INSERT}), m as ({_SET_MARKS}) select 1"
_LEASE: Final = f"with j as ({_INSERT}), m as ({_SET_MARKS}), l as ({_SET_LIVE}) select 1"
_REPEATABLE: Final = f"with j as ({_INSERT}), m as ({_SET_MARKS}), l as ({_SET_LIVE}), p as ({_SET_PRINTS}) select 1"
_COVER: Final = "insert into cover(key) select unnest(%s::text[]) on conflict do nothing"
_PARAMS: Final = "insert into meta values(%s, %s) on conflict(name) do update set value = excluded.value"
_SESSION: Final = (
    "insert into session(namespace, name, seen, parent, continues) values(%s, %s, %s, %s, %s) "
    "on conflict(namespace, name) do update set seen = greatest(excluded.seen, session.seen), "
    "parent = coalesce(excluded.parent, session.parent), continues = coalesce(excluded.continues, session.continues)"
)
_SETTLE: Final = (
    "update journal set state = %(its_state)s, ended = {ended}, expires = coalesce(%(its_expires)s, expires), "
    "approved = coalesce(%(its_approved)s, approved) where seq = %(its_seq)s{only}"
)
_NOT_LIVE: Final = "delete from live where key = any(%(its_names)s::text[]) and id = %(its_seq)s{only}"
_CHANGED: Final = (
    "update mark set changed = greatest(changed, {ended}) where key = any(%(its_names)s::text[]) "
    "and session = %(its_session)s and acted is not null{only}"
)
# An action that was long ago changes its keys at its report: marks that were forgotten meanwhile come back.
_LATE: Final = (
    "insert into mark(key, session, read, told, kind, acted, changed) select k, %(session)s, 0, 0, 0, "
    "%(acted)s::bigint, %(ended)s::bigint from unnest(%(keys)s::text[]) k on conflict(key, session) do update set "
    "acted = coalesce(mark.acted, excluded.acted), changed = greatest(mark.changed, excluded.changed)"
)
# Whoever waits looks again when something ends; where nobody waits nobody is told, since a notice makes all
# commits of the database take turns.
_WAKE: Final = (
    "select pg_notify(%(channel)s, %(its_notice)s) where %(its_approved)s::bigint is not null "
    "or exists(select 1 from live where open = 2)"
)


def reported(entry: str, ended: str, only: str = "") -> str:
    """The parts of a statement that writes a report with its ``entry``; ``w`` of them are the notices.

    ``ended`` is the moment of the report, ``only`` a further condition; both are SQL.
    """
    parts = {"j": entry, "s": _SETTLE, "l": _NOT_LIVE, "m": _CHANGED, "w": _WAKE}
    return ", ".join(
        f"{name} as ({part.format(ended=ended, only=only) if name in 'slm' else part})" for name, part in parts.items()
    )


_ENDED_AT: Final = "%(its_ended)s"
_SETTLED: Final = _SETTLE.format(ended=_ENDED_AT, only="")
_GONE: Final = _NOT_LIVE.format(only="")
_DONE: Final = f"with s as ({_SETTLED}), l as ({_GONE}), m as ({_CHANGED.format(ended=_ENDED_AT, only='')}) {_WAKE}"
# A report and its entry, which is all that most calls still write.
_REPORT: Final = f"with {reported(_INSERT, _ENDED_AT)} select * from w"


def openness(state: State) -> int:
    """How a live row of this state is marked."""
    if state is State.UNKNOWN:
        return 0
    return 2 if state is State.QUEUED else 1


def settled(settle: Settle) -> dict[str, Any]:
    """What the statements that settle an action need of it."""
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


class Apply:
    """Writes one change for one scope, after a look at it. ``token`` names the transaction, ``channel`` its notices.

    ``covers``: the keys in use that cover others and were none before.
    """

    def __init__(self, line: Line, memory: Memory, look: Look, view: View, token: int, channel: str) -> None:
        self._line = line
        self._memory = memory
        self._look = look
        self._scope: Scope = look.scope
        self._view = view
        self._token = token
        self._channel = channel
        self.covers: frozenset[str] = frozenset()

    def write(self, change: Change) -> Applied:
        """Sends everything; entries are numbered from the view's now."""
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
            self._line.send(_PARAMS, ("observe", str(change.observe_until).encode()))
        for row in rows:
            if opening is not None and row["seq"] == last:
                self._open(row, entries[-1], opening, change.moves)
            elif row["seq"] == last and change.content is not None:
                self._line.send(_INSERT, {**row, "content": encode(change.content)})
            else:
                self._line.send(_INSERT, row)
        if opening is None and change.moves:
            self._line.send(_SET_MARKS, self._marks(change.moves, None, ()))
        if not self._look.fresh and entries:
            self._note_session()
        return Applied(change, tuple(range(now, last + 1)), now)

    # --- entries ---

    def _row(self, seq: int, entry: Entry) -> dict[str, Any]:
        """An entry's columns. One about an action leaves out what the action says: tool, tier and keys."""
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
        """An entry that becomes an action, with all that lets others find it."""
        seq, state = row["seq"], opening.state
        acts = state in (State.DONE, State.OPEN)
        places = {place.key: place for place in self._view.keys}
        names = [scoped(entry.namespace, key.name) for key in entry.keys]
        stored: list[tuple[str, str, int]] = []
        writes: list[tuple[str, Mark]] = []
        for key, name in zip(entry.keys, names, strict=True):
            place = places.get(key) or KeyView(key)
            if key.mode is Mode.READ:
                stored.append((key.name, key.mode.value, place.mark.read))
            else:
                stored.append((key.name, key.mode.value, place.own.id if place.own is not None else 0))
                writes.append((name, place.mark))
        extra = None
        if opening.limit or opening.host is not None or opening.lock or opening.supersedes:
            extra = encode(Extra(opening.limit, opening.host, opening.lock, opening.supersedes))
        row.update(
            action=seq,
            keys=as_json(stored) if stored else None,
            call=self._scope.call if acts else None,
            state=state.value,
            ended=0,
            expires=opening.expires,
            approved=0,
            content=encode(opening.content),
            extra=extra,
        )
        acted = seq if acts and not opening.lock else None
        row.update(self._marks(moves, acted, writes if acts else ()), open=openness(state), names=names)
        row["prints"] = [print_ for print_ in opening.prints if print_] if acts else []
        row["print_names"] = [name for name, _ in writes]
        if row["prints"] and writes:
            row["names"] = names if state is not State.DONE else []
            self._line.send(_REPEATABLE, row)
        else:
            self._line.send(_ACT if state is State.DONE else _LEASE, row)
        if opening.params is not None:
            self._line.send(_PARAMS, (f"params:{seq}", opening.params))
        if beneath := [over for name in names for over in covers(name) if over not in self._look.covers]:
            self._line.send(_COVER, (beneath,))
            self.covers = frozenset(beneath)
        if not opening.supersedes:  # its report is about these too, which are on other keys
            self._memory.add_action(seq, tuple(names))

    def _marks(self, moves: Iterable[Move], acted: int | None, writes: Iterable[tuple[str, Mark]]) -> dict[str, Any]:
        """A row a key: what the session now knows and, for writes, its newest action."""
        told = {scoped(self._scope.namespace, move.key): move.mark for move in moves}
        rows: dict[str, tuple[Mark, int | None]] = {}
        if acted is not None:
            rows = {name: (told.pop(name, mark), acted) for name, mark in writes}
        rows.update({name: (mark, None) for name, mark in told.items()})
        order = sorted(rows.items())
        return {
            "session": self._scope.session,
            "mark_keys": [name for name, _ in order],
            "reads": [mark.read for _, (mark, _) in order],
            "tolds": [mark.told for _, (mark, _) in order],
            "kinds": [mark.told_kind for _, (mark, _) in order],
            "notes": [note_of(mark) for _, (mark, _) in order],
            "acteds": [acted_ for _, (_, acted_) in order],
        }

    def _note_session(self) -> None:
        scope = self._scope
        params = (scope.namespace, scope.session, self._view.now, scope.parent or None, scope.continues or None)
        self._line.send(_SESSION, params)
        self._memory.sessions.pop((scope.namespace, scope.session), None)

    def _revise(self, revision: Revision) -> None:
        action = revision.action
        self._line.send("update journal set content = %s where seq = %s", (encode(revision.content), action.id))
        if revision.also:
            names = [scoped(action.namespace, revision.also)]
            self._line.send(_SET_PRINTS, {"seq": action.id, "print_names": names, "prints": [COMMITTED]})

    # --- settling ---

    def _settle(self, settle: Settle, row: dict[str, Any] | None = None) -> None:
        """Moves an action; ``row`` is the entry that says so, where it is to be written along."""
        action, state = settle.action, settle.state
        stays = state not in _ENDED
        params = {**(row or {}), **settled(settle), "channel": self._channel}
        if state is State.DONE:
            self._line.send(_DONE if row is None else _REPORT, params)
            if settle.ended - action.id > HOUR and not action.lock:
                self._late(action, settle.ended)
        else:
            if row is not None:
                self._line.send(_INSERT, row)
            self._line.send(_SETTLED, params)
            if not (stays and state is action.state) or settle.approved is not None:
                self._line.send(_GONE, params)
                if stays:
                    there = {"names": params["its_names"], "open": openness(state), "seq": action.id}
                    self._line.send(_SET_LIVE, there)
        if action.state is State.ASKED and not stays:
            self._line.send("delete from meta where name = %s", (f"params:{action.id}",))
        if state in _TAKEN_BACK and action.state not in (State.QUEUED, State.ASKED):
            self._take_back(action)
        if state in _TAKEN_BACK or settle.approved is not None:
            self._line.send(_WAKE, params)

    def _late(self, action: Action, ended: int) -> None:
        """Makes sure that an action which was reported only now is found on what it changed."""
        keys = sorted(scoped(action.namespace, key.name) for key in action.keys if key.mode is not Mode.READ)
        if keys:
            self._line.send(_LATE, {"keys": keys, "session": action.session, "acted": action.id, "ended": ended})

    def _take_back(self, action: Action) -> None:
        """A failed or cancelled action is nobody's latest, and a read that failed was none."""
        rows = self._line.fetch("select keys from journal where seq = %s", (action.id,))
        for stored in stored_keys(rows[0][0]) if rows and rows[0][0] else ():
            name = scoped(action.namespace, stored.name)
            if stored.mode == "read":
                before = standing_look(stored.before, stored.name, self._life)
                self._line.send(
                    "update mark set read = %(before)s where key = %(key)s and session = %(session)s "
                    "and read > %(before)s and read <= %(seq)s",
                    {"before": before, "key": name, "session": action.session, "seq": action.id},
                )
                continue
            stands, changed = standing(stored.before, stored.name, self._life)
            self._line.send(
                "update mark set acted = %s, changed = %s where key = %s and session = %s and acted = %s",
                (stands, changed, name, action.session, action.id),
            )

    def _life(self, seq: int) -> Any:
        rows = self._line.fetch("select state, ended, keys from journal where seq = %s", (seq,))
        return rows[0] if rows else None


def keys_of(actions: Iterable[Action]) -> dict[int, tuple[str, ...]]:
    """The keys of actions, with their namespace, by id."""
    return {action.id: tuple(scoped(action.namespace, key.name) for key in action.keys) for action in actions}
