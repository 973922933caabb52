"""Headers for a server, as a user gives them: their secrets stay in the environment, out of lists of processes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from callosum.errors import ConfigError

TRANSPORTS: Final = ("http", "streamable-http", "streamableHttp", "streamable_http")
"""What configurations call Streamable HTTP."""
OLD: Final = "sse"
"""What they call the transport of 2024."""
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OURS: Final = frozenset(
    "accept connection content-encoding content-length content-type host mcp-method mcp-name mcp-protocol-version "
    "mcp-session-id transfer-encoding".split()
)
"""Headers that the transport sets."""


def read_headers(given: Iterable[str], named: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Returns headers by name, from ``Name: value`` with ``${VAR}`` in it and from ``Name=VARIABLE``.

    Raises ``ConfigError``, which shows the name and never the value.
    """
    found: dict[str, str] = {}
    for text in given:
        name, colon, value = text.partition(":")
        if not colon:
            raise ConfigError("expected 'Name: value'", at="--header")
        _put(found, name, _VARIABLE.sub(lambda match: _value(match[1], environ, "--header"), value.strip()), "--header")
    for text in named:
        name, equals, variable = text.partition("=")
        if not equals:
            raise ConfigError("expected NAME=VARIABLE", at="--header-env")
        _put(found, name, _value(variable.strip(), environ, "--header-env"), "--header-env")
    return found


def _value(variable: str, environ: Mapping[str, str], at: str) -> str:
    value = environ.get(variable)
    if value is None:
        raise ConfigError(f"the environment has no {variable[:100]!r}", at=at)
    return value.strip()


def _put(found: dict[str, str], name: str, value: str, at: str) -> None:
    name = name.strip()
    if not _NAME.fullmatch(name) or len(name) > 200:
        raise ConfigError("expected the name of a header", at=at)
    if name.lower() in _OURS or name.lower().startswith("mcp-param-"):
        raise ConfigError(f"{name} is set by the transport", at=at)
    if not value.isascii() or not value.replace("\t", " ").isprintable() or len(value) > 8192:
        raise ConfigError(f"the value of {name} cannot stand in a header", at=at)
    found[name] = value
