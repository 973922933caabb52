"""A store on PostgreSQL, for gates on several machines.

``schema`` creates and migrates the tables, ``parts`` the journal's partitions; ``link`` holds the connections and
tells what an error means, ``line`` speaks through one; ``turns`` says which rows serialise a step; ``look`` builds a
view, ``apply`` writes a change, ``report`` does without the look, ``nearby`` looks around for briefs, ``wake``
listens for what ends a wait; ``store`` is the store. ``carry`` copies one, ``version`` tells how old it is.
"""

from callosum.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
