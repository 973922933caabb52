"""Which rows a transaction locks, so that all that have a key in common run one after another.

Every key has a row in ``turn``. A step takes the rows of its own keys alone, and shares the rows of what covers
them: the trees in use above, and what a facet belongs to. So a step on a tree waits for those in it and they
for it, and two in the same tree do not wait for each other. That a tree is in use stands in ``cover``; who
is the first to use one takes the row of the whole entity alone (``file`` of ``file:/repo/``), which
everybody else shares, so nobody can have looked for it in vain and still be running.

Rows are taken in the order of their names, so no two transactions wait for each other. Some more rows stand
for what no key does: who waits for whom in a namespace, and a repeated call without a key.
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
"""Names of rows, and whether each is taken alone (True) or shared."""


def locks_of_scope(scope: Scope, covers: Collection[str], more: Iterable[str] = ()) -> Locks:
    """Returns the rows for a scope and for the keys ``more`` (with their namespace); ``covers`` are in use."""
    turns: Locks = {}
    for key in scope.keys:
        _add(turns, scoped(scope.namespace, key.name), covers)
    for name in more:
        _add(turns, name, covers)
    if scope.waits:
        turns[f"{_OTHER}waits{_BAR}{scope.namespace}"] = True
    if scope.call is not None and not scope.keys:
        turns[f"{_OTHER}call{_BAR}{zlib.crc32(scope.call) % _BUCKETS}"] = True
    # Every transaction takes a row before it looks: that is how a reader of the journal knows that it is under way.
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
    """The row that all keys which may ever overlap share: of what stands before the first ``:``, ``/`` or ``|``."""
    start = name.find(_BAR) + 1
    ends = [at for at in (name.find(mark, start) for mark in ":/|") if at >= 0]
    return _ENTITY + name[: min(ends)] if ends else _ENTITY + name


def merge_locks(many: Iterable[Locks]) -> Locks:
    """Returns the rows of several scopes together."""
    turns: Locks = {}
    for each in many:
        for name, alone in each.items():
            turns[name] = alone or turns.get(name, False)
    return turns


def would_wait(one: Locks, other: Locks) -> bool:
    """Whether the two would wait for each other."""
    return any(name in other and (alone or other[name]) for name, alone in one.items())


def lock_order(turns: Locks) -> Iterator[tuple[bool, list[str]]]:
    """The rows in the order in which they are taken, in runs that are taken alike."""
    for alone, run in groupby(sorted(turns.items()), key=itemgetter(1)):
        yield alone, [name for name, _ in run]
