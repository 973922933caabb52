"""Read the schema version of a store without changing it."""

from __future__ import annotations

from callosum.stores.redis.connection import SCHEMA, RedisConnection

KNOWN = SCHEMA


class _ReadOnlyConnection(RedisConnection):
    """A connection that writes nothing."""

    def _check_servers(self) -> None:
        for server in self._servers():
            self._check_server(server)


def found(url: str) -> int | None:
    """Return the stored schema version, None if nothing is stored. Raises the errors that opening the store raises."""
    link = _ReadOnlyConnection(url)
    try:
        with link.explained():
            return link.format()
    finally:
        link.close()
