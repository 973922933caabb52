"""A store on PostgreSQL, for gates on several machines.

* Tables: ``schema`` creates them, ``partitions`` divides the journal, ``version`` reads their version.
* Connections: ``connections`` (pool, URL, errors), ``pipeline`` (statements sent together), ``notifications``.
* A transaction: ``locks`` chooses what serialises it, ``engine`` runs it with the ``statements``.
"""

from callosum.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
