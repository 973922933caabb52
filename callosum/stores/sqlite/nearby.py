"""What a brief looks up: a session's own keys, and what others do and did on them.

Nothing here takes a turn or writes. Every look is bounded, whatever the store holds: a key's marks and live
actions are found by the primary keys, a session's own calls in the journal's last entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from callosum.model import Action
from callosum.stores.base import LOOK_BACK, Nearby, Probe
from callosum.stores.keys import above, bare, scoped, span
from callosum.stores.rows import ACTION_WIDTH, action_of, as_json
from callosum.stores.sqlite.connection import Execute
from callosum.stores.sqlite.statements import BELOW, SQL


class Around:
    """One look around a session. ``sessions``: itself, and those it continues."""

    def __init__(self, execute: Execute, namespace: str, sessions: Sequence[str], probe: Probe) -> None:
        self._execute = execute
        self._namespace = namespace
        self._mine = as_json(list(sessions))
        self._probe = probe
        self._found: dict[int, Action] = {}

    def touched(self, limit: int, within: int = LOOK_BACK) -> list[Action]:
        """The sessions' newest calls."""
        return [self._action(row, "") for row in self._rows("touched", within=within, limit=limit)]

    def underway(self, floor: int, limit: int) -> list[Action]:
        """Live actions: the sessions' own, and others' of a tier."""
        return [self._action(row, "") for row in self._rows("underway", floor=floor, limit=limit)]

    def nearby(self, keys: Sequence[str]) -> list[Nearby]:
        """What others do and did on keys."""
        asked = dict.fromkeys(scoped(self._namespace, key) for key in keys)
        related, below = self._related(asked)
        names = list(dict.fromkeys((*asked, *related)))
        for name, is_live, is_known, is_crowded in self._rows("which", keys=as_json(names)):
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
        used = self._rows("used_covers", keys=as_json(list(covers)))
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
            for row in self._rows("live_on", key=name, open=open_):
                self._add(row, name)

    def _acts(self, name: str, *, crowded: bool) -> None:
        """The newest act of each of the others that acted last."""
        for row in self._rows("crowd_acts" if crowded else "acts", key=name):
            self._add(row, name)

    def _below(self, low: str, high: str) -> None:
        ((marks,),) = self._rows("count_below", low=low, high=high)
        query = "late_below" if marks > BELOW else "acts_below"
        rows = self._rows(query, low=low, high=high, within=LOOK_BACK)
        rows += self._rows("live_acts_below", low=low, high=high)
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
        for name, moment in self._rows("seen", keys=as_json(list(names))):
            seen[name] = max(moment, seen.get(name, 0))
        return seen

    # --- rows ---

    def _rows(self, query: str, **params: object) -> list[Any]:
        return self._execute(SQL[query], {"space": self._namespace, "mine": self._mine, **params}).fetchall()

    def _action(self, row: Sequence[Any], key: str) -> Action:
        return action_of(row, 0, key, self._probe, row[ACTION_WIDTH] if len(row) == ACTION_WIDTH + 1 else None)
