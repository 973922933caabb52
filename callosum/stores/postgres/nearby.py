"""What a brief looks up: a session's own keys, and what others do and did on them.

Nothing here takes a turn or writes. Every look is bounded, whatever the store holds: a key's marks and live
actions are found by their keys, a session's own calls in the journal's last entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from callosum.model import Action
from callosum.stores.base import LOOK_BACK, NEARBY, Nearby, Probe
from callosum.stores.keys import above, bare, scoped, span
from callosum.stores.rows import ACTION, ACTION_WIDTH, action_of

Read = Callable[..., list[Any]]

_BELOW: Final = 500
"""With more marks, or live actions, than this below a tree they are not looked at one by one."""
_LIVE: Final = 250
_SHOWN_BELOW: Final = 24

_BARE: Final = ACTION.replace("j.content", "null::bytea")
"""The columns of an action without its content, which only the gate compares."""
NEWEST: Final = "j.seq > coalesce((select seq from journal order by seq desc limit 1 offset %(within)s), 0)"
"""The condition that keeps a look to the newest entries."""

_OTHERS: Final = "not (m.session = any(%(mine)s::text[]))"
_ON: Final = (
    f"select k.name, {_BARE} from unnest(%(names)s::text[]) k(name) cross join lateral (select acted, changed "
    f"from mark m where m.key = k.name and m.acted is not null and {_OTHERS} "
    f"order by changed desc limit {NEARBY}) m join journal j on j.seq = m.acted "
    f"union all select k.name, {_BARE} from unnest(%(names)s::text[]) k(name) "
    "cross join (values(true), (false)) o(lost) "
    "cross join lateral (select l.id from live l join journal m on m.seq = l.id where l.key = k.name "
    f"and (l.open = 0) = o.lost and {_OTHERS} order by l.id desc limit {NEARBY}) l join journal j on j.seq = l.id"
)
_COUNT_BELOW: Final = f"select count(*) from (select 1 from mark where key >= %s and key < %s limit {_BELOW + 1}) m"
_ACTS_BELOW: Final = (
    f"select m.key, {_BARE} from (select key, acted, changed from mark m where key >= %(low)s and key < %(high)s "
    f"and acted is not null and {_OTHERS} order by changed desc limit {_SHOWN_BELOW}) m "
    "join journal j on j.seq = m.acted"
)
_LIVE_BELOW: Final = (
    f"select l.key, {_BARE} from (select key, id from live where key >= %(low)s and key < %(high)s limit {_BELOW}) l "
    "join journal j on j.seq = l.id where not (j.session = any(%(mine)s::text[])) "
    f"order by j.seq desc limit {_SHOWN_BELOW}"
)
_LATE_BELOW: Final = (
    f"select j.key, {_BARE} from journal j where {NEWEST} and j.key >= %(low)s and j.key < %(high)s "
    "and j.state in ('open', 'done', 'unknown') and j.event <> 'lock' and j.keys::json->0->>1 <> 'read' "
    f"and not (j.session = any(%(mine)s::text[])) order by j.seq desc limit {_SHOWN_BELOW}"
)
_SEEN: Final = (
    "select key, max(greatest(read, coalesce(acted, 0))) from mark where key = any(%(names)s::text[]) "
    "and session = any(%(mine)s::text[]) group by key"
)
_TOUCHED: Final = (
    f"select {_BARE}, j.verdict from journal j where {NEWEST} and j.session = any(%(mine)s::text[]) "
    "and j.namespace = %(space)s and j.keys is not null order by j.seq desc limit %(limit)s"
)
_UNDERWAY: Final = (
    f"select {_BARE}, j.verdict from (select distinct id from (select id from live limit {_LIVE}) i) l "
    # offset 0: else the planner may go back through the journal until it has met all of these.
    "cross join lateral (select * from journal where seq = l.id offset 0) j "
    "where j.namespace = %(space)s and (j.session = any(%(mine)s::text[]) "
    "or (j.tier >= %(floor)s and j.state in ('open', 'queued'))) order by j.seq desc limit %(limit)s"
)


class Around:
    """One look around a session. ``sessions``: itself, and those it continues. ``read`` runs one statement."""

    def __init__(self, read: Read, namespace: str, sessions: Sequence[str], probe: Probe) -> None:
        self._read = read
        self._namespace = namespace
        self._mine = list(sessions)
        self._probe = probe
        self._found: dict[int, Action] = {}

    def touched(self, limit: int) -> list[Action]:
        """The sessions' newest calls."""
        return [self._action(row, "") for row in self._rows(_TOUCHED, within=LOOK_BACK, limit=limit)]

    def underway(self, floor: int, limit: int) -> list[Action]:
        """Live actions: the sessions' own, and others' of a tier."""
        return [self._action(row, "") for row in self._rows(_UNDERWAY, floor=floor, limit=limit)]

    def nearby(self, keys: Sequence[str]) -> list[Nearby]:
        """What others do and did on keys."""
        asked = dict.fromkeys(scoped(self._namespace, key) for key in keys)
        related, below = self._related(asked)
        self._add(self._rows(_ON, names=list(dict.fromkeys((*asked, *related)))))
        for low, high in below:
            self._below(low, high)
        # A look at a tree is a look at all below it.
        looks = {action.id: self._with_trees(action.key) for action in self._found.values()}
        names = list(dict.fromkeys(name for group in looks.values() for name in group))
        seen = dict(self._rows(_SEEN, names=names)) if names and self._mine else {}
        found = [Nearby(action, max(seen.get(name, 0) for name in looks[action.id])) for action in self._found.values()]
        found.sort(key=lambda one: -(one.action.ended or one.action.started))
        return found

    def _related(self, asked: Iterable[str]) -> tuple[list[str], list[tuple[str, str]]]:
        """The keys that cover those asked for, and the ranges of keys that those cover."""
        covers: dict[str, None] = {}
        below: list[tuple[str, str]] = []
        related: list[str] = []
        for name in asked:
            covers.update(dict.fromkeys(above(name)))
            if name[-1] == "/":
                below.append(span(name))
            if "|" in name:
                related.append(name[: name.index("|")])
        for (name,) in self._rows("select key from cover where key = any(%(names)s::text[])", names=list(covers)):
            if name[-1] == "|":
                below.append((name, name[:-1] + "}"))
            else:
                related.append(name)
        return related, below

    def _below(self, low: str, high: str) -> None:
        ((marks,),) = self._read(_COUNT_BELOW, (low, high))
        query = _LATE_BELOW if marks > _BELOW else _ACTS_BELOW
        self._add(self._rows(query, low=low, high=high, within=LOOK_BACK))
        self._add(self._rows(_LIVE_BELOW, low=low, high=high))

    def _add(self, rows: Iterable[Sequence[Any]]) -> None:
        for row in rows:
            if row[1] not in self._found:
                self._found[row[1]] = self._action(row[1:], bare(row[0], self._namespace))

    def _with_trees(self, key: str) -> tuple[str, ...]:
        name = scoped(self._namespace, key)
        return (name, *above(name))

    def _rows(self, query: str, **params: object) -> list[Any]:
        return self._read(query, {"space": self._namespace, "mine": self._mine, **params})

    def _action(self, row: Sequence[Any], key: str) -> Action:
        return action_of(row, 0, key, self._probe, row[ACTION_WIDTH] if len(row) == ACTION_WIDTH + 1 else None)
