"""The URL of a store in a Redis: its scheme, Callosum's own parameters, and what may be shown of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from callosum.errors import ConfigError

_SCHEMES: Final = {"valkey": "redis", "valkeys": "rediss", "redis": "redis", "rediss": "rediss", "unix": "unix"}
_OWN: Final = ("prefix", "durability", "replicas", "cluster", "pool", "password_file")


def split_url(url: str) -> tuple[str, dict[str, str]]:
    """Return the URL for redis-py, and Callosum's own parameters of its query."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise ConfigError(
            f"expected a URL that begins with {', '.join(f'{scheme}://' for scheme in _SCHEMES)}, got {parts.scheme}://",
            "store",
        )
    query = parse_qsl(parts.query)
    rest = urlencode([pair for pair in query if pair[0] not in _OWN])
    own = {name: value for name, value in query if name in _OWN}
    return urlunsplit(parts._replace(scheme=_SCHEMES[parts.scheme], query=rest)), own


def without_secrets(url: str) -> str:
    """Return the URL without its password and its query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def password_in(file: str) -> str:
    """Return the password in a file."""
    try:
        return Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise ConfigError(f"the password file cannot be read: {error}", "store") from error


def number_in(own: dict[str, str], name: str, default: int, *, least: int) -> int:
    """Return a whole number from the URL's query, ``default`` if it is absent."""
    given = own.get(name, "")
    if not given:
        return default
    if not given.isdecimal() or int(given) < least:
        raise ConfigError(f"{name} is a whole number, {least} or more", "store")
    return int(given)
