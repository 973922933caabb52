"""Which context keys lie around a key."""

from __future__ import annotations

from functools import lru_cache


def root_of(name: str) -> str:
    """Return the tree of all keys of a key's entity; ``""`` if slashes in the key make its trees or it has none."""
    colon = name.find(":")
    return name[: colon + 1] + "/" if 0 <= colon < len(name) - 1 and name[colon + 1] not in "/|" else ""


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
