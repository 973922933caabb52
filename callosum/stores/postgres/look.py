"""Building a step's view, inside its transaction.

What a view needs is asked for by a few statements that do not wait for one another: ``ask`` sends them, and all
looks of a transaction that cannot meet are sent before the first is waited for. What few views need (an
earlier answer, an older act behind one that does not count) is fetched after that.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callosum.model import (
    HOUR,
    LATEST,
    MAX_KEPT,
    MINUTE,
    Action,
    Applied,
    Key,
    KeyView,
    Mode,
    Scope,
    State,
    View,
)
from callosum.stores.base import Probe
from callosum.stores.crowd import BOUND, Asker, Crowd, Crowds, Stamp
from callosum.stores.keys import above, bare, scoped, span
from callosum.stores.postgres.line import Answer, Line
from callosum.stores.postgres.link import Row
from callosum.stores.records import REMEMBERED, TAKEN_BACK
from callosum.stores.rows import (
    ACTION,
    ACTION_WIDTH,
    MARK,
    MARK_WIDTH,
    OPENERS,
    action_of,
    answered,
    before_of,
    mark_of,
    wanted,
)
from callosum.stores.view import GENERATIONS, Fetched, counts, meant, related, views
from callosum.stores.writes import opened

_numbers: Final = msgspec.json.Decoder(list[int]).decode
NOW: Final = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"
_SEARCHED: Final = 20_000
"""Among how many of a session's actions without a report the one is looked for that a report without an id means."""
_WALK: Final = 64
"""How many of a session's own actions on a key may hide the newest that counts."""
_MARK_AT, _ACTION_AT, _MORE_AT = 2, 2 + MARK_WIDTH, 2 + MARK_WIDTH + ACTION_WIDTH

