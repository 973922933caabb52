"""The hosts with command hooks, by name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from callosum.errors import ConfigError
from callosum.hosts.claude_code import hook as claude_code
from callosum.hosts.codex import hook as codex
from callosum.hosts.gemini import hook as gemini

if TYPE_CHECKING:
    from collections.abc import Mapping

    from callosum.hosts.told import Adapter

ADAPTERS: Final[Mapping[str, Adapter]] = {
    adapter.name: adapter  # a module is an adapter: it has the names that the protocol asks for
    for adapter in (claude_code, codex, gemini)
}


def adapter_of(name: str) -> Adapter:
    """The adapter of a host. Raises ``ConfigError`` at ``host``."""
    found = ADAPTERS.get(name)
    if found is None:
        near = get_close_matches(name[:64], ADAPTERS, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(ADAPTERS)}"
        raise ConfigError(f"there is no host {name[:64]!r}{hint}", at="host")
    return found
