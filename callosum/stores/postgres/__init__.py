"""A store on PostgreSQL, for gates on several machines.

``schema`` creates and migrates the tables; ``link`` holds the connections and tells what an error means; ``turns``
says which rows serialise a step; ``look`` builds a view, ``apply`` writes a change, ``nearby`` looks around for
briefs, ``wake`` listens for what ends a wait; ``store`` is the store.
"""

from callosum.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
