"""What a brief looks up: a session's own keys, and what others do and did on them.

Nothing here takes a turn or writes. Every look is bounded, whatever the store holds: a key's marks and live
actions are found by the primary keys, a session's own calls in the journal's last entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from callosum.model import Action
from callosum.stores.base import LOOK_BACK, NEARBY, Nearby, Probe
from callosum.stores.keys import above, bare, scoped, span
from callosum.stores.rows import ACTION, ACTION_WIDTH, action_of, as_json
from callosum.stores.sqlite.connection import Execute

BELOW: Final = 500
"""With more marks, or live actions, than this below a tree they are not looked at one by one."""
_LIVE: Final = 250
"""How many live rows ``underway`` looks at."""
_SHOWN_BELOW: Final = 24

_BARE: Final = ACTION.replace("j.content", "null")
"""The columns of an action without its content, which only the gate compares."""
NEWEST: Final = "j.seq > ifnull((select seq from journal order by seq desc limit 1 offset ?), 0)"
"""The condition that keeps a look to the newest entries; its parameter says how many."""

# Which of the keys have a live action, and which a mark of somebody else; a crowded key has one of nobody.
_WHICH: Final = (
    "select k.value, exists(select 1 from live where key = k.value), "
    "exists(select 1 from mark where key = k.value and session not in ({mine})), "
    "exists(select 1 from mark where key = k.value and session = '') from json_each(?) k"
)


def _acts_on(those: str) -> str:
    """The newest acts of others on a key, among these of its marks.

    The few that are told are chosen by the marks alone: each look into the journal may be one at the disk.
    """
    return (
        f"select {_BARE} from (select acted, changed from mark where key = ? and acted is not null {those} "
        f"and session not in ({{mine}}) order by changed desc limit {NEARBY}) m cross join journal j on j.seq = m.acted"
    )


_FEW: Final = _acts_on("")
_CROWD: Final = _acts_on("and crowd = 1")
_LIVE_ON: Final = (
    f"select {_BARE} from live l cross join journal j on j.seq = l.id where l.key = ? and l.open = ? "
    "and j.session not in ({mine}) order by l.id desc limit ?"
)
_COUNT_BELOW: Final = "select count(*) from (select 1 from {table} where key >= ? and key < ? limit ?)"
_ACTS_BELOW: Final = (
    f"select m.key, {_BARE} from (select key, acted, changed from mark where key >= ? and key < ? "
    f"and acted is not null and session not in ({{mine}}) order by changed desc limit {_SHOWN_BELOW}) m "
    "join journal j on j.seq = m.acted"
)
_LIVE_BELOW: Final = (
    f"select l.key, {_BARE} from (select key, id from live where key >= ? and key < ? limit {BELOW}) l "
    f"join journal j on j.seq = l.id where j.session not in ({{mine}}) order by j.seq desc limit {_SHOWN_BELOW}"
)
_LATE_BELOW: Final = (
    f"select j.key, {_BARE} from journal j where {NEWEST} and j.key >= ? and j.key < ? "
    "and j.state in ('open', 'done', 'unknown') and j.event <> 'lock' and json_extract(j.keys, '$[0][1]') <> 'read' "
    f"and j.session not in ({{mine}}) order by j.seq desc limit {_SHOWN_BELOW}"
)
_SEEN: Final = (
    "select m.key, max(m.read, coalesce(m.acted, 0)) from json_each(?) k "
    "join mark m on m.key = k.value and m.session in ({mine})"
)
_TOUCHED: Final = (
    f"select {_BARE}, j.verdict from journal j where {NEWEST} and j.session in ({{mine}}) "
    "and j.namespace = ? and j.keys is not null order by j.seq desc limit ?"
)
_UNDERWAY: Final = (
    f"select {_BARE}, j.verdict from (select distinct id from (select id from live limit {_LIVE})) l "
    "join journal j on j.seq = l.id where j.namespace = ? and (j.session in ({mine}) "
    "or (j.tier >= ? and j.state in ('open', 'queued'))) order by j.seq desc limit ?"
)


class Around:
    """One look around a session. ``sessions``: itself, and those it continues."""

    def __init__(self, execute: Execute, namespace: str, sessions: Sequence[str], probe: Probe) -> None:
        self._execute = execute
        self._namespace = namespace
        self._mine = tuple(sessions)
        self._probe = probe
        self._found: dict[int, Action] = {}

    def touched(self, limit: int) -> list[Action]:
        """The sessions' newest calls."""
        return [self._action(row, "") for row in self._rows(_TOUCHED, LOOK_BACK, *self._mine, self._namespace, limit)]

    def underway(self, floor: int, limit: int) -> list[Action]:
        """Live actions: the sessions' own, and others' of a tier."""
        return [self._action(row, "") for row in self._rows(_UNDERWAY, self._namespace, *self._mine, floor, limit)]

    def nearby(self, keys: Sequence[str]) -> list[Nearby]:
        """What others do and did on keys."""
        asked = dict.fromkeys(scoped(self._namespace, key) for key in keys)
        related, below = self._related(asked)
        names = list(dict.fromkeys((*asked, *related)))
        for name, is_live, is_known, is_crowded in self._rows(_WHICH, *self._mine, as_json(names)):
            if is_live:
                self._live(name)
            if is_known:
                self._acts(name, crowded=bool(is_crowded))
        for low, high in below:
            self._below(low, high)
        # A look at a tree is a look at all below it.
        looks = {action.id: self._with_trees(action.key) for action in self._found.values()}
        seen = self._seen(dict.fromkeys(name for group in looks.values() for name in group))
        found = [Nearby(action, max(seen.get(name, 0) for name in looks[action.id])) for action in self._found.values()]
        found.sort(key=lambda one: -(one.action.ended or one.action.started))
        return found

    # --- where to look ---

    def _related(self, asked: Iterable[str]) -> tuple[list[str], list[tuple[str, str]]]:
        """The keys that cover those asked for, and the ranges of keys that those cover."""
        covers: dict[str, None] = {}
        below: list[tuple[str, str]] = []
        wholes: list[str] = []
        for name in asked:
            covers.update(dict.fromkeys(above(name)))
            if name[-1] == "/":
                below.append(span(name))
            if "|" in name:
                wholes.append(name[: name.index("|")])
        used = self._rows("select c.key from json_each(?) k join cover c on c.key = k.value", as_json(list(covers)))
        related = wholes
        for (name,) in used:
            if name[-1] == "|":
                below.append((name, name[:-1] + "}"))
            else:
                related.append(name)
        return related, below

    # --- what is there ---

    def _live(self, name: str) -> None:
        for open_ in (1, 0):
            for row in self._rows(_LIVE_ON, name, open_, *self._mine, NEARBY):
                self._add(row, name)

    def _acts(self, name: str, *, crowded: bool) -> None:
        """The newest act of each of the others that acted last."""
        for row in self._rows(_CROWD if crowded else _FEW, name, *self._mine):
            self._add(row, name)

    def _below(self, low: str, high: str) -> None:
        (marks,) = self._execute(_COUNT_BELOW.format(table="mark"), (low, high, BELOW + 1)).fetchone()
        if marks > BELOW:
            rows = self._rows(_LATE_BELOW, LOOK_BACK, low, high, *self._mine)
        else:
            rows = self._rows(_ACTS_BELOW, low, high, *self._mine)
        rows += self._rows(_LIVE_BELOW, low, high, *self._mine)
        for row in rows:
            self._add(row[1:], row[0])

    def _add(self, row: Sequence[Any], name: str) -> None:
        if row[0] not in self._found:
            action = self._action(row, bare(name, self._namespace))
            self._found[action.id] = action

    # --- what the session knows ---

    def _with_trees(self, key: str) -> tuple[str, ...]:
        name = scoped(self._namespace, key)
        return (name, *above(name))

    def _seen(self, names: Iterable[str]) -> dict[str, int]:
        """When one of the sessions last looked at a key, or acted on it."""
        seen: dict[str, int] = {}
        for name, moment in self._rows(_SEEN, as_json(list(names)), *self._mine):
            seen[name] = max(moment, seen.get(name, 0))
        return seen

    # --- rows ---

    def _rows(self, query: str, *params: object) -> list[Any]:
        among = ",".join("?" * len(self._mine))
        return self._execute(query.replace("{mine}", among), params).fetchall()

    def _action(self, row: Sequence[Any], key: str) -> Action:
        return action_of(row, 0, key, self._probe, row[ACTION_WIDTH] if len(row) == ACTION_WIDTH + 1 else None)
