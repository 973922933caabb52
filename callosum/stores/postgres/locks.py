"""Choose the rows that a transaction locks, so that transactions with a key in common run one after another.

Every key has a row in ``turn``. A step locks the rows of its own keys exclusively and shares the rows of whatever
covers them: the trees in use above, and the key that a facet belongs to. So a step on a tree and the steps inside it
wait for each other, while two steps inside the same tree do not. The table ``cover`` lists the trees in use. The first
step that uses a tree locks the row of the whole entity (``file`` of ``file:/repo/``) exclusively. Every other step
shares that row, so no step that found the tree unused can still be running.

Rows are locked in the order of their names, so there is no deadlock. Some rows stand for other things than keys: the
queues of a namespace, and a repeated call without a key.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from callosum.model import Scope
from callosum.stores.keys import above, scoped

_BAR: Final = "\x1f"
_ENTITY: Final = "\x01"  # sorts before every key
_OTHER: Final = "\x02"
_BUCKETS: Final = 64

Locks = dict[str, bool]
"""Names of rows, with True for an exclusive lock and False for a shared one."""


def locks_of_scope(scope: Scope, covers: Collection[str], more: Iterable[str] = ()) -> Locks:
    """Return the locks for a scope and for the keys ``more`` (with their namespace). ``covers``: trees in use."""
    turns: Locks = {}
    for key in scope.keys:
        _add(turns, scoped(scope.namespace, key.name), covers)
    for name in more:
        _add(turns, name, covers)
    if scope.waits:
        turns[f"{_OTHER}waits{_BAR}{scope.namespace}"] = True
    if scope.call is not None and not scope.keys:
        turns[f"{_OTHER}call{_BAR}{zlib.crc32(scope.call) % _BUCKETS}"] = True
    # Every transaction locks a row before it reads: that shows a reader of the journal that it is running.
    return turns or {f"{_OTHER}any{_BAR}{zlib.crc32(scope.session.encode()) % _BUCKETS}": False}


def _add(turns: Locks, name: str, covers: Collection[str]) -> None:
    turns[name] = True
    whole = entity(name)
    first = name[-1:] == "/" and name not in covers
    turns[whole] = first or turns.get(whole, False)
    for other in above(name):
        if other[-1] == "/" and other in covers:
            turns.setdefault(other, False)
    bar = name.find("|")
    if bar >= 0:
        turns.setdefault(name[:bar], False)


def entity(name: str) -> str:
    """Return the row shared by all keys that may overlap: the text before the first ``:``, ``/`` or ``|``."""
    start = name.find(_BAR) + 1
    ends = [at for at in (name.find(mark, start) for mark in ":/|") if at >= 0]
    return _ENTITY + name[: min(ends)] if ends else _ENTITY + name


def merge_locks(many: Iterable[Locks]) -> Locks:
    """Return the locks of several scopes together."""
    turns: Locks = {}
    for each in many:
        for name, alone in each.items():
            turns[name] = alone or turns.get(name, False)
    return turns


def would_wait(first: Locks, second: Locks) -> bool:
    """Return True if one set of locks would wait for the other."""
    return any(name in second and (alone or second[name]) for name, alone in first.items())


def lock_order(turns: Locks) -> Iterator[tuple[bool, list[str]]]:
    """Yield the rows in the order of locking, in runs of the same lock mode."""
    for alone, run in groupby(sorted(turns.items()), key=itemgetter(1)):
        yield alone, [name for name, _ in run]
