"""What both SQL stores read outside of decisions: their statements have the same names and columns.

A statement of ``statements.sql`` that ends in ``{{}}`` takes conditions there, which are statements too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from callosum.model import DEFAULT_NAMESPACE, Action, Entry, State
from callosum.policy.commitments import COMMITTED, is_in_force
from callosum.stores.base import SEARCHED_ENTRIES, NearbyAction, Probe
from callosum.stores.keys import bare, scoped
from callosum.stores.records import is_farewell
from callosum.stores.rows import OPENERS, action_of, answered, entry_of
from callosum.stores.sql_neighbours import SqlNeighbours


class SqlReads:
    """The reads of ``Store``. An engine says how a statement runs; a list is one value of a statement."""

    sql: ClassVar[Mapping[str, str]]
    neighbours: ClassVar[type[SqlNeighbours]]
    _probe: Probe

    def _read(self, query: str, params: Any = ()) -> list[Any]:
        """Return the rows of one statement. Raises what ``Store`` raises."""
        raise NotImplementedError

    def now(self) -> int:
        raise NotImplementedError

    def action(self, namespace: str, id: int) -> Action | None:
        if not -(2**63) <= id < 2**63:
            return None
        rows = self._read(self.sql["action_by_id"], (id,))
        if not rows or (row := rows[0])[1] != namespace or row[14] not in OPENERS:
            return None
        return answered(action_of(row, 0, "", self._probe, row[15]), row[16])

    def live(self, namespace: str | None, states: Sequence[State], key: str | None = None) -> list[Action]:
        params = {
            "states": [state.value for state in states],
            "namespace": namespace,
            "key": scoped(namespace or DEFAULT_NAMESPACE, key) if key is not None else None,
        }
        actions: dict[int, Action] = {}
        for row in self._select("live_actions", {"in_namespace": namespace, "live_on_key": key}, params):
            if row[1] not in actions:
                action = action_of(row, 1, bare(row[0], row[2]), self._probe, row[15])
                actions[action.id] = answered(action, row[16])
        return [actions[id] for id in sorted(actions)]

    def recent(
        self,
        namespace: str,
        key: str | None = None,
        limit: int = 20,
        *,
        floor: int = 0,
        besides: Sequence[str] = (),
        within: int = 20_000,
    ) -> list[Action]:
        params = {
            "within": within,
            "namespace": namespace,
            "key": scoped(namespace, key) if key is not None else None,
            "floor": floor,
            "besides": list(besides),
            "limit": limit,
        }
        rows = self._select("recent", {"on_first_key": key}, params)
        return [action_of(row, 0, key or "", self._probe) for row in rows]

    def touched(self, namespace: str, sessions: Sequence[str], limit: int = 32) -> list[Action]:
        return self.neighbours(self._read, namespace, sessions, self._probe).touched(limit)

    def nearby(self, namespace: str, sessions: Sequence[str], keys: Sequence[str]) -> list[NearbyAction]:
        return self.neighbours(self._read, namespace, sessions, self._probe).nearby(keys)

    def underway(self, namespace: str, sessions: Sequence[str], floor: int, limit: int = 32) -> list[Action]:
        return self.neighbours(self._read, namespace, sessions, self._probe).underway(floor, limit)

    def commitments(self, namespace: str | None, keys: Sequence[str] | None = None) -> list[Action]:
        names = [scoped(namespace or DEFAULT_NAMESPACE, key) for key in keys or ()]
        params = {"print": COMMITTED, "keys": names}
        rows, now = self._select("commitments", {"found_on_keys": keys}, params), self.now()
        actions = [action_of(row, 0, "", self._probe) for row in rows if namespace is None or row[1] == namespace]
        return [action for action in actions if is_in_force(action, now)]

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        rows = self._read(self.sql["bodies_of_namespace"], (list(ids), namespace))
        return {id: body.encode() for id, body in rows}

    def farewells(self, namespace: str, limit: int = 20) -> list[Entry]:
        rows = self._read(self.sql["farewells"], {"within": SEARCHED_ENTRIES, "namespace": namespace})
        return [entry for entry in map(entry_of, rows) if is_farewell(entry)][:limit]

    def observing(self) -> int:
        rows = self._read(self.sql["fact"], ("observe",))
        return int(rows[0][0]) if rows else 0

    def entries(
        self,
        *,
        after: int = 0,
        limit: int = 500,
        namespace: str | None = None,
        session: str | None = None,
        key: str | None = None,
        newest: bool = False,
    ) -> list[Entry]:
        params = {
            "after": after,
            "namespace": namespace,
            "session": session,
            "key": scoped(namespace or DEFAULT_NAMESPACE, key) if key is not None else None,
            "limit": limit,
        }
        order = "newest_first" if newest else "oldest_first"
        conditions = {"in_namespace": namespace, "of_session": session, "on_key": key, order: True}
        entries = [entry_of(row) for row in self._entry_rows(conditions, params)]
        return entries[::-1] if newest else entries

    def _entry_rows(self, conditions: Mapping[str, object], params: dict[str, Any]) -> list[Any]:
        return self._select("entries_where", conditions, params)

    def _select(self, query: str, conditions: Mapping[str, object], params: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a statement with the conditions, and the order, whose values in ``conditions`` are set."""
        where = " ".join([self.sql[name] for name, value in conditions.items() if value is not None])
        return self._read(self.sql[query].format(where), params)
