"""Build a step's view inside its transaction.

A few statements that do not wait for one another read what most views need: ``send`` sends them, and the statements of
all views of a transaction that cannot affect each other are sent before the first answer is awaited. What few views
need (an earlier answer, an older action behind one that does not count) is fetched after that.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callosum.model import HOUR, MINUTE, Action, Applied, Key, KeyView, Mode, Scope, State, View
from callosum.stores.base import LATELY_SEARCHED, MAX_LATELY, Probe
from callosum.stores.crowd import BOUND, AskingCall, Crowd, Crowds, Stamp
from callosum.stores.keys import above, bare, scoped, span
from callosum.stores.postgres.connections import Row
from callosum.stores.postgres.neighbours import PostgresNeighbours
from callosum.stores.postgres.pipeline import PendingResult, Pipeline
from callosum.stores.postgres.statements import SQL
from callosum.stores.records import REMEMBERED, TAKEN_BACK
from callosum.stores.rows import ACTION_WIDTH, MARK_WIDTH, OPENERS, action_of, answered, before_of, mark_of, wanted
from callosum.stores.view import Fetched, counts, meant, related, views
from callosum.stores.writes import opened

_numbers: Final = msgspec.json.Decoder(list[int]).decode
_HIDDEN_SEARCHED: Final = 64
"""Number of a session's actions on a key that are searched for the newest one that counts."""
_MARK_AT, _ACTION_AT, _MORE_AT = 2, 2 + MARK_WIDTH, 2 + MARK_WIDTH + ACTION_WIDTH

_HiddenAction = tuple[str, int, Mode]
"""The key on which an older action is searched for, the action's id, and the mode of the scope's key."""


class OpenedAction(Struct, frozen=True):
    """An action as it was opened. ``since``: when that was, by this process's monotonic clock."""

    action: Action
    since: float


class PostgresCache:
    """What a process may keep between transactions: facts that never or rarely change.

    ``covers``: committed keys in use that cover others. ``rows``: names that have a row in ``turn``. ``actions``: the
    keys, with their namespace, of actions that were read and repeat no other. ``sessions``: sessions without parent and
    predecessor, with the moment at which that was read and the one at which the session was last recorded; valid for
    a minute. ``opened``: actions that this process opened. ``observe``: end of observing as last read. ``crowds``: the
    open actions of keys with very many.
    """

    def __init__(self) -> None:
        self.covers: frozenset[str] = frozenset()
        self.rows: set[str] = set()
        self.actions: dict[int, tuple[str, ...]] = {}
        self.sessions: dict[tuple[str, str], tuple[int, int]] = {}
        self.opened: dict[tuple[str, int], OpenedAction] = {}
        self.observe = 0
        self.crowds = Crowds()

    def add_action(self, id: int, names: tuple[str, ...]) -> None:
        """Keep the keys of an action."""
        if len(self.actions) > 10_000:
            self.actions.clear()
        self.actions[id] = names

    def add_opened(self, scope: Scope, applied: Applied) -> None:
        """Keep an action that was opened and committed, if its report may come soon."""
        opening = applied.change.open
        if opening is None or opening.state not in (State.OPEN, State.DONE) or opening.supersedes:
            return
        if len(self.opened) > 10_000:
            self.opened.clear()
        action = opened(applied.ids[-1], applied.change.entries[-1], opening)
        self.opened[scope.namespace, action.id] = OpenedAction(action, time.monotonic())

    def add_covers(self, names: Iterable[str]) -> None:
        """Keep keys that cover others. A run of a transaction uses those that were known when it began."""
        self.covers |= frozenset(names)

    def add_rows(self, names: Iterable[str]) -> None:
        """Keep rows that are committed."""
        if len(self.rows) > 200_000:
            self.rows.clear()
        self.rows.update(names)