# seq + 0: else the planner goes back through the journal by seq until it meets the call, which a new one never does,
# wherever it thinks that many entries have it. It does so where it has no statistics: in a new store or part.
_HEAD: Final = (
    f"select {NOW}, (select max(seq) from journal), (select value from meta where name = 'observe'), "
    "s.seen, s.parent, s.continues, (select max(seq + 0) from journal where call = %(call)s::bytea), "
    "array(select key from cover where key = any(%(above)s::text[])) "
    "from (values(1)) v left join session s on s.namespace = %(space)s and s.name = %(me)s"
)
# Rows of one width: what it is ('m' a mark, 'l' live, 'a' an act below, 's' a change below that is news), the key
# through which it was found, the mark, the action, the params of an approved question.
_AROUND: Final = (
    f"select 'm', m.key, {MARK}, {ACTION}, null::bytea from ("
    "select * from mark where key = any(%(names)s::text[]) and session = %(me)s "
    "union all select m.* from unnest(%(names)s::text[]) k(name) cross join lateral (select * from mark "
    # The condition on changed makes the planner go through them by their last change, however many they are.
    "where key = k.name and session <> %(me)s and acted is not null and changed >= 0 "
    f"order by changed desc limit {LATEST}) m) m "
    "left join journal j on j.seq = m.acted where m.session = %(me)s or j.seq is not null"
)
_PARAMS: Final = (
    "case when j.approved > 0 and j.session = %(me)s then (select value from meta where name = 'params:' || j.seq) end"
)
_LIVING: Final = (
    f"select 'l', l.key, null::text, null::bigint, null::bigint, null::int, null::bytea, null::bigint, {ACTION}, "
    f"{_PARAMS} from ("
)
_THEIRS: Final = ") l join journal j on j.seq = l.id"
_LIVE: Final = (
    f"{_LIVING}select key, id from live where key = any(%(names)s::text[]) and open = 2 "
    "union all select l.key, l.id from unnest(%(names)s::text[]) k(name) cross join lateral (select key, id from live "
    "where key = k.name and open = 1 order by id desc limit %(most)s) l "
    "union all select l.key, l.id from unnest(%(names)s::text[]) k(name) cross join lateral (select key, id from live "
    f"where key = k.name and open = 0 order by id desc limit {LATEST}) l{_THEIRS}"
)
_OPEN_IDS: Final = "select string_agg(id::text, ',' order by id) from live where key = %s and open > 0"
_STAMPS: Final = "select seq, coalesce(expires, 0), coalesce(approved, 0) from journal where seq = any(%s::bigint[])"
_BY_NUMBERS: Final = f"select {ACTION}, {_PARAMS} from journal j where j.seq = any(%(ids)s::bigint[])"
_BELOW_LIVE: Final = (
    f"{_LIVING}select key, id from live where key >= %(low)s and key < %(high)s "
    f"order by open desc, id desc limit 1000{_THEIRS}"
)
_BELOW: Final = (
    f"select 'a', m.key, {MARK}, {ACTION}, null::bytea from (select * from mark where key >= %(low)s "
    "and key < %(high)s and session <> %(me)s and acted is not null "
    f"order by changed desc limit {LATEST}) m join journal j on j.seq = m.acted"
)
LOOKED: Final = "w.state = 'done' and w.ended > 0 and w.ended <= w.expires"
"""Whether the session's own write ``w`` counts as a look: a finished one does, unless its report was late."""
# What the session has looked at below a tree, and others changed after that look; the mark is the session's.
_BELOW_STALE: Final = (
    "select 's', m.key, o.session, look.at, 0::bigint, 0, null::bytea, null::bigint, "
    f"{ACTION}, null::bytea from mark o left join journal w on w.seq = o.acted "
    "join mark m on m.key = o.key and m.session <> o.session and m.acted is not null join journal j on j.seq = m.acted "
    f"cross join lateral (select greatest(o.read, case when {LOOKED} then w.seq else 0 end) as at) look "
    "where o.key >= %(low)s and o.key < %(high)s and o.session = %(me)s and look.at > 0 "
    "and (j.ended = 0 or j.ended > look.at) "
    f"order by m.changed desc limit {LATEST}"
)
_CHAIN: Final = (
    "with recursive c(name, n) as (select coalesce(%(start)s, (select {link} from session where namespace = %(space)s "
    "and name = %(me)s)), 1 union all select s.{link}, c.n + 1 from c join session s on s.namespace = %(space)s "
    f"and s.name = c.name where s.{{link}} is not null and c.n < {GENERATIONS}) "
)
_PARENTS: Final = _CHAIN.format(link="parent") + "select name from c where name is not null order by n"
_INHERITED: Final = _CHAIN.format(link="continues") + (
    f"select c.n, k.name, {MARK}, {ACTION} from c cross join unnest(%(keys)s::text[]) k(name) "
    "join mark m on m.key = k.name and m.session = c.name left join journal j on j.seq = m.acted order by c.n"
)
_FOUND: Final = f"select {ACTION}, j.event, j.verdict from journal j where j.seq = %(id)s"
BODIES: Final = f"select j.seq, j.body from journal j where j.seq = any(%s) and length(j.body) <= {MAX_KEPT}"
_EARLIER: Final = f"select {ACTION}, j.event, j.verdict, j.body from journal j where j.seq = %s"
_BY_IDS: Final = f"select {ACTION}, j.event, j.verdict from journal j where j.seq = any(%s::bigint[])"
# offset 0: else the planner may go through the journal and look for what is live, of which there is little.
_QUEUES: Final = (
    "select l.key, j.session, j.state, j.expires from live l cross join lateral (select namespace, session, state, "
    "expires from journal where seq = l.id offset 0) j where l.open > 0 and j.namespace = %(space)s "
    "and (j.state = 'queued' or (j.state = 'open' and j.session = %(me)s))"
)
_HELD: Final = (
    "select l.key, j.session, j.state, j.expires from live l cross join lateral (select namespace, session, state, "
    "expires from journal where seq = l.id offset 0) j where l.open = 1 and j.namespace = %(space)s "
    "and j.state = 'open' and j.session = any(%(sessions)s::text[])"
)
_TWINS: Final = (
    "select t.* from unnest(%(keys)s::text[]) k(name) cross join (values(true), (false)) o(own) "
    f"cross join lateral (select p.key, {ACTION} from print p join journal j on j.seq = p.id where p.key = k.name "
    "and p.print = any(%(prints)s::bytea[]) and (j.session = %(me)s) = o.own "
    "and j.state in ('open', 'done', 'unknown') order by p.id desc limit 8) t"
)
# What became unknown without a key is not among the live. A session's own entries are found by its index.
_UNREPORTED: Final = (
    f"(select {ACTION} from journal j where session = %(me)s and namespace = %(space)s "
    "and seq > %(since)s and ((state = 'unknown' and keys is null) or (ended = 0 and state in ('open', 'done'))) "
    f"order by seq desc limit {_SEARCHED}) "
    f"union select {ACTION} from live l join journal j on j.seq = l.id "
    "where l.open = 0 and j.session = %(me)s and j.namespace = %(space)s and j.state = 'unknown'"
)


