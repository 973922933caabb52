"""The namespaces of one store, and a way to run scripts in them."""

from __future__ import annotations

from typing import Any

from callosum.stores.base import Clock
from callosum.stores.redis.connection import RedisConnection, Script
from callosum.stores.redis.names import NamespaceKeys


class Namespaces:
    """Access to the server for every part of the store. ``clock`` replaces the server's clock in tests."""

    def __init__(self, link: RedisConnection, clock: Clock | None) -> None:
        self.link = link
        self.clock = clock
        self._spaces: dict[str, NamespaceKeys] = {}

    def of(self, namespace: str) -> NamespaceKeys:
        """Return the Redis keys of a namespace."""
        space = self._spaces.get(namespace)
        if space is None:
            space = self._spaces[namespace] = NamespaceKeys(self.link.prefix, namespace)
        return space

    def all(self, namespace: str | None = None) -> list[NamespaceKeys]:
        """Return only this namespace, or every namespace with data."""
        if namespace is not None:
            return [self.of(namespace)]
        names = self.link.client.smembers(f"{self.link.prefix}:namespaces")
        return [self.of(name) for name in sorted(name.decode() for name in names)]

    def clock_of(self, space: NamespaceKeys) -> str:
        """Return the Redis key of the last moment used: one for all namespaces; in a Redis Cluster one for each."""
        return space.key("clock") if self.link.cluster else f"{self.link.prefix}:clock"

    def now_or_empty(self) -> str:
        """Return the current moment as the scripts expect it: ``""`` for the server's clock."""
        return str(self.clock()) if self.clock is not None else ""

    def run(self, script: Script, space: NamespaceKeys, *args: bytes | str | int) -> Any:
        """Run a script with the namespace's tag as its first argument."""
        return self.link.run(script, self.clock_of(space), space.tag, *args)
