"""Context keys: their names with a namespace, and which keys overlap."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from callosum.model import DEFAULT_NAMESPACE

_BAR: Final = "\x1f"


def scoped(namespace: str, name: str) -> str:
    """Return a key or session name with its namespace in front, unless that is the default namespace."""
    if namespace == DEFAULT_NAMESPACE and _BAR not in name:
        return name
    return f"{namespace}{_BAR}{name}"


def bare(name: str, namespace: str) -> str:
    """Return the name without its namespace: the inverse of ``scoped``."""
    return name if namespace == DEFAULT_NAMESPACE and _BAR not in name else name[len(namespace) + 1 :]


def root_of(name: str) -> str:
    """Return the tree of all keys of a key's entity; ``""`` if slashes in the key make its trees or it has none."""
    colon = name.find(":", name.find(_BAR) + 1)
    return name[: colon + 1] + "/" if 0 <= colon < len(name) - 1 and name[colon + 1] not in "/|" else ""


def span(name: str) -> tuple[str, str]:
    """Return the first and last name of the range of keys that a tree covers."""
    start = name.find(_BAR) + 1
    if name.find(":", start) == len(name) - 2:
        return name[:-1], name[:-2] + ";"
    return name, name[:-1] + "0"


@lru_cache(4096)
def above(name: str) -> tuple[str, ...]:
    """Return the trees above a key and, for a key without a facet, the prefix of its facets (``doc:plan|``).

    Facets may lie in trees too: ``git:/repo|remote:origin/`` is above ``git:/repo|remote:origin/main``.
    """
    bar = name.find("|")
    found = [] if bar >= 0 else [name + "|"]
    end = len(name) - 1
    root = root_of(name)
    if root:
        found.append(root)
    place = name.find("/", 0, end)
    while place >= 0:
        found.append(name[: place + 1])
        place = name.find("/", place + 1, end)
    return tuple(found)


@lru_cache(4096)
def covering(name: str) -> tuple[str, ...]:
    """Return a key, the trees above it and the key it is a facet of."""
    found = [name, *(other for other in above(name) if other[-1] == "/")]
    bar = name.find("|")
    if bar >= 0 and name[:bar] not in found:
        found.append(name[:bar])
    return tuple(found)


def covers(name: str) -> tuple[str, ...]:
    """Return what is stored so that keys below find a key: its facet prefix, and itself if it is a tree."""
    bar = name.find("|")
    found = (name[: bar + 1],) if bar >= 0 else ()
    return (*found, name) if name[-1:] == "/" else found
