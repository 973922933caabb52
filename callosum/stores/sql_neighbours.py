"""What a brief reads from the SQL stores: a session's own keys, and what others are doing and did on them.

Nothing here takes a lock or writes. Every lookup is bounded, whatever the store holds: a key's marks and live actions
are found by their keys, a session's own calls in the newest journal entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from callosum.model import Action
from callosum.stores.base import SEARCHED_ENTRIES, NearbyAction, Probe
from callosum.stores.keys import above, bare, scoped, span
from callosum.stores.rows import ACTION_WIDTH, action_of

BELOW: Final = 500
"""Number of marks, or of live actions, below a tree above which they are not examined one by one."""


Read = Callable[[str, Any], list[Any]]
"""Returns the rows of a statement with its params, among which a list is one value."""


class SqlNeighbours:
    """One lookup around a session. ``sessions`` are the session and those it continues; ``read`` runs a statement."""

    sql: ClassVar[Mapping[str, str]]

    def __init__(self, read: Read, namespace: str, sessions: Sequence[str], probe: Probe) -> None:
        self._read = read
        self._namespace = namespace
        self._mine = list(sessions)
        self._probe = probe
        self._found: dict[int, Action] = {}

    def on(self, names: list[str]) -> Iterable[Sequence[Any]]:
        """Return key and action of other sessions' newest and live actions on these keys."""
        raise NotImplementedError

    def touched(self, limit: int, within: int = SEARCHED_ENTRIES) -> list[Action]:
        """Return the sessions' newest calls."""
        return [self._action(row, "") for row in self._rows("touched", within=within, limit=limit)]

    def underway(self, floor: int, limit: int) -> list[Action]:
        """Return live actions: all of the sessions' own, and others' from a tier up."""
        return [self._action(row, "") for row in self._rows("underway", floor=floor, limit=limit)]

    def nearby(self, keys: Sequence[str]) -> list[NearbyAction]:
        """Return what others are doing and did on keys."""
        asked = dict.fromkeys(scoped(self._namespace, key) for key in keys)
        related, below = self._related(asked)
        self._add(self.on(list(dict.fromkeys((*asked, *related)))))
        for low, high in below:
            self._below(low, high)
        # Reading a tree reads everything below it.
        looks = {action.id: self._with_trees(action.key) for action in self._found.values()}
        names = list(dict.fromkeys(name for group in looks.values() for name in group))
        seen = dict(self._rows("seen", names=names)) if names and self._mine else {}
        found = [
            NearbyAction(action, max(seen.get(name, 0) for name in looks[action.id])) for action in self._found.values()
        ]
        found.sort(key=lambda one: -(one.action.ended or one.action.started))
        return found

    def _related(self, asked: Iterable[str]) -> tuple[list[str], list[tuple[str, str]]]:
        """Return the keys that cover the given ones, and the ranges of keys that those cover."""
        covers: dict[str, None] = {}
        below: list[tuple[str, str]] = []
        related: list[str] = []
        for name in asked:
            covers.update(dict.fromkeys(above(name)))
            if name[-1] == "/":
                below.append(span(name))
            if "|" in name:
                related.append(name[: name.index("|")])
        for (name,) in self._rows("used_covers", names=list(covers)):
            if name[-1] == "|":
                below.append((name, name[:-1] + "}"))
            else:
                related.append(name)
        return related, below

    def _below(self, low: str, high: str) -> None:
        ((marks,),) = self._rows("count_below", low=low, high=high)
        query = "late_below" if marks > BELOW else "acts_below"
        self._add(self._rows(query, low=low, high=high, within=SEARCHED_ENTRIES))
        self._add(self._rows("live_acts_below", low=low, high=high))

    def _add(self, rows: Iterable[Sequence[Any]]) -> None:
        for row in rows:
            if row[1] not in self._found:
                self._found[row[1]] = self._action(row[1:], bare(row[0], self._namespace))

    def _with_trees(self, key: str) -> tuple[str, ...]:
        name = scoped(self._namespace, key)
        return (name, *above(name))

    def _rows(self, query: str, **params: object) -> list[Any]:
        return self._read(self.sql[query], {"space": self._namespace, "mine": self._mine, **params})

    def _action(self, row: Sequence[Any], key: str) -> Action:
        return action_of(row, 0, key, self._probe, row[ACTION_WIDTH] if len(row) == ACTION_WIDTH + 1 else None)
