"""Prove that a person, not an agent, asks for what only a person may do.

Approving, resolving, releasing another session's lease, switching the gate off and accepting a changed store all go
through ``require_person``, in the CLI and in the library. It refuses a process

1. whose environment contains a variable set by a host (every tool that a host starts inherits them),
2. that descends from a known host, or from a process that holds an open action in the store.

A program that embeds the gate may ask its user in its own window, so the library does not require a terminal; the CLI
does (``callosum.cli.person``). An agent with a shell can still detach itself from its ancestors and clear its
environment. Therefore whatever passes is journalled with its ancestry: a call from ``python`` below ``init`` stands
out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from callosum.errors import NotAPerson
from callosum.model import State
from callosum.process import ancestors, command_of
from callosum.programs import host_of_command, is_set_by_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from callosum.model import Host
    from callosum.stores.base import Store

ACCEPTING: Final = "accept a changed store"
"""Purpose given to ``require_person`` before a store is accepted."""
_MAX_SHOWN: Final = 12
"""Number of ancestors that are journalled, nearest first."""
_MAX_NAME: Final = 40
"""Maximum length in characters of a process name in the journal."""
_SAME_START: Final = 0.02
"""Seconds by which two readings of one process's start time may differ."""


def require_person(store: Store, what: str) -> tuple[str, ...]:
    """Return the names of this process's ancestors, nearest first, for the journal.

    ``what`` completes the refusal ("only a person can ..."). Raises ``NotAPerson`` if an agent's host started this
    process.
    """
    return refuse_agents(store, f"only a person can {what}")


def refuse_agents(store: Store | None, refusal: str) -> tuple[str, ...]:
    """Refuse agents as ``require_person`` does; ``refusal`` is the complete beginning of the error.

    Without a store, open actions of the ancestors are not checked.
    """
    variable = next((name for name in sorted(os.environ) if is_set_by_host(name)), None)
    if variable is not None:
        raise NotAPerson(f"{refusal}: {variable} is set, so an agent's host started this process")
    above = ancestors(os.getpid())
    commands = [command_of(process.pid) for process in above]
    host = next((name for command in commands if (name := host_of_command(command))), None)
    if host is not None:
        raise NotAPerson(f"{refusal}: this process descends from {host}")
    holder = holder_of(above, store) if store is not None else None
    if holder is not None:
        raise NotAPerson(f"{refusal}: this process descends from process {holder}, which runs gated calls")
    return tuple(_shown(command) for command in commands[:_MAX_SHOWN])


def holder_of(above: Sequence[Host], store: Store) -> int | None:
    """Return the pid of an ancestor that is the host of an open action in any namespace, or None."""
    if not above:
        return None
    holders = [action.host for action in store.live(None, (State.OPEN, State.QUEUED)) if action.host is not None]
    for ancestor in above:
        if any(
            holder.pid == ancestor.pid
            and holder.machine == ancestor.machine
            and abs(holder.started - ancestor.started) < _SAME_START
            for holder in holders
        ):
            return ancestor.pid
    return None


def _shown(command: list[str]) -> str:
    """Return the executable's file name, without arguments, which may contain secrets."""
    name = command[0].rpartition("/")[2] if command else "?"
    return "".join(character if character.isprintable() else "?" for character in name[:_MAX_NAME]) or "?"
