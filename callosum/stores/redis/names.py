"""Names: which keys of Redis a namespace has, and which context keys meet one another."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from callosum.model import Key
from callosum.stores.keys import above

PREFIX: Final = "callosum"
"""What every key of a store begins with, unless the URL says otherwise."""


class NamespaceKeys:
    """The keys of one namespace. They share a hash tag, so a Redis Cluster keeps them in one slot.

    ``tag`` stands in front of each: ``callosum:{default}:log`` is the journal of the namespace ``default``.
    Bytes that would end the tag early are written as ``%xx``.
    """

    def __init__(self, prefix: str, namespace: str) -> None:
        self.namespace = namespace
        self.tag = f"{prefix}:{{{_written(namespace)}}}:"

    def key(self, name: str, of: str = "") -> str:
        """A key; ``of`` is the context key or the session whose it is."""
        return f"{self.tag}{name}:{of}" if of else self.tag + name


def _written(namespace: str) -> str:
    return namespace.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")


# --- what a transaction looks at and what it changes --------------------------------------------------
#
# Every change leaves its moment under these names; a transaction may be applied if none of the names that
# it looked at was changed after it looked. ``K`` is a key, ``K\0`` what lies below a tree, ``K|`` the facets
# of a key, ``K\0\0S`` what the session S knows of it and ``K\0\0\0S`` of what lies below it. Others begin with \1.


def looked_at(keys: Iterable[Key], sessions: Iterable[str]) -> set[str]:
    """The names that a look at these keys depends on, made by the first of ``sessions`` and those it continues."""
    found: set[str] = set()
    who = list(sessions)
    me = who[0]
    for key in keys:
        name = key.name
        over = above(name)
        found.add(name)
        found.update(over)
        # What a session knows of a tree, or of what a key is a facet of, it knows of the key.
        found.update([known_by(tree, me) for tree in over if tree[-1] == "/"])
        if name[-1:] == "/":
            found.add(name + "\0")
            found.add(known_by(name + "\0", me))
        if "|" in name:
            whole = name[: name.index("|")]
            found.add(whole)
            found.add(known_by(whole, me))
        found.update([known_by(name, session) for session in who])
    return found


def learnt_by(name: str, session: str) -> list[str]:
    """The names under which it is seen that a session knows more of a key: by itself, and from above it."""
    return [known_by(name, session), *(known_by(tree + "\0", session) for tree in above(name) if tree[-1] == "/")]


@lru_cache(4096)
def changed_by(name: str) -> tuple[str, ...]:
    """The names under which a change of a key is seen: by itself, from above it, and from what it is a facet of."""
    found = [name]
    found += [tree + "\0" for tree in above(name) if tree[-1] == "/"]
    if "|" in name:
        found.append(name[: name.index("|") + 1])
    return tuple(found)


def known_by(name: str, session: str) -> str:
    """The name of what a session knows of a key."""
    return f"{name}\0\0{session}"


def of_call(call: bytes) -> str:
    """The name of a call's identity."""
    return f"\1c{call.hex()}"


def of_action(id: int) -> str:
    """The name of an action."""
    return f"\1a{id}"


def of_reports(session: str) -> str:
    """The name of what a session has not reported."""
    return f"\1u{session}"


def of_kin(session: str) -> str:
    """The name of what a session said of where it comes from."""
    return f"\1k{session}"


# \1t is the scripts' own: until when a transaction may have a turn.

QUEUE: Final = "\1q"
"""The name of the namespace's waiting lines."""
