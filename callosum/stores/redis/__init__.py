"""A store in a Redis, a Valkey or a Redis Cluster.

* Storage layout: ``names`` (Redis keys), ``records`` (their values).
* Connection: ``connection`` (durability, scripts, errors), ``pool``, ``deadline``; ``spaces`` (namespaces).
* Transactions: ``transactions`` is the flow. ``view`` builds a step's view from what ``read_view.lua`` returns,
  ``draft`` runs the steps, ``change`` turns their changes into commands, ``apply.lua`` runs the commands if nothing
  changed meanwhile. ``cache`` holds what the process knows without asking the server; ``bodies`` fetches journal
  entries.
* Outside transactions: ``reads`` (actions), ``journal`` (entries, moments), ``retention``, ``notifications``.
* ``store`` puts the parts together. ``export`` copies a store, ``version`` reads its schema version.
"""

from callosum.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
