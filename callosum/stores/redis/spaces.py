"""The namespaces of one store, and its scripts run in them."""

from __future__ import annotations

from typing import Any

from callosum.stores.base import Clock
from callosum.stores.redis.connection import RedisConnection, Script
from callosum.stores.redis.names import NamespaceKeys


class Namespaces:
    """What every part of the store asks the server through. ``clock`` stands in for the server's in tests."""

    def __init__(self, link: RedisConnection, clock: Clock | None) -> None:
        self.link = link
        self.clock = clock
        self._known: dict[str, NamespaceKeys] = {}

    def of(self, namespace: str) -> NamespaceKeys:
        """The keys of a namespace."""
        space = self._known.get(namespace)
        if space is None:
            space = self._known[namespace] = NamespaceKeys(self.link.prefix, namespace)
        return space

    def all(self, namespace: str | None = None) -> list[NamespaceKeys]:
        """Just this namespace, or every one that something was written in."""
        if namespace is not None:
            return [self.of(namespace)]
        names = self.link.client.smembers(f"{self.link.prefix}:namespaces")
        return [self.of(name) for name in sorted(name.decode() for name in names)]

    def clock_of(self, space: NamespaceKeys) -> str:
        """The key of the last moment that was taken: one for all namespaces, in a Redis Cluster each has its own."""
        return space.key("clock") if self.link.cluster else f"{self.link.prefix}:clock"

    def given(self) -> str:
        """Now as the scripts take it: ``""`` for the server's clock."""
        return str(self.clock()) if self.clock is not None else ""

    def run(self, script: Script, space: NamespaceKeys, *args: bytes | str | int) -> Any:
        """Runs a script that is handed the namespace's tag in front."""
        return self.link.run(script, self.clock_of(space), space.tag, *args)
