"""The options that commands share, and what they open with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callosum.settings import Settings, load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callosum.gate import LocalGate
    from callosum.rulebook import Rulebook
    from callosum.stores.base import Store

State = Annotated[
    Path | None, typer.Option("--state", metavar="DIR", help="State folder (or CALLOSUM_STATE).", show_default=False)
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", metavar="NAME", help="Namespace: the group of sessions that see each other."),
]
Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings file (callosum.toml) to read.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def one_of(names: Iterable[str]) -> str:
    """Return names as in a sentence: ``a, b or c``."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def settings_of(
    state: Path | None, namespace: str | None = None, config: Path | None = None, *, project: bool = True, **flags: Any
) -> Settings:
    """Return the settings in force: flags, then ``CALLOSUM_*``, then ``callosum.toml``, then defaults.

    ``project`` False leaves out a ``callosum.toml`` of the working folder. Raises ``ConfigError`` with the place of the
    error.
    """
    return load({"state": state, "namespace": namespace, "config": config, **flags}, project=project)


def exists(settings: Settings) -> bool:
    """Return True if there is a store; before the first decision there may be none."""
    from callosum.stores.opening import exists

    return exists(settings)


def open_gate(settings: Settings, *, create: bool = False) -> LocalGate:
    """Open the gate of a state folder for a person's command; close it, or use it in a ``with``.

    If nothing has ever been decided, it is a gate over an empty store, so that reading creates nothing; ``create``
    creates the store. The user's rules are not read, so that a person can inspect and decide while they are broken.
    """
    from callosum.gate import LocalGate
    from callosum.rulebook import Rulebook, kept_secret
    from callosum.stores.memory import MemoryStore
    from callosum.stores.opening import open_store

    store: Store = MemoryStore()
    if create or exists(settings):
        store = open_store(settings)
    return LocalGate(settings=settings, store=store, rules=Rulebook(None, secret=kept_secret(settings.state)))


def rulebook_of(settings: Settings) -> Rulebook:
    """Return the rules as a gate of this state folder has them; the folder need not exist.

    Raises ``ConfigError`` with the place if the user's rules are broken.
    """
    from callosum.rulebook import Rulebook

    return Rulebook.of(settings)
