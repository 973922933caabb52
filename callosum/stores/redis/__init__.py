"""The store in a Redis, a Valkey or a Redis Cluster.

``link`` connects and says what the server promises; ``names`` and ``records`` tell what is kept and under which keys;
``view`` finds a step's view in what ``look.lua`` brought, ``change`` makes commands of a change, which
``apply.lua`` runs if nothing was changed meanwhile; ``wake`` hears what ends a wait; ``store`` is the store.
"""

from callosum.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
