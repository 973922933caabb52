"""A store in a Redis, a Valkey or a Redis Cluster.

``connection`` opens the server and says what it guarantees, with ``url``, ``pool`` and ``deadline``. ``reader`` reads
by ``read.lua``; ``transaction`` writes by ``commit.lua``, which compares what was read. ``engine`` holds what the
process knows, in a ``cache``. ``store`` is the store, ``notifications`` wakes waiters, ``version`` reads its format.
"""

from callosum.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
