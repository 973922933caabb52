"""Fetches what the journal keeps of actions when they were opened."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from callosum.model import MAX_KEPT
from callosum.stores.redis.names import Space
from callosum.stores.redis.records import answer_in


def fetch(client: Any, space: Space, ids: Sequence[int]) -> dict[int, bytes]:
    """Return the bodies of the entries at these places; as ``Store.bodies``."""
    with client.pipeline(transaction=False) as pipe:
        for id in ids:
            pipe.xrange(space.key("log"), f"{id:016d}", f"{id:016d}", 1)
        rows = pipe.execute()
    bodies = {id: answer_in(next(iter(found[0][1].values()))) for id, found in zip(ids, rows, strict=True) if found}
    return {id: body for id, body in bodies.items() if 0 < len(body) <= MAX_KEPT}


class Opened:
    """Fetches bodies for one view, each at most once: a step may be run again after its change was applied.

    A server that is away then costs the summaries, not the decision.
    """

    def __init__(self, client: Any, space: Space) -> None:
        self._client = client
        self._space = space
        self._known: dict[int, bytes] = {}
        self._asked: set[int] = set()

    def __call__(self, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies of these actions."""
        missing = [id for id in ids if id not in self._asked]
        if missing:
            self._asked.update(missing)
            with suppress(RedisError):
                self._known.update(fetch(self._client, self._space, missing))
        return {id: self._known[id] for id in ids if id in self._known}
