"""Which version the keys of a store have, without touching them."""

from __future__ import annotations

from callosum.stores.redis.connection import SCHEMA, RedisConnection

KNOWN = SCHEMA


class _Look(RedisConnection):
    """A connection that leaves no trace."""

    def _greet(self) -> None:
        for server in self._servers():
            self._weigh(server)


def found(url: str) -> int | None:
    """The version of what is stored; None where nothing is. Raises as opening the store does."""
    link = _Look(url)
    try:
        with link.explained():
            version = link.client.get(f"{link.prefix}:schema")
    finally:
        link.close()
    return int(version) if version is not None else None
