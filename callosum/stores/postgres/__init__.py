"""A store on PostgreSQL, for gates on several machines.

* Tables: ``schema`` creates and migrates them, ``partitions`` divides the journal, ``version`` reads their version.
* Connections: ``connections`` (pool, URL, errors), ``pipeline`` (statements sent together), ``notifications``.
* A transaction: ``locks`` chooses the rows that serialise it, ``view`` builds the step's view, ``apply`` writes the
  change. ``report`` reports an action without reading a view first.
* ``neighbours`` reads what briefs need. ``store`` puts the parts together. ``export`` copies a store.
"""

from callosum.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