_Walk = tuple[str, int, Mode]
"""The key through which an older act is looked for, the act, and the mode of the key that is asked for."""


class Opened(Struct, frozen=True):
    """An action as it was opened, and ``since`` when it is, by this process's monotonic clock."""

    action: Action
    since: float


class Memory:
    """What a process may remember between transactions: facts that never change, or hardly ever.

    ``covers``: keys in use that cover others, as far as that is committed. ``rows``: names that have a row in
    ``turn``. ``actions``: the keys, with their namespace, of actions that were seen and repeat no other.
    ``sessions``: sessions without parent and predecessor, with the moment of that and when the session was last
    noted, believed for a minute. ``opened``: actions that were opened here. ``observe``: until when the gate only
    observes, when somebody looked last. ``crowds``: the open actions of keys with very many.
    """

    def __init__(self) -> None:
        self.covers: frozenset[str] = frozenset()
        self.rows: set[str] = set()
        self.actions: dict[int, tuple[str, ...]] = {}
        self.sessions: dict[tuple[str, str], tuple[int, int]] = {}
        self.opened: dict[tuple[str, int], Opened] = {}
        self.observe = 0
        self.crowds = Crowds()

    def add_action(self, id: int, names: tuple[str, ...]) -> None:
        """Notes the keys of an action."""
        if len(self.actions) > 10_000:
            self.actions.clear()
        self.actions[id] = names

    def add_opened(self, scope: Scope, applied: Applied) -> None:
        """Notes an action that was opened and committed, if its report may come soon."""
        opening = applied.change.open
        if opening is None or opening.state not in (State.OPEN, State.DONE) or opening.supersedes:
            return
        if len(self.opened) > 10_000:
            self.opened.clear()
        action = opened(applied.ids[-1], applied.change.entries[-1], opening)
        self.opened[scope.namespace, action.id] = Opened(action, time.monotonic())

    def add_covers(self, names: Iterable[str]) -> None:
        """Notes keys that cover others. A run of a transaction goes by those that were known when it began."""
        self.covers |= frozenset(names)

    def add_rows(self, names: Iterable[str]) -> None:
        """Notes rows that are there for all to see."""
        if len(self.rows) > 200_000:
            self.rows.clear()
        self.rows.update(names)