class RunAgain(Exception):
    """The transaction must run again and lock the rows of these keys too (none: because covers became known)."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__()
        self.names = frozenset(names)


class PostgresView:
    """The view of one step: call ``send``, sync the pipeline, then call ``read_head`` and ``view``.

    ``names``: the scope's keys with their namespace. ``fresh``: True if the session need not be recorded again.
    ``covers``: the keys by which the transaction chose the rows to lock, and those that it added itself.
    """

    def __init__(
        self, pipeline: Pipeline, scope: Scope, cache: PostgresCache, probe: Probe, covers: frozenset[str]
    ) -> None:
        self.pipeline = pipeline
        self.scope = scope
        self.cache = cache
        self.covers = covers
        self.names = [scoped(scope.namespace, key.name) for key in scope.keys]
        self.fresh = True
        self.clock = 0
        self.last = 0
        self._probe = probe
        self._above = list(dict.fromkeys(other for name in self.names for other in above(name)))
        self._params: dict[str, Any] = {
            "space": scope.namespace,
            "me": scope.session,
            "call": scope.call,
            "above": self._above,
            "keys": self.names,
            "prints": list(scope.prints),
            "most": BOUND + 1 if scope.asks is not None else None,
        }
        self._asker: AskingCall | None = None
        self._sent: list[PendingResult] = []
        self._below: list[PendingResult] = []
        self._fetched: Fetched
        self._crowds: dict[str, Crowd] = {}

    # --- sending ---

    def send(self) -> None:
        """Send the statements that nearly every view of such a scope needs."""
        scope, send, params = self.scope, self.pipeline.send, self._params
        self._head = send(SQL["head"], params)
        covers = self.covers
        trees = [name for name in self._above if name[-1] == "/" and name in covers]
        wholes = [name[: name.index("|")] for name in self.names if "|" in name]
        self._covered_keys = {name for name in self._above if name[-1] == "|" and name in covers}
        if self.names:
            params["names"] = list(dict.fromkeys((*self.names, *trees, *wholes)))
            self._sent = [send(SQL["around_and_live" if scope.live else "around"], params)]
            for key, name in zip(scope.keys, self.names, strict=True):
                if name[-1] == "/" and key.mode is not Mode.READ:
                    self._send_below(key, *span(name))
                elif name + "|" in self._covered_keys:
                    self._send_below(key, name + "|", name + "}")
        session_read = self.cache.sessions.get((scope.namespace, scope.session))
        self._kin: tuple[PendingResult, PendingResult] | None = None
        if session_read is None or scope.parent or scope.continues:
            self._kin = (
                send(SQL["parents"], {**params, "start": scope.parent or None}),
                send(SQL["inherited"], {**params, "start": scope.continues or None}),
            )
        self._twin_rows = send(SQL["twins"], params) if scope.prints and self.names else None
        self._queues = send(SQL["queues"], params) if scope.waits else None
        find = scope.find
        self._find = send(SQL["found"], {"id": find.id}) if find is not None and find.id is not None else None

    def _send_below(self, key: Key, low: str, high: str) -> None:
        """Send the statements for what is below a key."""
        params = {"me": self.scope.session, "low": low, "high": high}
        statements = ["latest_below"]
        if self.scope.live:
            statements.append("live_below")
        if key.mode is Mode.WRITE:
            statements.append("stale_below")
        self._below += [self.pipeline.send(SQL[statement], params) for statement in statements]

    def read_head(self) -> None:
        """Read what shows whether the right rows were locked. Raises ``RunAgain`` if they were not."""
        row = self._head.fetchone()
        assert row is not None  # noqa: S101 - the statement always returns a row
        self.clock, self.last = row[0], row[1] or 0
        self._observe = self.cache.observe = int(row[2]) if row[2] is not None else 0
        self._session = row[3:6]
        self._earlier_id, used = row[6:8]
        new = [name for name in used if name not in self.covers]  # committed by other transactions
        if new:
            self.cache.add_covers(new)
        if any(name[-1] == "/" for name in new):
            raise RunAgain
        for key, name in zip(self.scope.keys, self.names, strict=True):
            if name + "|" in new and not (name[-1] == "/" and key.mode is not Mode.READ):
                self._send_below(key, name + "|", name + "}")

    # --- the view ---

    def view(self, now: int) -> View:
        """Return all that the scope asks for. ``now``: the step's moment."""
        scope = self.scope
        parents = self._ancestry(now)
        found = self._found(now) if scope.find is not None else None
        superseded: tuple[Action, ...] = ()
        if found is not None and found.supersedes and not scope.keys:
            rows = self.pipeline.fetch(SQL["found_by_ids"], (list(found.supersedes),))
            superseded = tuple(a for row in rows if (a := self._action_found(row)) is not None)
        waiting = self._wanted(now) if self._queues is not None else ()
        if scope.asks is not None:
            self._asker = AskingCall(scope.session, scope.asks, now, parents, waiting, self._probe)
        return View(
            now,
            self._key_views() if scope.keys else (),
            self._earlier(),
            found,
            self._twins() if self._twin_rows is not None else (),
            parents,
            waiting,
            superseded,
            self._observe,
            self._bodies,
            self._lately,
        )

    def _bodies(self, ids: Sequence[int]) -> dict[int, bytes]:
        return {id: body.encode() for id, body in self.pipeline.fetch(SQL["bodies"], (list(ids),))}

    def _lately(self, session: str, limit: int = MAX_LATELY) -> list[Action]:
        return PostgresNeighbours(self.pipeline.fetch, self.scope.namespace, (session,), self._probe).touched(
            limit, LATELY_SEARCHED
        )

    def _ancestry(self, now: int) -> tuple[str, ...]:
        """Return the session's ancestors, and note whether the session must be recorded again."""
        scope, cache = self.scope, self.cache
        last_recorded, parent, continues = self._session[0] or 0, self._session[1] or "", self._session[2] or ""
        self.fresh = (
            0 <= now - last_recorded < HOUR
            and (not scope.parent or scope.parent == parent)
            and (not scope.continues or scope.continues == continues)
        )
        name = (scope.namespace, scope.session)
        if not (parent or continues):
            cached = cache.sessions.get(name)
            if cached is None or not 0 <= now - cached[0] < MINUTE:
                if len(cache.sessions) > 10_000:
                    cache.sessions.clear()
                cache.sessions[name] = (now, last_recorded)
        else:
            cache.sessions.pop(name, None)
        if self._kin is None:
            return ()
        chain: list[str] = []
        for (ancestor,) in self._kin[0].fetchall():
            if ancestor in chain:
                break
            chain.append(ancestor)
        return tuple(chain)

    # --- keys ---

    def _key_views(self) -> tuple[KeyView, ...]:
        """Return the views of the scope's keys."""
        space = self.scope.namespace
        before: list[str] = []
        fetched = self._fetched = Fetched({}, {}, before)
        live_rows: dict[str, list[Row]] = {}
        marks: list[Row] = []
        hiding: list[Row] = []
        for answer in self._sent:
            for row in answer.fetchall():
                if row[0] == "m":
                    marks.append(row)
                else:
                    live_rows.setdefault(row[1], []).append(row)
        for name, rows in live_rows.items():
            self._add_live(name, bare(name, space), rows)
        for mark in marks:
            self._add_mark(mark, bare(mark[1], space), hiding)
        if self._kin is not None:
            inherited = self._kin[1].fetchall()
            before += dict.fromkeys(row[_MARK_AT] for row in inherited)
            for row in inherited:
                self._add_mark(row, bare(row[1], space), [])
        for answer in self._below:
            for row in answer.fetchall():
                key = bare(row[1], space)
                if row[0] == "a":
                    self._add_action(row, key, hiding)
                elif row[0] == "l":
                    fetched.add(self._living(row, key))
                else:
                    fetched.add(action_of(row, _ACTION_AT, key, self._probe))
                    fetched.marks.setdefault((key, row[_MARK_AT]), mark_of(row[_MARK_AT:_ACTION_AT]))
        if hiding:
            self._fetch_hidden(hiding)
        for key, crowd in self._crowds.items():
            self.cache.crowds.keep(scoped(space, key), crowd)
        return views(fetched, self.scope)

    def _add_mark(self, row: Row, key: str, hiding: list[Row]) -> None:
        """Add what a session knows of a key, and its newest action on it."""
        session = row[_MARK_AT]
        if session == self.scope.session or row[0] != "m":
            self._fetched.marks[key, session] = mark_of(row[_MARK_AT:_ACTION_AT])
        if row[_ACTION_AT] is not None:
            self._add_action(row, key, hiding)

    def _add_action(self, row: Row, key: str, hiding: list[Row]) -> None:
        """Add a session's newest action. If its older actions may count too, add the row to ``hiding``."""
        action = self._action_on(key, row[_ACTION_AT])
        if action is None:
            action = action_of(row, _ACTION_AT, key, self._probe)
            self._fetched.add(action)
        scope = self.scope
        if (action.tier < scope.floor or action.mode is Mode.APPEND) and action.session != scope.session:
            hiding.append(row)

    def _add_live(self, name: str, key: str, rows: Sequence[Row]) -> None:
        """Add the live actions on a key."""
        fetched = self._fetched
        if self._asker is not None:
            open_ = {row[_ACTION_AT]: row for row in rows if row[_ACTION_AT + 6] != "unknown"}
            if open_:
                self._add_open(name, key, open_, self._asker)
                rows = [row for row in rows if row[_ACTION_AT] not in open_]
        for row in rows:
            fetched.add(self._living(row, key))

    def _add_open(self, name: str, key: str, rows: dict[int, Row], asker: AskingCall) -> None:
        """Add the open actions on a key, grouped by kind. If there are more than ``BOUND``, ``rows`` has the newest."""

        def fetch(ids: Sequence[int]) -> list[Action]:
            fetched_rows: list[Sequence[Any]] = [rows[id][_ACTION_AT:] for id in ids if id in rows]
            if len(fetched_rows) < len(ids):
                missing = [id for id in ids if id not in rows]
                fetched_rows += self.pipeline.fetch(SQL["open_by_ids"], {"ids": missing, "me": self.scope.session})
            return [action_of(row, 0, key, self._probe) for row in fetched_rows]

        def stamps(ids: Sequence[int]) -> list[Stamp]:
            with_row = [rows[id] for id in ids if id in rows]
            all_stamps = [(row[_ACTION_AT], row[_ACTION_AT + 8] or 0, row[_ACTION_AT + 13] or 0) for row in with_row]
            if len(with_row) < len(ids):
                all_stamps += self.pipeline.fetch(SQL["stamps"], ([id for id in ids if id not in rows],))
            return all_stamps

        ids = sorted(rows)
        if len(rows) > BOUND:
            ((text,),) = self.pipeline.fetch(SQL["open_ids"], (name,))
            ids = _numbers(f"[{text or ''}]")
        crowd = self._crowds[key] = self.cache.crowds.take(name)
        in_view, more = crowd.view(asker, ids, fetch, stamps)
        for action in in_view:
            row = rows.get(action.id)
            self._fetched.add(self._with_params(action, row[_MORE_AT]) if row is not None else action)
        if more:
            self._fetched.more[key] = more

    def _action_on(self, key: str, id: int) -> Action | None:
        """Return an action that was already found on a key, else None."""
        crowd = self._crowds.get(key)
        if crowd is not None and id in crowd:
            return crowd[id]
        return self._fetched.acts.get(key, {}).get(id)

    def _living(self, row: Row, key: str) -> Action:
        return self._with_params(action_of(row, _ACTION_AT, key, self._probe), row[_MORE_AT])

    def _with_params(self, action: Action, params: bytes | None) -> Action:
        """Return an approved question with the params it may run with."""
        return action if params is None else replace(action, answer=params)

    def _fetch_hidden(self, hiding: Sequence[Row]) -> None:
        """Fetch each session's newest action that counts behind one that does not."""
        scope = self.scope
        if not scope.floor:
            return
        rows_on: dict[str, list[Row]] = {}
        for row in hiding:
            rows_on.setdefault(bare(row[1], scope.namespace), []).append(row)
        names = sorted(rows_on)
        walks: set[_HiddenAction] = set()
        for key in scope.keys:
            if key.mode is Mode.READ:
                continue
            for name in (other for group in related(key, names) for other in group if other in rows_on):
                for row in rows_on[name]:
                    before = before_of(row[_ACTION_AT + 10], name)
                    action = self._action_on(name, row[_ACTION_AT]) if before else None
                    if action is not None and not counts(action, key.mode, scope.floor):
                        walks.add((name, before, key.mode))
        for _ in range(_HIDDEN_SEARCHED):
            if not walks:
                return
            rows = {
                row[0]: row for row in self.pipeline.fetch(SQL["found_by_ids"], (list({id for _, id, _ in walks}),))
            }
            next_walks: set[_HiddenAction] = set()
            for name, id, asking in walks:
                hidden = rows.get(id)
                if hidden is None:
                    continue
                action = action_of(hidden, 0, name, self._probe)
                if counts(action, asking, scope.floor) and action.state not in TAKEN_BACK:
                    self._fetched.add(action)
                elif before := before_of(hidden[10], name):
                    next_walks.add((name, before, asking))
            walks = next_walks

    # --- the rest of a view ---

    def _earlier(self) -> Action | None:
        """Return the action that this call opened before, with its answer."""
        if self._earlier_id is None:
            return None
        (row,) = self.pipeline.fetch(SQL["action_by_id"], (self._earlier_id,))
        action = self._action_found(row)
        return answered(action, row[-1]) if action is not None else None

    def _twins(self) -> tuple[Action, ...]:
        """Return actions of the same content, newest first. Own and others' are limited separately."""
        actions: dict[int, Action] = {}
        assert self._twin_rows is not None  # noqa: S101 - the caller checks it
        for row in self._twin_rows.fetchall():
            actions.setdefault(row[1], action_of(row, 1, bare(row[0], self.scope.namespace), self._probe))
        return tuple(actions[id] for id in sorted(actions, reverse=True))

    def _wanted(self, now: int) -> tuple[str, ...]:
        """Return the sessions that wait for something this one holds, also through trees."""
        assert self._queues is not None  # noqa: S101 - the caller checks it
        space, fetch = self.scope.namespace, self.pipeline.fetch
        return wanted(
            self._queues.fetchall(),
            self.scope.session,
            now,
            lambda names: fetch(SQL["held"], {"space": space, "sessions": names}),
        )

    # --- reports ---

    def _found(self, now: int) -> Action | None:
        if self._find is not None:
            row = self._find.fetchone()
        else:
            assert self.scope.find is not None  # noqa: S101 - the caller checks it
            rows = self.pipeline.fetch(SQL["unreported"], {**self._params, "since": now - REMEMBERED})
            action = meant((action_of(row, 0, "", self._probe) for row in rows), self.scope.find)
            row = self.pipeline.send(SQL["found"], {"id": action.id}).fetchone() if action is not None else None
        return self._action_found(row) if row is not None else None

    def _action_found(self, row: Row) -> Action | None:
        """Return the action in a row of ``found``, None if it is none of this namespace."""
        event, verdict = row[ACTION_WIDTH : ACTION_WIDTH + 2]
        if row[1] != self.scope.namespace or event not in OPENERS:
            return None
        return action_of(row, 0, "", self._probe, verdict)
