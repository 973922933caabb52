"""Names of a namespace's Redis keys, and the names by which transactions notice each other's changes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from callosum.model import Key
from callosum.stores.keys import above

PREFIX: Final = "callosum"
"""Beginning of every key of a store, unless the URL sets another ``prefix``."""


class NamespaceKeys:
    """The Redis keys of one namespace. They share a hash tag, so a Redis Cluster keeps them in one slot.

    ``tag`` begins each key: ``callosum:{default}:log`` is the journal of the namespace ``default``.
    Bytes that would end the tag early are written as ``%xx``.
    """

    def __init__(self, prefix: str, namespace: str) -> None:
        self.namespace = namespace
        self.tag = f"{prefix}:{{{_written(namespace)}}}:"

    def key(self, name: str, of: str = "") -> str:
        """Return a Redis key; ``of`` is the context key or the session that it belongs to."""
        return f"{self.tag}{name}:{of}" if of else self.tag + name


def _written(namespace: str) -> str:
    return namespace.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")


# --- What a transaction reads and what it changes ------------------------------------------------------
#
# Every change stores its moment under these names. A transaction is applied only if none of the names that it
# read was changed after it read them. ``K`` is a key, ``K\0`` everything below a tree, ``K|`` the facets of a
# key, ``K\0\0S`` what the session S knows of the key, and ``K\0\0\0S`` what S knows below it. All other names
# begin with \1.


def names_of_view(keys: Iterable[Key], sessions: Iterable[str]) -> set[str]:
    """Return the names that a view of these keys depends on, for the first of ``sessions`` and those it continues."""
    names: set[str] = set()
    all_sessions = list(sessions)
    own = all_sessions[0]
    for key in keys:
        name = key.name
        covering = above(name)
        names.add(name)
        names.update(covering)
        # What a session knows of a tree, or of the key that a facet belongs to, it also knows of the key itself.
        names.update([knowledge_of(tree, own) for tree in covering if tree[-1] == "/"])
        if name[-1:] == "/":
            names.add(name + "\0")
            names.add(knowledge_of(name + "\0", own))
        if "|" in name:
            whole = name[: name.index("|")]
            names.add(whole)
            names.add(knowledge_of(whole, own))
        names.update([knowledge_of(name, session) for session in all_sessions])
    return names


def names_of_learning(name: str, session: str) -> list[str]:
    """Return the names that change when a session learns of a key: the key's own, and those of the trees above."""
    return [
        knowledge_of(name, session),
        *(knowledge_of(tree + "\0", session) for tree in above(name) if tree[-1] == "/"),
    ]


@lru_cache(4096)
def names_of_change(name: str) -> tuple[str, ...]:
    """Return the names that change with a key: its own, those of the trees above, and that of its parent's facets."""
    names = [name]
    names += [tree + "\0" for tree in above(name) if tree[-1] == "/"]
    if "|" in name:
        names.append(name[: name.index("|") + 1])
    return tuple(names)


def knowledge_of(name: str, session: str) -> str:
    """Return the name for what a session knows of a key."""
    return f"{name}\0\0{session}"


def of_call(call: bytes) -> str:
    """Return the name for a call's identity."""
    return f"\1c{call.hex()}"


def of_action(id: int) -> str:
    """Return the name for an action."""
    return f"\1a{id}"


def of_reports(session: str) -> str:
    """Return the name for the unreported actions of a session."""
    return f"\1u{session}"


def of_kin(session: str) -> str:
    """Return the name for the parent and the predecessor that a session stated."""
    return f"\1k{session}"


# The scripts themselves use \1t: the moment until which a ticket may be valid.

QUEUE: Final = "\1q"
"""The name for the namespace's queues."""
