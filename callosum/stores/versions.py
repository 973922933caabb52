"""Schema versions: the one a store has, and the one that this Callosum migrates it to."""

from __future__ import annotations

from contextlib import closing

from msgspec import Struct

from callosum.errors import ConfigError
from callosum.settings import Settings
from callosum.stores.opening import file_of, open_store, scheme_of


class Version(Struct, frozen=True):
    """The schema version ``found`` in the store, None if there is no schema, and the one ``known`` to this Callosum."""

    found: int | None
    known: int

    @property
    def newer(self) -> bool:
        """Return True if a migration would change anything."""
        return self.found is None or self.found < self.known


def version_of(settings: Settings) -> Version:
    """Return the versions without changing anything. Raises as ``open_store`` does."""
    scheme = scheme_of(settings)
    if scheme == "sqlite":
        from callosum.stores.sqlite import connection as of_sqlite  # noqa: PLC0415 - with its driver

        return Version(of_sqlite.format_of(file_of(settings)), of_sqlite.SCHEMA)
    try:
        if scheme in ("postgresql", "postgres"):
            from callosum.stores.postgres import connections as of_postgres  # noqa: PLC0415 - with its driver
            from callosum.stores.postgres import schema  # noqa: PLC0415

            return Version(of_postgres.version_of(settings.store), schema.SCHEMA)
        if scheme in ("redis", "rediss", "valkey", "valkeys", "unix"):
            from callosum.stores.redis import connection as of_redis  # noqa: PLC0415 - with its driver

            return Version(of_redis.version_of(settings.store), of_redis.SCHEMA)
    except ImportError:
        open_store(settings).close()  # raises an error that says what to install
        raise
    raise ConfigError(f"there is nothing to look at in a store of {scheme}: URLs", at="store")


def migrate(settings: Settings) -> Version:
    """Create what is missing and migrate the rest, as opening does. Return the version from before.

    If several processes migrate at once, it happens once: under SQLite's write lock, or PostgreSQL's lock on the
    version row. Afterwards it does the upkeep that only the owner of the tables may do. Raises ``StoreError`` if the
    store needs a newer Callosum.
    """
    before = version_of(settings)
    with closing(open_store(settings)) as store:
        store.maintain(0)
    return before
