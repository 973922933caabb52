"""The names of records, and the ranges in which they lie.

A name is a letter for its kind, 16 bytes for the namespace, then what tells records of the kind apart. A key enters as
text that keeps its order, so the keys below a tree are one range and the trees above a key are known by their names.
Ids come last, as 8 bytes, so records are in the order in which their actions began.

======  ==========================  ====================================================
letter  behind the namespace        holds
======  ==========================  ====================================================
``a``   id                          an action, or a refused call
``c``   identity of a call          the action that it opened
``f``   name                        a fact of the whole store (namespace ``""``)
``h``   id                          the session of an entry with which a session ended
``k``   key                         who changed the key last
``m``   session, key                what a session has seen of the key
``o``   session, id                 an action of the session without a report: its state
``p``   key, digest                 the newest actions that a digest finds on the key
``q``   id                          an action that waits in the queue
``s``   session                     where a session comes from
``t``   key                         facets of the key are in use
``u``                               how far upkeep has come (namespace ``""``)
``x``   id                          an action with a commitment
======  ==========================  ====================================================
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

from callosum.model import reach
from callosum.stores.keys import above, covering

_LONGEST: Final = 1200
"""Bytes of a key up to which it enters a name whole."""
_CUT: Final = 1100
"""Bytes that a name keeps of a longer key, before the digest of the whole."""
_END: Final = b"\x00\x01"
"""Ends a text within a name; it sorts before every other character."""


@lru_cache(4096)
def digest(text: str) -> bytes:
    """Return 16 bytes that stand for a namespace or a session."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _escaped(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return data.replace(b"\x00", b"\x00\xff") if b"\x00" in data else data


@lru_cache(8192)
def text(value: str) -> bytes:
    """Return a text as a part of a name: in the order of texts, closed, and of bounded length."""
    data = _escaped(value)
    if len(data) > _LONGEST:
        data = data[:_CUT] + blake2b(data, digest_size=16).hexdigest().encode()
    return data + _END


def facets(closed: bytes) -> bytes:
    """Return how the facets of a key begin, given the key as ``text`` returns it."""
    return (closed[: -len(_END)] + b"|")[:_CUT]


def number(id: int) -> bytes:
    """Return an id as a part of a name."""
    return id.to_bytes(8, "big")


def id_in(name: bytes) -> int:
    """Return the id at the end of a name."""
    return int.from_bytes(name[-8:], "big")


@lru_cache(1024)
def _begins(kind: bytes, namespace: str) -> bytes:
    return kind + digest(namespace)


def named(kind: bytes, namespace: str, *parts: bytes) -> bytes:
    """Return the name of a record."""
    return _begins(kind, namespace) + b"".join(parts)


@lru_cache(8192)
def mark(namespace: str, session: str, key: str) -> bytes:
    """Return the name of a session's mark on a key."""
    return named(b"m", namespace, digest(session), text(key))


@lru_cache(8192)
def key(namespace: str, name: str) -> bytes:
    """Return the name of a key's record."""
    return named(b"k", namespace, text(name))


@lru_cache(512)
def action(namespace: str, id: int) -> bytes:
    """Return the name of an action."""
    return _begins(b"a", namespace) + id.to_bytes(8, "big")


@lru_cache(512)
def call(namespace: str, identity: bytes) -> bytes:
    """Return the name of a call's identity."""
    return _begins(b"c", namespace) + identity


@lru_cache(512)
def unreported(namespace: str, session: str, id: int) -> bytes:
    """Return the name of a session's action without a report."""
    return _begins(b"o", namespace) + digest(session) + id.to_bytes(8, "big")


@lru_cache(512)
def print_of(namespace: str, key: str, print_: bytes) -> bytes:
    """Return the name of the actions that a digest finds on a key."""
    return _begins(b"p", namespace) + text(key) + print_


@lru_cache(4096)
def session(namespace: str, session: str) -> bytes:
    """Return the name of a session."""
    return named(b"s", namespace, digest(session))


@lru_cache(64)
def fact(name: str) -> bytes:
    """Return the name of a fact."""
    return named(b"f", "", name.encode())


OBSERVE: Final = fact("observe")
"""Until when the whole gate only observes."""


@lru_cache(4096)
def place(namespace: str, me: str, name: str) -> tuple[bytes, ...]:
    """Return what a session's call on a key reads.

    These are the session, until when the gate only observes, the key and the session's mark on it; then whether its
    facets are in use, and the records and marks of the trees above it and of the key it is a facet of.
    """
    around, trees = covering(name), above(name)
    return (
        session(namespace, me),
        OBSERVE,
        key(namespace, name),
        mark(namespace, me, name),
        named(b"t", namespace, text(name)),
        *[key(namespace, other) for other in around[1:]],
        *[mark(namespace, me, other) for other in dict.fromkeys((*around[1:], *trees))],
    )


def after(prefix: bytes) -> bytes:
    """Return the end of the range of names that begin with ``prefix``."""
    while prefix[-1] == 0xFF:
        prefix = prefix[:-1]
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def below(prefix: bytes, tree: str) -> tuple[bytes, bytes]:
    """Return the range of names that begin with ``prefix`` and a key that a tree covers, or a facet of a key.

    A range for a very long tree also holds other keys, which have the same beginning.
    """
    start = prefix + _escaped(reach(tree) if tree[-1:] == "/" else f"{tree}|")[:_CUT]
    return start, after(start)
