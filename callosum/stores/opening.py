"""Open the store that the settings name, by the scheme of its URL.

The schemes are ``sqlite:///path``, ``postgresql://``, ``redis://`` and ``memory:``; without a URL it is the SQLite file
in the state folder. A driver is imported only with the store that needs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from callosum.errors import ConfigError
from callosum.settings import Settings
from callosum.stores.base import Store

DATABASE: Final = "gate.db"
"""Name of the SQLite file in the state folder."""


def open_store(settings: Settings) -> Store:
    """Return the opened store of these settings. Whatever it needs is created if it is absent.

    Raises ``ConfigError`` if the URL cannot be used or its driver is not installed, and ``StoreUnavailable`` if the
    store cannot be reached.
    """
    scheme = scheme_of(settings)
    if scheme == "sqlite":
        from callosum.stores.sqlite import SqliteStore

        return SqliteStore(file_of(settings))
    if scheme == "memory":
        from callosum.stores.memory import MemoryStore

        return MemoryStore()
    if scheme in ("postgresql", "postgres"):
        try:
            from callosum.stores.postgres import PostgresStore
        except ImportError as error:
            raise _missing("postgres", error) from error
        return PostgresStore(settings.store, state=settings.state)
    if scheme in ("redis", "rediss", "valkey", "valkeys", "unix"):
        try:
            from callosum.stores.redis import RedisStore
        except ImportError as error:
            raise _missing("redis", error) from error
        return RedisStore(settings.store, state=settings.state)
    raise ConfigError(f"there is no store for {scheme}: URLs; expected sqlite, postgresql or redis", at="store")


def scheme_of(settings: Settings) -> str:
    """Return the kind of the store in lower case: ``sqlite`` unless a URL says otherwise."""
    return settings.store.partition(":")[0].lower() or "sqlite"


def file_of(settings: Settings) -> Path:
    """Return the file of a SQLite store: the one in the state folder, or the one that the URL names."""
    if not settings.store:
        return settings.state / DATABASE
    split = urlsplit(settings.store)
    if split.netloc or not split.path:
        raise ConfigError("expected sqlite:///relative/path or sqlite:////absolute/path", at="store")
    return settings.state / unquote(split.path[1:])


def exists(settings: Settings) -> bool:
    """Return True if there may be something to read: always for a server's store; a file may not exist yet."""
    return scheme_of(settings) != "sqlite" or file_of(settings).exists()


def _missing(extra: str, error: ImportError) -> ConfigError:
    return ConfigError(f"{error}: pip install 'callosum-protocol[{extra}]'", at="store")
