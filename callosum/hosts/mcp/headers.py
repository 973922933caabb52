"""Read the headers that a user gives for a server. Secrets stay in the environment, hidden from process lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from callosum.errors import ConfigError

TRANSPORTS: Final = ("http", "streamable-http", "streamableHttp", "streamable_http")
"""Names of Streamable HTTP in configurations."""
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OURS: Final = frozenset(
    "accept connection content-encoding content-length content-type host mcp-method mcp-name mcp-protocol-version "
    "mcp-session-id transfer-encoding".split()
)
"""Headers that the transport sets itself."""


def read_headers(given: Iterable[str], named: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers by name, from ``Name: value`` (which may contain ``${VAR}``) and from ``Name=VARIABLE``.

    Raises: ``ConfigError`` that shows the name and never the value.
    """
    headers: dict[str, str] = {}
    for text in given:
        name, colon, value = text.partition(":")
        if not colon:
            raise ConfigError("expected 'Name: value'", at="--header")
        _put(
            headers, name, _VARIABLE.sub(lambda match: _value(match[1], environ, "--header"), value.strip()), "--header"
        )
    for text in named:
        name, equals, variable = text.partition("=")
        if not equals:
            raise ConfigError("expected NAME=VARIABLE", at="--header-env")
        _put(headers, name, _value(variable.strip(), environ, "--header-env"), "--header-env")
    return headers


def _value(variable: str, environ: Mapping[str, str], at: str) -> str:
    value = environ.get(variable)
    if value is None:
        raise ConfigError(f"the environment has no {variable[:100]!r}", at=at)
    return value.strip()


def _put(headers: dict[str, str], name: str, value: str, at: str) -> None:
    name = name.strip()
    if not _NAME.fullmatch(name) or len(name) > 200:
        raise ConfigError("expected the name of a header", at=at)
    if name.lower() in _OURS or name.lower().startswith("mcp-param-"):
        raise ConfigError(f"{name} is set by the transport", at=at)
    if not value.isascii() or not value.replace("\t", " ").isprintable() or len(value) > 8192:
        raise ConfigError(f"the value of {name} cannot stand in a header", at=at)
    headers[name] = value
