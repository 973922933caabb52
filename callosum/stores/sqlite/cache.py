"""What a connection knows about the file without asking again.

A process that works alone on its file reads back what it has just written. SQLite tells cheaply whether another
connection has committed since (``pragma data_version``). Until then, everything that was read and written is kept, and
what a transaction would read again comes from here. If several processes write, each forgets everything whenever
another has committed.

Only facts that make most reads unnecessary are kept: the newest entry, keys that only one session has ever touched, the
actions this connection opened and, once it has been alone for a while, the trees and facets in use, which are few. Code
that changes any of this without ``SqliteWriter`` must call ``forget``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from callosum.model import Action, Mark
from callosum.stores.crowd import Crowds
from callosum.stores.sqlite.statements import MOST_COVERS, SQL

if TYPE_CHECKING:
    from callosum.stores.sqlite.connection import Execute

MOST_KEYS: Final = 4096
MOST_ACTIONS: Final = 256
CALM: Final = 8
"""Number of transactions in a row without another connection's commit after which all covers are read."""
_VERSION: Final = "pragma data_version"


class SoleUse(Struct, frozen=True, gc=False):
    """A key that only this session has marked. No tree in use covers it and it has no facets.

    If the key is a facet, no session has marked its whole. ``acted`` is the session's newest action there, None if it
    has none; ``there`` is True if the session has a row.
    """

    session: str
    mark: Mark
    acted: int | None
    there: bool


class ConnectionCache:
    """Facts of one connection. They hold inside a transaction after ``refresh`` was called in it.

    ``last`` is the newest entry's ``seq``, -1 if it must be asked for. ``keys`` are by scoped name, and ``opened``
    (actions as they were opened, not settled since) by id. ``covers`` holds all rows of that table, None if they must
    be asked for. ``crowds`` hold what never changes, so they outlast commits of others. All are bounded.
    """

    __slots__ = ("_calm", "_version", "_wholes", "covers", "crowds", "keys", "last", "opened")

    def __init__(self) -> None:
        self._version = -1
        self.crowds = Crowds()
        self._forget_facts()

    def forget(self) -> None:
        """Forget everything."""
        self.crowds.forget()
        self._forget_facts()

    def _forget_facts(self) -> None:
        self.last = -1
        self.keys: dict[str, SoleUse] = {}
        self._wholes: set[str] = set()
        """Keys that have a facet among ``keys``."""
        self.opened: dict[int, Action] = {}
        self.covers: set[str] | None = None
        self._calm = 0

    @property
    def alone(self) -> bool:
        """Return True if no other connection has committed for many transactions."""
        return self._calm >= CALM

    def refresh(self, execute: Execute) -> None:
        """Forget everything if another connection has committed since the last call."""
        (version,) = execute(_VERSION).fetchone()
        if version != self._version:
            self._version = version
            self._forget_facts()
        elif self._calm < CALM:
            self._calm += 1
            if self._calm == CALM:
                rows = execute(SQL["covers"]).fetchall()
                self.covers = {name for (name,) in rows} if len(rows) <= MOST_COVERS else None

    def add_key(self, name: str, alone: SoleUse) -> None:
        """Note that a session is alone on a key."""
        if len(self.keys) >= MOST_KEYS:
            self.forget_keys()
        self.keys[name] = alone
        whole, bar, _ = name.partition("|")
        if bar:
            self._wholes.add(whole)

    def forget_keys(self, name: str = "") -> None:
        """Forget which session is alone on a key and its facets, or on all keys."""
        if not name or name in self._wholes:
            self.keys.clear()
            self._wholes.clear()
        else:
            self.keys.pop(name, None)

    def add_cover(self, name: str) -> None:
        """Note a cover that was not in use before. No session is alone any more on the keys that it covers."""
        self.forget_keys()
        if self.covers is not None:
            self.covers.add(name)
            if len(self.covers) > MOST_COVERS:
                self.covers = None

    def mark(self, name: str, session: str, mark: Mark, acted: int | None) -> None:
        """Note a mark that was set; ``acted`` None leaves the session's newest action as it was."""
        alone = self.keys.get(name)
        if alone is None or name in self._wholes:
            self.forget_keys(name)
        elif alone.session == session:
            self.keys[name] = SoleUse(session, mark, alone.acted if acted is None else acted, there=True)
        else:
            del self.keys[name]

    def add_action(self, action: Action) -> None:
        """Note an action that was opened, in place of the oldest one if there are many."""
        opened = self.opened
        if len(opened) >= MOST_ACTIONS:
            del opened[next(iter(opened))]
        opened[action.id] = action