class Again(Exception):
    """The transaction must be run again with the rows of these keys taken too (none: of covers newly known)."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__()
        self.names = frozenset(names)


class Look:
    """One step's look at the store: ``ask``, then, once the line was synced, ``head`` and ``view``.

    ``names`` are the scope's keys with their namespace. ``fresh``: the session need not be noted again. ``covers``
    are those by which the rows were chosen that the transaction has taken, with those that it has made itself.
    """

    def __init__(self, line: Line, scope: Scope, memory: Memory, probe: Probe, covers: frozenset[str]) -> None:
        self.line = line
        self.scope = scope
        self.memory = memory
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
        self._asker: Asker | None = None
        self._sent: list[Answer] = []
        self._below: list[Answer] = []
        self._fetched: Fetched
        self._crowds: dict[str, Crowd] = {}

    # --- asking ---

    def ask(self) -> None:
        """Sends what nearly every view of such a scope needs."""
        scope, send, params = self.scope, self.line.send, self._params
        self._head = send(_HEAD, params)
        covers = self.covers
        trees = [name for name in self._above if name[-1] == "/" and name in covers]
        wholes = [name[: name.index("|")] for name in self.names if "|" in name]
        self._asked_below = {name for name in self._above if name[-1] == "|" and name in covers}
        if self.names:
            params["names"] = list(dict.fromkeys((*self.names, *trees, *wholes)))
            self._sent = [send(f"{_AROUND} union all {_LIVE}" if scope.live else _AROUND, params)]
            for key, name in zip(scope.keys, self.names, strict=True):
                if name[-1] == "/" and key.mode is not Mode.READ:
                    self._ask_below(key, *span(name))
                elif name + "|" in self._asked_below:
                    self._ask_below(key, name + "|", name + "}")
        known = self.memory.sessions.get((scope.namespace, scope.session))
        self._kin: tuple[Answer, Answer] | None = None
        if known is None or scope.parent or scope.continues:
            self._kin = (
                send(_PARENTS, {**params, "start": scope.parent or None}),
                send(_INHERITED, {**params, "start": scope.continues or None}),
            )
        self._same = send(_TWINS, params) if scope.prints and self.names else None
        self._queues = send(_QUEUES, params) if scope.waits else None
        find = scope.find
        self._find = send(_FOUND, {"id": find.id}) if find is not None and find.id is not None else None

    def _ask_below(self, key: Key, low: str, high: str) -> None:
        params = {"me": self.scope.session, "low": low, "high": high}
        statements = [_BELOW]
        if self.scope.live:
            statements.append(_BELOW_LIVE)
        if key.mode is Mode.WRITE:
            statements.append(_BELOW_STALE)
        self._below += [self.line.send(statement, params) for statement in statements]

    def head(self) -> None:
        """Reads what tells whether the right rows were taken; raises ``Again`` if they were not."""
        row = self._head.fetchone()
        assert row is not None  # noqa: S101  a row of values always comes
        self.clock, self.last = row[0], row[1] or 0
        self._observe = self.memory.observe = int(row[2]) if row[2] is not None else 0
        self._session = row[3:6]
        self._earlier_id, used = row[6:8]
        new = [name for name in used if name not in self.covers]  # by others, who have committed it
        if new:
            self.memory.add_covers(new)
        if any(name[-1] == "/" for name in new):
            raise Again
        for key, name in zip(self.scope.keys, self.names, strict=True):
            if name + "|" in new and not (name[-1] == "/" and key.mode is not Mode.READ):
                self._ask_below(key, name + "|", name + "}")

    # --- the view ---

    def view(self, now: int) -> View:
        """Returns all that the scope asks for; ``now`` is the step's moment."""
        scope = self.scope
        parents = self._ancestry(now)
        found = self._found(now) if scope.find is not None else None
        superseded: tuple[Action, ...] = ()
        if found is not None and found.supersedes and not scope.keys:
            rows = self.line.fetch(_BY_IDS, (list(found.supersedes),))
            superseded = tuple(a for row in rows if (a := self._action_found(row)) is not None)
        waiting = self._wanted(now) if self._queues is not None else ()
        if scope.asks is not None:
            self._asker = Asker(scope.session, scope.asks, now, parents, waiting, self._probe)
        return View(
            now,
            self._places() if scope.keys else (),
            self._earlier(),
            found,
            self._twins() if self._same is not None else (),
            parents,
            waiting,
            superseded,
            self._observe,
            self._bodies,
        )

    def _bodies(self, ids: Sequence[int]) -> dict[int, bytes]:
        return {id: body.encode() for id, body in self.line.fetch(BODIES, (list(ids),))}

    def _ancestry(self, now: int) -> tuple[str, ...]:
        """Where the session comes from; and whether it must be noted again."""
        scope, memory = self.scope, self.memory
        seen, parent, continues = self._session[0] or 0, self._session[1] or "", self._session[2] or ""
        self.fresh = (
            0 <= now - seen < HOUR
            and (not scope.parent or scope.parent == parent)
            and (not scope.continues or scope.continues == continues)
        )
        name = (scope.namespace, scope.session)
        if not (parent or continues):
            known = memory.sessions.get(name)
            if known is None or not 0 <= now - known[0] < MINUTE:
                if len(memory.sessions) > 10_000:
                    memory.sessions.clear()
                memory.sessions[name] = (now, seen)
        else:
            memory.sessions.pop(name, None)
        if self._kin is None:
            return ()
        chain: list[str] = []
        for (ancestor,) in self._kin[0].fetchall():
            if ancestor in chain:
                break
            chain.append(ancestor)
        return tuple(chain)

    # --- keys ---

    def _places(self) -> tuple[KeyView, ...]:
        space = self.scope.namespace
        before: list[str] = []
        fetched = self._fetched = Fetched({}, {}, before)
        living: dict[str, list[Row]] = {}
        marks: list[Row] = []
        hiding: list[Row] = []
        for answer in self._sent:
            for row in answer.fetchall():
                if row[0] == "m":
                    marks.append(row)
                else:
                    living.setdefault(row[1], []).append(row)
        for name, rows in living.items():
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
                shown = bare(row[1], space)
                if row[0] == "a":
                    self._add_act(row, shown, hiding)
                elif row[0] == "l":
                    fetched.add(self._living(row, shown))
                else:
                    fetched.add(action_of(row, _ACTION_AT, shown, self._probe))
                    fetched.marks.setdefault((shown, row[_MARK_AT]), mark_of(row[_MARK_AT:_ACTION_AT]))
        if hiding:
            self._walk(hiding)
        for shown, crowd in self._crowds.items():
            self.memory.crowds.keep(scoped(space, shown), crowd)
        return views(fetched, self.scope)

    def _add_mark(self, row: Row, shown: str, hiding: list[Row]) -> None:
        """Adds what a session knows of a key, and its newest action there."""
        session = row[_MARK_AT]
        if session == self.scope.session or row[0] != "m":
            self._fetched.marks[shown, session] = mark_of(row[_MARK_AT:_ACTION_AT])
        if row[_ACTION_AT] is not None:
            self._add_act(row, shown, hiding)

    def _add_act(self, row: Row, shown: str, hiding: list[Row]) -> None:
        """Adds a session's newest action; ``hiding`` gets the rows behind which older ones may count."""
        action = self._act(shown, row[_ACTION_AT])
        if action is None:
            action = action_of(row, _ACTION_AT, shown, self._probe)
            self._fetched.add(action)
        scope = self.scope
        if (action.tier < scope.floor or action.mode is Mode.APPEND) and action.session != scope.session:
            hiding.append(row)

    def _add_live(self, name: str, shown: str, rows: Sequence[Row]) -> None:
        """Adds what is live on a key."""
        fetched = self._fetched
        if self._asker is not None:
            open_ = {row[_ACTION_AT]: row for row in rows if row[_ACTION_AT + 6] != "unknown"}
            if open_:
                self._add_open(name, shown, open_, self._asker)
                rows = [row for row in rows if row[_ACTION_AT] not in open_]
        for row in rows:
            fetched.add(self._living(row, shown))

    def _add_open(self, name: str, shown: str, rows: dict[int, Row], asker: Asker) -> None:
        """Adds what is open on a key, by sort; of more than ``BOUND`` actions ``rows`` are the newest."""

        def fetch(ids: Sequence[int]) -> list[Action]:
            found: list[Sequence[Any]] = [rows[id][_ACTION_AT:] for id in ids if id in rows]
            if len(found) < len(ids):
                missing = [id for id in ids if id not in rows]
                found += self.line.fetch(_BY_NUMBERS, {"ids": missing, "me": self.scope.session})
            return [action_of(row, 0, shown, self._probe) for row in found]

        def stamps(ids: Sequence[int]) -> list[Stamp]:
            found = [rows[id] for id in ids if id in rows]
            known = [(row[_ACTION_AT], row[_ACTION_AT + 8] or 0, row[_ACTION_AT + 13] or 0) for row in found]
            if len(found) < len(ids):
                known += self.line.fetch(_STAMPS, ([id for id in ids if id not in rows],))
            return known

        ids = sorted(rows)
        if len(rows) > BOUND:
            ((text,),) = self.line.fetch(_OPEN_IDS, (name,))
            ids = _numbers(f"[{text or ''}]")
        crowd = self._crowds[shown] = self.memory.crowds.take(name)
        found, more = crowd.view(asker, ids, fetch, stamps)
        for action in found:
            row = rows.get(action.id)
            self._fetched.add(self._with_params(action, row[_MORE_AT]) if row is not None else action)
        if more:
            self._fetched.more[shown] = more

    def _act(self, shown: str, id: int) -> Action | None:
        """An action that was found on a key."""
        crowd = self._crowds.get(shown)
        if crowd is not None and id in crowd:
            return crowd[id]
        return self._fetched.acts.get(shown, {}).get(id)

    def _living(self, row: Row, shown: str) -> Action:
        return self._with_params(action_of(row, _ACTION_AT, shown, self._probe), row[_MORE_AT])

    def _with_params(self, action: Action, params: bytes | None) -> Action:
        """An approved question with the params it may run with."""
        return action if params is None else replace(action, answer=params)

    def _walk(self, hiding: Sequence[Row]) -> None:
        """Fetches each session's newest action that counts behind one that does not."""
        scope = self.scope
        if not scope.floor:
            return
        on: dict[str, list[Row]] = {}
        for row in hiding:
            on.setdefault(bare(row[1], scope.namespace), []).append(row)
        names = sorted(on)
        walks: set[_Walk] = set()
        for key in scope.keys:
            if key.mode is Mode.READ:
                continue
            for shown in (other for group in related(key, names) for other in group if other in on):
                for row in on[shown]:
                    before = before_of(row[_ACTION_AT + 10], shown)
                    action = self._act(shown, row[_ACTION_AT]) if before else None
                    if action is not None and not counts(action, key.mode, scope.floor):
                        walks.add((shown, before, key.mode))
        for _ in range(_WALK):
            if not walks:
                return
            rows = {row[0]: row for row in self.line.fetch(_BY_IDS, (list({id for _, id, _ in walks}),))}
            further: set[_Walk] = set()
            for shown, at, asking in walks:
                found = rows.get(at)
                if found is None:
                    continue
                action = action_of(found, 0, shown, self._probe)
                if counts(action, asking, scope.floor) and action.state not in TAKEN_BACK:
                    self._fetched.add(action)
                elif before := before_of(found[10], shown):
                    further.add((shown, before, asking))
            walks = further

    # --- the rest of a view ---

    def _earlier(self) -> Action | None:
        """The action that this call opened before, with the answer that was given."""
        if self._earlier_id is None:
            return None
        (row,) = self.line.fetch(_EARLIER, (self._earlier_id,))
        action = self._action_found(row)
        return answered(action, row[-1]) if action is not None else None

    def _twins(self) -> tuple[Action, ...]:
        """Acts of the same content; others' and its own apart, so that many of its own cannot hide another's."""
        found: dict[int, Action] = {}
        assert self._same is not None  # noqa: S101  asked for by the one who calls
        for row in self._same.fetchall():
            found.setdefault(row[1], action_of(row, 1, bare(row[0], self.scope.namespace), self._probe))
        return tuple(found[id] for id in sorted(found, reverse=True))

    def _wanted(self, now: int) -> tuple[str, ...]:
        """The sessions that wait for something this one holds, through trees too."""
        assert self._queues is not None  # noqa: S101  asked for by the one who calls
        space, fetch = self.scope.namespace, self.line.fetch
        return wanted(
            self._queues.fetchall(),
            self.scope.session,
            now,
            lambda names: fetch(_HELD, {"space": space, "sessions": names}),
        )

    # --- reports ---

    def _found(self, now: int) -> Action | None:
        if self._find is not None:
            row = self._find.fetchone()
        else:
            assert self.scope.find is not None  # noqa: S101  asked for by the one who calls
            rows = self.line.fetch(_UNREPORTED, {**self._params, "since": now - REMEMBERED})
            action = meant((action_of(row, 0, "", self._probe) for row in rows), self.scope.find)
            row = self.line.send(_FOUND, {"id": action.id}).fetchone() if action is not None else None
        return self._action_found(row) if row is not None else None

    def _action_found(self, row: Row) -> Action | None:
        """The action in a row of ``_FOUND``, if it is one, of this namespace."""
        event, verdict = row[ACTION_WIDTH : ACTION_WIDTH + 2]
        if row[1] != self.scope.namespace or event not in OPENERS:
            return None
        return action_of(row, 0, "", self._probe, verdict)


def _changed(row: Row) -> int:
    """When the action in a row last changed its key; 0 where there is none."""
    return row[_ACTION_AT + 7] or row[_ACTION_AT] or 0
