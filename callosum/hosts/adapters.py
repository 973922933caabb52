"""Find the adapters of the hosts with command hooks, by name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from callosum.errors import ConfigError
from callosum.programs import WITH_HOOKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from callosum.hosts.hook_adapter import HookAdapter


def code_of(where: str) -> Any:
    """Return the object that a description names as ``MODULE:NAME``."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def unknown(name: str, names_known: Iterable[str], at: str) -> ConfigError:
    """Return the error for a host name that no host has. ``at`` is the place of the error."""
    names = list(names_known)
    suggestions = get_close_matches(name[:64], names, n=1)
    hint = f"; did you mean {suggestions[0]}?" if suggestions else f"; known are {', '.join(names)}"
    return ConfigError(f"there is no host {name[:64]!r}{hint}", at=at)


ADAPTERS: Final[Mapping[str, HookAdapter]] = {name: code_of(host.hooks)(host) for name, host in WITH_HOOKS.items()}


def adapter_of(name: str) -> HookAdapter:
    """Return the adapter of a host. Raises ``ConfigError`` at ``host``."""
    adapter = ADAPTERS.get(name)
    if adapter is None:
        raise unknown(name, ADAPTERS, "host")
    return adapter
