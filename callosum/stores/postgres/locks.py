"""Choose the locks of a transaction, so that transactions with a key in common run one after another.

A lock is the number of a name. A step locks its own keys exclusively and shares the locks of whatever covers them: the
trees above, and the key that a facet belongs to. So a step on a tree and the steps inside it wait for each other, while
two steps inside the same tree do not. Locks are taken in the order of their numbers, so there is no deadlock.

A record about a key is written under the lock of the key, an action's record under that of its own name and of all its
keys. What a scope does not say (the keys of an action that a step found) shows when a step has written it: then the
transaction ends without writing, and begins again with these locks too.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from callosum.model import Scope
from callosum.stores import names
from callosum.stores.keys import covering
from callosum.stores.port import OF_ENTRY

EVERY: Final = b""
"""What every transaction shares, so that a reader of the journal sees which ones are under way."""
_K, _P, _M, _A = b"k"[0], b"p"[0], b"m"[0], OF_ENTRY
_END: Final = b"\x00\x01"

Locks = dict[bytes, bool]
"""Names, with True for an exclusive lock and False for a shared one."""


def add_key(locks: Locks, namespace: str, key: str) -> None:
    """Add the locks of a key."""
    locks[names.key(namespace, key)] = True
    for other in covering(key)[1:]:
        locks.setdefault(names.key(namespace, other), False)


def locks_of(scopes: Iterable[Scope]) -> Locks:
    """Return the locks that these scopes say themselves."""
    locks: Locks = {EVERY: False}
    for scope in scopes:
        space = scope.namespace
        for key in scope.keys:
            add_key(locks, space, key.name)
        if scope.waits:
            locks[names.named(b"q", space)] = True
        if scope.call is not None and not scope.keys:
            locks[names.call(space, scope.call)] = True
    return locks


def lock_of(name: bytes) -> bytes | None:
    """Return the exclusive lock under which a record is written, None if none is needed."""
    kind = name[0]
    if kind == _M:
        return b"k" + name[1:17] + name[33:]
    if kind in (_K, _P):
        return b"k" + name[1 : name.index(_END, 17) + 2]
    return name if kind == _A else None


@lru_cache(20_000)
def number(schema: str, name: bytes) -> int:
    """Return the number of a lock. Two names may share one."""
    return int.from_bytes(blake2b(name, digest_size=8, key=schema.encode()).digest(), "big", signed=True)


def in_order(schema: str, locks: Locks) -> list[tuple[int, bool]]:
    """Return the numbers of locks in the order in which they are taken, True for one that is shared."""
    numbers: dict[int, bool] = {}
    for name, alone in locks.items():
        at = number(schema, name)
        numbers[at] = numbers.get(at, True) and not alone
    return sorted(numbers.items())
