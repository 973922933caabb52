"""The store in a Redis, a Valkey or a Redis Cluster.

* What is kept, and where: ``names``, ``records``.
* The connection: ``link`` (what the server promises, its scripts and errors), ``pool``; ``spaces`` (its namespaces).
* A transaction: ``transactions`` is the flow. ``view`` finds a step's view in what ``look.lua`` brought, ``draft`` runs
  the steps, ``change`` makes commands of what they want, ``apply.lua`` runs them if nothing was changed meanwhile;
  ``recall`` is what the process knows without looking.
* Without a turn: ``reads`` (actions), ``journal`` (entries, moments), ``retention`` (what is forgotten), ``wake``
  (word of what ended).
* ``store`` puts them together. ``carry`` and ``version`` are for moving a store and for looking at it.
"""

from callosum.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
