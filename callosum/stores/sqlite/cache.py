"""What a connection knows of the file without asking again.

A process that works alone on its file finds there what it has just written. SQLite tells in one cheap
look whether anybody else has committed since (``pragma data_version``), so what was seen and what was
written is kept until then, and what a transaction would read again is taken from here. Among several
that write, each forgets whenever another has committed, and reads as if there were nothing here.

Kept are only facts that make most reads needless: the newest entry, keys on which nobody but one session
was ever about, the actions this connection opened, and, once it has been left alone for a while, the trees and
facets in use, which are few. Whoever changes anything of that in another way than
by ``Apply`` says ``forget``.
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
"""After so many transactions in a row without a commit of another connection the covers are read as a whole."""
_VERSION: Final = "pragma data_version"


class Alone(Struct, frozen=True, gc=False):
    """A key of which only ``session`` has a mark, if anybody has; no tree in use covers it, nor has it facets.

    If it is a facet, nobody has a mark of the whole.
    ``acted`` is the session's newest action there, None if it has none; ``there`` whether it has a row.
    """

    session: str
    mark: Mark
    acted: int | None
    there: bool


class ConnectionCache:
    """Facts of one connection; all of them hold inside a transaction once ``refresh`` was called in it.

    ``last`` is the newest entry's ``seq``, -1 if it must be asked for. ``keys`` are by scoped name, ``opened``
    (actions as they were opened, nothing settled since) by id. ``covers`` are all rows of that table, None if they
    must be asked for. ``crowds`` hold what never changes, so they outlast others' commits. All are bounded.
    """

    __slots__ = ("_calm", "_version", "_wholes", "covers", "crowds", "keys", "last", "opened")

    def __init__(self) -> None:
        self._version = -1
        self.crowds = Crowds()
        self._forget_facts()

    def forget(self) -> None:
        """Forgets everything."""
        self.crowds.forget()
        self._forget_facts()

    def _forget_facts(self) -> None:
        self.last = -1
        self.keys: dict[str, Alone] = {}
        self._wholes: set[str] = set()
        """Keys of which a facet is among ``keys``."""
        self.opened: dict[int, Action] = {}
        self.covers: set[str] | None = None
        self._calm = 0

    @property
    def alone(self) -> bool:
        """Whether no other connection has committed for many transactions."""
        return self._calm >= CALM

    def refresh(self, execute: Execute) -> None:
        """Forgets everything if another connection has committed since the last time."""
        (version,) = execute(_VERSION).fetchone()
        if version != self._version:
            self._version = version
            self._forget_facts()
        elif self._calm < CALM:
            self._calm += 1
            if self._calm == CALM:
                rows = execute(SQL["covers"]).fetchall()
                self.covers = {name for (name,) in rows} if len(rows) <= MOST_COVERS else None

    def add_key(self, name: str, alone: Alone) -> None:
        """Note who is alone on a key."""
        if len(self.keys) >= MOST_KEYS:
            self.forget_keys()
        self.keys[name] = alone
        whole, bar, _ = name.partition("|")
        if bar:
            self._wholes.add(whole)

    def forget_keys(self, name: str = "") -> None:
        """Forget who is alone on a key and its facets, or on all keys."""
        if not name or name in self._wholes:
            self.keys.clear()
            self._wholes.clear()
        else:
            self.keys.pop(name, None)

    def add_cover(self, name: str) -> None:
        """Note a cover that was not in use before. Keys that it covers are no longer somebody's alone."""
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
            self.keys[name] = Alone(session, mark, alone.acted if acted is None else acted, there=True)
        else:
            del self.keys[name]

    def add_action(self, action: Action) -> None:
        """Note an action that was opened, in place of the oldest if there are many."""
        opened = self.opened
        if len(opened) >= MOST_ACTIONS:
            del opened[next(iter(opened))]
        opened[action.id] = action
