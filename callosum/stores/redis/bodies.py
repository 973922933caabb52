"""Fetch the journal entries that opened actions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from callosum.model import MAX_KEPT, Action
from callosum.stores.base import MAX_LATELY
from callosum.stores.redis.names import NamespaceKeys
from callosum.stores.redis.records import answer_in, record_of


def fetch(client: Any, space: NamespaceKeys, ids: Sequence[int]) -> dict[int, bytes]:
    """Return the bodies of the entries at these places; as ``Store.bodies``."""
    with client.pipeline(transaction=False) as pipe:
        for id in ids:
            pipe.xrange(space.key("log"), f"{id:016d}", f"{id:016d}", 1)
        rows = pipe.execute()
    bodies = {id: answer_in(next(iter(row[0][1].values()))) for id, row in zip(ids, rows, strict=True) if row}
    return {id: body for id, body in bodies.items() if 0 < len(body) <= MAX_KEPT}


class BodyReader:
    """Fetch bodies and sessions' last calls for one view, each once: a step may run again after its change.

    If the server is unreachable then, the decision lacks the summaries but is still made.
    """

    def __init__(self, client: Any, space: NamespaceKeys) -> None:
        self._client = client
        self._space = space
        self._bodies: dict[int, bytes] = {}
        self._asked: set[int] = set()
        self._calls: dict[tuple[str, int], list[Action]] = {}

    def __call__(self, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies of these actions."""
        missing = [id for id in ids if id not in self._asked]
        if missing:
            self._asked.update(missing)
            with suppress(RedisError):
                self._bodies.update(fetch(self._client, self._space, missing))
        return {id: self._bodies[id] for id in ids if id in self._bodies}

    def lately(self, session: str, limit: int = MAX_LATELY) -> list[Action]:
        """Return a session's newest calls."""
        if (session, limit) not in self._calls:
            self._calls[session, limit] = []
            with suppress(RedisError):
                ids = self._client.zrevrange(self._space.key("t", session), 0, limit - 1)
                blobs = self._client.hmget(self._space.key("a"), ids) if ids else []
                self._calls[session, limit] = [
                    record_of(int(id), self._space.namespace, blob).action
                    for id, blob in zip(ids, blobs, strict=True)
                    if blob is not None
                ]
        return self._calls[session, limit]
